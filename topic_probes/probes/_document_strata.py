"""Pairs of labelled words of one document by stratum, from which the estimators with strata have their weights.

A stratum is the document itself, or its pairs at like distance, or of words of like frequency (docs/science.md,
*Estimators*). A document that goes through the model in several rows has the counts of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..statistics._strata import DISTANCE_EDGES, N_FREQUENCY_STRATA, Estimator
from ._labelled_pairs import LabelledPairs, labelled_pairs
from ._sides import Reach, Side
from ._topic_sets import TopicSets

N_STRATA: dict[Estimator, int] = {
    "within_document": 1,
    "distance_matched": len(DISTANCE_EDGES),
    "frequency_matched": N_FREQUENCY_STRATA,
}
"""Strata in one document of each estimator that has some."""


class StrataCounts(NamedTuple):
    """Numbers of pairs of a document by stratum, for one estimator."""

    same: Int[np.ndarray, " stratum"]
    total: Int[np.ndarray, " stratum"]
    permuted_same: Tensor
    """[stratum, permutation] float32."""

    def __add__(self, other: StrataCounts) -> StrataCounts:  # type: ignore[override]
        return StrataCounts(self.same + other.same, self.total + other.total, self.permuted_same + other.permuted_same)


def strata_counts(pairs: LabelledPairs, permuted: Tensor) -> dict[Estimator, StrataCounts]:
    """Return the numbers of pairs in each stratum; ``permuted`` is [pair, permutation] whether topics meet."""
    found: dict[Estimator, StrataCounts] = {}
    for estimator, stratum in all_strata(pairs).items():
        n_strata = N_STRATA[estimator]
        same = np.bincount(stratum[pairs.is_same], minlength=n_strata)
        total = np.bincount(stratum, minlength=n_strata)
        index = torch.from_numpy(stratum).to(permuted.device)
        by_stratum = torch.zeros((n_strata, permuted.shape[1]), device=permuted.device).index_add_(0, index, permuted)
        found[estimator] = StrataCounts(
            pairs.multiplicity * same, pairs.multiplicity * total, pairs.multiplicity * by_stratum
        )
    return found


def all_strata(pairs: LabelledPairs) -> dict[Estimator, Int[np.ndarray, " pair"]]:
    """Return estimator -> [pair] stratum; a document is one stratum of ``within_document``."""
    return {"within_document": np.zeros(len(pairs), dtype=np.int64), **pairs.strata}


def share_of_same(counts: StrataCounts) -> Float[np.ndarray, " stratum"]:
    """Return the share of same-topic pairs in each stratum; 0 in an empty one."""
    return counts.same / np.maximum(counts.total, 1)


def document_counts(
    sides: Sequence[tuple[Side, Side]],
    reach: Reach,
    topics: TopicSets,
    frequency_class: Int[np.ndarray, " row"] | None,
) -> dict[Estimator, StrataCounts]:
    """Return the numbers of pairs by stratum of a document that went through the model in several rows."""
    totals: dict[Estimator, StrataCounts] = {}
    for query, key in sides:
        pairs = labelled_pairs(query, key, topics, reach, frequency_class)
        rows, key_rows = query.rows[pairs.query_words], key.rows[pairs.key_words]
        found = strata_counts(pairs, topics.meet_permuted(rows, key_rows, pairs.query, pairs.key))
        totals = {name: totals[name] + counts if name in totals else counts for name, counts in found.items()}
    return totals
