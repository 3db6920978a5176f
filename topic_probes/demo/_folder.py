"""The folder of a demo or a laboratory: whose it is, and what it ends with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._folders import files_below, read_json
from .._plain import plain
from .._run_file import RUN_FILE, write_run

SUMMARY = "summary.json"


def written_by(kind: str) -> Callable[[Path], bool]:
    """Return a test of a folder: does it hold what an earlier run wrote, by its own list, and nothing else."""

    def is_earlier(folder: Path) -> bool:
        summary = read_json(folder / SUMMARY)
        try:
            return summary is not None and summary["kind"] == kind and files_below(folder) <= set(summary["files"])
        except (TypeError, KeyError):
            return False

    return is_earlier


def finish(folder: Path, summary: Mapping[str, Any], run_toml: str | None) -> dict[str, Any]:
    """Write the options of a run, if it has any to write, and last the summary with the list of all files; return it.

    What is not a finite number is null in it.
    """
    if run_toml is not None:
        write_run(folder / RUN_FILE, run_toml)
    files = sorted(files_below(folder) | {SUMMARY})
    whole = plain({**summary, "files": files})
    (folder / SUMMARY).write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return whole
