"""Feature maps: the kernel against itself, random ones by their laws."""

from __future__ import annotations

import numpy as np
import pytest

from topic_probes import dual
from topic_probes.dual._features import gaussian_factor, random_directions

RANDOM = [dual.TrigonometricFeatures, dual.PositiveFeatures]


def kernel_of(features):
    """Return the kernel that features stand for, as a plain array [query, token]."""
    logs = features.log_keys + features.log_queries[:, None]
    return np.exp(logs) * (features.queries @ features.keys.T)


def vectors(n_tokens, n_queries, d_head, size, seed=0):
    """Return keys and queries of about the given norm."""
    generator = np.random.default_rng(seed)
    draw = generator.standard_normal((n_tokens + n_queries, d_head)) * size / np.sqrt(d_head)
    return draw[:n_tokens], draw[n_tokens:]


def test_the_gaussian_factor_gives_the_gram_matrix_back():
    """L L^T = exp(-|x - y|^2 / 2), lower triangular in the order of its pivots, and no longer than its rank."""
    points = np.random.default_rng(0).standard_normal((20, 3)) * 2
    points = np.vstack([points, points[:5]])
    factor, pivots = gaussian_factor(points)
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    np.testing.assert_allclose(factor @ factor.T, np.exp(-squares / 2), atol=1e-14)
    assert factor.shape == (25, 20)
    assert len(set(pivots.tolist())) == 20
    np.testing.assert_array_equal(np.triu(factor[pivots], k=1), 0)


@pytest.mark.parametrize("d_head", [16, 64])
def test_every_entry_of_the_exact_kernel_is_right_where_tokens_are_apart(d_head):
    """Each entry, not only the sum: what an eigendecomposition would lose."""
    keys, queries = vectors(12, 6, d_head, 5)
    features = dual.ExactFeatures().fit(keys, queries)
    assert features.coordinates == "gram"
    np.testing.assert_allclose(kernel_of(features), np.exp(queries @ keys.T), rtol=1e-9)


def test_keys_far_from_the_origin_are_centred():
    """What all keys have in common goes into the factor of each query, and the Gram factor does."""
    keys, queries = vectors(12, 6, 16, 3)
    features = dual.ExactFeatures().fit(keys + 10, queries)
    assert features.coordinates == "gram"
    np.testing.assert_allclose(kernel_of(features), np.exp(queries @ (keys + 10).T), rtol=1e-9)


@pytest.mark.parametrize(("size", "coordinates"), [(1, "gram"), (30, "shortest gram"), (60, "key basis")])
def test_far_tokens_get_other_coordinates_and_stay_exact(size, coordinates):
    """Which coordinates they are is told; the last has one feature per key."""
    generator = np.random.default_rng(0)
    # Long where the other side is short: products stay small, distances do not.
    keys, queries = vectors(12, 6, 4, 1)
    if size == 30:
        long = generator.standard_normal((18, 2)) * size
        keys = np.hstack([keys, long[:12], np.zeros((12, 2))])
        queries = np.hstack([queries, np.zeros((6, 2)), long[12:]])
    keys, queries = (keys, queries) if size < 60 else (keys * size, queries * size)
    features = dual.ExactFeatures().fit(keys, queries)
    assert features.coordinates == coordinates
    assert features.relative_kernel_error < 1e-9
    assert (features.n_features == 12) == (coordinates == "key basis")


def test_the_kernel_error_is_what_a_loop_gives():
    """Largest over queries of the summed error over the sum."""
    keys, queries = vectors(7, 3, 4, 1.5)
    features = dual.PositiveFeatures(8, seed=1).fit(keys, queries)
    estimate = kernel_of(features)
    true = np.exp(queries @ keys.T)
    by_hand = max(
        sum(abs(estimate[q, t] - true[q, t]) for t in range(7)) / sum(true[q, t] for t in range(7)) for q in range(3)
    )
    assert features.relative_kernel_error == pytest.approx(by_hand, rel=1e-10)
    assert by_hand > 0.01


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("orthogonal", [False, True])
def test_random_features_are_unbiased(kind, orthogonal):
    """The mean over seeds is the kernel, within five standard errors."""
    keys, queries = vectors(3, 2, 4, 1.0)
    estimates = np.array(
        [kernel_of(kind(8, seed=seed, orthogonal=orthogonal).fit(keys, queries)) for seed in range(600)]
    )
    error = estimates.std(axis=0) / np.sqrt(600)
    assert (np.abs(estimates.mean(axis=0) - np.exp(queries @ keys.T)) < 5 * error).all()


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("orthogonal", [False, True])
def test_the_error_of_random_features_falls_like_one_over_the_root_of_their_number(kind, orthogonal):
    """Slope -1/2 on log-log axes, for small norms, over 30 seeds."""
    keys, queries = vectors(10, 4, 8, 0.5)
    numbers = np.array([32, 128, 512, 2048])
    errors = [
        np.mean(
            [kind(int(n), seed=seed, orthogonal=orthogonal).fit(keys, queries).kernel_errors() for seed in range(30)]
        )
        for n in numbers
    ]
    slope = np.polyfit(np.log(numbers), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize("kind", RANDOM)
def test_at_the_norms_of_real_heads_random_features_say_that_they_are_useless(kind):
    """Scores of 50 with 256 features: the reported error is large, and the dual's own output is off as well."""
    keys, queries = vectors(30, 3, 32, 12)
    fitted = dual.fit(keys, np.random.default_rng(1).standard_normal((30, 5)), [0], scale=1.0, features=kind(256))
    assert fitted.relative_kernel_error(queries) > 0.5
    assert fitted.relative_error(queries) > 0.05


def test_an_overflow_is_an_infinite_error_and_no_warning():
    """Trigonometric features of vectors as long as 60 are no numbers any more."""
    keys, queries = vectors(5, 2, 4, 60)
    fitted = dual.fit(keys, np.ones((5, 1)), [0], scale=1.0, features=dual.TrigonometricFeatures(16))
    assert fitted.relative_kernel_error(queries) > 1e6


@pytest.mark.parametrize("kind", RANDOM)
def test_a_seed_says_all_and_the_global_state_is_left_alone(kind):
    """Same seed same features, other seed others."""
    keys, queries = vectors(4, 2, 3, 1)
    before = np.random.get_state()[1].copy()
    first, again, other = (kind(10, seed=seed).fit(keys, queries).keys for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
    np.testing.assert_array_equal(before, np.random.get_state()[1])


def test_orthogonal_directions_are_orthogonal_within_blocks_and_normal_in_length():
    """Blocks of d_head rows, the last cut short; mean square length d_head."""
    directions = random_directions(10, 4, 0, True)
    for block in (directions[:4], directions[4:8], directions[8:]):
        products = block @ block.T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, atol=1e-12)
    assert abs(directions[0] @ directions[4]) > 1e-6
    many = random_directions(8000, 4, 1, True)
    assert (many**2).sum(axis=1).mean() == pytest.approx(4, abs=0.15)
    np.testing.assert_allclose(many.T @ many / 8000, np.eye(4), atol=0.06)


def test_a_wrong_number_of_features_is_refused():
    """Cosines and sines come in twos."""
    with pytest.raises(ValueError, match="n_features must be even"):
        dual.TrigonometricFeatures(7)
    with pytest.raises(ValueError, match="n_features must be at least 1"):
        dual.PositiveFeatures(0)
    with pytest.raises(TypeError, match="n_features must be a whole number"):
        dual.PositiveFeatures(True)


def test_a_map_of_ones_own_will_do():
    """Anything with fit(keys, queries): here the first two terms of the exponential series."""

    class Linear:
        def fit(self, keys, queries):
            def one_more(x):
                return np.hstack([np.ones((len(x), 1)), x])

            zeros = (np.zeros(len(keys)), np.zeros(len(queries)))
            return dual.KernelFeatures(one_more(keys), one_more(queries), *zeros, queries @ keys.T)

    keys, queries = vectors(5, 2, 3, 0.01)
    values = np.random.default_rng(0).standard_normal((5, 2))
    fitted = dual.fit(keys, values, [0], scale=1.0, features=Linear())
    weights = 1 + queries @ keys.T
    np.testing.assert_allclose(fitted.predict(queries), weights / weights.sum(1, keepdims=True) @ values, rtol=1e-12)
    assert 0 < fitted.relative_kernel_error(queries) < 1e-6
