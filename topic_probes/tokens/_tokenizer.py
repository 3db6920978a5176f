"""What we ask of a tokenizer: ids as it makes them itself, where each token stands, which ids are special.

Two ways lead to the place of a token in a text. Tokenizers with offsets say it. For all others,
and for documents that come as ids, the text is *spelled out* again from the tokens
(:mod:`topic_probes.tokens._spelling`); if that spells the text, tokens stand where their letters do,
else words are looked for in the spelling. All ways end in a :class:`TokenizedText`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Int

from .._words import normalise
from ._spelling import Speller
from ._text import TokenizedText, in_normal_form, placed_in

_ROLES = ("bos_token", "eos_token", "sep_token", "cls_token", "mask_token")
"""Special tokens with work to do in a sequence; the pad and the unknown token are the other two."""


_SPACE_TOKENS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
"""How SentencePiece and byte-level BPE write a space."""


class TokenizerView:
    """A Hugging Face tokenizer, fast or slow, that is looked at and not changed.

    Its settings for truncation and padding are passed over, and are the same afterwards. What it says
    about special tokens is read once.

    Args:
        tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.special_ids = np.array(sorted(special_token_ids(tokenizer)), dtype=np.int64)
        """[special token] ids, sorted; the unknown token is none of them unless it has another role."""
        self.unknown_id: int | None = getattr(tokenizer, "unk_token_id", None)
        self._has_offsets = bool(getattr(tokenizer, "is_fast", False))
        self.blank_ids = np.array(sorted(_blank_token_ids(tokenizer)) if self._has_offsets else [], dtype=np.int64)
        """[token] ids of a space alone. At the beginning of a text, where it is made up, it claims the first letter."""
        self._speller = Speller(tokenizer)

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of a text exactly as the tokenizer makes them, special tokens included."""
        if self._has_offsets:
            encoded = self._encode(text, return_offsets_mapping=True)
            token_ids = _as_ids(encoded["input_ids"])
            flat = np.fromiter(chain.from_iterable(encoded["offset_mapping"]), dtype=np.int64)
            spans = flat.reshape(-1, 2)
            special = np.isin(token_ids, self.special_ids)
            nowhere = special | np.isin(token_ids, self.blank_ids)
            spans = np.where(nowhere[:, None], 0, spans)
            if _are_offsets(spans[~nowhere], len(text)):
                readable = ~special if self.unknown_id is None else ~special & (token_ids != self.unknown_id)
                text, spans = in_normal_form(text, spans)
                return TokenizedText(text, token_ids, spans, special, readable)
        else:
            token_ids = _as_ids(self._encode(text)["input_ids"])
        spelled = self.spell_out(token_ids)
        return placed_in(normalise(text), spelled) or spelled

    def spell_out(self, token_ids: Int[np.ndarray, " pos"]) -> TokenizedText:
        """Return the text that token ids stand for, spelled token by token, and the place of each token in it.

        Ids that the tokenizer does not know are unreadable.
        """
        special = np.isin(token_ids, self.special_ids)
        text, spans, readable = self._speller.spell(token_ids, special, self.unknown_id)
        text, spans = in_normal_form(text, spans)
        return TokenizedText(text, token_ids, spans, special, readable)

    @cached_property
    def frame(self) -> tuple[int, int] | None:
        """Special tokens that the tokenizer puts before and after a text; None if it does something else to it."""
        bare = list(self._encode("a", add_special_tokens=False)["input_ids"])
        framed = list(self._encode("a")["input_ids"])
        for before in range(len(framed) - len(bare) + 1):
            if framed[before : before + len(bare)] == bare:
                return before, len(framed) - len(bare) - before
        return None

    def real_positions(self, token_ids: Int[np.ndarray, " pos"]) -> slice:
        """Return where ids are without the pads at either end.

        Where the pad token has another role (GPT-2's end of text), one at each end may have that role and stays.
        """
        pad = getattr(self.tokenizer, "pad_token_id", None)
        others = np.flatnonzero(token_ids != pad)
        if pad is None or len(others) == 0:
            return slice(0, len(token_ids))
        kept = int(any(getattr(self.tokenizer, f"{role}_id", None) == pad for role in _ROLES))
        return slice(max(int(others[0]) - kept, 0), min(int(others[-1]) + 1 + kept, len(token_ids)))

    def _encode(self, text: str, **options: Any) -> Any:
        with _settings_kept(self.tokenizer):
            return self.tokenizer(
                text, truncation=False, padding=False, return_attention_mask=False, verbose=False, **options
            )


def special_token_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of [CLS], [SEP], BOS, EOS, pads, [MASK] and the like; the unknown token is none of them.

    A token that a tokenizer names but that is not in its vocabulary (its id is then the unknown
    token's) is left out.
    """
    unknown, unknown_id = tokenizer.unk_token, tokenizer.unk_token_id
    in_other_role = {str(getattr(tokenizer, role, None)) for role in (*_ROLES, "pad_token")}
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {int(token_id) for token_id, token in added.items() if getattr(token, "special", False)}
    special.discard(unknown_id)
    for token in map(str, tokenizer.all_special_tokens):
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id is not None and (token_id != unknown_id or (token == str(unknown) and token in in_other_role)):
            special.add(int(token_id))
    return frozenset(special)


def _blank_token_ids(tokenizer: Any) -> set[int]:
    blank = set()
    for token in _SPACE_TOKENS:
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id is None or token_id == tokenizer.unk_token_id:
            continue
        if not tokenizer.convert_tokens_to_string([token]).strip():  # elsewhere these are letters
            blank.add(int(token_id))
    return blank


def _as_ids(token_ids: Any) -> Int[np.ndarray, " pos"]:
    return np.asarray(token_ids, dtype=np.int64)


@contextmanager
def _settings_kept(tokenizer: Any) -> Iterator[None]:
    """Give a fast tokenizer its settings back: a call with ``truncation=False`` takes them away for good."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not all(hasattr(backend, name) for name in ("truncation", "padding", "encode_special_tokens")):
        yield
        return
    truncation, padding, special_too = backend.truncation, backend.padding, backend.encode_special_tokens
    try:
        yield
    finally:
        if backend.truncation != truncation:
            backend.enable_truncation(**truncation) if truncation else backend.no_truncation()
        if backend.padding != padding:
            backend.enable_padding(**padding) if padding else backend.no_padding()
        if backend.encode_special_tokens != special_too:
            backend.encode_special_tokens = special_too


def _are_offsets(spans: Int[np.ndarray, "pos 2"], length: int) -> bool:
    """Whether spans can be offsets: inside the text, in order, not all empty. Some tokenizers report zeros."""
    if len(spans) == 0:
        return True
    starts, ends = spans.T
    in_order = bool((np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all() and (starts <= ends).all())
    return in_order and bool(starts[0] >= 0 and ends[-1] <= length and (ends > starts).any())
