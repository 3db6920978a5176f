"""What goes where: results to stdout as tables or as one JSON object, all else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from .._plain import plain


class StoppedError(Exception):
    """The run was stopped; the message says what is left of it, and how to go on."""


class FailedError(Exception):
    """The run ended, and its results are not what they should be; the message says which."""


def say(message: str, code: int) -> int:
    """Print one line to stderr and return the exit code."""
    if sys.stderr is not None:  # closed by the caller: print would take stdout instead
        with suppress(OSError):
            print("topic-probes: " + " ".join(message.split()), file=sys.stderr)
    return code


def step(what: str) -> None:
    """Say on stderr what begins now."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(Text(f"... {what}", style="dim"))


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Send what libraries print meanwhile to stderr: on stdout are results, and nothing else."""
    with redirect_stdout(sys.stderr):
        yield


def show(*what: Any) -> None:
    """Print tables and texts to stdout.

    Raises:
        BrokenPipeError: if nobody reads on.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Out(Console):
        def on_broken_pipe(self) -> None:  # rich would leave with code 1
            raise BrokenPipeError

    console = Out(highlight=False)
    for number, one in enumerate(what):
        if number:
            console.print()
        if isinstance(one, Table):
            _without_cuts(console, one)
        else:
            console.print(Text(one) if isinstance(one, str) else one)  # names of folders are no mark-up


def _without_cuts(console: Any, table: Any) -> None:
    """Print a table; where the terminal is narrower than its numbers, it breaks the lines: a number is never cut."""
    width = console.width
    needed = console.measure(table, options=console.options.update(max_width=1000)).maximum
    if needed > width and all(column.no_wrap for column in table.columns):
        console.width = needed
    console.print(table)
    console.width = width


def conclude(outcome: Any, as_json: bool, what: str) -> None:
    """Print the summary of a demo or a laboratory if it is wanted, and fail if its numbers are not what they should be.

    Raises:
        FailedError: which says of what, and how.
    """
    if as_json:
        show_json(outcome.summary)
    if outcome.doubts:
        raise FailedError(f"{what} are not what they should be: " + "; ".join(outcome.doubts))


def show_json(value: Any) -> None:
    """Print one JSON object to stdout; what is not a finite number is null."""
    value = plain(value)
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # escapes say the same to a program
        text = json.dumps(value, indent=2, allow_nan=False)
    print(text)
