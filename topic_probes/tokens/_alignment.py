"""Words in context: which tokens spell which word.

A word takes part if its tokens spell it exactly: the first begins where it begins, the last ends
where it ends, with no gap. ``##s`` after ``cat`` therefore makes ``cat`` no word (the word there is
``cats``), and a token that holds more than the word (``'t``, ``word.``) belongs to no word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from .._words import find_words
from ._text import TokenizedText, without_spaces


@dataclass(frozen=True)
class AlignedWords:
    """The words of a text that its tokens spell, in order. Each has at least one token, and no two share one."""

    words: tuple[str, ...]
    starts: Int[np.ndarray, " word"]
    """[word] position of the first token."""
    stops: Int[np.ndarray, " word"]
    """[word] position after the last token."""
    n_found: int
    """Words in the text, spelled by tokens or not."""


def align_words(tokenized: TokenizedText) -> AlignedWords:
    """Return the words whose tokens spell them exactly, of one token or of several.

    Spaces at either end of a token (byte-level BPE, SentencePiece) are not part of what it spells.
    """
    words = find_words(tokenized.text)
    spans = without_spaces(tokenized.text, tokenized.spans)
    spelling = np.flatnonzero(spans[:, 1] > spans[:, 0])
    empty = np.zeros(0, dtype=np.int64)
    if not words or len(spelling) == 0:
        return AlignedWords((), empty, empty, len(words))
    starts, ends = spans[spelling].T
    word_starts = np.array([word.start for word in words])
    word_ends = np.array([word.end for word in words])

    first = np.searchsorted(ends, word_starts, side="right")
    stop = np.searchsorted(starts, word_ends, side="left")
    inside = np.minimum(first, len(spelling) - 1), np.clip(stop - 1, 0, None)
    exact = (stop > first) & (starts[inside[0]] == word_starts) & (ends[inside[1]] == word_ends)
    # Characters without a token between two tokens of a word, counted up to each token.
    gaps = np.concatenate([[0], np.cumsum(starts[1:] > ends[:-1])])
    exact &= gaps[inside[1]] == gaps[inside[0]]
    first_position, last_position = spelling[inside[0]], spelling[inside[1]]
    exact &= last_position - first_position == stop - 1 - first
    unreadable = np.concatenate([[0], np.cumsum(~tokenized.is_readable)])
    exact &= unreadable[last_position + 1] == unreadable[first_position]

    kept = np.flatnonzero(exact)
    return AlignedWords(
        tuple(words[number].word for number in kept.tolist()),
        first_position[kept],
        last_position[kept] + 1,
        len(words),
    )
