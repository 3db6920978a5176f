"""What goes where: results to stdout as tables or as one JSON object, all else to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any


class StoppedError(Exception):
    """The run was stopped; the message says what is left of it, and how to go on."""


class FailedError(Exception):
    """The run ended, and its results are not what they should be; the message says which."""


def say(message: str, code: int) -> int:
    """Print one line to stderr and return the exit code."""
    print("topic-probes: " + " ".join(message.split()), file=sys.stderr)
    return code


def step(what: str) -> None:
    """Say on stderr what begins now."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(Text(f"... {what}", style="dim"))


def shows_progress() -> bool:
    """Whether a progress bar has a terminal to move in: in a log file it would be a line for every step."""
    return sys.stderr.isatty()


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Send what libraries print meanwhile to stderr: on stdout are results, and nothing else."""
    with redirect_stdout(sys.stderr):
        yield


def show(*what: Any) -> None:
    """Print tables and texts to stdout."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, one in enumerate(what):
        if number:
            console.print()
        console.print(Text(one) if isinstance(one, str) else one)  # names of folders are no mark-up


def show_json(value: Any) -> None:
    """Print one JSON object to stdout; what is not a finite number is null."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: tables as lists of rows, numpy's numbers as Python's, NaN as None.

    Examples:
        >>> plain({"ratio": float("nan"), 3: (1, 2)})
        {'ratio': None, '3': [1, 2]}
    """
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
