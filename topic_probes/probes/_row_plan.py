"""What to do with the pattern of one row, worked out once for all layers that see alike.

Everything that the probe reports is linear in the pattern A. Most of it concerns pairs of labelled
words, which are few: their attention is picked out of the pattern (:mod:`._labelled_pairs`). The rest
needs sums of whole pattern rows with a few weights for each key, and a handful of single entries:

    all pairs    sum over q, k of A[q, k] a[q] b[k],  a = n_seen / pieces of Q,  b = 1 / pieces of K
                 plus corrections where only some of the pieces see each other
    same_token   single entries
    no_topic     all pairs less the other three classes
    special      sum over q, k of A[q, k] / (pieces of Q), k special
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .._axes import PAIR_CLASSES
from ..statistics._strata import DISTANCE_EDGES, ESTIMATORS, Estimator
from ..statistics._sums import COLUMNS, topical_columns
from ._document_strata import StrataCounts, all_strata, share_of_same, strata_counts
from ._labelled_pairs import LabelledPairs, labelled_pairs
from ._sides import EVERYTHING, Reach, Side, n_in_reach, query_share
from ._single_entries import single_entries
from ._topic_sets import TopicSets


@dataclass
class NullPlan:
    """The permuted labels of the pairs of one row."""

    same: Tensor
    """[pair, permutation] float32."""
    shares: dict[Estimator, Tensor]
    """Estimator -> [stratum, permutation] share of same-topic pairs in the document's stratum."""
    strata: dict[Estimator, Tensor]
    """Estimator -> [pair] stratum."""
    weights: Float[np.ndarray, "permutation topical"]
    """[permutation, topical column] what the sums are divided by."""


@dataclass
class RowPlan:
    """Weights of one row's pattern, on the patterns' device; positions are those of the batch."""

    counts: Float[np.ndarray, " column"]
    """[column] numbers of pairs, or Mantel-Haenszel weights; query words for ``special``."""
    key_weights: Tensor
    """[4, key_pos] real tokens, special ones, 1 / pieces of the word, words."""
    queries: Tensor
    """[query] positions of the tokens of words that count."""
    query_share: Tensor
    """[query] 1 / such tokens of the word."""
    n_seen: Tensor
    """[query] keys in reach."""
    n_words_seen: Tensor
    """[query] keys in reach that are tokens of words."""
    sees: Tensor | None
    """[query, key_pos] whether a query sees a key; None if all see all real tokens."""
    single: Tensor
    """[entry] flat positions of single entries of the pattern."""
    single_query: Tensor
    """[entry] their entries in ``queries``."""
    single_weights: Tensor
    """[entry, 2] for ``same_token``, and corrections of all pairs."""
    pairs: LabelledPairs
    labelled: Tensor
    """[query piece * key piece] flat positions of attention between labelled words."""
    labelled_query: Tensor
    """[query piece] entries in ``queries`` of these; 0, where the scale is 0, for one that does not count."""
    scale: Tensor
    """[query piece, key piece]"""
    entries: tuple[Tensor, Tensor]
    """[pair] query and key word of each pair."""
    functionals: Tensor
    """[pair, topical column + cell] weights of debiased attention."""
    cells: Int[np.ndarray, " cell"]
    """[cell] class * buckets + bucket, for the curve over distance."""
    cell_counts: Int[np.ndarray, " cell"]
    topics: tuple[np.ndarray, np.ndarray, Tensor, Tensor] | None
    """Topics on either side, and which words carry them: [labelled, topic], [labelled_key, topic]."""
    valid: Tensor
    topic_counts: Float[np.ndarray, "topic key_topic"] | None
    null: NullPlan | None


class Positions(NamedTuple):
    """Where the real tokens of a row stand in a batch."""

    query: Tensor
    key: Tensor
    n_key: int
    """Key positions of the batch."""


def plan_row(
    query: Side,
    key: Side,
    reach: Reach,
    positions: Positions,
    topics: TopicSets,
    *,
    document: dict[Estimator, StrataCounts] | None,
    frequency_class: Int[np.ndarray, " row"] | None,
    topic_table: Bool[np.ndarray, "row topic"] | None,
    usable: Bool[np.ndarray, " query_pos"] | None = None,
) -> RowPlan:
    """Work out the weights of one row.

    Args:
        query: the side that asks.
        key: the side that is asked; the same object for self-attention.
        reach: what a query sees.
        positions: where the tokens stand in the batch.
        topics: the topic sets of the labelled words.
        document: counts by stratum of the whole document, if this row is a part of it.
        frequency_class: [row] tenth of frequency of each labelled word, or None.
        topic_table: [row, topic] topics of the labelled words; None to leave the topic matrices out.
        usable: query positions that count; None for all.
    """
    device = positions.query.device
    pairs = labelled_pairs(query, key, topics, reach, frequency_class, usable)
    rows, key_rows = query.rows[pairs.query_words], key.rows[pairs.key_words]
    permuted = topics.meet_permuted(rows, key_rows, pairs.query, pairs.key)
    own = strata_counts(pairs, permuted)
    whole = own if document is None else document
    functionals, weights = _functionals(pairs, whole)
    cells = pairs.distance + np.where(pairs.is_same, 0, len(DISTANCE_EDGES))
    present, cell_of = np.unique(cells, return_inverse=True)
    one_hot = cell_of.reshape(-1, 1) == np.arange(len(present))

    single, single_weights, n_same_token, n_pairs = single_entries(query, key, reach, usable)
    share, n_queries = query_share(query, usable)
    counts = np.zeros(len(COLUMNS))
    for estimator in ESTIMATORS:
        for column, weight in zip(topical_columns(estimator), weights[estimator], strict=True):
            counts[column] = weight
    counts[COLUMNS.index("same_token")] = n_same_token
    counts[COLUMNS.index("no_topic")] = n_pairs - n_same_token - pairs.multiplicity * len(pairs)
    counts[len(PAIR_CLASSES)] = n_queries

    pieces = key.word_tokens
    key_weights = np.zeros((4, len(key)))
    key_weights[0] = 1.0
    key_weights[1] = key.window.is_special
    key_weights[2, pieces.token] = 1.0 / pieces.pieces[pieces.word]
    key_weights[3, pieces.token] = 1.0

    def on_device(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    def at_queries(values: np.ndarray) -> Tensor:
        return on_device(values[asking].astype(np.float64))

    keys = torch.zeros((4, positions.n_key), dtype=torch.float64, device=device)
    keys[:, positions.key] = on_device(key_weights)
    words = key.places[pieces.token]
    asking = np.flatnonzero(share)
    entry = np.zeros(len(query), dtype=np.int64)
    entry[asking] = np.arange(len(asking))
    sees = None
    if reach != EVERYTHING:
        sees = torch.zeros((len(asking), positions.n_key), dtype=torch.bool, device=device)
        sees[:, positions.key] = on_device(reach.sees(query.places[asking][:, None] - key.places[None, :]))
    labelled_key = positions.key[on_device(pairs.key_tokens.token)]
    labelled_query = positions.query[on_device(pairs.query_tokens.token)]
    carried, topic_counts = _topics(pairs, rows, key_rows, topic_table)
    return RowPlan(
        counts=counts,
        key_weights=keys,
        queries=positions.query[on_device(asking)],
        query_share=at_queries(share),
        n_seen=at_queries(n_in_reach(query.places, key.places, reach)),
        n_words_seen=at_queries(n_in_reach(query.places, words, reach)),
        sees=sees,
        single=positions.query[on_device(single[0])] * positions.n_key + positions.key[on_device(single[1])],
        single_query=on_device(entry[single[0]]),
        single_weights=on_device(single_weights),
        pairs=pairs,
        labelled=(labelled_query[:, None] * positions.n_key + labelled_key[None, :]).flatten(),
        labelled_query=on_device(entry[pairs.query_tokens.token]),
        scale=on_device(pairs.scale),
        entries=(on_device(pairs.query), on_device(pairs.key)),
        functionals=on_device(np.concatenate([functionals, one_hot], axis=1)),
        cells=present,
        cell_counts=pairs.multiplicity * np.bincount(cell_of.ravel(), minlength=len(present)),
        topics=None if carried is None else (*carried[:2], on_device(carried[2]), on_device(carried[3])),
        valid=on_device(pairs.valid),
        topic_counts=topic_counts,
        null=_null_plan(pairs, permuted, own, whole) if topics.n_permutations else None,
    )


def _functionals(
    pairs: LabelledPairs, document: dict[Estimator, StrataCounts]
) -> tuple[Float[np.ndarray, "pair topical"], dict[Estimator, tuple[float, float]]]:
    """Return the weights [pair, topical column] of debiased attention, and the sums of these weights over pairs."""
    same = pairs.is_same.astype(np.float64)
    functionals = np.zeros((len(pairs), 2 * len(ESTIMATORS)))
    strata = all_strata(pairs)
    weights: dict[Estimator, tuple[float, float]] = {}
    for number, estimator in enumerate(ESTIMATORS):
        columns = functionals[:, 2 * number : 2 * number + 2]
        if estimator == "pooled":
            columns[:, 0], columns[:, 1] = same, 1 - same
        elif estimator in strata:
            share = share_of_same(document[estimator])[strata[estimator]]
            columns[:, 0], columns[:, 1] = same * (1 - share), (1 - same) * share
        total_same, total_cross = (pairs.multiplicity * columns.sum(axis=0)).tolist()
        weights[estimator] = total_same, total_cross
    return functionals, weights


def _null_plan(
    pairs: LabelledPairs,
    permuted: Tensor,
    own: dict[Estimator, StrataCounts],
    document: dict[Estimator, StrataCounts],
) -> NullPlan:
    shares, strata = {}, {}
    n_permutations = permuted.shape[1]
    weights = np.zeros((n_permutations, 2 * len(ESTIMATORS)))
    n_same = own["within_document"].permuted_same[0].double().cpu().numpy()
    weights[:, 0], weights[:, 1] = n_same, pairs.multiplicity * len(pairs) - n_same
    for estimator, stratum in all_strata(pairs).items():
        total = torch.from_numpy(np.maximum(document[estimator].total, 1)).to(permuted.device).double()
        share = document[estimator].permuted_same.double() / total[:, None]
        shares[estimator] = share
        strata[estimator] = torch.from_numpy(stratum).to(permuted.device)
        of_row = own[estimator].permuted_same.double()
        in_row = torch.from_numpy(own[estimator].total).to(permuted.device).double()[:, None]
        column = 2 * ESTIMATORS.index(estimator)
        weights[:, column] = (of_row * (1 - share)).sum(dim=0).cpu().numpy()
        weights[:, column + 1] = ((in_row - of_row) * share).sum(dim=0).cpu().numpy()
    return NullPlan(permuted, shares, strata, weights)


def _topics(
    pairs: LabelledPairs, rows: np.ndarray, key_rows: np.ndarray, table: np.ndarray | None
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None, np.ndarray | None]:
    """Return the topics that occur on either side with the words that carry them, and numbers of pairs by topics."""
    if table is None or not len(pairs):
        return None, None
    carried, key_carried = table[rows], table[key_rows]
    present, key_present = np.flatnonzero(carried.any(axis=0)), np.flatnonzero(key_carried.any(axis=0))
    one, other = carried[:, present].astype(np.float64), key_carried[:, key_present].astype(np.float64)
    return (present, key_present, one, other), one.T @ pairs.valid.astype(np.float64) @ other
