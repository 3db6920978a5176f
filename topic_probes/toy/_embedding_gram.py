"""The optimal embedding, by its products: what training of the embedding alone must come to (Li et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._masking_rates import MaskingRates, require_topics
from ._topic_blocks import TopicBlocks


@dataclass(frozen=True)
class EmbeddingGram(TopicBlocks):
    """E = W_E W_E^T of the smallest embedding without excess loss: one value per class of word pair.

    Values are products of two words' embeddings; ``gap`` is that of the topic means of any optimum.
    """

    mask_square: float
    """Product of the embedding of [MASK] with itself."""

    def matrix(self) -> Float[np.ndarray, "word word"]:
        """Return E [T v + 1, T v + 1], [MASK] last; symmetric, no negative eigenvalue, rank T."""
        matrix = self._blocks(mask_row=True)
        matrix[-1] = self.mask
        matrix[-1, -1] = self.mask_square
        return matrix


def optimal_embedding_gram(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
) -> EmbeddingGram:
    """Return E = W_E W_E^T of an optimal embedding: value matrix the identity, uniform attention (Li et al. 2023).

    *Proved*, for tied weights, squared loss, no bias and infinite documents of any number of topics below
    ``n_topics``: every E without excess loss has, in each row, the gap 1 / (c v) between the *mean* over the word's own
    topic and the mean over any other. Single entries, the diagonal among them, are free, so E itself is not unique.
    Of all of them this one has the smallest trace, that is the smallest Frobenius norm of W_E::

        sum of a word's row over all words = 1 / sqrt(D),  mask = (1 - (1 - a) / sqrt(D)) / (T v a)

    (by symmetry the smallest one can be taken equal within classes of pairs; two unknowns are left, and one equation).
    It takes ``d_model >= n_topics``.

    *Not proved*: that gradient descent on W_E comes to this one. From a start that is not small it does not.

    Args:
        n_topics: T, at least 2.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.

    Raises:
        TypeError, ValueError: if an argument is out of its range.

    Examples:
        >>> gram = optimal_embedding_gram(10, 10)
        >>> round(gram.gap * 10 * (1 - 0.9 * 0.15), 12)
        1.0
    """
    require_topics(n_topics, words_per_topic)
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    n_words = n_topics * words_per_topic
    a, c = rates.mask_share, rates.word_share
    root = math.sqrt(a**2 * n_words + (1 - a) ** 2)
    row_sum = 1 / root
    # (1 - (1 - a) / root) / (n_words a), without the difference of nearly equal numbers when a is small.
    mask = a / (root * (root + 1 - a))
    cross = (row_sum - 1 / c) / n_words
    return EmbeddingGram(
        n_topics,
        words_per_topic,
        same=cross + 1 / (c * words_per_topic),
        cross=cross,
        mask=mask,
        mask_square=mask**2 * n_words * root,
    )
