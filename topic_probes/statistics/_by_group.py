"""Same- and cross-topic means of every head as functions of how much each group of documents counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from ._intervals import MIN_GROUPS, ConfidenceInterval, Statistic, interval
from ._sums import AttentionSums, topical_columns

_DRAWS_TIMES_HEADS = 2**20
"""Values of one statistic that are in memory together: 8 MB."""


@dataclass(frozen=True)
class ByGroup:
    """Sums of same- and cross-topic attention by group of documents, for one estimator."""

    same: Float[np.ndarray, "site head group"]
    cross: Float[np.ndarray, "site head group"]
    same_weights: Float[np.ndarray, "site group"]
    cross_weights: Float[np.ndarray, "site group"]

    @classmethod
    def of(cls, totals: AttentionSums, estimator: str, *, renormalise: bool = False) -> ByGroup:
        """Return the sums of an estimator, of all groups."""
        same, cross = topical_columns(estimator)
        sums = totals.renormalised if renormalise else totals.sums
        return cls(sums[..., same], sums[..., cross], totals.counts[..., same], totals.counts[..., cross])

    @property
    def n_groups(self) -> int:
        """Groups, in use or not."""
        return self.same.shape[2]

    @property
    def n_informative_groups(self) -> int:
        """Groups with pairs of a class, of the class that fewer have."""
        return min(int((weights > 0).any(axis=0).sum()) for weights in (self.same_weights, self.cross_weights))

    @property
    def shares(self) -> Float[np.ndarray, " group"]:
        """[group] the part of all weight that each group has, same- and cross-topic pairs alike, over all sites."""
        parts = [
            weights.sum(axis=0) / max(weights.sum(), 1e-300) for weights in (self.same_weights, self.cross_weights)
        ]
        return (parts[0] + parts[1]) / 2

    def only(self, groups: np.ndarray) -> ByGroup:
        """Return the sums of these groups."""
        return ByGroup(
            self.same[..., groups], self.cross[..., groups], self.same_weights[:, groups], self.cross_weights[:, groups]
        )

    def heads(self, part: tuple[slice, slice]) -> ByGroup:
        """Return the sums of some sites and heads."""
        return ByGroup(self.same[part], self.cross[part], self.same_weights[part[0]], self.cross_weights[part[0]])

    def means(self, weights: Float[np.ndarray, "draw group"] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the same- and cross-topic mean [draw, site, head] of every head; NaN where there is no pair.

        Args:
            weights: how much each group counts in each draw; None for the sums as they are, without that axis.
        """
        plain = weights is None
        draws = np.ones((1, self.n_groups)) if weights is None else weights
        found = []
        for sums, counts in ((self.same, self.same_weights), (self.cross, self.cross_weights)):
            totals = np.einsum("rg,lhg->rlh", draws, sums, optimize=True)
            pairs = np.einsum("rg,lg->rl", draws, counts, optimize=True)
            # What is left of a subtraction is not a pair.
            pairs = np.where(pairs > 1e-9 * counts.sum(axis=1), pairs, np.nan)
            found.append((totals / pairs[:, :, None])[0] if plain else totals / pairs[:, :, None])
        return found[0], found[1]

    def model_means(self, weights: Float[np.ndarray, "draw group"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the means [draw] over all sites and heads; both are of the heads that have pairs of both classes."""
        totals, n_heads = np.zeros((2, len(weights))), np.zeros(len(weights))
        for part in self.parts(len(weights)):
            same, cross = self.heads(part).means(weights)
            defined = np.isfinite(same) & np.isfinite(cross)
            for total, means in zip(totals, (same, cross), strict=True):
                total += np.where(defined, means, 0.0).sum(axis=(1, 2))
            n_heads += defined.sum(axis=(1, 2))
        same, cross = divide(totals, n_heads)
        return same, cross

    def layer_means(self, weights: Float[np.ndarray, "draw group"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the means [draw, site] over the heads of each site."""
        same, cross = self.means(weights)
        return nan_mean(same, axis=2), nan_mean(cross, axis=2)

    def parts(self, n_draws: int) -> list[tuple[slice, slice]]:
        """Return the sites and heads in parts that fit into little memory."""
        n_sites, n_heads, _ = self.same.shape
        step = max(1, _DRAWS_TIMES_HEADS // max(n_draws, 1))
        return [
            (slice(site, site + 1), slice(head, head + step))
            for site in range(n_sites)
            for head in range(0, n_heads, step)
        ]


def head_intervals(by_group: ByGroup, measure: str, level: float, method: str, n_resamples: int, seed: int) -> Any:
    """Return the intervals [site, head] of a measure, as of :func:`contrast`; NaN with too few groups."""
    parts = [(part, part) for part in by_group.parts(n_resamples)]
    shape = by_group.same.shape[:2]
    return _intervals(by_group, ByGroup.means, shape, parts, measure, level, method, n_resamples, seed)


def layer_intervals(by_group: ByGroup, measure: str, level: float, method: str, n_resamples: int, seed: int) -> Any:
    """Return the same [site], of the means over the heads of each site."""
    sites = [slice(site, site + 1) for site in range(len(by_group.same))]
    parts = [((site, slice(None)), site) for site in sites]
    return _intervals(by_group, ByGroup.layer_means, (len(sites),), parts, measure, level, method, n_resamples, seed)


def _intervals(
    by_group: ByGroup,
    means: Any,
    shape: tuple[int, ...],
    parts: Any,
    measure: str,
    level: float,
    method: str,
    n_resamples: int,
    seed: int,
) -> ConfidenceInterval:
    """Return intervals of a shape, from parts: sites and heads, and where their intervals stand."""
    low = np.full(shape, np.nan)
    high = low.copy()
    for part, place in parts:
        # A site's own groups: one with a short window has pairs in fewer documents than another.
        used = in_use(by_group.heads(part))
        low[place], high[place] = interval_of_means(
            used,
            partial(means, used),
            measure,
            level=level,
            method=method,
            n_resamples=n_resamples,
            seed=seed,
            of_ratio=measure == "ratio",
        )
    return ConfidenceInterval(low, high)


def interval_of_means(
    used: ByGroup,
    means: Any,
    measure: str,
    *,
    level: float,
    method: str,
    n_resamples: int,
    seed: int,
    of_ratio: bool,
) -> ConfidenceInterval:
    """Return the interval of a measure of some means; NaN, for all of them, with too few groups.

    Args:
        used: the sums of the groups in use.
        means: from weights [draw, group] to both means [draw, ...].
        measure: as of :func:`contrast`.
        level: as of :func:`topic_probes.statistics._intervals.interval`, like the rest.
        method: ditto.
        n_resamples: ditto.
        seed: ditto.
        of_ratio: ditto.
    """
    if used.n_informative_groups < MIN_GROUPS:
        return ConfidenceInterval(np.nan, np.nan)
    return interval(
        contrast(means, measure),
        used.n_groups,
        level=level,
        method=method,
        n_resamples=n_resamples,
        seed=seed,
        of_ratio=of_ratio,
        shares=used.shares,
    )


def in_use(by_group: ByGroup) -> ByGroup:
    """Return the groups that have a pair."""
    weights = by_group.same_weights + by_group.cross_weights
    return by_group.only(np.flatnonzero((weights > 0).any(axis=0)))


def contrast(means: Any, measure: str) -> Statistic:
    """Return a measure of the same- and cross-topic means that ``means(weights)`` gives, as a statistic.

    Args:
        means: from weights [draw, group] to both means [draw, ...].
        measure: ``"ratio"`` or ``"difference"`` of the two, or one of them, ``"same_topic"`` or ``"cross_topic"``.
    """

    def statistic(weights: np.ndarray) -> np.ndarray:
        same, cross = means(weights)
        if measure == "ratio":
            return divide(same, cross)
        return {"difference": same - cross, "same_topic": same, "cross_topic": cross}[measure]

    return statistic


def divide(numerator: Any, denominator: Any) -> Any:
    """Return the quotient, NaN where the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(denominator) == 0, np.nan, np.divide(numerator, denominator))[()]


def nan_mean(values: np.ndarray, axis: int | tuple[int, ...] | None = None) -> Any:
    """Return the mean without NaN; NaN where nothing else is, without a warning."""
    defined = np.isfinite(values)
    return divide(np.where(defined, values, 0.0).sum(axis=axis), defined.sum(axis=axis))
