"""Same-topic against cross-topic as bars, trained beside untrained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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


def plot_classes(
    frame: DataFrame,
    ax: Axes | None = None,
    *,
    label: str = "mean attention (uniform = 1)",
    reference: float | None = 1.0,
) -> Axes:
    """Draw same-topic against cross-topic as bars, for a trained model beside its untrained twin.

    Args:
        frame: columns ``model`` (such as ``trained`` and ``untrained``), ``pair_class`` and ``mean``, and
            optionally ``low`` and ``high``, the ends of the error bars. One row per model and class; rows of
            other classes are not drawn. Models stand in the order in which they first appear.
        ax: where to draw; a new figure if None.
        label: what the bars measure; written at the value axis.
        reference: where to draw a dashed line, 1 for uniform attention; None for no line.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, a model has two rows for a class, or no row is left.
    """
    require_columns(frame, ("model", "pair_class", "mean"))
    with_ends = {"low", "high"} <= set(frame.columns)
    frame = frame.loc[frame["pair_class"].isin([name for name, _, _ in _CLASSES])]
    require_one_row_each(frame, ("model", "pair_class"))
    models = list(dict.fromkeys(frame["model"]))
    numbers = [column for column in ("mean", "low", "high") if column == "mean" or with_ends]
    keys = zip(frame["model"], frame["pair_class"], strict=True)
    values_of = dict(zip(keys, frame[numbers].to_numpy(dtype=float, na_value=np.nan), strict=True))
    nothing = np.full(len(numbers), np.nan)

    ax = style.new_axes(2.2 + 1.5 * len(models), 3.8) if ax is None else ax
    width = 0.36
    for offset, (pair_class, name, colour) in zip((-width / 2, width / 2), _CLASSES, strict=True):
        values = np.array([values_of.get((model, pair_class), nothing) for model in models])
        places, means = np.arange(len(models)) + offset, values[:, 0]
        ax.bar(places, means, width * 0.94, color=colour, label=name, zorder=2)
        tops = means.copy()
        if with_ends:
            known = np.isfinite(values).all(axis=1)
            low, high = values[known, 1], values[known, 2]
            ax.vlines(places[known], low, high, color=style.INK, linewidth=1.3, zorder=3)
            tops[known] = np.maximum(means[known], high)
        for place, mean, top in zip(places, means, tops, strict=True):
            text, height = ("no pairs", 0.0) if np.isnan(mean) else (f"{mean:.2f}", max(top, 0.0))
            ax.annotate(
                text,
                (place, height),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=style.TICK_SIZE,
                color=style.INK,
                zorder=4,
            )
    if reference is not None:
        ax.axhline(reference, color=style.INK, linewidth=1, linestyle=(0, (4, 3)), zorder=2.5)
    if reference == 1:
        ax.annotate(
            "uniform",
            (1, reference),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.NOTE_SIZE,
            color=style.INK,
            annotation_clip=False,
        )
    _finish_bars(ax, [style.shortened(model) for model in models], label)
    return ax


def _finish_bars(ax: Axes, models: Sequence[str], label: str) -> None:
    import seaborn as sns

    ax.set_xticks(range(len(models)), models, fontsize=style.LABEL_SIZE)
    ax.set_xlim(-0.6, len(models) - 0.4)
    ax.margins(y=0.12)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + 0.14 * (top - bottom))  # room for the legend, above the reference line too
    ax.tick_params(axis="y", labelsize=style.TICK_SIZE)
    ax.tick_params(axis="x", length=0)
    ax.grid(False)
    ax.grid(axis="y", color="#E5E5E5", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    name_axes(ax, "", label)
    ax.legend(loc="upper center", ncols=2, frameon=False, fontsize=style.TICK_SIZE, handlelength=1.2)
    sns.despine(ax=ax)
