"""The topics of a toy model's words, as a table, in whatever form they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Bool


def word_topics(topics: Any, n_words: int) -> Bool[np.ndarray, "word topic"]:
    """Return which topics each word carries.

    Args:
        topics: ``TopicLabels`` of token ids, or ``{word id: topic or topics}``, or one topic (or several) for each word
            in turn. A word that a mapping leaves out carries none.
        n_words: words of the vocabulary.

    Raises:
        TypeError: if it is none of these.
        ValueError: if a word id is outside the vocabulary, a topic is negative, or a sequence has another length.

    Examples:
        >>> word_topics([0, 0, 1], 3).astype(int).tolist()
        [[1, 0], [1, 0], [0, 1]]
    """
    topics = getattr(topics, "topics_of", topics)
    if hasattr(topics, "tolist"):
        topics = topics.tolist()
    if isinstance(topics, Mapping):
        pairs = list(topics.items())
    elif isinstance(topics, Sequence) and not isinstance(topics, (str, bytes)):
        if len(topics) != n_words:
            raise ValueError(f"topics must have one entry for each of the {n_words} words, got {len(topics)}")
        pairs = list(enumerate(topics))
    else:
        raise TypeError(f"topics must be {{word id: topic}}, a topic for each word, or TopicLabels, got {topics!r:.60}")
    sets = {_word(word, n_words): _topics(word, given) for word, given in pairs}
    n_topics = 1 + max((topic for found in sets.values() for topic in found), default=0)
    table = np.zeros((n_words, n_topics), dtype=np.bool_)
    for word, found in sets.items():
        table[word, found] = True
    return table


def _word(word: Any, n_words: int) -> int:
    if isinstance(word, bool) or not isinstance(word, Integral):
        raise TypeError(f"topics of a toy model must be keyed by word ids (whole numbers), got {word!r}")
    if not 0 <= int(word) < n_words:
        raise ValueError(f"word ids of topics must be in 0 .. {n_words - 1}, got {word}")
    return int(word)


def _topics(word: Any, given: Any) -> list[int]:
    several = [given] if isinstance(given, Integral) else given
    if isinstance(several, (str, bytes)) or not isinstance(several, Iterable):
        raise TypeError(f"topics of word {word} must be a whole number or several, got {given!r}")
    found = list(several)
    if not all(isinstance(topic, Integral) and not isinstance(topic, bool) for topic in found):
        raise TypeError(f"topics of word {word} must be whole numbers, got {given!r}")
    if any(topic < 0 for topic in found):
        raise ValueError(f"topics of word {word} must be at least 0, got {given!r}: leave a word without topic out")
    return sorted({int(topic) for topic in found})


def pairs_of_words(table: Bool[np.ndarray, "word topic"]) -> tuple[np.ndarray, np.ndarray]:
    """Return [word, word] which pairs of different words share a topic, and which have topics and share none."""
    labelled: np.ndarray = np.any(table, axis=1)
    both = labelled[:, None] & labelled[None, :] & ~np.eye(len(table), dtype=np.bool_)
    meet = (table.astype(np.float64) @ table.T.astype(np.float64)) > 0
    return both & meet, both & ~meet
