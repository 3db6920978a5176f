"""Options that several commands share: name, rule and one line of help, once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._config import read_config

if TYPE_CHECKING:
    import torch

_DTYPES = ("float32", "bfloat16", "float16", "float64")
_ESTIMATORS = ("pooled", "within_document", "distance_matched", "frequency_matched")
_LAYER = re.compile(r"(-?\d+)(?:-(\d+))?")


def one_of(allowed: Sequence[str]) -> dict[str, Any]:
    """Return what makes an option take one of some words, and complete them in the shell."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in allowed:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def begin_with(incomplete: str) -> list[str]:
        return [word for word in allowed if word.startswith(incomplete)]

    return {"callback": check, "autocompletion": begin_with, "metavar": "WORD"}


def _seed_of_numpy(value: int) -> int:
    # As a limit of the option it would stand in the help, and take half of the line.
    if value >= 2**32:
        raise typer.BadParameter(f"{value} is not below 2**32")
    return value


def _output(what: str) -> Any:
    return typer.Option("--output", "-o", help=what, metavar="DIR")


TopicsFolder = Annotated[Path | None, _output("Folder for the topic model; a new one, or an earlier model's.")]
RunFolder = Annotated[Path | None, _output("Folder for results; a new one, or with --resume a stopped run's.")]
LabFolder = Annotated[Path, _output("Folder for tables and pictures; a new one, or that of an earlier run.")]

Seed = Annotated[
    int, typer.Option(help="Seed of all that is drawn at random.", metavar="N", min=0, callback=_seed_of_numpy)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate size, time and memory; run and write nothing.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=read_config,
        is_eager=True,
        metavar="FILE",
        help="Read options from a TOML file, such as the run.toml of a run; those given here win.",
    ),
]

Limit = Annotated[int | None, typer.Option(help="Read only so many documents.", metavar="N", min=1)]
TextField = Annotated[str, typer.Option(help="Field with the text, of .jsonl and hf: corpora.", metavar="NAME")]
Part = Annotated[
    str,
    typer.Option(
        help="train: three documents in four; test: every fourth, the others; all.", **one_of(("all", "train", "test"))
    ),
]
Split = Annotated[str, typer.Option(help="Split of an hf: corpus.", metavar="NAME")]

NTopics = Annotated[int, typer.Option(help="Number of topics.", metavar="N", min=2)]
Articles = Annotated[int | None, typer.Option(help="Read only so many of the 106 articles.", metavar="N", min=40)]

Estimator = Annotated[
    str, typer.Option(help="For the table of heads: " + ", ".join(_ESTIMATORS) + ".", **one_of(_ESTIMATORS))
]
Device = Annotated[str | None, typer.Option(help="Where the model runs, as cpu or cuda:1.", metavar="NAME")]
Dtype = Annotated[str, typer.Option(help="Of the weights: " + ", ".join(_DTYPES) + ".", **one_of(_DTYPES))]


def required(value: Any, flag: str) -> Any:
    """Return a value that was given, here or in a configuration.

    Raises:
        BadParameter: if it was not.
    """
    if value is None:
        raise typer.BadParameter("missing: give it here or in a --config file", param_hint=f"'{flag}'")
    return value


def as_layers(text: str | None) -> list[int] | None:
    """Return the layers that a text names, None for all.

    Raises:
        BadParameter: if it is no list of numbers and ranges.

    Examples:
        >>> as_layers("0,2-4,-1")
        [0, 2, 3, 4, -1]
    """
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        match = _LAYER.fullmatch(part.strip())
        if match is None or (match[2] is not None and not 0 <= int(match[1]) <= int(match[2])):
            raise typer.BadParameter(f"{text!r} must be numbers and ranges such as 0,2-4,-1", param_hint="'--layers'")
        first = int(match[1])
        found += range(first, int(match[2] or first) + 1)
    return list(dict.fromkeys(found))


def as_device(name: str | None) -> torch.device | None:
    """Return torch's object of a device; None for none.

    Raises:
        ValueError: if there is no such device here.
    """
    if name is None:
        return None
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"--device must be as cpu, cuda or cuda:1, got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"--device {name} needs a GPU, and torch sees none here: leave it out")
    if device.type == "meta":  # torch's stand-in for a device: it computes nothing
        raise ValueError(f"--device must be as cpu, cuda or cuda:1, got {name!r}")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].strip(" .")
        raise ValueError(f"--device {name} cannot be used here ({reason:.120}): leave it out") from error
    return device


def as_dtype(name: str) -> torch.dtype:
    """Return torch's object of a precision."""
    import torch

    return getattr(torch, name)
