"""The embedding probe at the size of a real vocabulary: 30,000 x 768, of which 10,000 words are labelled.

All 50 million pairs are measured, three measures of each, without sampling. Beside it, in the same rounds, one matrix
product that only lists these pairs (10,000 x 768 by its transpose, float64, nothing read off), and the smaller product
of the whole matrix with a square one. Targets: under 2 seconds, and at most 3 times the product of all pairs.

Once with topics that share no word, where sums over words give all pairs; once with words of two topics among them,
whose pairs are walked through.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from _measuring import seconds

import topic_probes as tp

D_VOCAB, D_MODEL, N_LABELLED, N_TOPICS = 30_000, 768, 10_000, 100
SHARED = 0.3
"""Of the words carry a second topic, in the second case."""
ROUNDS = 5


def run() -> dict[str, Any]:
    """Return median seconds of the probe and of the products, and the medians of their ratios round by round."""
    generator = np.random.default_rng(0)
    embedding = generator.normal(size=(D_VOCAB, D_MODEL)).astype(np.float32)
    words = generator.choice(D_VOCAB, N_LABELLED, replace=False)
    labelled, square = embedding[words].astype(np.float64), np.eye(D_MODEL)
    whole = embedding.astype(np.float64)
    found: dict[str, Any] = {"target_seconds": 2.0, "target_ratio_to_all_pairs": 3.0}
    for case, shared in (("disjoint", 0.0), ("overlapping", SHARED)):
        labels = tp.TopicLabels.from_dict({int(word): _topics(generator, shared) for word in words})
        work: dict[str, Callable[[], Any]] = {
            "probe": lambda labels=labels: tp.probe_embedding(embedding, labels),
            "all_pairs": lambda: labelled @ labelled.T,
            "whole_matrix": lambda: whole @ square,
        }
        for one in work.values():
            one()
        rounds = [{name: seconds(one) for name, one in work.items()} for _ in range(ROUNDS)]
        found[f"{case}_seconds"] = statistics.median(each["probe"] for each in rounds)
        for name in ("all_pairs", "whole_matrix"):
            found[f"{case}_ratio_to_{name}"] = statistics.median(each["probe"] / each[name] for each in rounds)
    return found


def _topics(generator: np.random.Generator, shared: float) -> list[int]:
    n_topics = 2 if generator.random() < shared else 1
    return generator.choice(N_TOPICS, n_topics, replace=False).tolist()
