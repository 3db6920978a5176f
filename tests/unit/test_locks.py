"""Locks: one holder at a time, whoever died, also where the file goes away with its lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topic_probes._locks import locked, try_lock

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="flock, and files that are removed while open")


def test_a_second_holder_is_refused_by_name(tmp_path: Path) -> None:
    """Also in the same process; afterwards the lock is free."""
    said = rf"^the run is in use by process {os.getpid()} on .*: wait for it"
    with locked(tmp_path / "lock", "the run"):
        with pytest.raises(FileExistsError, match=said), locked(tmp_path / "lock", "the run"):
            pass
        assert (tmp_path / "lock").exists()
    with locked(tmp_path / "lock", "the run"):
        pass


def test_a_passing_file_goes_away_with_its_lock(tmp_path: Path) -> None:
    for passing in (False, True):
        with locked(tmp_path / "lock", "the run", passing=passing):
            pass
        assert (tmp_path / "lock").exists() is not passing


def test_who_was_refused_does_not_take_the_file_away(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", "the run", passing=True):
        content = (tmp_path / "lock").read_bytes()
        with pytest.raises(FileExistsError), locked(tmp_path / "lock", "the run", passing=True):
            pass
        assert (tmp_path / "lock").read_bytes() == content


@on_posix
def test_a_lock_ends_with_its_process(tmp_path: Path, repository: Path) -> None:
    """Killed, it leaves the file behind, which is free."""
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom topic_probes._locks import locked\n"
        "with locked(Path(sys.argv[1]), 'the run'):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "lock")], env={**os.environ, "PYTHONPATH": str(repository)}
    )
    assert done.returncode == -9
    assert "process" in (tmp_path / "lock").read_text()
    with locked(tmp_path / "lock", "the run"):
        pass


@on_posix
def test_a_lock_on_a_file_that_is_gone_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder removed it after it was opened, and another has made a new one."""
    from topic_probes import _locks

    path, n_calls = tmp_path / "lock", []

    def removed_meanwhile(file: object) -> bool | None:
        n_calls.append(1)
        if len(n_calls) == 1:
            path.unlink()
        return try_lock(file)  # type: ignore[arg-type]

    monkeypatch.setattr(_locks, "try_lock", removed_meanwhile)
    with locked(path, "the run"):
        assert len(n_calls) == 2
        monkeypatch.undo()
        with pytest.raises(FileExistsError, match="is in use"), locked(path, "the run"):
            pass


@on_posix
def test_where_files_cannot_be_locked_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "lock", "the run"), locked(tmp_path / "lock", "the run"):
        pass


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(OSError, match="link"), locked(tmp_path / "lock", "the run"):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
