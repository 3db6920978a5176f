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
    reader never meets half a folder. What was there is deleted last. ``~`` is the home folder, and a link
    stays a link to the folder that is written.

    Args:
        folder: the target: missing, empty, or one that may be replaced.
        kind: what is written, for the message ("a saved report").
        replaceable: whether a folder with something in it is an earlier one of that kind *and nothing else*:
            all that is in it will be deleted.

    Raises:
        FileExistsError: if ``folder`` holds something else, or is the current folder.
        OSError: if it cannot be written.
    """
    target = Path(folder).expanduser().resolve()
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or replaceable(target))):
        raise FileExistsError(f"{folder} exists and is not {kind} alone: choose another folder, or remove it")
    if target == Path.cwd() or target in Path.cwd().parents:
        raise FileExistsError(f"{folder} is the current folder or holds it: choose a folder inside it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise type(error)(f"{folder} cannot be written ({error.strerror}): choose another folder") from error
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


def files_below(folder: Path) -> set[str]:
    """Return the paths below a folder, with slashes, of everything in it that is not a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def write_folder(
    folder: str | os.PathLike, *, kind: str, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Write ``description`` (JSON) and ``arrays`` (safetensors) as ``folder``, replacing an earlier one of that kind.

    Raises:
        FileExistsError: if ``folder`` holds something that is not an earlier save of the same kind.
    """
    from safetensors.numpy import save_file

    def is_earlier(old: Path) -> bool:
        return kind_of(old) == kind and files_below(old) == {_DESCRIPTION, _ARRAYS}

    with whole_folder(folder, kind=f"a saved {kind}", replaceable=is_earlier) as new:
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

    source = Path(folder).expanduser()
    if not (source / _DESCRIPTION).is_file():
        raise FileNotFoundError(f"{folder} is not a saved {kind}: it has no {_DESCRIPTION}")
    found = kind_of(source)
    if found is None:
        raise ValueError(f"{source / _DESCRIPTION} is damaged, or was not written by this library: save again")
    if found != kind:
        raise ValueError(f"{folder} holds a saved {found}, not a {kind}")
    description = json.loads((source / _DESCRIPTION).read_text(encoding="utf-8"))
    if description.get("format") != 1:
        raise ValueError(f"{folder} was written in format {description.get('format')!r}, this version reads format 1")
    if not (source / _ARRAYS).is_file():
        raise FileNotFoundError(f"{folder} is not a whole {kind}: it has no {_ARRAYS}")
    try:
        return description, load_file(source / _ARRAYS)
    except Exception as error:  # safetensors has an exception of its own for a file cut short
        raise ValueError(f"{source / _ARRAYS} is damaged ({error}): save again") from error


@contextmanager
def reading(folder: str | os.PathLike, kind: str) -> Iterator[None]:
    """Turn what a damaged description lacks or garbles into one sentence."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder} is a damaged {kind} ({type(error).__name__}: {error}): save again") from error


def kind_of(folder: Path) -> str | None:
    """Return what kind of thing is saved in a folder, or None if nothing is."""
    try:
        return json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
