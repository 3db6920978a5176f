"""The heads of a model as a map of layers x heads.

Attention is in units of uniform attention = 1 (science: P1's debiasing), so 1 is where colours turn.
A missing value is grey, never white, which would read as uniform.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .._validation import require_one_of
from . import _style as style
from ._frames import name_axes, require_columns, require_one_row_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_ANNOTATED_UP_TO = 12
_HEAD_TITLES = {
    "ratio": ("Attention to same-topic over cross-topic words", "same topic / cross topic"),
    "difference": ("Attention to same-topic minus cross-topic words", "difference (uniform = 1)"),
    "same_topic": ("Attention to words of the same topic", "mean attention (uniform = 1)"),
    "cross_topic": ("Attention to words of other topics", "mean attention (uniform = 1)"),
    "same_token": ("Attention to the same word", "mean attention (uniform = 1)"),
    "no_topic": ("Attention to and from unlabelled words", "mean attention (uniform = 1)"),
}


def plot_heads(frame: DataFrame, value: str = "ratio", ax: Axes | None = None) -> Axes:
    """Draw one number per head as a map of layers x heads, coloured around its neutral value.

    Layer 0, nearest the input, is at the bottom. Colours are symmetric: for a ratio or a mean they are
    its log2, white at 1 (uniform attention); for ``difference`` white at 0. A ratio's end at 2, so that
    models can be compared by eye, or where it takes more at a round number up to 16; an arrow on the
    colour bar says that some heads lie beyond. Heads without a value (NaN, or no row) are grey. Up to
    12 x 12 heads the numbers are written in.

    Args:
        frame: columns ``layer``, ``head`` and ``value``, one row per head, as of ``AttentionResult.to_frame``.
        value: ``ratio``, ``difference``, ``same_topic``, ``cross_topic``, ``same_token`` or ``no_topic``.
        ax: where to draw; a new figure if None.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, a head has two rows, there is no row, or a ratio is negative.
    """
    require_one_of("value", value, _HEAD_TITLES)
    require_columns(frame, ("layer", "head", value))
    require_one_row_each(frame, ("layer", "head"))
    layers, heads = frame["layer"].to_numpy(dtype=int), frame["head"].to_numpy(dtype=int)
    n_layers, n_heads = int(layers.max()) + 1, int(heads.max()) + 1
    values = np.full((n_layers, n_heads), np.nan)
    values[layers, heads] = frame[value].to_numpy(dtype=float, na_value=np.nan)
    if value != "difference" and (values < 0).any():
        raise ValueError(f"{value} must not be negative, got {np.nanmin(values):.3g}")

    annotated = max(n_layers, n_heads) <= _ANNOTATED_UP_TO
    if ax is None:
        cell = 0.46 if annotated else 0.26
        ax = style.new_axes(
            float(np.clip(2.4 + cell * n_heads, 4.8, 14)), float(np.clip(1.5 + cell * n_layers, 3.2, 14))
        )
    if value == "difference":
        cells, limit = values, _round_up(values)
    else:
        ratio = style.ratio_limit(values)
        cells, limit = style.log_ratios(values), math.log2(ratio)
    title, label = _HEAD_TITLES[value]
    missing = np.isnan(values)
    bar = style.draw_cells(
        ax,
        cells,
        colours=style.diverging_colours(),
        low=-limit,
        high=limit,
        annot=_written(values) if annotated else None,
        fmt="",
        annot_kws={"fontsize": style.NOTE_SIZE},
        linewidths=0.6 if annotated else 0,
        linecolor="white",
        bar={"label": label},
    )
    if value != "difference":
        style.label_ratios(bar, ratio)
    ax.invert_yaxis()
    style.label_cells(ax, "x", [k + 0.5 for k in range(n_heads)], [str(head) for head in range(n_heads)], n_heads)
    style.label_cells(ax, "y", [k + 0.5 for k in range(n_layers)], [str(layer) for layer in range(n_layers)], n_layers)
    name_axes(ax, "head (grey: no value)" if missing.any() else "head", "layer (0 is next to the input)")
    ax.set_title(title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    return ax


def _written(values: np.ndarray) -> np.ndarray:
    # Rounded first, plus zero: else a small negative number would be written as -0.00.
    return np.array([["" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}" for value in row] for row in values])


def _round_up(values: np.ndarray) -> float:
    """Return the largest size among the values, rounded up to one digit; 1 when there is none."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max()) if finite.size else 0.0
    if largest == 0:
        return 1.0
    step = 10.0 ** math.floor(math.log10(largest))
    return math.ceil(largest / step - 1e-9) * step
