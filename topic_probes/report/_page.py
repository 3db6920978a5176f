"""The report as one HTML file that loads nothing: for a reader without Python.

Everything that comes from outside (topic words, names of models and documents, passages) is text: jinja2 escapes
what stands in the page, the script puts its strings in as text nodes, and data is embedded with ``<`` written as an
escape. A content policy lets one script run, by its hash, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._html import cell_text
from . import _style as style
from ._page_data import PageData, page_data, shade

if TYPE_CHECKING:
    from pandas import DataFrame

_TEMPLATES = Path(__file__).parent / "templates"
_TOPIC_COLOURS = {
    "light": style.TOPIC_COLOURS,
    # The same hues, for words on a dark ground.
    "dark": ("#56B4E9", "#FF8A4C", "#35C49B", "#EC8AC6", "#D6B44A", "#A79BFF", "#FF7A85", "#4CC7D6"),
}
# Blue, neutral, red: told apart by colour-blind readers. The neutral is close to the ground of the page.
_SHADES = {
    "light": ("#2166ac", "#67a9cf", "#d1e5f0", "#f1f1f1", "#fddbc7", "#ef8a62", "#b2182b"),
    "dark": ("#7cc0f5", "#3f83bd", "#264a6b", "#2a3037", "#6b3b2c", "#c05f3d", "#ff9a77"),
}
_N_SHADES = 8
_NAMES = {
    "headline": "headline",
    "heads": "heads",
    "distance": "distances",
    "contextual": "layers",
    "settings": "settings",
}
_STACKS = {"": "", "encoder": "Encoder: ", "decoder": "Decoder: ", "cross": "Decoder to encoder: "}
_MEDIUM, _SMALL = 16, 32
"""Heads of a layer, or layers, beyond which cells are smaller and have no number in them."""


def write_page(
    path: str | os.PathLike, *, subject: str, title: str | None = None, version: str = "", **tables: Any
) -> Path:
    """Write the page to a file, whole or not at all, and return its path; an earlier file there is replaced.

    Args:
        path: where; its folder is made if it is missing.
        subject: what was probed, such as the model's name.
        title: of the page.
        version: of the package, for the last line.
        **tables: as for ``page_data``.

    Raises:
        IsADirectoryError: if ``path`` is a folder.
        TypeError, ValueError: as ``page_data``.
    """
    # A link stays a link to the file that is written.
    target = Path(path).expanduser().resolve()
    if target.is_dir():
        raise IsADirectoryError(f"path must be a file, got the folder {path}: add a name such as report.html")
    html = render_page(subject=subject, title=title, version=version, **tables)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        new.write_text(html, encoding="utf-8", newline="\n")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return Path(path)


def render_page(*, subject: str, title: str | None = None, version: str = "", **tables: Any) -> str:
    """Return the page as text; arguments as for :func:`write_page`."""
    import jinja2
    from markupsafe import Markup

    data = page_data(**tables)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    headline, contextual = tables["headline"], tables.get("contextual")
    ends = f"{1 / data.limit:.3g} and below", f"{data.limit:g}"
    return environment.get_template("page.html.j2").render(
        title=title or f"Topics in the attention of {subject}",
        summary=_summary(subject if title else "", headline),
        version=version,
        claim=_claim(headline),
        has_twin=len(data.models) > 1,
        by_frequency="frequency_matched" in data.estimators,
        headline=_headline_table(headline),
        maps=_maps(data),
        scale=[f"k{number}" for number in range(-_N_SHADES, _N_SHADES + 1)],
        scale_low=ends[0],
        scale_high=ends[1],
        topics=_shown(data.tables["topics"]) if "topics" in data.tables else None,
        embedding=_embedding_table(tables.get("embedding")),
        contextual=_contextual_table(contextual),
        measures=list(dict.fromkeys(contextual["measure"])) if contextual is not None and len(contextual) else [],
        settings=_settings(tables.get("settings")),
        names=_NAMES,
        data=data,
        topic_colours=_TOPIC_COLOURS,
        # These three are the package's own text, or made safe for where they stand.
        css=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),
        shades_css=Markup(_shades_css()),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        data_json=Markup(_as_json(data.to_dict())),
    )


def _as_json(value: Any) -> str:
    """Return JSON that can stand between script tags: nothing in it can end them, or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _summary(subject: str, headline: DataFrame) -> str:
    row = headline.iloc[0]
    of = f"{subject}. " if subject else ""
    return (
        f"{of}{int(row['n_documents']):,} documents, {int(row['n_same_topic']):,} pairs of words of the same topic "
        f"and {int(row['n_cross_topic']):,} of different topics."
    )


def _claim(headline: DataFrame) -> dict[str, str]:
    """Return the headline in a sentence, of the first estimator, and one about the twin."""
    rows = headline.drop_duplicates("model").to_dict("records")
    trained = rows[0]
    if not math.isfinite(trained["ratio"]):
        return {"before": "No pairs of both classes: there is no ratio.", "ratio": "", "after": "", "twin": ""}
    kind = str(trained["estimator"]).replace("_", " ")
    claim = {
        "before": "Words attend to words of the same topic ",
        "ratio": f"{trained['ratio']:.2f} times",
        "after": f" as much as to words of other topics ({_between(trained, 2)}, {kind}).",
        "twin": "",
    }
    if len(rows) > 1:
        claim["twin"] = (
            f"In its untrained twin it is {rows[1]['ratio']:.3f} times ({_between(rows[1], 3)}): "
            "what is above that was put there by training."
            if rows[1]["ratio"] < trained["ratio"]
            else f"In its untrained twin it is {rows[1]['ratio']:.3f} times ({_between(rows[1], 3)})."
        )
    return claim


def _between(row: Mapping[Any, Any], digits: int) -> str:
    low, high = row["ratio_low"], row["ratio_high"]
    if not (math.isfinite(low) and math.isfinite(high)):
        return "too few documents for an interval"
    return f"{100 * row['level']:g} % interval {low:.{digits}f} to {high:.{digits}f}"


def _text(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int) -> dict[str, Any]:
    """Return a table for the template: all strings; the columns after the first ``n_text`` are numbers."""
    return {
        "columns": [name.replace("_", " ") for name in columns],
        "numeric": [number >= n_text for number in range(len(columns))],
        "rows": [list(row) for row in rows],
    }


def _headline_table(headline: DataFrame) -> dict[str, Any]:
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
                f"{row['n_topic_heads']} of {row['n_heads']}",
            )
        )
    return _table(columns, rows, 2)


def _shown(plain: Mapping[str, Any]) -> dict[str, Any]:
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


def _embedding_table(frame: DataFrame | None) -> dict[str, Any] | None:
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


def _contextual_table(frame: DataFrame | None) -> dict[str, Any] | None:
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


def _settings(frame: DataFrame | None) -> list[dict[str, Any]]:
    if frame is None:
        return []
    parts = []
    for part, rows in frame.groupby("part", sort=False):
        pairs = [
            (str(name).removeprefix("n_").replace("_", " "), str(value))
            for name, value in zip(rows["name"], rows["value"], strict=True)
        ]
        parts.append({"name": str(part).capitalize(), "shown": _table(("what", "value"), pairs, 2)})
    return parts


def _maps(data: PageData) -> list[dict[str, Any]]:
    """Return one map per stack, its top line the last layer, coloured by the first model and estimator."""
    ratios = data.values[data.models[0]][data.estimators[0]]["ratio"]
    maps = []
    for stack in dict.fromkeys(data.heads["stack"]):
        at: dict[int, dict[int, int]] = {}
        for row, (of, layer, head) in enumerate(
            zip(*(data.heads[name] for name in ("stack", "layer", "head")), strict=True)
        ):
            if of == stack:
                at.setdefault(layer, {})[head] = row
        heads = sorted({head for line in at.values() for head in line})
        lines = [
            {
                "layer": layer,
                "cells": [_cell(at[layer].get(head), ratios, data.limit) for head in heads],
            }
            for layer in sorted(at, reverse=True)
        ]
        extent = max(len(heads), len(lines))
        maps.append(
            {
                "caption": f"{_STACKS.get(stack, stack + ': ')}same topic / cross topic, "
                f"{len(lines)} layers x {len(heads)} heads",
                "heads": heads,
                "lines": lines,
                "size": "small" if extent > _SMALL else "medium" if extent > _MEDIUM else "",
            }
        )
    return maps


def _cell(row: int | None, ratios: Sequence[Any], limit: float) -> dict[str, Any] | None:
    if row is None:
        return None
    ratio = ratios[row]
    return {"row": row, "shade": shade(ratio, limit), "text": "none" if ratio is None else f"{ratio:.2f}"}


def _shades_css() -> str:
    """Return the colours of the map: ``.k-8`` to ``.k8``, for light and dark, each with the ink that is read on it."""
    numbers = range(-_N_SHADES, _N_SHADES + 1)

    def rules(theme: str, scope: str) -> str:
        colours = _between_colours(_SHADES[theme], len(numbers))
        return "\n".join(
            f"{scope}.k{number} {{ background: {colour}; color: {_ink_on(colour)}; }}"
            for number, colour in zip(numbers, colours, strict=True)
        )

    light = rules("light", "")
    system = rules("dark", ':root:not([data-theme="light"]) ')
    chosen = rules("dark", ':root[data-theme="dark"] ')
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{system}\n}}\n{chosen}"


def _between_colours(anchors: Sequence[str], count: int) -> list[str]:
    """Return ``count`` colours, evenly spread between the anchors."""
    channels = [[int(anchor[place : place + 2], 16) for place in (1, 3, 5)] for anchor in anchors]
    colours = []
    for number in range(count):
        place = number * (len(anchors) - 1) / (count - 1)
        below = min(int(place), len(anchors) - 2)
        mixed = (
            one + (other - one) * (place - below)
            for one, other in zip(channels[below], channels[below + 1], strict=True)
        )
        colours.append("#" + "".join(f"{round(channel):02x}" for channel in mixed))
    return colours


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, from 0 to 1 (WCAG 2)."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2); text needs 4.5."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _ink_on(colour: str) -> str:
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))
