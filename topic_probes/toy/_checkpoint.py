"""A training run on disk, at the last recorded step: enough to go on as if nothing had happened.

Weights, optimiser and history are arrays (safetensors); options and the step are JSON; there is no pickle. Orders and
masks are functions of the seed and the step, so no generator's state is needed. A folder is replaced whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .._folders import kind_of, read_description, read_folder, reading, write_folder
from .._saved import Stored
from ._history import (
    arrays_of_history,
    axes_of,
    fill_weights,
    history_of_arrays,
    plain,
    stored_history,
    stored_weights,
    weights_of,
)

if TYPE_CHECKING:
    import pandas as pd

_KIND = "toy checkpoint"
_FACTS = {
    "step": "a count",
    "best": "a number as text",
    "n_since_best": "a count",
    "columns": "texts",
    "options": "an object",
}
"""What a checkpoint must say of itself."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands: what a checkpoint holds besides the weights."""

    step: int
    """Updates made."""
    history: pd.DataFrame
    best: float
    """The lowest evaluation loss so far."""
    n_since_best: int
    """Rows of the history since it fell."""


def exists(folder: str | PathLike) -> bool:
    """Return whether a checkpoint is in the folder."""
    return kind_of(Path(folder).expanduser()) == _KIND


def save(
    folder: str | PathLike, model: Any, optimizer: torch.optim.Optimizer, progress: Progress, options: Mapping[str, Any]
) -> None:
    """Write a checkpoint, replacing an earlier one.

    Raises:
        FileExistsError: if ``folder`` holds something else.
    """
    state = {
        f"optimizer/{number}/{name}": value.detach().cpu().numpy().copy()
        for number, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }
    write_folder(
        folder,
        kind=_KIND,
        description={
            "step": progress.step,
            "best": repr(progress.best),
            "n_since_best": progress.n_since_best,
            "columns": list(progress.history.columns),
            "options": dict(options),
        },
        arrays={**weights_of(model), **state, **arrays_of_history(progress.history)},
    )


def load(
    folder: str | PathLike, model: Any, optimizer: torch.optim.Optimizer, options: Mapping[str, Any], steps: int
) -> Progress:
    """Fill model and optimiser from a checkpoint, and return where it stands.

    Raises:
        ValueError: if it was written under other options, stands beyond ``steps``, or is damaged.
    """
    saved, mine = options_of(folder), plain(dict(options))
    for name in sorted({*saved, *mine}):
        if saved.get(name) != mine.get(name):
            raise ValueError(
                f"checkpoint {folder} was written with {name}={saved.get(name)!r}, and this run has "
                f"{mine.get(name)!r}: resume with what it was begun with, or choose another folder"
            )
    of_optimizer: dict[str, Stored] = {}
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, weight in enumerate(weights):  # a step is a number, all else has the shape of its weight
        of_optimizer[f"optimizer/{number}/step"] = Stored("1", optional=True)
        of_optimizer[f"optimizer/{number}/"] = Stored(axes_of(weight.shape))
    description, arrays = read_folder(
        folder,
        kind=_KIND,
        facts=_FACTS,
        arrays=lambda said: {**stored_history(said["columns"]), **stored_weights(model), **of_optimizer},
    )
    with reading(folder, _KIND):
        step = int(description["step"])
        if step > steps:
            raise ValueError(f"steps must be at least the {step} that checkpoint {folder} has made, got {steps}")
        fill_weights(model, arrays, f"checkpoint {folder}")
        state: dict[int, dict[str, Any]] = {}
        for key, value in arrays.items():
            if key.startswith("optimizer/"):
                _, number, name = key.split("/", 2)
                state.setdefault(int(number), {})[name] = torch.from_numpy(value.copy())
        for values in state.values():
            if "step" in values:  # a number, which safetensors gives back as a row of one
                values["step"] = values["step"].reshape(())
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        history = history_of_arrays(description["columns"], arrays)
        return Progress(step, history, float(description["best"]), int(description["n_since_best"]))


def options_of(folder: str | PathLike) -> dict[str, Any]:
    """Return the options that a checkpoint was written with."""
    return dict(read_description(folder, kind=_KIND, facts=_FACTS)["options"])
