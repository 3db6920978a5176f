"""Pairs of words of one row as dense weights on its attention pattern: for one row at a time, as pictures need it.

Every sum over a class of pairs is linear in the pattern A: ``sum over query, key of A[query, key] *
weight[class, query, key]``, with the weights of :mod:`topic_probes.probes._labelled_pairs`. Uniform attention
A = 1/n gives exactly 1 for every pair, whatever the lengths and whatever the mask. The special column has weight
1 / pieces of Q on special keys: summed, the share of attention that goes to them, per query word.

The probes add up the same sums without these arrays (:mod:`topic_probes.probes._row_plan`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from .._axes import PAIR_CLASSES
from ..tokens import Window
from ..topics import TopicLabels
from ._labelled_pairs import token_pair_scale
from ._sides import Reach, Side, query_share


@dataclass(frozen=True)
class WordPairs:
    """The pair classes of one row, before anything is known about what its queries see."""

    query: Side
    key: Side
    """The same object as ``query``, except in cross-attention."""
    classes: Int[np.ndarray, "query_word key_word"]
    """[query word, key word] index into PAIR_CLASSES."""

    @property
    def window(self) -> Window:
        """The row of the queries."""
        return self.query.window


@dataclass(frozen=True)
class PairWeights:
    """Linear functionals of one row's pattern, and the numbers of pairs behind them."""

    weights: Float[np.ndarray, "functional query_pos key_pos"]
    """[functional, query_pos, key_pos] the pair classes, ``special``, then ``seen``: all attention of the queries."""
    counts: Int[np.ndarray, " column"]
    """[column] pairs of each class; query words for ``special``."""


def classify(
    window: Window, labels: TopicLabels, places: Int[np.ndarray, " pos"] | None = None, *, keys: Window | None = None
) -> WordPairs:
    """Return the class of every ordered pair of words of a row (docs/concepts.md, *Pairs*).

    Args:
        window: the row of the queries, and of the keys unless ``keys`` are given.
        labels: topics of words or of token ids.
        places: [pos] where the queries' tokens stand, for masks with holes.
        keys: the row of the keys in cross-attention.
    """
    query = Side.of(window, labels, places)
    key = query if keys is None else Side.of(keys, labels)
    query_number, key_number = word_numbers(query, key)
    query_topics, key_topics = (labels.membership(side.window.words).astype(np.float32) for side in (query, key))
    meet = np.greater(query_topics @ key_topics.T, 0)
    classes = np.where(meet, PAIR_CLASSES.index("same_topic"), PAIR_CLASSES.index("cross_topic"))
    query_labelled, key_labelled = (np.asarray(topics.any(axis=1)) for topics in (query_topics, key_topics))
    labelled = query_labelled[:, None] & key_labelled[None, :]
    classes[~labelled] = PAIR_CLASSES.index("no_topic")
    classes[query_number[:, None] == key_number[None, :]] = PAIR_CLASSES.index("same_token")
    return WordPairs(query, key, classes)


def word_numbers(query: Side, key: Side) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " key_word"]]:
    """Return a number for each word of either side: the same for the same word."""
    numbers: dict[str | int, int] = {}
    one, other = (
        np.array([numbers.setdefault(word, len(numbers)) for word in side.window.words], dtype=np.int64)
        for side in (query, key)
    )
    return one, other


def pair_weights(pairs: WordPairs, reach: Reach, usable: Bool[np.ndarray, " query_pos"] | None = None) -> PairWeights:
    """Return the weights of a row.

    Args:
        pairs: the words of the row and their classes.
        reach: what a query sees.
        usable: query positions that count; None for all.
    """
    query, key = pairs.query, pairs.key
    tokens, key_tokens = query.word_tokens, key.word_tokens
    scale, seen = token_pair_scale(query, key, tokens, key_tokens, reach, usable)
    of_words = np.ix_(tokens.token, key_tokens.token)
    class_of_tokens = pairs.classes[tokens.word][:, key_tokens.word]
    weights = np.zeros((len(PAIR_CLASSES) + 2, len(query), len(key)))
    for index in range(len(PAIR_CLASSES)):
        weights[index][of_words] = np.where(class_of_tokens == index, scale, 0.0)
    counts = np.zeros(len(PAIR_CLASSES) + 1, dtype=np.int64)
    counts[:-1] = np.bincount(pairs.classes[seen], minlength=len(PAIR_CLASSES))

    sees = reach.sees(query.places[:, None] - key.places[None, :])
    share, counts[-1] = query_share(query, usable)
    weights[-2] = share[:, None] * (sees & key.window.is_special[None, :])
    weights[-1] = share[:, None] * sees
    return PairWeights(weights, counts)
