"""The demo's pictures of one head are of the head that table, page and forest plot put first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
from topic_probes import AttentionResult, TopicModel, probe
from topic_probes.demo import _pictures

CONTENT = helpers.WORDS[:8]
KIND = "BERT bridge" if helpers.HAS_BRIDGE else "HookedEncoder"


def test_the_head_is_the_one_most_surely_above_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Head 0.0 has by far the largest ratio, but its interval reaches below 1; head 1.2 has the largest low end."""
    numbers = np.full((2, 8), 0.02)
    numbers[0, :4] = numbers[1, 4:] = 0.23
    labels = TopicModel.from_matrix(numbers, CONTENT).label_words()
    draw = np.random.default_rng(0)
    documents = [" ".join(draw.choice([*CONTENT, "the", "of"], 12)) for _ in range(20)]
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(KIND, tokenizer=tokenizer)
    report = probe(model, documents, labels, baseline=None, progress=False)

    measured = AttentionResult.to_frame
    asked: dict[str, Any] = {}

    def told(self: AttentionResult, *arguments: Any, **options: Any) -> Any:
        ends = {"ratio": [9.0, 1.1, 1.2, 1.3, 1.4, 1.5], "ratio_low": [0.2, 0.9, 1.0, 1.1, 1.2, 1.3]}
        return measured(self, *arguments, **options).assign(**ends)

    def attention(*_: Any, layer: int, head: int, **options: Any) -> Any:
        asked["head"] = (layer, head)
        return word_attention(*_, layer=layer, head=head, **options)

    word_attention, save_plot = _pictures.word_attention, _pictures.save_plot
    monkeypatch.setattr(AttentionResult, "to_frame", told)
    monkeypatch.setattr(_pictures, "word_attention", attention)
    monkeypatch.setattr(
        _pictures,
        "save_plot",
        lambda ax, path: (asked.update({path.name: ax.get_title(loc="left")}), save_plot(ax, path))[1],
    )
    _pictures.draw_pictures(tmp_path, report, model, tokenizer, labels, "the cat saw the moon")
    assert asked["head"] == (1, 2)
    assert asked["attention_blocks.png"].startswith("Layer 1, head 2, first of those most surely above 1")
    assert {path.name for path in tmp_path.iterdir()} == set(asked) - {"head"}
