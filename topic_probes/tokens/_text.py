"""A text and where its tokens stand in it.

Words are looked for in Unicode normal form C, and a model reads the text as it came: the two may
differ. Tokens are therefore made from the text as it is, and their places are moved to its normal
form, or to the original from a text that was spelled out of tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int

from .._words import normalise

_NO_MARKS_BELOW = "\u0300"
"""Characters below this one never combine with the one before them."""

_LOST = "\N{REPLACEMENT CHARACTER}"
"""Some tokenizers leave it out, as they do control characters and marks."""

_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


@dataclass(frozen=True)
class TokenizedText:
    """A text and its tokens."""

    text: str
    """The text, in the normal form in which words are looked for."""
    token_ids: Int[np.ndarray, " pos"]
    spans: Int[np.ndarray, "pos 2"]
    """[pos, 2] each token is ``text[start:end]``; an empty span for a token that stands for no characters."""
    is_special: Bool[np.ndarray, " pos"]
    """[pos] [CLS], [SEP], BOS, pads and the like, found by id."""
    is_readable: Bool[np.ndarray, " pos"]
    """[pos] neither special nor the unknown token: the model sees which characters stand here."""


def in_normal_form(text: str, spans: Int[np.ndarray, "pos 2"]) -> tuple[str, Int[np.ndarray, "pos 2"]]:
    r"""Return a text in normal form C, and spans of the text as spans of that.

    A token that holds a part of what became one character gets the whole character.

    Examples:
        >>> text, spans = in_normal_form("cafe\u0301 x", np.array([[0, 4], [4, 5], [5, 7]]))
        >>> len(text), spans.tolist()
        (6, [[0, 4], [3, 4], [4, 6]])
    """
    if unicodedata.is_normalized("NFC", text):
        return text, spans
    first = np.zeros(len(text) + 1, dtype=np.int64)
    last = np.zeros(len(text) + 1, dtype=np.int64)
    parts: list[str] = []
    length = position = 0
    for part in _parts_that_combine(text):
        composed = normalise(part)
        stop = position + len(part)
        if composed == part:
            first[position:stop] = length + np.arange(len(part))
            last[position:stop] = first[position:stop] + 1
        else:
            first[position:stop], last[position:stop] = length, length + len(composed)
        parts.append(composed)
        length += len(composed)
        position = stop
    starts, ends = spans.T
    moved = np.stack([first[starts], last[np.maximum(ends - 1, 0)]], axis=1)
    return "".join(parts), np.where((ends > starts)[:, None], moved, 0)


def _parts_that_combine(text: str) -> Iterator[str]:
    """Yield the text in stretches that can be brought into normal form one by one."""
    start = 0
    for position in range(1, len(text)):
        character = text[position]
        if character >= _NO_MARKS_BELOW:
            part = text[start:position]
            if unicodedata.combining(character) or normalise(part + character) != normalise(part) + normalise(
                character
            ):
                continue
        yield text[start:position]
        start = position
    if text:
        yield text[start:]


def without_spaces(text: str, spans: Int[np.ndarray, "pos 2"]) -> Int[np.ndarray, "pos 2"]:
    """Return spans without the white space at their ends; of a span of spaces alone the end is not after the start.

    Examples:
        >>> without_spaces("a  b ", np.array([[0, 1], [1, 4], [4, 5]])).tolist()
        [[0, 1], [3, 4], [5, 4]]
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    is_space = np.isin(codes, _SPACES)
    place = np.arange(len(codes))
    after = np.append(np.where(is_space, len(codes), place), len(codes))
    before = np.insert(np.where(is_space, 0, place + 1), 0, 0)
    starts = np.minimum.accumulate(after[::-1])[::-1][spans[:, 0]]
    ends = np.maximum.accumulate(before)[spans[:, 1]]
    return np.stack([starts, ends], axis=1)


def placed_in(text: str, spelled: TokenizedText) -> TokenizedText | None:
    """Return tokens with their places in the text that they were made from, or None if they do not spell it.

    The spelling may differ from the text in white space, capitals and accents, which some
    tokenizers change, and may say nothing where a token is special or cannot be read. A stretch of
    tokens between two such that would fit in more than one place gets none.

    Args:
        text: the text, in normal form.
        spelled: its tokens, spelled out.
    """
    places, signs = _signs(text)
    their_places, their_signs = _signs(spelled.text)
    stretches = _stretches(spelled)[their_places]
    bounds = np.flatnonzero(np.diff(stretches)) + 1
    parts = [
        (int(part[0]), their_signs[part[0] : part[-1] + 1])
        for part in np.split(np.arange(len(stretches)), bounds)
        if len(part) and stretches[part[0]] >= 0
    ]
    earliest = _find_in_order(signs, [part for _, part in parts])
    latest = _find_in_order(signs[::-1], [part[::-1] for _, part in reversed(parts)])
    if earliest is None or latest is None:
        return None
    moved_to = np.full(len(their_signs), -1, dtype=np.int64)
    for (start, part), first, last in zip(parts, earliest, reversed(latest), strict=True):
        if first == len(signs) - last - len(part):
            moved_to[start : start + len(part)] = places[first : first + len(part)]
    # The signs of a token: from the first that is not before its span to the last that is not after it.
    begin, end = np.searchsorted(their_places, spelled.spans.T)
    holds = np.flatnonzero(end > begin)
    holds = holds[(moved_to[begin[holds]] >= 0) & spelled.is_readable[holds]]
    spans = np.zeros_like(spelled.spans)
    spans[holds, 0], spans[holds, 1] = moved_to[begin[holds]], moved_to[end[holds] - 1] + 1
    return TokenizedText(text, spelled.token_ids, spans, spelled.is_special, spelled.is_readable)


def _stretches(spelled: TokenizedText) -> Int[np.ndarray, " char"]:
    """Return, for each character, the number of its stretch of readable tokens; -1 for one of no such token."""
    edges = np.zeros(len(spelled.text) + 1, dtype=np.int64)
    spans = spelled.spans[spelled.is_readable]
    np.add.at(edges, spans[:, 0], 1)
    np.add.at(edges, spans[:, 1], -1)
    is_read = np.cumsum(edges)[:-1] > 0
    return np.where(is_read, np.cumsum(~is_read), -1)


def _find_in_order(text: str, parts: list[str]) -> list[int] | None:
    """Return the earliest places at which the parts follow one another in a text, None if they do not."""
    found: list[int] = []
    position = 0
    for part in parts:
        position = text.find(part, position)
        if position < 0:
            return None
        found.append(position)
        position += len(part)
    return found


def _signs(text: str) -> tuple[Int[np.ndarray, " sign"], str]:
    """Return the places of the characters that no tokenizer loses, and what is sure to remain of each."""
    signs = list(map(_sign, text))
    places = np.array([place for place, sign in enumerate(signs) if sign], dtype=np.int64)
    return places, "".join(signs)


@lru_cache(maxsize=4096)
def _sign(character: str) -> str:
    if character.isspace() or character in _LOST or unicodedata.category(character)[0] in "CM":
        return ""
    return unicodedata.normalize("NFD", character.lower())[0]
