"""What the demo says on the screen, and what its numbers mean and do not mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from ..probes import ProbeReport
from ..topics import TopicLabels, TopicModel

_MEANING = """\
What this means. A word's topic is the LDA topic that it most clearly belongs to. Attention is in units of uniform \
attention, so 1.00 is what a head that looks everywhere alike would give, whatever the length of a document. A ratio \
above 1 says that a word attends more to words of its own topic than to words of other topics. The untrained twin has \
the same architecture, reads the same articles and stays at 1: what lies above it was put there by training. \
"Pooled" compares all pairs, as the paper does; "within document" inside each article; "distance matched" inside each \
article between words equally far apart: what is left there is not distance. Topic heads have a q-value of at most \
0.05: of them 5 % are expected to be chance. Intervals are over documents (95 %).
What it does not mean. It says that attention and topics go together, not that a head computes topics. The topics come \
from few articles and are rough; another seed gives others. \
Embeddings are compared over words that are one token; "centred" takes off the mean vector, without which any two \
words look alike."""


class Screen:
    """Tables on stdout, steps on stderr; silent where a program reads the output."""

    def __init__(self, show: bool) -> None:
        self._out = Console(quiet=not show, highlight=False)
        self._steps = Console(stderr=True, highlight=False)

    def _print(self, what: Any) -> None:
        try:
            self._out.print(what)
        except (BrokenPipeError, SystemExit):  # the reader has closed the pipe: the files are still wanted
            self._out = Console(quiet=True)

    def step(self, what: str) -> None:
        """Say what begins now."""
        self._steps.print(f"[dim]... {what}[/dim]")

    def topics(self, topics: TopicModel, labels: TopicLabels) -> None:
        """Show the first topics, their top words, and how much of the vocabulary is labelled."""
        from ..cli._tables import topic_table

        self._print(topic_table(topics))
        self._print(f"\n{labels}\n")

    def report(self, title: str, report: ProbeReport) -> None:
        """Show the headline, the embedding and the heads that follow topics most."""
        from ..cli._tables import report_tables

        self._print(Rule(f"[bold]{title}[/bold]", align="left"))
        for table in report_tables(report, "distance_matched"):
            self._print(table)
            self._print("")

    def meaning(self, reports: dict[str, ProbeReport]) -> None:
        """Say in one paragraph what the numbers mean and do not mean."""
        if reports:
            self._print("\n" + _MEANING)

    def show(self, what: Any) -> None:
        """Print a table, or a text."""
        self._print(what)

    def written(self, folder: Path) -> None:
        """Say where everything lies."""
        self._print(f"\nTables, pictures and results: {folder}")
