"""One row's pattern against its plan: sums by class, estimator, distance, topic and permutation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .._axes import PAIR_CLASSES
from ..statistics._strata import ESTIMATORS
from ..statistics._sums import COLUMNS, topical_columns
from ._row_plan import NullPlan, RowPlan

_SAME_TOKEN, _NO_TOPIC, _SPECIAL = (COLUMNS.index(name) for name in ("same_token", "no_topic", "special"))
_TOPICAL = [column for estimator in ESTIMATORS for column in topical_columns(estimator)]


@dataclass
class RowSums:
    """What one row gives for one layer, all heads together; float64."""

    sums: Float[np.ndarray, "head column"]
    renormalised: Float[np.ndarray, "head column"]
    """The same of rows renormalised over the tokens of words (``special`` is 0)."""
    seen: Float[np.ndarray, " head"]
    """All attention of the words' queries, which is one for each if it goes where it may."""
    by_cell: Float[np.ndarray, "head cell"]
    by_topic: Float[np.ndarray, "head topic key_topic"] | None
    null: Float[np.ndarray, "head permutation topical"] | None


def contract(pattern: Tensor, plan: RowPlan) -> RowSums:
    """Return the sums of one row.

    Args:
        pattern: [head, query_pos, key_pos] of the batch, pads included.
        plan: its weights.
    """
    n_heads = len(pattern)
    asked = pattern.index_select(1, plan.queries).double()
    # The few rows of weights come first: a product with few columns is three times as slow.
    by_key = plan.key_weights @ asked.flatten(0, 1).T
    to_real, to_special, to_pieces, to_words = by_key.reshape(4, n_heads, -1)
    ask = plan.query_share * plan.n_seen
    # A query that gives nothing at all to words has no renormalised row, and counts as 0.
    renormalise = torch.where(to_words > 0, plan.n_words_seen / plan.n_seen / to_words, 0.0)

    flat = pattern.reshape(n_heads, -1)
    single = flat.index_select(1, plan.single).double()
    labelled = flat.index_select(1, plan.labelled).double().reshape(n_heads, *plan.scale.shape) * plan.scale
    both = []
    for factor in (None, renormalise):
        everything, entries, attention = to_pieces * ask, single, labelled
        if factor is not None:
            everything = everything * factor
            entries = entries * factor[:, plan.single_query]
            if len(plan.queries):  # else no query counts: their scale is 0, and there is no entry to look up
                attention = attention * factor[:, plan.labelled_query, None]
        of_single = entries @ plan.single_weights
        between = _between_words(attention, plan)
        pairwise = _of_pairs(between, plan)
        of_pairs = pairwise @ plan.functionals
        sums = torch.zeros((n_heads, len(COLUMNS)), dtype=torch.float64, device=pattern.device)
        sums[:, _TOPICAL] = of_pairs[:, : len(_TOPICAL)]
        sums[:, _SAME_TOKEN] = of_single[:, 0]
        topical = of_pairs[:, :2].sum(dim=1)
        sums[:, _NO_TOPIC] = everything.sum(dim=1) + of_single[:, 1] - of_single[:, 0] - topical
        both.append((sums, between, pairwise, of_pairs[:, len(_TOPICAL) :]))
    (plain, between, pairwise, by_cell), (renormalised, *_) = both
    plain[:, _SPECIAL] = to_special @ plan.query_share
    if plan.counts[_NO_TOPIC] == 0:  # what is left of the subtraction is rounding
        plain[:, _NO_TOPIC] = renormalised[:, _NO_TOPIC] = 0.0
    return RowSums(
        sums=plain.cpu().numpy(),
        renormalised=renormalised.cpu().numpy(),
        seen=(_in_reach(asked, to_real, plan) @ plan.query_share).cpu().numpy(),
        by_cell=by_cell.cpu().numpy(),
        by_topic=_by_topic(between, plan),
        null=None if plan.null is None else _null(pairwise, plan.null),
    )


def _in_reach(asked: Tensor, to_real: Tensor, plan: RowPlan) -> Tensor:
    """Return [head, query] all attention of each query to keys that it is known to see."""
    return to_real if plan.sees is None else (asked * plan.sees).sum(dim=-1)


def _between_words(attention: Tensor, plan: RowPlan) -> Tensor:
    """Return [head, labelled, labelled_key] from attention between tokens."""
    query, key = plan.pairs.query_tokens, plan.pairs.key_tokens
    if len(query.token) > len(query.first):
        index = torch.from_numpy(query.word).to(attention.device)
        shape = attention.shape[0], len(query.first), attention.shape[2]
        attention = attention.new_zeros(shape).index_add_(1, index, attention)
    if len(key.token) > len(key.first):
        index = torch.from_numpy(key.word).to(attention.device)
        shape = *attention.shape[:2], len(key.first)
        attention = attention.new_zeros(shape).index_add_(2, index, attention)
    return attention


def _of_pairs(between: Tensor, plan: RowPlan) -> Tensor:
    """Return [head, pair]: a pair and its mirror image added where they share an entry."""
    n_keys = between.shape[2]
    query, key = plan.entries
    flat = between.reshape(between.shape[0], -1)
    pairwise = flat.index_select(1, query * n_keys + key)
    if plan.pairs.multiplicity == 2:
        pairwise = pairwise + flat.index_select(1, key * n_keys + query)
    return pairwise


def _by_topic(between: Tensor, plan: RowPlan) -> np.ndarray | None:
    if plan.topics is None:
        return None
    _, _, one, other = plan.topics
    return (one.T @ (between * plan.valid) @ other).cpu().numpy()


def _null(pairwise: Tensor, null: NullPlan) -> Float[np.ndarray, "head permutation topical"]:
    """Return [head, permutation, topical column]: the same sums under every permutation of the labels."""
    n_heads, n_permutations = pairwise.shape[0], null.same.shape[1]
    narrow = pairwise.float()
    same = (narrow @ null.same).double()
    total = pairwise.sum(dim=1, keepdim=True)
    sums = torch.zeros((n_heads, n_permutations, 2 * len(ESTIMATORS)), dtype=torch.float64, device=pairwise.device)
    sums[..., 0], sums[..., 1] = same, total - same
    for estimator, share in null.shares.items():
        column = 2 * ESTIMATORS.index(estimator)
        stratum = null.strata[estimator]
        if len(share) == 1:
            sums[..., column], sums[..., column + 1] = same * (1 - share), (total - same) * share
            continue
        by_stratum = pairwise.new_zeros((n_heads, len(share))).index_add_(1, stratum, pairwise)
        same_by_share = (narrow @ (null.same * share.float()[stratum])).double()
        sums[..., column] = same - same_by_share
        sums[..., column + 1] = by_stratum @ share - same_by_share
    # Where no pair has a weight, what is left of the subtraction is rounding.
    return np.where(null.weights > 0, sums.cpu().numpy(), 0.0)


assert _TOPICAL[:2] == [PAIR_CLASSES.index("same_topic"), PAIR_CLASSES.index("cross_topic")]
