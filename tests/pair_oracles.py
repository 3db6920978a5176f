"""Estimators by plain loops: every pair of every document in a list, and the formulas written out over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oracles import pair_class


class Pair(NamedTuple):
    """One ordered pair of words of one document."""

    document: object
    query: object
    key: object
    pair_class: str
    distance: int
    attention: float
    """In units of uniform = 1."""
    renormalised: float
    """The same after the row was divided by what it gives to tokens of words."""


def pairs_of_row(
    document: object,
    pattern: Sequence[Sequence[float]],
    words: Sequence[tuple[object, Sequence[int]]],
    topics: dict,
    sees: Callable[[int, int], bool],
    places: Sequence[int] | None = None,
) -> Iterable[Pair]:
    """All pairs that see each other; ``words`` are (word, token positions)."""
    n = len(pattern)
    place = list(range(n)) if places is None else list(places)
    of_words = [position for _, pieces in words for position in pieces]
    for query_word, query_pieces in words:
        for key_word, key_pieces in words:
            plain, among_words = [], []
            for q in query_pieces:
                visible = [k for k in key_pieces if sees(q, k)]
                if not visible:
                    continue
                attention = math.fsum(float(pattern[q][k]) for k in visible)
                n_visible = sum(1 for k in range(n) if sees(q, k))
                plain.append(attention / (len(visible) / n_visible))
                to_words = math.fsum(float(pattern[q][k]) for k in of_words if sees(q, k))
                n_words = sum(1 for k in of_words if sees(q, k))
                among_words.append(attention / to_words / (len(visible) / n_words) if to_words else 0.0)
            if plain:
                yield Pair(
                    document,
                    query_word,
                    key_word,
                    pair_class(query_word, key_word, topics),
                    abs(place[query_pieces[0]] - place[key_pieces[0]]),
                    math.fsum(plain) / len(plain),
                    math.fsum(among_words) / len(among_words),
                )


def with_topics(pairs: Iterable[Pair], topics: dict) -> list[Pair]:
    """The same pairs under other labels."""
    return [pair._replace(pair_class=pair_class(pair.query, pair.key, topics)) for pair in pairs]


def same_and_cross(
    pairs: Sequence[Pair], stratum: Callable[[Pair], object] | None = None, *, renormalised: bool = False
) -> tuple[float, float]:
    """Same- and cross-topic means: pooled without strata, with them by Mantel-Haenszel weights s c / (s + c)."""

    def value(pair: Pair) -> float:
        return pair.renormalised if renormalised else pair.attention

    strata: dict[object, tuple[list[float], list[float]]] = {}
    for pair in pairs:
        if pair.pair_class in ("same_topic", "cross_topic"):
            same, cross = strata.setdefault(stratum(pair) if stratum else None, ([], []))
            (same if pair.pair_class == "same_topic" else cross).append(value(pair))
    if stratum is None:
        same, cross = strata.get(None, ([], []))
        return _mean(same), _mean(cross)
    total = sum(len(s) * len(c) / (len(s) + len(c)) for s, c in strata.values())
    if not total:
        return math.nan, math.nan
    same_sum = math.fsum(math.fsum(s) * len(c) / (len(s) + len(c)) for s, c in strata.values())
    cross_sum = math.fsum(math.fsum(c) * len(s) / (len(s) + len(c)) for s, c in strata.values())
    return same_sum / total, cross_sum / total


def by_topic(pairs: Sequence[Pair], topics: dict, n_topics: int) -> list[list[float]]:
    """[query topic][key topic] mean attention between words that carry them, same words left out."""
    cells: list[list[list[float]]] = [[[] for _ in range(n_topics)] for _ in range(n_topics)]
    for pair in pairs:
        if pair.query != pair.key:
            for one in topics.get(pair.query, ()):
                for other in topics.get(pair.key, ()):
                    cells[one][other].append(pair.attention)
    return [[_mean(cell) for cell in row] for row in cells]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
