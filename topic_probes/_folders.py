"""Results on disk: a folder of a JSON file and a safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_DESCRIPTION, _ARRAYS = "description.json", "arrays.safetensors"


@contextmanager
def whole_folder(folder: str | os.PathLike, *, kind: str, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a new folder to write into; it takes the place of ``folder`` when the block ends well.

    It lies beside the target and is moved, so a block that fails leaves what was there before, and a
    reader never meets half a folder. What was there is deleted last.

    Args:
        folder: the target: missing, empty, or one that may be replaced.
        kind: what is written, for the message ("a saved report").
        replaceable: whether a folder with something in it is an earlier one of that kind.

    Raises:
        FileExistsError: if ``folder`` holds something else.
    """
    target = Path(folder)
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or replaceable(target))):
        raise FileExistsError(f"{target} exists and is not {kind}: choose another folder, or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.resolve().parent))
    new, old = workshop / "new", workshop / "old"
    try:
        new.mkdir()
        yield new
        if target.exists():
            target.replace(old)
        try:
            new.replace(target)
        except BaseException:
            if old.exists():
                old.replace(target)
            raise
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def write_folder(
    folder: str | os.PathLike, *, kind: str, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Write ``description`` (JSON) and ``arrays`` (safetensors) as ``folder``, replacing an earlier one of that kind.

    Raises:
        FileExistsError: if ``folder`` holds something that is not an earlier save of the same kind.
    """
    from safetensors.numpy import save_file

    with whole_folder(folder, kind=f"a saved {kind}", replaceable=lambda old: _kind_of(old) == kind) as new:
        text = json.dumps({"kind": kind, "format": 1, **description}, indent=2, ensure_ascii=False)
        (new / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, new / _ARRAYS)
    return Path(folder)


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
