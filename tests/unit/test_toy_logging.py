"""A training run is logged row by row, by whatever the writer can do."""

from __future__ import annotations

import math
from typing import Any

import pytest

from topic_probes.toy import TopicTransformer, log_to, train

DOCUMENTS = [[0, 1, 1, 0, 1], [2, 3, 3, 2, 3]] * 6


class Wandb:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log(self, numbers: dict[str, float], *, step: int) -> None:
        self.rows.append((step, dict(numbers)))


class SummaryWriter:
    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], float] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.numbers[name, step] = value


def run(writer: Any, **options: Any) -> Any:
    model = TopicTransformer(4, attention="uniform")
    callback = log_to(writer, **options)
    return train(model, DOCUMENTS, steps=6, record_every=2, batch_size=8, on_record=callback, progress=False)


def test_every_row_of_the_history_is_logged_and_none_is_changed() -> None:
    wandb, board, calls = Wandb(), SummaryWriter(), []
    history = run(wandb).history
    run(board)
    run(lambda numbers, step: calls.append((step, numbers)))
    assert [step for step, _ in wandb.rows] == history["step"].tolist() == [0, 2, 4, 6]
    for (step, numbers), row in zip(wandb.rows, history.to_dict("records"), strict=True):
        expected = {f"toy/{name}": value for name, value in row.items() if name != "step" and math.isfinite(value)}
        assert numbers == expected
        assert {name: board.numbers[name, step] for name in numbers} == expected
    assert calls == wandb.rows
    assert "toy/loss" in wandb.rows[0][1]
    assert not any(math.isnan(value) for _, numbers in wandb.rows for value in numbers.values())


def test_the_prefix_is_ones_own() -> None:
    wandb = Wandb()
    run(wandb, prefix="")
    assert "loss" in wandb.rows[0][1]


def test_what_cannot_write_is_refused() -> None:
    with pytest.raises(TypeError, match=r"got a str: pass wandb\.init"):
        log_to("wandb")
