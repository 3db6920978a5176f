"""The file that a run writes beside its results: the options that it was called with, in TOML."""

from __future__ import annotations

from pathlib import Path

RUN_FILE = "run.toml"


def write_run(path: Path, text: str) -> None:
    """Write a run file; a name of a file in it that is no UTF-8 stays what it is."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def read_run(path: Path) -> str:
    """Return the text of a run file; what some editors put before it (a byte order mark) is left out.

    Raises:
        OSError: if it cannot be read.
    """
    return path.read_text(encoding="utf-8-sig", errors="surrogateescape")
