"""The toy laboratory in pictures: matrices of words by words, the attention of one document, the course of training."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import require_one_of
from . import _style as style
from ._document import plot_attention_blocks
from ._frames import name_axes, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_MATRICES = {
    "gram": ("Embeddings, W_E W_E^T", "dot product", "word", "word"),
    "value": ("Value matrix, W_V", "weight", "word as input (key)", "word as output"),
    "value_products": ("Columns of W_V, dot products", "dot product", "word as input", "word as input"),
    "key_query": ("Keys and queries, W_K^T W_Q", "weight", "word as query", "word as key"),
}
_MOST_CELLS = 1_000
_CURVES = ("#0072B2", "#D55E00", "#007A5A", "#B0488A", "#E69F00", "#4B3FA0")
_NAMES = {
    "norm_W_E": "W_E",
    "norm_W_V": "W_V",
    "norm_W_Q": "W_Q",
    "norm_W_K": "W_K",
    "same_topic": "same topic",
    "cross_topic": "cross topic",
}
_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), "-.")


def plot_topic_matrix(
    matrix: Any,
    topics: Iterable[Hashable] | Mapping[int, Any],
    kind: str = "gram",
    ax: Axes | None = None,
    *,
    title: str | None = None,
    diagonal: bool = True,
) -> Axes:
    """Draw a matrix of words by words with its topics marked off; topic structure shows as blocks on the diagonal.

    Words are sorted by topic and keep their order within it. Colours are blue and red around a white 0; they end at the
    largest entry away from the diagonal, so that large entries on it do not wash out the blocks, and an arrow on the
    colour bar says that some lie beyond. [MASK], where the matrix has it, comes last.

    Args:
        matrix: [word, word] array, tensor or table, for instance ``W_E @ W_E.T``; there may be one more row and one
            more column, of [MASK], at the end.
        topics: the topic of each word in turn, or ``{word: topic}`` as ``corpus.topics_of``; of a word of several
            topics the first counts. None: the word has no topic and comes after all others.
        kind: what it is, for title and axes: ``"gram"``, ``"value"`` (output words in rows), ``"value_products"``
            (``W_V.T @ W_V``) or ``"key_query"`` (``W_K.T @ W_Q``).
        ax: where to draw; a new figure if None.
        title: instead of the title that ``kind`` gives.
        diagonal: False draws a word with itself in grey.

    Raises:
        ValueError: if the matrix is not square up to [MASK], has more than 1,000 rows, or ``topics`` has another
            length.
        TypeError: if it holds no numbers.
    """
    require_one_of("kind", kind, _MATRICES)
    cells = _as_cells(matrix)
    names = _topic_names(topics, cells.shape)
    n_words = len(names)
    order = _by_topic(names)
    shown = [names[place] for place in order]
    rows, columns = (order + [n_words] * (size - n_words) for size in cells.shape)
    cells = cells[np.ix_(rows, columns)]
    away = cells[~np.eye(*cells.shape, dtype=np.bool_)]
    away = away[np.isfinite(away)]
    limit = float(np.abs(away).max(initial=0.0)) or float(np.nanmax(np.abs(cells), initial=0.0)) or 1.0
    if not diagonal:
        cells[np.arange(n_words), np.arange(n_words)] = np.nan

    default_title, label, x_name, y_name = _MATRICES[kind]
    ax = style.new_axes(6.6, 5.6) if ax is None else ax
    style.draw_cells(ax, cells, colours=style.diverging_colours(), low=-limit, high=limit, bar={"label": label})
    ax.set_aspect("auto")
    groups = style.groups_of(shown)
    ends = [stop for _, _, stop in groups]
    _mark_off(ax, ends, cells.shape)
    ticks = ["no topic" if name is None else f"topic {name}" for name, _, _ in groups]
    centres = [(start + stop) / 2 for _, start, stop in groups]
    style.settle_layout(ax)
    for which, size in (("y", cells.shape[0]), ("x", cells.shape[1])):
        with_mask = size > n_words
        style.label_cells(
            ax,
            which,
            [*centres, n_words + 0.5] if with_mask else centres,
            [*ticks, "[MASK]"] if with_mask else ticks,
            size,
            rotation=0 if which == "y" else 90,
        )
    name_axes(ax, x_name, y_name)
    ax.set_title(default_title if title is None else title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    return ax


def plot_document_attention(
    pattern: Any,
    token_ids: Sequence[int] | np.ndarray,
    topics: Mapping[int, Any],
    ax: Axes | None = None,
    *,
    max_words: int = 150,
    title: str = "Attention of one document, by topic",
) -> Axes:
    """Draw the attention of one head within one document of word numbers, sorted by topic, topics marked off.

    Weights are multiplied by the number of keys, so uniform attention is 1. See :func:`plot_attention_blocks`.

    Args:
        pattern: [query_pos, key_pos] attention, rows summing to 1: array or tensor.
        token_ids: [pos] the document.
        topics: token id -> topic, or topics, of which the first counts; an id that is not there has none.
        ax: where to draw; a new figure if None.
        max_words: draw at most this many words, the first ones.
        title: what is drawn; the number of words is added.

    Raises:
        ValueError: if the pattern is not square, or ``token_ids`` has another length.
    """
    import pandas as pd

    ids = [int(token) for token in token_ids]
    cells = _as_cells(pattern)
    if cells.shape != (len(ids), len(ids)):
        raise ValueError(f"pattern must be [query_pos, key_pos] of the {len(ids)} token_ids, got {cells.shape}")
    frame = pd.DataFrame(cells * len(ids), index=ids, columns=ids)
    of_each = [_first_topic(topics.get(token)) for token in ids]
    names = [None if topic is None else f"topic {topic}" for topic in of_each]
    # In the order of their numbers, as in the other pictures.
    order = sorted(range(min(len(ids), max_words)), key=lambda place: (of_each[place] is None, of_each[place] or 0))
    order += list(range(len(order), len(ids)))
    frame = frame.iloc[order, order]
    return plot_attention_blocks(frame, [names[place] for place in order], ax, max_words, by_topic=True, title=title)


def plot_training(
    history: DataFrame,
    ax: Axes | None = None,
    *,
    columns: Sequence[str] | None = None,
    stages: Mapping[str, float] | None = None,
    relative: bool = True,
    label: str | None = None,
    title: str = "Training",
) -> Axes:
    """Draw the course of training, one curve a column, with the stages marked.

    Args:
        history: ``step`` and the columns to draw, as ``tp.toy.train(...).history`` has them.
        ax: where to draw; a new figure if None.
        columns: what to draw; the norms of the matrices (``norm_W_E`` and so on, those that change) if None.
        stages: column, or name of a matrix such as ``"W_V"`` -> step at which it reached half of its growth: a vertical
            line in the colour of its curve. NaN: no line.
        relative: draw each curve as a share of its way from first to last value, so that curves of different size can
            be compared; False draws the values.
        label: of the value axis.
        title: of the picture.

    Raises:
        TypeError: if ``history`` is no table.
        ValueError: if a column is missing, there is no row, or more than 24 curves are asked for.
    """
    require_columns(history, ("step", *(columns or ())))
    if not len(history):
        raise ValueError("history must have at least one row, got none to draw")
    if columns is None:
        norms = [name for name in history.columns if str(name).startswith("norm_")]
        columns = [name for name in norms if len(history[name].unique()) > 1] or norms
        if not columns:
            raise ValueError("history must have columns norm_..., got none: name the columns to draw")
    if len(columns) > len(_CURVES) * len(_STYLES):
        raise ValueError(f"columns must be at most {len(_CURVES) * len(_STYLES)}, got {len(columns)}: choose some")

    ax = style.new_axes(7.0, 4.2) if ax is None else ax
    steps = history["step"].to_numpy(dtype=float)
    for number, column in enumerate(columns):
        values = history[column].to_numpy(dtype=float, na_value=np.nan)
        if relative:
            values = _share_of_way(values)
        colour = _CURVES[number % len(_CURVES)]
        line = _STYLES[number // len(_CURVES)] if len(columns) > len(_CURVES) else _STYLES[number % len(_STYLES)]
        name = _NAMES.get(column, str(column))
        ax.plot(steps, values, color=colour, linestyle=line, linewidth=1.8, label=style.shortened(name))
        _mark_stage(ax, _stage_of(column, name, stages), colour, name, number)
    _finish_curves(ax, label or ("share of its growth" if relative else "value"), title)
    return ax


def _mark_stage(ax: Axes, step: float, colour: str, name: str, number: int) -> None:
    if not np.isfinite(step):
        return
    ax.axvline(step, color=colour, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    # Lines near each other have their names at different heights.
    ax.annotate(
        f"{style.shortened(name)}: {step:,.0f}",
        (step, 0.1 + 0.075 * (number % 5)),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=style.NOTE_SIZE,
        color=colour,
        zorder=5,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )


def _finish_curves(ax: Axes, label: str, title: str) -> None:
    import seaborn as sns

    ax.tick_params(labelsize=style.TICK_SIZE)
    ax.grid(False)
    ax.grid(axis="y", color="#E5E5E5", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.margins(x=0.02)
    name_axes(ax, "step", label)
    ax.set_title(title, fontsize=style.TITLE_SIZE, color=style.INK, loc="left")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=style.TICK_SIZE, borderaxespad=0)
    sns.despine(ax=ax)


def _stage_of(column: str, name: str, stages: Mapping[str, float] | None) -> float:
    known = stages or {}
    return float(known.get(column, known.get(name, np.nan)))


def _share_of_way(values: np.ndarray) -> np.ndarray:
    finite = np.flatnonzero(np.isfinite(values))
    if not finite.size:
        return values
    first, last = values[finite[0]], values[finite[-1]]
    return (values - first) / (last - first) if last != first else np.where(np.isfinite(values), 0.0, np.nan)


def _mark_off(ax: Axes, ends: Sequence[int], shape: tuple[int, ...]) -> None:
    """Draw lines after each topic, where more follows."""
    width = 0.9 if len(ends) <= 40 else 0.3
    options = {"color": style.INK, "linewidth": width, "solid_capstyle": "butt"}
    for end in ends:
        if end < shape[0]:
            ax.plot([0, shape[1]], [end, end], **options)
        if end < shape[1]:
            ax.plot([end, end], [0, shape[0]], **options)


def _as_cells(matrix: Any) -> np.ndarray:
    if hasattr(matrix, "detach"):  # a tensor, on whatever device
        matrix = matrix.detach().cpu().double().numpy()
    try:
        cells = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"matrix must hold numbers, got a {type(matrix).__name__}") from error
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"matrix must have rows and columns, got shape {cells.shape}")
    if max(cells.shape) > _MOST_CELLS:
        raise ValueError(
            f"matrix must have at most {_MOST_CELLS:,} rows and columns, got {cells.shape}: draw a part of it"
        )
    return cells


def _topic_names(topics: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the topic of each word; the matrix has one row, or column, more at the most."""
    if isinstance(topics, Mapping):
        n_words = max(topics, default=-1) + 1
        names = [topics.get(word) for word in range(n_words)]
    else:
        names = list(topics)
    n_words = len(names)
    if isinstance(topics, Mapping) and n_words < min(shape) - 1:
        names += [None] * (min(shape) - n_words)  # words at the end that have no topic
        n_words = len(names)
    if any(not 0 <= size - n_words <= 1 for size in shape):
        raise ValueError(
            f"topics must have one entry per word of the matrix ([MASK] has none), got {n_words} for the shape {shape}"
        )
    return [_first_topic(name) for name in names]


def _first_topic(topics: Any) -> Any:
    if isinstance(topics, (tuple, list, np.ndarray)):
        return topics[0] if len(topics) else None
    return topics


def _by_topic(names: Sequence[Any]) -> list[int]:
    """Return places sorted by topic, topics in the order in which they first appear, words without one last."""
    rank = {name: place for place, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    return sorted(range(len(names)), key=lambda place: rank.get(names[place], len(rank)))
