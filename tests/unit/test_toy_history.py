"""The history of a toy model measures what it says, and stages are read off it by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import oracles
from topic_probes.toy import TopicTransformer, ToyRun
from topic_probes.toy._documents import read_documents
from topic_probes.toy._history import COLUMNS, Measures, half_way
from topic_probes.toy._topics import word_topics

TOPICS = {0: [0], 1: [0], 2: [1], 3: [0, 1], 4: []}
DOCUMENTS = [[0, 1, 1, 2, 3], [4, 4, 2], [0], [3, 2, 1, 0, 2, 2, 4]]


def trained_like(embedding: Any = "trained") -> TopicTransformer:
    return TopicTransformer(5, embedding=embedding, init_scale=1.0, seed=1).double()


@pytest.mark.parametrize(
    ("norms", "wanted"),
    [
        ([0.0, 1.0, 2.0], 10.0),
        ([1.0, 1.0, 5.0], 15.0),
        ([0.0, 4.0, 4.0], 5.0),
        ([0.0, 0.9, 2.0], 10 + 10 / 11),
        ([4.0, 3.0, 0.0], 10 + 10 / 3),
        ([0.0, 3.0, 1.0], 10 / 6),
        ([2.0, 2.0, 2.0], math.nan),
        ([1.0, math.nan, 2.0], math.nan),
        ([0.0, 0.0, 0.0], math.nan),
    ],
)
def test_half_way_is_interpolated_and_the_first_time_counts(norms: list[float], wanted: float) -> None:
    """By hand: growth, late growth, shrinking, a peak, and matrices that never move."""
    found = half_way(np.array([0.0, 10.0, 20.0]), np.array(norms))
    assert found == pytest.approx(wanted, nan_ok=True)


def test_stages_name_each_matrix() -> None:
    """A frozen matrix has no stage."""
    history = pd.DataFrame({name: np.zeros(3) for name in COLUMNS})
    history["step"], history["norm_W_V"], history["norm_W_Q"] = [0, 10, 20], [0.0, 4.0, 4.0], [0.0, 0.0, 1.0]
    stages = ToyRun(None, history, {}).stages()
    assert stages.dropna().to_dict() == {"W_V": 5.0, "W_Q": 15.0}
    assert list(stages.index) == ["W_E", "W_V", "W_Q", "W_K"]


@pytest.mark.parametrize("scale", [1.0, 1e5])
@pytest.mark.parametrize("embedding", ["one_hot", "trained"])
def test_attention_by_class_is_that_of_the_loops(embedding: Any, scale: float) -> None:
    """Sums over tables of documents by words are the sums over pairs of positions; also with scores of thousands.

    There a word's weight is 0 in floating point beside a word that its document does not have.
    """
    model = trained_like(embedding)
    with torch.no_grad():
        model.W_Q.mul_(scale)
    sums, counts = dict.fromkeys(oracles.CLASSES, 0.0), dict.fromkeys(oracles.CLASSES, 0)
    for ids in DOCUMENTS:
        with torch.no_grad():
            _, cache = model.run_with_cache(torch.tensor([ids]))
        words = [(word, [at]) for at, word in enumerate(ids)]
        pattern = cache["blocks.0.attn.hook_pattern"][0, 0].tolist()
        found = oracles.attention_by_class(pattern, words, TOPICS, lambda q, k: True)
        for name in oracles.CLASSES:
            sums[name] += found[0][name]
            counts[name] += found[1][name]
    measured = Measures(read_documents(DOCUMENTS, 5), word_topics(TOPICS, 5), 5)(model)
    for name in ("same_topic", "cross_topic"):
        assert measured[name] == pytest.approx(sums[name] / counts[name], rel=1e-12 * max(1.0, scale / 10), abs=1e-12)


@pytest.mark.parametrize("embedding", ["one_hot", "trained"])
def test_contrasts_and_norms_are_those_of_loops(embedding: Any) -> None:
    """Different words of a shared topic against those of none; [MASK] and words without topic do not count."""
    model = trained_like(embedding)
    e, v = model.W_E.detach().numpy(), model.W_V.detach().numpy()
    values: dict[str, dict[str, list[float]]] = {"embedding": {}, "value": {}}
    for i in range(5):
        for j in range(5):
            name = oracles.pair_class(i, j, TOPICS)
            values["embedding"].setdefault(name, []).append(float(e[i] @ e[j]))
            values["value"].setdefault(name, []).append(float(e[i] @ v @ e[j]))
    measured = Measures(read_documents(DOCUMENTS, 5), word_topics(TOPICS, 5), 5)(model)
    for kind, found in values.items():
        wanted = np.mean(found["same_topic"]) - np.mean(found["cross_topic"])
        assert measured[f"{kind}_contrast"] == pytest.approx(wanted, rel=1e-12, abs=1e-14)
    assert measured["norm_W_V"] == pytest.approx(math.sqrt((v**2).sum()))


def test_what_is_unknown_is_nan() -> None:
    """Without topics there are norms only; with one topic there is no cross-topic pair."""
    model, bag = trained_like(), read_documents(DOCUMENTS, 5)
    without = Measures(bag, None, 5)(model)
    assert {name for name, value in without.items() if not math.isnan(value)} == {
        f"norm_{name}" for name in ("W_E", "W_V", "W_Q", "W_K")
    }
    one = Measures(bag, word_topics([0] * 5, 5), 5)(model)
    assert math.isnan(one["cross_topic"])
    assert math.isnan(one["value_contrast"])
    assert math.isfinite(one["same_topic"])


def test_uniform_attention_is_one() -> None:
    """In both classes, whatever the lengths."""
    model = TopicTransformer(5, attention="uniform")
    measured = Measures(read_documents(DOCUMENTS, 5), word_topics(TOPICS, 5), 5)(model)
    assert (measured["same_topic"], measured["cross_topic"]) == (pytest.approx(1.0), pytest.approx(1.0))
