"""What a word is: one rule for the topic model and for the tokens of a language model.

A word is a maximal run of word characters without digits, lower-cased, in text under Unicode
normal form C. This is the rule of ``gensim.utils.tokenize``; here it also says *where* each word
stands, because attention is between tokens and topics are of words.

Lower-casing comes after the search: it can change the length of a text, and offsets must not move.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

WORD_RULE = "maximal runs of word characters without digits, NFC, lower-cased"
"""Recorded in every topic model, so that a model and its labels can be told apart from other rules."""

_WORD = re.compile(r"[^\W\d]+")


class Word(NamedTuple):
    """One word where it stands in a text: ``text[start:end].lower() == word``."""

    word: str
    start: int
    end: int


def normalise(text: str) -> str:
    """Return the text in Unicode normal form C, the form in which words are looked for."""
    return unicodedata.normalize("NFC", text)


def find_words(text: str) -> list[Word]:
    """Return the words of a normalised text, in order, with their character offsets.

    Examples:
        >>> find_words("Route 66 isn't new")[:3]
        [Word(word='route', start=0, end=5), Word(word='isn', start=9, end=12), Word(word='t', start=13, end=14)]
    """
    return [Word(match.group().lower(), *match.span()) for match in _WORD.finditer(text)]
