"""The command line: parse, call, write. Results go to stdout, everything else to stderr.

Exit codes: 0, or 2 for a wrong call or input (one line that says what to do), or 1 for a failure.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from ._errors import PatternError

OK, FAILURE, WRONG_CALL = 0, 1, 2
_INTERRUPTED = 130
"""What newer releases of typer make of Ctrl-C."""
_STOPPED = "stopped before the end; nothing was written"
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
"""Click's UsageError, from wherever the installed typer takes it (a dependency, or a copy of its own)."""
_WRONG_INPUT = (ValueError, TypeError, FileNotFoundError, FileExistsError, NotADirectoryError, ModuleNotFoundError)

app = typer.Typer(
    name="topic-probes",
    help="What did training put into attention? Same-topic against cross-topic attention in any TransformerLens model.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``argv`` is ``sys.argv[1:]`` unless given."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, _stop)  # as Ctrl-C: what is half-written is cleared away
    try:
        code = app(arguments or ["--help"], prog_name="topic-probes", standalone_mode=False)
        if not arguments:
            return WRONG_CALL
    except _USAGE_ERROR as error:
        return _say(error.format_message() + " (see topic-probes --help)", WRONG_CALL)
    except (typer.Abort, KeyboardInterrupt):
        return _say(_STOPPED, FAILURE)
    except PatternError as error:
        return _say(str(error), FAILURE)
    except _WRONG_INPUT as error:
        return _say(str(error), WRONG_CALL)
    except OSError as error:
        return _say(str(error), FAILURE)
    if code == _INTERRUPTED:
        return _say(_STOPPED, FAILURE)
    return code if isinstance(code, int) else OK


def _say(message: str, code: int) -> int:
    print("topic-probes: " + " ".join(message.split()), file=sys.stderr)
    return code


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
) -> None:
    """Same-topic against cross-topic attention in any TransformerLens model."""


@app.command()
def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for tables, pictures and results; a new one, or an earlier demo's."
        ),
    ] = Path("topic_probes_demo"),
    models: Annotated[
        str, typer.Option(help="Which of the models that come in packages: minilm, smollm2, or minilm,smollm2.")
    ] = "minilm,smollm2",
    n_topics: Annotated[int, typer.Option(help="Number of topics.", min=2)] = 40,
    articles: Annotated[
        int | None, typer.Option(help="Read only so many of the 106 articles (a quick look).", min=40)
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the topics, of the untrained weights and of the intervals.", min=0)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> int:
    """Topics from Wikipedia, a real encoder and a real decoder, and their untrained twins; offline, some minutes."""
    from .demo import run_demo

    outcome = run_demo(
        output, models=models.split(","), n_topics=n_topics, articles=articles, seed=seed, show=not as_json
    )
    if as_json:
        print(json.dumps(outcome.summary, indent=2))
    if outcome.doubts:
        return _say("the headline numbers are not what they should be: " + "; ".join(outcome.doubts), FAILURE)
    return OK


def _stop(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
