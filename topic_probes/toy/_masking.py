"""Masked language modelling with the three rates of Li et al. (2023): what a model is shown, and what it is to tell.

A position is chosen with probability p_m; a chosen one shows its own word with p_c, a random word of the vocabulary
(its own among them) with p_r, else [MASK]. The true word is to be told in every case. At least one position of each
document is chosen: where chance chose none, one is, all alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._documents import Bag
from ._masking_rates import MaskingRates


@dataclass(frozen=True)
class MaskedBag:
    """Documents as shown to a model, and the words that it is to tell."""

    shown: Bag
    masked: np.ndarray
    """[query] where the chosen positions stand in ``shown.tokens``, in order."""
    targets: np.ndarray
    """[query] their true words."""


def mask_documents(documents: Bag, rates: MaskingRates, n_words: int, generator: np.random.Generator) -> MaskedBag:
    """Choose positions of documents, and hide their words.

    Args:
        documents: true words.
        rates: how often what is done.
        n_words: words of the vocabulary, and the id of [MASK].
        generator: numpy's; it is drawn from.
    """
    drawn = generator.random(len(documents.tokens))
    chosen = drawn < rates.mask_rate
    lacking = np.flatnonzero(np.add.reduceat(chosen, documents.starts, dtype=np.int64) == 0)
    if len(lacking):
        forced = documents.starts[lacking] + generator.integers(0, documents.lengths[lacking])
        chosen[forced] = True
        drawn[forced] = generator.random(len(lacking)) * rates.mask_rate
    masked = np.flatnonzero(chosen)
    # Given that a position is chosen, what was drawn is uniform below mask_rate: one draw decides both.
    kind = drawn[masked] / rates.mask_rate
    keeps, random = kind < rates.keep_rate, kind < rates.keep_rate + rates.random_rate
    shown = documents.tokens.astype(np.int64)  # a copy
    shown[masked[~random]] = n_words
    swapped = masked[random & ~keeps]
    shown[swapped] = generator.integers(0, n_words, len(swapped))
    return MaskedBag(Bag(shown, documents.lengths), masked, documents.tokens[masked].astype(np.int64))
