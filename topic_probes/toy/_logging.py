"""Rows of a training run to wandb, to tensorboard, or to a function, while it trains.

Neither library is needed or imported here: what is given is told by what it can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


class RowLog:
    """A callback for :func:`topic_probes.toy.train`; made by :func:`log_to`."""

    def __init__(self, write: Callable[[dict[str, float], int], Any], prefix: str) -> None:
        self._write = write
        self._prefix = prefix

    def __call__(self, model: Any, step: int) -> None:
        """Add no column: rows are written when they are whole."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Hand on a row of the history: its finite numbers, and the step."""
        numbers = {name: float(value) for name, value in row.items() if name != "step" and math.isfinite(value)}
        self._write({self._prefix + name: value for name, value in numbers.items()}, int(row["step"]))


def log_to(writer: Any, *, prefix: str = "toy/") -> RowLog:
    """Return a callback that hands each row of the history on, as it is made.

    Args:
        writer: the wandb module or a run of it (``log(numbers, step=)``), a ``SummaryWriter`` of tensorboard
            (``add_scalar(name, value, step)``), or a function of the numbers by name and the step. The caller opens
            and closes it.
        prefix: put before each column of the history, as ``toy/loss``.

    Raises:
        TypeError: for something else.

    Examples:
        >>> from topic_probes.toy import TopicTransformer, train
        >>> rows = []
        >>> model = TopicTransformer(4, attention="uniform")
        >>> callback = log_to(lambda numbers, step: rows.append((step, round(numbers["toy/loss"], 1))))
        >>> documents = [[0, 1, 1, 0], [2, 3, 3, 2]] * 8
        >>> _ = train(model, documents, steps=2, record_every=2, on_record=callback, progress=False)
        >>> [step for step, _ in rows]
        [0, 2]
    """
    if hasattr(writer, "add_scalar"):

        def write(numbers: dict[str, float], step: int) -> None:
            for name, value in numbers.items():
                writer.add_scalar(name, value, step)

        return RowLog(write, prefix)
    if hasattr(writer, "log"):
        return RowLog(lambda numbers, step: writer.log(numbers, step=step), prefix)
    if callable(writer):
        return RowLog(writer, prefix)
    raise TypeError(
        f"writer must be wandb or a run of it, a SummaryWriter, or a function, got a {type(writer).__name__}: "
        "pass wandb.init(...), or SummaryWriter(folder)"
    )
