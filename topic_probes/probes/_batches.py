"""Batches of windows of like length, padded on the right, with their mask.

Memory is bounded twice. A *stretch* of the corpus, some whole documents, is all that is held of it: its windows
are sorted by length, so that batches need little padding. A batch has at most so many rows, and at most so many
tokens, pads included. Stretches depend on the documents alone, never on how the work went: a run that is broken off
at the end of one, and taken up there, makes the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from ..tokens import Window

BATCH_SIZE = 16
"""Rows in a batch unless told otherwise."""

TOKENS_PER_BATCH = 8192
"""Tokens in a batch unless told otherwise: 16 rows of 512."""

_BATCHES_SORTED_TOGETHER = 32
"""Windows of this many batches are sorted by length together: little padding, and bounded memory."""

_ROWS_SORTED_TOGETHER = 2048
"""Windows in a stretch where the number of rows in a batch has no bound."""


@dataclass(frozen=True)
class Batch:
    """Rows that go through a model together."""

    windows: tuple[Window, ...]
    token_ids: Tensor
    """[batch, pos] int64, padded on the right."""
    mask: Tensor
    """[batch, pos] int64, 1 for real tokens."""

    @property
    def n_tokens(self) -> int:
        """Tokens that go through the model, pads included."""
        return self.token_ids.numel()

    def by_length(self) -> Iterator[Batch]:
        """Yield the rows in batches without pads."""
        for _, windows in groupby(self.windows, key=len):
            yield _padded(tuple(windows), 0)


class BatchLimits:
    """How large a batch may be, and how long a stretch of the corpus.

    Args:
        rows: rows in a batch; None for any number.
        tokens: tokens in a batch, pads included; None for any number. A row that is longer goes alone.
        pad_id: id that fills shorter rows (masked, so any id of the vocabulary would do).
        allow_padding: False for a model that takes no mask: then all rows of a batch have one length.
    """

    def __init__(self, rows: int | None, tokens: int | None, pad_id: int = 0, *, allow_padding: bool = True) -> None:
        self.rows = rows
        self.tokens = tokens
        self.pad_id = pad_id
        self.allow_padding = allow_padding
        # Not of self.tokens, which may be halved on the way: stretches stay what they are.
        self._stretch_rows = _ROWS_SORTED_TOGETHER if rows is None else rows * _BATCHES_SORTED_TOGETHER
        self._stretch_tokens = None if tokens is None else tokens * _BATCHES_SORTED_TOGETHER

    def fills_a_stretch(self, n_windows: int, n_tokens: int) -> bool:
        """Return whether so many windows, with so many tokens, are a stretch."""
        return n_windows >= self._stretch_rows or (
            self._stretch_tokens is not None and n_tokens >= self._stretch_tokens
        )

    def batches(self, windows: Iterable[Window]) -> Iterator[Batch]:
        """Yield windows in batches, longest first; a limit that changes on the way holds from the next batch on."""
        ordered = sorted(windows, key=len, reverse=True)
        start = 0
        while start < len(ordered):
            longest = len(ordered[start])
            stop = len(ordered) if self.rows is None else min(start + self.rows, len(ordered))
            if self.tokens is not None:
                stop = min(stop, start + max(1, self.tokens // longest))
            if not self.allow_padding:
                stop = start + sum(len(window) == longest for window in ordered[start:stop])
            yield _padded(tuple(ordered[start:stop]), self.pad_id)
            start = stop


def stretches(documents: Iterable[Iterable[Window]], limits: BatchLimits) -> Iterator[list[Window]]:
    """Yield the windows of whole documents, a stretch at a time.

    A stretch comes as soon as the document that fills it was taken: all windows of all documents taken so far are in
    the stretches so far. The last one may be short, or empty.

    Args:
        documents: the windows of each document; none for a document that is left out.
        limits: how long a stretch is.
    """
    stretch: list[Window] = []
    n_tokens = 0
    for windows in documents:
        for window in windows:
            stretch.append(window)
            n_tokens += len(window)
        if limits.fills_a_stretch(len(stretch), n_tokens):
            yield stretch
            stretch, n_tokens = [], 0
    yield stretch


def batches(windows: Iterable[Window], batch_size: int, pad_id: int, *, allow_padding: bool = True) -> Iterator[Batch]:
    """Yield the windows in batches of at most ``batch_size`` rows, longest first within a stretch of the stream.

    Args:
        windows: rows of token ids.
        batch_size: rows in a batch.
        pad_id: id that fills shorter rows (masked, so any id of the vocabulary would do).
        allow_padding: False for a model that takes no mask: then all rows of a batch have one length.
    """
    limits = BatchLimits(batch_size, None, pad_id, allow_padding=allow_padding)
    for stretch in stretches(([window] for window in windows), limits):
        yield from limits.batches(stretch)


def _padded(windows: tuple[Window, ...], pad_id: int) -> Batch:
    shape = len(windows), len(windows[0])
    token_ids = torch.full(shape, pad_id, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.int64)
    for row, window in enumerate(windows):
        token_ids[row, : len(window)] = torch.tensor(window.token_ids)
        mask[row, : len(window)] = 1
    return Batch(windows, token_ids, mask)
