"""Batches of windows of like length, padded on the right, with their mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from ..tokens import Window

_BATCHES_SORTED_TOGETHER = 32
"""Windows of this many batches are sorted by length together: little padding, and bounded memory."""


@dataclass(frozen=True)
class Batch:
    """Rows that go through a model together."""

    windows: tuple[Window, ...]
    token_ids: Tensor
    """[batch, pos] int64, padded on the right."""
    mask: Tensor
    """[batch, pos] int64, 1 for real tokens."""

    def by_length(self) -> Iterator[Batch]:
        """Yield the rows in batches without pads."""
        for _, windows in groupby(self.windows, key=len):
            yield _padded(tuple(windows), 0)


def batches(windows: Iterable[Window], batch_size: int, pad_id: int, *, allow_padding: bool = True) -> Iterator[Batch]:
    """Yield the windows in batches of at most ``batch_size`` rows, longest first within a stretch of the stream.

    Args:
        windows: rows of token ids.
        batch_size: rows in a batch.
        pad_id: id that fills shorter rows (masked, so any id of the vocabulary would do).
        allow_padding: False for a model that takes no mask: then all rows of a batch have one length.
    """
    stretch: list[Window] = []
    for window in windows:
        stretch.append(window)
        if len(stretch) == batch_size * _BATCHES_SORTED_TOGETHER:
            yield from _sorted_batches(stretch, batch_size, pad_id, allow_padding)
            stretch = []
    yield from _sorted_batches(stretch, batch_size, pad_id, allow_padding)


def _sorted_batches(stretch: list[Window], batch_size: int, pad_id: int, allow_padding: bool) -> Iterator[Batch]:
    stretch = sorted(stretch, key=len, reverse=True)
    start = 0
    while start < len(stretch):
        stop = min(start + batch_size, len(stretch))
        if not allow_padding:
            stop = start + sum(len(window) == len(stretch[start]) for window in stretch[start:stop])
        yield _padded(tuple(stretch[start:stop]), pad_id)
        start = stop


def _padded(windows: tuple[Window, ...], pad_id: int) -> Batch:
    shape = len(windows), len(windows[0])
    token_ids = torch.full(shape, pad_id, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.int64)
    for row, window in enumerate(windows):
        token_ids[row, : len(window)] = torch.tensor(window.token_ids)
        mask[row, : len(window)] = 1
    return Batch(windows, token_ids, mask)
