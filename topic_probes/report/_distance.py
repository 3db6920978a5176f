"""Attention against distance: is it topics, or is it that same-topic words stand near?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style as style
from ._frames import name_axes, require_columns, require_one_row_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_CLASSES = (
    ("same_topic", "same topic", style.SAME_TOPIC_COLOUR),
    ("cross_topic", "cross topic", style.CROSS_TOPIC_COLOUR),
)


def plot_distance(frame: DataFrame, ax: Axes | None = None, *, min_pairs: int = 1) -> Axes:
    """Draw same- and cross-topic attention of one head, or of a mean over heads, against distance.

    Both axes are logarithmic. Where the lines lie on each other, a ratio above 1 comes from distance alone.

    Args:
        frame: columns ``pair_class``, ``distance``, ``mean`` and ``n_pairs``, as of ``AttentionResult.distance_frame``
            with the rows of one head; rows of several heads are averaged at each distance.
        ax: where to draw; a new figure if None.
        min_pairs: buckets with fewer pairs are left out.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing or nothing is left to draw.
    """
    import seaborn as sns

    require_columns(frame, ("pair_class", "distance", "mean", "n_pairs"))
    kept: Any = frame[(frame["n_pairs"] >= min_pairs) & (frame["mean"] > 0) & (frame["distance"] > 0)]
    means: Any = kept.groupby(["pair_class", "distance"], as_index=False, observed=True)["mean"].mean()
    require_one_row_each(means, ("pair_class", "distance"))
    n_heads = len(frame[[name for name in ("stack", "layer", "head") if name in frame]].drop_duplicates())
    ax = style.new_axes(5.6, 3.8) if ax is None else ax
    for pair_class, name, colour in _CLASSES:
        line = means[means["pair_class"] == pair_class]
        ax.plot(
            line["distance"].to_numpy(dtype=float),
            line["mean"].to_numpy(dtype=float),
            color=colour,
            label=name,
            linewidth=1.6,
            marker="o",
            markersize=3,
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    low, high = (float(edge) for edge in np.quantile(means["mean"].to_numpy(dtype=float), [0, 1]))
    ax.set_ylim(min(low, 1) / 1.25, max(high, 1) * 1.25)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.3g}")
    ax.axhline(1, color=style.INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    ax.annotate(
        "uniform",
        (1, 1),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=style.NOTE_SIZE,
        color=style.INK,
        annotation_clip=False,
    )
    ax.tick_params(labelsize=style.TICK_SIZE)
    ax.grid(color="#E5E5E5", linewidth=0.8)
    ax.set_axisbelow(True)
    name_axes(ax, "distance between the words (tokens)", "mean attention (uniform = 1)")
    of = "" if n_heads <= 1 else f", mean of {n_heads} heads"
    ax.set_title(f"Attention against distance{of}", fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    ax.legend(frameon=False, fontsize=style.TICK_SIZE)
    sns.despine(ax=ax)
    return ax
