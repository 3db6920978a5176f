"""Sums by layer against all values at once, however rows are split and in whatever order they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topic_probes.statistics._contextual import LayerPairs

VALUES = st.lists(st.integers(-1000, 1000).map(lambda number: number / 8 + 300), max_size=5)
ROWS = st.lists(st.tuples(st.integers(0, 3), VALUES, VALUES), min_size=1, max_size=12)


def filled(rows: list[tuple[int, list[float], list[float]]]) -> LayerPairs:
    pairs = LayerPairs.empty((0,))
    for group, *classes in rows:
        counts = np.tile([len(values) for values in classes], (3, 1))
        sums = np.tile([sum(values) for values in classes], (3, 1)).astype(float)
        squares = np.tile([len(values) * np.var(values) if values else 0.0 for values in classes], (3, 1))
        pairs.update(0, group, counts, sums, squares)
        pairs.add_row(group, 1)
    return pairs


@given(ROWS, st.data())
def test_any_split_in_any_order_gives_the_moments_of_all_values(rows, data) -> None:
    at = data.draw(st.integers(0, len(rows)))
    shuffled = data.draw(st.permutations(rows))
    merged = filled(shuffled[:at]).merge(filled(shuffled[at:]))
    for column in (0, 1):
        values = [value for row in rows for value in row[column + 1]]
        assert merged.n_pairs[0, 0, column] == len(values)
        if values:
            assert merged.mean[0, 0, column] == pytest.approx(np.mean(values), rel=1e-12)
            assert merged.std[0, 0, column] == pytest.approx(np.std(values), rel=1e-9, abs=1e-10)
        else:
            assert np.isnan(merged.mean[0, 0, column])
            assert np.isnan(merged.std[0, 0, column])


@given(ROWS)
def test_within_documents_a_constant_of_a_row_changes_nothing(rows) -> None:
    """What only rows differ in is taken off; the pooled difference sees it."""
    moved = [
        (group, *([value + 64.0 * number for value in values] for values in classes))
        for number, (group, *classes) in enumerate(rows)
    ]
    one, other = (np.diff(filled(each).means("within_document")) for each in (rows, moved))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
