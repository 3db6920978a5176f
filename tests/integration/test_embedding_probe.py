"""``probe_embedding`` against brute force over all pairs, for models, matrices, ids and words."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import (
    EmbeddingResult,
    ProbeReport,
    TopicLabels,
    probe,
    probe_contextual,
    probe_embedding,
    word_vectors,
)
from topic_probes.statistics._strata import frequency_classes

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
RELATIVE = 1e-9

ID_TOPICS = {token: ((token % 3,) if token % 4 else (0, 2)) for token in range(1, 30)}
WORD_TOPICS = {"cat": (0,), "dog": (0, 1), "bird": (0,), "sun": (1,), "moon": (1,), "star": (1, 2), "milk": (2,)}


def brute_force(vectors: dict[Any, np.ndarray], topics: dict[Any, tuple[int, ...]]) -> dict[tuple[str, str], list]:
    """Every measure of every pair, one at a time."""
    mean = np.mean(list(vectors.values()), axis=0)
    found: dict[tuple[str, str], list] = {}
    for (one, a), (other, b) in itertools.combinations(vectors.items(), 2):
        name = "same_topic" if set(topics[one]) & set(topics[other]) else "cross_topic"
        for measure, x, y in (("cosine", a, b), ("centred_cosine", a - mean, b - mean)):
            found.setdefault((measure, name), []).append(float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))))
        found.setdefault(("dot", name), []).append(float(a @ b))
    return found


def require_brute_force(result: EmbeddingResult, vectors: dict[Any, np.ndarray], topics: dict) -> None:
    expected = brute_force(vectors, topics)
    frame = result.to_frame()
    assert len(frame) == 6
    for row in frame.itertuples():
        values = expected[row.measure, row.pair_class]
        assert row.n_pairs == len(values)
        assert row.mean == pytest.approx(np.mean(values), rel=RELATIVE, abs=1e-15)
        assert row.std == pytest.approx(np.std(values), rel=RELATIVE)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_ids_of_every_kind_of_model(kind: str, dtype: torch.dtype) -> None:
    """The rows of ``W_E``, computed in float64 whatever the model's precision."""
    model = helpers.build(kind, dtype=torch.float64)
    model.to(dtype)
    result = probe_embedding(model, TopicLabels.from_dict(ID_TOPICS))
    vectors = {token: model.W_E[token].detach().double().numpy() for token in ID_TOPICS}
    require_brute_force(result, vectors, ID_TOPICS)
    assert result.matrix.startswith(f"W_E of {type(model).__name__}")
    assert result.matrix.endswith("(raw)")


@every_kind
@pytest.mark.parametrize("given", [True, False])
def test_words_are_found_by_the_tokenizer(kind: str, given: bool) -> None:
    """The model's own, or one that is given; words of two tokens have no vector."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind, tokenizer=None if given else tokenizer)
    labels = TopicLabels.from_dict({**WORD_TOPICS, "dogs": 0, "zebra": 1})
    result = probe_embedding(model, labels, tokenizer if given else None)
    vectors = {word: model.W_E[tokenizer.convert_tokens_to_ids(word)].detach().double().numpy() for word in WORD_TOPICS}
    require_brute_force(result, vectors, WORD_TOPICS)
    assert result.pairs.n_words == len(WORD_TOPICS)
    assert result.n_labelled == len(WORD_TOPICS) + 2


def matrices() -> dict[str, Any]:
    plain = np.random.default_rng(0).normal(size=(30, 6))
    locked = plain.copy()
    locked.flags.writeable = False
    return {
        "numpy": plain,
        "read-only": locked,
        "reversed": plain[::-1],
        "float32": plain.astype(np.float32),
        "torch": torch.from_numpy(plain.copy()),
        "parameter": torch.nn.Parameter(torch.from_numpy(plain.copy())),
    }


@pytest.mark.parametrize("kind", matrices())
def test_a_plain_matrix(kind: str) -> None:
    matrix = matrices()[kind]
    result = probe_embedding(matrix, TopicLabels.from_dict(ID_TOPICS))
    values = matrix.detach().numpy() if isinstance(matrix, torch.Tensor) else matrix
    require_brute_force(result, {token: values[token].astype(np.float64) for token in ID_TOPICS}, ID_TOPICS)
    assert result.matrix == "the matrix that was given"


@every_kind
def test_the_report_holds_the_same_and_that_of_the_twin(kind: str) -> None:
    model = helpers.build(kind)
    labels = TopicLabels.from_dict(ID_TOPICS)
    report = probe(model, [[1, 2, 3, 4]], labels, progress=False)
    assert report.embedding is not None
    assert report.baseline is not None
    assert report.baseline.embedding is not None
    np.testing.assert_array_equal(report.embedding.pairs.mean, probe_embedding(model, labels).pairs.mean)
    assert not np.allclose(report.embedding.pairs.mean, report.baseline.embedding.pairs.mean)


def test_vectors_come_sorted_by_word() -> None:
    words, vectors, name = word_vectors(np.eye(4), TopicLabels.from_dict({3: 0, 1: 1}))
    assert words == (1, 3)
    np.testing.assert_array_equal(vectors, np.eye(4)[[1, 3]])
    assert name == "the matrix that was given"


def test_too_few_words_are_refused() -> None:
    labels = TopicLabels.from_dict({"cat": 0, "zebra": 1, "yak": 1})
    with pytest.raises(ValueError, match="fewer than two of the 3 labelled words"):
        probe_embedding(np.eye(50), labels, helpers.tiny_tokenizer())
    with pytest.raises(ValueError, match="fewer than two"):
        probe_embedding(np.eye(50), TopicLabels.from_dict({"zebra": 1, "yak": 1}), helpers.tiny_tokenizer())


@pytest.mark.parametrize("token", [4, 400])
def test_an_id_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(ValueError, match=f"token id {token} is outside the vocabulary of 4 rows"):
        probe_embedding(np.eye(4), TopicLabels.from_dict({0: 0, token: 1}))


def test_words_without_a_tokenizer_and_what_is_no_matrix_are_refused() -> None:
    with pytest.raises(ValueError, match="need a tokenizer"):
        probe_embedding(np.eye(4), TopicLabels.from_dict({"cat": 0, "dog": 1}))
    with pytest.raises(ValueError, match=r"must be a matrix \[d_vocab, d_model\], got shape \(4,\)"):
        probe_embedding(np.ones(4), TopicLabels.from_dict({0: 0, 1: 1}))


# Matched by frequency.

COUNTS = {token: 1 + token**2 % 23 for token in range(1, 28)}
"""Of all labelled ids but two, which count as rare."""


def matched_by_loops(vectors: dict[Any, np.ndarray], topics: dict, tenths: dict) -> dict[tuple[str, str], tuple]:
    """(Measure, pair class) -> mean and number of pairs, by loops over strata of frequencies."""
    expected: dict[tuple[str, str], tuple] = {}
    strata: dict[frozenset, dict] = {}
    for one, other in itertools.combinations(vectors, 2):
        strata.setdefault(frozenset((tenths[one], tenths[other])), {})[one, other] = True
    mean = np.mean(list(vectors.values()), axis=0)
    for measure in ("dot", "cosine", "centred_cosine"):
        kept = []
        for pairs in strata.values():
            found: dict[str, list[float]] = {"same_topic": [], "cross_topic": []}
            for one, other in pairs:
                x, y = (vectors[word] - (mean if measure == "centred_cosine" else 0) for word in (one, other))
                norms = 1.0 if measure == "dot" else np.linalg.norm(x) * np.linalg.norm(y)
                name = "same_topic" if set(topics[one]) & set(topics[other]) else "cross_topic"
                found[name].append(float(x @ y / norms))
            if found["same_topic"] and found["cross_topic"]:
                n_same, n_cross = len(found["same_topic"]), len(found["cross_topic"])
                kept.append((n_same * n_cross / (n_same + n_cross), found))
        total = sum(weight for weight, _ in kept)
        for name in ("same_topic", "cross_topic"):
            weighted = sum(weight * np.mean(found[name]) for weight, found in kept) / total
            expected[measure, name] = weighted, sum(len(found[name]) for _, found in kept)
    return expected


@every_kind
def test_frequency_matched_means_are_those_of_loops(kind: str) -> None:
    """Classes are tenths of all occurrences of labelled ids; an id that was not counted is rare."""
    model = helpers.build(kind)
    labels = TopicLabels.from_dict(ID_TOPICS)
    result = probe_embedding(model, labels, word_counts=COUNTS)
    tenths = frequency_classes({token: COUNTS.get(token, 0) for token in ID_TOPICS})
    assert len(set(tenths.values())) >= 5
    vectors = {token: model.W_E[token].detach().double().numpy() for token in ID_TOPICS}
    expected = matched_by_loops(vectors, ID_TOPICS, {token: tenths.get(token, 0) for token in ID_TOPICS})
    frame = result.to_frame(estimator="frequency_matched")
    assert list(frame.columns) == list(result.to_frame().columns)
    for row in frame.itertuples():
        mean, n_pairs = expected[row.measure, row.pair_class]
        assert row.mean == pytest.approx(mean, rel=RELATIVE, abs=1e-13)
        assert row.n_pairs == n_pairs
        assert np.isnan(row.std)
    same, cross = frame.query("measure == 'dot'")["mean"]
    assert result.difference("dot", "frequency_matched") == pytest.approx(same - cross, rel=1e-12)
    require_brute_force(result, vectors, ID_TOPICS)


def test_the_report_holds_frequency_matched_means_too_and_those_of_the_twin(tmp_path: Path) -> None:
    """The counts with which attention is matched; a saved report comes back exactly."""
    model, labels = helpers.build(helpers.KINDS[0]), TopicLabels.from_dict(ID_TOPICS)
    report = probe(model, [[1, 2, 3, 4]], labels, word_counts=COUNTS, progress=False)
    assert report.embedding is not None
    own = probe_embedding(model, labels, word_counts=COUNTS)
    frame = report.embedding.to_frame("frequency_matched")
    assert frame.equals(own.to_frame("frequency_matched"))
    assert report.embedding.options["word_counts"] == report.attention.options["word_counts"]
    both = report.embedding_frame("frequency_matched")
    assert both["model"].unique().tolist() == ["trained", "untrained"]
    assert both.iloc[: len(frame)].drop(columns="model").equals(frame)
    assert both["mean"].notna().all()
    report.save(tmp_path / "report")
    back = ProbeReport.load(tmp_path / "report")
    assert back.embedding_frame("frequency_matched").equals(both)
    assert back.embedding_frame().equals(report.embedding_frame())


def test_frequency_needs_counts_of_words_and_results_of_other_counts_do_not_merge() -> None:
    labels, weights = TopicLabels.from_dict(ID_TOPICS), np.random.default_rng(0).normal(size=(30, 6))
    plain, matched = probe_embedding(weights, labels), probe_embedding(weights, labels, word_counts=COUNTS)
    with pytest.raises(ValueError, match=r"'frequency_matched' needs counts of words, .*corpora.word_counts\(corpus\)"):
        plain.to_frame("frequency_matched")
    with pytest.raises(ValueError, match="needs documents, and this result is of a matrix"):
        matched.to_frame("within_document")
    in_context = probe_contextual(helpers.build(helpers.KINDS[0]), [[1, 2, 3, 4]], labels, progress=False)
    with pytest.raises(ValueError, match="needs a result of a matrix, and this one is of words in context"):
        in_context.to_frame("frequency_matched")
    with pytest.raises(ValueError, match="measured alike can be merged: word_counts is None in one"):
        plain.merge(matched)
    assert matched.merge(probe_embedding(weights, labels, word_counts=COUNTS)) is matched
    with pytest.raises(ValueError, match="word_counts must count at least one labelled word"):
        probe_embedding(weights, labels, word_counts={99: 3})
