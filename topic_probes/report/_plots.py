"""The pictures: heads of a model, same- against cross-topic, and words sorted by topic.

Attention is in units of uniform attention = 1 (science: P1's debiasing), so 1 is where the
colours of heads turn. A missing value is grey, never white, which would read as uniform.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._validation import require_count, require_one_of
from . import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_ANNOTATED_UP_TO = 12
_CLASSES = (
    ("same_topic", "same topic", style.SAME_TOPIC_COLOUR),
    ("cross_topic", "cross topic", style.CROSS_TOPIC_COLOUR),
)
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
    _require_columns(frame, ("layer", "head", value))
    _require_one_row_each(frame, ("layer", "head"))
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
    _name_axes(ax, "head (grey: no value)" if missing.any() else "head", "layer (0 is next to the input)")
    ax.set_title(title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    return ax


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
    _require_columns(frame, ("model", "pair_class", "mean"))
    with_ends = {"low", "high"} <= set(frame.columns)
    frame = frame.loc[frame["pair_class"].isin([name for name, _, _ in _CLASSES])]
    _require_one_row_each(frame, ("model", "pair_class"))
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
    names = _topic_of_each(matrix, topics)
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
    _name_axes(ax, "", "")
    ax.set_title(
        _title_of_blocks(groups, [names[place] for place in labelled], per_topic, rows),
        fontsize=style.TITLE_SIZE,
        color=style.INK,
        loc="left",
    )
    return ax


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
    names = _topic_of_each(matrix, {} if topics is None else topics)[:max_words]
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
    shown = f"first {count:,} of {total:,} words" if count < total else f"{count:,} {_plural('word', count)}"
    ax.set_title(
        f"{title} ({shown})",
        fontsize=style.TITLE_SIZE,
        color=style.INK,
        loc="left",
        pad=8 + 14 * rows,
    )
    _name_axes(ax, "attended to (key)", "attending (query)")
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


def _require_columns(frame: Any, columns: Sequence[str]) -> None:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        way_out = "call its to_frame()" if hasattr(frame, "to_frame") else "pass the to_frame() of a result"
        raise TypeError(f"frame must be a pandas DataFrame, got a {type(frame).__name__}: {way_out}")
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(f"frame must have the columns {', '.join(columns)}, it lacks {', '.join(missing)}")


def _require_one_row_each(frame: DataFrame, keys: Sequence[str]) -> None:
    if not len(frame):
        raise ValueError(f"frame must have at least one row per {' and '.join(keys)}, got none to draw")
    repeated = frame.duplicated(subset=list(keys))
    if repeated.any():
        first = ", ".join(f"{key} {frame.loc[repeated, key].iloc[0]}" for key in keys)
        raise ValueError(f"frame must have one row per {' and '.join(keys)}, got several for {first}: select one model")


def _topic_of_each(matrix: DataFrame, topics: Iterable[Hashable] | Mapping[Hashable, Hashable]) -> list[Hashable]:
    """Return the topic of each row, None for a word without."""
    import pandas as pd

    if not isinstance(matrix, pd.DataFrame):
        raise TypeError(
            f"matrix must be a pandas DataFrame with the words as index and columns, got a {type(matrix).__name__}: "
            "topic_probes.word_similarity and word_attention make such tables"
        )
    if not isinstance(topics, Iterable):
        raise TypeError(
            f"topics must be the topic of each word, in order or as a mapping, got a {type(topics).__name__}: "
            "topic_probes.word_similarity(model, labels) returns the matrix and its topics"
        )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, words by words, got {matrix.shape[0]} by {matrix.shape[1]}")
    names = [topics.get(word) for word in matrix.index] if isinstance(topics, Mapping) else list(topics)
    if len(names) != len(matrix):
        raise ValueError(f"topics must have one entry per word of the matrix, got {len(names)} for {len(matrix)} words")
    # A column of a table turns None into NaN.
    return [None if pd.isna(name) is True else name for name in names]


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
        return f"{n_words:,} {_plural('word', n_words)} of {n_topics:,} {_plural('topic', n_topics)}"
    if len(shown) < n_topics:
        return f"first word of {n_words:,} topics: {n_words:,} of {len(of_words):,} words"
    return f"first {per_topic} {_plural('word', per_topic)} of each topic: {n_words:,} of {len(of_words):,} words"


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


def _end_of_attention(cells: np.ndarray) -> float:
    seen = cells[np.isfinite(cells)]
    return float(np.clip(math.ceil(np.quantile(seen, 0.95)), 2, 8)) if seen.size else 2.0


def _name_axes(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=style.LABEL_SIZE, color=style.INK)
    ax.set_ylabel(y, fontsize=style.LABEL_SIZE, color=style.INK)


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
    _name_axes(ax, "", label)
    ax.legend(loc="upper center", ncols=2, frameon=False, fontsize=style.TICK_SIZE, handlelength=1.2)
    sns.despine(ax=ax)


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


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"
