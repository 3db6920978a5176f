"""All estimators, permutations, topics and distances from one pass, against plain loops over every pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pair_oracles
from pair_oracles import Pair
from topic_probes import AttentionResult, TopicLabels
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.statistics._sums import N_NULL_GROUPS, group_of
from topic_probes.tokens import Window
from topic_probes.tokens._windows import of_one_document

RELATIVE = 1e-9
"""Sums of a few hundred float64 terms in another order."""
SINGLE = 3e-6
"""Sums under permuted labels are products in single precision."""

VOCABULARY = ("cat", "dog", "sun", "moon", "tree", "leaf", "the", "of")
COUNTS = {"cat": 1, "leaf": 1, "moon": 9, "sun": 9, "dog": 70, "tree": 80, "the": 1000}
TENTHS = {"cat": 0, "leaf": 0, "sun": 0, "moon": 0, "dog": 2, "tree": 7}
"""By hand: the middles of 2, 18, 70 and 80 of 170 occurrences lie at 0.6, 6.5, 32.4 and 76.5 %."""


@dataclass
class Document:
    """A document of several windows, its patterns, and all its pairs."""

    name: str
    windows: list[Window] = field(default_factory=list)
    patterns: list[np.ndarray] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


@dataclass
class Case:
    """Documents and what is known of them."""

    topics: dict[str, tuple[int, ...]]
    documents: list[Document]

    @property
    def pairs(self) -> list[Pair]:
        return [pair for document in self.documents for pair in document.pairs]

    def probed(self, n_permutations: int = 0) -> tuple[AttentionResult, PairMeasures]:
        measures = PairMeasures(
            TopicLabels.from_dict(self.topics, n_topics=3),
            n_permutations=n_permutations,
            seed=5,
            topic_matrices=True,
            word_counts=COUNTS,
        )
        counter = PatternCounter((0,), measures)
        for document in self.documents:
            for window, pattern in zip(of_one_document(document.windows), document.patterns, strict=True):
                counter.begin_batch(BatchRows([window], [slice(0, len(window))], measures))
                counter.count(0, torch.from_numpy(pattern)[None])
                counter.end_batch()
        assert counter.totals is not None
        options = {"word_counts": "given"}
        return AttentionResult(
            counter.totals, {"n_documents": len(self.documents)}, {0: "read"}, (), options, 0
        ), measures


def make_case(seed: int, *, causal: bool, most_pieces: int, overlapping: bool, n_documents: int = 4) -> Case:
    numbers = np.random.default_rng(seed)
    topics: dict[str, tuple[int, ...]] = {
        "cat": (0,),
        "dog": (0,),
        "sun": (1,),
        "moon": (1,),
        "tree": (2,),
        "leaf": (2,),
    }
    if overlapping:
        topics |= {"dog": (0, 1), "leaf": (0, 2)}
    sees: Callable[[int, int], bool] = (lambda q, k: k <= q) if causal else (lambda q, k: True)
    documents = []
    for number in range(n_documents):
        document = Document(f"d{number}")
        for _ in range(int(numbers.integers(1, 4))):
            n_words = int(numbers.integers(3, 14))
            words = tuple(str(word) for word in numbers.choice(VOCABULARY, n_words))
            pieces = numbers.integers(1, most_pieces + 1, n_words)
            starts = 1 + np.cumsum(pieces) - pieces
            length = int(pieces.sum()) + 2
            is_special = np.isin(np.arange(length), [0, length - 1])
            document.windows.append(
                Window(document.name, np.arange(length), is_special, words, starts, starts + pieces)
            )
            logits = numbers.normal(0, 1.5, (2, length, length))
            mask = np.array([[sees(q, k) for k in range(length)] for q in range(length)])
            weights = np.where(mask, np.exp(logits), 0)
            document.patterns.append(weights / weights.sum(axis=-1, keepdims=True))
            parts = [
                (word, list(range(start, start + n))) for word, start, n in zip(words, starts, pieces, strict=True)
            ]
            document.pairs += pair_oracles.pairs_of_row(document.name, document.patterns[-1][1], parts, topics, sees)
        documents.append(document)
    return Case(topics, documents)


CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "causal": st.booleans(),
        "most_pieces": st.sampled_from([1, 3]),
        "overlapping": st.booleans(),
    }
)
"""Plain values; the case is made of them inside the test, because beartype draws from the global generator."""

STRATA: dict[str, Callable[[Pair], object] | None] = {
    "pooled": None,
    "within_document": lambda pair: pair.document,
    "distance_matched": lambda pair: (pair.document, pair.distance),  # every distance up to 32 is its own
    "frequency_matched": lambda pair: (pair.document, tuple(sorted((TENTHS[pair.query], TENTHS[pair.key])))),
}


@settings(max_examples=40)
@given(CASES)
@pytest.mark.parametrize("estimator", list(STRATA))
@pytest.mark.parametrize("renormalise", [False, True])
def test_every_estimator_equals_its_formula_over_all_pairs(estimator: str, renormalise: bool, recipe: dict) -> None:
    """Strata are of documents, also where a document goes through the model in several windows."""
    case = make_case(**recipe)
    result, _ = case.probed()
    expected = pair_oracles.same_and_cross(case.pairs, STRATA[estimator], renormalised=renormalise)
    found = [
        result.means(name, estimator=estimator, renormalise=renormalise)[0, 1] for name in ("same_topic", "cross_topic")
    ]
    np.testing.assert_allclose(found, expected, rtol=RELATIVE)


@settings(max_examples=40)
@given(CASES)
def test_the_other_classes_renormalised_equal_the_loops(recipe: dict) -> None:
    case = make_case(**recipe)
    result, _ = case.probed()
    for name in ("same_token", "no_topic"):
        values = [pair.renormalised for pair in case.pairs if pair.pair_class == name]
        expected = np.mean(values) if values else np.nan
        np.testing.assert_allclose(result.means(name, renormalise=True)[0, 1], expected, rtol=RELATIVE)


@settings(max_examples=25)
@given(CASES)
@pytest.mark.parametrize("estimator", list(STRATA))
def test_sums_under_permuted_labels_are_those_of_a_run_with_such_labels(estimator: str, recipe: dict) -> None:
    case = make_case(**recipe)
    n_permutations = 3
    result, measures = case.probed(n_permutations)
    rows = list(measures.labels.topics_of)
    taken = measures.topic_sets._permuted.numpy()
    column = 2 * list(STRATA).index(estimator)
    null = result.totals.null
    for number in range(n_permutations):
        permuted = {word: case.topics[rows[taken[row, number]]] for row, word in enumerate(rows)}
        expected = pair_oracles.same_and_cross(pair_oracles.with_topics(case.pairs, permuted), STRATA[estimator])
        with np.errstate(invalid="ignore"):
            sums = null.values[0, 1, number].sum(axis=0)[column : column + 2]
            found = sums / null.weights[0, number].sum(axis=0)[column : column + 2]
        np.testing.assert_allclose(found, expected, rtol=SINGLE)
    assert {tuple(sorted(taken[:, number].tolist())) for number in range(n_permutations)} == {tuple(range(len(rows)))}


@given(CASES)
def test_a_permuted_sum_belongs_to_the_group_of_its_document(recipe: dict) -> None:
    case = make_case(**recipe)
    result, _ = case.probed(1)
    used = {group_of(document.name) % N_NULL_GROUPS for document in case.documents}
    assert set(np.flatnonzero(result.totals.null.values.any(axis=(0, 1, 2, 4))).tolist()) <= used


@settings(max_examples=40)
@given(CASES)
def test_attention_by_topic_equals_the_loops(recipe: dict) -> None:
    case = make_case(**recipe)
    result, _ = case.probed()
    expected = np.array(pair_oracles.by_topic(case.pairs, case.topics, 3))
    np.testing.assert_allclose(result.topic_matrix(0, 1).to_numpy(), expected, rtol=RELATIVE)
    frame = result.topic_frame().query("head == 1").set_index("topic")
    for topic in range(3):
        own = [
            pair.attention
            for pair in case.pairs
            if pair.query != pair.key
            and topic in case.topics.get(pair.query, ())
            and topic in case.topics.get(pair.key, ())
        ]
        assert (topic in frame.index) == bool(own)
        if own:
            assert frame.loc[topic, "n_pairs"] == len(own)
            np.testing.assert_allclose(frame.loc[topic, "same_topic"], np.mean(own), rtol=RELATIVE)


@settings(max_examples=40)
@given(CASES)
def test_the_curve_over_distance_equals_the_loops(recipe: dict) -> None:
    case = make_case(**recipe)
    result, _ = case.probed()
    frame = result.distance_frame().query("head == 1").set_index(["pair_class", "distance"])
    cells: dict[tuple[str, int], list[float]] = {}
    for pair in case.pairs:
        if pair.pair_class in ("same_topic", "cross_topic"):
            cells.setdefault((pair.pair_class, pair.distance), []).append(pair.attention)
    assert set(frame.index) == set(cells)
    for cell, values in cells.items():
        assert frame.loc[cell, "n_pairs"] == len(values)
        np.testing.assert_allclose(frame.loc[cell, "mean"], np.mean(values), rtol=RELATIVE)


@settings(max_examples=20)
@given(CASES)
def test_merging_halves_gives_the_whole(recipe: dict) -> None:
    case = make_case(**recipe)
    whole, _ = case.probed(2)
    halves = [Case(case.topics, part).probed(2)[0] for part in (case.documents[:2], case.documents[2:])]
    both = halves[0].merge(halves[1])
    for name, array in whole.totals.to_arrays().items():
        np.testing.assert_allclose(both.totals.to_arrays()[name], array, rtol=SINGLE, atol=1e-12)


def test_uniform_attention_is_one_for_every_estimator_with_and_without_sinks() -> None:
    """Whatever the mask, the strata and the lengths; and no permutation is beaten by it: p is 1."""
    case = make_case(1, causal=True, most_pieces=3, overlapping=True, n_documents=30)
    for document in case.documents:
        document.patterns = [(pattern > 0) / (pattern > 0).sum(axis=-1, keepdims=True) for pattern in document.patterns]
    result, _ = case.probed(20)
    for estimator in STRATA:
        for renormalise in (False, True):
            for name in ("same_topic", "cross_topic"):
                means = result.means(name, estimator=estimator, renormalise=renormalise)
                np.testing.assert_allclose(means, 1, rtol=1e-12)
        assert (result.p_values(estimator) == 1).all()


def test_a_document_cut_into_windows_is_one_stratum() -> None:
    """By hand: one window has only same-topic pairs, the other only cross-topic ones; alone neither has weight."""
    at = np.arange(2)
    windows = [Window("d", at, at < 0, words, at, at + 1) for words in (("cat", "dog"), ("cat", "sun"))]
    patterns = [np.array([[[0.25, 0.75], [0.5, 0.5]]] * 2), np.array([[[0.5, 0.5], [0.9, 0.1]]] * 2)]
    case = Case({"cat": (0,), "dog": (0,), "sun": (1,)}, [Document("d", windows, patterns)])
    result, _ = case.probed()
    assert result.means("same_topic", estimator="within_document")[0, 0] == pytest.approx(2 * (0.75 + 0.5) / 2)
    assert result.means("cross_topic", estimator="within_document")[0, 0] == pytest.approx(2 * (0.5 + 0.9) / 2)
    case.documents = [
        Document(name, [window], [pattern]) for name, window, pattern in zip("ab", windows, patterns, strict=True)
    ]
    assert np.isnan(case.probed()[0].means("same_topic", estimator="within_document")).all()
