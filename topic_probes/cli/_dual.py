"""``topic-probes dual``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, no_type_check

import typer

from ._config import run_file
from ._options import Articles, AsJson, Config, DryRun, LabFolder, NTopics, Seed
from ._screen import conclude


@no_type_check  # typer wants its annotation of ctx, and hands over an object of another class
def dual(
    ctx: typer.Context,
    output: LabFolder = Path("topic_probes_dual"),
    passage: Annotated[str | None, typer.Option(help="A text to look at, instead of one of the articles.")] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer of the head to show; needs --head.", metavar="N", min=0)
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="The head to show, instead of one that is chosen.", metavar="N", min=0)
    ] = None,
    n_topics: NTopics = 40,
    articles: Articles = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Show the heads of a real encoder as one step of gradient descent, and what each word adds; two minutes."""
    options = {
        "passage": passage,
        "layer": layer,
        "head": head,
        "n_topics": n_topics,
        "articles": articles,
        "seed": seed,
    }
    if dry_run:
        from ._estimate import show_estimate
        from ._estimate_labs import estimate_dual

        show_estimate(estimate_dual(**options), as_json)
        return

    from ..demo._dual import run_dual

    outcome = run_dual(output, **options, show=not as_json, run_toml=run_file(ctx))
    conclude(outcome, as_json, "some numbers")
