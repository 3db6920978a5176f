"""Results on disk: a folder of a JSON file and a safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ._locks import locked, not_through_links, try_lock
from ._saved import LONGEST_DESCRIPTION, Stored, require_arrays, require_facts, require_inside, require_numbers

_FORMAT = 1
_DESCRIPTION, _ARRAYS = "description.json", "arrays.safetensors"
_NEW, _OLD, _LOCK = "new", "old", "lock"
_RANDOM = re.compile(r"[a-z0-9_]{8}")
"""What `tempfile` puts behind a prefix."""


@contextmanager
def whole_folder(folder: str | os.PathLike, *, kind: str, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a new folder to write into; it takes the place of ``folder`` when the block ends well.

    It lies beside the target and is moved, so a block that fails leaves what was there before, and a
    reader never meets half a folder. What was there is deleted last; should the process be killed when it has been
    moved away and the new one is not yet in its place, :func:`put_back` finds it. ``~`` is the home folder, and a link
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
    put_back(target)
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or replaceable(target))):
        raise FileExistsError(f"{folder} exists and is not {kind} alone: choose another folder, or remove it")
    if target == Path.cwd() or target in Path.cwd().parents:
        raise FileExistsError(f"{folder} is the current folder or holds it: choose a folder inside it")
    with _workshop(target, folder) as workshop:
        new, old = workshop / _NEW, workshop / _OLD
        new.mkdir()
        yield new
        to_disk(new)
        try:
            if target.exists():
                target.replace(old)
            new.replace(target)
        except BaseException:  # Ctrl-C too, which may come when a move is made
            if _is_missing(target, old):
                old.replace(target)
            raise
        to_disk(target.parent, inside=False)


@contextmanager
def _workshop(target: Path, shown: str | os.PathLike) -> Iterator[Path]:
    """Yield a new folder beside the target, locked, so that others can tell whether its process is alive."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
    except OSError as error:
        raise type(error)(f"{shown} cannot be written ({error.strerror}): choose another folder") from error
    with ExitStack() as stack:
        stack.callback(_remove, workshop, target)  # once more without the lock: not every system removes an open file
        try:
            stack.enter_context(locked(workshop / _LOCK, str(workshop)))
        except OSError as error:
            raise type(error)(f"{shown} cannot be written ({error.strerror}): choose another folder") from error
        stack.callback(_remove, workshop, target)
        yield workshop


def _is_missing(target: Path, old: Path) -> bool:
    """Whether what was there has been moved away, and nothing has come in its place."""
    return is_folder(old) and not os.path.lexists(target)


def _remove(workshop: Path, target: Path) -> None:
    """Delete a workshop, its lock last, so that one that is half deleted is still known for what it is."""
    if _is_missing(target, workshop / _OLD):  # a second Ctrl-C: the next save or load puts it back
        return
    for path in (workshop / _OLD, workshop / _NEW, workshop):
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)


def put_back(folder: str | os.PathLike) -> None:
    """Undo what saves of a folder have left beside it that were killed: nothing, as a rule.

    A save that was killed between its two moves has moved away what was there: that comes back, if its place is still
    empty. What else such saves have left is deleted. Saves of processes that live are left alone.

    Raises:
        FileNotFoundError: if what was there cannot be moved back, or nobody can say whether that process lives (on
            network drives without locks).
    """
    target = Path(folder).expanduser().resolve()
    for workshop in _workshops(target):
        old, new = workshop / _OLD, workshop / _NEW
        try:
            with open(workshop / _LOCK, "r+", encoding="utf-8", errors="replace", opener=not_through_links) as file:
                # Who has only just made it has not written its name yet, and has moved nothing.
                is_abandoned = try_lock(file) if file.read(1) or old.exists() else False
                if is_abandoned is False:
                    continue
                if _is_missing(target, old):
                    if is_abandoned is None:
                        raise FileNotFoundError("nobody can say whether it has ended")
                    old.replace(target)
                    to_disk(target.parent, inside=False)
        except OSError as error:
            if _is_missing(target, old):
                raise FileNotFoundError(
                    f"{folder} is missing, a save was stopped when it replaced it ({error.strerror or error}): what "
                    f"was there lies in {old}, move it back"
                ) from error
            continue
        # Both of them there, and something else in their place: not ours to choose.
        if is_abandoned and not (old.exists() and new.exists()):
            _remove(workshop, target)


def _prefix(target: Path) -> str:
    return f".{target.name}-"


def _workshops(target: Path) -> list[Path]:
    """Return the folders beside a target in which :func:`whole_folder` wrote, or writes, and nothing else."""
    prefix = _prefix(target)
    try:
        with os.scandir(target.parent) as entries:
            paths = [
                Path(entry.path)
                for entry in entries
                if entry.name.startswith(prefix) and _RANDOM.fullmatch(entry.name.removeprefix(prefix))
            ]
        return sorted(path for path in paths if _is_workshop(path))
    except OSError:
        return []


def _is_workshop(path: Path) -> bool:
    if not is_folder(path):
        return False
    names = {one.name for one in path.iterdir()}
    return _LOCK in names and names <= {_NEW, _OLD, _LOCK}


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def to_disk(folder: Path, *, inside: bool = True) -> None:
    """Wait until a folder, and what is in it, would outlive a loss of power; not every system can say."""
    for path in [*(folder.rglob("*") if inside else ()), folder]:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def files_below(folder: Path) -> set[str]:
    """Return the paths below a folder, with slashes, of everything in it that is not a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def write_folder(
    folder: str | os.PathLike, *, kind: str, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Write ``description`` (JSON) and ``arrays`` (safetensors) as ``folder``, replacing an earlier one of that kind.

    Raises:
        FileExistsError: if ``folder`` holds something that is not an earlier save of the same kind.
        ValueError: if the description is too long to be read again.
        OSError: if it cannot be written, as on a full disk.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    def is_earlier(old: Path) -> bool:
        return kind_of(old) == kind and files_below(old) == {_DESCRIPTION, _ARRAYS}

    with whole_folder(folder, kind=f"a saved {kind}", replaceable=is_earlier) as new:
        (new / _DESCRIPTION).write_bytes(_as_json({"kind": kind, "format": _FORMAT, **description}))
        try:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, new / _ARRAYS)
        except SafetensorError as error:  # which is no OSError
            raise OSError(f"{folder} cannot be written ({error}): make room, or write to another folder") from error
    return Path(folder)


def _as_json(description: Mapping[str, Any]) -> bytes:
    text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
    try:
        content = text.encode()
    except UnicodeEncodeError:  # half a character, as in the name of a file that is not UTF-8
        content = (json.dumps(description, indent=2) + "\n").encode()
    if len(content) > LONGEST_DESCRIPTION:
        raise ValueError(
            f"what is saved must be described in at most {LONGEST_DESCRIPTION:,} bytes, got {len(content):,}: "
            "keep fewer words"
        )
    return content


def read_folder(
    folder: str | os.PathLike,
    *,
    kind: str,
    facts: Mapping[str, str] | None = None,
    arrays: Callable[[dict[str, Any]], Mapping[str, Stored]] | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description and the arrays of a folder that :func:`write_folder` wrote; nothing in it is executed.

    Args:
        folder: the folder.
        kind: what it must hold.
        facts: what the description must say: name -> kind, see :func:`topic_probes._saved.require_facts`.
        arrays: from the description, what the arrays must be; they are read only if the head of their file says so.

    Raises:
        FileNotFoundError: if there is no such folder, or a file is missing in it.
        ValueError: if it holds something else, is damaged, or a file in it is a link that leads out of it.
    """
    from safetensors.numpy import load_file

    description = read_description(folder, kind=kind, facts=facts)
    source = Path(folder).expanduser()
    if not (source / _ARRAYS).is_file():
        raise FileNotFoundError(f"{folder} is not a whole {kind}: it has no {_ARRAYS}")
    require_inside(source / _ARRAYS, source)
    try:
        rules = None if arrays is None else arrays(description)
        require_arrays(source / _ARRAYS, rules)
        found = load_file(source / _ARRAYS)
        require_numbers(found, rules or {})
    except Exception as error:  # safetensors has an exception of its own for a file cut short
        reason = "it takes more memory than there is" if isinstance(error, MemoryError) else error
        raise ValueError(f"{source / _ARRAYS} is damaged, or of something else ({reason}): save again") from error
    return description, found


def read_description(folder: str | os.PathLike, *, kind: str, facts: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the description alone, as :func:`read_folder` does.

    Raises:
        FileNotFoundError: if there is no such folder, or it has no description.
        ValueError: if it holds something else, or its description is damaged.
    """
    source = Path(folder).expanduser()
    if not source.exists():
        put_back(source)
    if not (source / _DESCRIPTION).is_file():
        raise FileNotFoundError(f"{folder} is not a saved {kind}: it has no {_DESCRIPTION}")
    require_inside(source / _DESCRIPTION, source)
    description = read_json(source / _DESCRIPTION)
    if description is None or not isinstance(description.get("kind"), str):
        raise ValueError(f"{source / _DESCRIPTION} is damaged, or was not written by this library: save again")
    if description["kind"] != kind:
        raise ValueError(f"{folder} holds a saved {description['kind']!r:.80}, not a {kind}")
    version = description.get("format")
    if type(version) is not int or version != _FORMAT:
        raise ValueError(f"{folder} was written in format {version!r:.80}, this version reads format {_FORMAT}")
    try:
        require_facts(description, facts or {})
    except ValueError as error:
        raise ValueError(f"{source / _DESCRIPTION} is damaged ({error}): save again") from error
    return description


@contextmanager
def reading(folder: str | os.PathLike, kind: str) -> Iterator[None]:
    """Turn what a damaged description lacks or garbles into one sentence."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder} is a damaged {kind} ({type(error).__name__}: {error}): save again") from error


def kind_of(folder: Path) -> str | None:
    """Return what kind of thing is saved in a folder, or None if nothing is."""
    kind = (read_json(folder / _DESCRIPTION) or {}).get("kind")
    return kind if isinstance(kind, str) else None


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if there is none, or it is longer than any that is written here."""
    try:
        found = _parsed(path)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_part(path: Path, folder: Path) -> Any:
    """Return what a JSON file in a folder says, whatever it is.

    Raises:
        ValueError: if it is a link that leads out of the folder, too long, or not JSON.
        OSError: if it cannot be read.
    """
    require_inside(path, folder)
    try:
        return _parsed(path)
    except RecursionError:
        raise ValueError(f"{path} is damaged (its brackets nest too deep): write it again, or remove it") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): write it again, or remove it") from error


def _parsed(path: Path) -> Any:
    with path.open("rb") as file:
        content = file.read(LONGEST_DESCRIPTION + 1)
    if len(content) > LONGEST_DESCRIPTION:
        raise ValueError(f"it must be at most {LONGEST_DESCRIPTION:,} bytes long")
    return json.loads(content.decode())
