"""The table of Li et al. (2023) for a paper: one row per model and way to compare, in LaTeX with booktabs.

The columns are those of the first paper's table, mean same-topic and cross-topic attention and their ratio, and the
interval of the ratio over documents, which that table has not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ._frames import require_columns

if TYPE_CHECKING:
    from pandas import DataFrame

_NUMBERS = ("same_topic", "cross_topic", "ratio")
_ENDS = ("ratio_low", "ratio_high")
_TITLES = {
    "model": "Weights",
    "estimator": "Pairs compared",
    "same_topic": "Same topic",
    "cross_topic": "Cross topic",
    "ratio": "Ratio",
}
# The backslash is first: what stands for the others has one.
_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "{}&%$#_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def latex_table(frame: DataFrame, *, caption: str | None = None, label: str | None = None, digits: int = 3) -> str:
    r"""Return the table of Li et al. (2023) in LaTeX, for a document that says ``\usepackage{booktabs}``.

    Args:
        frame: one row per model, or per model and estimator: ``report.headline_frame()`` or
            ``report.estimators_frame()``. Text in it is escaped.
        caption: of the table, as LaTeX: it is not escaped. None for the bare ``tabular``, to be put into a table of
            one's own.
        label: for ``\ref``; with a caption only.
        digits: behind the point.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if it lacks a column or has no row, or there is a label without a caption.

    Examples:
        >>> import pandas as pd
        >>> row = {"model": "a_b", "same_topic": 1.5, "cross_topic": 1.0, "ratio": 1.5}
        >>> print(latex_table(pd.DataFrame([{**row, "ratio_low": 1.2, "ratio_high": 1.9}])))
        \begin{tabular}{lrrrl}
        \toprule
        Weights & Same topic & Cross topic & Ratio & 95\,\% interval \\
        \midrule
        a\_b & 1.500 & 1.000 & 1.500 & [1.200, 1.900] \\
        \bottomrule
        \end{tabular}
        <BLANKLINE>
    """
    require_columns(frame, ("model", *_NUMBERS, *_ENDS))
    if not len(frame):
        raise ValueError("frame must have at least one row, got none: pass report.estimators_frame()")
    if label is not None and caption is None:
        raise ValueError(f"label needs a caption, got label={label!r} alone: pass caption= too, or leave both out")
    texts = [name for name in ("model", "estimator") if name in frame.columns]
    header = [_TITLES[name] for name in (*texts, *_NUMBERS)] + [_interval_title(frame)]
    lines = [
        rf"\begin{{tabular}}{{{'l' * len(texts)}{'r' * len(_NUMBERS)}l}}",
        r"\toprule",
        _row(header),
        r"\midrule",
        *(_row(_cells(row, texts, digits)) for row in frame.to_dict("records")),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption is not None:
        named = [] if label is None else [rf"\label{{{label}}}"]
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", *named, *lines, r"\end{table}"]
    return "\n".join(lines) + "\n"


def escape_latex(text: Any) -> str:
    r"""Return a text in which nothing is a command of LaTeX.

    Examples:
        >>> print(escape_latex("100 % of a_b"))
        100 \% of a\_b
    """
    return "".join(_ESCAPES.get(character, character) for character in str(text))


def _interval_title(frame: DataFrame) -> str:
    level = float(frame["level"].iloc[0]) if "level" in frame.columns else 0.95
    return rf"{100 * level:g}\,\% interval"


def _cells(row: Any, texts: list[str], digits: int) -> list[str]:
    low, high = (_number(row[name], digits) for name in _ENDS)
    words = [escape_latex(str(row[name]).replace("_", " ") if name == "estimator" else row[name]) for name in texts]
    return [*words, *(_number(row[name], digits) for name in _NUMBERS), f"[{low}, {high}]"]


def _number(value: Any, digits: int) -> str:
    """Return a number, or a dash where there is none."""
    return f"{float(value):.{digits}f}" if math.isfinite(float(value)) else "--"


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
