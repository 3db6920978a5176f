"""The file that a run writes beside its results: the options that it was called with, in TOML."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

RUN_FILE = "run.toml"
LONGEST_RUN_FILE = 1 << 20
"""Bytes; those that are written here have a few hundred, or a few thousand with long paths."""


def write_run(path: Path, text: str) -> None:
    """Write a run file; a name of a file in it that is no UTF-8 stays what it is."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def read_run(path: Path) -> str:
    """Return the text of a run file; what some editors put before it (a byte order mark) is left out.

    Raises:
        ValueError: if it is longer than any that is written here.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(LONGEST_RUN_FILE + 1)
    if len(content) > LONGEST_RUN_FILE:
        raise ValueError(f"{path} must be at most {LONGEST_RUN_FILE:,} bytes long: it is no file of options")
    with TextIOWrapper(BytesIO(content), encoding="utf-8-sig", errors="surrogateescape") as text:
        return text.read()
