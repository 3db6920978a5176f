"""Simulations of what p-values and intervals say of heads whose answers are known; tests and a benchmark share them.

Seeds are fixed, so an outcome is always the same. Heads of one corpus share its documents, so they are few and corpora
many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from simulated_heads import Head, Vocabulary, make_documents, near, noisy, probe_debiased, varied
from topic_probes.probes._rows import PairMeasures
from topic_probes.statistics._sums import AttentionSums

ESTIMATORS = ("pooled", "within_document", "distance_matched")
VOCABULARY = Vocabulary.flat()
LABELLED = 0.2
"""Share of the words."""

N_CORPORA, N_DOCUMENTS, N_PERMUTATIONS = 80, 60, 199
N_NULL_HEADS = 6
"""Few enough that a single one can be found: the smallest q-value, 6 / 200, is below 0.05."""
NULLS: dict[str, tuple[Head, int]] = {
    "independent noise": (noisy(N_NULL_HEADS), 1),
    "documents and key words differ": (varied(N_NULL_HEADS), 1),
    "near words over clustered topics": (near(N_NULL_HEADS), 5),
}
"""Heads without topics, and how many words in a row are of one topic."""
CASES = [(kind, estimator) for kind in list(NULLS)[:2] for estimator in ESTIMATORS]
CASES.append(("near words over clustered topics", "distance_matched"))

EFFECT = 0.2
TRUTH = {"ratio": 1 + EFFECT, "difference": EFFECT}


@dataclass
class Null:
    """p-values [corpus, head] by estimator, and those of the difference without its error."""

    p: dict[str, np.ndarray] = field(default_factory=dict)
    plain: dict[str, np.ndarray] = field(default_factory=dict)


@cache
def null(kind: str) -> Null:
    """p-values of heads without topics, over ``N_CORPORA`` corpora."""
    head, run_length = NULLS[kind]
    studentised: dict[str, list[np.ndarray]] = {estimator: [] for estimator in ESTIMATORS}
    plain: dict[str, list[np.ndarray]] = {estimator: [] for estimator in ESTIMATORS}
    for number in range(N_CORPORA):
        generator = np.random.default_rng([1, number])
        documents = make_documents(generator, N_DOCUMENTS, VOCABULARY, labelled_share=LABELLED, run_length=run_length)
        measures = PairMeasures(VOCABULARY.labels, n_permutations=N_PERMUTATIONS, seed=number)
        result = probe_debiased(generator, documents, head, measures)
        for column, estimator in enumerate(ESTIMATORS):
            studentised[estimator].append(result.p_values(estimator)[0])
            same, cross = (result.means(name, estimator=estimator)[0] for name in ("same_topic", "cross_topic"))
            plain[estimator].append(plain_p_values(result.totals, 2 * column, same - cross))
    return Null(*({name: np.array(values) for name, values in one.items()} for one in (studentised, plain)))


def plain_p_values(totals: AttentionSums, column: int, observed: np.ndarray) -> np.ndarray:
    """[head] how often a permuted difference is at least the observed one: what the package does not do."""
    pair = slice(column, column + 2)
    sums, weights = (array[0, ..., pair].sum(axis=-2) for array in (totals.null.values, totals.null.weights))
    means = sums / weights
    permuted = means[..., 0] - means[..., 1]
    return ((permuted >= observed[:, None]).sum(axis=1) + 1) / (permuted.shape[1] + 1)


@cache
def coverage(
    n_documents: int, n_corpora: int, n_heads: int, methods: tuple[str, ...]
) -> dict[tuple[str, str, str], int]:
    """(estimator, measure, method) -> intervals of 95 % that hold the truth, of n_corpora * n_heads."""
    covered: dict[tuple[str, str, str], int] = {}
    for number in range(n_corpora):
        generator = np.random.default_rng([2, n_documents, number])
        documents = make_documents(generator, n_documents, VOCABULARY, labelled_share=LABELLED)
        result = probe_debiased(generator, documents, varied(n_heads, EFFECT), PairMeasures(VOCABULARY.labels))
        for estimator in ESTIMATORS:
            for measure, truth in TRUTH.items():
                for method in methods:
                    low, high = result.confidence_interval(0.95, estimator=estimator, measure=measure, method=method)
                    holds = int(((low <= truth) & (truth <= high)).sum())
                    name = estimator, measure, method
                    covered[name] = covered.get(name, 0) + holds
    return covered
