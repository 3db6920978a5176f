"""Similarity of words in context, layer by layer: sums that merge exactly, and what they say.

The words of one row (a document, or a window of a long one) are compared with each other, never with
those of another row (docs/science.md, *Embeddings and the residual stream*). Count, sum and sum of squared
deviations of each measure are kept by layer, group of documents and pair class; two such sets of
numbers merge by the update of Chan, Golub and LeVeque (1979), so memory does not depend on the corpus.

Two estimators:

*pooled*: the mean over all pairs of a class. Documents with one topic speak mostly for same-topic pairs and mixed
ones for cross-topic pairs, so whatever documents differ in looks like topic.

*within_document*: each row has a mean for each class, and both are averaged over rows with the same weights, those
of Mantel and Haenszel (docs/science.md, *Estimators*)::

    sum over rows of  w S/s  /  sum over rows of w ,    and the same of C/c ,    w = s c / (s + c)

with S and C a row's sums over its s same-topic and c cross-topic pairs. The difference of the two is the difference
inside rows, blind to what rows differ in. Rows without one of the classes have no say.

Intervals are those of attention (:mod:`topic_probes.statistics._intervals`): groups of documents vary, not pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Num

from .._validation import require_one_of
from ._by_group import divide
from ._intervals import DEFAULT_METHOD, MIN_GROUPS, N_RESAMPLES, ConfidenceInterval, Statistic, interval
from ._sums import N_GROUPS
from ._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES

EMBEDDING_LAYER = -1
"""The number of the stream before the first layer, in results and tables."""

ESTIMATORS = ("pooled", "within_document")
"""Ways to average over pairs: all alike, or row by row."""

ARRAYS = ("counts", "sums", "squares", "row_weights", "row_sums", "n_rows", "n_words", "n_not_finite")
"""The arrays of :class:`LayerPairs`, by which it is saved."""


@dataclass(eq=False)
class LayerPairs:
    """Similarities of pairs of words within rows, per layer, group of documents, measure and pair class.

    Rows of a measure follow :data:`MEASURES`, of a class :data:`VECTOR_PAIR_CLASSES`. Pairs are unordered.
    """

    layers: tuple[int, ...]
    """Layer numbers; -1 is the stream before the first layer."""
    counts: Int[np.ndarray, "layer group measure pair_class"]
    """[layer, group, measure, pair_class] numbers of pairs."""
    sums: Float[np.ndarray, "layer group measure pair_class"]
    """[layer, group, measure, pair_class] sums of the measure over these pairs."""
    squares: Float[np.ndarray, "layer group measure pair_class"]
    """[layer, group, measure, pair_class] sums of squared deviations from the group's own mean."""
    row_weights: Float[np.ndarray, "layer group measure"]
    """[layer, group, measure] sums over rows of w = s c / (s + c)."""
    row_sums: Float[np.ndarray, "layer group measure pair_class"]
    """[layer, group, measure, pair_class] sums over rows of w times the row's mean."""
    n_rows: Int[np.ndarray, " group"]
    """[group] rows with at least one pair."""
    n_words: Int[np.ndarray, " group"]
    """[group] labelled words of these rows; a word counts as often as it stands there."""
    n_not_finite: Int[np.ndarray, " layer"]
    """[layer] words left out because their vector has an infinity or NaN in it (half precision overflows)."""

    @classmethod
    def empty(cls, layers: Sequence[int], n_groups: int = N_GROUPS) -> LayerPairs:
        """Return the sums of nothing."""
        shape = (len(layers), n_groups, len(MEASURES), len(VECTOR_PAIR_CLASSES))
        return cls(
            tuple(layers),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape[:-1]),
            np.zeros(shape),
            np.zeros(n_groups, dtype=np.int64),
            np.zeros(n_groups, dtype=np.int64),
            np.zeros(len(layers), dtype=np.int64),
        )

    def update(
        self,
        layer: int,
        group: int,
        counts: Int[np.ndarray, "measure pair_class"],
        sums: Float[np.ndarray, "measure pair_class"],
        squares: Float[np.ndarray, "measure pair_class"],
        *,
        n_not_finite: int = 0,
    ) -> None:
        """Add one row's pairs at one layer; ``squares`` are deviations from the row's own means."""
        at = self.layers.index(layer), group
        between = _between(self.counts[at], self.sums[at], counts, sums)
        self.counts[at] += counts
        self.sums[at] += sums
        self.squares[at] += squares + between
        both = (counts > 0).all(axis=1)
        means = divide(sums, counts)[both]
        weights = counts[both, 0] * (counts[both, 1] / counts[both].sum(axis=1))
        self.row_weights[at][both] += weights
        self.row_sums[at][both] += weights[:, None] * means
        self.n_not_finite[at[0]] += n_not_finite

    def add_row(self, group: int, n_words: int) -> None:
        """Count one row and its labelled words, once for all layers."""
        self.n_rows[group] += 1
        self.n_words[group] += n_words

    def merge(self, other: LayerPairs) -> LayerPairs:
        """Return the sums of both, as if one run had seen both corpora.

        Raises:
            ValueError: if they are of different layers or groups.
        """
        if self.layers != other.layers or self.counts.shape != other.counts.shape:
            raise ValueError(
                f"only sums of the same layers can be merged, got layers {self.layers} and layers {other.layers}"
            )
        between = _between(self.counts, self.sums, other.counts, other.sums)
        return LayerPairs(
            self.layers,
            self.counts + other.counts,
            self.sums + other.sums,
            self.squares + other.squares + between,
            self.row_weights + other.row_weights,
            self.row_sums + other.row_sums,
            self.n_rows + other.n_rows,
            self.n_words + other.n_words,
            self.n_not_finite + other.n_not_finite,
        )

    @property
    def n_pairs(self) -> Int[np.ndarray, "layer measure pair_class"]:
        """[layer, measure, pair_class] numbers of unordered pairs."""
        return self.counts.sum(axis=1)

    @property
    def mean(self) -> Float[np.ndarray, "layer measure pair_class"]:
        """[layer, measure, pair_class] means over the pairs; NaN where there is none."""
        return divide(self.sums.sum(axis=1), self.n_pairs)

    @property
    def std(self) -> Float[np.ndarray, "layer measure pair_class"]:
        """[layer, measure, pair_class] population standard deviations over the pairs; NaN where there is none."""
        offsets = np.where(self.counts > 0, divide(self.sums, self.counts) - self.mean[:, None], 0.0)
        squares = (self.squares + self.counts * offsets**2).sum(axis=1)
        return np.sqrt(divide(squares, self.n_pairs))

    def means(self, estimator: str) -> Float[np.ndarray, "layer measure pair_class"]:
        """[layer, measure, pair_class] means, ``pooled`` or ``within_document``; NaN where there is none.

        Raises:
            ValueError: for another estimator.
        """
        require_one_of("estimator", estimator, ESTIMATORS)
        if estimator == "pooled":
            return self.mean
        return divide(self.row_sums.sum(axis=1), self.row_weights.sum(axis=1)[..., None])

    def intervals(
        self,
        estimator: str,
        level: float,
        seed: int,
        method: str = DEFAULT_METHOD,
        n_resamples: int = N_RESAMPLES,
    ) -> tuple[ConfidenceInterval, ConfidenceInterval]:
        """Return intervals over groups of documents, of the means and of their difference.

        Of the means both ends are [layer, measure, pair_class], of same-topic minus cross-topic [layer, measure].
        NaN for a measure of which fewer than 8 groups have pairs of one of the two classes, or, within documents, a
        row with pairs of both.
        """
        require_one_of("estimator", estimator, ESTIMATORS)
        low, high = np.full((2, len(self.layers), len(MEASURES), len(VECTOR_PAIR_CLASSES) + 1), np.nan)
        for layer, measure in np.ndindex(low.shape[:2]):
            sums, weights = self.row_sums[layer, :, measure], self.row_weights[layer, :, measure, None]
            if estimator == "pooled":
                sums, weights = self.sums[layer, :, measure], self.counts[layer, :, measure]
            used = np.flatnonzero(weights.any(axis=1))
            sums, weights = sums[used], weights[used]
            if int((weights > 0).sum(axis=0).min()) >= MIN_GROUPS:
                low[layer, measure], high[layer, measure] = interval(
                    _means_and_difference(sums, weights),
                    len(used),
                    level=level,
                    method=method,
                    n_resamples=n_resamples,
                    seed=seed,
                    of_ratio=False,
                    shares=(weights / weights.sum(axis=0)).mean(axis=1),
                )
        return ConfidenceInterval(low[..., :-1], high[..., :-1]), ConfidenceInterval(low[..., -1], high[..., -1])


def _means_and_difference(
    sums: Float[np.ndarray, "group pair_class"], weights: Num[np.ndarray, "group pair_class_or_one"]
) -> Statistic:
    """Return the statistic [draw, 3]: the means of both classes, and the first less the second."""

    def statistic(draws: np.ndarray) -> np.ndarray:
        means = divide(draws @ sums, draws @ weights)
        return np.column_stack([means, means[:, 0] - means[:, 1]])

    return statistic


def _between(
    one_counts: np.ndarray, one_sums: np.ndarray, other_counts: np.ndarray, other_sums: np.ndarray
) -> np.ndarray:
    """Return what is added to the squared deviations of two sets of values when they become one."""
    both = (one_counts > 0) & (other_counts > 0)
    step = np.where(both, divide(one_sums, one_counts) - divide(other_sums, other_counts), 0.0)
    # Counts as floats: the product of two large ones has no room in an integer.
    weight = one_counts * (other_counts / np.maximum(one_counts + other_counts, 1))
    return step**2 * weight
