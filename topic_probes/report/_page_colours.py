"""Colours of the page, on a light and on a dark ground: of ratios, and of the ink that can be read on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _style as style

TOPIC_COLOURS = {
    "light": style.TOPIC_COLOURS,
    # The same hues, for words on a dark ground.
    "dark": ("#56B4E9", "#FF8A4C", "#35C49B", "#EC8AC6", "#D6B44A", "#A79BFF", "#FF7A85", "#4CC7D6"),
}
# Blue, neutral, red: told apart by colour-blind readers. The neutral is close to the ground of the page.
_SHADES = {
    "light": ("#2166ac", "#67a9cf", "#d1e5f0", "#f1f1f1", "#fddbc7", "#ef8a62", "#b2182b"),
    "dark": ("#7cc0f5", "#3f83bd", "#264a6b", "#2a3037", "#6b3b2c", "#c05f3d", "#ff9a77"),
}
N_SHADES = 8
"""Shades of colour on each side of the neutral one."""


def shade(ratio: Any, limit: float) -> str:
    """Return the class of a cell's colour: ``k-8`` (far below 1) to ``k8`` (far above), ``kx`` where there is none.

    The page's script has the same rule, for the other estimators.

    Examples:
        >>> shade(1.0, 2.0), shade(2.0, 2.0), shade(0.5, 2.0), shade(None, 2.0), shade(0.0, 2.0)
        ('k0', 'k8', 'k-8', 'kx', 'k-8')
    """
    if ratio is None or math.isnan(ratio):
        return "kx"
    if ratio <= 0:
        return f"k-{N_SHADES}"
    place = math.log2(ratio) / math.log2(limit) * N_SHADES
    # Half away from zero, in both languages: round() would go to the even neighbour.
    place = math.floor(abs(place) + 0.5) * (1 if place >= 0 else -1)
    return f"k{max(-N_SHADES, min(N_SHADES, place))}"


def shades_css() -> str:
    """Return the colours of the map: ``.k-8`` to ``.k8``, for light and dark, each with the ink that is read on it."""
    numbers = range(-N_SHADES, N_SHADES + 1)

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
