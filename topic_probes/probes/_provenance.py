"""How a result came about: recorded in it, and compared before two results are merged."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..topics import TopicLabels
from ._hooks import describe


def provenance(model: Any, labels: TopicLabels, **options: Any) -> dict[str, Any]:
    """Return the model, the labels, the options and the versions behind a result, as plain JSON values."""
    return {
        "model": describe(model),
        "dtype": str(next(iter(model.parameters())).dtype).removeprefix("torch."),
        "labels": labels.fingerprint(),
        **options,
        "versions": {name: _version(name) for name in ("topic-probes", "transformer-lens", "torch")},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
