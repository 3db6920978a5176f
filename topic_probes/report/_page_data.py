"""What the page holds: tables cut down to what a file of a few megabytes can carry, as plain JSON values.

A page is read far from the model, so everything that it shows is in it: numbers to 3 to 6 digits, missing ones as
None. Models can have thousands of heads. Where something is left out a note says what, how much, and how to see
the rest; nothing is thinned in silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style as style
from ._frames import require_columns, require_one_row_each, surest_first
from ._page_passages import chosen_passages
from ._page_values import numbers, plain_table

if TYPE_CHECKING:
    from pandas import DataFrame

HEAD_COLUMNS = ("ratio", "ratio_low", "ratio_high", "same_topic", "cross_topic", "p_value", "q_value")
"""Of each head, by estimator; the first is on the map."""
PLAIN_COLUMNS = ("same_token", "no_topic", "sink_mass")
"""Of each head, whatever the estimator."""

# Budgets, in numbers; a number takes 5 to 8 characters.
MAX_HEAD_NUMBERS = 300_000
MAX_CURVE_NUMBERS = 120_000
MAX_MATRIX_NUMBERS = 80_000
MAX_TOPICS = 500
MAX_MATRIX_TOPICS = 60

_MANY_HEADS = 1000


@dataclass
class PageData:
    """What is embedded in the page, and what is said of what is not."""

    heads: dict[str, Any]
    """``stack layer head`` [row] of each head; ``n_same_topic``, ``n_cross_topic`` [row]."""
    models: list[str]
    estimators: list[str]
    values: dict[str, dict[str, dict[str, list[Any]]]]
    """Model -> estimator -> column -> [row]."""
    plain: dict[str, dict[str, list[Any]]]
    """Model -> column -> [row]."""
    limit: float
    """Ratio at which the colours of the map end."""
    curves: dict[str, Any] = field(default_factory=dict)
    """``buckets``: place -> class -> distances and numbers of pairs; ``heads``: row -> model -> class -> means."""
    matrices: dict[str, Any] = field(default_factory=dict)
    """``topics``: [topic]; ``heads``: row -> [topic, key_topic] means; ``limit``: ratio at which their colours end."""
    passages: list[dict[str, Any]] = field(default_factory=list)
    topic_words: dict[str, str] = field(default_factory=dict)
    """Topic -> its words."""
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> ``columns`` and ``rows``: what can be saved as CSV, besides the heads."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """Section -> what was left out of it."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def note(self, section: str, text: str) -> None:
        """Add to what is said of a section."""
        self.notes.setdefault(section, []).append(text)


def page_data(
    *,
    headline: DataFrame,
    heads: Mapping[str, Mapping[str, DataFrame]],
    distance: Mapping[str, DataFrame],
    topic_matrix: Callable[[str, int, int], DataFrame] | None = None,
    topics: DataFrame | None = None,
    embedding: DataFrame | None = None,
    contextual: DataFrame | None = None,
    settings: DataFrame | None = None,
    passages: Any = None,
) -> PageData:
    """Return what the page of these tables holds.

    Args:
        headline: one row per model and estimator, as of ``ProbeReport.estimators_frame``.
        heads: model -> estimator -> table with one row a head, as of ``AttentionResult.to_frame``.
        distance: model -> table as of ``AttentionResult.distance_frame``.
        topic_matrix: from (stack, layer, head) to a table topics by topics; asked for the heads that follow topics
            most surely, as many as fit.
        topics: one row per topic: ``topic``, ``top_words`` and what else is known of it.
        embedding: as of ``ProbeReport.embedding_frame``.
        contextual: as of ``ProbeReport.contextual_frame``.
        settings: ``part``, ``name`` and ``value``: how it was measured.
        passages: as of ``topic_probes.example_passages``.

    Raises:
        TypeError, ValueError: if a table lacks what is asked of it, or passages are not as that function makes them.
    """
    first = next(iter(next(iter(heads.values())).values()))
    for by_estimator in heads.values():
        for frame in by_estimator.values():
            require_columns(frame, ("layer", "head", *HEAD_COLUMNS, *PLAIN_COLUMNS))
            require_one_row_each(frame, _keys(frame))
    digits = 5 if len(first) <= _MANY_HEADS else 4
    estimators = list(next(iter(heads.values())))
    data = PageData(
        heads={
            "stack": first["stack"].astype(str).tolist() if "stack" in first else [""] * len(first),
            "layer": first["layer"].astype(int).tolist(),
            "head": first["head"].astype(int).tolist(),
            "n_same_topic": first["n_same_topic"].astype(int).tolist(),
            "n_cross_topic": first["n_cross_topic"].astype(int).tolist(),
        },
        models=list(heads),
        estimators=estimators,
        values={},
        plain={
            model: {name: numbers(by_estimator[estimators[0]][name], digits) for name in PLAIN_COLUMNS}
            for model, by_estimator in heads.items()
        },
        limit=style.ratio_limit(first["ratio"].to_numpy(dtype=float, na_value=np.nan)),
    )
    _add_values(data, heads, digits)
    order = _strongest(heads)
    _add_curves(data, distance, order)
    if topic_matrix is not None:
        _add_matrices(data, topic_matrix, order)
    chosen = chosen_passages(data.heads, () if passages is None else passages)
    data.passages = chosen.passages
    for note in chosen.notes:
        data.note("heads", note)
    if topics is not None:
        _add_topics(data, topics)
    for name, frame in (
        ("headline", headline),
        ("embedding", embedding),
        ("contextual", contextual),
        ("settings", settings),
    ):
        if frame is not None and len(frame):
            data.tables[name] = plain_table(frame)
    return data


def _keys(frame: DataFrame) -> list[str]:
    return [name for name in ("stack", "layer", "head") if name in frame.columns]


def _strongest(heads: Mapping[str, Mapping[str, DataFrame]]) -> list[int]:
    """Return the rows of the first model's heads, surest distance-matched ratio first, those without one last."""
    by_estimator = next(iter(heads.values()))
    frame = by_estimator.get("distance_matched", next(iter(by_estimator.values())))
    frame = frame.reset_index(drop=True)
    with_ratio = surest_first(frame)[0].index.tolist()
    return with_ratio + frame.index.difference(with_ratio).tolist()


def _add_values(data: PageData, heads: Mapping[str, Mapping[str, DataFrame]], digits: int) -> None:
    """Put the numbers of the heads in: all, or of very large models what fits."""
    n_heads, first = len(data.heads["layer"]), data.models[0]
    everything = {model: dict.fromkeys(data.estimators, HEAD_COLUMNS) for model in data.models}
    twins_map = {model: {data.estimators[0]: ("ratio",)} for model in data.models[1:]}
    plans = (
        (everything, ""),
        (
            {first: everything[first], **twins_map},
            "of the untrained twin only ratios by the first estimator",
        ),
        (
            {first: dict.fromkeys(data.estimators, ("ratio", "q_value")), **twins_map},
            "only ratios and q-values, without intervals",
        ),
    )
    plan, left = next((each for each in plans if n_heads * _n_columns(each[0]) <= MAX_HEAD_NUMBERS), plans[-1])
    data.values = {
        model: {
            estimator: {name: numbers(heads[model][estimator][name], digits) for name in columns}
            for estimator, columns in by_estimator.items()
        }
        for model, by_estimator in plan.items()
    }
    if left:
        data.note("heads", f"This page holds {left}: {n_heads:,} heads are many. report.to_frame() has all numbers.")


def _n_columns(plan: Mapping[str, Mapping[str, Sequence[str]]]) -> int:
    return sum(len(columns) for by_estimator in plan.values() for columns in by_estimator.values())


def _add_curves(data: PageData, distance: Mapping[str, DataFrame], order: Sequence[int]) -> None:
    """Put attention against distance in, of as many of the strongest heads as fit."""
    rows_of = {model: _rows_of(data, frame) for model, frame in distance.items()}
    n_buckets = max((int(np.bincount(rows).max()) for rows in rows_of.values() if len(rows)), default=0)
    n_heads = len(set().union(*(np.unique(rows).tolist() for rows in rows_of.values())))
    kept = MAX_CURVE_NUMBERS // max(1, n_buckets * len(data.models))
    buckets: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for model, frame in distance.items():
        chosen = np.isin(rows_of[model], order[:kept])
        part: Any = frame[chosen]
        for (row, pair_class), line in part.groupby([rows_of[model][chosen], "pair_class"], sort=True):
            # Buckets and numbers of pairs are those of the layer: the same for each of its heads. A model with a hook
            # on it may see less than its twin.
            place = f"{model}.{data.heads['stack'][row]}.{data.heads['layer'][row]}"
            buckets.setdefault(place, {}).setdefault(
                str(pair_class),
                {name: line[name].astype(int).tolist() for name in ("distance", "distance_high", "n_pairs")},
            )
            means = curves.setdefault(str(row), {}).setdefault(model, {})
            means[str(pair_class)] = numbers(line["mean"], 4)
    data.curves = {"buckets": buckets, "heads": curves}
    if n_heads > kept:
        data.note(
            "heads",
            f"Attention against distance is kept of the {kept:,} heads that follow topics most surely "
            f"(distance-matched), of {n_heads:,}. report.plot_distance(layer, head) draws any of them.",
        )


def _rows_of(data: PageData, frame: DataFrame) -> np.ndarray:
    """Return the row of the head that each line of a table of distances is of."""
    import pandas as pd

    require_columns(frame, ("layer", "head", "pair_class", "distance", "distance_high", "n_pairs", "mean"))
    names = _keys(frame)
    heads = pd.MultiIndex.from_arrays([data.heads[name] for name in names])
    lines: Any = frame[names]
    rows = heads.get_indexer(pd.MultiIndex.from_frame(lines))
    if (rows < 0).any():
        raise ValueError("distance must have rows of the heads in heads alone, got others: pass tables of one result")
    return rows


def _add_matrices(data: PageData, topic_matrix: Callable[[str, int, int], DataFrame], order: Sequence[int]) -> None:
    """Put attention from topic to topic in, of as many of the strongest heads as fit."""
    kept: list[int] | None = None
    n_topics = n_heads = 0
    matrices: dict[str, list[Any]] = {}
    for row in order:
        where = (data.heads[name][row] for name in ("stack", "layer", "head"))
        if kept is not None and (len(matrices) + 1) * len(kept) ** 2 > MAX_MATRIX_NUMBERS:
            break
        frame = topic_matrix(*where)
        values = frame.to_numpy(dtype=float, na_value=np.nan)
        if kept is None:
            filled = np.isfinite(values).sum(axis=0) + np.isfinite(values).sum(axis=1)
            n_topics = int((filled > 0).sum())
            if not n_topics:
                return
            kept = sorted(np.argsort(-filled, kind="stable")[: min(n_topics, MAX_MATRIX_TOPICS)].tolist())
        matrices[str(row)] = numbers(values[np.ix_(kept, kept)], 3)
        n_heads += 1
    sizes = [abs(math.log2(value)) for flat in matrices.values() for value in flat if value is not None and value > 0]
    # Cells of few pairs are far out: they take the ends of the scale and do not set it.
    reached = min(4.0, 2 ** float(np.quantile(sizes, 0.8))) if sizes else 1.0
    data.matrices = {"topics": kept, "heads": matrices, "limit": style.ratio_limit(np.array([reached]))}
    if n_heads < len(order):
        data.note(
            "heads",
            f"Attention from topic to topic is kept of the {n_heads:,} heads that follow topics most surely "
            f"(distance-matched), of {len(order):,}. report.attention.topic_matrix(layer, head) gives any of them.",
        )
    if kept is not None and len(kept) < n_topics:
        data.note("heads", f"Its tables show the {len(kept)} topics with most pairs, of {n_topics} that have some.")


def _add_topics(data: PageData, topics: DataFrame) -> None:
    require_columns(topics, ("topic", "top_words"))
    words = topics["top_words"].astype(str).tolist()
    data.topic_words = {str(topic): text for topic, text in zip(topics["topic"].tolist(), words, strict=True) if text}
    if len(topics) > MAX_TOPICS:
        data.note("topics", f"The first {MAX_TOPICS} of {len(topics):,} topics. topics.to_frame() has all of them.")
        in_use = {str(topic) for passage in data.passages for word in passage["topics"] for topic in word}
        in_use |= {str(topic) for topic in data.matrices.get("topics") or ()}
        in_use |= {str(topic) for topic in topics["topic"].tolist()[:MAX_TOPICS]}
        data.topic_words = {topic: text for topic, text in data.topic_words.items() if topic in in_use}
    data.tables["topics"] = plain_table(topics.head(MAX_TOPICS))
