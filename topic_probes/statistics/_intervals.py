"""Intervals over documents: groups of documents are resampled, never pairs.

Pairs of one document depend on each other (they share its topics, its length, its rows that sum to
one), so whole groups of documents are drawn with replacement, and the statistic is computed from the
drawn sums. A draw is a weight for every group, and so is the jackknife, which leaves one group out.

``percentile``  quantiles of the resampled statistic
``bca``         quantiles corrected for bias and skewness (Efron 1987), with the jackknife's acceleration
``t``           the jackknife's standard error and Student's t, of the logarithm where the statistic is a ratio.
                A few long documents may hold most of the pairs, so the degrees of freedom are Kish's effective
                number of groups less one, 1 / sum a^2 - 1 with a the groups' shares of the weight:
                n_groups - 1 when all count alike, fewer otherwise

What they do not show: another draw of an untrained twin's weights, or of the topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

N_RESAMPLES = 2000

MIN_GROUPS = 8
"""With fewer groups of documents there is no interval: a handful of draws says more of luck than of spread."""

Method = Literal["percentile", "bca", "t"]
METHODS: tuple[Method, ...] = ("percentile", "bca", "t")
DEFAULT_METHOD: Method = "t"
"""The one that covers what it says with few documents, too."""

Statistic = Callable[[np.ndarray], np.ndarray]
"""From weights [draw, group] to values [draw, ...]."""


class ConfidenceInterval(NamedTuple):
    """Both ends of an interval; NaN where there is too little to say."""

    low: float | np.ndarray
    high: float | np.ndarray


def resample_groups(n_groups: int, n_resamples: int, seed: int) -> Float[np.ndarray, "resample group"]:
    """Return how often each group is drawn in each resample: every row sums to ``n_groups``."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=n_resamples).astype(np.float64)


def interval(
    statistic: Statistic,
    n_groups: int,
    *,
    level: float,
    method: str,
    n_resamples: int,
    seed: int,
    of_ratio: bool,
    shares: Float[np.ndarray, " group"],
) -> ConfidenceInterval:
    """Return the interval of a statistic of the groups, or of an array of them.

    Args:
        statistic: from weights [draw, group] to values [draw, ...]; NaN where a draw has too little.
        n_groups: number of groups in use.
        level: probability with which such intervals cover the truth.
        method: ``"percentile"``, ``"bca"`` or ``"t"``.
        n_resamples: draws, of the first two.
        seed: of the draws.
        of_ratio: whether the statistic is a ratio, 1 when nothing is there, and not a difference.
        shares: [group] what part of the statistic's weight each group has, for ``"t"``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if method == "t":
            return _student(statistic, n_groups, level, of_ratio, shares)
        resampled = statistic(resample_groups(n_groups, n_resamples, seed))
        if method == "percentile":
            return percentile_interval(resampled, level)
        return _quantiles(resampled, *_corrected_tails(statistic, n_groups, resampled, level))


def percentile_interval(statistic: Float[np.ndarray, "resample ..."], level: float) -> ConfidenceInterval:
    """Return the percentile interval of resampled statistics along the first axis."""
    tail = (1 - level) / 2
    return _quantiles(statistic, tail, 1 - tail)


def _jackknife(statistic: Statistic, n_groups: int) -> np.ndarray:
    return statistic(1.0 - np.eye(n_groups))


def degrees_of_freedom(shares: Float[np.ndarray, " group"]) -> float:
    """Return the degrees of freedom of the jackknife's variance when groups count as unequally as these shares.

    Examples:
        >>> degrees_of_freedom(np.ones(30)), degrees_of_freedom(np.array([3.0, 1, 1, 1]))
        (29.0, 2.0)
    """
    return max(1.0, float(shares.sum() ** 2 / (shares**2).sum()) - 1.0)


def _student(
    statistic: Statistic, n_groups: int, level: float, of_ratio: bool, shares: np.ndarray
) -> ConfidenceInterval:
    from scipy.stats import t

    scale, back = (np.log, np.exp) if of_ratio else (_as_it_is, _as_it_is)
    centre = scale(statistic(np.ones((1, n_groups)))[0])
    without = scale(_jackknife(statistic, n_groups))
    # A group that holds a share a of the weight pulls the whole towards itself: its step, when it is left out, is too
    # long by 1 / (1 - a), and too short by the root of 1 - a for being part of the whole.
    rest = (1.0 - shares / shares.sum()).reshape(-1, *[1] * centre.ndim)
    error = np.sqrt(((without - centre) ** 2 * rest).sum(axis=0))
    reach = t.ppf((1 + level) / 2, degrees_of_freedom(shares)) * error
    low, high = back(centre - reach), back(centre + reach)
    defined = np.isfinite(reach)
    return ConfidenceInterval(np.where(defined, low, np.nan)[()], np.where(defined, high, np.nan)[()])


def _as_it_is(values: Any) -> Any:
    return values


def _corrected_tails(statistic: Statistic, n_groups: int, resampled: np.ndarray, level: float) -> tuple[Any, Any]:
    from scipy.stats import norm

    centre = statistic(np.ones((1, n_groups)))[0]
    # Draws equal to the statistic count half, so that a constant one has no bias.
    n_resamples = len(resampled)
    below = ((resampled < centre).sum(axis=0) + (resampled == centre).sum(axis=0) / 2) / n_resamples
    bias = norm.ppf(np.clip(below, 1 / (n_resamples + 1), n_resamples / (n_resamples + 1)))
    without = _jackknife(statistic, n_groups)
    spread = without.mean(axis=0) - without
    acceleration = np.nan_to_num((spread**3).sum(axis=0) / (6 * (spread**2).sum(axis=0) ** 1.5))
    tails = []
    for probability in ((1 - level) / 2, (1 + level) / 2):
        shifted = bias + norm.ppf(probability)
        tails.append(norm.cdf(bias + shifted / (1 - acceleration * shifted)))
    return tails[0], tails[1]


def _quantiles(resampled: np.ndarray, low_tail: Any, high_tail: Any) -> ConfidenceInterval:
    """Return quantiles along the first axis, NaN left out, each entry with its own tails."""
    ordered = np.sort(resampled, axis=0)  # NaN come last
    n_defined = np.isfinite(ordered).sum(axis=0)
    ends = []
    for tail in (low_tail, high_tail):
        place = np.clip(np.asarray(tail) * (n_defined - 1), 0, None)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(n_defined - 1, 0))
        one, other = (np.take_along_axis(ordered, index[None], axis=0)[0] for index in (below, above))
        ends.append(np.where(n_defined > 0, one + (place - below) * (other - one), np.nan)[()])
    return ConfidenceInterval(*ends)
