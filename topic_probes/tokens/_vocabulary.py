"""Words of a vocabulary: which token is a whole word, as it stands in running text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._alignment import align_words
from ._tokenizer import TokenizerView

_WORDS_AT_ONCE = 500


def whole_word_tokens(tokenizer: Any, words: Sequence[str]) -> dict[str, int]:
    """Return word -> token id for those words that are exactly one token inside a sentence.

    The token is the one that the word has after a space. A word that is one token only with a
    capital letter (names, in cased vocabularies) gets that token.

    Args:
        tokenizer: a Hugging Face tokenizer, fast or slow.
        words: lower-case words of the library's rule; others are not found.
    """
    view = TokenizerView(tokenizer)
    found: dict[str, int] = {}
    for spelling in (str, str.capitalize):
        missing = [word for word in words if word not in found]
        for start in range(0, len(missing), _WORDS_AT_ONCE):
            part = missing[start : start + _WORDS_AT_ONCE]
            # The comma keeps the first word from the beginning of the text, where some tokens differ.
            tokenized = view.tokenize(", " + " ".join(map(spelling, part)))
            aligned = align_words(tokenized)
            wanted = set(part)
            for number in np.flatnonzero(aligned.stops - aligned.starts == 1).tolist():
                word = aligned.words[number]
                if word in wanted:
                    found.setdefault(word, int(tokenized.token_ids[aligned.starts[number]]))
    return found
