"""Models by the names that the command line knows them by: on the hub, in a folder, or in a Python package."""

from __future__ import annotations

from typing import Any

from ._options import as_device, as_dtype

BUILT_IN = {"minilm": "open_minilm", "smollm2": "open_smollm2"}
"""Models that come in Python packages, and what of :mod:`topic_probes.demo` opens them."""


def open_named_model(name: str, *, device: str | None, dtype: str) -> tuple[Any, Any]:
    """Return a model, and its tokenizer.

    Raises:
        ValueError: if it cannot be opened: whatever the reason, it is the name that has to be mended.
        ModuleNotFoundError: if it needs a package that is not installed.
    """
    place, precision = as_device(device), as_dtype(dtype)
    if name in BUILT_IN:
        from .. import demo

        model, tokenizer = getattr(demo, BUILT_IN[name])()
        for moved in (place, precision):
            if moved is not None:
                model.to(moved)
        return model, tokenizer
    from ..models import load_model

    try:
        model = load_model(name, device=place, dtype=precision)
    except OSError as error:
        raise ValueError(str(error)) from error
    return model, model.tokenizer
