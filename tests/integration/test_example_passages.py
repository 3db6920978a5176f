"""Example passages: words as they are written, their topics, and the attention that word_attention gives."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import helpers
from topic_probes import CorpusError, TopicLabels, example_passages, probe, word_attention

KIND = "BERT bridge" if helpers.HAS_BRIDGE else "HookedEncoder"
LABELS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1, "moon": 1})
TEXT = "The Cat, and the dogs; 12 dog of the  sun."


@pytest.fixture(scope="module")
def model() -> Any:
    return helpers.build(KIND, tokenizer=helpers.tiny_tokenizer())


@pytest.fixture(scope="module")
def found(model: Any) -> dict[str, Any]:
    (one,) = example_passages(model, [TEXT], LABELS, heads=[(0, 1), (-1, 2)])
    return one


def test_words_and_gaps_are_the_text_again(found: dict[str, Any]) -> None:
    """Joined they are the text, on one line; words keep their capitals, numbers and commas stand between them."""
    joined = "".join(gap + word for gap, word in zip(found["gaps"], [*found["words"], ""], strict=True))
    assert joined == " ".join(TEXT.split())
    assert found["words"] == ["The", "Cat", "and", "the", "dogs", "dog", "of", "the", "sun"]


def test_topics_are_those_of_the_labels(found: dict[str, Any]) -> None:
    assert found["topics"] == [[], [0], [], [], [], [0, 1], [], [], [1]]


def test_attention_is_that_of_word_attention(found: dict[str, Any], model: Any) -> None:
    """Head by head, to three digits; a layer counted from the end gets its number."""
    assert [(head["stack"], head["layer"], head["head"]) for head in found["heads"]] == [("", 0, 1), ("", 1, 2)]
    for head in found["heads"]:
        frame = word_attention(model, TEXT, layer=head["layer"], head=head["head"])
        got = np.array(head["attention"], dtype=float)
        np.testing.assert_allclose(got, frame.to_numpy(), rtol=6e-3)
    assert not np.allclose(*(np.array(head["attention"], dtype=float) for head in found["heads"]))


def test_passages_are_plain_json(found: dict[str, Any]) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_passage_ends_where_the_model_does() -> None:
    """A model of 32 tokens reads 32 of a longer text, and what it did not read stands behind them."""
    small = helpers.build(KIND, tokenizer=helpers.tiny_tokenizer())
    assert small.cfg.n_ctx == 32
    text = " ".join(["cat dog sun moon"] * 20)
    (one,) = example_passages(small, [text], LABELS, heads=[(0, 0)], max_words=80)
    assert 25 < len(one["words"]) <= 32
    assert "".join(gap + word for gap, word in zip(one["gaps"], [*one["words"], ""], strict=True)) == text
    assert len(word_attention(small, text, layer=0, head=0)) == len(one["words"])


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_many_words_are_as_many_as_were_asked_for() -> None:
    roomy = helpers.hooked_transformer(tokenizer=helpers.tiny_tokenizer(), n_ctx=256)
    (one,) = example_passages(roomy, [" ".join(["cat dog sun moon"] * 60)], LABELS, heads=[(0, 0)], max_words=180)
    assert len(one["words"]) == 180


def test_what_a_query_cannot_see_is_none() -> None:
    kind = "GPT-2 bridge" if helpers.HAS_BRIDGE else "HookedTransformer"
    causal = helpers.build(kind, tokenizer=helpers.tiny_tokenizer())
    (one,) = example_passages(causal, ["cat dog sun"], LABELS, heads=[(0, 0)])
    attention = one["heads"][0]["attention"]
    assert [[value is None for value in line] for line in attention] == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]


def test_a_table_of_heads_will_do(model: Any) -> None:
    report = probe(model, [TEXT, "sun moon cat dog"], LABELS, baseline=None, n_permutations=0, progress=False)
    best = report.attention.to_frame().nlargest(2, "ratio")
    (one,) = example_passages(model, [TEXT], LABELS, heads=best)
    assert [(head["layer"], head["head"]) for head in one["heads"]] == [
        (row.layer, row.head) for row in best.itertuples()
    ]


def test_passages_are_short_and_few(model: Any) -> None:
    """At most so many words and texts; a text without words is passed over."""
    texts = ["12 34", "cat " * 30, "dog " * 30, "sun"]
    found = example_passages(model, texts, LABELS, heads=[(0, 0)], max_words=7, limit=2)
    assert [one["words"] for one in found] == [["cat"] * 7, ["dog"] * 7]
    assert math.prod(np.shape(found[0]["heads"][0]["attention"])) == 49


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"heads": []}, ValueError, "at least one head"),
        ({"heads": 3}, TypeError, "heads must be"),
        ({"heads": [(1,)]}, TypeError, "each of heads must be"),
        ({"heads": [("0", "1")]}, TypeError, "must be a whole number"),
        ({"heads": pd.DataFrame({"layer": [0]})}, ValueError, "it lacks head"),
        ({"heads": [(0, 99)]}, ValueError, r"head must be in \[0, 3\)"),
        ({"heads": [(9, 0)]}, ValueError, "layer"),
        ({"heads": [(0, 0)], "texts": ["12"]}, CorpusError, "got none that has"),
        ({"heads": [(0, 0)], "texts": [[5, 6]]}, CorpusError, "must be documents of text"),
        ({"heads": [(0, 0)], "labels": TopicLabels.from_dict({5: 0})}, ValueError, "labels must be of words"),
        ({"heads": [(0, 0)], "max_words": 0}, ValueError, "max_words must be at least 1"),
    ],
)
def test_wrong_calls_say_what_to_do(model: Any, options: dict[str, Any], error: type, message: str) -> None:
    arguments = {"texts": [TEXT], "labels": LABELS, **options}
    with pytest.raises(error, match=message):
        example_passages(model, arguments.pop("texts"), arguments.pop("labels"), **arguments)
