"""Throughput of training the toy model by its bags of words, against the straightforward way.

The straightforward way pads the rows, makes every position a query and all logits, and uses those of masked positions.
Both ways see the same documents and masks, and after some steps their losses must be equal up to rounding, or the
comparison is void. The sizes of Li et al. (2023): 10 topics of 10 words, documents of 100 to 150 words, batches of 256.
Target: at least 5 times the steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _measuring import seconds

import topic_probes as tp
from topic_probes.toy import TopicTransformer, train

STEPS = {True: 200, False: 10}
CASES: dict[str, dict[str, Any]] = {
    "embedding": {"embedding": "trained", "value": "identity", "attention": "uniform"},
    "value": {"attention": "uniform"},
    "value_and_attention": {},
}


def run() -> dict[str, Any]:
    """Return steps per second both ways and their ratio: embedding alone, value matrix alone, value and attention."""
    corpus = tp.corpora.lda(n_documents=2560, seed=0)
    found: dict[str, Any] = {"target_ratio": 5.0}
    for case, options in CASES.items():
        rates, curves = {}, {}
        for fast in (True, False):
            model = TopicTransformer(100, **options)
            # reading the corpus and measuring a history are not what is compared
            once, _ = _timed(model, corpus, 1, fast)
            model = TopicTransformer(100, **options)
            spent, curves[fast] = _timed(model, corpus, 1 + STEPS[fast], fast)
            rates[fast] = STEPS[fast] / (spent - once)
        np.testing.assert_allclose(curves[True][1], curves[False][1], rtol=1e-3)
        found |= {
            f"{case}_steps_per_s": rates[True],
            f"{case}_plain_per_s": rates[False],
            f"{case}_ratio": rates[True] / rates[False],
        }
    return found


def _timed(model: TopicTransformer, corpus: Any, steps: int, fast: bool) -> tuple[float, list[float]]:
    losses: list[float] = []
    return seconds(lambda: losses.extend(_train(model, corpus, steps, fast))), losses


def _train(model: TopicTransformer, corpus: Any, steps: int, fast: bool) -> list[float]:
    history = train(model, corpus, steps=steps, record_every=1 + STEPS[False], fast=fast, progress=False).history
    return history["loss"].tolist()
