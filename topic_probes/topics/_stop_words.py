"""Words that carry no topic: articles, pronouns, auxiliaries, and what the word rule leaves of longer ones."""

from __future__ import annotations

from collections.abc import Iterable

from .._words import find_words, normalise

_PIECES = (
    # "isn't" is read as "isn" and "t"; the part before the apostrophe is a word of gensim's list only for some.
    "ain aren couldn d didn doesn don hadn hasn haven isn ll m mayn mightn mustn needn oughtn re s shan shouldn t ve "
    "wasn weren won wouldn "
    # "19th" is read as "th"
    "nd rd st th"
)


def resolve_stop_words(stop_words: str | Iterable[str] | None) -> frozenset[str]:
    """Return the set that ``stop_words`` names: ``"english"`` (gensim's list and pieces), None, or words of one's own.

    Words of one's own are read by the library's word rule, so "isn't" stands for "isn" and "t".

    Raises:
        ValueError: for another name than ``"english"``.
        TypeError: if it is no collection of words.
    """
    if stop_words is None:
        return frozenset()
    if isinstance(stop_words, str):
        if stop_words != "english":
            raise ValueError(f"stop_words must be 'english', None or a collection of words, got {stop_words!r}")
        from ._gensim import stop_words as gensim_stop_words

        return gensim_stop_words() | frozenset(_PIECES.split())
    if not isinstance(stop_words, Iterable):
        raise TypeError(f"stop_words must be 'english', None or a collection of words, got {stop_words!r}")
    words = list(stop_words)
    if not all(isinstance(word, str) for word in words):
        raise TypeError("stop_words must be 'english', None or a collection of words, got items that are no strings")
    return frozenset(found.word for word in words for found in find_words(normalise(word)))
