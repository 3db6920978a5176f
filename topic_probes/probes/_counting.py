"""The streaming accumulator: patterns in, sums out, nothing kept per pair.

One batch at a time, one site at a time, one row at a time: the row's pattern is contracted with the row's plan
(:mod:`topic_probes.probes._row_plan`), all heads together. The identity that is checked on the way: the
attention that a row's queries pay to the keys they see is all they have, one per query. A batch counts when
it has gone through the model whole, or not at all.

A site is a layer, and in an encoder-decoder a layer of a stack. There a row of the batch is three rows here:
the encoder's own pairs, the decoder's own, and those of the decoder's words with the encoder's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._axes import PAIR_CLASSES, Site
from .._errors import PatternError
from ..statistics._sums import AttentionSums, RowUpdate
from ._contraction import RowSums, contract
from ._row_plan import RowPlan
from ._rows import BatchRows, PairMeasures, Row
from ._visibility import visibility_of

LEAK = 1e-3
"""Attention of a query to positions that the mask hides, above which the model is said to ignore its mask."""


class MaskIgnoredError(PatternError):
    """A model attends to positions that its mask hides."""


class PatternCounter:
    """Adds up attention patterns, site by site, over any number of batches.

    Args:
        sites: the sites that will come; layers of an ordinary model.
        measures: what is measured of pairs.
        visibility: ``"read"`` off the patterns, or stated: ``"causal"`` or ``"bidirectional"``.
    """

    def __init__(self, sites: Sequence[Site | int], measures: PairMeasures, visibility: str = "read") -> None:
        self.sites = tuple(Site.of(site) for site in sites)
        self.measures = measures
        self.totals: AttentionSums | None = None
        self.visibility = {site: visibility_of(site, visibility) for site in self.sites}
        self.fired: set[Site] = set()
        """Sites whose pattern came in the current batch."""
        self.nan_beside_pads = False
        """Whether a real query of a padded row of the current batch has no finite attention: pads may be why."""
        self._rows: BatchRows | None = None
        self._pending: list[RowUpdate] = []
        self._latest: dict[Site, weakref.ref[Tensor]] = {}
        self._n_heads: int | None = None

    def begin_batch(self, rows: BatchRows) -> None:
        """Take the rows of the next batch."""
        self.drop_batch()
        self._rows = rows

    def drop_batch(self) -> None:
        """Forget the current batch, whatever came of it."""
        self._rows, self._pending, self._latest, self.fired = None, [], {}, set()
        self.nan_beside_pads = False

    def end_batch(self) -> None:
        """Add the current batch to the totals."""
        if self._pending and self.totals is None:
            assert self._n_heads is not None
            self.totals = AttentionSums.empty(
                self.sites,
                self._n_heads,
                n_topics=self.measures.n_topics,
                n_permutations=self.measures.n_permutations,
            )
        for update in self._pending:
            assert self.totals is not None
            self.totals.add(update)
        self.drop_batch()

    def hook(self, site: Site) -> Callable[..., None]:
        """Return the hook of a site's pattern."""

        def count(tensor: Tensor, *, hook: Any) -> None:
            self.count(site, tensor)

        return count

    def count(self, place: Site | int, pattern: Tensor) -> None:
        """Count one site's pattern [batch, head, query_pos, key_pos] of the current batch."""
        site = Site.of(place)
        if site in self._latest and self._latest[site]() is pattern:
            return  # a bridge in compatibility mode calls a hook once for each name that its hook point has
        self._latest[site] = weakref.ref(pattern)
        self.fired.add(site)
        assert self._rows is not None
        self._require_fitting(site, pattern, self._rows.n_rows)
        rows = self._rows.of_stack.get(site.stack, [])
        pattern = pattern.detach()
        if pattern.device.type == "mps":  # no float64 there
            pattern = pattern.cpu()
        visibility = self.visibility[site]
        if max((row.query.span for row in rows), default=0) > visibility.longest:
            visibility.learn(
                site, [row.block(pattern) for row in rows], [torch.from_numpy(row.query.places) for row in rows]
            )
        for row in rows:
            self._count_row(site, row, pattern)

    def _require_fitting(self, layer: Site, pattern: Tensor, n_rows: int) -> None:
        shape = tuple(pattern.shape)
        square = len(shape) == 4 and (layer.stack == "cross" or shape[2] == shape[3])
        if not square or shape[0] != n_rows:
            raise PatternError(
                f"the pattern of layer {layer} must have shape [batch, head, query_pos, key_pos] with "
                f"{n_rows} rows{'' if layer.stack == 'cross' else ' and as many keys as queries'}, got {shape}"
            )
        if self._n_heads is None:
            self._n_heads = shape[1]
        if shape[1] != self._n_heads:
            raise PatternError(
                f"layer {layer} has {shape[1]} heads, and an earlier one {self._n_heads}: "
                "probe layers with different numbers of heads one by one (layers=)"
            )

    def _count_row(self, layer: Site, row: Row, pattern: Tensor) -> None:
        plan = row.plan(pattern, self.visibility[layer].reach)
        sums = contract(pattern[row.index], plan)
        n_excluded = 0
        n_queries = plan.counts[len(PAIR_CLASSES)]
        # Written so that NaN is a miss, too.
        if not (np.abs(sums.seen - n_queries) <= _tolerance(pattern.dtype) * n_queries).all():
            usable = self._inspect(layer, row, pattern)
            whole = pattern[row.index]
            if usable.all():
                plan = row.plan(pattern, self.visibility[layer].reach)
            else:
                plan = row.plan(pattern, self.visibility[layer].reach, usable)
                n_excluded = int((~usable & row.query.is_of_word).sum())
                whole = torch.nan_to_num(whole, nan=0.0, posinf=0.0, neginf=0.0)
            sums = contract(whole, plan)
        self._pending.append(_update(layer, row.group, plan, sums, n_excluded))

    def _inspect(self, layer: Site, row: Row, pattern: Tensor) -> np.ndarray:
        """Find out why a row's attention is not all where it may be; return which query positions are usable.

        A query whose keys are all masked (NaN, or zero in every head) is left out. Attention beyond
        the known reach widens it. Attention to positions that the mask hides is an error. What is
        left is a model with attention sinks, whose rows sum to less than one.
        """
        block = row.block(pattern)
        finite = torch.isfinite(block).all(dim=2).all(dim=0)
        self.nan_beside_pads |= pattern.shape[-1] > block.shape[-1] and not bool(finite.all())
        usable = finite & (block != 0).any(dim=2).any(dim=0)
        all_keys = pattern[row.index][:, row.positions][:, usable].double().sum(dim=-1)
        own_keys = block[:, usable].double().sum(dim=-1)
        if not bool((all_keys - own_keys <= LEAK).all()):
            raise MaskIgnoredError(
                f"layer {layer} attends to padding that the mask hides: the model ignores its attention mask"
                + (", or its decoder has none (decoder_attention_mask=)" if layer.stack == "decoder" else "")
                + "; pass rows of equal length (batch_size=1)"
            )
        places = torch.from_numpy(row.query.places)
        self.visibility[layer].learn(layer, [torch.where(usable[:, None], block, 0)], [places])
        return usable.cpu().numpy()


def _update(site: Site, group: int, plan: RowPlan, sums: RowSums, n_excluded_rows: int) -> RowUpdate:
    return RowUpdate(
        site=site,
        group=group,
        sums=sums.sums,
        renormalised=sums.renormalised,
        counts=plan.counts,
        cells=plan.cells,
        by_cell=sums.by_cell,
        cell_counts=plan.cell_counts,
        topics=None if plan.topics is None else plan.topics[:2],
        by_topic=sums.by_topic,
        topic_counts=plan.topic_counts,
        null=sums.null,
        null_weights=None if plan.null is None else plan.null.weights,
        n_excluded_rows=n_excluded_rows,
    )


def _tolerance(dtype: torch.dtype) -> float:
    """How far a row's sum may be from one by rounding alone; what is farther is looked into, which costs time only."""
    eps = torch.finfo(dtype).eps
    # In half precision the weights' own rounding decides, else that of the sum over them.
    return 2 * eps if eps > 1e-4 else 128 * eps
