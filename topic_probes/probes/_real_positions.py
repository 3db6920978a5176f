"""Which positions of a batch hold tokens that take part in the model's work, and which are pads."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def positions_of(is_real: Bool[Tensor, " pos"], device: torch.device) -> slice | Tensor:
    """Return where the real tokens of a row stand: a slice if there are no holes between them."""
    where = torch.nonzero(is_real).flatten()
    if len(where) == 0:
        return slice(0, 0)
    first, last = int(where[0]), int(where[-1])
    return slice(first, last + 1) if last + 1 - first == len(where) else where.to(device)


def real_by_id(
    ids: Int[Tensor, "batch pos"], pad: int | None, pattern: Tensor, spared: tuple[int, int]
) -> tuple[Bool[Tensor, "batch pos"], int]:
    """Return which positions are real where there is no mask, and how many at the ends of rows look like pads.

    Positions with the pad id are pads unless a real token attends to them.

    Args:
        ids: the token ids.
        pad: the pad id; None if no id is one.
        pattern: [batch, head, query_pos, key_pos] attention among these positions.
        spared: positions of that id before and after all real tokens that are none too many, because it also begins or
            ends a text.
    """
    real = torch.ones_like(ids, dtype=torch.bool) if pad is None else ids != pad
    n_attended = 0
    for index in torch.nonzero(~real.all(dim=1)).flatten().tolist():
        queries = pattern[index][:, real[index].to(pattern.device)]
        attended = (queries > 0).any(dim=0).any(dim=0).cpu()
        n_attended += _n_at_ends(attended & ~real[index], real[index], spared)
        real[index] |= attended
    return real, n_attended


def _n_at_ends(attended: Tensor, real: Tensor, spared: tuple[int, int]) -> int:
    """Return how many of the attended [pos] positions of the pad id stand before or after all real tokens."""
    where = torch.nonzero(real).flatten()
    if len(where) == 0:
        return 0
    ends = attended[: int(where[0])], attended[int(where[-1]) + 1 :]
    return sum(max(int(end.sum()) - n, 0) for end, n in zip(ends, spared, strict=True))


def real_in_shifted(real: Bool[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """Return which positions of a decoder are real that reads a batch shifted right, from those of the batch.

    The start, and the real tokens but the last of each row: that one falls off the end of the longest rows, and so
    that a row does not depend on the others it is left out of all.
    """
    shifted = torch.zeros_like(real)
    for index, row in enumerate(real):
        where = torch.nonzero(row).flatten()
        if len(where):
            shifted[index, 0] = True
            shifted[index, where[:-1] + 1] = True
    return shifted
