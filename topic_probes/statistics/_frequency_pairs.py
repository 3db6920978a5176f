"""Similarity of word vectors, same-topic against cross-topic, between words of like frequency: exact over all pairs.

Vectors carry how often their words occur, and words of one topic are often of one frequency. So pairs fall into
strata, the unordered pair of the two words' frequency classes (:mod:`topic_probes.statistics._strata`), and both
classes of pairs are averaged over strata with the same weights, those of Mantel and Haenszel. With S_b, C_b the sums of
a measure over the s_b same-topic and c_b cross-topic pairs of stratum b, and ``w_b = s_b c_b / (s_b + c_b)``::

    same = sum_b w_b S_b / s_b / sum_b w_b ,    cross = sum_b w_b C_b / c_b / sum_b w_b

A stratum without one of the classes has weight 0.

Words of the same topic set and the same frequency class form a *cell*. All pairs between two cells are of one class
and one stratum, so their sum is the dot product of the cells' sums; within a cell of vectors e_i it is
``(|sum e_i|^2 - sum |e_i|^2) / 2``. No pair is sampled, and none is visited.

What the numbers do not show: ten classes are coarse, so within a stratum words still differ in frequency; and words
alike in topic and frequency may still share their part of speech.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ._strata import N_FREQUENCY_CLASSES, N_FREQUENCY_STRATA, frequency_stratum
from ._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES, Measure, checked_words, measured_vectors

_TILE_ROWS = 512


@dataclass(frozen=True)
class FrequencyPairs:
    """Sums of all pairs of words, per measure, stratum of frequencies and pair class.

    Measures follow :data:`MEASURES`, pair classes :data:`VECTOR_PAIR_CLASSES`.
    """

    sums: Float[np.ndarray, "measure stratum pair_class"]
    """[measure, stratum, pair_class] sums of the measure over the pairs."""
    counts: Int[np.ndarray, "measure stratum pair_class"]
    """[measure, stratum, pair_class] numbers of unordered pairs i != j."""

    @property
    def mean(self) -> Float[np.ndarray, "measure pair_class"]:
        """[measure, pair_class] means over strata with the same weights for both classes; NaN if none has both."""
        n_pairs = self.counts.sum(axis=2)
        other = self.counts[..., ::-1]
        # w_b / s_b = c_b / (s_b + c_b): no division by an empty class.
        share = np.divide(other, n_pairs[..., None], out=np.zeros(other.shape), where=n_pairs[..., None] > 0)
        weights = (share * self.counts).sum(axis=1)
        totals = (share * self.sums).sum(axis=1)
        return np.divide(totals, weights, out=np.full(totals.shape, np.nan), where=weights > 0)

    @property
    def n_pairs(self) -> Int[np.ndarray, "measure pair_class"]:
        """[measure, pair_class] pairs that have a say: those of strata with both classes."""
        has_both = (self.counts > 0).all(axis=2, keepdims=True)
        return np.where(has_both, self.counts, 0).sum(axis=1)


def frequency_pairs(
    vectors: Float[np.ndarray, "word d_model"],
    membership: Bool[np.ndarray, "word topic"],
    frequency_class: Int[np.ndarray, " word"],
) -> FrequencyPairs:
    """Return the sums of every measure over all pairs, by pair class and the two words' frequency classes.

    Args:
        vectors: [word, d_model] one vector per labelled word, of any float type; computed in float64.
        membership: [word, topic] which topics each word carries, at least one each.
        frequency_class: [word] 0 (rare) to 9 (common).

    Returns:
        The sums. The mean vector that ``centred_cosine`` takes off is that of all words, as in
        :func:`topic_probes.statistics._vector_pairs.pair_moments`, and the same words are left out.

    Raises:
        ValueError: if a vector is not finite, or a word has no topic.

    Examples:
        >>> import numpy as np
        >>> vectors = np.array([[1.0], [2.0], [3.0], [4.0]])
        >>> topics = np.array([[True, False], [True, False], [False, True], [True, False]])
        >>> pairs = frequency_pairs(vectors, topics, np.array([0, 0, 0, 9]))  # 1 * 2 against (1 * 3 + 2 * 3) / 2, and
        >>> pairs.mean[0].tolist(), pairs.n_pairs[0].tolist()  # (1 * 4 + 2 * 4) / 2 against 3 * 4, equally weighted
        ([4.0, 8.25], [3, 3])
    """
    vectors, membership = checked_words(vectors, membership)
    shape = (len(MEASURES), N_FREQUENCY_STRATA, len(VECTOR_PAIR_CLASSES))
    sums, counts = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    for row, measure in enumerate(MEASURES):
        sums[row], counts[row] = _by_stratum(vectors, membership, frequency_class, measure)
    return FrequencyPairs(sums, counts)


def _by_stratum(
    vectors: np.ndarray, membership: np.ndarray, frequency_class: np.ndarray, measure: Measure
) -> tuple[np.ndarray, np.ndarray]:
    """Return [stratum, pair_class] the sums of one measure, and the numbers of pairs."""
    measured, kept = measured_vectors(vectors, measure)
    sets, set_of_word = np.unique(membership[kept], axis=0, return_inverse=True)
    cells, cell_of_word, sizes = np.unique(
        set_of_word.reshape(-1) * N_FREQUENCY_CLASSES + frequency_class[kept], return_inverse=True, return_counts=True
    )
    cell_of_word = cell_of_word.reshape(-1)
    totals = np.zeros((len(cells), vectors.shape[1]))
    np.add.at(totals, cell_of_word, measured)
    with_itself = np.bincount(cell_of_word, np.einsum("ij,ij->i", measured, measured), minlength=len(cells))
    topics, tenths = sets[cells // N_FREQUENCY_CLASSES].astype(np.float32), cells % N_FREQUENCY_CLASSES

    n_codes = N_FREQUENCY_STRATA * len(VECTOR_PAIR_CLASSES)
    sums, counts = np.zeros(n_codes), np.zeros(n_codes, dtype=np.int64)
    for start in range(0, len(cells), _TILE_ROWS):
        rows, columns = slice(start, start + _TILE_ROWS), slice(start, None)
        products = totals[rows] @ totals[columns].T
        n_pairs = np.outer(sizes[rows], sizes[columns])
        own = np.arange(len(products))
        products[own, own] = (products[own, own] - with_itself[rows]) / 2
        n_pairs[own, own] = sizes[rows] * (sizes[rows] - 1) // 2
        is_cross = topics[rows] @ topics[columns].T == 0
        code = frequency_stratum(tenths[rows, None], tenths[None, columns]) * len(VECTOR_PAIR_CLASSES) + is_cross
        once = np.triu(np.ones(products.shape, dtype=bool))
        sums += np.bincount(code[once], products[once], minlength=n_codes)
        np.add.at(counts, code[once], n_pairs[once])
    return sums.reshape(N_FREQUENCY_STRATA, -1), counts.reshape(N_FREQUENCY_STRATA, -1)
