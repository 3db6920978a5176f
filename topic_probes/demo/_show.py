"""What the demo says on the screen, and what its numbers mean and do not mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from ..probes import ProbeReport
from ..report._frames import too_few_permutations, topic_heads_text
from ..topics import TopicLabels, TopicModel

_TOPICS_SHOWN = 12
_HEADS_SHOWN = 5

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
        shown = min(_TOPICS_SHOWN, topics.n_topics)
        table = Table(title=f"Topics (the first {shown} of {topics.n_topics})", title_justify="left")
        table.add_column("topic", justify="right")
        table.add_column("top words")
        for number, words in enumerate(topics.top_words(8)[:_TOPICS_SHOWN]):
            table.add_row(str(number), ", ".join(words))
        self._print(table)
        self._print(f"{labels}\n")

    def report(self, title: str, report: ProbeReport) -> None:
        """Show P1's table, the embedding and the heads that follow topics most."""
        tally = report.attention.tally
        self._print(Rule(f"[bold]{title}[/bold]", align="left"))
        self._print(
            f"{tally['n_documents']} articles, {tally['n_tokens']:,} tokens, {tally['n_words_taking_part']:,} words of "
            f"one token; a query sees: {', '.join(sorted(set(report.attention.visibility.values())))}"
        )
        self._print(_attention_table(report))
        self._print(_embedding_table(report))
        self._print(_heads_table(report))

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


def _attention_table(report: ProbeReport) -> Table:
    table = Table(title="Attention, mean over layers and heads (uniform = 1)", title_justify="left")
    table.add_column("weights")
    table.add_column("pairs compared")
    for name in ("same topic", "cross topic", "ratio", "95 % interval", "topic heads"):
        table.add_column(name, justify="right")
    frame = report.estimators_frame()
    table.caption, table.caption_justify = too_few_permutations(frame) or None, "left"
    for row in frame.to_dict("records"):
        table.add_row(
            row["model"],
            row["estimator"].replace("_", " "),
            f"{row['same_topic']:.3f}",
            f"{row['cross_topic']:.3f}",
            f"{row['ratio']:.3f}",
            f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
            topic_heads_text(row),
        )
    return table


def _embedding_table(report: ProbeReport) -> Table:
    frame = report.embedding_frame()
    table = Table(title="Embedding, mean (and standard deviation) over pairs of words", title_justify="left")
    table.add_column("weights")
    table.add_column("measure")
    for name in ("same topic", "cross topic", "pairs"):
        table.add_column(name, justify="right")
    both_classes = frame.pivot(index=["model", "measure"], columns="pair_class", values=["mean", "std", "n_pairs"])
    for (model, measure), values in both_classes.loc[list(report.models)].iterrows():
        cells = [f"{values['mean', name]:.4f} ({values['std', name]:.4f})" for name in ("same_topic", "cross_topic")]
        table.add_row(model, measure.replace("_", " "), *cells, f"{int(values['n_pairs'].sum()):,}")
    return table


def _heads_table(report: ProbeReport) -> Table:
    frame = report.attention.to_frame("distance_matched").nlargest(_HEADS_SHOWN, "ratio")
    table = Table(title="Heads with the largest ratio, distance matched", title_justify="left")
    for name in ("layer", "head", "same topic", "cross topic", "ratio", "95 % interval", "q", "to special tokens"):
        table.add_column(name, justify="right")
    for row in frame.to_dict(orient="records"):
        table.add_row(
            str(row["layer"]),
            str(row["head"]),
            f"{row['same_topic']:.2f}",
            f"{row['cross_topic']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
            f"{row['q_value']:.3f}",
            f"{row['sink_mass']:.0%}",
        )
    return table
