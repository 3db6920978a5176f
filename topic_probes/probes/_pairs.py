"""Pairs of words of one row as weights on its attention pattern.

Every number that the probe reports is linear in the pattern A: the sum over the pairs of a class of
debiased attention is ``sum over query, key of A[query, key] * weight[class, query, key]``. For a query
word Q and a key word K the debiased attention is (science: sections 2 and 4)

    mean over the query's pieces q that see K of  ( sum over pieces k of K of A[q, k] ) / ( p / n )

with n the keys that q sees and p the pieces of K among them, so the weight of a token pair is
``n / (p * number of such q)``. Under ``whole`` it is n. Uniform attention A = 1/n gives exactly 1 for
every pair, whatever the lengths and whatever the mask. The special column has weight 1 / pieces of Q
on special keys: summed, the share of attention that goes to them, per query word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from .._axes import PAIR_CLASSES
from ..statistics._sums import COLUMNS
from ..tokens import Window
from ..topics import TopicLabels


@dataclass(frozen=True)
class WordPairs:
    """The pair classes of one row, before anything is known about what its queries see."""

    window: Window
    classes: Int[np.ndarray, "query_word key_word"]
    """[query word, key word] index into PAIR_CLASSES."""
    places: Int[np.ndarray, " pos"] | None = None
    """[pos] where the tokens stand among the model's positions; None for 0, 1, 2, ... (no holes in the mask)."""

    @property
    def span(self) -> int:
        """Positions from the first token to the last, holes included."""
        if self.places is None:
            return len(self.window)
        return int(self.places[-1] - self.places[0]) + 1

    @property
    def is_of_word(self) -> Bool[np.ndarray, " pos"]:
        """[pos] whether a token is a piece of a word that takes part."""
        change = np.zeros(len(self.window) + 1, dtype=np.int64)
        np.add.at(change, self.window.starts, 1)
        np.add.at(change, self.window.stops, -1)
        return np.greater(np.cumsum(change)[:-1], 0)


@dataclass(frozen=True)
class PairWeights:
    """Linear functionals of one row's pattern, and the numbers of pairs behind them."""

    weights: Float[np.ndarray, "functional query_pos key_pos"]
    """[functional, query_pos, key_pos] the columns of the sums, then ``seen``: all attention of the queries."""
    counts: Int[np.ndarray, " column"]
    """[column] pairs of each class; query words for ``special``."""


def classify(window: Window, labels: TopicLabels, places: Int[np.ndarray, " pos"] | None = None) -> WordPairs:
    """Return the class of every ordered pair of words of a row (science: section 3)."""
    number_of: dict[str | int, int] = {}
    numbers = np.array([number_of.setdefault(word, len(number_of)) for word in window.words], dtype=np.int64)
    member = labels.membership(window.words)
    labelled = np.asarray(member.any(axis=1))
    topics = member.astype(np.float32)
    meet = np.greater(topics @ topics.T, 0)
    classes = np.where(meet, PAIR_CLASSES.index("same_topic"), PAIR_CLASSES.index("cross_topic"))
    classes[~(labelled[:, None] & labelled[None, :])] = PAIR_CLASSES.index("no_topic")
    classes[numbers[:, None] == numbers[None, :]] = PAIR_CLASSES.index("same_token")
    return WordPairs(window, classes, places)


def pair_weights(
    pairs: WordPairs, back: int, ahead: int, usable_rows: Bool[np.ndarray, " pos"] | None = None
) -> PairWeights:
    """Return the weights of a row whose queries see ``back`` keys behind and ``ahead`` keys before them.

    Args:
        pairs: the words of the row and their classes.
        back: reach of a query behind it, in positions.
        ahead: reach before it.
        usable_rows: query positions that count; None for all.
    """
    window = pairs.window
    length, n_words = len(window), len(window.words)
    places = np.arange(length) if pairs.places is None else pairs.places
    offset = places[:, None] - places[None, :]
    sees = (offset <= back) & (-offset <= ahead)
    if usable_rows is not None:
        sees &= usable_rows[:, None]
    n_seen = sees.sum(axis=1)

    pieces = window.stops - window.starts
    first = np.cumsum(pieces) - pieces
    token = np.repeat(window.starts - first, pieces) + np.arange(pieces.sum())
    word = np.repeat(np.arange(n_words), pieces)
    sees_word = _sum_by_word(sees[:, token], first, axis=1)
    rows_that_see = _sum_by_word(sees_word[token] > 0, first, axis=0)

    with np.errstate(divide="ignore", invalid="ignore"):  # where a word is not seen
        scale = n_seen[token][:, None] / (sees_word[token][:, word] * rows_that_see[word][:, word])
    scale = np.where(sees[np.ix_(token, token)], scale, 0.0)
    class_of_tokens = pairs.classes[word][:, word]

    weights = np.zeros((len(COLUMNS) + 1, length, length))
    for index in range(len(PAIR_CLASSES)):
        weights[index][np.ix_(token, token)] = np.where(class_of_tokens == index, scale, 0.0)
    counts = np.zeros(len(COLUMNS), dtype=np.int64)
    counts[: len(PAIR_CLASSES)] = np.bincount(pairs.classes[rows_that_see > 0], minlength=len(PAIR_CLASSES))

    rows_used = np.ones(length, dtype=bool) if usable_rows is None else usable_rows
    usable_pieces = _sum_by_word(rows_used[token], first, axis=0)
    share = np.zeros(length)
    used_tokens = token[rows_used[token]]
    share[used_tokens] = 1.0 / usable_pieces[word[rows_used[token]]]
    weights[-2] = share[:, None] * (sees & window.is_special[None, :])
    weights[-1] = share[:, None] * sees
    counts[-1] = int((usable_pieces > 0).sum())
    return PairWeights(weights, counts)


def _sum_by_word(values: np.ndarray, first: np.ndarray, axis: int) -> np.ndarray:
    """Return sums over the tokens of each word along an axis; ``first`` are the words' first entries on it."""
    values = values.astype(np.int64)
    return np.add.reduceat(values, first, axis=axis) if len(first) else values
