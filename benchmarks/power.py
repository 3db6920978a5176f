"""Power: how small a ratio is found, by simulation. Not a time but a probability, so it is the same on any machine.

A corpus of 200 passages of about 193 tokens, of which one in fifteen is labelled, 40 topics: the numbers of pairs are
those of MiniLM over the passages of the other benchmarks. 72 heads, of which ``N_REAL`` follow topics with the same
strength; the others attend as unevenly and follow none. Noise (log-normal in each pair, gamma in each key word, a
level in each document) is such that the standard errors of the ratio are about MiniLM's: 0.06 to 0.08 of the ratio, by
estimator (medians over heads). A head counts as found with q <= 0.05 among the 72.

Permutations matter as much as passages: the smallest p-value is 1 / (R + 1), so Benjamini-Hochberg finds k heads of 72
only if 72 / (k (R + 1)) <= 0.05. With R = 200 fewer than 8 heads cannot be found, however strong.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from topic_probes.probes._rows import PairMeasures
from topic_probes.statistics._p_values import p_values, q_values
from topic_probes.statistics._sums import AttentionSums, WeightedSums

N_PASSAGES, N_HEADS, N_REAL = 200, 72, 6
RATIOS = (1.1, 1.15, 1.2, 1.25, 1.3, 1.4)
N_CORPORA = 6
N_PERMUTATIONS = (200, 999)
ALPHA, LABELLED_SHARE = 0.05, 0.065
SPREAD, KEY_SHAPE, ROUGHNESS, TOPIC_SPREAD = 0.6, 0.5, 1.3, 0.5
"""Of the logarithm of a head's level over documents, of the gamma distribution of key words, of the logarithm of single
pairs, and of the effect over documents, as a part of it."""
ESTIMATORS = ("pooled", "within_document", "distance_matched")
WANTED = 0.8


def run() -> dict[str, Any]:
    """Return the share of real heads found at each ratio, and the ratio at which four in five are."""
    found: dict[str, Any] = {"passages": N_PASSAGES, "heads": N_HEADS, "real_heads": N_REAL}
    # [ratio, corpus, permutations, estimator, head]
    rejected = np.array([[_rejected(ratio, seed) for seed in range(N_CORPORA)] for ratio in RATIOS])
    for number, n_permutations in enumerate(N_PERMUTATIONS):
        for index, estimator in enumerate(ESTIMATORS):
            name = f"{estimator}_{n_permutations}"
            power = rejected[:, :, number, index, :N_REAL].mean(axis=(1, 2))
            found[f"{name}_found"] = {ratio: round(float(share), 2) for ratio, share in zip(RATIOS, power, strict=True)}
            found[f"{name}_wrong"] = float(rejected[:, :, number, index, N_REAL:].sum(axis=-1).mean())
            found[f"{name}_smallest"] = _smallest(power.tolist())
    return found


def _rejected(ratio: float, seed: int) -> np.ndarray:
    """Return [permutations, estimator, head] whether q <= 0.05 in one simulated corpus; the first heads are real."""
    simulator = _simulator()
    generator = np.random.default_rng([seed, N_REAL])
    vocabulary = simulator.Vocabulary.zipf(n_topics=40, words_per_topic=5)
    lengths = np.clip(generator.normal(193, 30, N_PASSAGES), 60, 400).astype(np.int64)
    documents = simulator.make_documents(
        generator, N_PASSAGES, vocabulary, alpha=ALPHA, lengths=lengths, labelled_share=LABELLED_SHARE
    )
    effect = np.where(np.arange(N_HEADS) < N_REAL, ratio - 1, 0.0)[:, None, None]

    def uneven(generator: np.random.Generator, document: Any) -> np.ndarray:
        n = len(document)
        level = np.exp(generator.normal(-(SPREAD**2) / 2, SPREAD, (N_HEADS, 1, 1)))
        of_document = effect * (1 + generator.normal(0, TOPIC_SPREAD, (N_HEADS, 1, 1)))
        of_key = generator.gamma(KEY_SHAPE, 1 / KEY_SHAPE, (N_HEADS, 1, n))
        noise = np.exp(generator.normal(-(ROUGHNESS**2) / 2, ROUGHNESS, (N_HEADS, n, n)))
        return level * (1 + of_document * document.is_same) * of_key * noise

    measures = PairMeasures(vocabulary.labels, n_permutations=max(N_PERMUTATIONS), seed=seed)
    totals = simulator.probe_debiased(generator, documents, uneven, measures).totals
    return np.array(
        [
            [q_values(p_values(_with_permutations(totals, n), estimator))[0] <= 0.05 for estimator in ESTIMATORS]
            for n in N_PERMUTATIONS
        ]
    )


def _with_permutations(totals: AttentionSums, n: int) -> AttentionSums:
    """Return the same sums as if there had been the first ``n`` permutations only."""
    return replace(totals, null=WeightedSums(totals.null.values[:, :, :n], totals.null.weights[:, :n]))


def _smallest(power: list[float]) -> float:
    """Return the ratio at which the power first reaches what is wanted, between those tried; NaN if at none."""
    for index, (below, above) in enumerate(pairwise(power)):
        if below < WANTED <= above:
            return RATIOS[index] + (WANTED - below) / (above - below) * (RATIOS[index + 1] - RATIOS[index])
    return float("nan")


def _simulator() -> Any:
    """Return the simulator that the tests use."""
    folder = str(Path(__file__).resolve().parents[1] / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("simulated_heads")
