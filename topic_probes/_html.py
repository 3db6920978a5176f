"""Short tables for notebooks: what ``_repr_html_`` of results, labels and topic models shows."""

from __future__ import annotations

from html import escape
from numbers import Integral, Real
from typing import Any

_ROWS = 12


def html_table(frame: Any, caption: str) -> str:
    """Return a table as HTML with everything in it escaped; no style of its own, so that it looks as a notebook does.

    Args:
        frame: a pandas DataFrame.
        caption: one line above it.
    """
    columns = [str(name) for name in frame.columns]
    numeric = [frame[name].dtype.kind in "fiu" for name in frame.columns]
    head = "".join(f'<th scope="col">{escape(name.replace("_", " "))}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {"right" if right else "left"}">{escape(cell_text(value))}</td>'
            for value, right in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in frame.head(_ROWS).itertuples(index=False, name=None)
    )
    left_out = len(frame) - _ROWS
    note = f"<p><small>and {left_out:,} more rows</small></p>" if left_out > 0 else ""
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
    )


def cell_text(value: Any) -> str:
    """Return a cell's text: numbers to four digits, nothing where a value is missing.

    Examples:
        >>> cell_text(1.23456), cell_text(float("nan")), cell_text(12345), cell_text(None)
        ('1.235', '', '12,345', '')
    """
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    return f"{int(value):,}" if isinstance(value, Integral) else f"{float(value):.4g}"
