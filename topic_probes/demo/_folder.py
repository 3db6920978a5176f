"""The folder of a demo or a laboratory: whose it is, and what it ends with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._folders import files_below

SUMMARY, RUN_FILE = "summary.json", "run.toml"


def written_by(kind: str) -> Callable[[Path], bool]:
    """Return a test of a folder: does it hold what an earlier run wrote, by its own list, and nothing else."""

    def is_earlier(folder: Path) -> bool:
        try:
            summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
            return summary["kind"] == kind and files_below(folder) <= set(summary["files"])
        except (OSError, ValueError, TypeError, KeyError):
            return False

    return is_earlier


def write_run(folder: Path, run_toml: str | None) -> None:
    """Write the options of a run beside its results, if it has any to write."""
    if run_toml is not None:
        (folder / RUN_FILE).write_text(run_toml, encoding="utf-8", errors="surrogateescape")


def files_of(folder: Path) -> list[str]:
    """Return the paths of all files of a run, its summary included, which is about to be written."""
    return sorted(files_below(folder) | {SUMMARY})


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary, which is the last file.

    Raises:
        ValueError: if it holds a number that JSON has no word for.
    """
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    (folder / SUMMARY).write_text(text, encoding="utf-8")


def plain(value: Any) -> Any:
    """Return what JSON can hold: numpy's numbers as Python's, NaN as null."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
