"""Checked arrays of probabilities: finite, not negative, rows that sum to 1 in float64, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_SUM_TOLERANCE = 1e-6
"""How far a row may be from 1: rounding of float32. It is then put right in float64."""
_ROUNDING = 1e-14
"""A row as near to 1 as this is left as it is, so that saving and loading change no bit."""


def frozen(array: np.ndarray) -> np.ndarray:
    """Return the array, made read-only."""
    array.setflags(write=False)
    return array


def as_float64(name: str, values: Any) -> np.ndarray:
    """Return a copy in float64, or raise ValueError if ``values`` is no array of numbers."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a rectangular array of numbers") from None


def checked_array(
    name: str, values: Any, *, n_axes: int | None = None, shape: Sequence[int] | None = None
) -> np.ndarray:
    """Return a copy in float64, or raise ValueError unless it has the shape, is finite and is not negative."""
    array = as_float64(name, values)
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {array.shape}")
    if n_axes is not None and array.ndim != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity in {np.sum(~np.isfinite(array))} places")
    if (array < 0).any():
        raise ValueError(f"{name} must not be negative, got {array.min():.3g}")
    return array


def normalised(name: str, rows: np.ndarray) -> np.ndarray:
    """Return rows that sum to 1 in float64, given rows that do so within 1e-6."""
    sums = rows.sum(axis=1, keepdims=True)
    wrong = np.flatnonzero(np.abs(sums[:, 0] - 1) > _SUM_TOLERANCE)
    if len(wrong):
        where = f"row {wrong[0]} sums" if len(rows) > 1 else "it sums"
        raise ValueError(f"{name} must sum to 1 (within {_SUM_TOLERANCE:g}), but {where} to {sums[wrong[0], 0]:.6g}")
    return np.where(np.abs(sums - 1) > _ROUNDING, rows / sums, rows)


def row_shares(weights: np.ndarray) -> np.ndarray:
    """Return rows divided by their sums; NaN where that is 0."""
    totals = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, totals, out=np.full_like(weights, np.nan), where=totals > 0)
