"""The heads of a model as a map of layers x heads.

Attention is in units of uniform attention = 1 (docs/science.md, *Debiased attention*), so 1 is where colours turn.
A missing value is grey, never white, which would read as uniform. An encoder-decoder has several
maps, one a stack, in colours of one scale.
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
_STACK_TITLES = {"encoder": "Encoder\n", "decoder": "Decoder\n", "cross": "Decoder to encoder\n"}


def plot_heads(frame: DataFrame, value: str = "ratio", ax: Axes | None = None, *, stack: str | None = None) -> Axes:
    """Draw one number per head as a map of layers x heads, coloured around its neutral value.

    Layer 0, nearest the input, is at the bottom. Colours are symmetric: for a ratio or a mean they are
    its log2, white at 1 (uniform attention); for ``difference`` white at 0. A ratio's end at 2, so that
    models can be compared by eye, or where it takes more at a round number up to 16; an arrow on the
    colour bar says that some heads lie beyond. Heads without a value (NaN, or no row) are grey. Up to
    12 x 12 heads the numbers are written in.

    The heads of an encoder-decoder are drawn in one panel a stack, side by side and on one scale of colours.

    Args:
        frame: columns ``layer``, ``head`` and ``value``, one row per head, as of ``AttentionResult.to_frame``; of an
            encoder-decoder ``stack``, too.
        value: ``ratio``, ``difference``, ``same_topic``, ``cross_topic``, ``same_token`` or ``no_topic``.
        ax: where to draw; a new figure if None.
        stack: the one to draw of an encoder-decoder: ``"encoder"``, ``"decoder"`` or ``"cross"``; None for all.

    Returns:
        The axes; of several panels the first one's, and the others are in the same figure.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, a head has two rows, there is no row, a ratio is negative, there is no such
            stack, or there are several for one ``ax``.
    """
    require_one_of("value", value, _HEAD_TITLES)
    require_columns(frame, ("layer", "head", value))
    parts = _by_stack(frame, stack)
    if ax is not None and len(parts) > 1:
        raise ValueError(
            f"frame must have the heads of one stack to be drawn on one ax, got {', '.join(parts)}: pass stack=, or "
            "leave ax out for one panel each"
        )
    maps = {name: _map_of(part, value) for name, part in parts.items()}
    # All values of the model, so that one colour means one number in every panel.
    everything = np.concatenate([values.ravel() for values in maps.values()])
    if ax is not None:
        panels = [ax]
    else:
        n_rows, n_columns = (max(values.shape[axis] for values in maps.values()) for axis in (0, 1))
        panels = _new_panels(len(maps), n_rows, n_columns)
    for panel, (name, values) in zip(panels, maps.items(), strict=True):
        _draw_map(panel, values, value, everything, title=_STACK_TITLES.get(name, ""))
    return panels[0]


def _by_stack(frame: DataFrame, stack: str | None) -> dict[str, DataFrame]:
    """Return stack -> its rows, one a head, in the order in which the stacks come; ``""`` where there are none."""
    if "stack" not in frame.columns:
        if stack is not None:
            raise ValueError(f"stack must be None for a frame without a column stack, got {stack!r}")
        require_one_row_each(frame, ("layer", "head"))
        return {"": frame}
    require_one_row_each(frame, ("stack", "layer", "head"))
    there = [str(name) for name in dict.fromkeys(frame["stack"])]
    for name in there:
        require_one_of("stack", name, _STACK_TITLES)
    if stack is not None:
        require_one_of("stack", stack, there)
    return {name: frame.loc[frame["stack"] == name] for name in there if stack in (None, name)}


def _map_of(frame: DataFrame, value: str) -> np.ndarray:
    """Return [layer, head] the values, NaN where there is no row."""
    layers, heads = frame["layer"].to_numpy(dtype=int), frame["head"].to_numpy(dtype=int)
    values = np.full((int(layers.max()) + 1, int(heads.max()) + 1), np.nan)
    values[layers, heads] = frame[value].to_numpy(dtype=float, na_value=np.nan)
    if value != "difference" and (values < 0).any():
        raise ValueError(f"{value} must not be negative, got {np.nanmin(values):.3g}")
    return values


def _new_panels(n_panels: int, n_layers: int, n_heads: int) -> list[Axes]:
    """Return the axes of a new figure, side by side, in sizes for so many layers and heads."""
    from matplotlib import pyplot as plt

    cell = 0.46 if max(n_layers, n_heads) <= _ANNOTATED_UP_TO else 0.26
    width, height = float(np.clip(2.4 + cell * n_heads, 4.8, 14)), float(np.clip(1.5 + cell * n_layers, 3.2, 14))
    if n_panels == 1:
        return [style.new_axes(width, height)]
    _, panels = plt.subplots(1, n_panels, figsize=(width * n_panels, height), layout="constrained")
    return list(panels)


def _draw_map(ax: Axes, values: np.ndarray, value: str, everything: np.ndarray, title: str) -> None:
    """Draw one map on its axes, in colours that end where those of all maps of the picture do."""
    n_layers, n_heads = values.shape
    annotated = max(n_layers, n_heads) <= _ANNOTATED_UP_TO
    ratio = style.ratio_limit(everything)
    if value == "difference":
        cells, limit = values, _round_up(everything)
    else:
        cells, limit = style.log_ratios(values), math.log2(ratio)
    of_value, label = _HEAD_TITLES[value]
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
    ax.set_title(f"{title}{of_value}", fontsize=style.TITLE_SIZE, color=style.INK, loc="left")


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
