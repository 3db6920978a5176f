"""``with attach(model, labels) as probe:`` any forward pass in the block is counted."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor

from .._axes import Site, WordPolicy
from .._errors import PatternError
from .._validation import require_count, require_one_of
from ..corpora._document import content_id
from ..statistics import AttentionResult
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._counting import PatternCounter
from ._decoder import config_of, shifted_window, starting
from ._hooks import (
    arguments_of_call,
    mask_argument,
    mask_of_call,
    pattern_hooks,
    require_all_fired,
    require_probeable,
    tokenizer_of,
)
from ._observing import observed
from ._provenance import fingerprint_of_counts, provenance
from ._real_positions import positions_of, real_by_id, real_in_shifted
from ._rows import N_PERMUTATIONS, BatchRows, PairMeasures, keeps_topics, require_word_counts


def attach(
    model: Any,
    labels: TopicLabels,
    tokenizer: Any = None,
    *,
    words: WordPolicy = "whole",
    layers: Sequence[int] | None = None,
    visibility: Literal["read", "causal", "bidirectional"] = "read",
    n_permutations: int = N_PERMUTATIONS,
    word_counts: Mapping[Any, int] | None = None,
    topic_matrices: bool | None = None,
    seed: int = 0,
) -> AttachedProbe:
    """Return a context manager that counts every forward pass in its block, whoever makes it.

    Each row of a batch is one document. Text, token ids, ``run_with_hooks`` and ``run_with_cache``
    are all counted; the attention mask is read from the call, under the name that the model knows.
    Without a mask, positions with the pad id that no real token attends to are pads.

    Of an encoder-decoder (BART, opened as a TransformerBridge) both texts are read off the call, and the frame tells
    apart encoder, decoder and cross-attention by its column ``stack``. Where the caller gives the decoder nothing to
    read, what the model makes of the encoder's ids is counted: the same text shifted right, without its last token.
    Where the caller gives it pads, they are told by ``decoder_attention_mask``, or else by id.

    What is counted is the pattern that the model goes on with: after the hooks that ``run_with_hooks`` or
    the caller put on it. (Some bridges of TransformerLens 4 go on with their own and warn that such a hook came too
    late.) :func:`probe` within the block counts for itself, and not for this probe: its passes end
    at the last pattern that is wanted. Blocks on one model may be nested and may end in any order. One pass at a
    time: a second thread, or a hook that calls the model, is refused.

    Args:
        model: any TransformerLens model in evaluation mode.
        labels: topics of words, or of token ids.
        tokenizer: the model's own (``model.tokenizer``) unless given; not needed for labels of token ids.
        words: ``"whole"`` or ``"merge"``, see :func:`probe`.
        layers: layers to count, negative ones from the end, in every stack; None for all that have attention.
        visibility: which keys a query may see, see :func:`probe`.
        n_permutations: permutations of the labels behind p- and q-values; 0 for none.
        word_counts: word (or token id) -> occurrences, to match pairs by frequency, see :func:`probe`.
        topic_matrices: whether to keep attention by topic of query and key, see :func:`probe`.
        seed: of the permutations and of the intervals' resamples.

    Raises:
        TypeError, ValueError: for a model that cannot be hooked or has a module in training mode.
        PatternError: in a forward pass that cannot be counted, such as one whose pattern never came. A pass that
            fails is not counted.

    Examples:
        with topic_probes.attach(model, labels) as probe:
            model(tokens, attention_mask=mask)
        probe.result().headline()
    """
    return AttachedProbe(
        model,
        labels,
        tokenizer,
        words=words,
        layers=layers,
        visibility=visibility,
        n_permutations=n_permutations,
        word_counts=word_counts,
        topic_matrices=topic_matrices,
        seed=seed,
    )


class AttachedProbe:
    """A probe on a model: see :func:`attach`, which makes it."""

    def __init__(
        self,
        model: Any,
        labels: TopicLabels,
        tokenizer: Any,
        *,
        words: WordPolicy,
        layers: Sequence[int] | None,
        visibility: Literal["read", "causal", "bidirectional"],
        n_permutations: int,
        word_counts: Mapping[Any, int] | None,
        topic_matrices: bool | None,
        seed: int,
    ) -> None:
        require_labels(labels)
        require_one_of("words", words, ("whole", "merge"))
        require_one_of("visibility", visibility, ("read", "causal", "bidirectional"))
        require_count("seed", seed, minimum=0)
        require_count("n_permutations", n_permutations, minimum=0)
        n_permutations, seed = int(n_permutations), int(seed)
        require_word_counts(word_counts, labels)
        require_probeable(model)
        self._model = model
        self._names, unavailable = pattern_hooks(model, layers)
        self._unavailable = tuple(site.key for site in unavailable)
        self._reader = DocumentReader(tokenizer_of(model, tokenizer), words=words, of_words=labels.of_words)
        self._measures = PairMeasures(
            labels,
            n_permutations=n_permutations,
            seed=seed,
            topic_matrices=keeps_topics(topic_matrices, model, len(self._names), labels),
            word_counts=word_counts,
        )
        self._counter = PatternCounter(tuple(self._names), self._measures, visibility)
        self._options = provenance(
            model,
            labels,
            words=words,
            visibility=visibility,
            n_permutations=n_permutations,
            word_counts=fingerprint_of_counts(word_counts),
        )
        self._seed = seed
        self._stack = ExitStack()
        self._ids: Tensor | None = None
        self._decoder_ids: Tensor | None = None
        self._mask: Tensor | None = None
        self._decoder_mask: Tensor | None = None
        self._rows: _Rows | None = None
        self._has_decoder_rows = False
        self._given: dict[str, Any] = {}
        self._stops_at: Any = None
        self._attached = self._warned = False
        self._tally = replace(self._reader.tally)

    def __enter__(self) -> AttachedProbe:
        if self._attached:
            raise RuntimeError("this probe is attached already: leave its with block first, or attach another probe")
        require_probeable(self._model)
        hooks = [(name, self._hook(site)) for site, name in self._names.items()]
        self._stack.enter_context(observed(self._model, hooks, self))
        self._attached = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        self._attached = False

    def result(self) -> AttentionResult:
        """Return what was counted so far.

        Raises:
            PatternError: if no forward pass was.
        """
        if self._counter.totals is None:
            raise PatternError("no forward pass was counted: run the model inside the with block")
        return AttentionResult(
            totals=copy.deepcopy(self._counter.totals),
            tally=self._reader.tally.as_dict(),
            visibility={site.key: str(seen) for site, seen in self._counter.visibility.items()},
            unavailable_layers=self._unavailable,
            options=dict(self._options),
            seed=self._seed,
        )

    def before_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a forward pass of the model (called by the observer)."""
        require_probeable(self._model)
        self._tally = replace(self._reader.tally)
        self._counter.drop_batch()
        self._mask = mask_of_call(self._model, args, kwargs)
        self._decoder_mask = mask_of_call(self._model, args, kwargs, of_decoder=True)
        self._given = arguments_of_call(self._model, args, kwargs)
        self._stops_at = self._given.get("stop_at_layer")
        self._ids = self._decoder_ids = self._rows = None
        self._has_decoder_rows = False

    def on_ids(self, token_ids: Tensor) -> None:
        """Take the token ids that are about to be embedded (called by the observer)."""
        if torch.is_floating_point(token_ids):
            raise PatternError("attach needs token ids, and the model was given embeddings")
        self._ids = token_ids.detach()

    def on_decoder_ids(self, token_ids: Tensor) -> None:
        """Take the token ids that the decoder of an encoder-decoder is about to embed (called by the observer)."""
        self._decoder_ids = token_ids.detach()

    def check_call(self) -> None:
        """Raise unless every pattern came in the pass that has ended (called by the observer)."""
        silent = sorted(set(self._names) - self._counter.fired, key=lambda site: site.when)
        if silent and self._stops_at is not None:
            raise PatternError(
                f"the pass stopped (stop_at_layer={self._stops_at}) before the attention pattern of layer {silent[0]}: "
                "run the whole model, or name the layers to count by attach(layers=)"
            )
        require_all_fired(self._model, self._names, self._counter.fired)

    def after_call(self) -> None:
        """Count the pass that has ended (called by the observer)."""
        self._counter.end_batch()
        self._forget()

    def call_failed(self) -> None:
        """Forget the pass, which ended by an exception (called by the observer)."""
        self._counter.drop_batch()
        self._reader.tally = self._tally
        self._forget()

    def _forget(self) -> None:
        self._mask = self._decoder_mask = self._ids = self._decoder_ids = self._rows = None
        self._given = {}

    def _hook(self, site: Site) -> Any:
        def count(tensor: Tensor, *, hook: Any) -> None:
            if self._rows is None:
                self._rows = self._begin(site, tensor)
            if site.stack in ("decoder", "cross") and not self._has_decoder_rows:
                self._begin_decoder(site, tensor, self._rows)
                self._has_decoder_rows = True
            self._counter.count(site, tensor)

        return count

    def _begin(self, site: Site, pattern: Tensor) -> _Rows:
        """Take the rows of this forward pass (in an encoder-decoder those of the encoder), at its first pattern."""
        if self._ids is None:
            raise PatternError(
                "attach needs token ids, and this forward pass embedded none: run the whole model on ids or text, and "
                "generate outside the block"
            )
        ids = self._ids.reshape(-1, self._ids.shape[-1]).cpu()
        own = site.stack in ("", "encoder")
        if own:
            self._require_fitting(pattern, ids, ids.shape[-1], self._mask)
        if self._mask is not None:
            real = self._mask.reshape(ids.shape).cpu() != 0
        else:
            pad, spared = self._pad()
            # No pattern of the encoder is wanted: then its pads are told by their id alone.
            among = pattern if own else torch.zeros((len(ids), 1, ids.shape[-1], ids.shape[-1]))
            real, n_attended = real_by_id(ids, pad, among, spared)
            self._warn_of_pads(n_attended, mask_argument(self._model))
        windows: list[Window | None] = []
        for row, is_real in zip(ids, real, strict=True):
            tokens = row[is_real].numpy()
            if len(tokens) == 0:
                self._reader.tally.n_empty += 1
            windows.append(self._reader.row(content_id(tuple(tokens.tolist())), tokens) if len(tokens) else None)
        rows = BatchRows(windows, [positions_of(is_real, pattern.device) for is_real in real], self._measures)
        self._counter.begin_batch(rows)
        return _Rows(ids, real, windows, rows)

    def _begin_decoder(self, site: Site, pattern: Tensor, source: _Rows) -> None:
        """Take the decoder's rows of this forward pass, at its first pattern in the decoder."""
        if self._decoder_ids is None or torch.is_floating_point(self._decoder_ids):
            raise PatternError(
                "attach needs the token ids of the decoder, and this forward pass embedded none there: pass "
                "decoder_input_ids= instead of embeddings"
            )
        ids = self._decoder_ids.reshape(-1, self._decoder_ids.shape[-1]).cpu()
        n_keys = ids.shape[-1] if site.stack == "decoder" else source.ids.shape[-1]
        self._require_fitting(pattern, ids, n_keys, self._decoder_mask)
        if len(ids) != len(source.ids):
            raise PatternError(
                f"the decoder must have one row for each of the encoder, got {len(ids)} and {len(source.ids)}: "
                "generation cannot be counted, run both whole texts through the model instead"
            )
        given = any(self._given.get(name) is not None for name in ("decoder_input_ids", "decoder_input", "labels"))
        if self._decoder_mask is not None:
            real = self._decoder_mask.reshape(ids.shape).cpu() != 0
        elif not given:
            real = real_in_shifted(source.real)
        else:
            pad, (begins, ends) = self._pad()
            if pad is None and self._given.get("labels") is not None:  # the model has put its own in place of -100
                pad = config_of(self._model, "pad_token_id")
            start = config_of(self._model, "decoder_start_token_id")
            among = pattern if site.stack == "decoder" else torch.zeros((len(ids), 1, ids.shape[-1], ids.shape[-1]))
            real, n_attended = real_by_id(ids, pad, among, (max(begins, int(pad == start)), ends))
            self._warn_of_pads(n_attended, "decoder_attention_mask")
        windows = [
            self._decoder_window(row[is_real].numpy(), window)
            for row, is_real, window in zip(ids, real, source.windows, strict=True)
        ]
        source.rows.add_decoder(windows, [positions_of(is_real, pattern.device) for is_real in real], None)

    def _decoder_window(self, tokens: Any, source: Window | None) -> Window | None:
        """Return a row of the decoder; it belongs to the document of the encoder's row."""
        if len(tokens) == 0:
            return None
        start = config_of(self._model, "decoder_start_token_id")
        if source is not None and start is not None:
            shifted = shifted_window(source, int(start))
            if tokens.tolist() == shifted.token_ids.tolist():
                return shifted
        tally = replace(self._reader.tally)  # a document counts once, where the encoder reads it
        name = content_id(tuple(tokens.tolist())) if source is None else source.document_id
        window = self._reader.row(name, tokens)
        self._reader.tally = tally
        return starting(window) if int(tokens[0]) == start else window

    def _require_fitting(self, pattern: Tensor, ids: Tensor, n_keys: int, mask: Tensor | None) -> None:
        n_rows, length = ids.shape
        fits = pattern.ndim == 4 and (pattern.shape[0], *pattern.shape[2:]) == (n_rows, length, n_keys)
        if not fits or (mask is not None and mask.numel() != ids.numel()):
            raise PatternError(
                f"a pattern of shape {tuple(pattern.shape)} and the model's mask do not fit token ids of shape "
                f"{tuple(ids.shape)}: generation with a key-value cache cannot be counted, run the whole text through "
                "the model instead"
            )

    def _pad(self) -> tuple[int | None, tuple[int, int]]:
        """Return the tokenizer's pad id, and how often it may stand before and after a text without being a pad."""
        tokenizer = self._reader.tokenizer
        pad = getattr(tokenizer, "pad_token_id", None)
        also = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "sep")}
        spared = 1 if pad in also else 0
        return pad, (spared, spared)

    def _warn_of_pads(self, n_attended: int, name: str | None) -> None:
        if n_attended and not self._warned:
            self._warned = True
            remedy = f"pass its mask ({name}=)" if name else "pass rows of equal length"
            warnings.warn(
                f"the model attends to {n_attended} pads at the ends of rows, which count as tokens: {remedy}",
                stacklevel=2,
            )


@dataclass(frozen=True)
class _Rows:
    """What a forward pass was given, in an encoder-decoder what its encoder was."""

    ids: Tensor
    """[batch, pos]"""
    real: Tensor
    """[batch, pos] whether it is no pad."""
    windows: list[Window | None]
    """[batch] the real tokens of each row; None for a row without any."""
    rows: BatchRows
