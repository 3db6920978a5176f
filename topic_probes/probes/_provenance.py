"""How a result came about: recorded in it, and compared before two results are merged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..topics import TopicLabels
from ._hooks import describe


def provenance(model: Any, labels: TopicLabels, **options: Any) -> dict[str, Any]:
    """Return the model, the labels, the options and the versions behind a result, as plain JSON values."""
    return {
        "model": describe(model),
        "weights_digest": fingerprint_of_weights(model),
        "dtype": str(next(iter(model.parameters())).dtype).removeprefix("torch."),
        "labels": labels.fingerprint(),
        **options,
        "versions": {name: _version(name) for name in ("topic-probes", "transformer-lens", "torch")},
    }


def fingerprint_of_weights(model: Any) -> str:
    """Return 16 hexadecimal digits that tell weights apart, of every entry of every parameter (a second a gigabyte)."""
    import torch

    digest = hashlib.blake2b(digest_size=8)
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        entries = parameter.detach().cpu().contiguous().flatten()
        digest.update(entries.view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
