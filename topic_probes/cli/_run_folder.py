"""The folder of a probe run: before it is finished, and after.

Unfinished: ``run.toml`` and ``checkpoint/``. Finished: ``run.toml``, what ``ProbeReport.save`` writes,
``topics/`` (the topic model, so that a page can be made anywhere) and ``examples.json`` (passages for the page).

Whoever works in it holds its lock, from the first look until the results are in place; who does not touches nothing.

Results are written beside the checkpoint, in ``.run-writing/``, and when they are whole become ``.run-results/`` in one
move. A run that is killed before that move goes on from its checkpoint. After it nothing is left to count: results are
moved to their places, ``report.json`` last, then the checkpoint is deleted, and a run that is killed meanwhile goes on
with that.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders import is_folder, to_disk
from .._locks import locked
from .._run_file import RUN_FILE, read_run, write_run
from ._config import same_run

if TYPE_CHECKING:
    from ..probes import ProbeReport
    from ..topics import TopicModel

TOPICS, EXAMPLES, REPORT = "topics", "examples.json", "report.json"
_CHECKPOINT = "checkpoint"
_LOCK, _WRITING, _RESULTS = ".run-lock", ".run-writing", ".run-results"
_TRIES = 20


@dataclass
class RunFolderState:
    """A folder of a run that has been looked at, and may be written to."""

    folder: Path
    run: str
    """What ``run.toml`` says."""
    is_finished: bool
    is_new: bool = False
    """Whether it was missing or empty."""

    @property
    def checkpoint(self) -> Path:
        """Where the state of the run is kept while it runs."""
        return self.folder / _CHECKPOINT

    @property
    def has_state(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.checkpoint.rglob("state-*"))

    @property
    def kept(self) -> str:
        """What a run that was stopped leaves, and how to go on, in words."""
        again = "call again with --resume to"
        if _is_finished(self.folder):
            return f"the results: {again} see them"
        if self.has_state:
            return f"what was counted up to the last checkpoint: {again} go on from there"
        return f"nothing yet: {again} begin anew in it"

    def load(self) -> ProbeReport:
        """Return the report of a finished run."""
        from ..probes import ProbeReport

        return ProbeReport.load(self.folder)

    def finish(self, report: ProbeReport, topics: TopicModel, passages: list[dict[str, Any]]) -> None:
        """Put the results in the place of the unfinished run.

        Raises:
            FileExistsError: if something of the same name has been put there meanwhile.
            OSError: if they cannot be written; the checkpoint is then as it was.
        """
        writing = self.folder / _WRITING
        try:
            writing.mkdir()
            new = writing / "new"
            report.save(new)
            topics.save(new / TOPICS)
            if passages:
                (new / EXAMPLES).write_text(json.dumps(passages, ensure_ascii=False) + "\n", encoding="utf-8")
            to_disk(new)
            new.replace(self.folder / _RESULTS)
        finally:
            shutil.rmtree(writing, ignore_errors=True)
        _settle(self.folder)

    def forget(self) -> None:
        """Remove what this call has begun, if it failed before anything was counted."""
        if self.is_new and not self.has_state and not _is_finished(self.folder):
            with suppress(OSError):
                shutil.rmtree(self.checkpoint, ignore_errors=True)
                (self.folder / RUN_FILE).unlink(missing_ok=True)


@contextmanager
def open_run_folder(folder: Path, run: str, *, resume: bool, processes: Any = None) -> Iterator[RunFolderState]:
    """Yield the folder for a run, with ``run.toml`` in it, locked while the block runs.

    Args:
        folder: new or empty; or, to resume, that of a run with the same options.
        run: the content of ``run.toml``.
        resume: whether to go on with what is there.
        processes: those that share the work; the first one locks and writes.

    Raises:
        FileExistsError: if it holds something else, or a run that was not asked for, or is in use.
        ValueError: if the run in it was called in another way.
        OSError: if it cannot be written.
    """
    target = folder.expanduser()
    is_first = processes is None or processes.rank == 0
    found: list[RunFolderState] = []

    def take() -> None:
        if is_first:
            _require_own(target, folder)
            if not _is_settled(target):
                held.enter_context(_held(target, folder))

    def look() -> None:
        found.append(_looked_at(target, folder, run, resume))

    def begin() -> None:
        if is_first and not _is_settled(target):
            _begin(found[0])

    with ExitStack() as held:
        for work in (take, look, begin):  # All look before one writes.
            work() if processes is None else processes.all_or_none(work)
        yield found[0]


@contextmanager
def _held(target: Path, shown: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is missing; folders made here that stay empty go away with it."""
    missing = [path for path in (target, *target.parents) if not path.exists()]
    with ExitStack() as stack:
        stack.callback(_remove_empty, missing)
        for attempt in range(_TRIES):
            try:
                target.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(target / _LOCK, str(shown), passing=True))
            except FileNotFoundError:  # another run has failed, and has just taken its folder away
                if attempt == _TRIES - 1:
                    raise
            else:
                break
        yield


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _begin(state: RunFolderState) -> None:
    """Clear away what a run that was killed was about to do, and do what is not done."""
    writing = state.folder / _WRITING
    shutil.rmtree(writing, ignore_errors=True)
    if state.is_finished:
        _settle(state.folder)
        return
    if state.is_new or read_run(state.folder / RUN_FILE) != state.run:
        try:
            writing.mkdir()
            write_run(writing / RUN_FILE, state.run)
            to_disk(writing)
            (writing / RUN_FILE).replace(state.folder / RUN_FILE)
        finally:
            shutil.rmtree(writing, ignore_errors=True)


def _settle(folder: Path) -> None:
    """Move results that are whole to their places, and delete what is then of no use."""
    from ..probes._resuming import is_checkpoint

    results = folder / _RESULTS
    if is_folder(results):
        paths = sorted(results.iterdir(), key=lambda path: path.name == REPORT)
        for path in paths:
            if os.path.lexists(folder / path.name):
                raise FileExistsError(
                    f"{folder / path.name} exists, and is not of this run: move it away, and call again with --resume"
                )
        for path in paths:
            if path.name == REPORT:
                to_disk(folder, inside=False)
            path.replace(folder / path.name)
        to_disk(folder, inside=False)
        results.rmdir()
    if is_checkpoint(folder / _CHECKPOINT):
        shutil.rmtree(folder / _CHECKPOINT, ignore_errors=True)


def _require_own(target: Path, shown: Path) -> None:
    """Raise FileExistsError if a path is something else than the folder of a run, or a place for one."""
    if os.path.lexists(target) and not (target.is_dir() and (_is_free(target) or _holds_a_run(target))):
        raise FileExistsError(f"{shown} exists and is not the folder of a run: choose another folder, or remove it")


def _looked_at(target: Path, shown: Path, run: str, resume: bool) -> RunFolderState:
    if not target.exists() or _is_free(target):
        return RunFolderState(target, run, is_finished=False, is_new=True)
    _require_own(target, shown)
    is_finished = _is_finished(target)
    if not resume:
        held = "the results of an earlier run" if is_finished else "a run that was stopped"
        way_out = "" if is_finished else "pass --resume to go on with it, "
        raise FileExistsError(f"{shown} holds {held}: {way_out}choose another folder, or remove it")
    differs = same_run(read_run(target / RUN_FILE), run)
    if differs:
        raise ValueError(
            f"--resume needs the options that the run in {shown} began with ({differs}): call as before, with "
            f"--config {shown / RUN_FILE}, or choose another folder"
        )
    return RunFolderState(target, run, is_finished)


def _is_free(folder: Path) -> bool:
    """Whether nothing has begun in a folder."""
    return folder.is_dir() and _names(folder) <= {_LOCK, _WRITING}


def _holds_a_run(folder: Path) -> bool:
    """Whether a folder holds a finished run; or one that is not, and nothing else."""
    own = {RUN_FILE, _CHECKPOINT, _LOCK, _WRITING}
    if not (folder / RUN_FILE).is_file():
        return False
    # Beside a checkpoint other things may lie, as systems and their users strew them: nothing of it is touched.
    return _is_finished(folder) or is_folder(folder / _CHECKPOINT) or _names(folder) <= own


def _is_finished(folder: Path) -> bool:
    """Whether nothing is left to count: the results are whole, if not yet in their places."""
    staged = folder / _RESULTS
    whole = (folder / REPORT).is_file() or (is_folder(staged) and (staged / REPORT).is_file())
    return whole and (folder / RUN_FILE).is_file()


def _is_settled(folder: Path) -> bool:
    """Whether a folder holds a finished run, and nothing is left to be done in it."""
    leftovers = (_CHECKPOINT, _LOCK, _WRITING, _RESULTS)
    return _is_finished(folder) and not any((folder / name).exists() for name in leftovers)


def _names(folder: Path) -> set[str]:
    """Return the names of what is in a folder; none if another run has just taken it away."""
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()
