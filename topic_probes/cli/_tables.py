"""Tables for a terminal: the headline, the embedding, the heads that follow topics most, topics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..probes import ProbeReport
    from ..topics import TopicModel

_HEADS_SHOWN = 5
_WORDS_SHOWN = 8
_TOPICS_SHOWN = 20


def report_tables(report: ProbeReport, estimator: str) -> list[Any]:
    """Return what there is to say of a report, in order: texts and tables.

    Raises:
        ValueError: if the report has no such estimator.
    """
    tally = report.attention.tally
    said: list[Any] = [
        Text(
            f"{report.attention.options.get('model', 'a model')}: {tally['n_documents']:,} documents, "
            f"{tally.get('n_tokens', 0):,} tokens, {tally.get('n_words_taking_part', 0):,} words that take part"
        ),
        _attention(report),
    ]
    if report.embedding is not None:
        said.append(_embedding(report))
    return [*said, _heads(report, estimator)]


def topic_table(topics: TopicModel) -> Table:
    """Return the topics with their top words, and how well these go together."""
    shown = min(_TOPICS_SHOWN, topics.n_topics)
    title = f"Topics (the first {shown} of {topics.n_topics})" if shown < topics.n_topics else "Topics"
    frame = topics.to_frame(_WORDS_SHOWN)
    rows = [
        (str(row["topic"]), row["top_words"], f"{row['coherence']:.2f}")
        for row in frame.head(_TOPICS_SHOWN).to_dict("records")
    ]
    return _table(title, ("topic", "top words", "coherence"), rows, left=("top words",))


def facts_table(facts: dict[str, Any]) -> Table:
    """Return names and values in two columns."""
    return _table(None, ("what", "estimate"), [(name, str(value)) for name, value in facts.items()], left=("what",))


def _attention(report: ProbeReport) -> Table:
    from ..report._frames import too_few_permutations, topic_heads_text

    headline = report.estimators_frame()
    rows = [
        (
            row["model"],
            row["estimator"].replace("_", " "),
            f"{row['same_topic']:.3f}",
            f"{row['cross_topic']:.3f}",
            f"{row['ratio']:.3f}",
            _interval(row),
            topic_heads_text(row),
        )
        for row in headline.to_dict("records")
    ]
    names = ("weights", "pairs compared", "same", "cross", "ratio", "95 % interval", "topic heads")
    table = _table("Attention by topic of the words, mean of all heads (uniform = 1)", names, rows, left=names[:2])
    table.caption, table.caption_justify = too_few_permutations(headline) or None, "left"
    return table


def _embedding(report: ProbeReport) -> Table:
    frame = report.embedding_frame()
    rows = []
    for model, measure in dict.fromkeys(zip(frame["model"], frame["measure"], strict=True)):
        part = frame[(frame["model"] == model) & (frame["measure"] == measure)]
        means = dict(zip(part["pair_class"], part["mean"], strict=True))
        cells = [f"{means[name]:.4f}" for name in ("same_topic", "cross_topic")]
        rows.append((model, measure.replace("_", " "), *cells, f"{sum(part['n_pairs'].tolist()):,}"))
    names = ("weights", "measure", "same topic", "cross topic", "pairs")
    return _table("Embedding, mean over pairs of words", names, rows, left=names[:2])


def _heads(report: ProbeReport, estimator: str) -> Table:
    from ..report._frames import surest_first

    ordered, order = surest_first(report.attention.to_frame(estimator))
    frame: Any = ordered.head(_HEADS_SHOWN)
    place = [name for name in ("stack", "layer", "head") if name in frame.columns]
    rows = [
        (
            *(str(row[name]) for name in place),
            f"{row['same_topic']:.2f}",
            f"{row['cross_topic']:.2f}",
            f"{row['ratio']:.2f}",
            _interval(row),
            f"{row['q_value']:.3f}",
            f"{row['sink_mass']:.0%}",
        )
        for row in frame.to_dict("records")
    ]
    names = (*place, "same", "cross", "ratio", "95 % interval", "q", "to special")
    return _table(f"Heads {order}, {estimator.replace('_', ' ')}", names, rows, left=("stack",))


def _interval(row: Any) -> str:
    if math.isnan(row["ratio_low"]):
        return "too few documents"
    return f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"


def _table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Table:
    # Few lines and narrow columns: most of these tables fit into 80 characters.
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=column != "top words")
    for row in rows:
        # Words of a corpus and names of models are no mark-up.
        table.add_row(*map(Text, row))
    return table
