"""Options in a TOML file: read before a command runs, written next to its results.

A file holds the options of one command by their long names, with ``-`` or ``_``: flags as true or false, layers as a
list or a text. The command line wins. Paths in it mean what they would on the command line; a run writes them in full,
so that its ``run.toml`` can be used from anywhere. It does not say where results go: ``-o`` does.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, no_type_check

import typer

from .. import __version__
from .._run_file import RUN_FILE, read_run

_COMMAND = "command"
_NOT_OF_A_RUN = frozenset({"output", "config", "resume", "dry_run", "as_json", "help"})
"""Parameters that say where and how, not what."""


_NO_MATTER = frozenset({"estimator", "examples", "checkpoint_every", "checkpoint_seconds"})
"""Options that change no number of a run."""


@no_type_check  # typer wants this annotation, and hands over an object of another class
def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make what a TOML file says the defaults of the command that is about to be parsed.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no TOML, is of another command, or names an option that the command does not have.
    """
    if path is None:
        return path
    try:
        found = tomllib.loads(read_run(path.expanduser()))
    except FileNotFoundError:
        raise FileNotFoundError(f"--config must be an existing file, got {path}, where there is none") from None
    except OSError as error:
        raise ValueError(f"--config must be a file that can be read, {path} is not: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: brackets in brackets in brackets
        raise ValueError(f"--config must be a file in TOML, {path} is not: {error}") from error
    own = ctx.command.name
    command = found.pop(_COMMAND, own)
    if command != own:
        raise ValueError(f"--config must be of the command {own}, {path} is of {command}")
    names = _names(ctx)
    switches = {parameter.name for parameter in ctx.command.params if getattr(parameter, "is_flag", False)}
    options = {}
    for key, value in found.items():
        name = names.get(key.replace("_", "-"))
        if name is None:
            known = ", ".join(sorted(names))
            raise ValueError(f"--config {path} has the option {key!r}, which {own} has not: it has {known}")
        if isinstance(value, bool) != (name in switches):
            kind = "true or false" if name in switches else "a value, not true or false"
            raise ValueError(f"--config {path}: {key} must be {kind}, got {value!r:.60}")
        options[name] = _as_given(key, value, path)
    ctx.default_map = {**(ctx.default_map or {}), **options}
    return path


def _names(ctx: Any) -> dict[str, str]:
    """Return option, as a file names it -> the parameter of the command."""
    names = {}
    for parameter in ctx.command.params:
        if parameter.name and parameter.name not in _NOT_OF_A_RUN - {"output"}:
            names[parameter.name.replace("_", "-")] = parameter.name
            for flag in parameter.opts:
                if flag.startswith("--"):
                    names[flag.removeprefix("--")] = parameter.name
    return names


def _as_given(key: str, value: Any, path: Path) -> Any:
    """Return a value as it would come from the command line."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return str(value)  # 1.5 is no number of topics; as a number it would be made one
    raise ValueError(f"--config {path}: {key} must be a text, a number, true, false or a list, got {value!r:.60}")


def run_file(ctx: Any) -> str:
    """Return a TOML file of everything that makes this run what it is."""
    others = ", ".join(f"{name} {_version(name)}" for name in ("transformer-lens", "torch", "gensim"))
    lines = [
        f"# Repeat this run: topic-probes {ctx.command.name} --config {RUN_FILE} -o NEW_FOLDER",
        f"# Made with topic-probes {__version__}, {others}.",
        f"{_COMMAND} = {_toml(ctx.command.name)}",
    ]
    names = [parameter.name for parameter in ctx.command.params if parameter.name]
    given = {name: ctx.params.get(name) for name in names if name not in _NOT_OF_A_RUN}
    lines += [f"{name} = {_toml(_in_full(name, value))}" for name, value in given.items() if value is not None]
    return "\n".join(lines) + "\n"


def same_run(one: str, other: str) -> str:
    """Return in words how two run files differ; an empty string if they do not."""
    there, now = (_options_of(text) for text in (one, other))
    names = [name for name in sorted({*there, *now} - _NO_MATTER) if there.get(name) != now.get(name)]
    return ", ".join(f"{name} is {there.get(name)!r} there and {now.get(name)!r} now" for name in names)


def _options_of(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _in_full(name: str, value: Any) -> Any:
    """Return the full path of what is a file or a folder here, anything else as it is."""
    from ._named_models import BUILT_IN

    if name not in ("topics", "corpus", "model"):
        return value
    path = Path(str(value)).expanduser()
    return str(path.absolute()) if path.exists() and str(value) not in ("sample", *BUILT_IN) else str(value)


def _toml(value: Any) -> str:
    """Return a text, a number or a truth as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    # A JSON string is a TOML string, but for one control character that JSON leaves as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
