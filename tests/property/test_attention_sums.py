"""The sums of the streaming accumulator, against four loops in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from topic_probes import TopicLabels
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.statistics._sums import BASIC_COLUMNS
from topic_probes.tokens import Window

N_HEADS = 2
N_BASIC = len(BASIC_COLUMNS)
RELATIVE = 1e-9
"""Sums of a few hundred float64 terms in another order."""
EXACT = 1e-12
"""A mean that is 1 on paper: rounding of one division per pair."""


@dataclass(frozen=True)
class Row:
    """One row of a batch, and all that is known of it."""

    places: np.ndarray
    """Positions of the real tokens in the batch."""
    window: Window
    words: list[tuple[str, list[int]]]
    special: list[int]


@dataclass(frozen=True)
class Case:
    """Batches of rows, topics, and what the queries see."""

    batches: list[tuple[int, list[Row]]]
    topics: dict[str, tuple[int, ...]]
    sees: Callable[[int, int], bool]

    @property
    def labels(self) -> TopicLabels:
        return TopicLabels.from_dict(self.topics, n_topics=3)


RECIPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "masks": st.lists(
            st.tuples(st.sampled_from(["none", "right", "left", "holes"]), st.integers(1, 12), st.integers(1, 3)),
            min_size=1,
            max_size=3,
        ),
        "most_pieces": st.sampled_from([1, 3]),
        "reach": st.sampled_from([(99, 99), (99, 0), (2, 0), (4, 0), (1, 2), (3, 3)]),
    }
)
"""Plain numbers; the case is made of them inside the test, because beartype draws from the global generator."""


def make_case(recipe: dict) -> Case:
    numbers = np.random.default_rng(recipe["seed"])
    words = ["ant", "bee", "cod", "doe", "elk", "fox"]
    topics = {word: tuple(np.flatnonzero(numbers.random(3) < 0.45).tolist()) for word in words}
    topics["ant"] = topics["ant"] or (0,)
    back, ahead = recipe["reach"]
    batches = [
        (
            length,
            [_row(numbers, f"{batch}-{row}", length, mask, words, recipe["most_pieces"]) for row in range(n_rows)],
        )
        for batch, (mask, length, n_rows) in enumerate(recipe["masks"])
    ]
    return Case(batches, topics, lambda q, k: q - k <= back and k - q <= ahead)


def _row(
    numbers: np.random.Generator, document_id: str, length: int, mask: str, words: list[str], most_pieces: int
) -> Row:
    n_real = int(numbers.integers(1, length + 1))
    places = {
        "none": np.arange(length),
        "right": np.arange(n_real),
        "left": np.arange(length - n_real, length),
        "holes": np.sort(numbers.permutation(length)[:n_real]),
    }[mask]
    parts: list[tuple[str, list[int]]] = []
    special: list[int] = []
    position = 0
    while position < len(places):
        kind = numbers.random()
        if kind < 0.2:
            special.append(position)
            position += 1
        elif kind < 0.3:
            position += 1  # punctuation: takes part in nothing
        else:
            stop = min(position + int(numbers.integers(1, most_pieces + 1)), len(places))
            parts.append((str(numbers.choice(words)), list(range(position, stop))))
            position = stop
    is_special = np.isin(np.arange(len(places)), special)
    window = Window(
        document_id,
        np.arange(len(places)),
        is_special,
        tuple(word for word, _ in parts),
        np.array([pieces[0] for _, pieces in parts], dtype=np.int64),
        np.array([pieces[-1] + 1 for _, pieces in parts], dtype=np.int64),
    )
    return Row(places, window, parts, special)


def batch_pattern(case: Case, length: int, rows: list[Row], weigh: Callable[[tuple[int, ...]], np.ndarray]) -> Tensor:
    """[batch, head, query_pos, key_pos]: softmax of what ``weigh`` draws; NaN in the rows of pads."""
    sees = np.array([[case.sees(query, key) for key in range(length)] for query in range(length)])
    pattern = np.full((len(rows), N_HEADS, length, length), np.nan)
    for index, row in enumerate(rows):
        real = np.isin(np.arange(length), row.places)
        logits = np.where(sees & real[None, :], weigh((N_HEADS, length, length)), -np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
            pattern[index][:, real] = (weights / weights.sum(axis=-1, keepdims=True))[:, real]
    return torch.from_numpy(pattern)


def count(case: Case, patterns: list[Tensor], layers: tuple[int, ...] = (0,)) -> PatternCounter:
    measures = PairMeasures(case.labels)
    counter = PatternCounter(layers, measures)
    for (_, rows), pattern in zip(case.batches, patterns, strict=True):
        contiguous = [bool(np.ptp(row.places) + 1 == len(row.places)) for row in rows]
        positions = [
            slice(int(row.places[0]), int(row.places[-1]) + 1) if whole else torch.from_numpy(row.places)
            for row, whole in zip(rows, contiguous, strict=True)
        ]
        counter.begin_batch(BatchRows([row.window for row in rows], positions, measures))
        for layer in layers:
            counter.count(layer, pattern)
        counter.end_batch()
    return counter


def oracle(case: Case, patterns: list[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    sums, counts = np.zeros((N_HEADS, 5)), np.zeros(5, dtype=np.int64)
    for (_, rows), pattern in zip(case.batches, patterns, strict=True):
        for row, of_row in zip(rows, pattern.double().numpy(), strict=True):
            places = row.places.tolist()
            for head in range(N_HEADS):
                found = oracles.attention_by_class(
                    of_row[head][np.ix_(places, places)].tolist(),
                    row.words,
                    case.topics,
                    lambda q, k, places=places: case.sees(places[q], places[k]),
                    row.special,
                )
                sums[head] += [*found[0].values(), found[2]]
            counts += [*found[1].values(), found[3]]
    return sums, counts


@given(RECIPES, st.integers(0, 2**32 - 1), st.floats(0.1, 4))
def test_sums_equal_the_four_loops(recipe: dict, seed: int, spread: float) -> None:
    """Any lengths, masks, labels, words of several pieces, directions, windows and special tokens."""
    case = make_case(recipe)
    numbers = np.random.default_rng(seed)
    patterns = [
        batch_pattern(case, length, rows, lambda shape: numbers.normal(0, spread, shape))
        for length, rows in case.batches
    ]
    counter = count(case, patterns)
    sums, counts = oracle(case, patterns)
    assert counter.totals is not None
    np.testing.assert_allclose(counter.totals.sums.sum(axis=2)[0, :, :N_BASIC], sums, rtol=RELATIVE, atol=EXACT)
    np.testing.assert_array_equal(counter.totals.counts.sum(axis=1)[0, :N_BASIC], counts)
    assert counter.totals.n_excluded_rows.tolist() == [0]


@given(RECIPES)
def test_uniform_attention_is_one_in_every_class(recipe: dict) -> None:
    """Whatever the lengths, the labels, the direction, the window and the pieces of a word."""
    case = make_case(recipe)
    patterns = [batch_pattern(case, length, rows, np.zeros) for length, rows in case.batches]
    totals = count(case, patterns).totals
    assert totals is not None
    sums, counts = totals.sums.sum(axis=2)[0, :, :4], totals.counts.sum(axis=1)[0, :4]
    means = sums[:, counts > 0] / counts[counts > 0]
    np.testing.assert_allclose(means, 1.0, rtol=EXACT)
    assert not sums[:, counts == 0].any()


@settings(max_examples=30)
@given(RECIPES, st.integers(0, 2**32 - 1))
def test_shares_of_a_query_add_to_one(recipe: dict, seed: int) -> None:
    """Same token, no topic, same and cross topic, special and what takes no part: all attention of a query word."""
    case = make_case(recipe)
    case = Case(case.batches, case.topics, lambda q, k: True)
    numbers = np.random.default_rng(seed)
    patterns = [
        batch_pattern(case, length, rows, lambda shape: numbers.normal(0, 1, shape)) for length, rows in case.batches
    ]
    for number, (_, rows) in enumerate(case.batches):
        part = Case([case.batches[number]], case.topics, case.sees)
        for row_number, row in enumerate(rows):
            if any(len(pieces) > 1 for _, pieces in row.words):
                continue
            alone = Case([(part.batches[0][0], [row])], case.topics, case.sees)
            pattern = patterns[number][row_number : row_number + 1]
            totals = count(alone, [pattern]).totals
            assert totals is not None
            n_seen = len(row.places)
            inside = totals.sums.sum(axis=2)[0, :, :4].sum(axis=-1) / n_seen + totals.sums.sum(axis=2)[0, :, 4]
            taken = {position for _, pieces in row.words for position in pieces} | set(row.special)
            outside = sorted(set(range(n_seen)) - taken)
            queries = [row.places[pieces[0]] for _, pieces in row.words]
            rest = pattern[0][:, queries][:, :, row.places[outside]].sum(dim=(1, 2)).numpy()
            np.testing.assert_allclose(inside + rest, len(queries), rtol=RELATIVE, atol=EXACT)


@settings(max_examples=30)
@given(RECIPES, st.integers(0, 2**32 - 1))
def test_the_order_of_batches_changes_nothing(recipe: dict, seed: int) -> None:
    """Also when the row that shows the window comes last."""
    case = make_case(recipe)
    numbers = np.random.default_rng(seed)
    patterns = [
        batch_pattern(case, length, rows, lambda shape: numbers.normal(0, 1, shape)) for length, rows in case.batches
    ]
    turned = Case(case.batches[::-1], case.topics, case.sees)
    one, other = count(case, patterns).totals, count(turned, patterns[::-1]).totals
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(one.sums, other.sums, rtol=RELATIVE, atol=EXACT)
    np.testing.assert_array_equal(one.counts, other.counts)


@settings(max_examples=30)
@given(RECIPES, st.integers(0, 2**32 - 1), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_narrow_patterns_are_summed_in_float64(recipe: dict, seed: int, dtype: torch.dtype) -> None:
    """The sum is that of the narrow numbers as they are, to the last digits of float64."""
    case = make_case(recipe)
    numbers = np.random.default_rng(seed)
    patterns = [
        batch_pattern(case, length, rows, lambda shape: numbers.normal(0, 1, shape)).to(dtype)
        for length, rows in case.batches
    ]
    counter = count(case, patterns)
    sums, counts = oracle(case, patterns)
    assert counter.totals is not None
    np.testing.assert_allclose(counter.totals.sums.sum(axis=2)[0, :, :N_BASIC], sums, rtol=RELATIVE, atol=EXACT)
    np.testing.assert_array_equal(counter.totals.counts.sum(axis=1)[0, :N_BASIC], counts)


def test_sums_over_many_rows_do_not_drift_in_bfloat16() -> None:
    """1000 rows of a uniform pattern over 8 keys: the mean is 1, which a bfloat16 sum could not hold."""
    labels = TopicLabels.from_dict({0: 0, 1: 0})
    window = Window("d", np.arange(8), np.zeros(8, dtype=bool), tuple(range(8)), np.arange(8), np.arange(1, 9))
    measures = PairMeasures(labels)
    counter = PatternCounter((0,), measures)
    for _ in range(10):
        counter.begin_batch(BatchRows([window] * 100, [slice(0, 8)] * 100, measures))
        counter.count(0, torch.full((100, 1, 8, 8), 1 / 8, dtype=torch.bfloat16))
        counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.sums.sum(axis=2)[0, 0, 0] == pytest.approx(8000, rel=EXACT)
