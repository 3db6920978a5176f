"""From shares to labels: the three filters that combine (docs/concepts.md, *Topics of a word*)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from .._validation import require_count, require_fraction
from ._gensim import top_indices
from ._labels import TopicLabels, as_word

if TYPE_CHECKING:
    from ._model import TopicModel

_TIE_DIGITS = 12
"""Shares that differ after this many decimals are equal: a share of 1/2 reaches ``min_share=0.5`` however rounded."""


@dataclass(frozen=True)
class Filters:
    """Which topics of a word become its labels: see ``TopicModel.label_words``."""

    top_k: int | None
    min_share: float
    top_fraction: float | None

    def __post_init__(self) -> None:
        if self.top_k is not None:
            require_count("top_k", self.top_k)
        require_fraction("min_share", self.min_share)
        if self.top_fraction is not None:
            require_fraction("top_fraction", self.top_fraction)
            if self.top_fraction == 0:
                raise ValueError("top_fraction must be above 0, got 0: it would keep no word")

    def keep(
        self, shares: Float[np.ndarray, "word topic"], word_probabilities: Float[np.ndarray, "topic word"]
    ) -> Bool[np.ndarray, "word topic"]:
        """Return which topics of which words pass."""
        shares = np.nan_to_num(shares, nan=0.0)
        n_words, n_topics = shares.shape
        kept = (shares > 0) & (shares >= self.min_share - 10.0**-_TIE_DIGITS)
        if self.top_k is not None and self.top_k < n_topics:
            # equal shares may differ in their last bit, and must still be a tie
            ranked = np.argsort(-np.round(shares, _TIE_DIGITS), axis=1, kind="stable")[:, : self.top_k]
            among_top = np.zeros_like(kept)
            np.put_along_axis(among_top, ranked, True, axis=1)
            kept &= among_top
        if self.top_fraction is not None:
            # 0.1 * 30 is a little above 3 in floating point, and must not become 4
            n_likely = max(1, math.ceil(round(self.top_fraction * n_words, 9)))
            likely = np.zeros_like(kept)
            for topic, row in enumerate(word_probabilities):
                likely[top_indices(row, n_likely), topic] = True
            kept &= likely
        return kept


def label_by_share(
    model: TopicModel, shares: Float[np.ndarray, "word topic"], filters: Filters, stopped: frozenset[str]
) -> TopicLabels:
    """Return the labels of a model's words, stop words and words that no text can have left out.

    Raises:
        ValueError: if no word is left.
    """
    never_found = [word for word in model.vocabulary if as_word(word) != word]
    if never_found:
        warnings.warn(
            f"{len(never_found)} of the {model.n_words} words of the vocabulary are left out, because no text has "
            f"such a word by the library's rule (for example {never_found[0]!r}); the rule: letters, lower-case",
            UserWarning,
            stacklevel=3,
        )
    kept = filters.keep(shares, model.word_probabilities)
    unlabelled = stopped.union(never_found)
    kept[[word in unlabelled for word in model.vocabulary]] = False
    labelled = np.flatnonzero(kept.any(axis=1))
    if not len(labelled):
        raise ValueError(
            f"no word is left with top_k={filters.top_k}, min_share={filters.min_share}, "
            f"top_fraction={filters.top_fraction} and stop_words ({len(stopped)}): lower min_share, raise top_fraction "
            "or top_k, or take fewer stop words"
        )
    return TopicLabels(
        {model.vocabulary[word]: tuple(np.flatnonzero(kept[word]).tolist()) for word in labelled.tolist()},
        model.n_topics,
        topic_names=_topic_names(model, stopped),
        coverage=_coverage(model, labelled),
    )


def _topic_names(model: TopicModel, stopped: frozenset[str]) -> tuple[str, ...]:
    """Return [topic] its first three words that are no stop words."""
    speaking = np.array([word not in stopped for word in model.vocabulary])
    masked = np.where(speaking, model.word_probabilities, -1.0)
    return tuple(" ".join(model.vocabulary[word] for word in top_indices(row, 3) if row[word] > 0) for row in masked)


def _coverage(model: TopicModel, labelled: Int[np.ndarray, " labelled"]) -> dict[str, int]:
    coverage = {"n_words": model.n_words}
    if model.word_counts is not None:
        counted = int(model.word_counts.sum())
        coverage["n_tokens"] = counted if model.n_tokens is None else int(model.n_tokens)
        coverage["n_labelled_tokens"] = int(model.word_counts[labelled].sum())
    return coverage
