"""Results on disk: a folder of a JSON file and a safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_DESCRIPTION, _ARRAYS = "description.json", "arrays.safetensors"


def write_folder(
    folder: str | os.PathLike, *, kind: str, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Write ``description`` (JSON) and ``arrays`` (safetensors) as ``folder``, replacing an earlier one of that kind.

    Everything is first written beside the target and then moved, so an interrupted save leaves the
    old folder or none, never half of one.

    Raises:
        FileExistsError: if ``folder`` holds something that is not an earlier save of the same kind.
    """
    from safetensors.numpy import save_file

    target = Path(folder)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and _kind_of(target) != kind)):
        raise FileExistsError(f"{target} exists and is not a saved {kind}: choose another folder, or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        text = json.dumps({"kind": kind, "format": 1, **description}, indent=2, ensure_ascii=False)
        (beside / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, beside / _ARRAYS)
        beside.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        beside.replace(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return target


def read_folder(folder: str | os.PathLike, *, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description and the arrays of a folder that :func:`write_folder` wrote; nothing in it is executed.

    Raises:
        FileNotFoundError: if there is no such folder, or a file is missing in it.
        ValueError: if it holds something else.
    """
    from safetensors.numpy import load_file

    source = Path(folder)
    found = _kind_of(source)
    if found is None:
        raise FileNotFoundError(f"{source} is not a saved {kind}: it has no {_DESCRIPTION}")
    if found != kind:
        raise ValueError(f"{source} holds a saved {found}, not a {kind}")
    description = json.loads((source / _DESCRIPTION).read_text(encoding="utf-8"))
    if description.get("format") != 1:
        raise ValueError(f"{source} was written in format {description.get('format')!r}, this version reads format 1")
    return description, load_file(source / _ARRAYS)


def _kind_of(folder: Path) -> str | None:
    try:
        return json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
