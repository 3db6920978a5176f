"""What comes in at the door of the dual: arrays of numbers in float64, and which tokens are demonstrations."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float


def as_float64(name: str, array: Any, axes: tuple[str, ...], *, minus_infinity: bool = False) -> np.ndarray:
    """Return a numpy, torch or nested-list array in float64 on the CPU, checked for rank and finite numbers.

    Args:
        name: the argument, for the message.
        array: what came in; a torch tensor is detached, half precision included.
        axes: the names of its axes, for the message.
        minus_infinity: whether ``-inf`` is allowed (log factors, where it hides a token).

    Raises:
        TypeError: if it holds no real numbers.
        ValueError: for a wrong number of axes, NaN or infinity.
    """
    if hasattr(array, "detach"):
        if getattr(array, "is_complex", bool)():
            raise TypeError(f"{name} must be an array of real numbers, got a complex tensor")
        array = array.detach().cpu().double().numpy()
    try:
        raw = np.asarray(array)
        if raw.dtype.kind not in "biuf":
            raise TypeError(raw.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of real numbers [{', '.join(axes)}], got {error}") from error
    numbers = np.array(raw, dtype=np.float64)
    if numbers.ndim != len(axes):
        raise ValueError(f"{name} must have the axes [{', '.join(axes)}], got the shape {numbers.shape}")
    fine = np.isfinite(numbers) | (np.isneginf(numbers) if minus_infinity else False)
    if not fine.all():
        where = tuple(int(index) for index in np.argwhere(~fine)[0])
        rule = "finite or -inf" if minus_infinity else "finite"
        raise ValueError(f"{name} must be {rule}, got {numbers[where]} at {where}: leave such tokens out")
    return numbers


def demonstration_mask(demonstrations: Any, n_tokens: int) -> Bool[np.ndarray, " token"]:
    """Return which of ``n_tokens`` tokens are demonstrations.

    Args:
        demonstrations: a boolean mask [token], a slice, or a sequence of indices (negative ones from the end).
        n_tokens: number of tokens.

    Raises:
        TypeError: for anything else.
        ValueError: for a mask of another length, or an index that is no token.
    """
    mask = np.zeros(n_tokens, dtype=bool)
    if isinstance(demonstrations, slice):
        mask[demonstrations] = True
        return mask
    if hasattr(demonstrations, "detach"):
        demonstrations = demonstrations.detach().cpu().numpy()
    if isinstance(demonstrations, range | set | frozenset):
        demonstrations = sorted(demonstrations)
    given = np.asarray(demonstrations)
    if given.ndim == 1 and given.dtype == bool:
        if len(given) != n_tokens:
            raise ValueError(f"demonstrations must have one entry for each of {n_tokens} tokens, got {len(given)}")
        return given.copy()
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(f"demonstrations must be a boolean mask, a slice or indices of tokens, got {demonstrations!r}")
    indices = given.astype(np.int64)
    if outside := [int(index) for index in indices if not -n_tokens <= index < n_tokens]:
        raise ValueError(f"demonstrations must be indices of {n_tokens} tokens, got {outside[0]}")
    mask[indices] = True
    return mask


def finite_number(name: str, value: Any, *, above: float = -np.inf) -> float:
    """Return ``value`` as a float.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is not finite, or not above ``above``.
    """
    rule = "a finite number" if above == -np.inf else f"a finite number above {above:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {rule}, got {value!r}")
    number = float(value)
    if not np.isfinite(number) or number <= above:
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return number


def attention_weights(scores: Float[np.ndarray, "query token"]) -> Float[np.ndarray, "query token"]:
    """Return the softmax of each row of scores, ``-inf`` included."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
