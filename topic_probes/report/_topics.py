"""Attention of one head by topic of query and key, with like topics side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import _style as style
from ._frames import name_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def plot_topics(
    matrix: DataFrame, ax: Axes | None = None, *, names: Sequence[str] | None = None, cluster: bool = True
) -> Axes:
    """Draw mean attention from topic (row) to topic (column) as colours around uniform = 1.

    Topics without any pair are left out. Rows and columns come in one order, so that the diagonal is
    attention to the same topic.

    Args:
        matrix: topics by topics, as of ``AttentionResult.topic_matrix``; NaN where no pair is (grey).
        ax: where to draw; a new figure if None.
        names: [topic] a name for each topic, such as ``labels.topic_names``; numbers if None.
        cluster: whether to put topics that are attended to alike next to each other (average linkage).

    Raises:
        TypeError: if ``matrix`` is no table.
        ValueError: if it is not square, has no pair at all, or ``names`` are of another number.
    """
    import pandas as pd

    if not isinstance(matrix, pd.DataFrame):
        raise TypeError(f"matrix must be a pandas DataFrame, got a {type(matrix).__name__}: pass result.topic_matrix()")
    values = matrix.to_numpy(dtype=float, na_value=np.nan)
    if values.shape[0] != values.shape[1]:
        raise ValueError(f"matrix must be topics by topics, got {values.shape[0]} by {values.shape[1]}")
    if names is not None and len(names) != len(values):
        raise ValueError(f"names must be one per topic ({len(values)}), got {len(names)}")
    kept = np.flatnonzero(np.isfinite(values).any(axis=0) | np.isfinite(values).any(axis=1))
    if not len(kept):
        raise ValueError("matrix must have at least one pair of topics with a number, got none to draw")
    values = values[np.ix_(kept, kept)]
    labels = [str(matrix.index[topic]) if names is None else style.shortened(names[topic]) for topic in kept.tolist()]
    order = _order(values) if cluster and len(kept) > 2 else np.arange(len(kept))
    values, labels = values[np.ix_(order, order)], [labels[place] for place in order]
    if ax is None:
        side = float(np.clip(2.2 + 0.22 * len(kept), 4.2, 11))
        ax = style.new_axes(side + 1.2, side)
    limit = style.ratio_limit(values)
    bar = style.draw_cells(
        ax,
        style.log_ratios(values),
        colours=style.diverging_colours(),
        low=-math.log2(limit),
        high=math.log2(limit),
        linewidths=0,
        square=True,
        bar={"label": "mean attention (uniform = 1)"},
    )
    style.label_ratios(bar, limit)
    style.settle_layout(ax)
    centres = [place + 0.5 for place in range(len(kept))]
    style.label_cells(ax, "y", centres, labels, len(kept))
    style.label_cells(ax, "x", centres, labels, len(kept), rotation=90)
    name_axes(ax, "topic of the key", "topic of the query")
    ax.set_title("Attention from topic to topic", fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    return ax


def _order(values: np.ndarray) -> np.ndarray:
    """Return an order in which topics that are alike in rows and columns are neighbours."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering

    logs = np.nan_to_num(style.log_ratios(np.where(values == 0, np.nan, values)))
    features = np.concatenate([logs, logs.T], axis=1)
    tree = linkage(features, method="average")
    return leaves_list(optimal_leaf_ordering(tree, features))
