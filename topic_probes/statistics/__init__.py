"""Mergeable sums, debiased means, intervals over documents, permutation tests and comparisons."""

from __future__ import annotations

from ._attention_result import AttentionResult
from ._comparison import AttentionComparison
from ._embedding_result import EmbeddingResult
from ._headline import Headline
from ._intervals import ConfidenceInterval
from ._topic_heads import TopicHead, topic_heads

__all__ = [
    "AttentionComparison",
    "AttentionResult",
    "ConfidenceInterval",
    "EmbeddingResult",
    "Headline",
    "TopicHead",
    "topic_heads",
]
