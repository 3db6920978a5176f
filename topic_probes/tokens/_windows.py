"""What goes through a model as one row: a document, or a window of a long one.

A window of a long document is the special tokens around the document, around a stretch of its own
tokens, cut between words. Pairs never cross windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from jaxtyping import Bool, Int

Words: TypeAlias = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class WholeDocument:
    """All windows of a document that was cut."""

    windows: tuple[Window, ...]
    facts: dict[Any, Any] = field(default_factory=dict)
    """What has been worked out for the document as a whole, shared by its windows."""


@dataclass(frozen=True)
class Window:
    """One row of token ids, and the words in it that take part."""

    document_id: str
    token_ids: Int[np.ndarray, " pos"]
    is_special: Bool[np.ndarray, " pos"]
    words: Words
    """[word] the words (or token ids) that take part, in order; labelled or not."""
    starts: Int[np.ndarray, " word"]
    """[word] position of the first token of each."""
    stops: Int[np.ndarray, " word"]
    """[word] position after the last token of each, at least one after the first."""
    document: WholeDocument | None = field(default=None, compare=False, repr=False)
    """All windows of the document that this one is of; None if it is all of it."""

    def __len__(self) -> int:
        return len(self.token_ids)


def of_one_document(windows: Sequence[Window]) -> Iterator[Window]:
    """Yield windows that know each other; a single one as it is."""
    if len(windows) < 2:
        yield from windows
        return
    whole = WholeDocument(tuple(windows))
    for window in windows:
        yield replace(window, document=whole)


def chosen(words: Words, numbers: Int[np.ndarray, " chosen"]) -> Words:
    """Return the words of those numbers."""
    return cast("Words", tuple(words[number] for number in numbers.tolist()))


def cut_windows(whole: Window, max_length: int, n_before: int, n_after: int) -> Iterator[Window]:
    """Yield ``whole`` in windows of at most ``max_length`` tokens.

    Each token between the repeated ends is in one window. A word is cut, and then takes part in none,
    only if it is longer than a window. Windows of special tokens alone are left out.

    Args:
        whole: a document as one row, with all its words.
        max_length: tokens in a window, at least 1.
        n_before: tokens at the beginning of the document that are repeated in each window.
        n_after: the same at its end.

    Raises:
        ValueError: if the repeated tokens fill a window.
    """
    if len(whole) <= max_length:
        yield whole
        return
    begin, end = n_before, len(whole) - n_after
    room = max_length - n_before - n_after
    if room < 1:
        raise ValueError(
            f"max_length must leave room beside the {n_before + n_after} special tokens of a document, got {max_length}"
        )
    start = begin
    while start < end:
        stop = min(start + room, end)
        first = int(np.searchsorted(whole.starts, start, side="left"))
        after = int(np.searchsorted(whole.stops, stop, side="right"))
        if stop < end and after < len(whole.words) and start < whole.starts[after] < stop:
            stop = int(whole.starts[after])
        if not whole.is_special[start:stop].all():
            positions = np.r_[0:begin, start:stop, end : len(whole)]
            yield Window(
                document_id=whole.document_id,
                token_ids=whole.token_ids[positions],
                is_special=whole.is_special[positions],
                words=whole.words[first:after],
                starts=whole.starts[first:after] - start + begin,
                stops=whole.stops[first:after] - start + begin,
            )
        start = stop
