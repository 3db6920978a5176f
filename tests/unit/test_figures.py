"""Figures for papers: text stays text in vector files, and colours differ for every reader."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from topic_probes import report
from topic_probes.report import _dual, _stages, _toy
from topic_probes.report import _style as style

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    plt.close("all")
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


HEADS = pd.DataFrame(
    {
        "layer": [0, 0, 1, 1],
        "head": [0, 1, 0, 1],
        "ratio": [1.2, 3.0, 0.9, 0.8],
        "ratio_low": [1.1, 2.0, 0.7, 0.5],
        "ratio_high": [1.4, 4.0, 1.2, 1.1],
    }
)
CLASSES = pd.DataFrame(
    {
        "model": ["trained", "trained", "untrained", "untrained"],
        "pair_class": ["same_topic", "cross_topic"] * 2,
        "mean": [1.5, 1.1, 1.0, 1.0],
        "low": [1.3, 1.0, 0.9, 0.9],
        "high": [1.6, 1.2, 1.1, 1.1],
    }
)
CURVE = pd.DataFrame(
    {
        "pair_class": ["same_topic", "same_topic", "cross_topic", "cross_topic"],
        "distance": [1, 8, 1, 8],
        "mean": [4.0, 2.0, 1.0, 0.5],
        "n_pairs": 5,
    }
)
LAYERS = pd.DataFrame(
    [
        {"layer": layer, "measure": "centred_cosine", "pair_class": kind, "mean": layer / 9 + level, "model": model}
        for model, level in (("trained", 0.3), ("untrained", 0.0))
        for layer in range(3)
        for kind in ("same_topic", "cross_topic")
    ]
)
CONTRIBUTIONS = pd.DataFrame(
    {
        "position": [0, 1, 2],
        "token": ["[CLS]", "law$", "judge"],
        "share": [0.1, 0.3, 0.6],
        "pair_class": ["special", "cross_topic", "same_topic"],
    }
)
ERRORS = pd.DataFrame(
    {"features": ["positive"] * 3, "n_features": [8, 64, 512], "relative_kernel_error": [2.0, 0.5, 0.1]}
)
BOUND = pd.DataFrame(
    {"n_demonstrations": [16, 64, 256], "allowed": [3.0, 1.5, 0.7], "largest_gap": [0.6, 0.3, 0.1], "gap": [0.2] * 3}
)
STAGES = pd.DataFrame(
    {
        "optimizer": ["adamw", "sgd"],
        "stage_W_V": [40.0, 30.0],
        "stage_W_Q": [80.0, 90.0],
        "stage_W_K": [20.0, 95.0],
    }
)
HISTORY = pd.DataFrame({"step": [0, 5, 10], "norm_W_V": [1.0, 4.0, 5.0], "norm_W_Q": [1.0, 1.0, 3.0]})
WORDS = pd.DataFrame(np.eye(4) + 0.1, index=list("abcd"), columns=list("abcd"))

DRAWN: dict[str, Callable[[], Any]] = {
    "plot_attention_blocks": lambda: report.plot_attention_blocks(WORDS, ["x", "x", "y", "y"]),
    "plot_bound": lambda: report.plot_bound(BOUND),
    "plot_classes": lambda: report.plot_classes(CLASSES),
    "plot_contributions": lambda: report.plot_contributions(CONTRIBUTIONS),
    "plot_distance": lambda: report.plot_distance(CURVE),
    "plot_document_attention": lambda: report.plot_document_attention(
        np.full((4, 4), 0.25), [0, 1, 2, 3], {0: (0,), 1: (0,), 2: (1,), 3: (1,)}
    ),
    "plot_embedding_blocks": lambda: report.plot_embedding_blocks(WORDS, ["x", "x", "y", "y"]),
    "plot_feature_errors": lambda: report.plot_feature_errors(ERRORS),
    "plot_forest": lambda: report.plot_forest(HEADS),
    "plot_heads": lambda: report.plot_heads(HEADS),
    "plot_layers": lambda: report.plot_layers(LAYERS),
    "plot_stages": lambda: report.plot_stages(STAGES),
    "plot_topic_matrix": lambda: report.plot_topic_matrix(np.eye(4) + 0.1, [0, 0, 1, 1]),
    "plot_topics": lambda: report.plot_topics(pd.DataFrame(np.eye(3) + 0.5), names=["music", "war", "law"]),
    "plot_training": lambda: report.plot_training(HISTORY),
}
every_plot = pytest.mark.parametrize("name", DRAWN)


def test_every_public_plot_is_among_them() -> None:
    assert sorted(DRAWN) == [name for name in sorted(report.__all__) if name.startswith("plot_")]


def lines_of_text(ax: Any) -> set[str]:
    """The lines of text on a figure, as they are read; formulas (the ticks of logarithmic axes) are left out."""
    ax.figure.canvas.draw()
    shown = [one.get_text() for one in ax.figure.findobj(Text) if one.get_visible()]
    lines = {line.strip() for text in shown for line in text.replace(r"\$", "\0").split("\n")}
    return {line.replace("\0", "$") for line in lines if line and "$" not in line}


@every_plot
def test_text_in_svg_is_text(name: str, tmp_path: Path) -> None:
    """Each title and label, on the axes and beside them; no letter is an outline."""
    ax = DRAWN[name]()
    wanted = {line for line in (ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()) if line}
    wanted = {line.strip() for text in wanted for line in text.replace(r"\$", "$").split("\n")} & lines_of_text(ax)
    assert wanted
    report.save_plot(ax, tmp_path / "figure.svg")
    tree = ElementTree.parse(tmp_path / "figure.svg").getroot()
    found = {"".join(one.itertext()).strip() for one in tree.iter(f"{SVG}text")}
    assert wanted <= found
    assert not [one for one in tree.iter(f"{SVG}path") if "DejaVu" in one.get("id", "")]


@every_plot
def test_text_in_pdf_is_in_embedded_truetype_fonts(name: str, tmp_path: Path) -> None:
    """With the table that leads from glyphs back to letters, so that text can be searched; no Type 3 font."""
    report.save_plot(DRAWN[name](), tmp_path / "figure.pdf")
    written = (tmp_path / "figure.pdf").read_bytes()
    assert written.startswith(b"%PDF-")
    assert b"/Type3" not in written
    for part in (b"/FontFile2", b"/CIDFontType2", b"/ToUnicode"):
        assert part in written
    streams = re.findall(rb"/FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", written, re.DOTALL)
    assert any(re.search(rb"\bT[jJ]\b", page) for page in map(_unpacked, streams)), "nothing is written in a font"


def _unpacked(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


# G. M. Machado, M. M. Oliveira, L. A. F. Fernandes: A Physiologically-based Model for Simulation of Color Vision
# Deficiency. IEEE TVCG 15(6), 2009, doi:10.1109/TVCG.2009.113; table of severity 1.0, for linear RGB.
SIGHTS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""Of linear sRGB, white D65 (IEC 61966-2-1)."""


def seen(colour: Any, sight: str) -> np.ndarray:
    """A colour as it is seen, in CIELAB (CIE 1976, white D65)."""
    encoded = np.array(to_rgb(colour))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(SIGHTS[sight] @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    fx, fy, fz = (np.cbrt(one) if one > (6 / 29) ** 3 else one / (3 * (6 / 29) ** 2) + 4 / 29 for one in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def difference(one: Any, other: Any, sight: str) -> float:
    """Delta E (CIE 1976); 2.3 is about what can just be seen."""
    return float(np.linalg.norm(seen(one, sight) - seen(other, sight)))


def test_differences_of_colours_are_those_of_the_literature() -> None:
    """Black and white are 100 apart; pure red is at (53.24, 80.09, 67.20). Red and green meet without green cones."""
    assert difference("#000000", "#FFFFFF", "all cones") == pytest.approx(100, abs=0.01)
    np.testing.assert_allclose(seen("#FF0000", "all cones"), [53.24, 80.09, 67.20], atol=0.02)
    for sight, matrix in SIGHTS.items():
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=2e-6, err_msg="white stays white")
        assert difference("#808080", "#808080", sight) == 0.0
    assert difference("#D2691E", "#808000", "all cones") > 30
    assert difference("#D2691E", "#808000", "deuteranopia") < 15


SAME, CROSS = style.SAME_TOPIC_COLOUR, style.CROSS_TOPIC_COLOUR
BLUE, NEUTRAL, RED = (style.diverging_colours()(place) for place in (0.0, 0.5, 1.0))
TOGETHER: dict[str, tuple[tuple[Any, ...], float]] = {
    "same and cross topic": ((SAME, CROSS), 50),
    "below, at and above 1, and missing": ((BLUE, NEUTRAL, RED, style.MISSING_COLOUR), 20),
    "matrices": (tuple(colour for colour, _ in _stages._MATRICES.values()), 10),
    "curves of training": (_toy._CURVES, 10),
    "classes of contributions": (tuple(colour for _, colour in _dual._CLASSES.values()), 10),
    "lines of the bound": (tuple(line[2] for line in _dual._BOUND_LINES), 40),
    "kinds of features": (tuple(_dual._FEATURE_COLOURS.values()), 50),
    "six topics": (style.TOPIC_COLOURS[:6], 10),
}
"""Colours that stand side by side, and the least difference between any two."""


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", TOGETHER)
def test_colours_that_stand_together_differ_for_every_reader(name: str, sight: str) -> None:
    colours, least = TOGETHER[name]
    pairs = {(one, other): difference(one, other, sight) for one, other in itertools.combinations(colours, 2)}
    assert {pair: round(found, 1) for pair, found in pairs.items() if found < least} == {}


def test_trained_and_untrained_differ_without_any_colour() -> None:
    """Lines of one pair class have one colour; dashes and marks tell the models apart."""
    ax: Any = report.plot_layers(LAYERS)
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) == 3]
    for colour in (SAME, CROSS):
        trained, untrained = (line for line in lines if line.get_color() == colour)
        assert trained.get_linestyle() != untrained.get_linestyle()
        assert trained.get_marker() != untrained.get_marker()
        assert trained.get_markerfacecolor() != untrained.get_markerfacecolor()
