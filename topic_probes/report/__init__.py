"""Pictures of results: each takes a tidy table and ``ax=None``, and returns the ``Axes``.

Plots estimate, show and save nothing, and the caller's plotting style stays as it is.
"""

from __future__ import annotations

from ._blocks import plot_embedding_blocks
from ._circuits import show_attention
from ._classes import plot_classes
from ._distance import plot_distance
from ._document import plot_attention_blocks
from ._dual import plot_bound, plot_contributions, plot_feature_errors
from ._forest import plot_forest
from ._heads import plot_heads
from ._latex import latex_table
from ._layers import plot_layers
from ._saving import save_plot
from ._stages import plot_stages
from ._topics import plot_topics
from ._toy import plot_document_attention, plot_topic_matrix, plot_training

__all__ = [
    "latex_table",
    "plot_attention_blocks",
    "plot_bound",
    "plot_classes",
    "plot_contributions",
    "plot_distance",
    "plot_document_attention",
    "plot_embedding_blocks",
    "plot_feature_errors",
    "plot_forest",
    "plot_heads",
    "plot_layers",
    "plot_stages",
    "plot_topic_matrix",
    "plot_topics",
    "plot_training",
    "save_plot",
    "show_attention",
]
