"""Locks on files that end with the process that holds them, however it ends: none is left behind by a kill.

The file says who holds it. It may go away with its lock: whoever opened it meanwhile sees that its name stands for
another file by then, or for none, and begins again. (Where a network drive does not know locks, nobody is kept out.)
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})


@contextmanager
def locked(path: Path, what: str, *, passing: bool = False) -> Iterator[None]:
    """Hold a lock on a file while the block runs.

    Args:
        path: the file, made if it is missing; its folder must be there. A link is not followed.
        what: is locked by it, for the message ("checkpoint run/states").
        passing: whether the file goes away with its lock.

    Raises:
        FileExistsError: if another process holds it, or this one.
        FileNotFoundError: if there is no such folder.
        OSError: if the file cannot be written.
    """
    try:
        with _opened(path, what) as file:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)
                if passing and sys.platform != "win32":  # while it is held: nobody else can have it
                    path.unlink(missing_ok=True)
    finally:
        if passing and sys.platform == "win32":  # where an open file stays
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _opened(path: Path, what: str) -> IO[str]:
    """Return the file, open and locked."""
    while True:
        file = open(path, "a+", encoding="utf-8", errors="replace", opener=not_through_links)  # noqa: SIM115
        try:
            if try_lock(file) is False:
                file.seek(0)
                holder = file.read(200).strip() or "another run"
                raise FileExistsError(f"{what} is in use by {holder}: wait for it, or choose another folder")
            if _is_still_at(path, file):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def try_lock(file: IO[str]) -> bool | None:
    """Lock an open file if nobody else has; the lock ends when the file is closed, or the process dies.

    Returns:
        Whether it is locked now; None where files cannot be locked.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(2**30)  # a byte beyond the text, which others want to read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD else None
    return True


def not_through_links(path: str, flags: int) -> int:
    """Open a file, as ``opener`` of ``open``, unless it is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_still_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
