"""How a result came about: recorded in it, and compared before two results are merged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..topics import TopicLabels
from ._hooks import describe

_ENTRIES_READ = 256
"""Entries of each parameter that its fingerprint is made of."""


def provenance(model: Any, labels: TopicLabels, **options: Any) -> dict[str, Any]:
    """Return the model, the labels, the options and the versions behind a result, as plain JSON values."""
    return {
        "model": describe(model),
        "weights_sample": fingerprint_of_weights(model),
        "dtype": str(next(iter(model.parameters())).dtype).removeprefix("torch."),
        "labels": labels.fingerprint(),
        **options,
        "versions": {name: _version(name) for name in ("topic-probes", "transformer-lens", "torch")},
    }


def fingerprint_of_weights(model: Any) -> str:
    """Return 16 hexadecimal digits that tell weights apart: of evenly spread entries of every parameter.

    Two checkpoints of one training run differ in nearly every entry, so a few of each will do.
    """
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        entries = parameter.detach().flatten()
        step = max(1, len(entries) // _ENTRIES_READ)
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        digest.update(entries[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def fingerprint_of_counts(counts: Mapping[Any, int] | None) -> str | None:
    """Return 16 hexadecimal digits that tell counts of words apart; None of none."""
    if counts is None:
        return None
    entries = sorted((str(word), int(number)) for word, number in counts.items())
    return hashlib.sha256(repr(entries).encode()).hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
