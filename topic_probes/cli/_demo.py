"""``topic-probes demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import AsJson, Config, LabFolder, Seed
from ._screen import FailedError, show_json


def demo(
    output: LabFolder = Path("topic_probes_demo"),
    models: Annotated[
        str, typer.Option(help="Which of the models that come in packages: minilm, smollm2, or minilm,smollm2.")
    ] = "minilm,smollm2",
    n_topics: Annotated[int, typer.Option(help="Number of topics.", metavar="N", min=2)] = 40,
    articles: Annotated[
        int | None, typer.Option(help="Read only so many of the 106 articles (a quick look).", metavar="N", min=40)
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Topics from Wikipedia, a real encoder and a real decoder, and their untrained twins; offline, some minutes."""
    from ..demo import run_demo

    outcome = run_demo(
        output, models=models.split(","), n_topics=n_topics, articles=articles, seed=seed, show=not as_json
    )
    if as_json:
        show_json(outcome.summary)
    if outcome.doubts:
        raise FailedError("the headline numbers are not what they should be: " + "; ".join(outcome.doubts))
