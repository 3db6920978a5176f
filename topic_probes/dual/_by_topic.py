"""Do heads learn in context from words of the query's topic? Contributions to the output, by pair class.

A head's output is the sum of ``A_i v_i`` over the tokens it sees, and each term is one rank-one update of the dual
(science: section 8). Token i's *share* of the output along its own direction is ``A_i v_i . z / |z|^2``; shares of a
query add up to one. So a share is debiased as attention is (science: section 4): times the number of keys that the
query sees, over the pieces of the word. A head whose tokens all contribute alike is exactly 1 in every class, for any
length and any mask. That answers the question per token; summed over the tokens of a class, shares and the
length of the class's part ``|sum A_i v_i| / |z|`` answer it per query word.

Pair classes are those of :func:`topic_probes.probe`. Shares are signed: a class that works against the output is
negative, so classes are compared by their difference, not by a ratio.

What this does *not* show: same-topic words stand nearer to each other, and documents differ in their mix of topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._axes import PAIR_CLASSES, LongDocuments, Site, WordPolicy
from .._errors import CorpusError, PatternError
from .._progress import progress_bar
from .._validation import require_count, require_fraction, require_one_of
from ..corpora import CorpusLike, as_corpus
from ..probes._batches import Batch, batches
from ..probes._hooks import (
    describe,
    device_of,
    mask_argument,
    require_probeable,
    run_until_pattern,
    tokenizer_of,
)
from ..probes._pairs import WordPairs, classify, pair_weights
from ..probes._sides import Reach
from ..probes._visibility import Visibility
from ..statistics._intervals import METHODS, MIN_GROUPS, N_RESAMPLES, ConfidenceInterval, Statistic, interval
from ..statistics._sums import N_GROUPS, group_of
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._heads import attention_layers, by_head, part_names, require_heads, require_patterns

if TYPE_CHECKING:
    import pandas as pd

    from ._attach import HeadDual

CLASSES = (*PAIR_CLASSES, "special")
"""Classes of demonstration tokens; ``special`` are tokens like [CLS] and BOS."""

TOPICAL = ("same_topic", "cross_topic")
_SAME, _CROSS = (PAIR_CLASSES.index(name) for name in TOPICAL)
_MAX_LENGTH = 512
_LEAK = 1e-3


def head_by_topic(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy = "whole") -> pd.DataFrame:
    """Return a head's contributions summed by pair class; see :meth:`HeadDual.by_topic`.

    A token of no word (punctuation, numbers, under ``whole`` the pieces of a split word) counts as ``no_topic``, as
    does every ordinary token where the query itself is no word.
    """
    import pandas as pd

    kinds = _kinds_of(head, labels, tokenizer, words)
    ours = head.is_demonstration.numpy()
    at = {position: index for index, position in enumerate(head.contributions["position"])}
    log_weights = head.log_factors - (head.scale * head.keys @ head.query + head.log_factors).logsumexp(0)
    rows = []
    for number, name in enumerate(CLASSES):
        members = np.flatnonzero(ours & (kinds == number))
        terms = head.contributions.iloc[[at[head.positions[index]] for index in members]]
        keys, values = head.keys[members], head.values[members]
        rows.append(
            {
                "pair_class": name,
                "n_tokens": len(members),
                "attention": float(terms["attention"].sum()),
                "loss_term": float(terms["loss_term"].sum()),
                "update_norm": _norm_of_sum(keys, values, log_weights[members], head.scale),
                "output_norm": float((head.attention[members] @ values).norm()),
                "share": float(terms["share"].sum()),
            }
        )
    return pd.DataFrame(rows)


def head_classified(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy = "whole") -> pd.DataFrame:
    """Return a head's contributions with the pair class of each token; see :meth:`HeadDual.classified`."""
    import pandas as pd

    kinds = _kinds_of(head, labels, tokenizer, words)[head.is_demonstration.numpy()]
    classes = pd.Series([CLASSES[kind] for kind in kinds], dtype=object)
    return head.contributions.assign(pair_class=classes)


def _kinds_of(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy) -> np.ndarray:
    """Return [seen] the class, as an index into CLASSES, of each token that the query sees."""
    require_labels(labels)
    require_one_of("words", words, ("whole", "merge"))
    reader = DocumentReader(tokenizer, words=words, of_words=labels.of_words)
    window = reader.row("tokens", np.array(head.token_ids, dtype=np.int64))
    return np.array(_kinds_for(window, labels, head.query_position))[list(head.positions)]


def _norm_of_sum(keys: Tensor, values: Tensor, log_weights: Tensor, scale: float) -> float:
    """Return ``|sum_i w_i v_i phi(k_i)^T|`` (Frobenius): its square is ``sum_ij w_i w_j v_i.v_j K(k_i, k_j)``."""
    if len(keys) == 0:
        return 0.0
    exponents = log_weights[:, None] + log_weights[None, :] + scale * keys @ keys.T
    top = exponents.max()
    square = ((exponents - top).exp() * (values @ values.T)).sum().clamp(min=0)
    return float(square.sqrt() * (top / 2).exp())


def _kinds_for(window: Window, labels: TopicLabels, query: int) -> list[int]:
    """Return [pos] the class, as an index into CLASSES, of each token for a query at one position."""
    pairs = classify(window, labels)
    word_at = np.full(len(window), -1)
    for number, (start, stop) in enumerate(zip(window.starts.tolist(), window.stops.tolist(), strict=True)):
        word_at[start:stop] = number
    kinds = np.full(len(window), PAIR_CLASSES.index("no_topic"))
    if word_at[query] >= 0:
        of_word = word_at >= 0
        kinds[of_word] = pairs.classes[word_at[query], word_at[of_word]]
    kinds[window.is_special] = CLASSES.index("special")
    return kinds.tolist()


@dataclass(frozen=True, eq=False)
class ContributionsByTopic:
    """Contributions of same- and cross-topic tokens to the outputs of heads: see :func:`contributions_by_topic`."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    shares: Float[np.ndarray, "layer head group class"]
    """[layer, head, group, 2] sums over (query, key) pairs of debiased shares; classes same_topic and cross_topic."""
    attention: Float[np.ndarray, "layer head group class"]
    """[layer, head, group, 2] the same of attention, which is what :func:`topic_probes.probe` adds up."""
    pairs: Int[np.ndarray, "layer group class"]
    """[layer, group, 2] numbers of pairs."""
    outputs: Float[np.ndarray, "layer head group class"]
    """[layer, head, group, 2] sums over query words of a class's whole share of the output."""
    norms: Float[np.ndarray, "layer head group class"]
    """[layer, head, group, 2] sums over query words of ``|sum over the class of A_i v_i| / |z|``."""
    queries: Int[np.ndarray, "layer group class"]
    """[layer, group, 2] query tokens that see at least one token of the class."""
    n_silent: Int[np.ndarray, "layer head"]
    """[layer, head] query tokens left out because the head put out nothing (``z = 0``)."""
    tally: Mapping[str, int]
    """What became of the documents, as in :class:`topic_probes.AttentionResult`."""
    options: Mapping[str, Any]
    """How it was measured."""
    seed: int
    """Seed of the intervals' resamples."""

    def __repr__(self) -> str:
        same, cross = self.pairs.sum(1).max(0)
        return (
            f"ContributionsByTopic({len(self.layers)} layers, {len(self.heads)} heads of {self.options['model']}, "
            f"{self.tally['n_documents']} documents, {same:,} same-topic and {cross:,} cross-topic pairs)"
        )

    def to_frame(self, *, level: float = 0.95, method: str = "t", n_resamples: int = N_RESAMPLES) -> pd.DataFrame:
        """Return one row per layer and head.

        Columns: ``layer head n_documents n_same_topic n_cross_topic``; ``same_topic cross_topic difference`` with
        ``_low`` and ``_high``: mean share of the output for a token of the class, in units where a head whose tokens
        contribute alike has 1; ``attention_same_topic attention_cross_topic`` in units of uniform attention = 1;
        ``output_same_topic output_cross_topic``: mean over query words of the class's whole share;
        ``norm_same_topic norm_cross_topic``: mean over query words of the length of the class's part, output = 1. NaN
        where a class is empty; intervals are NaN with pairs in fewer than 8 groups of documents.

        Args:
            level: of the intervals over documents.
            method: ``"t"``, ``"bca"`` or ``"percentile"``, as for :class:`topic_probes.AttentionResult`.
            n_resamples: resamples of the last two.
        """
        import pandas as pd

        shape = len(self.layers), len(self.heads)
        columns: dict[str, Any] = {
            "layer": np.repeat(self.layers, shape[1]),
            "head": np.tile(self.heads, shape[0]),
            "n_documents": self.tally["n_documents"],
        }
        pairs = self.pairs.sum(1)
        for number, name in enumerate(TOPICAL):
            columns[f"n_{name}"] = np.repeat(pairs[:, number], shape[1])
        values = _with_difference(_means(self.shares.sum(2), pairs))
        ends = [self._interval(self._of_layer(index), level, method, n_resamples) for index in range(shape[0])]
        low, high = (
            np.stack([np.broadcast_to(one, values.shape[1:]) for one in end]) for end in zip(*ends, strict=True)
        )
        for number, name in enumerate((*TOPICAL, "difference")):
            columns[name] = values[..., number].ravel()
            columns[f"{name}_low"], columns[f"{name}_high"] = low[..., number].ravel(), high[..., number].ravel()
        queries = self.queries.sum(1)
        for kind, sums, counts in (
            ("attention", self.attention, pairs),
            ("output", self.outputs, queries),
            ("norm", self.norms, queries),
        ):
            mean = _means(sums.sum(2), counts)
            for number, name in enumerate(TOPICAL):
                columns[f"{kind}_{name}"] = mean[..., number].ravel()
        return pd.DataFrame(columns)

    def headline(
        self,
        *,
        heads: Any = None,
        level: float = 0.95,
        method: str = "t",
        n_resamples: int = N_RESAMPLES,
    ) -> dict[str, float]:
        """Return the mean over heads of ``same_topic``, ``cross_topic`` and ``difference``, with intervals.

        Args:
            heads: pairs (layer, head) to average over; None for all. Choose them on other documents, or the
                interval says too much.
            level: of the intervals over documents.
            method: as for :meth:`to_frame`.
            n_resamples: as for :meth:`to_frame`.

        Raises:
            ValueError: if ``heads`` is empty or names a head that was not measured.
        """
        chosen = self._chosen(heads)

        def statistic(weights: np.ndarray) -> np.ndarray:
            sums = np.einsum("rg,lhgc->rlhc", weights, self.shares[:, :, self._used], optimize=True)
            counts = np.einsum("rg,lgc->rlc", weights, self.pairs[:, self._used], optimize=True)
            means = np.where(chosen[..., None], _means(sums, counts), np.nan)
            there = np.isfinite(means)
            totals, n_heads = np.where(there, means, 0.0).sum((1, 2)), there.sum((1, 2))
            return _with_difference(totals / np.where(n_heads == 0, np.nan, n_heads))

        found = statistic(np.ones((1, len(self._used))))[0]
        low, high = (np.broadcast_to(end, 3) for end in self._interval(statistic, level, method, n_resamples))
        return {
            f"{name}{end}": float(values[number])
            for number, name in enumerate((*TOPICAL, "difference"))
            for end, values in (("", found), ("_low", low), ("_high", high))
        }

    def _chosen(self, heads: Any) -> np.ndarray:
        """Return [layer, head] whether a head was named."""
        shape = len(self.layers), len(self.heads)
        if heads is None:
            return np.ones(shape, dtype=bool)
        chosen = np.zeros(shape, dtype=bool)
        for one in heads:
            try:
                layer, head = (int(number) for number in one)
            except (TypeError, ValueError) as error:
                raise TypeError(f"heads must be pairs (layer, head), got {one!r}") from error
            if layer not in self.layers or head not in self.heads:
                raise ValueError(
                    f"heads must name heads that were measured (layers {self.layers}, heads {self.heads}), got "
                    f"{(layer, head)}"
                )
            chosen[self.layers.index(layer), self.heads.index(head)] = True
        if not chosen.any():
            raise ValueError("heads must name at least one (layer, head), or be None for all, got none")
        return chosen

    @property
    def _used(self) -> np.ndarray:
        """The groups that have pairs."""
        return np.flatnonzero(self.pairs.any(axis=(0, 2)))

    def _of_layer(self, index: int) -> Statistic:
        def statistic(weights: np.ndarray) -> np.ndarray:
            sums = np.einsum("rg,hgc->rhc", weights, self.shares[index][:, self._used], optimize=True)
            counts = np.einsum("rg,gc->rc", weights, self.pairs[index][self._used], optimize=True)
            return _with_difference(_means(sums, counts))

        return statistic

    def _interval(self, statistic: Statistic, level: float, method: str, n_resamples: int) -> ConfidenceInterval:
        """Return the interval of a statistic of the groups that have pairs; NaN if they are few."""
        require_fraction("level", level)
        require_count("n_resamples", n_resamples)
        require_one_of("method", method, METHODS)
        if (self.pairs > 0).any(axis=0).sum(axis=0).min() < MIN_GROUPS:
            return ConfidenceInterval(np.nan, np.nan)
        used = self._used
        pairs = self.pairs[:, used].sum(axis=0)
        return interval(
            statistic,
            len(used),
            level=level,
            method=method,
            n_resamples=n_resamples,
            seed=self.seed,
            of_ratio=False,
            shares=(pairs / pairs.sum(axis=0)).mean(axis=1),
        )


def _with_difference(means: np.ndarray) -> np.ndarray:
    """Return [..., 3]: the means of both classes, and the first less the second."""
    return np.concatenate([means, means[..., :1] - means[..., 1:]], axis=-1)


def _means(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return [..., head, class] sums over counts [..., class]; NaN where nothing was counted."""
    counts = np.where(counts == 0, np.nan, counts)[..., None, :]
    return sums / counts


def contributions_by_topic(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    *,
    tokenizer: Any = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    batch_size: int = 16,
    max_length: int | None = None,
    long_documents: LongDocuments = "window",
    words: WordPolicy = "whole",
    seed: int = 0,
    progress: bool = True,
) -> ContributionsByTopic:
    """Measure how much same- and cross-topic tokens contribute to each head's output, over a corpus.

    One pass, reduced inside the hooks: at most one layer's pattern and values are alive. Demonstrations of a
    query are all tokens that it sees but itself; the query's own token is ``same_token`` and so in neither class.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        corpus: documents of text or of token ids, as for :func:`topic_probes.probe`.
        labels: topics of words or of token ids.
        tokenizer: the model's own (``model.tokenizer``) unless given.
        layers: layers to measure, negative ones from the end; None for all that have attention.
        heads: heads to measure in each of them; None for all.
        batch_size: rows in a forward pass.
        max_length: tokens in a row; the model's context, at most 512, unless given.
        long_documents: ``"window"``, ``"truncate"``, ``"skip"`` or ``"error"``, as for :func:`topic_probes.probe`.
        words: ``"whole"`` or ``"merge"``, as for :func:`topic_probes.probe`.
        seed: of the intervals' resamples.
        progress: show a progress bar on stderr.

    Returns:
        Sums by head and group of documents, with ``to_frame()`` and ``headline()``.

    Raises:
        CorpusError: if no two labelled words of different spelling met.
        PatternError: if the model hands out no pattern or no values, or attends to masked pads.
        TypeError, ValueError: for a model that cannot be hooked, or an option outside its range.
    """
    require_labels(labels)
    require_count("batch_size", batch_size)
    require_count("seed", seed, minimum=0)
    require_one_of("words", words, ("whole", "merge"))
    require_one_of("long_documents", long_documents, ("window", "truncate", "skip", "error"))
    require_probeable(model)
    names = attention_layers(model, layers)
    chosen = require_heads(heads, int(model.cfg.n_heads))
    documents = as_corpus(corpus)
    tokenizer = tokenizer_of(model, tokenizer)
    context = getattr(model.cfg, "n_ctx", None) or _MAX_LENGTH
    if max_length is not None:
        require_count("max_length", max_length)
        if max_length > context:
            raise ValueError(f"max_length must be at most the model's context of {context} tokens, got {max_length}")
    reader = DocumentReader(
        tokenizer,
        words=words,
        of_words=labels.of_words,
        max_length=max_length or min(context, getattr(tokenizer, "model_max_length", context), _MAX_LENGTH),
        long_documents=long_documents,
        n_vocabulary=getattr(model.cfg, "d_vocab", None),
    )
    counter = _Counter(tuple(names), chosen, labels)
    pad_id = getattr(tokenizer, "pad_token_id", None) or 0
    windows = (
        window
        for document in progress_bar(
            documents, description="contributions", unit="documents", total=documents.expected, enabled=progress
        )
        for window in reader.windows(document)
    )
    takes_mask = mask_argument(model) is not None
    heeds_mask = True
    for batch in batches(
        windows, batch_size, pad_id if pad_id < getattr(model.cfg, "d_vocab", 0) else 0, allow_padding=takes_mask
    ):
        if heeds_mask:
            try:
                _run(model, batch, counter, names)
                continue
            except _MaskIgnoredError:  # some models take a mask and do not heed it: no pads for them
                heeds_mask = False
        for part in batch.by_length():
            _run(model, part, counter, names)
    if not counter.pairs.any():
        raise CorpusError(
            f"no two labelled words met in the corpus {documents.name!r}: check that labels and corpus are of one "
            'language, read more of long documents, or pass words="merge"'
        )
    return ContributionsByTopic(
        layers=counter.layers,
        heads=tuple(chosen),
        **{name: getattr(counter, name) for name in _SUMS},
        tally=reader.tally.as_dict(),
        options={
            "model": describe(model),
            "labels": labels.fingerprint(),
            "corpus": documents.name,
            "words": words,
            "max_length": reader.max_length,
            "long_documents": long_documents,
        },
        seed=seed,
    )


class _MaskIgnoredError(PatternError):
    """A model attends to positions that its mask hides."""


_SUMS = ("shares", "attention", "pairs", "outputs", "norms", "queries", "n_silent")


@dataclass
class _Counter:
    """The sums, and what is known of the batch at hand."""

    layers: tuple[int, ...]
    chosen: list[int]
    labels: TopicLabels
    rows: list[tuple[int, WordPairs, int]] = field(default_factory=list)
    """Of the batch at hand: (row, its pairs, its group)."""
    values: dict[int, Tensor] = field(default_factory=dict)
    fired: set[int] = field(default_factory=set)
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        n_layers, n_heads = len(self.layers), len(self.chosen)
        self.shares, self.attention, self.outputs, self.norms = (
            np.zeros((n_layers, n_heads, N_GROUPS, 2)) for _ in range(4)
        )
        self.pairs, self.queries = (np.zeros((n_layers, N_GROUPS, 2), dtype=np.int64) for _ in range(2))
        self.n_silent = np.zeros((n_layers, n_heads), dtype=np.int64)
        self.visibility = {layer: Visibility() for layer in self.layers}

    def begin(self, batch: Batch) -> None:
        """Take the rows of the next batch."""
        self.drop()
        for number, window in enumerate(batch.windows):
            self.rows.append((number, classify(window, self.labels), group_of(window.document_id)))

    def drop(self) -> None:
        """Forget the batch."""
        self.rows, self.values, self.pending, self.fired = [], {}, [], set()

    def end(self) -> None:
        """Add the batch to the sums: whole, or not at all."""
        for index, group, found in self.pending:
            shares, attention, pairs, outputs, norms, queries, silent = found
            self.shares[index, :, group] += shares
            self.attention[index, :, group] += attention
            self.pairs[index, group] += pairs
            self.outputs[index, :, group] += outputs
            self.norms[index, :, group] += norms
            self.queries[index, group] += queries
            self.n_silent[index] += silent
        self.drop()

    def count(self, layer: int, pattern: Tensor) -> None:
        """Count one layer of the batch, whose values came before its pattern."""
        if layer in self.fired:
            return  # a bridge in compatibility mode calls a hook once for each name of its hook point
        self.fired.add(layer)
        if layer not in self.values:
            raise PatternError(f"the values of layer {layer} (hook_v) did not come before its pattern: they are needed")
        n_heads = pattern.shape[1]
        given = self.values.pop(layer)
        d_head = given.shape[-1] if given.ndim == 4 else 0
        if not d_head:
            raise PatternError(f"the values of layer {layer} must have shape [batch, pos, head, d_head]")
        values = by_head(given, n_heads, d_head)
        visibility = self.visibility[layer]
        blocks = []
        for number, pairs, _ in self.rows:
            block = pattern[number, :, : len(pairs.window), : len(pairs.window)].detach().cpu().double()
            if float((pattern[number, :, : len(pairs.window)].double().cpu().sum(-1) - block.sum(-1)).max()) > _LEAK:
                raise _MaskIgnoredError(f"layer {layer} attends to padding that the mask hides")
            blocks.append(block)
        if max((pairs.query.span for _, pairs, _ in self.rows), default=0) > visibility.longest:
            visibility.learn(layer, blocks)
        index = self.layers.index(layer)
        for (number, pairs, group), block in zip(self.rows, blocks, strict=True):
            part = values[number, :, : len(pairs.window)].detach().cpu().double()
            reach = visibility.reach
            self.pending.append((index, group, _row_sums(block[self.chosen], part[self.chosen], pairs, reach)))


def _run(model: Any, batch: Batch, counter: _Counter, names: dict[int, str]) -> None:
    device = device_of(model)
    counter.begin(batch)
    hooks: dict[Site, Any] = {}
    all_names: dict[Site, str] = {}
    for layer, name in names.items():
        # Values under negative numbers: the pass stops at the last site, which is then the last pattern.
        for site, part_name, hook in (
            (Site("", -1 - layer), part_names(model, layer)["v"], _keep_values(counter, layer)),
            (Site("", layer), name, _count_pattern(counter, layer)),
        ):
            all_names[site], hooks[site] = part_name, hook
    mask = batch.mask.to(device) if mask_argument(model) is not None else None
    run_until_pattern(model, batch.token_ids.to(device), mask, hooks, all_names)
    require_patterns(model, names, counter.fired)
    counter.end()


def _keep_values(counter: _Counter, layer: int) -> Any:
    def keep(tensor: Tensor, *, hook: Any) -> None:
        counter.values[layer] = tensor.detach()

    return keep


def _count_pattern(counter: _Counter, layer: int) -> Any:
    def count(tensor: Tensor, *, hook: Any) -> None:
        counter.count(layer, tensor)

    return count


def _row_sums(pattern: Tensor, values: Tensor, pairs: WordPairs, reach: Reach) -> tuple[Any, ...]:
    """Return one row's sums, in the order of ``_SUMS``.

    Args:
        pattern: [head, query_pos, key_pos]
        values: [head, key_pos, d_head]
        pairs: the words of the row.
        reach: how far back and ahead a query sees.
    """
    pattern = pattern.nan_to_num()
    outputs = pattern @ values
    square = outputs.square().sum(-1)
    alive = square > 0
    safe = torch.where(alive, square, 1.0)
    shares = pattern * (outputs @ values.transpose(-1, -2)) / safe[..., None] * alive[..., None]
    usable = (pattern != 0).any(-1).any(0)
    planned = pair_weights(pairs, reach, None if bool(usable.all()) else usable.numpy())
    weights = torch.from_numpy(planned.weights[[_SAME, _CROSS]])
    members = weights > 0
    has = members.any(-1)
    by_class = torch.einsum("hqk,cqk->hqc", shares, members.double())
    lengths = torch.stack([(pattern * member) @ values for member in members], dim=-1).norm(dim=2)
    lengths = lengths / safe.sqrt()[..., None] * alive[..., None]
    return (
        torch.einsum("hqk,cqk->hc", shares, weights).numpy(),
        torch.einsum("hqk,cqk->hc", pattern, weights).numpy(),
        planned.counts[[_SAME, _CROSS]],
        (by_class * has.T.double()).sum(1).numpy(),
        (lengths * has.T.double()).sum(1).numpy(),
        has.sum(-1).numpy(),
        (~alive & has.any(0)).sum(-1).numpy(),
    )
