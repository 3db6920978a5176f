"""The words of a row as queries and as keys, and which of their tokens see each other.

A row has two sides: the tokens that ask and the tokens that are asked. They are the same tokens in
an encoder or a decoder; in the cross-attention of an encoder-decoder they are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..tokens import Window
from ..topics import TopicLabels


class Reach(NamedTuple):
    """How far a query sees, in positions; None for everything."""

    back: int | None
    ahead: int | None

    def sees(self, offset: Int[np.ndarray, "*axes"]) -> Bool[np.ndarray, "*axes"]:
        """Return whether a query sees a key, by the place of the query minus that of the key."""
        seen = np.ones(offset.shape, dtype=np.bool_)
        if self.back is not None:
            seen &= offset <= self.back
        if self.ahead is not None:
            seen &= -offset <= self.ahead
        return seen


EVERYTHING = Reach(None, None)


class WordTokens(NamedTuple):
    """Tokens of some words, one after the other."""

    token: Int[np.ndarray, " piece"]
    """[piece] position of each token in the window."""
    word: Int[np.ndarray, " piece"]
    """[piece] which of the words it belongs to, counted among these words."""
    first: Int[np.ndarray, " word"]
    """[word] the first entry of each word."""
    pieces: Int[np.ndarray, " word"]
    """[word] number of tokens."""

    def sum_by_word(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return sums over the tokens of each word along an axis."""
        values = values.astype(np.int64)
        return np.add.reduceat(values, self.first, axis=axis) if len(self.first) else values


@dataclass(frozen=True)
class Side:
    """The tokens of a window, where they stand, and the labels of its words."""

    window: Window
    places: Int[np.ndarray, " pos"]
    """[pos] where the tokens stand among the model's positions; with holes if the mask has some."""
    rows: Int[np.ndarray, " word"]
    """[word] row of each word in the labels' table; -1 for an unlabelled one."""

    @classmethod
    def of(cls, window: Window, labels: TopicLabels, places: Int[np.ndarray, " pos"] | None = None) -> Side:
        """Return the side of a window; places are 0, 1, 2, ... unless given."""
        return cls(window, np.arange(len(window)) if places is None else places, labels.rows(window.words))

    def __len__(self) -> int:
        return len(self.window)

    @property
    def span(self) -> int:
        """Positions from the first token to the last, holes included."""
        return int(self.places[-1] - self.places[0]) + 1

    @cached_property
    def labelled(self) -> Int[np.ndarray, " labelled"]:
        """[labelled] numbers of the words with a label."""
        return np.flatnonzero(self.rows >= 0)

    @cached_property
    def is_split(self) -> bool:
        """Whether a word has several tokens."""
        return bool((self.window.stops - self.window.starts > 1).any())

    @cached_property
    def is_of_word(self) -> Bool[np.ndarray, " pos"]:
        """[pos] whether a token is a piece of a word that takes part."""
        change = np.zeros(len(self) + 1, dtype=np.int64)
        np.add.at(change, self.window.starts, 1)
        np.add.at(change, self.window.stops, -1)
        return np.greater(np.cumsum(change)[:-1], 0)

    def tokens_of(self, words: Int[np.ndarray, " word"]) -> WordTokens:
        """Return the tokens of the words with these numbers."""
        pieces = self.window.stops[words] - self.window.starts[words]
        first = np.cumsum(pieces) - pieces
        token = np.repeat(self.window.starts[words] - first, pieces) + np.arange(pieces.sum())
        return WordTokens(token, np.repeat(np.arange(len(words)), pieces), first, pieces)

    @cached_property
    def word_tokens(self) -> WordTokens:
        """The tokens of all words that take part."""
        return self.tokens_of(np.arange(len(self.window.words)))


def n_in_reach(
    query_places: Int[np.ndarray, " query_pos"], key_places: Int[np.ndarray, " key_pos"], reach: Reach
) -> Int[np.ndarray, " query_pos"]:
    """Return how many keys each query sees; key places must be sorted."""
    last, first = len(key_places), 0
    if reach.ahead is not None:
        last = np.searchsorted(key_places, query_places + reach.ahead, side="right")
    if reach.back is not None:
        first = np.searchsorted(key_places, query_places - reach.back, side="left")
    return np.broadcast_to(np.asarray(last - first), query_places.shape)


def query_share(
    query: Side, usable: Bool[np.ndarray, " query_pos"] | None
) -> tuple[Float[np.ndarray, " query_pos"], int]:
    """Return 1 / usable pieces of the word at each position, 0 where there is none, and the number of such words."""
    tokens = query.word_tokens
    counted = np.ones(len(query), dtype=np.bool_) if usable is None else usable
    pieces = tokens.sum_by_word(counted[tokens.token], axis=0)
    share = np.zeros(len(query))
    used = counted[tokens.token]
    share[tokens.token[used]] = 1.0 / pieces[tokens.word[used]]
    return share, int((pieces > 0).sum())
