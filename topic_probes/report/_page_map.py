"""The map of the page: one cell a head, layers by heads, coloured by the ratio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._page_colours import shade
from ._page_data import PageData

_STACKS = {"": "", "encoder": "Encoder: ", "decoder": "Decoder: ", "cross": "Decoder to encoder: "}
_MEDIUM, _SMALL = 16, 32
"""Heads of a layer, or layers, beyond which cells are smaller and have no number in them."""


def head_maps(data: PageData) -> list[dict[str, Any]]:
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
