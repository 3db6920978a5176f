"""``topic-probes toy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, no_type_check

import typer

from ._config import run_file
from ._options import AsJson, Config, DryRun, LabFolder, Seed
from ._screen import conclude


@no_type_check  # typer wants its annotation of ctx, and hands over an object of another class
def toy(
    ctx: typer.Context,
    output: LabFolder = Path("topic_probes_toy"),
    steps: Annotated[int, typer.Option(help="Updates of each model.", metavar="N", min=1)] = 300,
    grid: Annotated[bool, typer.Option(help="Also the 24 runs that show which matrix grows first.")] = True,
    n_jobs: Annotated[int, typer.Option(help="Processes for these runs; -1 for one a core.", metavar="N")] = 2,
    seed: Seed = 0,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Train one-layer transformers on documents of known topics, and see where the topics go; two minutes."""
    if dry_run:
        from ._estimate import show_estimate
        from ._estimate_labs import estimate_toy

        show_estimate(estimate_toy(steps=steps, grid=grid, n_jobs=n_jobs), as_json)
        return

    from ..demo import run_toy

    outcome = run_toy(
        output, steps=steps, grid=grid, n_jobs=n_jobs, seed=seed, show=not as_json, run_toml=run_file(ctx)
    )
    conclude(outcome, as_json, "some numbers")
