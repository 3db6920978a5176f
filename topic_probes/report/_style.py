"""What the pictures have in common: colours, scales of ratios, and ticks that do not overlap.

Colours can be told apart by colour-blind readers: blue against red for below and above, the palette
of Okabe and Ito for categories. Of the colours of topics that holds for the first six: eight are too many. Trained and
untrained differ by place, line and mark, not by colour. No global setting is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap

SAME_TOPIC_COLOUR, CROSS_TOPIC_COLOUR = "#0072B2", "#E69F00"
MISSING_COLOUR = "#BDBDBD"
INK, FAINT_INK = "#222222", "#777777"

TOPIC_COLOURS = ("#0072B2", "#D55E00", "#007A5A", "#B0488A", "#7A5C00", "#4B3FA0", "#C1121F", "#00707F")
"""For words on white, so without the light ones of the palette."""

TITLE_SIZE, LABEL_SIZE, TICK_SIZE, NOTE_SIZE = 11, 10, 8.5, 8

_RATIO_TICKS: dict[float, float] = {2.0: 1.5, 3.0: 1.5, 4.0: 2.0, 8.0: 2.0, 16.0: 4.0}
"""Ends of a scale of ratios, and the tick between 1 and the end."""


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of that size in inches."""
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def diverging_colours() -> Colormap:
    """Return blue - white - red, with grey for missing cells, as a copy of its own."""
    import matplotlib

    return matplotlib.colormaps["RdBu_r"].with_extremes(bad=MISSING_COLOUR)


def sequential_colours(name: str) -> Colormap:
    """Return the colours of that name, with grey for missing cells, as a copy of its own."""
    import matplotlib
    import seaborn  # noqa: F401  it brings "mako_r"

    return matplotlib.colormaps[name].with_extremes(bad=MISSING_COLOUR)


def ratio_limit(ratios: np.ndarray) -> float:
    """Return the ratio R at which colours end, on a scale from 1/R to R: a round number from 2 to 16.

    It does not go below 2, so that the noise of an untrained model looks as small as it is.
    """
    # Zero is infinitely far below 1; it takes the end of the scale and does not set it.
    present = ratios[np.isfinite(ratios) & (ratios > 0)]
    reached = 2 ** float(np.abs(np.log2(present)).max()) if present.size else 1.0
    return next((end for end in _RATIO_TICKS if end >= reached - 1e-9), max(_RATIO_TICKS))


def label_ratios(bar: Colorbar, limit: float) -> None:
    """Label a colour bar over log2 with ratios: the ends, the middle, and one between."""
    inner = _RATIO_TICKS[limit]
    ratios = [1 / limit, 1 / inner, 1, inner, limit]
    labels = [f"{ratio:.3g}" if ratio < 0.2 else f"{round(ratio, 2):g}" for ratio in ratios]
    bar.set_ticks([math.log2(ratio) for ratio in ratios], labels=labels)
    bar.ax.minorticks_off()


def log_ratios(ratios: np.ndarray) -> np.ndarray:
    """Return log2, with minus infinity for 0 and NaN for NaN, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log2(ratios)


def extension(values: np.ndarray, low: float, high: float) -> str:
    """Return which ends of a colour bar need an arrow because values lie beyond."""
    below, above = bool(np.any(values < low - 1e-9)), bool(np.any(values > high + 1e-9))
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[below, above]


def draw_cells(ax: Axes, cells: np.ndarray, *, colours: Colormap, low: float, high: float, **options: Any) -> Any:
    """Draw a heatmap with its colour bar on ``ax``; NaN cells are grey. Returns the colour bar."""
    import seaborn as sns

    clipped = np.clip(cells, low, high)
    sns.heatmap(
        clipped,
        ax=ax,
        vmin=low,
        vmax=high,
        cmap=colours,
        xticklabels=False,
        yticklabels=False,
        cbar_kws={"extend": extension(cells, low, high), "pad": 0.02, "aspect": 30, **options.pop("bar", {})},
        rasterized=cells.size > 10_000,
        **options,
    )
    ax.grid(False)
    bar: Any = ax.collections[-1].colorbar
    bar.ax.tick_params(labelsize=TICK_SIZE, length=3)
    bar.ax.yaxis.label.set_size(LABEL_SIZE)
    bar.outline.set_visible(False)
    return bar


def settle_layout(ax: Axes) -> None:
    """Let the layout of the figure take place, so that sizes can be measured; nothing is painted."""
    figure: Any = ax.figure.canvas.figure
    figure.draw_without_rendering()


def cells_per_inch(ax: Axes, which: str, n_cells: int) -> float:
    """Return how many cells there are to an inch of the axes' width (``"x"``) or height (``"y"``)."""
    extent = ax.get_window_extent()
    figure: Any = ax.figure
    length = (extent.width if which == "x" else extent.height) / figure.dpi
    return n_cells / max(length, 1e-6)


def label_cells(
    ax: Axes, which: str, centres: Sequence[float], names: Sequence[str], n_cells: int, **options: Any
) -> int:
    """Put names at the centres along one axis, leaving out those that would touch their neighbour.

    Returns:
        How many were left out.
    """
    size = options.pop("size", TICK_SIZE)
    # A line of text is about 1.25 times its size high, and there are 72 points to an inch.
    gap = size * 1.25 / 72 * cells_per_inch(ax, which, n_cells)
    chosen: list[int] = []
    for number, centre in enumerate(centres):
        if not chosen or centre - centres[chosen[-1]] >= gap:
            chosen.append(number)
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks([centres[number] for number in chosen], [names[number] for number in chosen])
    axis.set_tick_params(labelsize=size, length=0, pad=3, **options)
    return len(centres) - len(chosen)


def groups_of(names: Sequence[Hashable]) -> list[tuple[Hashable, int, int]]:
    """Return (name, start, stop) of each run of equal names.

    Examples:
        >>> groups_of(["a", "a", "b"])
        [('a', 0, 2), ('b', 2, 3)]
    """
    runs: list[tuple[Hashable, int, int]] = []
    for place, name in enumerate(names):
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], place + 1)
        else:
            runs.append((name, place, place + 1))
    return runs


def draw_boundaries(ax: Axes, starts: Sequence[int], n_cells: int, colour: str) -> None:
    """Draw thin lines between groups of rows and of columns."""
    width = 0.9 if len(starts) <= 40 else 0.3
    for start in starts:
        ax.plot([0, n_cells], [start, start], color=colour, linewidth=width, solid_capstyle="butt")
        ax.plot([start, start], [0, n_cells], color=colour, linewidth=width, solid_capstyle="butt")


def shortened(name: object, length: int = 24) -> str:
    """Return the name as one line of at most ``length`` characters, with dollar signs taken literally."""
    text = " ".join(str(name).split())
    text = text if len(text) <= length else text[: length - 1].rstrip() + "…"
    return text.replace("$", r"\$")
