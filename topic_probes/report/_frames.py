"""What the pictures ask of their tables, and the words that they share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def require_columns(frame: Any, columns: Sequence[str]) -> None:
    """Raise unless ``frame`` is a table with these columns."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        way_out = "call its to_frame()" if hasattr(frame, "to_frame") else "pass the to_frame() of a result"
        raise TypeError(f"frame must be a pandas DataFrame, got a {type(frame).__name__}: {way_out}")
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(f"frame must have the columns {', '.join(columns)}, it lacks {', '.join(missing)}")


def require_one_row_each(frame: DataFrame, keys: Sequence[str]) -> None:
    """Raise if the table is empty, or two rows have the same keys."""
    if not len(frame):
        raise ValueError(f"frame must have at least one row per {' and '.join(keys)}, got none to draw")
    repeated = frame.duplicated(subset=list(keys))
    if repeated.any():
        first = ", ".join(f"{key} {frame.loc[repeated, key].iloc[0]}" for key in keys)
        raise ValueError(f"frame must have one row per {' and '.join(keys)}, got several for {first}: select one model")


def surest_first(frame: DataFrame) -> tuple[DataFrame, str]:
    """Return the rows with a ratio in order, and the order in words.

    Rows are ordered by the lower end of their interval, where any has one: the ratio of two means that are hardly
    above 0 is large by noise. Rows without an end come last, by their ratio.

    Args:
        frame: columns ``ratio`` and, if there are intervals, ``ratio_low``.
    """
    known: Any = frame[frame["ratio"].notna()]
    order = ["ratio"]
    if "ratio_low" in known and known["ratio_low"].notna().any():
        order.insert(0, "ratio_low")
    ordered = known.sort_values(order, ascending=False, na_position="last", kind="stable")
    return ordered, "with the largest ratios" if len(order) == 1 else "most surely above 1"


def topic_of_each(matrix: DataFrame, topics: Iterable[Hashable] | Mapping[Hashable, Hashable]) -> list[Hashable]:
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


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Label both axes, in the size and ink of all pictures."""
    ax.set_xlabel(x, fontsize=style.LABEL_SIZE, color=style.INK)
    ax.set_ylabel(y, fontsize=style.LABEL_SIZE, color=style.INK)


def plural(noun: str, count: int) -> str:
    """Return the noun as it goes with the count."""
    return noun if count == 1 else noun + "s"


def topic_heads_text(row: Mapping[Any, Any]) -> str:
    """Return how many heads of a row of ``estimators_frame`` follow topics, in words.

    Examples:
        >>> row = {"n_topic_heads": 2, "n_heads": 72, "n_permutations": 200, "permutations_wanted": 719.0}
        >>> topic_heads_text(row), topic_heads_text({**row, "n_permutations": 0})
        ('2+ of 72', 'not tested')
    """
    if not row["n_permutations"]:
        return "not tested"
    more = "+" if math.isfinite(row["permutations_wanted"]) else ""
    return f"{row['n_topic_heads']}{more} of {row['n_heads']}"


def too_few_permutations(headline: DataFrame) -> str:
    """Return a sentence on the heads that ``+`` in a table of ``estimators_frame`` stands for; "" if there is none."""
    wanted = [number for number in headline["permutations_wanted"].tolist() if math.isfinite(number)]
    if not wanted:
        return ""
    return (
        f"+: more heads lie above all {headline['n_permutations'].iloc[0]} permutations, which are too few to count "
        f"them; {max(wanted):.0f} or more would do"
    )
