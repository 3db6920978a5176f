"""The text that token ids stand for, spelled token by token.

This is the way for documents that come as ids, and for tokenizers that do not say where their
tokens stand. A token is spelled in the context of the one before it, as WordPiece and SentencePiece
need, and tokens that are only together a character (bytes) are spelled together. What cannot be
read stands as ``_``, which the word rule counts among the letters: a word that touches it is no word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int

_UTF8_BYTES_PER_CHARACTER = 4
_MOST_TOKENS_TOGETHER = 32
"""Tokens may each end inside a character that the next one begins with; so many in a row are given up."""

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_UNREADABLE = "_"
_SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
"""How SentencePiece writes a space; at the beginning of a text it may spell nothing."""


class Speller:
    """Spells token ids.

    Args:
        tokenizer: a Hugging Face tokenizer, fast or slow.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lengths: dict[str, int] = {}

    def spell(
        self, token_ids: Int[np.ndarray, " pos"], is_special: Bool[np.ndarray, " pos"], unknown_id: int | None
    ) -> tuple[str, Int[np.ndarray, "pos 2"], Bool[np.ndarray, " pos"]]:
        """Return the text, the span of each token in it, and which tokens can be read.

        Tokens that are only together a character share one span. A special token stands as a space.

        Args:
            token_ids: ids, also such as the tokenizer does not know.
            is_special: positions that hold special tokens.
            unknown_id: the id of the unknown token, or None.
        """
        tokens = self._tokens(token_ids)
        spans = np.zeros((len(tokens), 2), dtype=np.int64)
        readable = ~is_special
        special, ids = is_special.tolist(), token_ids.tolist()
        parts: list[str] = []
        length = 0
        previous: list[str] = []
        position = 0
        while position < len(tokens):
            end = position + 1
            if special[position]:
                piece, previous = " ", []
            elif tokens[position] is None:
                piece, previous = _UNREADABLE, []
                readable[position] = False
            else:
                end, piece = self._characters(previous, tokens, special, position)
                group = tokens[position:end]
                if ids[position] == unknown_id:
                    piece = piece[: len(piece) - len(piece.lstrip())] + _UNREADABLE
                    readable[position:end] = False
                elif _UNFINISHED in piece or (not piece and "".join(group).strip(_SPACE_MARK + " ")):
                    piece = piece.replace(_UNFINISHED, _UNREADABLE) or _UNREADABLE
                    readable[position:end] = False
                previous = group
            parts.append(piece)
            if not special[position]:
                spans[position:end] = length, length + len(piece)
            length += len(piece)
            position = end
        return "".join(parts), spans, readable

    def _characters(self, previous: list[str], tokens: list[Any], special: list[bool], start: int) -> tuple[int, str]:
        """Return where whole characters end that begin with token ``start``, and what they are."""
        end, waiting, finished = start + 1, 1, 0
        piece = self._piece(previous, tokens[start:end])
        while (
            end < len(tokens) and not special[end] and tokens[end] is not None and end - start < _MOST_TOKENS_TOGETHER
        ):
            if waiting == _UTF8_BYTES_PER_CHARACTER or not self._is_unfinished(piece, tokens[end]):
                break
            end += 1
            piece = self._piece(previous, tokens[start:end])
            now_finished = len(piece.rstrip(_UNFINISHED))
            waiting = waiting + 1 if now_finished <= finished else 1
            finished = now_finished
        return end, piece

    def _tokens(self, token_ids: np.ndarray) -> list[Any]:
        """Return the token of each id, None for an id that the tokenizer does not have."""
        is_known = token_ids >= 0
        if not getattr(self._tokenizer, "is_fast", False):  # the others say None themselves
            is_known &= token_ids < len(self._tokenizer)
        tokens = self._tokenizer.convert_ids_to_tokens(np.where(is_known, token_ids, 0).tolist())
        return [token if known else None for token, known in zip(tokens, is_known.tolist(), strict=True)]

    def _piece(self, previous: list[str], group: list[str]) -> str:
        """Return what ``group`` adds to the text after ``previous``."""
        if not previous:
            return self._join(group)
        if len(previous) > 1:
            before = len(self._join(previous))
        elif (before := self._lengths.get(previous[0], -1)) < 0:
            before = self._lengths[previous[0]] = len(self._join(previous))
        return self._join(previous + group)[before:]

    def _is_unfinished(self, piece: str, following: str) -> bool:
        """Whether a piece ends inside a character: with a mark for it, or (some tokenizers) with nothing at all."""
        return piece.endswith(_UNFINISHED) or (not piece and not self._join([following]))

    def _join(self, tokens: list[str]) -> str:
        return self._tokenizer.convert_tokens_to_string(tokens)
