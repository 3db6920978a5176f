"""All commands, and ``main``: which exit code and which line on stderr an exception becomes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from .. import __version__
from .._errors import DistributedError, PatternError
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
_WRONG_INPUT += (PermissionError, ModuleNotFoundError)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_WRONG_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS})

app = typer.Typer(
    name="topic-probes",
    help="What did training put into attention? Same-topic against cross-topic attention in any TransformerLens model.",
    epilog="All commands take --json and --config; all but report --seed and --dry-run. Only probe takes a model, "
    "--device, --dtype and --layers; toy, dual and demo use small models, on the CPU. Exit codes: 0; 2 for a wrong "
    "call or input; 1 for a failure; 130 when it was stopped.",
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
        _stop_when_told()
        _print_anything()
    try:
        with _short_warnings():
            code = app(arguments or ["--help"], prog_name="topic-probes", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # what rich makes of it, in the help
            return _nobody_reads()
        raise
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


def _print_anything() -> None:
    """Let a terminal without Unicode show escapes instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nobody_reads() -> int:
    """Return the code for a reader who has seen enough (``| head``): all is well, and nothing more is printed."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _explained(error: Any) -> tuple[str, int] | None:
    """Return the line and the exit code of an exception; None for one that nobody foresaw, which is a bug."""
    if isinstance(error, _USAGE_ERROR):
        return error.format_message() + " (see topic-probes --help)", WRONG_CALL
    if isinstance(error, StoppedError):
        return str(error), STOPPED
    if isinstance(error, typer.Abort):
        return _STOPPED, STOPPED
    if isinstance(error, OSError):
        return _in_one_sentence(error), WRONG_CALL if _is_wrong_input(error) else FAILURE
    if isinstance(error, _WRONG_INPUT):
        return str(error), WRONG_CALL
    if isinstance(error, (FailedError, PatternError, FloatingPointError)) or _is_about_the_machine(error):
        return str(error), FAILURE
    return None


def _is_wrong_input(error: OSError) -> bool:
    return isinstance(error, _WRONG_INPUT) or error.errno in _WRONG_NAME


def _in_one_sentence(error: OSError) -> str:
    """Return what the system says of a file, without its number, and what to do about a full disk."""
    if error.strerror is None:
        return str(error)
    where = "" if error.filename is None else f" ({error.filename})"
    way_out = ": make room, or write to another folder" if error.errno in _FULL else ""
    return f"{error.strerror}{where}{way_out}"


def _is_about_the_machine(error: Exception) -> bool:
    """Whether a device is out of memory, or another process of a run has failed: no bug, and said in one sentence."""
    return isinstance(error, DistributedError) or (isinstance(error, RuntimeError) and "out of memory" in str(error))


def _stop_when_told() -> None:
    """Take SIGTERM as Ctrl-C: what is half-written is cleared away. Workers, which are forks, die of it as ever."""
    command = os.getpid()

    def stop(number: int, _frame: object) -> None:
        if os.getpid() == command:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning as one line, without the line of code that it comes from."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}", OK)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
