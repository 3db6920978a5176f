"""Strata: which pairs are compared with which, so that topics are not confused with what goes with them.

The estimators differ in what same- and cross-topic pairs have in common when they are compared
(docs/science.md, *Estimators*). With S_b, C_b the debiased sums of same- and cross-topic pairs of stratum b, and
s_b, c_b their numbers, Mantel-Haenszel weights give

    same_topic = sum_b S_b c_b / (s_b + c_b) / W,   cross_topic = sum_b C_b s_b / (s_b + c_b) / W,
    W = sum_b s_b c_b / (s_b + c_b),

and ``ratio`` and ``difference`` are of these two. A stratum with one class only has weight 0.

``pooled``             no strata: all pairs alike, as in Li et al. (2023)
``within_document``    a stratum is a document
``distance_matched``   a document and a distance between query and key
``frequency_matched``  a document and the frequencies of the two words
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

Estimator = Literal["pooled", "within_document", "distance_matched", "frequency_matched"]
ESTIMATORS: tuple[Estimator, ...] = ("pooled", "within_document", "distance_matched", "frequency_matched")

_EXACT = 32
_STEPS_PER_DOUBLING = 3
_FARTHEST = 2**14

DISTANCE_EDGES: Int[np.ndarray, " bucket"] = np.unique(
    np.r_[
        np.arange(_EXACT + 1),
        np.ceil(_EXACT * 2 ** (np.arange(1, 28) / _STEPS_PER_DOUBLING)).astype(np.int64),
    ]
)
"""[bucket] the smallest distance in each: every distance up to 32, then three buckets a doubling up to 16384."""

assert DISTANCE_EDGES[-1] == _FARTHEST

N_FREQUENCY_CLASSES = 10
"""Words fall into tenths: each holds a tenth of all occurrences of labelled words."""

N_FREQUENCY_STRATA = N_FREQUENCY_CLASSES * (N_FREQUENCY_CLASSES + 1) // 2
"""Unordered pairs of frequency classes, a class with itself included."""


def distance_bucket(distance: Int[np.ndarray, "*axes"]) -> Int[np.ndarray, "*axes"]:
    """Return the bucket of each distance in tokens (not negative).

    Examples:
        >>> distance_bucket(np.array([0, 5, 32, 33, 41])).tolist()
        [0, 5, 32, 32, 33]
    """
    return np.searchsorted(DISTANCE_EDGES, distance, side="right") - 1


def frequency_stratum(one: Int[np.ndarray, "*one"], other: Int[np.ndarray, "*other"]) -> Int[np.ndarray, "*both"]:
    """Return the number of each unordered pair of frequency classes: rare with common is common with rare.

    Examples:
        >>> frequency_stratum(np.array([0, 1, 2]), np.array([0, 2, 1])).tolist()
        [0, 4, 4]
    """
    low, high = np.minimum(one, other), np.maximum(one, other)
    return high * (high + 1) // 2 + low


def frequency_classes(counts: Mapping[Any, int]) -> dict[Any, int]:
    """Return the tenth, 0 (rare) to 9 (common), of each word, by its number of occurrences.

    Words are put in order of frequency, and the row of all their occurrences is cut into ten equal
    parts; a word belongs where the middle of its occurrences lies. Words equally frequent stay together.

    Args:
        counts: word -> occurrences; words with none are left out.

    Examples:
        >>> frequency_classes({"a": 98, "b": 1, "c": 1})
        {'b': 0, 'c': 0, 'a': 5}
    """
    present = sorted((number, word) for word, number in counts.items() if number > 0)
    if not present:
        return {}
    numbers = np.array([number for number, _ in present], dtype=np.float64)
    levels, level_of, n_words = np.unique(numbers, return_inverse=True, return_counts=True)
    mass = levels * n_words
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    tenth = np.minimum((middle * N_FREQUENCY_CLASSES).astype(np.int64), N_FREQUENCY_CLASSES - 1)
    return {word: int(tenth[level]) for (_, word), level in zip(present, level_of.ravel().tolist(), strict=True)}
