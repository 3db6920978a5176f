"""The folder of a probe run: before it is finished, and after.

Unfinished: ``run.toml`` and ``checkpoint/``. Finished: ``run.toml``, what ``ProbeReport.save`` writes,
``topics/`` (the topic model, so that a page can be made anywhere) and ``examples.json`` (passages for the page).
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders import whole_folder
from .._run_file import RUN_FILE, read_run, write_run
from ._config import same_run

if TYPE_CHECKING:
    from ..probes import ProbeReport
    from ..topics import TopicModel

TOPICS, EXAMPLES, REPORT = "topics", "examples.json", "report.json"
_CHECKPOINT = "checkpoint"


@dataclass
class RunFolderState:
    """A folder of a run that has been looked at, and may be written to."""

    folder: Path
    run: str
    """What ``run.toml`` says."""
    is_finished: bool

    @property
    def checkpoint(self) -> Path:
        """Where the state of the run is kept while it runs."""
        return self.folder / _CHECKPOINT

    @property
    def has_state(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.checkpoint.rglob("state-*"))

    def load(self) -> ProbeReport:
        """Return the report of a finished run."""
        from ..probes import ProbeReport

        return ProbeReport.load(self.folder)

    def finish(self, report: ProbeReport, topics: TopicModel, passages: list[dict[str, Any]]) -> None:
        """Put the results in the place of the unfinished run, all or nothing."""
        with whole_folder(self.folder, kind="an unfinished run", replaceable=_is_unfinished) as new:
            report.save(new)
            topics.save(new / TOPICS)
            if passages:
                (new / EXAMPLES).write_text(json.dumps(passages, ensure_ascii=False) + "\n", encoding="utf-8")
            write_run(new / RUN_FILE, self.run)

    def forget_if_empty(self) -> None:
        """Remove what a run began with, if it failed before anything was counted."""
        if _is_unfinished(self.folder) and not self.has_state:
            with suppress(OSError):
                shutil.rmtree(self.checkpoint, ignore_errors=True)
                (self.folder / RUN_FILE).unlink(missing_ok=True)
                self.folder.rmdir()


def open_run_folder(folder: Path, run: str, *, resume: bool, processes: Any = None) -> RunFolderState:
    """Return the folder for a run, with ``run.toml`` in it.

    Args:
        folder: new or empty; or, to resume, that of a run with the same options.
        run: the content of ``run.toml``.
        resume: whether to go on with what is there.
        processes: those that share the work; the first one writes.

    Raises:
        FileExistsError: if it holds something else, or a run that was not asked for.
        ValueError: if the run in it was called in another way.
        OSError: if it cannot be written.
    """
    target = folder.expanduser()
    found: list[RunFolderState] = []
    # All look before one writes.
    look = lambda: found.append(_looked_at(target, folder, run, resume))  # noqa: E731
    look() if processes is None else processes.all_or_none(look)
    state = found[0]
    if not state.is_finished and (processes is None or processes.rank == 0):
        target.mkdir(parents=True, exist_ok=True)
        write_run(target / RUN_FILE, run)
    return state


def _looked_at(target: Path, shown: Path, run: str, resume: bool) -> RunFolderState:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return RunFolderState(target, run, is_finished=False)
    is_finished = (target / REPORT).is_file() and (target / RUN_FILE).is_file()
    if not is_finished and not _is_unfinished(target):
        raise FileExistsError(f"{shown} exists and is not the folder of a run: choose another folder, or remove it")
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


def _is_unfinished(folder: Path) -> bool:
    """Whether a folder holds a run that is not finished, and nothing else."""
    return (folder / RUN_FILE).is_file() and {path.name for path in folder.iterdir()} <= {RUN_FILE, _CHECKPOINT}
