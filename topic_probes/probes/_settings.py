"""How a run was called, so that two runs can be told apart before their sums are put together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def differences(one: Mapping[str, Any], other: Mapping[str, Any], where: str, elsewhere: str) -> str:
    """Return in words how two sets of settings differ; an empty string if they do not.

    Args:
        one: name -> plain JSON value, or such a mapping.
        other: the same of another run.
        where: what to say of the first, as "there".
        elsewhere: what to say of the second, as "now".

    Examples:
        >>> differences({"seed": 0, "layers": [1]}, {"seed": 1, "layers": [1]}, "there", "now")
        'seed is 0 there and 1 now'
    """
    named = []
    for name in sorted({*one, *other}):
        mine, theirs = one.get(name), other.get(name)
        if mine == theirs:
            continue
        if isinstance(mine, dict) and isinstance(theirs, dict):
            named.append(f"{name}: {differences(mine, theirs, where, elsewhere)}")
        else:
            named.append(f"{name} is {mine!r:.80} {where} and {theirs!r:.80} {elsewhere}")
    return ", ".join(named)


def fingerprint_of_tokenizer(tokenizer: Any) -> str | None:
    """Return the class of a tokenizer and 16 hexadecimal digits that tell its vocabulary apart; None of none."""
    if tokenizer is None:
        return None
    vocabulary = sorted(tokenizer.get_vocab().items()) if hasattr(tokenizer, "get_vocab") else []
    digest = hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()[:16]
    return f"{type(tokenizer).__name__} {digest}"
