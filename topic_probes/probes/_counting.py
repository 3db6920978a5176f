"""The streaming accumulator: patterns in, sums by class out, nothing kept per pair.

One batch at a time, one layer at a time, one row at a time: the row's pattern is read in float64
and contracted with the row's weights (:mod:`topic_probes.probes._pairs`), all heads together. The
identity that is checked on the way: the attention that a row's queries pay to the keys they see is
all they have, one per query. A batch counts when it has gone through the model whole, or not at all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._errors import PatternError
from ..statistics._sums import COLUMNS, AttentionSums, group_of
from ..tokens import Window
from ..topics import TopicLabels
from ._pairs import PairWeights, WordPairs, classify, pair_weights
from ._visibility import Visibility

_LEAK = 1e-3
"""Attention of a query to positions that the mask hides, above which the model is said to ignore its mask."""


class MaskIgnoredError(PatternError):
    """A model attends to positions that its mask hides."""


@dataclass
class Row:
    """One row of a batch: its real positions and the pairs among them."""

    index: int
    """Which row of the batch it is."""
    pairs: WordPairs
    group: int
    positions: slice | Tensor
    """Where the row's real tokens stand in the batch (pads left out)."""
    weights: dict[tuple[int, int], tuple[PairWeights, Tensor]] = field(default_factory=dict)
    """Reach -> weights, on the patterns' device: layers that see alike share them."""

    def block(self, pattern: Tensor) -> Tensor:
        """Return the part [head, query_pos, key_pos] of a batch's pattern that is between real tokens."""
        return pattern[self.index][:, self.positions][:, :, self.positions]

    @property
    def places(self) -> Tensor:
        """[pos] where the tokens stand, counted from the first."""
        places = self.pairs.places
        return torch.arange(len(self.pairs.window)) if places is None else torch.from_numpy(places)


class PatternCounter:
    """Adds up attention patterns, layer by layer, over any number of batches.

    Args:
        layers: the layers that will come.
        labels: topics of words or of token ids.
        visibility: ``"read"`` off the patterns, or stated: ``"causal"`` or ``"bidirectional"``.
    """

    def __init__(self, layers: Sequence[int], labels: TopicLabels, visibility: str = "read") -> None:
        self.layers = tuple(layers)
        self.labels = labels
        self.totals: AttentionSums | None = None
        stated = None if visibility == "read" else visibility
        self.visibility = {layer: Visibility(stated) for layer in self.layers}
        self.fired: set[int] = set()
        """Layers whose pattern came in the current batch."""
        self._rows: list[Row] = []
        self._pending: list[dict[str, Any]] = []
        self._latest: dict[int, weakref.ref[Tensor]] = {}
        self._n_heads: int | None = None
        self._n_batch_rows = 0

    def begin_batch(self, windows: Sequence[Window | None], positions: Sequence[slice | Tensor]) -> None:
        """Take the rows of the next batch.

        Args:
            windows: the real tokens of each row; None for a row without any.
            positions: where they stand in the batch.
        """
        self.drop_batch()
        self._n_batch_rows = len(windows)
        for index, (window, where) in enumerate(zip(windows, positions, strict=True)):
            if window is not None:
                places = None if isinstance(where, slice) else (where - where[0]).cpu().numpy()
                pairs = classify(window, self.labels, places)
                self._rows.append(Row(index, pairs, group_of(window.document_id), where))

    def drop_batch(self) -> None:
        """Forget the current batch, whatever came of it."""
        self._rows, self._pending, self._latest, self.fired = [], [], {}, set()

    def end_batch(self) -> None:
        """Add the current batch to the totals."""
        if self._pending and self.totals is None:
            assert self._n_heads is not None
            self.totals = AttentionSums.empty(self.layers, self._n_heads)
        for update in self._pending:
            assert self.totals is not None
            self.totals.update(**update)
        self.drop_batch()

    def hook(self, layer: int) -> Callable[..., None]:
        """Return the hook of a layer's pattern."""

        def count(tensor: Tensor, *, hook: Any) -> None:
            self.count(layer, tensor)

        return count

    def count(self, layer: int, pattern: Tensor) -> None:
        """Count one layer's pattern [batch, head, query_pos, key_pos] of the current batch."""
        if layer in self._latest and self._latest[layer]() is pattern:
            return  # a bridge in compatibility mode calls a hook once for each name that its hook point has
        self._latest[layer] = weakref.ref(pattern)
        self.fired.add(layer)
        self._require_fitting(layer, pattern)
        pattern = pattern.detach()
        if pattern.device.type == "mps":  # no float64 there
            pattern = pattern.cpu()
        visibility = self.visibility[layer]
        if max((row.pairs.span for row in self._rows), default=0) > visibility.longest:
            visibility.learn(layer, [row.block(pattern) for row in self._rows], [row.places for row in self._rows])
        for row in self._rows:
            self._count_row(layer, row, pattern)

    def _require_fitting(self, layer: int, pattern: Tensor) -> None:
        shape = tuple(pattern.shape)
        if len(shape) != 4 or shape[0] != self._n_batch_rows or shape[2] != shape[3]:
            raise PatternError(
                f"the pattern of layer {layer} must have shape [batch, head, query_pos, key_pos] with "
                f"{self._n_batch_rows} rows and as many keys as queries, got {shape}"
            )
        if self._n_heads is None:
            self._n_heads = shape[1]
        if shape[1] != self._n_heads:
            raise PatternError(
                f"layer {layer} has {shape[1]} heads, and an earlier one {self._n_heads}: "
                "probe layers with different numbers of heads one by one (layers=)"
            )

    def _count_row(self, layer: int, row: Row, pattern: Tensor) -> None:
        block = row.block(pattern)
        planned, weights = self._weights(row, layer, block.device)
        sums = _contract(block, weights)
        n_excluded = 0
        # Written so that NaN is a miss, too.
        if not (np.abs(sums[:, -1] - planned.counts[-1]) <= _tolerance(block.dtype) * planned.counts[-1]).all():
            usable = self._inspect(layer, row, block, pattern)
            planned, weights = self._weights(row, layer, block.device)
            if not usable.all():
                planned = pair_weights(row.pairs, *self.visibility[layer].reach(row.pairs.span), usable_rows=usable)
                weights = torch.from_numpy(planned.weights).to(block.device)
                n_excluded = int((~usable & row.pairs.is_of_word).sum())
                block = torch.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
            sums = _contract(block, weights)
        self._pending.append(
            {
                "layer": layer,
                "group": row.group,
                "sums": sums[:, : len(COLUMNS)],
                "counts": planned.counts,
                "n_excluded_rows": n_excluded,
            }
        )

    def _weights(self, row: Row, layer: int, device: torch.device) -> tuple[PairWeights, Tensor]:
        reach = self.visibility[layer].reach(row.pairs.span)
        if reach not in row.weights:
            planned = pair_weights(row.pairs, *reach)
            row.weights[reach] = planned, torch.from_numpy(planned.weights).to(device)
        return row.weights[reach]

    def _inspect(self, layer: int, row: Row, block: Tensor, pattern: Tensor) -> np.ndarray:
        """Find out why a row's attention is not all where it may be; return which query positions are usable.

        A query whose keys are all masked (NaN, or zero in every head) is left out. Attention beyond
        the known reach widens it. Attention to positions that the mask hides is an error. What is
        left is a model with attention sinks, whose rows sum to less than one.
        """
        finite = torch.isfinite(block).all(dim=2).all(dim=0)
        usable = finite & (block != 0).any(dim=2).any(dim=0)
        all_keys = pattern[row.index][:, row.positions][:, usable].double().sum(dim=-1)
        own_keys = block[:, usable].double().sum(dim=-1)
        if not bool((all_keys - own_keys <= _LEAK).all()):
            raise MaskIgnoredError(
                f"layer {layer} attends to padding that the mask hides: the model ignores its attention mask; "
                "pass rows of equal length (batch_size=1)"
            )
        self.visibility[layer].learn(layer, [torch.where(usable[:, None], block, 0)], [row.places])
        return usable.cpu().numpy()


def _tolerance(dtype: torch.dtype) -> float:
    """How far a row's sum may be from one by rounding alone; what is farther is looked into, which costs time only."""
    eps = torch.finfo(dtype).eps
    # In half precision the weights' own rounding decides, else that of the sum over them.
    return 2 * eps if eps > 1e-4 else 128 * eps


def _contract(block: Tensor, weights: Tensor) -> np.ndarray:
    """Return [head, column] the sums over query and key of attention times weight, in float64.

    As one small product for each query: a single product over all pairs, six columns wide, is a shape
    that linear algebra libraries are several times slower at.
    """
    by_query = torch.bmm(block.permute(1, 0, 2).double(), weights.permute(1, 2, 0))
    return by_query.sum(dim=0).cpu().numpy()
