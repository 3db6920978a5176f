"""Which tokens spell which word: character by character, from what a tokenizer says and nothing of ours."""

from __future__ import annotations

import unicodedata
from typing import Any

Spelled = tuple[str, int, int]
"""A word, the position of its first token, the position after its last."""


def words_of(text: str) -> list[tuple[int, int]]:
    """Maximal runs of word characters that are no decimal digits."""
    runs, start = [], None
    for place, character in enumerate(text + " "):
        if (character.isalnum() or character == "_") and not character.isdecimal():
            start = place if start is None else start
        elif start is not None:
            runs.append((start, place))
            start = None
    return runs


def spelled_words(tokenizer: Any, text: str) -> set[Spelled]:
    """Words each of whose characters has tokens, all of which hold characters of that word only and stand in a row."""
    text = unicodedata.normalize("NFC", text)
    encoded = tokenizer(text, return_offsets_mapping=True, truncation=False, padding=False, verbose=False)
    ids = encoded["input_ids"]
    names = tokenizer.convert_ids_to_tokens(ids)
    special = {token for token in tokenizer.all_special_tokens if token != tokenizer.unk_token}
    special |= {tokenizer.bos_token, tokenizer.pad_token}
    held: list[set[int]] = []
    for name, (start, end) in zip(names, encoded["offset_mapping"], strict=True):
        nothing = name in special or name in ("\u2581", "\u0120")
        held.append(set() if nothing else {place for place in range(start, end) if not text[place].isspace()})
    found = set()
    for start, end in words_of(text):
        tokens = [position for position, places in enumerate(held) if any(start <= place < end for place in places)]
        covered = set().union(*(held[position] for position in tokens))
        in_a_row = bool(tokens) and tokens == list(range(tokens[0], tokens[-1] + 1))
        unknown = any(ids[position] == tokenizer.unk_token_id for position in tokens)
        if covered == set(range(start, end)) and in_a_row and not unknown:
            found.add((text[start:end].lower(), tokens[0], tokens[-1] + 1))
    return found


def says_where_tokens_stand(tokenizer: Any, text: str) -> bool:
    """Whether ordinary tokens are said to stand in order.

    They are not, for one, when a tokenizer that puts a space before the text takes it off again after a special token.
    """
    encoded = tokenizer(text, return_offsets_mapping=True, truncation=False, padding=False, verbose=False)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} | {tokenizer.bos_token_id}
    pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    spans = [span for token_id, span in pairs if token_id not in special]
    return all(start <= end for start, end in spans) and spans == sorted(spans)
