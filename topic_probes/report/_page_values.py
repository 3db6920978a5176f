"""Tables as plain JSON values: numbers to a few significant digits, missing ones as None."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame


def plain_table(frame: DataFrame) -> dict[str, Any]:
    """Return a table as ``columns`` and ``rows`` of plain values, numbers to six digits, None where one is missing."""
    columns = [
        numbers(frame[name], 6) if frame[name].dtype.kind == "f" else [_plain(value) for value in frame[name]]
        for name in frame.columns
    ]
    return {"columns": [str(name) for name in frame.columns], "rows": [list(row) for row in zip(*columns, strict=True)]}


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value if isinstance(value, bool | int) else str(value)


def numbers(values: Any, digits: int) -> list[Any]:
    """Return numbers to so many significant digits, whole ones as such (shorter), None where one is not finite."""
    found: list[Any] = []
    for value in np.asarray(values, dtype=float).ravel().tolist():
        if not math.isfinite(value):
            found.append(None)
            continue
        rounded = float(f"{value:.{digits}g}")
        found.append(int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded)
    return found
