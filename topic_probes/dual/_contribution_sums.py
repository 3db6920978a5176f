"""Sums of contributions, row by row: patterns and values of one layer in, a few numbers for each head out.

Token i's share of the output z of a query is ``A_i v_i . z / |z|^2``; it is weighted as attention is, so that tokens
that contribute alike have 1 (:mod:`topic_probes.probes._pairs`). A batch counts when it has gone through the model
whole, or not at all. :class:`topic_probes.probes._counting.PatternCounter` counts attention alone without a weight for
each pair of tokens; a share is no multiple of attention, so here a row has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._axes import PAIR_CLASSES
from .._errors import PatternError
from ..probes._batches import Batch
from ..probes._counting import LEAK, MaskIgnoredError
from ..probes._pairs import WordPairs, classify, pair_weights
from ..probes._sides import Reach
from ..probes._visibility import Visibility
from ..statistics._sums import N_GROUPS, group_of
from ..topics import TopicLabels
from ._contributions import TOPICAL
from ._heads import by_head

_CLASSES = [PAIR_CLASSES.index(name) for name in TOPICAL]


class RowSums(NamedTuple):
    """Sums of one row at one layer, for some heads; the last axis is that of ``TOPICAL``."""

    shares: np.ndarray
    """[head, 2] debiased shares, over pairs of words."""
    attention: np.ndarray
    """[head, 2] the same of attention."""
    pairs: np.ndarray
    """[2] numbers of pairs."""
    outputs: np.ndarray
    """[head, 2] whole shares of a class, over query tokens."""
    norms: np.ndarray
    """[head, 2] lengths of a class's part of the output, the output's own being 1."""
    queries: np.ndarray
    """[2] query tokens that see at least one token of the class."""
    n_silent: np.ndarray
    """[head] query tokens left out because the head put out nothing."""


@dataclass
class ContributionCounter:
    """The sums of some heads of some layers, and what is known of the batch at hand."""

    layers: tuple[int, ...]
    chosen: list[int]
    labels: TopicLabels
    rows: list[tuple[int, WordPairs, int]] = field(default_factory=list)
    """Of the batch at hand: (row, its pairs, its group)."""
    values: dict[int, Tensor] = field(default_factory=dict)
    fired: set[int] = field(default_factory=set)
    pending: list[tuple[int, int, RowSums]] = field(default_factory=list)
    """Of the batch at hand: (number of the layer, group, sums)."""

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
            self.pairs[index, group] += found.pairs
            self.queries[index, group] += found.queries
            self.n_silent[index] += found.n_silent
            for name in ("shares", "attention", "outputs", "norms"):
                getattr(self, name)[index, :, group] += getattr(found, name)
        self.drop()

    def hooks(self, layer: int) -> tuple[Any, Any]:
        """Return the hooks of a layer's values and of its pattern."""

        def keep(tensor: Tensor, *, hook: Any) -> None:
            self.values[layer] = tensor.detach()

        def count(tensor: Tensor, *, hook: Any) -> None:
            self.count(layer, tensor)

        return keep, count

    def sums(self) -> dict[str, np.ndarray]:
        """Return the sums by name, as :class:`ContributionsByTopic` has them."""
        return {name: getattr(self, name) for name in RowSums._fields}

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
            if float((pattern[number, :, : len(pairs.window)].double().cpu().sum(-1) - block.sum(-1)).max()) > LEAK:
                raise MaskIgnoredError(f"layer {layer} attends to padding that the mask hides")
            blocks.append(block)
        if max((pairs.query.span for _, pairs, _ in self.rows), default=0) > visibility.longest:
            visibility.learn(layer, blocks)
        index = self.layers.index(layer)
        for (number, pairs, group), block in zip(self.rows, blocks, strict=True):
            part = values[number, :, : len(pairs.window)].detach().cpu().double()
            reach = visibility.reach
            self.pending.append((index, group, _row_sums(block[self.chosen], part[self.chosen], pairs, reach)))


def _row_sums(pattern: Tensor, values: Tensor, pairs: WordPairs, reach: Reach) -> RowSums:
    """Return one row's sums.

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
    weights = torch.from_numpy(planned.weights[_CLASSES])
    members = weights > 0
    has = members.any(-1)
    by_class = torch.einsum("hqk,cqk->hqc", shares, members.double())
    lengths = torch.stack([(pattern * member) @ values for member in members], dim=-1).norm(dim=2)
    lengths = lengths / safe.sqrt()[..., None] * alive[..., None]
    return RowSums(
        shares=torch.einsum("hqk,cqk->hc", shares, weights).numpy(),
        attention=torch.einsum("hqk,cqk->hc", pattern, weights).numpy(),
        pairs=planned.counts[_CLASSES],
        outputs=(by_class * has.T.double()).sum(1).numpy(),
        norms=(lengths * has.T.double()).sum(1).numpy(),
        queries=has.sum(-1).numpy(),
        n_silent=(~alive & has.any(0)).sum(-1).numpy(),
    )
