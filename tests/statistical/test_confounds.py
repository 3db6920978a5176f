"""Heads whose answer is known: is it topics, or length, distance, the mix of documents, frequency, sinks?

Each head gives patterns, which go through the counter as those of a model do. Where a pattern can be made without
noise, the answer is exact; else the interval must hold it. Seeds are fixed, so the outcome is always the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulated_heads import (
    Document,
    Head,
    Vocabulary,
    make_documents,
    mixed_lengths,
    normalised,
    probe_patterns,
    varied,
    with_sink,
    word_counts,
)
from topic_probes import AttentionResult
from topic_probes.probes._rows import PairMeasures
from topic_probes.statistics._p_values import q_values
from topic_probes.statistics._strata import ESTIMATORS, frequency_classes

EXACT = 1e-9
"""Sums of some thousand float64 terms."""
LONGEST = 200
"""Words of the longest document where there is noise: the cost grows with the square."""
N_HEADS = 4
"""Heads of the same kind, with noise of their own: each of them has to give the answer."""


def ratios(result: AttentionResult, estimator: str, *, renormalise: bool = False) -> np.ndarray:
    """[head] same- over cross-topic."""
    same, cross = (
        result.means(name, estimator=estimator, renormalise=renormalise)[0] for name in ("same_topic", "cross_topic")
    )
    return same / cross


def ends(result: AttentionResult, estimator: str, *, level: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
    """[head] lower and upper ends of the intervals of the ratio: wide ones, since many are looked at here."""
    low, high = result.confidence_interval(level, estimator=estimator)
    return np.asarray(low)[0], np.asarray(high)[0]


def holds(result: AttentionResult, estimator: str, truth: float) -> bool:
    low, high = ends(result, estimator)
    return bool(((low <= truth) & (truth <= high)).all())


def some_documents(seed: int, n_documents: int, **options: Any) -> list[Document]:
    generator = np.random.default_rng(seed)
    lengths = np.minimum(mixed_lengths(generator, n_documents), LONGEST)
    return make_documents(generator, n_documents, lengths=lengths, **options)


def measured(
    documents: list[Document], head: Head, *, vocabulary: Vocabulary | None = None, n_permutations: int = 0
) -> AttentionResult:
    vocabulary = Vocabulary.flat() if vocabulary is None else vocabulary
    measures = PairMeasures(
        vocabulary.labels, n_permutations=n_permutations, seed=0, word_counts=word_counts(documents)
    )
    return probe_patterns(np.random.default_rng(1), documents, head, measures)


# Distance.


def by_distance(generator: np.random.Generator, document: Document) -> np.ndarray:
    """Falls with distance alone, with noise; topics play no part."""
    noise = generator.standard_exponential((N_HEADS, len(document), len(document)))
    return normalised((0.1 + np.exp(-document.distance / 10)) * noise)


@pytest.fixture(scope="module")
def clustered() -> AttentionResult:
    documents = some_documents(2, 80, run_length=12)
    return measured(documents, by_distance, n_permutations=99)


def test_distance_looks_like_topics_where_topics_cluster(clustered: AttentionResult) -> None:
    """Pooled and within documents: well above 1, certainly, and significant. They do not answer this question."""
    for estimator in ("pooled", "within_document"):
        assert (ratios(clustered, estimator) > 1.3).all()
        assert (ends(clustered, estimator)[0] > 1).all()
        assert (q_values(clustered.p_values(estimator)) <= 0.05).all()


def test_distance_is_no_topic_at_equal_distance(clustered: AttentionResult) -> None:
    np.testing.assert_allclose(ratios(clustered, "distance_matched"), 1, atol=0.05)
    assert holds(clustered, "distance_matched", 1.0)
    assert (q_values(clustered.p_values("distance_matched")) > 0.05).all()


def test_distance_is_no_topic_where_topics_do_not_cluster() -> None:
    """The same heads over words in random order: the fault is not in the heads, but in what stands where."""
    result = measured(some_documents(2, 80), by_distance)
    for estimator in ESTIMATORS:
        assert holds(result, estimator, 1.0)


# Sinks.


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_sink_makes_means_small_and_leaves_ratios_alone(share: float) -> None:
    """A head that gives most of its attention to a special token, against the same head without: by hand."""
    documents = some_documents(3, 30, with_start=True)

    def head(_: np.random.Generator, document: Document) -> np.ndarray:
        weights = np.where(document.is_same, 1.5, 1.0) * ~document.is_special
        pattern = normalised(weights[None])
        return np.concatenate([pattern, with_sink(pattern, share)])

    result = measured(documents, head)
    np.testing.assert_allclose(result.means("special")[0], [0, share], atol=EXACT)
    for estimator in ESTIMATORS:
        for name in ("same_topic", "cross_topic"):
            without, sunk = result.means(name, estimator=estimator)[0]
            assert sunk == pytest.approx((1 - share) * without, rel=EXACT)
            without, sunk = result.means(name, estimator=estimator, renormalise=True)[0]
            assert sunk == pytest.approx(without, rel=EXACT)
        without, sunk = ratios(result, estimator)
        assert sunk == pytest.approx(without, rel=EXACT)
    renormalised = result.means("cross_topic", renormalise=True)[0]
    assert (np.abs(renormalised - 1) < 0.1).all()


def test_a_sink_of_another_size_in_each_document_leaves_ratios_within_their_rows() -> None:
    """Renormalised, such a head is the head without a sink, exactly; the plain ratio stays near."""
    documents = some_documents(4, 60, with_start=True)

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        pattern = normalised((np.where(document.is_same, 1.5, 1.0) * ~document.is_special)[None])
        return np.concatenate([pattern, with_sink(pattern, float(generator.uniform(0.2, 0.9)))])

    result = measured(documents, head)
    for estimator in ESTIMATORS:
        without, sunk = ratios(result, estimator, renormalise=True)
        assert sunk == pytest.approx(without, rel=EXACT)
        without, sunk = ratios(result, estimator)
        assert sunk == pytest.approx(without, abs=0.1)
        assert ends(result, estimator)[0][1] > 1


def test_a_sink_on_the_first_word_is_not_renormalised_away() -> None:
    """It takes part, as any word: means are small in both ways. If it has no topic, ratios are right all the same."""
    documents = [document for document in some_documents(5, 60) if not document.is_labelled[0]]

    def head(_: np.random.Generator, document: Document) -> np.ndarray:
        pattern = normalised(np.where(document.is_same, 1.5, 1.0)[None])
        return np.concatenate([pattern, with_sink(pattern, 0.9)])

    result = measured(documents, head)
    for renormalise in (False, True):
        without, sunk = result.means("cross_topic", renormalise=renormalise)[0]
        assert sunk == pytest.approx(0.1 * without, rel=EXACT)
    for estimator in ESTIMATORS:
        without, sunk = ratios(result, estimator)
        assert sunk == pytest.approx(without, rel=EXACT)


# Length.


@pytest.mark.parametrize("with_start", [False, True])
def test_uniform_attention_over_mixed_lengths_is_one(with_start: bool) -> None:
    """20 to 500 words, topics of very different sizes: 1 in every class by every estimator, to rounding."""
    documents = make_documents(
        np.random.default_rng(6), 40, alpha=np.geomspace(0.02, 2, 10), run_length=5, with_start=with_start
    )
    lengths = [len(document) for document in documents]
    assert min(lengths) < 40
    assert max(lengths) > 350
    result = measured(documents, lambda _, document: np.full((1, len(document), len(document)), 1 / len(document)))
    for estimator in ESTIMATORS:
        for renormalise in (False, True):
            for name in ("same_topic", "cross_topic", "same_token", "no_topic"):
                mean = result.means(name, estimator=estimator, renormalise=renormalise)
                np.testing.assert_allclose(mean, 1, rtol=EXACT)


# The mix of documents.


def test_pooled_and_within_document_disagree_in_sign() -> None:
    """Simpson: a head avoids its query's topic in each document, and looks at words more where there is one topic."""
    one_topic, mixed = some_documents(7, 40, alpha=0.02), some_documents(70, 40, alpha=5.0)
    focused = {document.name for document in one_topic}

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        labelled = document.is_labelled[None, :] & document.is_labelled[:, None]
        level = 2.0 if document.name in focused else 0.5
        weights = np.where(labelled, level * np.where(document.is_same, 0.8, 1.0), 1.0)
        return normalised(weights * generator.standard_exponential((N_HEADS, len(document), len(document))))

    result = measured(one_topic + mixed, head)
    assert (ends(result, "pooled")[0] > 1).all(), "same-topic pairs are those of documents that it looks at"
    for estimator in ("within_document", "distance_matched"):
        assert (ends(result, estimator)[1] < 1).all(), "in each document it avoids the topic"


# Frequency.


def test_frequent_words_of_frequent_topics_are_told_from_topics() -> None:
    """A head prefers frequent words, which are those of two topics: only matched on frequency its ratio is 1."""
    vocabulary = Vocabulary.zipf()
    alpha = np.r_[np.full(2, 2.0), np.full(8, 0.15)]
    documents = some_documents(8, 60, vocabulary=vocabulary, alpha=alpha, labelled_share=0.5)
    counts = word_counts(documents)
    tenths = frequency_classes({word: count for word, count in counts.items() if word < vocabulary.n_words})

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        preference = np.array([1.0 + tenths.get(word, 0) for word in document.words.tolist()])
        return normalised(preference * generator.standard_exponential((N_HEADS, len(document), len(document))))

    result = measured(documents, head, vocabulary=vocabulary)
    for estimator in ("pooled", "within_document", "distance_matched"):
        assert (ends(result, estimator)[0] > 1).all()
        assert (ratios(result, estimator) > 1.05).all()
    np.testing.assert_allclose(ratios(result, "frequency_matched"), 1, atol=0.02)
    assert holds(result, "frequency_matched", 1.0)


# A head that does follow topics.

STRENGTH = 1.5


def topic_head(generator: np.random.Generator, document: Document) -> np.ndarray:
    """Between labelled words noise of mean 0.5/n, or 1.5 times that for the same topic; other words get the rest.

    So the true ratio is 1.5 whatever else stands in the row.
    """
    n = len(document)
    among = 0.5 * varied(N_HEADS, STRENGTH - 1, spread=0.2)(generator, document) / n
    labelled = document.is_labelled
    weights = np.where(labelled[None, :] & labelled[:, None], among, 0.0)
    rest = np.clip(1 - weights.sum(axis=-1, keepdims=True), 0, None)
    weights = weights + rest * ~labelled / max((~labelled).sum(), 1)
    return normalised(weights)


@pytest.mark.parametrize("run_length", [1, 12])
def test_every_estimator_recovers_a_head_that_follows_topics(run_length: int) -> None:
    """Strength 1.5, whether topics cluster or not; and it is significant by each."""
    documents = some_documents(9, 80, run_length=run_length)
    result = measured(documents, topic_head, n_permutations=99)
    for estimator in ESTIMATORS:
        assert holds(result, estimator, STRENGTH)
        assert (ends(result, estimator)[0] > 1.2).all()
        assert (result.p_values(estimator) <= 0.05).all()


def test_distance_and_topics_together_are_taken_apart() -> None:
    """A head of strength 1.5 that also looks nearby, over clustered topics: only at equal distance it is 1.5."""

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        # Pulled towards near words, and 1.5 times as much to the same topic; unlabelled words take what is left.
        pull = 0.02 * np.exp(-document.distance / 10)
        labelled = document.is_labelled[None, :] & document.is_labelled[:, None]
        noise = generator.standard_exponential((N_HEADS, len(document), len(document)))
        weights = np.where(labelled, pull * np.where(document.is_same, STRENGTH, 1.0) * noise, 0.0)
        rest = np.clip(1 - weights.sum(axis=-1, keepdims=True), 0, None)
        weights = weights + rest * ~document.is_labelled / max((~document.is_labelled).sum(), 1)
        return normalised(weights)

    result = measured(some_documents(10, 80, run_length=12), head)
    assert (ends(result, "pooled")[0] > STRENGTH).all()
    assert holds(result, "distance_matched", STRENGTH)
    np.testing.assert_allclose(ratios(result, "distance_matched"), STRENGTH, rtol=0.1)
