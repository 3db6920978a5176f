"""What a saved folder may hold, checked before any of it is used.

A description is JSON, arrays are safetensors. The head of the arrays' file says how long each of them is: shapes are
compared with each other, with the description and with the length of the file, and only then are the numbers read. So a
file that promises a billion rows costs nothing, and a result that was loaded is of the shape that its code expects.

    axes: names separated by spaces. A number is that length; a name has one length wherever it stands in the folder;
    "..." is any shape.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LONGEST_DESCRIPTION = 1 << 26
"""Bytes of the longest description: the vocabulary of a topic model of five million words."""
LARGEST_ARRAYS = 1 << 34
"""Bytes of all arrays of a folder: three times what 16,000 heads with 200 permutations and 100 topics take."""
_LONGEST_HEAD = 1 << 24

_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
_FLOATS, _WHOLE = frozenset({"F64", "F32", "F16"}), frozenset({"I64", "I32"})


class Stored(NamedTuple):
    """One array, or all arrays whose names begin alike: what it must be."""

    axes: str
    """As the module says."""
    whole: bool = False
    """Whole numbers of at least 0 (counts); otherwise floating point."""
    finite: bool = True
    """Whether NaN and infinity are refused."""
    optional: bool = False
    """Whether it may be missing."""
    signed: bool = True
    """Whether it may be negative, where it is not of counts."""


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


def require_arrays(path: Path, rules: Mapping[str, Stored] | None = None) -> None:
    """Raise ValueError unless a safetensors file is whole and holds what ``rules`` say, by its head alone.

    Args:
        path: the file.
        rules: name -> rule; a name that ends with ``/`` stands for all that begin with it, unless they have a rule
            of their own. None for any arrays.
    """
    entries = _read_head(path)
    if rules is None:
        return
    lengths: dict[str, int] = {}
    for name in sorted(entries):  # in one order, so that the message is the same every time
        rule = _rule_of(name, rules)
        if rule is None:
            raise ValueError(f"it holds an array {name!r:.80} that does not belong there")
        _require_entry(name, entries[name], rule, lengths)
    for name, rule in rules.items():
        if name not in entries and not name.endswith("/") and not rule.optional:
            raise ValueError(f"it lacks the array {name!r}")


def require_numbers(arrays: Mapping[str, np.ndarray], rules: Mapping[str, Stored]) -> None:
    """Raise ValueError if an array holds numbers that its rule refuses."""
    for name, array in arrays.items():
        rule = _rule_of(name, rules)
        if rule is None:
            continue
        if (rule.whole or not rule.signed) and array.size and array.min() < 0:
            raise ValueError(f"array {name!r:.80} must not be negative, got {array.min()}")
        if not rule.whole and rule.finite and not np.isfinite(array).all():
            raise ValueError(f"array {name!r:.80} must be finite, got NaN or infinity")


def require_facts(description: Mapping[str, Any], facts: Mapping[str, str]) -> None:
    """Raise ValueError unless a description has each of the facts, of the kind that is said.

    Args:
        description: what was read.
        facts: name -> kind, one of those in this file; with a question mark it may be None or missing.
    """
    for name, kind in facts.items():
        value = description.get(name)
        if value is None and kind.endswith("?"):
            continue
        if name not in description:
            raise ValueError(f"it does not say {name!r}")
        if not _KINDS[kind.removesuffix("?")](value):
            raise ValueError(f"its {name!r} must be {kind.removesuffix('?')}, got {type(value).__name__}")


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"-?(inf|nan|\d+(\.\d+)?(e[-+]?\d+)?)", value) is not None


_KINDS = {
    "a text": lambda value: isinstance(value, str),
    "texts": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "texts by name": lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
    "a count": _is_count,
    "counts by name": lambda value: isinstance(value, dict) and all(map(_is_count, value.values())),
    "layers": lambda value: (
        isinstance(value, list) and all(_is_count(each) or (each == -1 and type(each) is int) for each in value)
    ),
    "a number as text": _is_number,
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
    "objects": lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
}


def require_inside(path: Path, folder: Path) -> None:
    """Raise ValueError if a file or folder of a saved folder is a link that leads out of it."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"{path} is a link that leads out of {folder}: put a copy in its place")


def _rule_of(name: str, rules: Mapping[str, Stored]) -> Stored | None:
    if name in rules and not name.endswith("/"):
        return rules[name]
    return next((rule for begin, rule in rules.items() if begin.endswith("/") and name.startswith(begin)), None)


def _require_entry(name: str, entry: _Entry, rule: Stored, lengths: dict[str, int]) -> None:
    allowed = _WHOLE if rule.whole else _FLOATS
    if entry.dtype not in allowed:
        kind = "whole numbers" if rule.whole else "floating point"
        raise ValueError(f"array {name!r:.80} must be of {kind}, got {entry.dtype}")
    if rule.axes == "...":
        return
    axes = rule.axes.split()
    wanted = [int(axis) if axis.isdigit() else lengths.get(axis) for axis in axes]
    fits = len(axes) == len(entry.shape) and all(
        want is None or want == have for want, have in zip(wanted, entry.shape, strict=True)
    )
    if fits:
        found = dict(zip(axes, entry.shape, strict=True))
        fits = all(found[axis] == have for axis, have in zip(axes, entry.shape, strict=True))  # "topic topic"
        lengths.update(found)
    if not fits:
        shown = ", ".join(axis if want is None else str(want) for axis, want in zip(axes, wanted, strict=True))
        raise ValueError(f"array {name!r:.80} must have shape ({shown}), got {entry.shape}")


def _read_head(path: Path) -> dict[str, _Entry]:
    """Return what the head of a safetensors file says of each array, if the file is as long as it says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(8)
        n_head = int.from_bytes(begin, "little")
        if len(begin) < 8 or n_head > size - 8:
            raise ValueError(f"its head does not fit into its {size:,} bytes")
        if n_head > _LONGEST_HEAD:
            raise ValueError(f"its head must be at most {_LONGEST_HEAD:,} bytes long, got {n_head:,}")
        text = file.read(n_head)
    n_data = size - 8 - n_head
    if n_data > LARGEST_ARRAYS:
        raise ValueError(f"its arrays must take at most {LARGEST_ARRAYS:,} bytes, got {n_data:,}")
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its head is not JSON") from None
    if not isinstance(head, dict):
        raise ValueError("its head is no JSON object")
    head.pop("__metadata__", None)
    entries, places = {}, []
    for name, said in head.items():
        entry, (start, stop) = _entry(name, said)
        if stop - start != math.prod(entry.shape) * _ITEM_BYTES[entry.dtype]:
            raise ValueError(f"array {name!r:.80} of shape {entry.shape} does not fit into {stop - start:,} bytes")
        entries[name] = entry
        places.append((start, stop))
    at = 0
    for start, stop in sorted(places):
        if start != at:
            raise ValueError("its arrays overlap, or leave gaps")
        at = stop
    if at != n_data:
        raise ValueError(f"its arrays take {at:,} bytes, and the file has {n_data:,}: it is cut short, or too long")
    return entries


def _entry(name: str, said: Any) -> tuple[_Entry, tuple[int, int]]:
    if not isinstance(said, dict):
        raise ValueError(f"its head does not say what array {name!r:.80} is")
    dtype, shape, place = said.get("dtype"), said.get("shape"), said.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise ValueError(f"array {name!r:.80} must be of one of the types {', '.join(_ITEM_BYTES)}, got {dtype!r:.40}")
    if not isinstance(shape, list) or not all(map(_is_count, shape)) or len(shape) > 32:
        raise ValueError(f"array {name!r:.80} must have a shape of at most 32 lengths of at least 0")
    if not isinstance(place, list) or len(place) != 2 or not all(map(_is_count, place)):
        raise ValueError(f"array {name!r:.80} must say where it begins and ends")
    return _Entry(dtype, tuple(shape)), (place[0], place[1])
