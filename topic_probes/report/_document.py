"""The attention of one head within one document, words as ticks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._validation import require_count
from . import _style as style
from ._frames import name_axes, plural, topic_of_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def plot_attention_blocks(
    matrix: DataFrame,
    topics: Iterable[Hashable] | Mapping[Hashable, Hashable] | None = None,
    ax: Axes | None = None,
    max_words: int = 64,
    *,
    by_topic: bool = False,
    title: str = "Attention of one document",
) -> Axes:
    """Draw the attention of one head within one document, words as ticks.

    Colours go from light to dark and end at the whole number, from 2 to 8, that 95 % of the cells keep
    within, so that a sink ([CLS], the first token) does not wash out the rest; the colour bar says where they
    end, and its arrow that some cells lie beyond. Keys that a query cannot see (NaN) are grey.

    Args:
        matrix: [query_pos, key_pos] attention in units of uniform = 1 (times the number of keys that the
            query sees); words as index (queries) and columns (keys), the same words in the same order.
        topics: the topic of each word: a sequence in the order of the rows, or a mapping from word to topic;
            None for a word without. Tick labels take the colour of their topic, up to 8 topics, the most
            frequent ones; words of further topics stay dark, unlabelled ones are faint.
        ax: where to draw; a new figure if None.
        max_words: draw at most this many words, the first ones; the title says so.
        by_topic: sort the words by topic, unlabelled ones last, instead of in reading order.
        title: what is drawn, such as the layer and head; the number of words is added. (``ax.set_title`` afterwards
            would run into the legend.)

    Raises:
        TypeError: if ``matrix`` is no table, or ``topics`` no sequence or mapping.
        ValueError: if the matrix is not square, empty, or negative somewhere, ``topics`` has another length, or
            ``by_topic`` is asked for without topics.
    """
    require_count("max_words", max_words)
    if by_topic and topics is None:
        raise ValueError("by_topic=True needs topics, got None")
    names = topic_of_each(matrix, {} if topics is None else topics)[:max_words]
    total = len(matrix)
    words = [str(word) for word in matrix.index[:max_words]]
    cells = matrix.to_numpy(dtype=float, na_value=np.nan)[:max_words, :max_words].copy()
    if not cells.size:
        raise ValueError("matrix must have at least one word, got an empty table")
    if (cells < 0).any():
        raise ValueError(f"matrix must hold attention, which is not negative, got {np.nanmin(cells):.3g}")
    if by_topic:
        rank = {name: place for place, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
        order = sorted(range(len(names)), key=lambda place: rank.get(names[place], len(rank)))
        cells, names, words = cells[np.ix_(order, order)], [names[k] for k in order], [words[k] for k in order]

    count = len(words)
    if ax is None:
        side = float(np.clip(0.15 * count, 3.2, 10))
        ax = style.new_axes(side + 2.4, side + 1.6)
    limit = _end_of_attention(cells)
    bar = style.draw_cells(
        ax,
        cells,
        colours=style.sequential_colours("mako_r"),
        low=0.0,
        high=limit,
        bar={"label": f"attention (uniform = 1), colours end at {limit:g}"},
    )
    bar.set_ticks(range(int(limit) + 1))
    if by_topic:
        style.draw_boundaries(ax, [start for _, start, _ in style.groups_of(names)[1:]], count, style.INK)
    colours = _colours_of_topics(names)
    rows = _draw_legend(ax, colours) if colours else 0
    shown = f"first {count:,} of {total:,} words" if count < total else f"{count:,} {plural('word', count)}"
    ax.set_title(
        f"{title} ({shown})",
        fontsize=style.TITLE_SIZE,
        color=style.INK,
        loc="left",
        pad=8 + 14 * rows,
    )
    name_axes(ax, "attended to (key)", "attending (query)")
    style.settle_layout(ax)
    size = float(np.clip(72 / 1.3 / style.cells_per_inch(ax, "y", count), 5, style.TICK_SIZE))
    centres = [place + 0.5 for place in range(count)]
    ticks = [style.shortened(word, 16) for word in words]
    for which, rotation in (("x", 90), ("y", 0)):
        style.label_cells(ax, which, centres, ticks, count, size=size, rotation=rotation)
        axis = ax.xaxis if which == "x" else ax.yaxis
        for place, tick in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
            topic = names[int(place)]
            tick.set_color(style.FAINT_INK if topics is not None and topic is None else colours.get(topic, style.INK))
    return ax


def _end_of_attention(cells: np.ndarray) -> float:
    seen = cells[np.isfinite(cells)]
    return float(np.clip(math.ceil(np.quantile(seen, 0.95)), 2, 8)) if seen.size else 2.0


def _colours_of_topics(names: Sequence[Hashable]) -> dict[Hashable, str]:
    """Return colours for the most frequent topics, in the order in which they first appear."""
    present = [name for name in names if name is not None]
    first_seen = list(dict.fromkeys(present))
    frequent = sorted(first_seen, key=lambda name: -present.count(name))[: len(style.TOPIC_COLOURS)]
    return dict(zip((name for name in first_seen if name in frequent), style.TOPIC_COLOURS, strict=False))


def _draw_legend(ax: Axes, colours: Mapping[Hashable, str]) -> int:
    """Name the topics above the axes, in their colours, and return the number of lines that takes."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], marker="s", linestyle="", markersize=6, color=colour) for colour in colours.values()]
    columns = min(4, len(colours))
    ax.legend(
        marks,
        [style.shortened(name, 18) for name in colours],
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=style.TICK_SIZE,
        borderaxespad=0.2,
        handletextpad=0.2,
        columnspacing=1.0,
    )
    return math.ceil(len(colours) / columns)
