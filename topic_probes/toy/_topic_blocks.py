"""Matrices over words that are equal within a topic and between topics: a value for each class of pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._infinite_documents import of_one_topic


@dataclass(frozen=True)
class TopicBlocks:
    """One value per class of word pair; [MASK] is the last word."""

    n_topics: int
    """T."""
    words_per_topic: int
    """v."""
    same: float
    """Value of two words of one topic, of a word with itself included."""
    cross: float
    """Value of two words of different topics."""
    mask: float
    """Value of a word (row) and [MASK] (column)."""

    @property
    def gap(self) -> float:
        """``same - cross = 1 / (c v) = 1 / (v (1 - (1 - p_c) p_m))``, whatever the number of topics."""
        return self.same - self.cross

    def _blocks(self, *, mask_row: bool) -> Float[np.ndarray, "row_word column_word"]:
        """Return the matrix [T v, T v + 1], or with a last row of zeros for [MASK]."""
        n_words = self.n_topics * self.words_per_topic
        matrix = np.zeros((n_words + mask_row, n_words + 1))
        matrix[:n_words, :n_words] = np.where(of_one_topic(self.n_topics, self.words_per_topic), self.same, self.cross)
        matrix[:n_words, n_words] = self.mask
        return matrix
