"""Batches and stretches, for any windows and any limits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topic_probes.probes._batches import BatchLimits, batches, stretches
from topic_probes.tokens import Window

LENGTHS = st.lists(st.lists(st.integers(1, 40), max_size=5), max_size=30)
"""Of the windows of each document; a document may have none."""
ROWS = st.one_of(st.none(), st.integers(1, 6))
TOKENS = st.one_of(st.none(), st.integers(1, 90))


def window(name: str, length: int) -> Window:
    nothing = np.zeros(0, dtype=np.int64)
    return Window(name, np.arange(1, length + 1), np.zeros(length, dtype=np.bool_), (), nothing, nothing)


def documents_of(lengths: list[list[int]]) -> list[list[Window]]:
    return [[window(str(number), length) for length in own] for number, own in enumerate(lengths)]


@given(LENGTHS, ROWS, TOKENS, st.booleans())
def test_every_window_goes_in_once_and_both_bounds_hold(lengths, rows, tokens, allow_padding) -> None:
    limits = BatchLimits(rows, tokens, pad_id=7, allow_padding=allow_padding)
    found = []
    for stretch in stretches(documents_of(lengths), limits):
        for batch in limits.batches(stretch):
            assert rows is None or len(batch.windows) <= rows
            assert tokens is None or batch.n_tokens <= tokens or len(batch.windows) == 1
            assert allow_padding or bool(batch.mask.all())
            assert batch.token_ids.shape == batch.mask.shape
            for row, own in enumerate(batch.windows):
                real = batch.mask[row].bool()
                assert batch.token_ids[row][real].tolist() == own.token_ids.tolist()
                assert (batch.token_ids[row][~real] == 7).all()
            found += batch.windows
    assert sorted((one.document_id, len(one)) for one in found) == sorted(
        (str(number), length) for number, own in enumerate(lengths) for length in own
    )


@given(LENGTHS, ROWS, TOKENS, st.integers(1, 90))
def test_a_stretch_ends_after_a_document_wherever_it_begins_and_however_small_batches_have_become(
    lengths, rows, tokens, fewer
) -> None:
    """So a run that goes on from the end of one makes the same stretches as one that was never broken off."""

    def cut(documents, limits) -> list[list[str]]:
        return [[one.document_id for one in stretch] for stretch in stretches(documents, limits)]

    documents = documents_of(lengths)
    whole = cut(documents, BatchLimits(rows, tokens))
    seen = 0
    for number, stretch in enumerate(whole[:-1]):
        seen = int(stretch[-1]) + 1
        halved = BatchLimits(rows, tokens)
        halved.tokens = fewer
        assert cut(documents[seen:], halved) == whole[number + 1 :]
        assert not {name for later in whole[number + 1 :] for name in later} & set(stretch)


@given(st.lists(st.integers(1, 40), max_size=300), st.integers(1, 6))
def test_a_stretch_is_no_longer_than_32_batches_and_a_document(lengths, rows) -> None:
    documents = [[window("", length)] for length in lengths]
    sizes = [len(stretch) for stretch in stretches(documents, BatchLimits(rows, None))]
    assert sum(sizes) == len(lengths)
    assert all(size == 32 * rows for size in sizes[:-1])
    assert len(list(batches([own for (own,) in documents], rows, 0))) >= len(lengths) / rows


@given(st.lists(st.integers(1, 40), max_size=300), st.integers(1, 30))
def test_a_stretch_is_no_longer_than_the_tokens_of_32_batches_and_a_document(lengths, tokens) -> None:
    documents = [[window("", length)] for length in lengths]
    for stretch in stretches(documents, BatchLimits(None, tokens)):
        assert sum(map(len, stretch[:-1])) < 32 * tokens
