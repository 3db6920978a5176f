"""Pairs of labelled words of one row: their weights, classes and strata.

A word pair (Q, K) has the debiased attention (docs/science.md, *Debiased attention*)

    mean over the pieces q of Q that see K of  ( sum over pieces k of K of A[q, k] ) / ( p / n )

with n the keys that q sees and p the pieces of K among them. So it is linear in the pattern: a token
pair has the weight ``n / (p * number of such q)``. Under ``whole`` that is n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ..statistics._strata import Estimator, distance_bucket, frequency_stratum
from ._sides import Reach, Side, WordTokens, n_in_reach
from ._topic_sets import TopicSets


def token_pair_scale(
    query: Side,
    key: Side,
    query_tokens: WordTokens,
    key_tokens: WordTokens,
    reach: Reach,
    usable: Bool[np.ndarray, " query_pos"] | None,
) -> tuple[Float[np.ndarray, "query_piece key_piece"], Bool[np.ndarray, "query_word key_word"]]:
    """Return what to multiply attention between tokens by, and which words see each other.

    Args:
        query: the side that asks.
        key: the side that is asked.
        query_tokens: the tokens of the words of interest on it.
        key_tokens: the same of the keys.
        reach: what a query sees.
        usable: query positions that count; None for all.
    """
    offset = query.places[query_tokens.token][:, None] - key.places[key_tokens.token][None, :]
    sees = reach.sees(offset)
    if usable is not None:
        sees &= usable[query_tokens.token][:, None]
    n_seen = n_in_reach(query.places[query_tokens.token], key.places, reach)
    if len(query_tokens.token) == len(query_tokens.first) and len(key_tokens.token) == len(key_tokens.first):
        return np.where(sees, n_seen[:, None], 0).astype(np.float64), sees
    pieces_seen = key_tokens.sum_by_word(sees, axis=1)
    rows_that_see = query_tokens.sum_by_word(pieces_seen > 0, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # where a word is not seen
        scale = n_seen[:, None] / (
            pieces_seen[:, key_tokens.word] * rows_that_see[query_tokens.word][:, key_tokens.word]
        )
    return np.where(sees, scale, 0.0), rows_that_see > 0


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of labelled words, same words left out, that see each other.

    In one stack that sees alike in both directions a pair and its mirror image have one entry, as they
    have one class, one distance and one stratum: ``multiplicity`` is 2 then.
    """

    query_words: Int[np.ndarray, " labelled"]
    """[labelled] numbers of the labelled words on the query side, in the window; entries below refer to these."""
    key_words: Int[np.ndarray, " labelled_key"]
    query_tokens: WordTokens
    key_tokens: WordTokens
    scale: Float[np.ndarray, "query_piece key_piece"]
    valid: Bool[np.ndarray, "labelled labelled_key"]
    """[labelled, labelled_key] the words see each other and are not the same."""
    query: Int[np.ndarray, " pair"]
    """[pair] entry in query_words."""
    key: Int[np.ndarray, " pair"]
    multiplicity: int
    is_same: Bool[np.ndarray, " pair"]
    """[pair] whether the topic sets meet."""
    distance: Int[np.ndarray, " pair"]
    """[pair] bucket of the distance between the first tokens."""
    strata: dict[Estimator, Int[np.ndarray, " pair"]]
    """Estimator -> [pair] stratum within the document, for those that have strata finer than it."""

    def __len__(self) -> int:
        return len(self.query)


def labelled_pairs(
    query: Side,
    key: Side,
    topics: TopicSets,
    reach: Reach,
    frequency_class: Int[np.ndarray, " row"] | None = None,
    usable: Bool[np.ndarray, " query_pos"] | None = None,
) -> LabelledPairs:
    """Return the pairs of labelled words between two sides (one and the same for self-attention).

    Args:
        query: the side that asks.
        key: the side that is asked.
        topics: the topic sets of the labelled words.
        reach: what a query sees.
        frequency_class: [row] tenth of frequency of each row of the labels' table; None for no such strata.
        usable: query positions that count; None for all.
    """
    query_tokens, key_tokens = query.tokens_of(query.labelled), key.tokens_of(key.labelled)
    scale, seen = token_pair_scale(query, key, query_tokens, key_tokens, reach, usable)
    rows, key_rows = query.rows[query.labelled], key.rows[key.labelled]
    valid = seen & (rows[:, None] != key_rows[None, :])
    mirrored = query is key and bool((valid == valid.T).all())
    q, k = np.nonzero(np.triu(valid) if mirrored else valid)
    start_q = query.places[query.window.starts[query.labelled]][q]
    start_k = key.places[key.window.starts[key.labelled]][k]
    bucket = distance_bucket(np.abs(start_q - start_k))
    strata: dict[Estimator, np.ndarray] = {"distance_matched": bucket}
    if frequency_class is not None:
        # A pair and its mirror image are in one stratum.
        strata["frequency_matched"] = frequency_stratum(frequency_class[rows[q]], frequency_class[key_rows[k]])
    return LabelledPairs(
        query_words=query.labelled,
        key_words=key.labelled,
        query_tokens=query_tokens,
        key_tokens=key_tokens,
        scale=scale,
        valid=valid,
        query=q,
        key=k,
        multiplicity=2 if mirrored else 1,
        is_same=topics.meet(rows[q], key_rows[k]),
        distance=bucket,
        strata=strata,
    )
