"""Similarity of word vectors, same-topic against cross-topic: exact over all pairs of words.

The measures of a pair of words i != j with vectors e_i, e_j (docs/science.md,
*Embeddings and the residual stream*):

``dot``             ``e_i . e_j``
``cosine``          ``e_i . e_j / (|e_i| |e_j|)``
``centred_cosine``  the cosine after the mean vector of the words is taken off; embeddings share a
                    large common direction, which makes any two of them look similar

A pair is ``same_topic`` when the topic sets of its words meet, else ``cross_topic``. A pair counts
once, also when its words meet in several topics; pairs are unordered, ``n (n - 1) / 2`` of n words.

Nothing is sampled, and no word-by-word matrix is held. Two ways lead to the same numbers:

*Blocks.* The matrix of all pairs is walked through in tiles; each tile gives count, mean and sum of
squared deviations of its class, and these merge exactly (Chan, Golub and LeVeque 1979).

*Moments.* For many words, all pairs at once come from sums over words. Write ``e_i = m + f_i`` with m
the mean and ``a_i = m . f_i``; then ``e_i . e_j - |m|^2 = x_i . y_j`` with ``x_i = (f_i, a_i, 1)`` and
``y_i = (f_i, 1, a_i)``, hence::

    sum over all i, j of  x_i . y_j       = (sum of x) . (sum of y)
    sum over all i, j of (x_i . y_j)^2    = <X^T X, Y^T Y>

minus the terms with i = j. Taking ``|m|^2`` off first is what keeps the digits when all similarities
lie close together. Only pairs that share a topic are then walked through; the rest is cross-topic.

What the numbers do not show: words of one topic also share frequency and part of speech, so a
difference is no proof of a topic. Pairs of one word depend on each other: the standard deviation
describes the pairs, and is not an error of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._validation import require_one_of

Measure = Literal["dot", "cosine", "centred_cosine"]
MEASURES: tuple[Measure, ...] = ("dot", "cosine", "centred_cosine")

VectorPairClass = Literal["same_topic", "cross_topic"]
VECTOR_PAIR_CLASSES: tuple[VectorPairClass, ...] = ("same_topic", "cross_topic")

# Up to this many words the blocks take about a second, and they keep every digit even where a class
# hardly varies at all (the blocks of a toy model); the moments pay off above.
_WALK_ALL_PAIRS_UP_TO = 4096
_TILE_ROWS, _TILE_COLUMNS = 256, 8192
# After the mean was taken off, a vector of no more than this many roundings is zero.
_ROUNDINGS = 64


@dataclass(frozen=True)
class VectorPairs:
    """Similarities of all pairs of words, per measure and pair class.

    Rows follow :data:`MEASURES`, columns :data:`VECTOR_PAIR_CLASSES`. A class without pairs has NaN
    and the count 0.
    """

    mean: Float[np.ndarray, "measure pair_class"]
    """[measure, pair_class] mean over the pairs."""
    std: Float[np.ndarray, "measure pair_class"]
    """[measure, pair_class] population standard deviation over the pairs (divided by n, not n - 1)."""
    n_pairs: Int[np.ndarray, "measure pair_class"]
    """[measure, pair_class] number of unordered pairs i != j."""
    n_words: int
    """Number of words that were handed in."""
    n_without_direction: Int[np.ndarray, " measure"]
    """[measure] words left out because their vector is zero, so that no cosine exists; always 0 for ``dot``."""


def pair_moments(vectors: Float[np.ndarray, "word d_model"], membership: Bool[np.ndarray, "word topic"]) -> VectorPairs:
    """Return mean and standard deviation of every measure over all same-topic and all cross-topic pairs.

    Args:
        vectors: [word, d_model] one vector per labelled word, of any float type; computed in float64.
        membership: [word, topic] which topics each word carries, at least one each.

    Returns:
        The statistics. A zero vector has no cosine: its word is left out of ``cosine``, and a word whose
        vector equals the mean is left out of ``centred_cosine``; both are counted. The mean vector is
        that of all words handed in, weighted equally.

    Raises:
        ValueError: if a vector is not finite, a word has no topic, or the lengths differ.

    Examples:
        >>> import numpy as np
        >>> vectors = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> pairs = pair_moments(vectors, np.array([[True, False], [True, False], [False, True]]))
        >>> pairs.mean[0].tolist(), pairs.n_pairs[0].tolist()
        ([2.0, 0.0], [1, 2])
    """
    vectors, membership = checked_words(vectors, membership)
    mean = np.full((len(MEASURES), len(VECTOR_PAIR_CLASSES)), np.nan)
    std, n_pairs = mean.copy(), np.zeros(mean.shape, dtype=np.int64)
    n_without_direction = np.zeros(len(MEASURES), dtype=np.int64)
    for row, measure in enumerate(MEASURES):
        measured, kept = measured_vectors(vectors, measure)
        n_without_direction[row] = len(vectors) - kept.sum()
        for column, moments in enumerate(_by_class(measured, membership[kept])):
            n_pairs[row, column] = moments.count
            if moments.count:
                mean[row, column] = moments.mean
                std[row, column] = np.sqrt(moments.squares / moments.count)
    return VectorPairs(mean, std, n_pairs, len(vectors), n_without_direction)


def topic_gram(
    vectors: Float[np.ndarray, "word d_model"], membership: Bool[np.ndarray, "word topic"], measure: Measure = "cosine"
) -> Float[np.ndarray, "topic topic"]:
    """Return the mean of a measure between the words of each two topics, for a picture of blocks.

    Entry ``[a, b]`` is the mean over ordered pairs of different words, the first with topic a, the second
    with topic b. It is NaN where there is no such pair: an empty topic, or one word alone on the diagonal.

    Args:
        vectors: [word, d_model] one vector per labelled word.
        membership: [word, topic] which topics each word carries.
        measure: one of :data:`MEASURES`.

    Raises:
        ValueError: as :func:`pair_moments`, or for another measure.

    Examples:
        >>> import numpy as np
        >>> vectors = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> topic_gram(vectors, np.array([[True, False], [True, False], [False, True]]), "dot").tolist()
        [[2.0, 0.0], [0.0, nan]]
    """
    require_one_of("measure", measure, MEASURES)
    vectors, membership = checked_words(vectors, membership)
    measured, kept = measured_vectors(vectors, measure)
    weights = membership[kept].astype(np.float64)
    sums = weights.T @ measured
    with_itself = (weights * np.einsum("ij,ij->i", measured, measured)[:, None]).T @ weights
    counts = np.outer(weights.sum(0), weights.sum(0)) - weights.T @ weights
    gram = np.full(counts.shape, np.nan)
    np.divide(sums @ sums.T - with_itself, counts, out=gram, where=counts > 0)
    return gram


class _Moments(NamedTuple):
    """Count, mean, and sum of squared deviations from that mean."""

    count: int
    mean: float
    squares: float

    def merge(self, other: _Moments) -> _Moments:
        """Return the moments of both sets of values together."""
        count = self.count + other.count
        if not count:
            return self
        step = other.mean - self.mean
        return _Moments(
            count,
            self.mean + step * (other.count / count),
            self.squares + other.squares + step**2 * (self.count * (other.count / count)),
        )

    def without(self, part: _Moments) -> _Moments:
        """Return the moments of the values that are left when ``part`` of them is taken away."""
        count = self.count - part.count
        if not count:
            return _NOTHING
        mean = self.mean + (self.mean - part.mean) * (part.count / count)
        between = (part.mean - mean) ** 2 * (count * (part.count / self.count))
        return _Moments(count, mean, max(self.squares - part.squares - between, 0.0))


_NOTHING = _Moments(0, 0.0, 0.0)


def checked_words(vectors: np.ndarray, membership: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors in float64, and the membership, or raise ValueError as :func:`pair_moments` says."""
    vectors = np.asarray(vectors, dtype=np.float64)
    if len(vectors) != len(membership):
        raise ValueError(
            f"membership must have one row per vector, got {len(membership)} rows for {len(vectors)} vectors"
        )
    if not np.isfinite(vectors).all():
        first = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise ValueError(f"vectors must be finite, got NaN or infinity in row {first}")
    if not membership.any(axis=1).all():
        first = int(np.argmin(membership.any(axis=1)))
        raise ValueError(f"membership must give each word a topic, row {first} has none: leave unlabelled words out")
    return vectors, membership


def measured_vectors(vectors: np.ndarray, measure: Measure) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors whose dot products are the measure, and which words they are of."""
    if measure == "dot" or not len(vectors):
        return vectors, np.ones(len(vectors), dtype=bool)
    # Scaling first keeps norms of extreme vectors from over- or underflowing; a cosine does not see it.
    vectors = vectors / (np.abs(vectors).max() or 1.0)
    rounding = np.zeros(len(vectors))
    if measure == "centred_cosine":
        # Both the word and the mean, hence all other words, bring their rounding.
        norms = np.linalg.norm(vectors, axis=1)
        rounding = _ROUNDINGS * np.finfo(np.float64).eps * (norms + norms.mean())
        vectors, _ = _centred(vectors)
    norms = np.linalg.norm(vectors, axis=1)
    kept = norms > rounding
    return vectors[kept] / norms[kept, None], kept


def _centred(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors without their mean, and the mean."""
    # The mean of many rows is itself rounded; the second time only that rounding is left to take off.
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    rest = centred.mean(axis=0)
    centred -= rest
    return centred, mean + rest


def _by_class(vectors: np.ndarray, membership: np.ndarray) -> tuple[_Moments, _Moments]:
    """Return the moments of the dot products of same-topic and of cross-topic pairs."""
    n_words, width = vectors.shape
    if n_words < 2:
        return _NOTHING, _NOTHING
    if n_words <= _WALK_ALL_PAIRS_UP_TO or _walking_is_cheaper(n_words, width, membership.sum(axis=0)):
        return _walk(vectors, membership)
    same = _walk_topics(vectors, membership)
    return same, _all_pairs(vectors).without(same)


def _walking_is_cheaper(n_words: int, width: int, topic_sizes: np.ndarray) -> bool:
    # Moments cost n d^2 where all pairs cost n^2 d / 2; and pairs that share a topic are walked through anyway.
    return bool(2 * width >= n_words or (topic_sizes.astype(np.float64) ** 2).sum() > n_words**2 / 2)


def _walk(vectors: np.ndarray, membership: np.ndarray) -> tuple[_Moments, _Moments]:
    """Return the moments of both classes, tile by tile of all pairs."""
    same = cross = _NOTHING
    topics = membership.astype(np.float32)
    for rows, columns, later in _tiles(len(vectors)):
        gram = vectors[rows] @ vectors[columns].T
        meet = topics[rows] @ topics[columns].T > 0
        same = same.merge(_moments(gram[later & meet]))
        cross = cross.merge(_moments(gram[later & ~meet]))
    return same, cross


def _walk_topics(vectors: np.ndarray, membership: np.ndarray) -> _Moments:
    """Return the moments of the pairs that share a topic, topic by topic: each pair at the first one it shares."""
    same = _NOTHING
    for topic in range(membership.shape[1]):
        members = np.flatnonzero(membership[:, topic])
        of_topic = vectors[members]
        before = membership[members, :topic]
        before = before[:, before.any(axis=0)].astype(np.float32)
        for rows, columns, wanted in _tiles(len(members)):
            if before.size:
                wanted &= before[rows] @ before[columns].T == 0
            same = same.merge(_moments((of_topic[rows] @ of_topic[columns].T)[wanted]))
    return same


def _tiles(n_words: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield rows, columns, and [row, column] where the second word comes after the first: each pair once."""
    for start in range(0, n_words, _TILE_ROWS):
        rows = slice(start, min(start + _TILE_ROWS, n_words))
        for first in range(start, n_words, _TILE_COLUMNS):
            columns = slice(first, min(first + _TILE_COLUMNS, n_words))
            yield rows, columns, np.arange(columns.start, columns.stop) > np.arange(rows.start, rows.stop)[:, None]


def _moments(values: np.ndarray) -> _Moments:
    if not values.size:
        return _NOTHING
    mean = values.mean()
    deviations = values - mean
    # The mean is rounded; what that leaves in the deviations is put back.
    left = deviations.mean()
    deviations -= left
    return _Moments(values.size, float(mean + left), float(np.dot(deviations, deviations)))


def _all_pairs(vectors: np.ndarray) -> _Moments:
    """Return the moments of the dot products of all pairs, from sums over words (see the module's text)."""
    n_words, width = vectors.shape
    centred, mean = _centred(vectors)
    x = np.column_stack([centred, centred @ mean, np.ones(n_words)])
    swapped = np.r_[:width, width + 1, width]  # y is x with its last two coordinates swapped
    with_itself = np.einsum("ij,ij->i", centred, centred) + 2 * x[:, width]
    sum_x, gram_x = x.sum(axis=0), x.T @ x
    count = n_words * (n_words - 1) // 2
    deviation = (sum_x @ sum_x[swapped] - with_itself.sum()) / (2 * count)
    squares = (np.vdot(gram_x, gram_x[np.ix_(swapped, swapped)]) - np.dot(with_itself, with_itself)) / 2
    return _Moments(count, float(mean @ mean + deviation), float(squares - count * deviation**2))
