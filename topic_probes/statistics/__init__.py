"""Mergeable sums, intervals over documents, and the results that are made of them."""

from ._attention_result import AttentionResult, Headline
from ._embedding_result import EmbeddingResult
from ._intervals import ConfidenceInterval

__all__ = ["AttentionResult", "ConfidenceInterval", "EmbeddingResult", "Headline"]
