"""The dual of attention in pictures: contributions of tokens, errors of random features, and the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style as style
from ._frames import name_axes, require_columns, require_one_row_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_CLASSES = {
    "same_topic": ("same topic", style.SAME_TOPIC_COLOUR),
    "cross_topic": ("cross topic", style.CROSS_TOPIC_COLOUR),
    "same_token": ("same word", "#007A5A"),
    "no_topic": ("no topic", "#9A9A9A"),
    "special": ("special token", "#CFCFCF"),
}
_VALUES = {
    "share": "share of the head's output",
    "attention": "attention",
    "update_norm": "size of the update",
    "loss_term": "term of the loss",
}
_FEATURE_COLOURS = {"trigonometric": "#0072B2", "positive": "#D55E00"}
_USELESS = 1.0
"""Relative kernel error at which features say nothing."""
_HIGHEST = 100.0
"""Errors beyond this, infinite ones included, are drawn here, as triangles."""
_BOUND_LINES = (
    ("allowed", "the bound allows", style.INK, "-"),
    ("largest_gap", "worst W of the ball", "#D55E00", "-"),
    ("gap", "W of least loss", "#0072B2", "-"),
)


def plot_contributions(
    frame: DataFrame,
    ax: Axes | None = None,
    *,
    value: str = "share",
    most: int = 60,
    title: str = "What each token contributes",
) -> Axes:
    """Draw one bar for each demonstration token of one query, in the order of the text, coloured by pair class.

    Args:
        frame: columns ``position``, ``token`` and the value, as ``HeadDual.contributions`` has them; with
            ``pair_class``, as ``HeadDual.classified(labels)`` adds it, bars have the colour of their class.
        ax: where to draw; a new figure if None.
        value: ``"share"``, ``"attention"``, ``"update_norm"`` or ``"loss_term"``.
        most: of more tokens than this, those of the largest values (in size) are drawn, and the title says so.
        title: of the picture.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, the value is not one of these, or there is nothing to draw.
    """
    import seaborn as sns

    if value not in _VALUES:
        raise ValueError(f"value must be one of {', '.join(_VALUES)}, got {value!r}")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"most must be a whole number of at least 1, got {most!r}")
    require_columns(frame, ("position", "token", value))
    require_one_row_each(frame, ("position",))
    shown: Any = frame
    if len(frame) > most:
        shown = shown.loc[shown[value].abs().nlargest(most).index]
        title += f" (the {most} largest of {len(frame)})"
    shown = shown.sort_values("position")
    heights = shown[value].to_numpy(dtype=np.float64)
    classes = list(shown["pair_class"]) if "pair_class" in shown else ["" for _ in heights]
    ax = style.new_axes(1.8 + 0.17 * max(len(shown), 12), 3.4) if ax is None else ax
    places = np.arange(len(shown))
    for name in dict.fromkeys([*_CLASSES, *classes]):
        members = np.array([one == name for one in classes])
        if members.any():
            label, colour = _CLASSES.get(name, (str(name), style.SAME_TOPIC_COLOUR))
            ax.bar(places[members], heights[members], color=colour, width=0.8, label=label, zorder=2)
    ax.axhline(0, color=style.INK, linewidth=0.8, zorder=3)
    ax.set_xticks(places, [style.shortened(token, 14) for token in shown["token"]], rotation=90)
    ax.set_xlim(-0.7, len(shown) - 0.3)
    _finish(ax, "", _VALUES[value], title)
    if "pair_class" in shown:
        ax.legend(frameon=False, fontsize=style.TICK_SIZE, ncols=1, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    ax.grid(axis="x", visible=False)
    sns.despine(ax=ax)
    return ax


def plot_feature_errors(
    frame: DataFrame, ax: Axes | None = None, *, title: str = "Error of random features of the softmax kernel"
) -> Axes:
    """Draw the relative kernel error against the number of random features, both on logarithmic scales.

    One line for each kind of features, and for each ``norms`` if there is that column (solid, then dashed). The median
    over rows of the same kind and number is drawn. A thin guide has the slope -1/2 of an average; errors from 1 on are
    shaded, for there features are no better than nothing. Triangles are errors above 100.

    Args:
        frame: columns ``features``, ``n_features`` and ``relative_kernel_error``; ``norms`` if there are several.
        ax: where to draw; a new figure if None.
        title: of the picture.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing or there is nothing to draw.
    """
    import seaborn as sns

    require_columns(frame, ("features", "n_features", "relative_kernel_error"))
    if not len(frame):
        raise ValueError("frame must have at least one row, got none to draw")
    keys = ["features", *(["norms"] if "norms" in frame else [])]
    ax = style.new_axes(6.4, 3.8) if ax is None else ax
    kinds = list(dict.fromkeys(frame["norms"])) if "norms" in frame else [None]
    lowest: list[tuple[float, float]] = []
    groups: Any = frame.groupby(keys, sort=False)
    for names, group in groups:
        kind, norms = names[0], names[1] if len(keys) > 1 else None
        medians = group.groupby("n_features")["relative_kernel_error"].median()
        counts = medians.index.to_numpy(dtype=np.float64)
        errors = medians.to_numpy(dtype=np.float64)
        capped = np.where(errors > _HIGHEST, _HIGHEST, errors)
        colour = _FEATURE_COLOURS.get(str(kind), style.INK)
        line = ("-", (0, (4, 2)), (0, (1, 1.5)))[kinds.index(norms) % 3]
        label = str(kind) if norms is None else f"{kind}, {norms}"
        ax.plot(counts, capped, color=colour, linestyle=line, linewidth=1.6, marker="o", markersize=3, label=label)
        beyond = errors > _HIGHEST
        ax.plot(counts[beyond], capped[beyond], color=colour, linestyle="none", marker="^", markersize=7)
        lowest.append((counts[0], capped[0]))
    spread = np.array([frame["n_features"].min(), frame["n_features"].max()], dtype=np.float64)
    start = min(lowest, key=lambda point: point[1])
    ax.plot(
        spread,
        start[1] / 1.6 * np.sqrt(start[0] / spread),
        color=style.FAINT_INK,
        linewidth=0.9,
        linestyle=(0, (2, 2)),
        label="slope -1/2",
    )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    low, high = ax.get_ylim()
    if high > _USELESS:
        ax.axhspan(_USELESS, high, color="#F1F1F1", zorder=0)
        ax.set_ylim(low, high)
        ax.annotate(
            "no better than nothing",
            (0.01, _USELESS),
            xycoords=("axes fraction", "data"),
            xytext=(2, 3),
            textcoords="offset points",
            fontsize=style.NOTE_SIZE,
            color=style.FAINT_INK,
        )
    _finish(ax, "number of features", "relative kernel error", title)
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0}
    # Long enough samples that dashes are seen in the key.
    ax.legend(frameon=False, fontsize=style.TICK_SIZE, handlelength=3.4, **place)
    sns.despine(ax=ax)
    return ax


def plot_bound(
    frame: DataFrame, ax: Axes | None = None, *, title: str = "The bound, and the gaps that it bounds"
) -> Axes:
    """Draw the generalisation bound and the simulated gaps against the number of demonstrations, log against log.

    Args:
        frame: columns ``n_demonstrations``, ``allowed``, ``largest_gap`` and ``gap``, as
            ``simulate_bound().to_frame()`` has them.
        ax: where to draw; a new figure if None.
        title: of the picture.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, or there is nothing to draw.
    """
    import seaborn as sns

    require_columns(frame, ("n_demonstrations", "allowed", "largest_gap", "gap"))
    require_one_row_each(frame, ("n_demonstrations",))
    rows = frame.sort_values("n_demonstrations")
    counts = rows["n_demonstrations"].to_numpy(dtype=np.float64)
    ax = style.new_axes(6.0, 3.6) if ax is None else ax
    for column, label, colour, line in _BOUND_LINES:
        gaps = rows[column].to_numpy(dtype=np.float64)
        there = gaps > 0
        options = {"color": colour, "linestyle": line, "linewidth": 1.6, "marker": "o", "markersize": 3.5}
        ax.plot(counts[there], gaps[there], label=label, **options)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    ax.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
    _finish(ax, "number of demonstrations N", "loss", title)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=style.TICK_SIZE, borderaxespad=0)
    sns.despine(ax=ax)
    return ax


def _finish(ax: Axes, x: str, y: str, title: str) -> None:
    ax.tick_params(labelsize=style.TICK_SIZE)
    ax.grid(False)
    ax.grid(color="#E5E5E5", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    name_axes(ax, x, y)
    ax.set_title(title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
