"""``with attach(model, labels) as probe:`` any forward pass in the block is counted."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor

from .._axes import WordPolicy
from .._errors import PatternError
from .._validation import require_count, require_one_of
from ..corpora._document import content_id
from ..statistics import AttentionResult
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._counting import PatternCounter
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
from ._provenance import provenance


def attach(
    model: Any,
    labels: TopicLabels,
    tokenizer: Any = None,
    *,
    words: WordPolicy = "whole",
    layers: Sequence[int] | None = None,
    visibility: Literal["read", "causal", "bidirectional"] = "read",
    seed: int = 0,
) -> AttachedProbe:
    """Return a context manager that counts every forward pass in its block, whoever makes it.

    Each row of a batch is one document. Text, token ids, ``run_with_hooks`` and ``run_with_cache``
    are all counted; the attention mask is read from the call, under the name that the model knows.
    Without a mask, positions with the pad id that no real token attends to are pads.

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
        layers: layers to count, negative ones from the end; None for all that have attention.
        visibility: which keys a query may see, see :func:`probe`.
        seed: of the intervals' resamples.

    Raises:
        TypeError, ValueError: for a model that cannot be hooked or has a module in training mode.
        PatternError: in a forward pass that cannot be counted, such as one whose pattern never came. A pass that
            fails is not counted.

    Example:
        with topic_probes.attach(model, labels) as probe:
            model(tokens, attention_mask=mask)
        probe.result().headline()
    """
    return AttachedProbe(model, labels, tokenizer, words=words, layers=layers, visibility=visibility, seed=seed)


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
        seed: int,
    ) -> None:
        require_labels(labels)
        require_one_of("words", words, ("whole", "merge"))
        require_one_of("visibility", visibility, ("read", "causal", "bidirectional"))
        require_count("seed", seed, minimum=0)
        require_probeable(model)
        self._model = model
        self._names, self._unavailable = pattern_hooks(model, layers)
        self._reader = DocumentReader(tokenizer_of(model, tokenizer), words=words, of_words=labels.of_words)
        self._counter = PatternCounter(tuple(self._names), labels, visibility)
        self._options = provenance(model, labels, words=words)
        self._seed = seed
        self._stack = ExitStack()
        self._ids: Tensor | None = None
        self._mask: Tensor | None = None
        self._begun = False
        self._stops_at: Any = None
        self._attached = self._warned = False
        self._tally = replace(self._reader.tally)

    def __enter__(self) -> AttachedProbe:
        if self._attached:
            raise RuntimeError("this probe is attached already: leave its with block first, or attach another probe")
        require_probeable(self._model)
        hooks = [(name, self._hook(layer)) for layer, name in self._names.items()]
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
            visibility={layer: str(seen) for layer, seen in self._counter.visibility.items()},
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
        self._stops_at = arguments_of_call(self._model, args, kwargs).get("stop_at_layer")
        self._ids, self._begun = None, False

    def on_ids(self, token_ids: Tensor) -> None:
        """Take the token ids that are about to be embedded (called by the observer)."""
        if torch.is_floating_point(token_ids):
            raise PatternError("attach needs token ids, and the model was given embeddings")
        self._ids = token_ids.detach()

    def check_call(self) -> None:
        """Raise unless every pattern came in the pass that has ended (called by the observer)."""
        silent = sorted(set(self._names) - self._counter.fired)
        if silent and self._stops_at is not None:
            raise PatternError(
                f"the pass stopped (stop_at_layer={self._stops_at}) before the attention pattern of layer {silent[0]}: "
                "run the whole model, or name the layers to count by attach(layers=)"
            )
        require_all_fired(self._model, self._names, self._counter.fired)

    def after_call(self) -> None:
        """Count the pass that has ended (called by the observer)."""
        self._counter.end_batch()
        self._mask = self._ids = None

    def call_failed(self) -> None:
        """Forget the pass, which ended by an exception (called by the observer)."""
        self._counter.drop_batch()
        self._reader.tally = self._tally
        self._mask = self._ids = None

    def _hook(self, layer: int) -> Any:
        def count(tensor: Tensor, *, hook: Any) -> None:
            if not self._begun:
                self._begin(tensor)
            self._counter.count(layer, tensor)

        return count

    def _begin(self, pattern: Tensor) -> None:
        """Take the rows of this forward pass, when its first pattern comes."""
        if self._ids is None:
            raise PatternError(
                "attach needs token ids, and this forward pass embedded none: run the whole model on ids or text, and "
                "generate outside the block"
            )
        ids = self._ids.reshape(-1, self._ids.shape[-1]).cpu()
        n_rows, length = ids.shape
        fits = pattern.ndim == 4 and (pattern.shape[0], *pattern.shape[2:]) == (n_rows, length, length)
        if not fits or (self._mask is not None and self._mask.numel() != ids.numel()):
            raise PatternError(
                f"a pattern of shape {tuple(pattern.shape)} and the model's mask do not fit token ids of shape "
                f"{tuple(ids.shape)}: generation with a key-value cache cannot be counted, run the whole text through "
                "the model instead"
            )
        windows: list[Window | None] = []
        positions: list[slice | Tensor] = []
        for row, is_real in zip(ids, self._real_positions(ids, pattern), strict=True):
            where = torch.nonzero(is_real).flatten()
            if len(where) == 0:
                self._reader.tally.n_empty += 1
                windows.append(None)
                positions.append(slice(0, 0))
                continue
            tokens = row[where].numpy()
            windows.append(self._reader.row(content_id(tuple(tokens.tolist())), tokens))
            contiguous = int(where[-1] - where[0]) + 1 == len(where)
            positions.append(slice(int(where[0]), int(where[-1]) + 1) if contiguous else where.to(pattern.device))
        self._counter.begin_batch(windows, positions)
        self._begun = True

    def _real_positions(self, ids: Tensor, pattern: Tensor) -> Tensor:
        """Return [batch, pos] which positions hold tokens that take part in the model's work."""
        if self._mask is not None:
            return self._mask.reshape(ids.shape).cpu() != 0
        pad = getattr(self._reader.tokenizer, "pad_token_id", None)
        real = torch.ones_like(ids, dtype=torch.bool) if pad is None else ids != pad
        n_attended = 0
        for index in torch.nonzero(~real.all(dim=1)).flatten().tolist():
            attended = (pattern[index][:, real[index].to(pattern.device)] > 0).any(dim=0).any(dim=0).cpu()
            n_attended += self._n_at_ends(attended & ~real[index], real[index])
            real[index] |= attended
        if n_attended and not self._warned:
            self._warned = True
            name = mask_argument(self._model)
            remedy = f"pass its mask ({name}=)" if name else "pass rows of equal length"
            warnings.warn(
                f"the model attends to {n_attended} pads at the ends of rows, which count as tokens: {remedy}",
                stacklevel=2,
            )
        return real

    def _n_at_ends(self, attended: Tensor, real: Tensor) -> int:
        """Return how many of the attended [pos] positions of the pad id stand before or after all real tokens.

        Where the pad id also serves to begin or to end a text, one at each end is not a pad.
        """
        where = torch.nonzero(real).flatten()
        if len(where) == 0:
            return 0
        tokenizer = self._reader.tokenizer
        also = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "sep")}
        spared = 1 if getattr(tokenizer, "pad_token_id", None) in also else 0
        ends = attended[: int(where[0])], attended[int(where[-1]) + 1 :]
        return sum(max(int(end.sum()) - spared, 0) for end in ends)
