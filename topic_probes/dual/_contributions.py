"""What a corpus says of contributions: shares of heads' outputs by pair class, with intervals over documents.

Shares are signed: a class that works against the output is negative, so classes are compared by their difference, not
by a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._html import html_table
from .._validation import require_count, require_level, require_one_of
from ..statistics._by_group import ByGroup, contrast, divide, head_intervals, in_use, interval_of_means, nan_mean
from ..statistics._intervals import DEFAULT_METHOD, METHODS, N_RESAMPLES

if TYPE_CHECKING:
    import pandas as pd

TOPICAL = ("same_topic", "cross_topic")
"""The classes that are compared, in the order of the arrays' last axis."""
_CONTRASTS = (*TOPICAL, "difference")


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

    def _repr_html_(self) -> str:
        """Return the mean over heads with its intervals, for a notebook."""
        import pandas as pd

        found = self.headline()
        rows = [
            {
                "": name.replace("_", " "),
                "mean": found[name],
                "low": found[f"{name}_low"],
                "high": found[f"{name}_high"],
            }
            for name in _CONTRASTS
        ]
        return html_table(pd.DataFrame(rows), repr(self))

    def __repr__(self) -> str:
        same, cross = self.pairs.sum(1).max(0)
        return (
            f"ContributionsByTopic({len(self.layers)} layers, {len(self.heads)} heads of {self.options['model']}, "
            f"{self.tally['n_documents']} documents, {same:,} same-topic and {cross:,} cross-topic pairs)"
        )

    def to_frame(
        self, *, level: float = 0.95, method: str = DEFAULT_METHOD, n_resamples: int = N_RESAMPLES
    ) -> pd.DataFrame:
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
        by_group = self._by_group(level, method, n_resamples)
        same, cross = by_group.means()
        for name, values in zip(_CONTRASTS, (same, cross, same - cross), strict=True):
            ends = head_intervals(by_group, name, level, method, n_resamples, self.seed)
            columns[name] = values.ravel()
            columns[f"{name}_low"], columns[f"{name}_high"] = np.ravel(ends.low), np.ravel(ends.high)
        queries = self.queries.sum(1)
        for kind, sums, counts in (
            ("attention", self.attention, pairs),
            ("output", self.outputs, queries),
            ("norm", self.norms, queries),
        ):
            means = divide(sums.sum(2), counts[:, None])
            for number, name in enumerate(TOPICAL):
                columns[f"{kind}_{name}"] = means[..., number].ravel()
        return pd.DataFrame(columns)

    def headline(
        self,
        *,
        heads: Any = None,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
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
        by_group = self._by_group(level, method, n_resamples)

        def means(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            same, cross = by_group.means(weights)
            defined = chosen & np.isfinite(same) & np.isfinite(cross)
            return tuple(nan_mean(np.where(defined, one, np.nan), axis=(1, 2)) for one in (same, cross))

        found: dict[str, float] = {}
        for name in _CONTRASTS:
            ends = interval_of_means(
                by_group,
                means,
                name,
                level=level,
                method=method,
                n_resamples=n_resamples,
                seed=self.seed,
                of_ratio=False,
            )
            found[name] = float(contrast(means, name)(np.ones((1, by_group.n_groups)))[0])
            found[f"{name}_low"], found[f"{name}_high"] = float(ends.low), float(ends.high)
        return found

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

    def _by_group(self, level: float, method: str, n_resamples: int) -> ByGroup:
        """Return the shares of the groups that have pairs, once the options of their intervals are checked."""
        require_level(level)
        require_count("n_resamples", n_resamples)
        require_one_of("method", method, METHODS)
        shares, pairs = self.shares, self.pairs.astype(np.float64)
        return in_use(ByGroup(shares[..., 0], shares[..., 1], pairs[..., 0], pairs[..., 1]))
