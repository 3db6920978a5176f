"""``topic-probes toy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import AsJson, Config, LabFolder, Seed
from ._screen import FailedError, show_json


def toy(
    output: LabFolder = Path("topic_probes_toy"),
    steps: Annotated[int, typer.Option(help="Updates of each model.", metavar="N", min=1)] = 300,
    grid: Annotated[bool, typer.Option(help="Also the 24 runs that show which matrix grows first.")] = True,
    n_jobs: Annotated[int, typer.Option(help="Processes for these runs; -1 for one a core.", metavar="N")] = 2,
    seed: Seed = 0,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Train one-layer transformers on documents of known topics, and see where the topics go; two minutes."""
    from ..demo import run_toy

    outcome = run_toy(output, steps=steps, grid=grid, n_jobs=n_jobs, seed=seed, show=not as_json)
    if as_json:
        show_json(outcome.summary)
    if outcome.doubts:
        raise FailedError("some numbers are not what they should be: " + "; ".join(outcome.doubts))
