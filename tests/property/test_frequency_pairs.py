"""Frequency-matched similarities against loops over all pairs, for whatever vectors, topic sets and frequencies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topic_probes.statistics._frequency_pairs as module
from topic_probes.statistics._frequency_pairs import frequency_pairs
from topic_probes.statistics._strata import N_FREQUENCY_STRATA
from topic_probes.statistics._vector_pairs import MEASURES, pair_moments

ROUNDING = 1e-11
"""Sums of float64 products of size one, some of which cancel."""


@st.composite
def words(draw, most=14):
    """Vectors, topic sets (at least one topic each), and frequency classes, of which few differ."""
    n_words, width, n_topics = draw(st.integers(2, most)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    vectors = generator.normal(size=(n_words, width)) + draw(st.sampled_from([0, 3]))
    if draw(st.booleans()):
        vectors[draw(st.integers(0, n_words - 1))] = 0
    membership = generator.random((n_words, n_topics)) < 0.4
    membership[np.arange(n_words), generator.integers(n_topics, size=n_words)] = True
    classes = generator.choice(draw(st.sampled_from([[0], [0, 9], [1, 4, 5]])), size=n_words)
    return vectors, membership, classes


def loops(vectors, membership, classes, measure):
    """Mean of same- and of cross-topic pairs, and their numbers, one pair at a time."""
    if measure == "centred_cosine":
        vectors = vectors - vectors.mean(axis=0)
    strata = {}
    for i, j in itertools.combinations(range(len(vectors)), 2):
        norms = 1.0 if measure == "dot" else np.linalg.norm(vectors[i]) * np.linalg.norm(vectors[j])
        if norms < 1e-12:
            continue
        name = 0 if any(a and b for a, b in zip(membership[i], membership[j], strict=True)) else 1
        stratum = strata.setdefault(frozenset((int(classes[i]), int(classes[j]))), ([], []))
        stratum[name].append(float(vectors[i] @ vectors[j] / norms))
    both = [(same, cross) for same, cross in strata.values() if same and cross]
    weights = [len(same) * len(cross) / (len(same) + len(cross)) for same, cross in both]
    numbers = [sum(len(stratum[name]) for stratum in both) for name in (0, 1)]
    if not both:
        return [np.nan, np.nan], numbers
    return [
        sum(weight * np.mean(stratum[name]) for weight, stratum in zip(weights, both, strict=True)) / sum(weights)
        for name in (0, 1)
    ], numbers


@given(words(), st.sampled_from([1, 3, 512]))
def test_means_and_numbers_are_those_of_loops_over_all_pairs(given_words, tile):
    """For disjoint and for overlapping topics; a zero vector has no cosine; however the cells are cut into tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE_ROWS", tile)
        found = frequency_pairs(*given_words)
    for row, measure in enumerate(MEASURES):
        mean, numbers = loops(*given_words, measure)
        np.testing.assert_allclose(found.mean[row], mean, rtol=ROUNDING, atol=ROUNDING)
        assert found.n_pairs[row].tolist() == numbers


@given(words())
def test_summed_over_strata_they_are_the_pooled_pairs(given_words):
    """The same pairs, once each: counts and sums of the measures that are not matched."""
    vectors, membership, _ = given_words
    found, pooled = frequency_pairs(*given_words), pair_moments(vectors, membership)
    np.testing.assert_array_equal(found.counts.sum(axis=1), pooled.n_pairs)
    sums = np.where(pooled.n_pairs > 0, pooled.mean * pooled.n_pairs, 0)
    np.testing.assert_allclose(found.sums.sum(axis=1), sums, rtol=ROUNDING, atol=100 * ROUNDING)


@given(words())
def test_one_frequency_class_is_the_pooled_estimate(given_words):
    """Where both classes of pairs are there; where one is empty there is nothing to match."""
    vectors, membership, _ = given_words
    found, pooled = frequency_pairs(vectors, membership, np.full(len(vectors), 7)), pair_moments(vectors, membership)
    both = (pooled.n_pairs > 0).all(axis=1)
    np.testing.assert_allclose(found.mean[both], pooled.mean[both], rtol=ROUNDING, atol=ROUNDING)
    assert np.isnan(found.mean[~both]).all()
    assert (found.n_pairs[~both] == 0).all()


def test_vectors_that_carry_frequency_alone_show_no_topic_once_matched():
    """Topic 0 is made of common words, topic 1 of rare ones, but for a few; pooled, topics seem to matter."""
    generator = np.random.default_rng(0)
    topic = np.repeat([0, 1], 200)
    tenth = np.where(generator.random(400) < 0.8, np.where(topic == 0, 9, 0), np.where(topic == 0, 0, 9))
    direction = np.where(tenth == 9, 1.0, -1.0)[:, None] * np.ones((1, 30))
    vectors = direction + generator.normal(size=(400, 30))
    membership = topic[:, None] == np.arange(2)
    pooled, matched = pair_moments(vectors, membership).mean, frequency_pairs(vectors, membership, tenth).mean
    row = MEASURES.index("centred_cosine")
    assert pooled[row, 0] - pooled[row, 1] > 0.2
    assert abs(matched[row, 0] - matched[row, 1]) < 0.01


def test_no_word_has_no_pair():
    empty = frequency_pairs(np.empty((0, 3)), np.empty((0, 2), dtype=bool), np.empty(0, dtype=int))
    assert empty.counts.shape == (3, N_FREQUENCY_STRATA, 2)
    assert not empty.counts.any()
    assert np.isnan(empty.mean).all()
