"""The heads that follow topics most surely, each with its interval: a forest plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import require_count
from . import _style as style
from ._frames import name_axes, require_columns, require_one_row_each, surest_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def plot_forest(frame: DataFrame, ax: Axes | None = None, *, n_heads: int = 20, q: float = 0.05) -> Axes:
    """Draw the heads whose ratio is most surely above 1 with their intervals, on a logarithmic scale around 1.

    They are in order of the lower ends of their intervals; of the ratios where no head has an interval.

    Filled marks are heads whose q-value is at most ``q``; where the table has no q-values all are filled.

    Args:
        frame: columns ``layer``, ``head``, ``ratio``, ``ratio_low`` and ``ratio_high``, optionally ``q_value`` and
            ``stack``, as of ``AttentionResult.to_frame``. Heads without a ratio are not drawn.
        ax: where to draw; a new figure if None.
        n_heads: how many heads, at most.
        q: false discovery rate at which marks are filled.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, a head has two rows, or no head has a ratio.
    """
    import seaborn as sns

    require_count("n_heads", n_heads)
    require_columns(frame, ("layer", "head", "ratio", "ratio_low", "ratio_high"))
    keys = [name for name in ("stack", "layer", "head") if name in frame]
    defined: Any = frame[np.isfinite(frame["ratio"].to_numpy(dtype=float, na_value=np.nan)) & (frame["ratio"] > 0)]
    require_one_row_each(defined, keys)
    ordered, order = surest_first(defined)
    top: Any = ordered.head(n_heads)
    ratio, low, high = (top[name].to_numpy(dtype=float) for name in ("ratio", "ratio_low", "ratio_high"))
    places = np.arange(len(top))
    ax = style.new_axes(5.6, 1.3 + 0.24 * len(top)) if ax is None else ax
    known = np.isfinite(low) & np.isfinite(high)
    ax.hlines(places[known], low[known], high[known], color=style.SAME_TOPIC_COLOUR, linewidth=1.6, zorder=2)
    certain = np.ones(len(top), dtype=bool)
    if "q_value" in top:
        q_values = top["q_value"].to_numpy(dtype=float, na_value=np.nan)
        certain = (q_values <= q) | np.isnan(q_values).all()
    for is_certain, face, name in ((True, style.SAME_TOPIC_COLOUR, f"q <= {q:g}"), (False, "white", f"q > {q:g}")):
        chosen = certain == is_certain
        if chosen.any():
            ax.scatter(
                ratio[chosen],
                places[chosen],
                s=26,
                facecolor=face,
                edgecolor=style.SAME_TOPIC_COLOUR,
                zorder=3,
                label=name,
            )
    ax.axvline(1, color=style.INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    ax.set_xscale("log", base=2)
    ends = np.concatenate([ratio, low[known], high[known], [1.0]])
    ends = ends[ends > 0]
    ax.set_xlim(float(ends.min()) / 1.1, float(ends.max()) * 1.1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    ax.set_yticks(places, [_name(row) for row in top[keys].to_dict("records")], fontsize=style.TICK_SIZE)
    ax.invert_yaxis()
    ax.tick_params(axis="x", labelsize=style.TICK_SIZE)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.8)
    ax.set_axisbelow(True)
    name_axes(ax, "same topic / cross topic, with interval", "")
    ax.set_title(f"Heads {order}", fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    if "q_value" in top and not np.isnan(q_values).all():
        ax.legend(frameon=False, fontsize=style.TICK_SIZE, loc="lower right")
    sns.despine(ax=ax, left=True)
    return ax


def _name(row: dict) -> str:
    stack = f"{row['stack']} " if row.get("stack") else ""
    return f"{stack}{int(row['layer'])}.{int(row['head'])}"
