"""When each matrix grew, run by run: the two stages of a toy model's training, and the runs that have them not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style as style
from ._frames import name_axes, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_MATRICES = {
    "W_E": ("#E69F00", "s"),
    "W_V": ("#D55E00", "o"),
    "W_Q": ("#0072B2", "^"),
    "W_K": ("#007A5A", "v"),
}
"""Colour and mark of each; marks differ because they often lie on each other."""
_MOST_RUNS = 80
_GROWN = 2.0
"""A matrix has grown when its norm is this many times what it was."""
_SETTINGS = (
    *("optimizer", "learning_rate", "momentum", "loss", "init_scale", "embedding", "value", "attention"),
    *("mask_rate", "keep_rate", "random_rate", "n_topics", "words_per_topic", "alpha", "topics_per_document", "seed"),
)
_SHORT = {
    "momentum": "momentum {}",
    "init_scale": "start {}",
    "embedding": "{} embedding",
    "value": "{} value",
    "attention": "{} attention",
    "mask_rate": "mask {}",
    "keep_rate": "keep {}",
    "random_rate": "random {}",
    "n_topics": "{} topics",
    "words_per_topic": "{} words a topic",
    "alpha": "alpha {}",
    "topics_per_document": "{} topics a document",
    "seed": "seed {}",
}


def plot_stages(frame: DataFrame, ax: Axes | None = None, *, title: str = "When each matrix grew") -> Axes:
    """Draw for each run the step at which each matrix had made half of its growth.

    One line a run, in the order of the table, named by the settings in which runs differ. Where the value matrix is not
    first, the line is dashed and its name begins with a star. A hollow mark is a matrix whose norm did not even double:
    half of its growth says little. The scale of steps is logarithmic: runs of fast and slow optimisers stand side by
    side.

    Args:
        frame: ``stage_W_V stage_W_Q stage_W_K``, and ``stage_W_E`` if there is one, in steps, NaN for a frozen matrix;
            ``growth_W_V`` and so on (last norm over first) and ``diverged``, if they are there; and settings, as
            ``tp.toy.sweep(...).to_frame()`` has them.
        ax: where to draw; a new figure if None.
        title: of the picture.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, or there is no row, or more than 80.
    """
    require_columns(frame, ("stage_W_V", "stage_W_Q", "stage_W_K"))
    if not 1 <= len(frame) <= _MOST_RUNS:
        raise ValueError(f"frame must have 1 to {_MOST_RUNS} rows, one a run, got {len(frame)}: choose some")
    shown = [name for name in _MATRICES if f"stage_{name}" in frame.columns]
    stages = frame[[f"stage_{name}" for name in shown]].to_numpy(dtype=np.float64)
    of = {name: stages[:, number] for number, name in enumerate(shown)}
    exception = ~(of["W_V"] < np.fmin(of["W_Q"], of["W_K"])) & np.isfinite(stages).any(axis=1)
    # Where W_V, or both others, are frozen, there is no first and no later.
    exception &= np.isfinite(of["W_V"]) & np.isfinite(np.fmin(of["W_Q"], of["W_K"]))

    ax = style.new_axes(7.6, 1.6 + 0.2 * len(frame)) if ax is None else ax
    rows = np.arange(len(frame))
    for row, steps in enumerate(stages):
        there = steps[np.isfinite(steps)]
        if there.size:
            line = (0, (2, 2)) if exception[row] else "-"
            ax.plot([there.min(), there.max()], [row, row], color="#9A9A9A", linewidth=1.1, linestyle=line, zorder=1)
    for name in shown:
        if np.isfinite(of[name]).any():
            colour, mark = _MATRICES[name]
            growth = frame.get(f"growth_{name}", np.full(len(frame), np.inf))
            filled = ~(np.asarray(growth, dtype=np.float64) < _GROWN)
            inside = [colour if one else "white" for one in filled]
            ax.scatter(of[name], rows, marker=mark, s=26, c=inside, edgecolors=colour, linewidths=1.0, zorder=3)
            ax.scatter([], [], marker=mark, s=26, color=colour, label=name)  # the key shows it filled
    for row in np.flatnonzero(np.asarray(frame.get("diverged", np.zeros(len(frame))), dtype=np.bool_)):
        place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": style.NOTE_SIZE, "color": "#6A6A6A"}
        ax.text(0.02, float(row), "diverged", **place)
    _finish(ax, _names(frame, exception), title, stages)
    return ax


def _names(frame: DataFrame, exception: np.ndarray) -> list[str]:
    """Return what tells each run from the others, with a star where the value matrix is not first."""
    differing = [name for name in _SETTINGS if name in frame.columns and len(frame[name].unique()) > 1]
    if not differing:
        names = [f"run {number}" for number in range(len(frame))]
    else:
        names = [
            ", ".join(_SHORT.get(name, "{}").format(_said(row[name])) for name in differing if not _missing(row[name]))
            for row in frame.to_dict("records")
        ]
    return [f"* {name}" if is_one else name for name, is_one in zip(names, exception, strict=True)]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value).replace("_", " ")


def _finish(ax: Axes, names: list[str], title: str, stages: np.ndarray) -> None:
    import seaborn as sns

    finite = stages[np.isfinite(stages)]
    if finite.size and finite.min() > 0:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_yticks(np.arange(len(names)), names, fontsize=style.NOTE_SIZE)
    ax.set_ylim(len(names) - 0.4, -0.6)  # the first run on top
    ax.tick_params(axis="x", labelsize=style.TICK_SIZE)
    ax.grid(False)
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    starred = any(name.startswith("* ") for name in names)
    name_axes(ax, "step at half of its growth" + (" (* W_V is not first)" if starred else ""), "")
    ax.set_title(title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    if finite.size:
        ax.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=style.TICK_SIZE, borderaxespad=0
        )
    sns.despine(ax=ax)
