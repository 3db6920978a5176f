"""Pictures to files, without a screen and without leaving a figure open."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 150
_TEXT_AS_TEXT: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}
"""matplotlib would draw letters as outlines into SVG, and embed Type 3 fonts, which many journals refuse."""


def save_plot(ax: Axes, path: str | PathLike, *, dots_per_inch: int = _DOTS_PER_INCH) -> None:
    """Write the figure of ``ax`` to a file (the ending says which format) and close it.

    In ``.svg`` and ``.pdf`` text stays text, which can be searched, copied and edited; a PDF carries its fonts as
    TrueType, as journals ask for, and an SVG names them.

    Examples:
        save_plot(report.plot_heads(), "heads.png")
        save_plot(report.plot_heads(), "heads.pdf")
    """
    import matplotlib
    import matplotlib.pyplot as plt

    figure = ax.figure.canvas.figure
    with matplotlib.rc_context(_TEXT_AS_TEXT):
        figure.savefig(path, dpi=dots_per_inch, bbox_inches="tight")
    plt.close(figure)
