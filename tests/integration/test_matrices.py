"""The matrices behind the pictures hold the numbers that the statistics are made of."""

from __future__ import annotations

import numpy as np
import pytest

import helpers
import oracles
from topic_probes import CorpusError, TopicLabels, probe, word_attention, word_similarity

TEXT = " ".join([*helpers.WORDS[:9], *helpers.WORDS[3:7], f"{helpers.WORDS[0]}s", helpers.WORDS[9]])
TOPICS = {word: [number % 3] for number, word in enumerate(helpers.WORDS[:8])}
LABELS = TopicLabels.from_dict(TOPICS)


@pytest.mark.parametrize("words", ["whole", "merge"])
@pytest.mark.parametrize("kind", helpers.KINDS)
def test_class_means_of_one_documents_matrix_are_what_probe_reports(kind: str, words: str) -> None:
    """For each head; a causal model's unseen keys are NaN and no pair."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind, tokenizer=tokenizer)
    frame = probe(
        model, [TEXT], LABELS, tokenizer=tokenizer, words=words, baseline=None, progress=False
    ).attention.to_frame()
    for row in frame.to_dict(orient="records"):
        matrix = word_attention(
            model, TEXT, layer=row["layer"], head=row["head"], tokenizer=tokenizer, words=words, max_length=32
        )
        values = {name: [] for name in oracles.CLASSES}
        for place, query in enumerate(matrix.index):
            for other, key in enumerate(matrix.columns):
                if not np.isnan(matrix.iloc[place, other]):
                    values[oracles.pair_class(query, key, TOPICS)].append(matrix.iloc[place, other])
        assert len(values["same_topic"]) == row["n_same_topic"]
        assert len(values["cross_topic"]) == row["n_cross_topic"]
        for name in oracles.CLASSES:
            assert np.mean(values[name]) == pytest.approx(row[name], rel=1e-9)
    unseen = np.isnan(matrix.to_numpy())
    assert np.triu(unseen, 1).any() == helpers.is_causal(kind)
    assert not np.tril(unseen).any()


def test_a_head_or_a_text_that_is_not_there_is_one_sentence() -> None:
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(helpers.KINDS[0], tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"head must be in \[0, 3\), got 3"):
        word_attention(model, TEXT, layer=0, head=3, tokenizer=tokenizer)
    with pytest.raises(CorpusError, match="has no word"):
        word_attention(model, "12 + 34", layer=0, head=0, tokenizer=tokenizer)


def test_similarities_are_centred_cosines_sorted_by_topic() -> None:
    """Centred by the mean of all labelled words, those that are not shown included."""
    vectors = np.random.default_rng(4).normal(size=(12, 5)) + 2
    labels = TopicLabels.from_dict({token: (0 if token < 6 else 1 if token < 10 else 2) for token in range(12)})
    frame, topics = word_similarity(vectors, labels, n_topics=2, words_per_topic=3)
    assert list(frame.index) == [0, 1, 2, 6, 7, 8]
    assert topics == ["0", "0", "0", "1", "1", "1"]
    centred = vectors - vectors.mean(axis=0)
    for one in frame.index:
        for other in frame.columns:
            expected = centred[one] @ centred[other] / np.linalg.norm(centred[one]) / np.linalg.norm(centred[other])
            assert frame.loc[one, other] == pytest.approx(expected, rel=1e-12)
