"""Documents cut into passages.

LDA takes each passage for one mixture of topics. A long article is many of them, and one of 20 000
words would outweigh a hundred short ones if it were taken whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
