"""Words by words, sorted by topic: topic structure shows as blocks on the diagonal."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._validation import require_count, require_one_of
from . import _style as style
from ._frames import name_axes, plural, topic_of_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def plot_embedding_blocks(
    matrix: DataFrame,
    topics: Iterable[Hashable] | Mapping[Hashable, Hashable],
    ax: Axes | None = None,
    *,
    rows: Literal["words", "topics"] = "words",
    max_words: int = 400,
    label: str = "cosine",
) -> Axes:
    """Draw the similarities of words, sorted by topic; topic structure shows as blocks on the diagonal.

    A word with itself is grey. Colours end at the 1st and 99th percentile of the pairs drawn, and an arrow
    on the colour bar says that some lie beyond. They are blue and red around 0 when that range contains 0,
    else dark to light. Of more than ``max_words`` words the first ones of each topic are drawn, the same
    number for each as far as it has them, and the title says so. Of topics too thin for a name some names
    are left out.

    Args:
        matrix: [word, word] similarities, the words as index and columns.
        topics: the topic of each word, a name or a number: in the order of the rows, or as a mapping
            from word to topic. None or NaN (or absence from the mapping): the word is not drawn. Topics come in the
            order in which they first appear.
        ax: where to draw; a new figure if None.
        rows: ``"topics"`` for a matrix of means between topics, whose diagonal is drawn like the rest.
        max_words: draw at most this many rows.
        label: what the colours measure.

    Raises:
        TypeError: if ``matrix`` is no table, or ``topics`` no sequence or mapping.
        ValueError: if the matrix is not square, ``topics`` has another length, or no word has a topic.
    """
    require_count("max_words", max_words, minimum=2)
    require_one_of("rows", rows, ("words", "topics"))
    names = topic_of_each(matrix, topics)
    labelled = [place for place, name in enumerate(names) if name is not None]
    if not labelled:
        raise ValueError("topics must give at least one word of the matrix a topic, got none")
    chosen, per_topic = _even_choice([names[place] for place in labelled], max_words)
    order = np.array(labelled)[chosen]
    groups = style.groups_of([names[place] for place in order])
    count = len(order)
    cells = matrix.to_numpy(dtype=float, na_value=np.nan)[np.ix_(order, order)]
    if rows == "words":
        np.fill_diagonal(cells, np.nan)
    pairs = cells[np.isfinite(cells)]

    ax = style.new_axes(7.6, 6.2) if ax is None else ax
    low, high = (float(end) for end in np.quantile(pairs, [0.01, 0.99])) if pairs.size else (-1.0, 1.0)
    diverging = low < 0 < high
    if diverging:
        low, high = -max(-low, high), max(-low, high)
    elif high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    colours = style.diverging_colours() if diverging else style.sequential_colours("cividis")
    style.draw_cells(ax, cells, colours=colours, low=low, high=high, bar={"label": label})
    starts = [start for _, start, _ in groups[1:]]
    if len(groups) < count:
        style.draw_boundaries(ax, starts, count, style.INK if diverging else "white")
    centres, ticks = [(start + stop) / 2 for _, start, stop in groups], [style.shortened(name) for name, _, _ in groups]
    style.settle_layout(ax)
    style.label_cells(ax, "y", centres, ticks, count, rotation=0)
    style.label_cells(ax, "x", centres, ticks, count, rotation=90)
    name_axes(ax, "", "")
    ax.set_title(
        _title_of_blocks(groups, [names[place] for place in labelled], per_topic, rows),
        fontsize=style.TITLE_SIZE,
        color=style.INK,
        loc="left",
    )
    return ax


def _even_choice(names: Sequence[Hashable], most: int) -> tuple[list[int], int]:
    """Return places sorted by topic, at most ``most``, and the number of words that each topic may bring."""
    places: dict[Hashable, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    sizes = [len(of_topic) for of_topic in places.values()]
    per_topic = max(sizes)
    while per_topic > 1 and sum(min(size, per_topic) for size in sizes) > most:
        per_topic -= 1
    return [place for of_topic in places.values() for place in of_topic[:per_topic]][:most], per_topic


def _title_of_blocks(shown: Sequence[Any], of_words: Sequence[Hashable], per_topic: int, rows: str) -> str:
    """Say what is drawn, and of how much: ``shown`` are the groups drawn, ``of_words`` the topics of all words."""
    n_words, n_topics = shown[-1][-1], len(dict.fromkeys(of_words))
    if rows == "topics":
        return f"{n_words:,} topics" if n_words == len(of_words) else f"first {n_words:,} of {len(of_words):,} topics"
    if n_words == len(of_words):
        return f"{n_words:,} {plural('word', n_words)} of {n_topics:,} {plural('topic', n_topics)}"
    if len(shown) < n_topics:
        return f"first word of {n_words:,} topics: {n_words:,} of {len(of_words):,} words"
    return f"first {per_topic} {plural('word', per_topic)} of each topic: {n_words:,} of {len(of_words):,} words"
