"""Checks at the door: each says which argument, which rule, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def require_one_of(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Raise ValueError unless ``value`` is one of ``allowed``."""
    allowed = tuple(allowed)
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def require_count(name: str, value: Any, *, minimum: int = 1) -> None:
    """Raise unless ``value`` is a whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}")


def require_level(level: Any) -> None:
    """Raise unless ``level`` can be that of an interval: above 0 and below 1."""
    require_fraction("level", level)
    if level in (0, 1):
        raise ValueError(f"level must be above 0 and below 1, got {level!r}: 0.95 is usual")


def require_fraction(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in [0, 1], got {value!r}")
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
