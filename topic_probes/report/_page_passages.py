"""Passages of text with attention drawn in them, as many as the page can carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._page_values import numbers

MAX_PASSAGE_NUMBERS = 80_000
"""Numbers of attention in all of them; a number takes 5 to 8 characters."""


@dataclass
class Passages:
    """What the page holds of the passages given, and what is said of the rest."""

    passages: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def chosen_passages(heads: Mapping[str, Sequence[Any]], passages: Any) -> Passages:
    """Return passages as long as they fit, with the row of each of their heads.

    Args:
        heads: ``stack layer head`` [row] of the heads that there are.
        passages: as of ``topic_probes.example_passages``.

    Raises:
        TypeError, ValueError: if they are not as that function makes them.
    """
    if isinstance(passages, (str, bytes, Mapping)) or not isinstance(passages, Sequence):
        raise TypeError(
            f"examples must be a list as topic_probes.example_passages returns, got a {type(passages).__name__}"
        )
    row_of = {
        key: row for row, key in enumerate(zip(*(heads[name] for name in ("stack", "layer", "head")), strict=True))
    }
    found = Passages()
    cells, left_out, unknown = 0, 0, 0
    for number, passage in enumerate(passages):
        _require_passage(number, passage)
        n_words = len(passage["words"])
        kept: dict[str, list[Any]] = {}
        for head in passage["heads"]:
            row = row_of.get((str(head["stack"]), int(head["layer"]), int(head["head"])))
            if row is None:
                unknown += 1
            elif cells + n_words**2 > MAX_PASSAGE_NUMBERS:
                left_out += 1
            else:
                cells += n_words**2
                kept[str(row)] = numbers(
                    [[math.nan if value is None else value for value in line] for line in head["attention"]], 3
                )
        if kept:
            found.passages.append(
                {
                    "title": str(passage["title"]),
                    "words": [str(word) for word in passage["words"]],
                    "gaps": [str(gap) for gap in passage["gaps"]],
                    "topics": [[int(topic) for topic in topics] for topics in passage["topics"]],
                    "heads": kept,
                }
            )
    if left_out:
        found.notes.append(f"{left_out} of the examples given did not fit into this page and were left out.")
    if unknown:
        found.notes.append(f"{unknown} of the examples given are of heads that this report has not.")
    return found


def _require_passage(number: int, passage: Any) -> None:
    names = ("title", "words", "gaps", "topics", "heads")
    way_out = "make them by topic_probes.example_passages"
    if not isinstance(passage, Mapping) or any(name not in passage for name in names):
        raise ValueError(f"each of examples must have {', '.join(names)}, number {number} has not: {way_out}")
    if not all(isinstance(passage[name], list) for name in names[1:]):
        raise ValueError(f"words, gaps, topics, heads of examples must be lists, not so in number {number}: {way_out}")
    n_words = len(passage["words"])

    def fits(rows: Any) -> bool:
        return isinstance(rows, list) and len(rows) == n_words

    fit = fits(passage["topics"]) and len(passage["gaps"]) == n_words + 1
    for head in passage["heads"]:
        if not isinstance(head, Mapping) or any(name not in head for name in ("stack", "layer", "head", "attention")):
            raise ValueError(
                f"heads of examples must have stack, layer, head and attention, not so in number {number}: {way_out}"
            )
        fit = fit and fits(head["attention"]) and all(fits(line) for line in head["attention"])
    if not fit:
        raise ValueError(
            f"examples must fit together, number {number} has {n_words} words and other numbers of topics, gaps or "
            f"attention: {way_out}"
        )
