"""Which documents of a corpus are held out: topics are fitted on the others, models read these."""

from __future__ import annotations

HELD_OUT_EVERY = 4


def is_held_out(number: int) -> bool:
    """Whether a document is held out, by its number in the corpus, from 0 on: every fourth is, the first among them."""
    return number % HELD_OUT_EVERY == 0
