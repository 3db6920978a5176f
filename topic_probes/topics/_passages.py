"""Documents cut into passages, and passages as bags of words.

LDA takes each passage for one mixture of topics. A long article is many of them, and one of 20 000
words would outweigh a hundred short ones if it were taken whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

PASSAGE_WORDS = 200
"""Running words of a passage unless told otherwise: some paragraphs, which mostly keep to a subject or two."""


def cut_passages(words: Sequence[str], passage_words: int | None) -> list[Sequence[str]]:
    """Cut a document into the fewest passages of at most ``passage_words`` words, as equal in length as can be.

    With None the document is one passage. A document without words has none.

    Examples:
        >>> cut_passages("a b c d e".split(), 2)
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    if not words:
        return []
    n_passages = 1 if passage_words is None else -(-len(words) // passage_words)
    short, n_long = divmod(len(words), n_passages)
    starts = [number * short + min(number, n_long) for number in range(n_passages + 1)]
    return [words[start:stop] for start, stop in itertools.pairwise(starts)]


@dataclass(frozen=True, eq=False)
class Bags:
    """Passages as bags of words in three arrays; iterated, each is a list of (word, count), as gensim reads them."""

    words: Int[np.ndarray, " entry"]
    """[entry] word index."""
    counts: Int[np.ndarray, " entry"]
    """[entry] how often it stands in its passage."""
    starts: Int[np.ndarray, " passage_and_end"]
    """[passage + 1] first entry of each passage, and the end."""
    on_passage: Callable[[], object] | None = None
    """Called whenever a passage is handed out (a progress bar)."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            yield list(zip(self.words[start:stop].tolist(), self.counts[start:stop].tolist(), strict=True))
            if self.on_passage is not None:
                self.on_passage()

    def n_words(self) -> Int[np.ndarray, " passage"]:
        """Return [passage] the number of words, repeated ones counted as often as they stand there."""
        return np.diff(np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])[self.starts])

    def passage_frequencies(self, n_words: int) -> Int[np.ndarray, " word"]:
        """Return [word] in how many passages each of ``n_words`` words stands."""
        return np.bincount(self.words, minlength=n_words)

    def word_frequencies(self, n_words: int) -> Int[np.ndarray, " word"]:
        """Return [word] how often each of ``n_words`` words stands in all passages."""
        totals = np.zeros(n_words, dtype=np.int64)
        np.add.at(totals, self.words, self.counts)
        return totals

    def take(self, passages: Int[np.ndarray, " chosen"]) -> Bags:
        """Return the chosen passages, in that order."""
        sizes = np.diff(self.starts)[passages]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.starts[:-1][passages] - starts[:-1], sizes) + np.arange(starts[-1])
        return Bags(self.words[entries], self.counts[entries], starts)

    def rename(self, new_index: Int[np.ndarray, " word"]) -> Bags:
        """Return the bags with word ``w`` called ``new_index[w]``; entries of words that become -1 are dropped."""
        words = new_index[self.words]
        kept = words >= 0
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        return Bags(words[kept], self.counts[kept], starts)

    @classmethod
    def of(cls, passages: Iterator[Sequence[int]]) -> Bags:
        """Return the bags of passages that are sequences of word indices."""
        words: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        for passage in passages:
            # 4 bytes a word: the bags of a whole corpus stay in memory through all passes of the fit
            word, count = np.unique(np.asarray(passage, dtype=np.int32), return_counts=True)
            words.append(word)
            counts.append(count.astype(np.int32))
        starts = np.cumsum([0, *map(len, words)])
        empty = [np.zeros(0, dtype=np.int32)]
        return cls(np.concatenate(words or empty), np.concatenate(counts or empty), starts)
