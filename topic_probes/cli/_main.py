"""All commands, and ``main``: which exit code and which line on stderr an exception becomes."""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from .. import __version__
from .._errors import PatternError
from ._demo import demo
from ._dual import dual
from ._probe import probe
from ._report import report
from ._screen import FailedError, StoppedError, say
from ._topics import topics
from ._toy import toy

OK, FAILURE, WRONG_CALL, STOPPED = 0, 1, 2, 130
_STOPPED = "stopped before the end; nothing was written"
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
"""Click's UsageError, from wherever the installed typer takes it (a dependency, or a copy of its own)."""
_WRONG_INPUT = (ValueError, TypeError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
_WRONG_INPUT += (ModuleNotFoundError,)

app = typer.Typer(
    name="topic-probes",
    help="What did training put into attention? Same-topic against cross-topic attention in any TransformerLens model.",
    pretty_exceptions_enable=False,
)
for _command in (topics, probe, report, toy, dual, demo):
    app.command()(_command)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"topic-probes {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    show_traceback: Annotated[
        bool, typer.Option("--traceback", help="Also show where in the code an error comes from.")
    ] = False,
) -> None:
    """Same-topic against cross-topic attention in any TransformerLens model."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``argv`` is ``sys.argv[1:]`` unless given."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, _stop)  # as Ctrl-C: what is half-written is cleared away
    try:
        with _short_warnings():
            code = app(arguments or ["--help"], prog_name="topic-probes", standalone_mode=False)
    except Exception as error:
        found = _explained(error)
        if found is None:
            raise
        if "--traceback" in arguments:
            traceback.print_exc()
        return say(*found)
    except KeyboardInterrupt:
        return say(_STOPPED, STOPPED)
    if not arguments:
        return WRONG_CALL
    if code == STOPPED:  # what newer releases of typer make of Ctrl-C
        return say(_STOPPED, STOPPED)
    return code if isinstance(code, int) else OK


def _explained(error: Any) -> tuple[str, int] | None:
    """Return the line and the exit code of an exception; None for one that nobody foresaw, which is a bug."""
    if isinstance(error, _USAGE_ERROR):
        return error.format_message() + " (see topic-probes --help)", WRONG_CALL
    if isinstance(error, StoppedError):
        return str(error), STOPPED
    if isinstance(error, typer.Abort):
        return _STOPPED, STOPPED
    if isinstance(error, _WRONG_INPUT):
        return str(error), WRONG_CALL
    if isinstance(error, (FailedError, PatternError, OSError, FloatingPointError)) or _is_about_the_machine(error):
        return str(error), FAILURE
    return None


def _is_about_the_machine(error: Exception) -> bool:
    """Whether a device is out of memory, or another process of a run has failed: no bug, and said in one sentence."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ("out of memory", "process "))


def _stop(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning as one line, without the line of code that it comes from."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}", OK)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
