"""Intervals over groups of documents, and what goes into them, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from topic_probes.statistics._by_group import ByGroup, divide, nan_mean
from topic_probes.statistics._intervals import degrees_of_freedom, interval, percentile_interval
from topic_probes.statistics._sums import WeightedSums


def test_the_t_interval_of_a_mean_of_equal_groups_is_students() -> None:
    """Where all groups count alike, the jackknife is the textbook's standard error, with G - 1 degrees of freedom."""
    values = np.random.default_rng(0).normal(3, 1, 25)

    def mean(weights: np.ndarray) -> np.ndarray:
        return weights @ values / weights.sum(axis=1)

    low, high = interval(
        mean, 25, level=0.9, method="t", n_resamples=1, seed=0, of_ratio=False, shares=np.full(25, 1 / 25)
    )
    expected = scipy.stats.t.interval(0.9, 24, loc=values.mean(), scale=scipy.stats.sem(values))
    # Leaving one out steps by 1/(G-1), the correction takes back a half of that: a factor of sqrt(G/(G-1)) each way.
    np.testing.assert_allclose([low, high], expected, rtol=1e-12)


def test_the_t_interval_of_a_ratio_is_of_its_logarithm() -> None:
    generator = np.random.default_rng(1)
    above, below = generator.gamma(3, 1, 40), generator.gamma(3, 1, 40)

    def ratio(weights: np.ndarray) -> np.ndarray:
        return (weights @ above) / (weights @ below)

    options = {"level": 0.95, "method": "t", "n_resamples": 1, "seed": 0, "shares": np.full(40, 1 / 40)}
    low, high = interval(ratio, 40, of_ratio=True, **options)
    centre = above.sum() / below.sum()
    assert low * high == pytest.approx(centre**2, rel=1e-12)
    log_low, log_high = interval(lambda weights: np.log(ratio(weights)), 40, of_ratio=False, **options)
    np.testing.assert_allclose([np.log(low), np.log(high)], [log_low, log_high], rtol=1e-12)


def test_unequal_groups_have_fewer_degrees_of_freedom() -> None:
    """By hand: shares 3, 1, 1, 1 give 6^2 / (9 + 1 + 1 + 1) - 1 = 2."""
    assert degrees_of_freedom(np.array([3.0, 1, 1, 1])) == pytest.approx(2)
    assert degrees_of_freedom(np.ones(9)) == pytest.approx(8)
    assert degrees_of_freedom(np.array([9.0, 1, 1])) == 1.0


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_quantiles_leave_missing_values_out(level: float) -> None:
    """Numpy's own, column by column; a column without a number has no interval."""
    values = np.random.default_rng(2).normal(size=(201, 4))
    values[:50, 1] = np.nan
    values[1:, 2] = np.nan
    values[:, 3] = np.nan
    low, high = percentile_interval(values, level)
    tails = [(1 - level) / 2, (1 + level) / 2]
    for column in range(3):
        expected = np.nanquantile(values[:, column], tails)
        np.testing.assert_allclose([low[column], high[column]], expected, rtol=1e-12)
    assert np.isnan([low[3], high[3]]).all()


def test_a_constant_statistic_has_an_interval_of_no_width() -> None:
    for method in ("percentile", "bca", "t"):
        ends = interval(
            lambda weights: np.full(len(weights), 2.0),
            12,
            level=0.95,
            method=method,
            n_resamples=100,
            seed=0,
            of_ratio=True,
            shares=np.ones(12),
        )
        np.testing.assert_allclose(ends, [2.0, 2.0], rtol=1e-12)


def test_means_by_weights_of_groups_are_those_of_the_groups_repeated() -> None:
    """A weight of 2 is the group twice, 0 is without it; loops over groups."""
    generator = np.random.default_rng(3)
    by_group = ByGroup(
        *(generator.gamma(2, 1, (2, 3, 5)) for _ in range(2)),
        *(generator.integers(0, 4, (2, 5)).astype(float) for _ in range(2)),
    )
    by_group.same_weights[0] = 0
    weights = np.array([[1.0, 1, 1, 1, 1], [2, 0, 1, 0, 2]])
    same, cross = by_group.means(weights)
    for draw, counts in enumerate(weights):
        for site in range(2):
            for head in range(3):
                for found, sums, pairs in (
                    (same, by_group.same, by_group.same_weights),
                    (cross, by_group.cross, by_group.cross_weights),
                ):
                    n_pairs = sum(count * pairs[site, group] for group, count in enumerate(counts))
                    total = sum(count * sums[site, head, group] for group, count in enumerate(counts))
                    expected = total / n_pairs if n_pairs else np.nan
                    np.testing.assert_allclose(found[draw, site, head], expected, rtol=1e-12)
    model_same, model_cross = by_group.model_means(weights)
    np.testing.assert_allclose(model_same, same[:, 1].mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(model_cross, cross[:, 1].mean(axis=1), rtol=1e-12, err_msg="a head without same pairs")


def test_nothing_divided_by_nothing_is_nan_without_a_warning() -> None:
    assert np.isnan(divide(0.0, 0.0))
    assert divide(np.array([1.0, 2.0]), np.array([0.0, 4.0]))[1] == 0.5
    assert np.isnan(nan_mean(np.full(3, np.nan)))
    assert nan_mean(np.array([1.0, np.nan, 3.0])) == 2.0


def test_weighted_sums_add_and_their_means_are_nan_without_weight() -> None:
    one = WeightedSums.empty(1, 2, 3)
    one.values[0, 0] = [2, 0, 0]
    one.weights[0] = [4, 0, 1]
    both = one.merge(one)
    np.testing.assert_array_equal(both.values, 2 * one.values)
    np.testing.assert_array_equal(both.means[0, 0], [0.5, np.nan, 0])
    with pytest.raises(ValueError, match="weights must have shape"):
        WeightedSums(np.zeros((1, 2, 3)), np.zeros((1, 4)))
