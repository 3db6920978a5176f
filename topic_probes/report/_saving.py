"""Pictures to files, without a screen and without leaving a figure open."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 150


def save_plot(ax: Axes, path: str | PathLike, *, dots_per_inch: int = _DOTS_PER_INCH) -> None:
    """Write the figure of ``ax`` to a file (the ending says which format) and close it.

    Examples:
        save_plot(report.plot_heads(), "heads.png")
    """
    import matplotlib.pyplot as plt

    figure = ax.figure.canvas.figure
    figure.savefig(path, dpi=dots_per_inch, bbox_inches="tight")
    plt.close(figure)
