"""Single entries of a pattern that a row's sums need: those of the same word, and corrections where sums go wrong.

The sum over all pairs of words takes ``n_seen / pieces`` of each token pair (:mod:`._row_plan`). Where a query sees
only some of the pieces of a word that is not the right weight, and the difference is taken entry by entry.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ._labelled_pairs import token_pair_scale
from ._pairs import word_numbers
from ._sides import Reach, Side, n_in_reach, query_share


def single_entries(
    query: Side, key: Side, reach: Reach, usable: np.ndarray | None
) -> tuple[tuple[np.ndarray, np.ndarray], Float[np.ndarray, "entry 2"], int, int]:
    """Return token pairs of the same word, corrections of all pairs, and the numbers of both kinds of word pairs."""
    words, key_words = word_numbers(query, key)
    tokens, key_tokens = query.word_tokens, key.word_tokens
    if not (query.is_split or key.is_split):
        at, key_at = np.nonzero(words[:, None] == key_words[None, :])
        q, k = tokens.token[at], key_tokens.token[key_at]
        keep = reach.sees(query.places[q] - key.places[k])
        if usable is not None:
            keep &= usable[q]
        q, k = q[keep], k[keep]
        n_seen = n_in_reach(query.places, key.places, reach)
        counted = tokens.token if usable is None else tokens.token[usable[tokens.token]]
        n_pairs = int(n_in_reach(query.places[counted], key.places[key_tokens.token], reach).sum())
        return (q, k), np.stack([n_seen[q], np.zeros(len(q))], axis=1).astype(np.float64), len(q), n_pairs
    scale, seen = token_pair_scale(query, key, tokens, key_tokens, reach, usable)
    share, _ = query_share(query, usable)
    n_seen = n_in_reach(query.places, key.places, reach)
    ordinary = (n_seen * share)[tokens.token][:, None] / key_tokens.pieces[key_tokens.word][None, :]
    ordinary = ordinary * reach.sees(query.places[tokens.token][:, None] - key.places[key_tokens.token][None, :])
    is_same = words[:, None] == key_words[None, :]
    correction = scale - ordinary
    correction[np.abs(correction) <= 1e-12 * scale] = 0.0
    same_scale = np.where(is_same[tokens.word][:, key_tokens.word], scale, 0.0)
    at, key_at = np.nonzero((correction != 0) | (same_scale != 0))
    weights = np.stack([same_scale[at, key_at], correction[at, key_at]], axis=1)
    return (tokens.token[at], key_tokens.token[key_at]), weights, int((seen & is_same).sum()), int(seen.sum())
