"""What the page says without its script: sentences and tables, as strings for the template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._html import cell_text
from ._frames import topic_heads_text

if TYPE_CHECKING:
    from pandas import DataFrame


def summary(subject: str, headline: DataFrame) -> str:
    """Return in a sentence what was read."""
    row = headline.iloc[0]
    of = f"{subject}. " if subject else ""
    return (
        f"{of}{int(row['n_documents']):,} documents, {int(row['n_same_topic']):,} pairs of words of the same topic "
        f"and {int(row['n_cross_topic']):,} of different topics."
    )


def claim(headline: DataFrame) -> dict[str, str]:
    """Return the headline in a sentence, of the first estimator, and one about the twin."""
    rows = headline.drop_duplicates("model").to_dict("records")
    trained = rows[0]
    if not math.isfinite(trained["ratio"]):
        return {"before": "No pairs of both classes: there is no ratio.", "ratio": "", "after": "", "twin": ""}
    kind = str(trained["estimator"]).replace("_", " ")
    said = {
        "before": "Words attend to words of the same topic ",
        "ratio": f"{trained['ratio']:.2f} times",
        "after": f" as much as to words of other topics ({_between(trained, 2)}, {kind}).",
        "twin": "",
    }
    if len(rows) > 1:
        said["twin"] = _of_twin(trained, rows[1])
    return said


def _of_twin(trained: Mapping[Any, Any], twin: Mapping[Any, Any]) -> str:
    if not math.isfinite(twin["ratio"]):
        return "Its untrained twin has no ratio."
    said = f"In its untrained twin it is {twin['ratio']:.3f} times ({_between(twin, 3)})"
    if trained["ratio_low"] > twin["ratio_high"]:
        return f"{said}: what is above that was put there by training."
    if trained["ratio"] > twin["ratio"] and trained["ratio_low"] <= twin["ratio_high"]:
        return f"{said}; the two intervals are not apart."
    return f"{said}."


def _between(row: Mapping[Any, Any], digits: int) -> str:
    low, high = row["ratio_low"], row["ratio_high"]
    if not (math.isfinite(low) and math.isfinite(high)):
        return "too few documents for an interval"
    return f"{100 * row['level']:g} % interval {low:.{digits}f} to {high:.{digits}f}"


def _text(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int) -> dict[str, Any]:
    """Return a table for the template: all strings; the columns after the first ``n_text`` are numbers."""
    return {
        "columns": [name.replace("_", " ") for name in columns],
        "numeric": [number >= n_text for number in range(len(columns))],
        "rows": [list(row) for row in rows],
    }


def headline_table(headline: DataFrame) -> dict[str, Any]:
    """Return the headline by every estimator, for the template."""
    columns = ("weights", "pairs compared", "ratio", "95 % interval", "same topic", "cross topic", "topic heads")
    rows = []
    for row in headline.to_dict("records"):
        low, high = row["ratio_low"], row["ratio_high"]
        rows.append(
            (
                str(row["model"]),
                str(row["estimator"]).replace("_", " "),
                _text(row["ratio"]),
                f"{low:.3f} to {high:.3f}" if math.isfinite(low) and math.isfinite(high) else "too few documents",
                _text(row["same_topic"]),
                _text(row["cross_topic"]),
                topic_heads_text(row),
            )
        )
    return _table(columns, rows, 2)


def shown_table(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of ``plain_table`` as strings, its columns of numbers to the right."""
    columns = list(zip(*plain["rows"], strict=True))
    numeric = [
        number > 0 and all(value is None or isinstance(value, int | float) for value in column)
        for number, column in enumerate(columns)
    ]
    return {
        "columns": [name.replace("_", " ") for name in plain["columns"]],
        "numeric": numeric,
        "rows": [[cell_text(value) for value in row] for row in plain["rows"]],
    }


def embedding_table(frame: DataFrame | None) -> dict[str, Any] | None:
    """Return the measures of the token embeddings, for the template; None without."""
    if frame is None or not len(frame):
        return None
    found = {(row["model"], row["measure"], row["pair_class"]): row for row in frame.to_dict("records")}
    rows = []
    for model, measure in dict.fromkeys((model, measure) for model, measure, _ in found):
        classes = [found[model, measure, name] for name in ("same_topic", "cross_topic")]
        cells = [f"{cell_text(row['mean'])} ({cell_text(row['std'])})" for row in classes]
        difference = cell_text(classes[0]["mean"] - classes[1]["mean"])
        counts = [f"{int(row['n_pairs']):,}" for row in classes]
        rows.append((str(model), str(measure).replace("_", " "), *cells, difference, *counts))
    columns = (
        *("weights", "measure", "same topic, mean (std)", "cross topic, mean (std)", "difference"),
        *("same-topic pairs", "cross-topic pairs"),
    )
    return _table(columns, rows, 2)


def contextual_table(frame: DataFrame | None) -> dict[str, Any] | None:
    """Return centred cosines of words in context, within documents, for the template; None without."""
    if frame is None or not len(frame):
        return None
    chosen: Any = frame[(frame["measure"] == "centred_cosine") & (frame["estimator"] == "within_document")]
    rows = []
    for row in chosen.to_dict("records"):
        known = math.isfinite(row["low"]) and math.isfinite(row["high"])
        rows.append(
            (
                str(row["model"]),
                "embedding" if row["layer"] < 0 else str(row["layer"]),
                str(row["pair_class"]).replace("_", " "),
                cell_text(row["mean"]),
                f"{row['low']:.4g} to {row['high']:.4g}" if known else "",
            )
        )
    return _table(("weights", "after layer", "pairs", "mean", "95 % interval"), rows, 3)


def _setting(name: str, value: Any) -> str:
    is_count = isinstance(value, int) and not isinstance(value, bool) and name != "seed"
    return f"{value:,}" if is_count else str(value)


def settings_tables(frame: DataFrame | None) -> list[dict[str, Any]]:
    """Return how it was measured, one table a part, for the template."""
    if frame is None:
        return []
    parts = []
    for part, rows in frame.groupby("part", sort=False):
        pairs = [
            (str(name).removeprefix("n_").replace("_", " "), _setting(str(name), value))
            for name, value in zip(rows["name"], rows["value"], strict=True)
        ]
        parts.append({"name": str(part).capitalize(), "shown": _table(("what", "value"), pairs, 2)})
    return parts
