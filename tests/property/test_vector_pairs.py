"""Exact pair statistics against a loop over all pairs, for whatever vectors and topic sets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topic_probes.statistics._vector_pairs as vector_pairs
from topic_probes.statistics._vector_pairs import MEASURES, pair_moments, topic_gram

# Per pair, float64 leaves about 1e-15 of the largest product; the loop itself is no better.
ROUNDING = 1e-12


@st.composite
def labelled_vectors(draw):
    """Vectors of small whole numbers (so that zero and equality are exact), perhaps with a large common direction."""
    n_words, width = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    entry = st.integers(-3, 3)
    rows = draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=n_words, max_size=n_words))
    offset = draw(st.sampled_from([0, 0, 5, 300]))
    n_topics = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["disjoint", "overlapping", "one topic"]))
    largest = {"disjoint": 1, "overlapping": n_topics, "one topic": 1}[kind]
    topic = st.just(0) if kind == "one topic" else st.integers(0, n_topics - 1)
    sets = draw(st.lists(st.sets(topic, min_size=1, max_size=largest), min_size=n_words, max_size=n_words))
    membership = np.array([[topic in carried for topic in range(n_topics)] for carried in sets])
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    return (np.array(rows) + offset).astype(dtype), membership


def oracle_values(vectors, measure):
    """Return {(i, j): value} for i < j by loops; a word without a direction has no entry."""
    rows = [[int(entry) for entry in row] for row in vectors]
    count, width = len(rows), len(rows[0])
    if measure == "centred_cosine":
        # Times the number of words, which a cosine does not see: whole numbers, so zero is exactly zero.
        totals = [sum(row[k] for row in rows) for k in range(width)]
        rows = [[count * row[k] - totals[k] for k in range(width)] for row in rows]
    values = {}
    for i, j in itertools.combinations(range(count), 2):
        dot = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
        if measure != "dot":
            norms = sum(a * a for a in rows[i]) * sum(b * b for b in rows[j])
            if norms == 0:
                continue
            values[i, j] = dot / math.sqrt(norms)
        else:
            values[i, j] = float(dot)
    return values


def oracle_classes(vectors, membership, measure):
    """Return the values of same-topic pairs and of cross-topic pairs."""
    classes = ([], [])
    for (i, j), value in oracle_values(vectors, measure).items():
        meet = any(a and b for a, b in zip(membership[i], membership[j], strict=True))
        classes[0 if meet else 1].append(value)
    return classes


def assert_equals_oracle(vectors, membership, *, exact_deviation):
    """Compare every number; a deviation of exactly zero is met to rounding by blocks, as a variance by moments."""
    pairs = pair_moments(vectors, membership)
    for row, measure in enumerate(MEASURES):
        size = float(np.abs(vectors.astype(float)).max() ** 2 * vectors.shape[1]) if measure == "dot" else 1.0
        for column, values in enumerate(oracle_classes(vectors, membership, measure)):
            assert pairs.n_pairs[row, column] == len(values)
            if not values:
                assert np.isnan(pairs.mean[row, column])
                assert np.isnan(pairs.std[row, column])
                continue
            mean = math.fsum(values) / len(values)
            variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
            assert pairs.mean[row, column] == pytest.approx(mean, rel=1e-9, abs=ROUNDING * size)
            if exact_deviation:
                assert pairs.std[row, column] == pytest.approx(math.sqrt(variance), rel=1e-9, abs=ROUNDING * size)
            else:
                assert pairs.std[row, column] ** 2 == pytest.approx(variance, rel=1e-9, abs=ROUNDING * size**2)


@given(labelled_vectors())
def test_blocks_equal_a_loop_over_all_pairs(case):
    """Mean, deviation and count of each measure and class are those of the pairs themselves."""
    assert_equals_oracle(*case, exact_deviation=True)


@given(labelled_vectors(), st.integers(1, 5), st.integers(1, 5))
def test_tiles_of_any_size_give_the_same_numbers(case, rows, columns):
    """The size of the tiles is a matter of memory, not of the result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_pairs, "_TILE_ROWS", rows)
        patch.setattr(vector_pairs, "_TILE_COLUMNS", columns)
        assert_equals_oracle(*case, exact_deviation=True)


@given(labelled_vectors(), st.integers(1, 5), st.integers(1, 5))
def test_sums_over_words_equal_a_loop_over_all_pairs(case, rows, columns):
    """The way for many words, all pairs from moments and cross-topic as the rest, has the same numbers."""
    vectors, membership = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_pairs, "_WALK_ALL_PAIRS_UP_TO", 0)
        patch.setattr(vector_pairs, "_walking_is_cheaper", lambda *shape: False)
        patch.setattr(vector_pairs, "_TILE_ROWS", rows)
        patch.setattr(vector_pairs, "_TILE_COLUMNS", columns)
        assert_equals_oracle(vectors, membership, exact_deviation=False)


@given(labelled_vectors(), st.randoms(use_true_random=False))
def test_the_order_of_words_and_topics_does_not_matter(case, random):
    """Shuffled words and renamed topics give the same statistics."""
    vectors, membership = case
    words, topics = list(range(len(vectors))), list(range(membership.shape[1]))
    random.shuffle(words)
    random.shuffle(topics)
    before, after = pair_moments(vectors, membership), pair_moments(vectors[words], membership[words][:, topics])
    size = max(1.0, float(np.abs(vectors.astype(float)).max() ** 2 * vectors.shape[1]))
    np.testing.assert_array_equal(after.n_pairs, before.n_pairs)
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-9, atol=ROUNDING * size)
    np.testing.assert_allclose(after.std, before.std, rtol=1e-9, atol=ROUNDING * size)


@given(labelled_vectors(), st.sampled_from(MEASURES))
def test_topic_gram_is_the_mean_between_the_words_of_two_topics(case, measure):
    """Each cell is the mean over ordered pairs of different words, or NaN without any."""
    vectors, membership = case
    values = oracle_values(vectors, measure)
    values.update({(j, i): value for (i, j), value in values.items()})
    size = float(np.abs(vectors.astype(float)).max() ** 2 * vectors.shape[1]) if measure == "dot" else 1.0
    gram = topic_gram(vectors, membership, measure)
    for a, b in itertools.product(range(membership.shape[1]), repeat=2):
        between = [value for (i, j), value in values.items() if membership[i, a] and membership[j, b]]
        if between:
            assert gram[a, b] == pytest.approx(
                math.fsum(between) / len(between), rel=1e-9, abs=ROUNDING * max(size, 1.0)
            )
        else:
            assert np.isnan(gram[a, b])
