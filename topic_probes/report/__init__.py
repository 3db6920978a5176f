"""Pictures of results: each takes a tidy table and ``ax=None``, and returns the ``Axes``.

Plots estimate, show and save nothing, and the caller's plotting style stays as it is.
"""

from __future__ import annotations

from ._blocks import plot_embedding_blocks
from ._classes import plot_classes
from ._document import plot_attention_blocks
from ._heads import plot_heads
from ._saving import save_plot

__all__ = ["plot_attention_blocks", "plot_classes", "plot_embedding_blocks", "plot_heads", "save_plot"]
