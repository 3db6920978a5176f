"""The matrices behind the pictures hold the numbers that the statistics are made of."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

import helpers
import oracles
import tiny_models
from topic_probes import CorpusError, TopicLabels, probe, word_attention, word_similarity

TEXT = " ".join([*helpers.WORDS[:9], *helpers.WORDS[3:7], f"{helpers.WORDS[0]}s", helpers.WORDS[9]])
TOPICS = {word: [number % 3] for number, word in enumerate(helpers.WORDS[:8])}
LABELS = TopicLabels.from_dict(TOPICS)


def values_by_class(matrix: Any) -> dict[str, list[float]]:
    """The cells of a matrix that a query sees, by the class of their pair."""
    values: dict[str, list[float]] = {name: [] for name in oracles.CLASSES}
    for place, query in enumerate(matrix.index):
        for other, key in enumerate(matrix.columns):
            if not np.isnan(matrix.iloc[place, other]):
                values[oracles.pair_class(query, key, TOPICS)].append(matrix.iloc[place, other])
    return values


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
        values = values_by_class(matrix)
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


# Encoder-decoders.

needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x has no bridges")


@needs_bridge
@pytest.mark.parametrize("words", ["whole", "merge"])
@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_class_means_of_a_stacks_matrix_are_what_probe_reports(stack: str, words: str) -> None:
    """Queries and keys of cross-attention are words of other rows; keys that a decoder cannot see are NaN."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.bridge(tiny_models.bart().double(), tokenizer)
    report = probe(model, [TEXT], LABELS, words=words, baseline=None, progress=False)
    rows = report.attention.to_frame().query("stack == @stack").to_dict(orient="records")
    assert len(rows) == 6
    for row in rows:
        matrix = word_attention(
            model, TEXT, layer=row["layer"], head=row["head"], stack=stack, words=words, max_length=32
        )
        values = values_by_class(matrix)
        assert len(values["same_topic"]) == row["n_same_topic"]
        for name in oracles.CLASSES:
            assert np.mean(values[name]) == pytest.approx(row[name], rel=1e-9)
    assert np.triu(np.isnan(matrix.to_numpy()), 1).any() == (stack == "decoder")


@needs_bridge
def test_a_last_word_without_a_special_token_behind_it_is_a_key_alone() -> None:
    """The decoder reads the text shifted right, and its last token falls off."""
    tokenizer = helpers.tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    model = helpers.bridge(tiny_models.bart().double(), tokenizer)
    cross = word_attention(model, "cat and dog", layer=-1, head=0, stack="cross")
    assert list(cross.index) == ["cat", "and"]
    assert list(cross.columns) == ["cat", "and", "dog"]
    assert not cross.isna().to_numpy().any()
    assert list(word_attention(model, "cat and dog", layer=-1, head=0, stack="encoder").index) == list(cross.columns)
    assert list(word_attention(model, "cat and dog", layer=-1, head=0, stack="decoder").columns) == list(cross.index)


@needs_bridge
def test_a_stack_that_is_not_there_is_one_sentence() -> None:
    tokenizer = helpers.tiny_tokenizer()
    bart = helpers.bridge(tiny_models.bart(), tokenizer)
    with pytest.raises(ValueError, match=r"got '' for a model of several stacks: pass stack=\"encoder\", \"decoder\""):
        word_attention(bart, TEXT, layer=0, head=0)
    with pytest.raises(ValueError, match=r"got 'cross' for a model of one stack alone: leave stack out"):
        word_attention(helpers.build(helpers.KINDS[0], tokenizer=tokenizer), TEXT, layer=0, head=0, stack="cross")


@needs_bridge
def test_a_layer_that_only_the_other_stack_has_is_one_sentence() -> None:
    bart = helpers.bridge(tiny_models.bart(), helpers.tiny_tokenizer())
    fewer = {name: point for name, point in bart.hook_dict.items() if not name.startswith("encoder_blocks.1.")}
    message = "layer must be one of stack='encoder', got 1, which only another stack has"
    with mock.patch.object(type(bart), "hook_dict", fewer), pytest.raises(ValueError, match=message):
        word_attention(bart, TEXT, layer=1, head=0, stack="encoder")
