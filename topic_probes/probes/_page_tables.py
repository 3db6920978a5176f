"""What a report hands to its page: tables and plain data, nothing that the page would have to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._axes import Site
from ..topics import TopicLabels, TopicModel
from ..topics._labels import require_labels

if TYPE_CHECKING:
    import pandas as pd

_WORDS_SHOWN = 10
"""Words that stand for a topic."""


def page_tables(report: Any, labels: TopicLabels | None, topics: TopicModel | None) -> dict[str, Any]:
    """Return the tables of the page by name, each as ``topic_probes.report`` asks for them.

    Args:
        report: a ProbeReport.
        labels: the labels that it was made with, for the words of each topic; or None.
        topics: the model that they are from, for top words and coherence; or None.

    Raises:
        TypeError: for something else than labels or a topic model.
        ValueError: if they are other labels than those of the report, or a model of another number of topics.
    """
    attention = report.attention
    _require_those_of(attention, labels, topics)
    heads = report._head_frames()
    has_topics = attention.n_topics > 0
    return {
        "subject": str(attention.options.get("model", "a model")),
        "headline": report._estimators_frame(heads),
        "heads": heads,
        "distance": {name: each.attention.distance_frame() for name, each in report.models.items()},
        "topic_matrix": (lambda stack, layer, head: attention.topic_matrix(layer, head, stack=stack))
        if has_topics
        else None,
        "topics": _topic_table(labels, topics),
        "embedding": report.embedding_frame(),
        "contextual": _contextual(report),
        "settings": _settings(report, labels, topics),
    }


def _require_those_of(attention: Any, labels: Any, topics: Any) -> None:
    if labels is not None:
        require_labels(labels)
        made_with = attention.options.get("labels")
        if made_with is not None and labels.fingerprint() != made_with:
            raise ValueError(
                f"labels must be those that the report was made with ({made_with}), got {labels.fingerprint()}: "
                "pass the labels that were given to probe, or leave them out"
            )
    if topics is not None:
        if not isinstance(topics, TopicModel):
            raise TypeError(
                f"topics must be a TopicModel, got a {type(topics).__name__}: leave it out if there is none"
            )
        known = labels.n_topics if labels is not None else attention.n_topics
        if known and topics.n_topics != known:
            raise ValueError(
                f"topics must be the model of the report's labels, which have {known} topics, got one of "
                f"{topics.n_topics} topics"
            )


def _topic_table(labels: TopicLabels | None, topics: TopicModel | None) -> pd.DataFrame | None:
    """Return one row per topic: ``topic``, ``top_words``, and what is known of its prior, coherence and words."""
    import pandas as pd

    frame: Any
    if topics is not None:
        frame = topics.to_frame(_WORDS_SHOWN)
        frame = frame.dropna(axis="columns", how="all")
    elif labels is not None:
        frame = pd.DataFrame({"topic": range(labels.n_topics), "top_words": _words_of(labels)})
    else:
        return None
    if labels is not None:
        frame = frame.assign(n_labelled_words=labels.topic_table.sum(axis=0))
    return frame


def _words_of(labels: TopicLabels) -> list[str]:
    """Return for each topic its name, or the first words that are labelled with it."""
    if labels.topic_names:
        return list(labels.topic_names)
    words: list[list[str]] = [[] for _ in range(labels.n_topics)]
    for word, topics in labels.topics_of.items():
        for topic in topics:
            if len(words[topic]) < _WORDS_SHOWN:
                words[topic].append(str(word))
    return [" ".join(of_topic) for of_topic in words]


def _contextual(report: Any) -> pd.DataFrame:
    """Return words in context by both estimators, which the column ``estimator`` tells apart; empty without."""
    import pandas as pd

    frames = [
        report.contextual_frame(estimator).assign(estimator=estimator) for estimator in ("within_document", "pooled")
    ]
    return pd.concat(frames, ignore_index=True) if len(frames[0]) else frames[0]


def _settings(report: Any, labels: TopicLabels | None, topics: TopicModel | None) -> pd.DataFrame:
    """Return everything that says how it was measured: columns ``part``, ``name``, ``value``, all strings."""
    import pandas as pd

    attention = report.attention
    rows: list[tuple[str, str, Any]] = []

    def add(part: str, pairs: Mapping[str, Any]) -> None:
        for name, value in pairs.items():
            if isinstance(value, Mapping):
                add(part, {f"{name}: {inner}": each for inner, each in value.items()})
            else:
                rows.append((part, str(name), "none" if value is None else str(value)))

    add("documents", dict(attention.tally))
    add("pairs", dict(attention.pair_counts))
    add("options", {**attention.options, "seed": attention.seed})
    add("what a query sees", _by_text(attention.visibility))
    missing = ", ".join(str(Site.of(layer)) for layer in attention.unavailable_layers)
    add("what a query sees", {"layers without attention": missing or None})
    for name, each in report.models.items():
        if each.embedding is not None:
            add(f"embedding, {name}", {"matrix": each.embedding.matrix, "n_labelled": each.embedding.n_labelled})
    if report.baseline is not None:
        add("untrained twin", {"weights_digest": report.baseline.attention.options.get("weights_digest")})
    if report.contextual is not None:
        add("words in context", {**(report.contextual.tally or {}), "vectors": report.contextual.matrix})
    if labels is not None:
        add("labels", dict(labels.coverage))
    if topics is not None:
        add("topics", dict(topics.options))
    return pd.DataFrame(rows, columns=pd.Index(["part", "name", "value"]))


def _by_text(visibility: Mapping[Any, str]) -> dict[str, str]:
    """Return one entry for each way to see, with the layers that see so."""
    layers: dict[str, list[str]] = {}
    for layer, text in visibility.items():
        layers.setdefault(text, []).append(str(Site.of(layer)))
    return {text: ("all layers" if len(layers) == 1 else ", ".join(names)) for text, names in layers.items()}
