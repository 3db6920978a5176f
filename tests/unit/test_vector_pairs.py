"""Exact pair statistics of word vectors: by hand, against brute force in extended precision, and at the door."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import topic_probes.statistics._vector_pairs as vector_pairs
from topic_probes.statistics._vector_pairs import (
    MEASURES,
    VECTOR_PAIR_CLASSES,
    VectorPairs,
    pair_moments,
    topic_gram,
)

DOT, COSINE, CENTRED = (MEASURES.index(measure) for measure in ("dot", "cosine", "centred_cosine"))
SAME, CROSS = (VECTOR_PAIR_CLASSES.index(pair_class) for pair_class in ("same_topic", "cross_topic"))


def disjoint(topics, n_topics):
    """Return the membership of words that carry one topic each."""
    return np.eye(n_topics, dtype=bool)[topics]


def by_moments(monkeypatch):
    """Make even few words go the way of many."""
    monkeypatch.setattr(vector_pairs, "_WALK_ALL_PAIRS_UP_TO", 0)


def brute_force(vectors, membership):
    """Return mean and deviation of the dot products per class, in extended precision over an index of pairs."""
    wide = vectors.astype(np.longdouble)
    first, second = np.triu_indices(len(wide), k=1)
    values = (wide[first] * wide[second]).sum(axis=1)
    meet = (membership[first] & membership[second]).any(axis=1)
    return [(float(values[chosen].mean()), float(values[chosen].std())) for chosen in (meet, ~meet)]


def test_three_words_by_hand():
    """Two words on one axis and one across: same topic 2 and 1, cross topic 0 and 0."""
    pairs = pair_moments(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), disjoint([0, 0, 1], 2))
    np.testing.assert_array_equal(pairs.mean[[DOT, COSINE]], [[2, 0], [1, 0]])
    np.testing.assert_array_equal(pairs.std[[DOT, COSINE]], 0)
    np.testing.assert_array_equal(pairs.n_pairs, [[1, 2]] * 3)


def test_words_that_share_two_topics_are_one_pair():
    """A pair counts once, in however many topics its words meet."""
    membership = np.array([[True, True, False], [True, True, False], [False, True, True], [False, False, True]])
    pairs = pair_moments(np.arange(8.0).reshape(4, 2), membership)
    # 0-1, 0-2, 1-2 meet in the second topic (0-1 in the first too), 2-3 in the third.
    np.testing.assert_array_equal(pairs.n_pairs[DOT], [4, 2])


def test_one_word_has_no_pair():
    """Empty classes are NaN with the count 0, never 0."""
    pairs = pair_moments(np.ones((1, 3)), np.ones((1, 1), dtype=bool))
    assert np.isnan(pairs.mean).all()
    assert np.isnan(pairs.std).all()
    assert not pairs.n_pairs.any()


def test_no_word_has_no_pair():
    """Nothing in, nothing out, and no error."""
    pairs = pair_moments(np.ones((0, 3)), np.ones((0, 2), dtype=bool))
    assert pairs.n_words == 0
    assert not pairs.n_pairs.any()
    assert np.isnan(topic_gram(np.ones((0, 3)), np.ones((0, 2), dtype=bool))).all()


def test_one_topic_only_leaves_cross_topic_empty(monkeypatch):
    """Where every word carries the topic there is no cross-topic pair, on either way."""
    vectors = np.random.default_rng(0).normal(size=(50, 3))
    for _ in range(2):
        pairs = pair_moments(vectors, np.ones((50, 1), dtype=bool))
        np.testing.assert_array_equal(pairs.n_pairs, [[50 * 49 // 2, 0]] * 3)
        assert np.isnan(pairs.mean[:, CROSS]).all()
        assert not np.isnan(pairs.mean[:, SAME]).any()
        by_moments(monkeypatch)


def test_cosines_are_those_of_scipy():
    """Cosine and centred cosine equal one minus scipy's cosine distance, raw and after the mean is taken off."""
    random = np.random.default_rng(1)
    vectors = random.normal(size=(60, 7)) + 2
    pairs = pair_moments(vectors, np.ones((60, 1), dtype=bool))
    for row, used in ((COSINE, vectors), (CENTRED, vectors - vectors.mean(axis=0))):
        cosines = 1 - pdist(used, "cosine")
        assert pairs.mean[row, SAME] == pytest.approx(cosines.mean(), rel=1e-9)
        assert pairs.std[row, SAME] == pytest.approx(cosines.std(), rel=1e-9)


@pytest.mark.parametrize("way", ["blocks", "moments"])
@pytest.mark.parametrize("labels", ["disjoint", "overlapping"])
def test_nearly_equal_directions_keep_their_digits(monkeypatch, way, labels):
    """With all cosines at 0.99 and a spread of 1e-4, mean and deviation hold to 1e-9 of themselves."""
    random = np.random.default_rng(2)
    count, width, n_topics = 600, 40, 6
    topics = random.integers(0, n_topics, count)
    # A common direction of length 1, noise that is orthogonal to it and nearly the same length for each word.
    noise = random.normal(size=(count, width)) + 0.5 * random.normal(size=(n_topics, width))[topics]
    noise[:, 0] = 0
    noise *= 0.1 / np.linalg.norm(noise, axis=1, keepdims=True) * (1 + 0.003 * random.normal(size=(count, 1)))
    noise *= np.sqrt(1 / 40)
    vectors = np.eye(width)[0] * np.sqrt(0.99) + noise
    membership = disjoint(topics, n_topics)
    if labels == "overlapping":
        membership |= disjoint(random.integers(0, n_topics, count), n_topics) & (random.random((count, 1)) < 0.3)
    if way == "moments":
        by_moments(monkeypatch)
        assert not vector_pairs._walking_is_cheaper(count, width, membership.sum(axis=0))
    pairs = pair_moments(vectors, membership)
    for column, (mean, std) in enumerate(brute_force(vectors, membership)):
        assert 0.98 < mean < 1
        assert 1e-5 < std < 5e-4
        assert pairs.mean[DOT, column] == pytest.approx(mean, rel=1e-12)
        assert pairs.std[DOT, column] == pytest.approx(std, rel=1e-9)
    units = vectors / np.linalg.norm(vectors.astype(np.longdouble), axis=1, keepdims=True)
    for column, (mean, std) in enumerate(brute_force(units, membership)):
        assert pairs.mean[COSINE, column] == pytest.approx(mean, rel=1e-12)
        assert pairs.std[COSINE, column] == pytest.approx(std, rel=1e-9)


def test_exact_blocks_have_no_spread():
    """The toy model's zero-loss embedding, one value within topics and one across, has deviation zero to rounding."""
    topics = np.repeat(np.arange(4), 25)
    pairs = pair_moments(disjoint(topics, 4).astype(float) + 0.1, disjoint(topics, 4))
    assert (pairs.std < 1e-14).all()


def test_both_ways_agree_above_the_limit(monkeypatch):
    """Where the number of words decides the way, moments and blocks give the same numbers."""
    random = np.random.default_rng(3)
    vectors, topics = random.normal(size=(5000, 8)) + 1, random.integers(0, 20, 5000)
    assert len(vectors) > vector_pairs._WALK_ALL_PAIRS_UP_TO
    moments = pair_moments(vectors, disjoint(topics, 20))
    monkeypatch.setattr(vector_pairs, "_all_pairs", None)
    monkeypatch.setattr(vector_pairs, "_WALK_ALL_PAIRS_UP_TO", 5000)
    blocks = pair_moments(vectors, disjoint(topics, 20))
    np.testing.assert_array_equal(moments.n_pairs, blocks.n_pairs)
    np.testing.assert_allclose(moments.mean, blocks.mean, rtol=1e-9)
    np.testing.assert_allclose(moments.std, blocks.std, rtol=1e-9)


def test_zero_vectors_are_left_out_of_cosines_and_counted():
    """A zero vector has no direction: it stays in the dot products, and not in the cosines."""
    vectors = np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    pairs = pair_moments(vectors, np.ones((4, 1), dtype=bool))
    np.testing.assert_array_equal(pairs.n_without_direction, [0, 2, 0])
    np.testing.assert_array_equal(pairs.n_pairs[:, SAME], [6, 1, 6])
    assert pairs.mean[COSINE, SAME] == pytest.approx(np.sqrt(0.5))
    assert pairs.mean[DOT, SAME] == pytest.approx(0.5)


def test_equal_vectors_have_no_direction_after_centring():
    """What rounding leaves of a vector minus the mean is not taken for a direction."""
    vectors = np.full((7, 5), 0.1) * np.array([1.0, 3.0, 7.0, 0.3, 11.0])
    pairs = pair_moments(vectors, np.ones((7, 1), dtype=bool))
    np.testing.assert_array_equal(pairs.n_without_direction, [0, 0, 7])
    np.testing.assert_array_equal(pairs.n_pairs[:, SAME], [21, 21, 0])
    assert pairs.mean[COSINE, SAME] == pytest.approx(1)


def test_a_zero_vector_at_the_mean_has_no_direction():
    """A word that sits exactly at the mean is left out, although the mean itself is rounded."""
    vectors = np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 3.0], [0.0, -2.0], [0.0, -3.0]])
    pairs = pair_moments(vectors, np.ones((5, 1), dtype=bool))
    np.testing.assert_array_equal(pairs.n_without_direction, [0, 1, 1])
    np.testing.assert_array_equal(pairs.n_pairs[:, SAME], [10, 6, 6])


def test_centring_takes_off_what_all_words_share():
    """A common offset leaves the centred cosine alone and drives the cosine to 1."""
    random = np.random.default_rng(4)
    vectors, membership = random.normal(size=(40, 6)), disjoint(random.integers(0, 3, 40), 3)
    before, after = pair_moments(vectors, membership), pair_moments(vectors + 50, membership)
    np.testing.assert_allclose(after.mean[CENTRED], before.mean[CENTRED], rtol=1e-9)
    assert (after.mean[COSINE] > 0.99).all()
    assert (before.mean[COSINE] < 0.5).all()


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_cosines_do_not_see_the_size_of_vectors(size):
    """Vectors whose squares leave the range of float64 have the cosines of ordinary ones."""
    vectors, membership = np.random.default_rng(5).normal(size=(20, 4)), disjoint([0, 1] * 10, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        extreme = pair_moments(vectors * size, membership)
    ordinary = pair_moments(vectors, membership)
    np.testing.assert_allclose(extreme.mean[COSINE:], ordinary.mean[COSINE:], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_short_floats_are_computed_in_float64(dtype):
    """Half and single precision vectors give what the same numbers give in double precision."""
    vectors = np.random.default_rng(6).normal(size=(50, 8)).astype(dtype)
    membership = disjoint([0, 1] * 25, 2)
    short, long = pair_moments(vectors, membership), pair_moments(vectors.astype(np.float64), membership)
    np.testing.assert_array_equal(short.mean, long.mean)
    np.testing.assert_array_equal(short.std, long.std)


def test_inputs_are_left_alone():
    """Read-only arrays are accepted, so nothing is written into them."""
    vectors, membership = np.random.default_rng(7).normal(size=(20, 3)), disjoint([0, 1] * 10, 2)
    vectors.flags.writeable = membership.flags.writeable = False
    assert isinstance(pair_moments(vectors, membership), VectorPairs)
    topic_gram(vectors, membership, "centred_cosine")


def test_topic_gram_by_hand():
    """Means between topics; NaN for one word alone on the diagonal and for an empty topic."""
    vectors = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 3.0]])
    gram = topic_gram(vectors, disjoint([0, 0, 1], 3), "dot")
    np.testing.assert_array_equal(gram, [[2, 1.5, np.nan], [1.5, np.nan, np.nan], [np.nan] * 3])


@pytest.mark.parametrize(
    ("vectors", "membership", "message"),
    [
        (np.array([[1.0], [np.nan]]), np.ones((2, 1), dtype=bool), "vectors must be finite, got NaN .* in row 1"),
        (np.ones((2, 1)), np.array([[True], [False]]), "row 1 has none: leave unlabelled words out"),
    ],
)
@pytest.mark.parametrize("function", [pair_moments, topic_gram])
def test_bad_input_is_one_sentence(function, vectors, membership, message):
    """What cannot be measured is refused with the row where it stands."""
    with pytest.raises(ValueError, match=message):
        function(vectors, membership)


def test_an_unknown_measure_is_refused():
    """The message lists the measures."""
    with pytest.raises(Exception, match=r"euclidean"):
        topic_gram(np.ones((2, 1)), np.ones((2, 1), dtype=bool), "euclidean")  # pyright: ignore[reportArgumentType]
