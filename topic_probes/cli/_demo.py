"""``topic-probes demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, no_type_check

import typer

from ._config import run_file
from ._options import Articles, AsJson, Config, DryRun, LabFolder, NTopics, Seed
from ._screen import conclude, stdout_for_results


@no_type_check  # typer wants its annotation of ctx, and hands over an object of another class
def demo(
    ctx: typer.Context,
    output: LabFolder = Path("topic_probes_demo"),
    models: Annotated[
        str, typer.Option(help="Which of the models that come in packages: minilm, smollm2, or minilm,smollm2.")
    ] = "minilm,smollm2",
    n_topics: NTopics = 40,
    articles: Articles = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Topics from Wikipedia, a real encoder and a real decoder, and their untrained twins; offline, some minutes."""
    options = {"models": models.split(","), "n_topics": n_topics, "articles": articles}
    if dry_run:
        from ._estimate import show_estimate
        from ._estimate_labs import estimate_demo

        with stdout_for_results():
            estimate = estimate_demo(**options)
        show_estimate(estimate, as_json)
        return

    from ..demo import run_demo

    outcome = run_demo(output, **options, seed=seed, show=not as_json, run_toml=run_file(ctx))
    conclude(outcome, as_json, "the headline numbers")
