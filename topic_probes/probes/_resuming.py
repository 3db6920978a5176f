"""Checkpoints: a run that was killed goes on where it was, and ends bit for bit as if nothing had happened.

The folder holds one state, ``state-<documents taken>``, which :func:`write_folder` writes beside the one before and
moves into place whole. Only then is the one before deleted, so that at every moment there is a whole state. A state is
written at the end of a stretch of the corpus, when everything read so far has been counted; the batches after it are
then the same, whether the run was broken off there or not.

Beside the sums a state holds how the run was called, and a digest of all documents that were read. A run that differs
in either is refused. Sums are protected by a digest of their own.

One run at a time uses a folder: it holds a lock that the operating system takes away when the process ends, however it
ends, so no stale lock can be left behind. (Folders on network drives that do not support locks are not protected.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .._folders import is_folder, read_folder, reading, write_folder
from .._locks import locked
from .._saved import Stored
from ..corpora import Document
from ..statistics._sums import stored_sums
from ..tokens._reader import ReadingTally
from ._running import RunState
from ._settings import differences

KIND = "checkpoint"
EVERY_DOCUMENTS = 10_000
EVERY_SECONDS = 300.0
"""A state is written after so many documents or seconds, whichever comes first, at the next end of a stretch."""

_FACTS = {
    "settings": "an object",
    "n_documents": "a count",
    "documents": "a text",
    "tally": "counts by name",
    "state": "an object",
    "checksum": "a text",
}
_LOCK = "lock"
_STATE = re.compile(r"state-(\d{12})")
_OURS = re.compile(r"lock|state-\d{12}|\.state-\d{12}-.*|process-\d+-of-\d+")


class Place:
    """How far a corpus has been read: a number of documents, and a digest of them."""

    def __init__(self, n_documents: int = 0, digest: str = "") -> None:
        self.n_documents = n_documents
        self.digest = digest

    def take(self, document: Document) -> None:
        """Go on by one document."""
        own = hashlib.blake2b(bytes.fromhex(self.digest), digest_size=16)
        own.update(json.dumps([document.id, document.text is None]).encode())
        if document.text is None:
            own.update(np.asarray(document.token_ids, dtype=np.int64).tobytes())
        else:
            own.update(document.text.encode("utf-8", "surrogatepass"))
        self.n_documents, self.digest = self.n_documents + 1, own.hexdigest()


class CheckpointFolder:
    """Where the states of one run are kept; use :func:`checkpoint_folder`, which holds the lock.

    Args:
        folder: exists, and is locked.
        shown: what the caller calls it, for messages.
        settings: how the run was called, plain JSON values: a state of other settings is refused.
        every_documents: write a state after so many documents.
        every_seconds: or after so many seconds.
    """

    def __init__(
        self, folder: Path, shown: Path, settings: Mapping[str, Any], every_documents: int, every_seconds: float
    ) -> None:
        self.folder = folder
        self.shown = shown
        self.settings = _plain(settings)
        self.every_documents = every_documents
        self.every_seconds = every_seconds
        self._written_at = time.monotonic()
        self._n_written = 0

    def read(self) -> tuple[Place, ReadingTally, RunState] | None:
        """Return how far the documents were read, what became of them, and the state; None if there is no state.

        Raises:
            ValueError: if the state is damaged, or that of a run that was called in another way.
        """
        states = self._states()
        if not states:
            return None
        newest = states[-1]
        try:
            description, arrays = read_state(newest)
        except (FileNotFoundError, ValueError) as error:
            reason = str(error).removesuffix(": save again")
            raise ValueError(f"checkpoint {self.shown} cannot be read ({reason}): remove it, and begin anew") from error
        with reading(self.shown, KIND):
            found = differences(description["settings"], self.settings, "there", "now")
            if found:
                raise ValueError(
                    f"checkpoint {self.shown} is of another run: {found}; call as before, or choose another folder"
                )
            place = Place(description["n_documents"], description["documents"])
            tally, state = ReadingTally(**description["tally"]), RunState(description["state"], arrays)
        self._n_written = place.n_documents
        return place, tally, state

    def is_due(self, place: Place) -> bool:
        """Return whether it is time to write a state."""
        passed = time.monotonic() - self._written_at
        return place.n_documents - self._n_written >= self.every_documents or passed >= self.every_seconds

    def write(self, place: Place, tally: ReadingTally, state: RunState) -> None:
        """Write the state of a run in which all documents so far are counted, and delete the one before."""
        description = {
            "settings": self.settings,
            "n_documents": place.n_documents,
            "documents": place.digest,
            "tally": tally.as_dict(),
            "state": state.facts,
        }
        description = _plain({"kind": KIND, "format": 1, **description})
        target = self.folder / f"state-{place.n_documents:012d}"
        if target not in self._states():
            checksum = _checksum(description, state.arrays)
            write_folder(target, kind=KIND, description={**description, "checksum": checksum}, arrays=state.arrays)
        for path in self._states():
            if path != target:
                shutil.rmtree(path, ignore_errors=True)
        self._written_at, self._n_written = time.monotonic(), place.n_documents

    def _states(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if _STATE.fullmatch(path.name))


def read_state(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description and the arrays of a state, which are what a state must hold.

    Raises:
        FileNotFoundError: if something of it is missing.
        ValueError: if it is damaged, or no state.
    """
    description, arrays = read_folder(folder, kind=KIND, facts=_FACTS, arrays=_stored)
    if description.pop("checksum") != _checksum(description, arrays):
        raise ValueError("it is damaged: its checksum is wrong")
    return description, arrays


def _stored(description: Mapping[str, Any]) -> dict[str, Stored]:
    """Return what the arrays of a state must be: the sums of each model that has counted something."""
    rules = stored_sums(description["settings"])
    counted = [name for name, counter in description["state"]["counters"].items() if counter["has_totals"]]
    return {f"{name}/{part}": rule for name in counted for part, rule in rules.items()}


@contextmanager
def checkpoint_folder(
    folder: str | os.PathLike,
    settings: Mapping[str, Any],
    *,
    resume: bool,
    share: tuple[int, int] = (0, 1),
    every_documents: int = EVERY_DOCUMENTS,
    every_seconds: float = EVERY_SECONDS,
) -> Iterator[CheckpointFolder]:
    """Yield a folder for the states of one run, locked until the block ends.

    Args:
        folder: missing, empty, or one that holds checkpoints and nothing else.
        settings: how the run is called, plain JSON values.
        resume: whether a state in it is wanted; without, one that is there is refused.
        share: rank and number of processes; each of several has a folder inside.
        every_documents: write a state after so many documents.
        every_seconds: or after so many seconds.

    Raises:
        FileExistsError: if the folder holds something else, or a state that was not asked for, or is in use.
        ValueError: if it was written by another number of processes.
        OSError: if it cannot be written.
    """
    shown = Path(folder)
    target = shown.expanduser().resolve()
    rank, n = share
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"checkpoint {shown} is a file: choose another folder")
    foreign = sorted(path.name for path in target.iterdir() if not _is_ours(path)) if target.exists() else []
    if foreign:
        raise FileExistsError(f"checkpoint {shown} holds {foreign[0]!r}, which is no checkpoint: choose another folder")
    own = target if n == 1 else target / f"process-{rank}-of-{n}"
    own.mkdir(parents=True, exist_ok=True)
    for path in sorted(target.iterdir()):
        of = _n_processes(path.name)
        if of is not None and of != n:
            raise ValueError(
                f"checkpoint {shown} is of {of} processes, and this run has {n}: start as many as before, or choose "
                "another folder"
            )
    with locked(own / _LOCK, f"checkpoint {shown}"):
        for path in own.glob(".state-*"):  # what a run was writing when it was killed
            shutil.rmtree(path, ignore_errors=True)
        yours = CheckpointFolder(own, shown, settings, every_documents, every_seconds)
        if yours._states() and not resume:
            raise FileExistsError(
                f"checkpoint {shown} holds the state of an earlier run: pass resume=True to go on from there, or "
                "choose another folder"
            )
        yield yours


def is_checkpoint(folder: Path) -> bool:
    """Return whether something is a folder, not a link to one, that holds checkpoints and nothing else."""
    return is_folder(folder) and all(map(_is_ours, folder.iterdir()))


def _is_ours(path: Path) -> bool:
    """Whether something in a checkpoint folder was put there by a run: no links, and a lock is a file."""
    kind_fits = path.is_file() if path.name == _LOCK else path.is_dir()
    return _OURS.fullmatch(path.name) is not None and kind_fits and not path.is_symlink()


def _n_processes(name: str) -> int | None:
    """Return of how many processes something in a checkpoint folder is; None if it does not say."""
    if name.startswith("process-"):
        return int(name.rpartition("-")[2])
    return 1 if _STATE.fullmatch(name) else None


def _plain(value: Any) -> Any:
    """Return a value as it comes back from a JSON file."""
    return json.loads(json.dumps(value))


def _checksum(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
