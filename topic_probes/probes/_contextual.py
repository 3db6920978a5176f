"""The contextual probe: are same-topic words of one document more alike, layer by layer?

What is read is the *residual stream* at each layer, one vector for each token: after layer l (TransformerLens'
``hook_resid_post``), and before the first layer (token embedding, positions and whatever norm follows them).
It is the vector that a layer hands on to the next one, the same that transformers calls ``hidden_states``;
only the last one of a decoder differs there, where the final norm is already in it and here is not. For
models with their norm after the layer (BERT and its kin) that vector is the *normed* one: a HookedEncoder keeps
it at ``hook_normalized_resid_post``, and calls ``hook_resid_post`` the sum before the norm, which is not used.

The labelled words of a row (a document, or a window of a long one) are compared with each other:

``dot``             ``x_i . x_j``
``cosine``          ``x_i . x_j / (|x_i| |x_j|)``
``centred_cosine``  the cosine of ``x_i - m`` and ``x_j - m``, where m is the mean vector of the row's *other* labelled
                    words at that layer, each different word with the same weight, however often it stands there

The streams of deep layers share a large direction, which makes any two words look alike; the mean takes it off. The
pair's own words are not in it: each would be drawn towards a mean that it is part of, by as much as it is part of it,
and documents repeat the words of their own topic, so that in an untrained model too same-topic pairs would differ
from cross-topic ones. A word of several tokens (``words="merge"``) has the mean of its tokens' vectors. Two places
where the same word stands are no pair, as in attention.

What the numbers do not show. A mean of few words is a rough one, and adds the same to all centred cosines of its row:
about 1/(n-1) with n different words. So their level says how many words rows have, and what can be read is the
difference of the classes, best inside rows (``to_frame("within_document")``). Rows of fewer than three different
labelled words have no centred cosine. What a rough mean of repeated words adds to one class more than to the other is
of the order of 1/n^2: 0.002 in untrained MiniLM over beginnings of articles. Same-topic words also stand nearer to
each other, and in a causal model the first tokens have streams of their own; the untrained twin says what the
architecture alone does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._axes import LongDocuments, WordPolicy
from .._errors import PatternError
from .._validation import require_count, require_one_of
from ..corpora import CorpusLike
from ..statistics import EmbeddingResult
from ..statistics._contextual import EMBEDDING_LAYER, LayerPairs
from ..statistics._sums import group_of
from ..statistics._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES
from ..tokens import Window
from ..topics import TopicLabels
from ._batches import Batch, batches
from ._corpus_for_model import corpus_for_model
from ._hooks import HookableModel, describe, device_of, embedding_matrix, mask_argument, require_probeable, run_until
from ._provenance import provenance
from ._twin import untrained_twin

# The first that a layer has: a HookedEncoder has both, and hands on the second.
_STREAMS = ("hook_normalized_resid_post", "hook_resid_post")
_STREAM_HOOK = re.compile(rf"blocks\.(\d+)\.({'|'.join(_STREAMS)})")
_EMBEDDING_HOOK = "blocks.0.hook_resid_pre"
_FEWEST_TO_CENTRE = 3
_ROUNDINGS = 64
"""After the mean was taken off, a square of no more than this many float64 roundings is zero."""
_LEAK = 1e-3
"""Change of the stream when only pads change, as a share of its largest number, above which the mask is ignored."""


def probe_contextual(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    tokenizer: Any = None,
    *,
    batch_size: int = 16,
    max_length: int | None = None,
    long_documents: LongDocuments = "window",
    words: WordPolicy = "whole",
    layers: Sequence[int | str] | None = None,
    weights: Literal["trained", "untrained"] = "trained",
    seed: int = 0,
    progress: bool = True,
) -> EmbeddingResult:
    """Compare the vectors of same-topic and cross-topic words within each document, layer by layer.

    The residual stream is read after each layer and before the first (see the module for which vector that is in
    which model), in float64 whatever the model's precision, and reduced to sums inside the hook: memory does not
    grow with the corpus, and at most one layer's stream is held. The model comes back as it was.

    Args:
        model: any TransformerLens model in evaluation mode.
        corpus: documents of text or of token ids; see :mod:`topic_probes.corpora`. A list will do.
        labels: topics of words (``TopicModel.label_words``) or of token ids (``TopicLabels.from_dict``).
        tokenizer: the model's own (``model.tokenizer``) unless given.
        batch_size: rows in a forward pass.
        max_length: tokens in a row, special tokens included; the model's context, at most 512, unless given.
        long_documents: ``"window"``, ``"truncate"``, ``"skip"`` or ``"error"``, see :func:`topic_probes.probe`.
        words: ``"whole"``: only words of exactly one token. ``"merge"``: words of several tokens too, each the mean
            of its tokens' vectors.
        layers: layers to read, negative ones from the end, and ``"embedding"`` for the stream before the first;
            None for that and all layers.
        weights: ``"untrained"`` measures the same architecture with freshly initialised weights instead, the
            baseline to hold the trained model against (the twin of :func:`topic_probes.probe` of the same ``seed``).
        seed: of the intervals' resamples, and of untrained weights.
        progress: show a progress bar on stderr.

    Returns:
        Mean and standard deviation of ``dot``, ``cosine`` and ``centred_cosine`` by layer and pair class over all
        unordered pairs within rows, with intervals over documents. ``layer`` is -1 for the stream before the first
        layer. ``matrix`` names the stream, and says whether the model's weights are raw or processed: centred
        weights take each vector's own mean off, which changes dot products and cosines.

    Raises:
        CorpusError: if the corpus is empty, has an id outside the vocabulary, or no two labelled words meet in it.
        PatternError: if the model has no such stream, or it never came; for an encoder-decoder, which has several.
        TypeError, ValueError: for a model that cannot be probed, or an option outside its range.

    Examples:
        result = topic_probes.probe_contextual(model, documents, labels)
        topic_probes.report.plot_layers(result.to_frame())
    """
    require_probeable(model)
    read = corpus_for_model(
        model, corpus, labels, tokenizer, words=words, max_length=max_length, long_documents=long_documents
    )
    require_count("batch_size", batch_size)
    require_one_of("weights", weights, ("trained", "untrained"))
    require_count("seed", seed, minimum=0)
    seed = int(seed)
    names = stream_hooks(model, layers)
    if weights == "untrained":
        model = untrained_twin(model, seed)
    counter = StreamCounter(names, labels)

    heeds_mask: bool | None = None
    with read.windows("Reading the stream", progress=progress) as windows:
        for batch in batches(windows, batch_size, read.pad_id, allow_padding=mask_argument(model) is not None):
            has_pads = not bool(batch.mask.all())
            if has_pads and heeds_mask is None:
                heeds_mask = _heeds_mask(model, batch, names)
            for part in batch.by_length() if has_pads and not heeds_mask else (batch,):
                counter.count_batch(model, part)
    read.require_pairs(bool(counter.totals.n_rows.any()), of="different labelled")

    stream = names[max(names)].rsplit(".", 1)[1] if max(names) != EMBEDDING_LAYER else "hook_resid_pre"
    # How the embedding was found says what was done to all weights that write to the stream.
    processing = "unknown weights"
    if hasattr(model, "W_E"):
        processing = embedding_matrix(model)[1].rpartition("(")[2].rstrip(")")
    return EmbeddingResult(
        pairs=counter.totals,
        topic_similarity=None,
        matrix=f"{stream} of {describe(model)} ({processing})",
        n_labelled=len(labels.topics_of),
        options=provenance(model, labels, corpus=read.documents.name, **read.options, weights=weights),
        tally=read.reader.tally.as_dict(),
        seed=seed,
    )


def stream_hooks(model: HookableModel, layers: Sequence[int | str] | None = None) -> dict[int, str]:
    """Return the hooks of the residual stream by layer, in running order; -1 is the stream before the first layer.

    Args:
        model: any TransformerLens model.
        layers: layers wanted, negative ones from the end, and ``"embedding"``; None for all that there are.

    Raises:
        PatternError: if the model has no such hooks, or not those of a layer that was asked for.
        TypeError, ValueError: if a layer is no layer.
    """
    found: dict[int, str] = {}
    for name in model.hook_dict:
        if match := _STREAM_HOOK.fullmatch(name):
            layer = int(match[1])
            if layer not in found or match[2] == _STREAMS[0]:
                found[layer] = name
    if not found:
        stacks = sorted({name.split(".")[0] for name in model.hook_dict if name.endswith(".hook_resid_post")})
        if len(stacks) > 1:
            raise PatternError(
                f"{describe(model)} has a residual stream in several stacks ({', '.join(stacks)}), and words in "
                "context are compared in models of one stack only: give an encoder or a decoder alone, or measure the "
                "attention of this one by topic_probes.probe"
            )
        raise PatternError(
            f"{describe(model)} has no residual stream to read: none of its hooks is called "
            "blocks.{layer}.hook_resid_post"
        )
    n_layers = max(found) + 1
    if _EMBEDDING_HOOK in model.hook_dict:
        found[EMBEDDING_LAYER] = _EMBEDDING_HOOK
    if layers is None:
        return dict(sorted(found.items()))
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise TypeError(f'layers must be a list, such as layers=["embedding", 0, -1], got {layers!r}')
    wanted = {_layer_number(layer, n_layers) for layer in layers}
    if not wanted:
        raise ValueError("layers must name at least one layer, or be None for all, got none")
    missing = sorted(wanted - set(found))
    if missing:
        name = "the stream before the first layer" if missing[0] == EMBEDDING_LAYER else f"layer {missing[0]}"
        raise PatternError(f"{describe(model)} has no hook for {name}; it has {sorted(found)}")
    return {layer: found[layer] for layer in sorted(wanted)}


def _layer_number(layer: Any, n_layers: int) -> int:
    if layer == "embedding":
        return EMBEDDING_LAYER
    if isinstance(layer, bool) or not isinstance(layer, Integral):
        raise TypeError(f'layers must be whole numbers, or "embedding", got {layer!r}')
    number = int(layer) + n_layers if layer < 0 else int(layer)
    if not 0 <= number < n_layers:
        raise ValueError(
            f"layers must be in [0, {n_layers}), or negative and counted from the end, or "
            f'"embedding" for the stream before the first, got {layer}'
        )
    return number


@dataclass
class _Row:
    """The labelled words of one row of a batch, and the pairs among them."""

    index: int
    """Which row of the batch it is."""
    group: int
    n_words: int
    tokens: Tensor
    """[piece] positions of the words' tokens, word by word."""
    word_of: Tensor | None
    """[piece] number of the word that each belongs to; None where each word is one token."""
    kind_of: Tensor
    """[word] number of the word among the row's different words."""
    pairs: Tensor
    """[2, pair] both words of each pair, the same-topic pairs first."""
    n_same: int
    moved: dict[torch.device, tuple[Tensor, Tensor | None, Tensor, Tensor]] = field(default_factory=dict)
    """Device -> the tensors there, so that layers share them."""

    def on(self, device: torch.device) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """Return tokens, word_of, kind_of and pairs on a device."""
        if device not in self.moved:
            word_of = None if self.word_of is None else self.word_of.to(device)
            self.moved[device] = self.tokens.to(device), word_of, self.kind_of.to(device), self.pairs.to(device)
        return self.moved[device]


def _plan(index: int, window: Window, labels: TopicLabels) -> _Row | None:
    """Return the labelled words of a row and their pairs; None if it has no pair."""
    member = labels.membership(window.words)
    labelled = np.flatnonzero(member.any(axis=1))
    number_of: dict[str | int, int] = {}
    number = np.array([number_of.setdefault(window.words[word], len(number_of)) for word in labelled], dtype=np.int64)
    first, second = np.triu_indices(len(labelled), 1)
    different = number[first] != number[second]
    first, second = first[different], second[different]
    if not len(first):
        return None
    topics = member[labelled].astype(np.float32)
    meet = (topics @ topics.T > 0)[first, second]
    order = np.argsort(~meet, kind="stable")
    pieces = (window.stops - window.starts)[labelled]
    offset = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return _Row(
        index=index,
        group=group_of(window.document_id),
        n_words=len(labelled),
        tokens=torch.from_numpy(np.repeat(window.starts[labelled], pieces) + offset),
        word_of=None if (pieces == 1).all() else torch.from_numpy(np.repeat(np.arange(len(labelled)), pieces)),
        kind_of=torch.from_numpy(number),
        pairs=torch.from_numpy(np.stack([first, second])[:, order]),
        n_same=int(meet.sum()),
    )


class StreamCounter:
    """Adds up the similarities of words in the residual stream, layer by layer, over any number of batches.

    Args:
        names: layer -> name of its hook.
        labels: topics of words or of token ids.
    """

    def __init__(self, names: dict[int, str], labels: TopicLabels) -> None:
        self.names = names
        self.labels = labels
        self.totals = LayerPairs.empty(tuple(names))

    def count_batch(self, model: HookableModel, batch: Batch) -> None:
        """Run a batch through a model and count it, whole or not at all.

        Raises:
            PatternError: if the stream of a layer never came, or has another shape than the batch.
        """
        rows = [row for index, window in enumerate(batch.windows) if (row := _plan(index, window, self.labels))]
        if not rows:
            return
        found: dict[int, list[tuple[np.ndarray, int]]] = {}

        def hook_of(layer: int) -> Any:
            def count(tensor: Tensor, *, hook: Any) -> None:
                if layer in found:
                    return  # a bridge in compatibility mode calls a hook once for each name that its hook point has
                _require_fitting(layer, tensor, batch)
                found[layer] = [_reduce(tensor.detach(), row) for row in rows]

            return count

        _run(model, batch.token_ids, batch.mask, {layer: hook_of(layer) for layer in self.names}, self.names)
        silent = sorted(set(self.names) - set(found))
        if silent:
            raise PatternError(
                f"the residual stream of layer {silent[0]} of {describe(model)} never came: pass layers= without it"
            )
        for layer, reduced in found.items():
            for row, (numbers, n_not_finite) in zip(rows, reduced, strict=True):
                counts, sums, squares = numbers
                self.totals.update(layer, row.group, counts.astype(np.int64), sums, squares, n_not_finite=n_not_finite)
        for row in rows:
            self.totals.add_row(row.group, row.n_words)


def _require_fitting(layer: int, tensor: Any, batch: Batch) -> None:
    shape = tuple(getattr(tensor, "shape", ()))
    if len(shape) != 3 or shape[:2] != tuple(batch.token_ids.shape):
        raise PatternError(
            f"the residual stream of layer {layer} must have shape [batch, pos, d_model] with [batch, pos] = "
            f"{tuple(batch.token_ids.shape)}, got {shape}"
        )


def _reduce(stream: Tensor, row: _Row) -> tuple[np.ndarray, int]:
    """Return [count sum squares, measure, pair_class] of one row at one layer, and how many words are not finite."""
    if stream.device.type == "mps":  # no float64 there
        stream = stream.cpu()
    tokens, word_of, kind_of, pairs = row.on(stream.device)
    vectors = stream[row.index, tokens].double()
    if word_of is not None:
        sums = vectors.new_zeros(row.n_words, vectors.shape[1]).index_add_(0, word_of, vectors)
        vectors = sums / torch.bincount(word_of, minlength=row.n_words)[:, None]
    finite = torch.isfinite(vectors).all(dim=1)
    n_not_finite = row.n_words - int(finite.sum())
    # NaN is how a word, and later a pair, says that it does not count.
    vectors[~finite] = torch.nan
    first, second = pairs
    directions = vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)  # NaN where a vector is zero
    values = torch.stack(
        [
            (vectors @ vectors.T)[first, second],
            (directions @ directions.T)[first, second],
            _centred_cosines(vectors, kind_of, first, second),
        ]
    )
    known = torch.isfinite(values)
    numbers = values.new_zeros(3, len(MEASURES), len(VECTOR_PAIR_CLASSES))
    for column, part in enumerate((slice(0, row.n_same), slice(row.n_same, None))):
        count = known[:, part].sum(dim=1).double()
        total = torch.where(known[:, part], values[:, part], 0.0).sum(dim=1)
        mean = total / count.clamp(min=1)
        deviations = torch.where(known[:, part], values[:, part] - mean[:, None], 0.0)
        numbers[0, :, column], numbers[1, :, column] = count, total
        numbers[2, :, column] = (deviations**2).sum(dim=1)
    return numbers.cpu().numpy(), n_not_finite


def _centred_cosines(vectors: Tensor, kind_of: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return [pair] the cosines from the mean of the row's other words; NaN where there is none, or no direction.

    With the mean of all n different words taken off first, their vectors u sum to zero, and the mean of all but
    those of the pair is -(u_i + u_j) / (n - 2). So all that is needed are products between places and words.
    """
    known = torch.isfinite(vectors[:, 0])
    kinds = kind_of[known]
    n_places = torch.bincount(kinds, minlength=len(vectors))
    n_kinds = int((n_places > 0).sum())
    if n_kinds < _FEWEST_TO_CENTRE:
        return torch.full(first.shape, torch.nan, dtype=vectors.dtype, device=vectors.device)
    weights = 1.0 / n_places[kinds].double()
    places = vectors - (weights @ vectors[known]) / n_kinds
    words = torch.zeros_like(vectors).index_add_(0, kinds, places[known] * weights[:, None])[kind_of]
    of_places, of_words, across = places @ places.T, words @ words.T, places @ words.T
    itself, share = across.diagonal(), 1.0 / (n_kinds - 2)
    common = share**2 * (of_words.diagonal()[first] + 2 * of_words[first, second] + of_words.diagonal()[second])
    with_both = itself[first] + across[first, second], itself[second] + across[second, first]
    product = of_places[first, second] + share * (with_both[0] + with_both[1]) + common
    squares = [
        of_places.diagonal()[word] + 2 * share * both + common
        for word, both in zip((first, second), with_both, strict=True)
    ]
    # What is left of a vector that equals the mean is the rounding of what was taken off.
    rounding = _ROUNDINGS * torch.finfo(vectors.dtype).eps * (vectors[known] ** 2).sum(dim=1).mean()
    no_direction = (squares[0] <= rounding) | (squares[1] <= rounding)
    cosines = product / (squares[0].clamp(min=0).sqrt() * squares[1].clamp(min=0).sqrt())
    return torch.where(no_direction, torch.nan, cosines.clamp(-1, 1))


def _run(model: HookableModel, token_ids: Tensor, mask: Tensor, hooks: dict[int, Any], names: dict[int, str]) -> None:
    """Run the model as far as the last stream that is wanted: no later layer, no unembedding, no gradient."""
    device = device_of(model)
    on_device = mask.to(device) if mask_argument(model) is not None else None
    fwd_hooks = [(names[layer], function) for layer, function in hooks.items()]
    run_until(model, token_ids.to(device), on_device, fwd_hooks, [names[max(names)]])


def _heeds_mask(model: HookableModel, batch: Batch, names: dict[int, str]) -> bool:
    """Return whether pads are hidden: the shortest row must not change when other tokens stand in their place."""
    last = max(names)
    if last == EMBEDDING_LAYER:
        return True
    mask = batch.mask[-1:]
    streams: list[Tensor] = []

    def keep(tensor: Tensor, *, hook: Any) -> None:
        streams.append(tensor.detach()[0, : int(mask.sum())].double().cpu())

    token_ids = batch.token_ids[-1:]
    pad_id = int(token_ids[0, -1])
    for filler in (pad_id, 0 if pad_id else 1):
        ids = torch.where(mask.bool(), token_ids, filler)
        _run(model, ids, mask, {last: keep}, {last: names[last]})
    change = (streams[-1] - streams[0]).nan_to_num().abs().max()
    return bool(change <= _LEAK * streams[0].nan_to_num().abs().max())
