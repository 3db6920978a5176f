r"""Infinitely long documents under masking, the setting of everything that theory says of the one-layer transformer.

Li et al. (2023): T topics of v words each, disjoint and uniform; a document has exactly tau topics, all
sets alike, in equal proportions, and is infinitely long. With the shares of :class:`MaskingRates`, a document with the
topic set S shows the words ``x = c P + q`` and [MASK] with share ``a``, where ``P_i = 1 / (tau v)`` for the words of S
and else 0. The word behind a masked position is distributed as P.

None of it speaks of finite documents, where the words seen hold sampling noise and the masked word is no longer
independent of them, nor of how training gets there.

Convention: ``W[i, j]`` is the weight of input word j for output word i. Words are numbered topic by topic, [MASK]
comes last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float

from ._masking_rates import MaskingRates, require_topics_per_document

_MOST_SETS = 5_000


def of_one_topic(n_topics: int, words_per_topic: int) -> Bool[np.ndarray, "word word"]:
    """Return [T v, T v] whether two words have the same topic."""
    topics = np.arange(n_topics * words_per_topic) // words_per_topic
    return topics[:, None] == topics


def all_documents(
    n_topics: int, words_per_topic: int, rates: MaskingRates, topics_per_document: int
) -> tuple[Float[np.ndarray, "document input_word"], Float[np.ndarray, "document word"]]:
    """Return what a document of each topic set shows, and the distribution of its words."""
    require_topics_per_document(topics_per_document, n_topics)
    n_sets = math.comb(n_topics, topics_per_document)
    if n_sets > _MOST_SETS:
        raise ValueError(
            f"topics_per_document must leave at most {_MOST_SETS:,} topic sets, got {n_sets:,} "
            f"for {topics_per_document} of {n_topics} topics: take fewer of either"
        )
    pairs = [
        shown_and_target(n_topics, words_per_topic, rates, chosen)
        for chosen in itertools.combinations(range(n_topics), topics_per_document)
    ]
    return np.array([shown for shown, _ in pairs]), np.array([target for _, target in pairs])


def shown_and_target(
    n_topics: int, words_per_topic: int, rates: MaskingRates, chosen: Iterable[int]
) -> tuple[Float[np.ndarray, " input_word"], Float[np.ndarray, " word"]]:
    """Return what a document of the chosen topics shows, [MASK] last, and the distribution of its words."""
    chosen = list(chosen)
    target = np.zeros((n_topics, words_per_topic))
    target[chosen] = 1 / (len(chosen) * words_per_topic)
    target = target.ravel()
    words = rates.word_share * target + rates.noise_share(len(target))
    return np.append(words, rates.mask_share), target
