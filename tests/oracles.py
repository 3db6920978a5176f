"""What the numbers must be: plain loops in float64, written from the formulas and never from our code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

CLASSES = ("same_token", "same_topic", "cross_topic", "no_topic")


def pair_class(query: object, key: object, topics: dict) -> str:
    """The first of the four classes that fits (same token, no topic, same topic, cross topic)."""
    if query == key:
        return "same_token"
    if not topics.get(query) or not topics.get(key):
        return "no_topic"
    return "same_topic" if set(topics[query]) & set(topics[key]) else "cross_topic"


def attention_by_class(
    pattern: Sequence[Sequence[float]],
    words: Sequence[tuple[object, Sequence[int]]],
    topics: dict,
    sees: Callable[[int, int], bool],
    special: Sequence[int] = (),
    key_words: Sequence[tuple[object, Sequence[int]]] | None = None,
) -> tuple[dict[str, float], dict[str, int], float, int]:
    """Sums and counts of debiased attention by class, and attention to special tokens, for one head of one row.

    ``words`` are (word, token positions); ``sees(q, k)`` whether token q may attend to token k. In cross-attention
    ``words`` are those of the queries, ``key_words`` those of the keys; ``special`` are positions of keys.
    """
    n = len(pattern[0])
    sums = dict.fromkeys(CLASSES, 0.0)
    counts = dict.fromkeys(CLASSES, 0)
    sink, n_queries = 0.0, 0
    for query_word, query_pieces in words:
        n_queries += 1
        for q in query_pieces:
            for k in special:
                if sees(q, k):
                    sink += float(pattern[q][k]) / len(query_pieces)
        for key_word, key_pieces in words if key_words is None else key_words:
            rows = []
            for q in query_pieces:
                visible_pieces = [k for k in key_pieces if sees(q, k)]
                if not visible_pieces:
                    continue
                n_visible = sum(1 for k in range(n) if sees(q, k))
                attention = math.fsum(float(pattern[q][k]) for k in visible_pieces)
                rows.append(attention / (len(visible_pieces) / n_visible))
            if rows:
                name = pair_class(query_word, key_word, topics)
                sums[name] += math.fsum(rows) / len(rows)
                counts[name] += 1
    return sums, counts, sink, n_queries
