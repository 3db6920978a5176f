"""Progress bars, on stderr, in a terminal or a notebook (tqdm)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def progress_bar(
    iterable: Iterable[Any] | None = None,
    *,
    description: str,
    unit: str,
    total: int | None = None,
    enabled: bool = True,
) -> Any:
    """Return a tqdm bar over ``iterable`` (or a bar to ``update`` by hand when it is None)."""
    from tqdm.auto import tqdm

    return tqdm(iterable, desc=description, unit=f" {unit}", total=total, disable=not enabled, leave=False)
