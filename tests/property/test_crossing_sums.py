"""The sums of attention between two rows, as in cross-attention, against four loops in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import oracles
from topic_probes import TopicLabels
from topic_probes._axes import Site
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._pairs import classify
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.tokens import Window

N_HEADS = 2
RELATIVE, EXACT = 1e-9, 1e-12
CROSS = Site("cross", 0)
WORDS = ("ant", "bee", "cod", "doe", "elk")
TOPICS = {"ant": (0,), "bee": (0, 1), "cod": (1,), "doe": (2,)}

SIZES = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9)), min_size=1, max_size=3)
"""Real tokens of the decoder and of the encoder in each row of a batch."""


class Side(NamedTuple):
    places: np.ndarray
    window: Window
    words: list[tuple[str, list[int]]]
    special: list[int]


def make_side(numbers: np.random.Generator, name: str, n_real: int, length: int, most_pieces: int) -> Side:
    """Real tokens anywhere in the row, holes included; words of up to so many pieces, special tokens, others."""
    places = np.sort(numbers.permutation(length)[:n_real])
    words: list[tuple[str, list[int]]] = []
    special: list[int] = []
    at = 0
    while at < n_real:
        kind = numbers.random()
        if kind < 0.3:
            special += [at] if kind < 0.2 else []
            at += 1
            continue
        stop = min(at + int(numbers.integers(1, most_pieces + 1)), n_real)
        words.append((str(numbers.choice(WORDS)), list(range(at, stop))))
        at = stop
    starts, stops = (np.array([pieces[end] for _, pieces in words], dtype=np.int64) for end in (0, -1))
    is_special = np.isin(np.arange(n_real), special)
    window = Window(name, np.arange(n_real), is_special, tuple(word for word, _ in words), starts, stops + 1)
    return Side(places, window, words, special)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def make_batch(sizes: Any, seed: int, spread: float, most_pieces: int) -> tuple[list[Side], list[Side], np.ndarray]:
    """The rows of the decoder, those of the encoder, and [batch, head, query_pos, key_pos]; NaN in rows of pads."""
    numbers = np.random.default_rng(seed)
    lengths = [max(column) + int(numbers.integers(0, 3)) for column in zip(*sizes, strict=True)]
    decoder, encoder = (
        [make_side(numbers, str(row), size[side], lengths[side], most_pieces) for row, size in enumerate(sizes)]
        for side in (0, 1)
    )
    pattern = np.full((len(sizes), N_HEADS, *lengths), np.nan)
    for row, (asks, answers) in enumerate(zip(decoder, encoder, strict=True)):
        logits = np.full((N_HEADS, len(asks.places), lengths[1]), -np.inf)
        shape = (N_HEADS, len(asks.places), len(answers.places))
        logits[:, :, answers.places] = numbers.normal(0, spread, shape) if spread else np.zeros(shape)
        pattern[row][:, asks.places] = softmax(logits)
    return decoder, encoder, pattern


def count(decoder: list[Side], encoder: list[Side], pattern: np.ndarray) -> PatternCounter:
    measures = PairMeasures(TopicLabels.from_dict(TOPICS))
    counter = PatternCounter((CROSS,), measures)
    positions, decoder_positions = (
        [
            slice(int(side.places[0]), int(side.places[-1]) + 1)
            if np.ptp(side.places) + 1 == len(side.places)
            else torch.from_numpy(side.places)
            for side in sides
        ]
        for sides in (encoder, decoder)
    )
    rows = BatchRows([side.window for side in encoder], positions, measures)
    rows.add_decoder([side.window for side in decoder], decoder_positions, None)
    counter.begin_batch(rows)
    counter.count(CROSS, torch.from_numpy(pattern))
    counter.end_batch()
    return counter


@given(SIZES, st.integers(0, 2**32 - 1), st.floats(0.1, 4), st.integers(1, 3))
def test_sums_between_two_rows_equal_the_four_loops(sizes: Any, seed: int, spread: float, most_pieces: int) -> None:
    """Any lengths of the two, masks with holes, words of several pieces, special tokens of the encoder."""
    decoder, encoder, pattern = make_batch(sizes, seed, spread, most_pieces)
    totals = count(decoder, encoder, pattern).totals
    sums, counts = np.zeros((N_HEADS, 5)), np.zeros(5, dtype=np.int64)
    for asks, answers, of_row in zip(decoder, encoder, pattern, strict=True):
        for head in range(N_HEADS):
            found = oracles.attention_by_class(
                of_row[head][np.ix_(asks.places, answers.places)].tolist(),
                asks.words,
                TOPICS,
                lambda q, k: True,
                answers.special,
                key_words=answers.words,
            )
            sums[head] += [*found[0].values(), found[2]]
        counts += [*found[1].values(), found[3]]
    assert totals is not None
    found_sums, found_counts = helpers.basic_sums(totals)
    np.testing.assert_allclose(found_sums[0], sums, rtol=RELATIVE, atol=EXACT)
    np.testing.assert_array_equal(found_counts[0], counts)
    assert totals.n_excluded_rows.tolist() == [0]


@settings(max_examples=40)
@given(SIZES, st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_uniform_attention_to_the_encoder_is_one_in_every_class(sizes: Any, seed: int, most_pieces: int) -> None:
    decoder, encoder, pattern = make_batch(sizes, seed, 0.0, most_pieces)
    totals = count(decoder, encoder, pattern).totals
    assert totals is not None
    sums, counts = totals.sums.sum(axis=2)[0, :, :4], totals.counts.sum(axis=1)[0, :4]
    np.testing.assert_allclose(sums[:, counts > 0] / counts[counts > 0], 1.0, rtol=EXACT)


@settings(max_examples=40)
@given(SIZES, st.integers(0, 2**32 - 1))
def test_turning_the_classes_of_two_rows_round_turns_them(sizes: Any, seed: int) -> None:
    """Whether a word of one row goes with a word of the other does not depend on which of them asks."""
    decoder, encoder, _ = make_batch(sizes, seed, 0.0, 1)
    labels = TopicLabels.from_dict(TOPICS)
    for asks, answers in zip(decoder, encoder, strict=True):
        one = classify(asks.window, labels, keys=answers.window).classes
        other = classify(answers.window, labels, keys=asks.window).classes
        np.testing.assert_array_equal(one, other.T)
