"""Promises of the measures of topic structure, on matrices small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from topic_probes.toy import optimal_embedding_gram, optimal_value_matrix
from topic_probes.toy._measures import block_contrast, distance_to_optimum, topic_attention


def test_a_contrast_counted_by_hand():
    """Same-topic pairs (0,1) and (1,0); the four pairs with word 2 are cross; the diagonal is apart."""
    found = block_contrast([[9, 2, 0], [4, 9, 0], [0, 1, 6]], [0, 0, 1])
    assert (found.same, found.cross, found.contrast, found.diagonal) == (3, 0.25, 2.75, 8)
    assert (found.n_same, found.n_cross) == (2, 4)


def test_the_standard_contrast_is_scipys_correlation():
    """Point-biserial, over pairs of different words with shared and unlabelled words among them."""
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(7, 7))
    topics = {0: [0], 1: [0, 1], 2: [1], 3: [2], 5: [2, 0], 6: [1]}
    pairs = [(i, j) for i in topics for j in topics if i != j]
    sharing = [bool(set(topics[i]) & set(topics[j])) for i, j in pairs]
    entries = [matrix[i, j] for i, j in pairs]
    found = block_contrast(matrix, topics)
    assert found.correlation == pytest.approx(scipy.stats.pointbiserialr(sharing, entries).statistic)
    assert found.same == pytest.approx(np.mean([e for e, s in zip(entries, sharing, strict=True) if s]))
    assert found.cross == pytest.approx(np.mean([e for e, s in zip(entries, sharing, strict=True) if not s]))
    assert found.diagonal == pytest.approx(np.mean([matrix[i, i] for i in topics]))
    assert block_contrast(5 * matrix + 3, topics).correlation == pytest.approx(found.correlation)


def test_perfect_blocks_correlate_fully():
    assert block_contrast(optimal_value_matrix(4, 3).matrix(), np.arange(12) // 3).correlation == pytest.approx(1)


@pytest.mark.parametrize("shape", [(6, 6), (6, 7), (7, 6), (7, 7)])
@pytest.mark.parametrize("form", ["sequence", "mapping"])
def test_the_row_and_column_of_the_mask_take_no_part(shape, form):
    matrix = np.random.default_rng(1).normal(size=(7, 7))
    topics = [0, 0, 1, 1, 2, 2] if form == "sequence" else {word: word // 2 for word in range(6)}
    assert block_contrast(matrix[: shape[0], : shape[1]], topics) == block_contrast(matrix[:6, :6], topics)


def test_an_empty_class_is_nan_and_says_so():
    alone = block_contrast(np.eye(3), [0, 1, 2])
    assert math.isnan(alone.same)
    assert math.isnan(alone.contrast)
    assert (alone.n_same, alone.cross) == (0, 0)
    together = block_contrast(np.eye(3), [0, 0, 0])
    assert math.isnan(together.cross)
    assert math.isnan(together.correlation)


def test_tables_and_tensors_are_matrices_too():
    torch = pytest.importorskip("torch")
    matrix = np.random.default_rng(2).normal(size=(4, 4))
    expected = block_contrast(matrix, [0, 0, 1, 1])
    assert block_contrast(pd.DataFrame(matrix), [0, 0, 1, 1]) == expected
    assert block_contrast(torch.tensor(matrix, requires_grad=True), [0, 0, 1, 1]) == expected
    assert expected.to_frame().loc[0, "contrast"] == expected.contrast


@pytest.mark.parametrize(
    ("matrix", "topics", "message"),
    [
        (np.zeros((3, 5)), [0, 1, 1], "a row and a column per word, and at most one more"),
        (np.full((2, 2), np.nan), [0, 1], "matrix must hold numbers, got NaN"),
        (np.zeros(3), [0, 1, 2], "matrix must be a matrix, got an array of shape"),
        (np.zeros((4, 4)), [0, 1], "topics must have one entry for each of the 4 words, got 2"),
    ],
)
def test_a_wrong_matrix_is_named(matrix, topics, message):
    with pytest.raises(ValueError, match=message):
        block_contrast(matrix, topics)


def test_what_holds_no_numbers_is_named():
    with pytest.raises(TypeError, match="matrix must be a matrix of numbers, got a str"):
        block_contrast("abc", [0, 1])


# --- distance to the optimum ---


def test_the_optimum_has_no_distance_to_itself():
    for optimum in (optimal_value_matrix(4, 3), optimal_embedding_gram(4, 3)):
        found = distance_to_optimum(optimum.matrix(), optimum)
        assert found.relative_error == 0
        assert (found.cosine, found.gap_ratio) == pytest.approx((1, 1))


def test_distance_counted_by_hand():
    """Twice the optimum is as far from it as zero is; its shape is the same, its gap twice as large."""
    optimum = optimal_value_matrix(4, 3)
    double = distance_to_optimum(2 * optimum.matrix(mask_row=True), optimum)
    assert (double.relative_error, double.cosine, double.gap_ratio) == pytest.approx((1, 1, 2))
    nothing = distance_to_optimum(np.zeros((12, 13)), optimum)
    assert (nothing.relative_error, nothing.gap_ratio) == (1, 0)
    assert math.isnan(nothing.cosine)
    assert nothing.to_frame().loc[0, "optimal_gap"] == optimum.gap


def test_the_row_of_the_mask_as_an_output_is_left_out():
    optimum = optimal_value_matrix(4, 3)
    matrix = optimum.matrix(mask_row=True)
    matrix[-1] = 100
    assert distance_to_optimum(matrix, optimum).relative_error == 0
    matrix[0, -1] = 100
    assert distance_to_optimum(matrix, optimum).relative_error > 1


def test_a_matrix_of_another_size_is_named():
    with pytest.raises(ValueError, match=r"matrix must have the shape \(12, 13\), as 4 topics of 3 words"):
        distance_to_optimum(np.zeros((6, 7)), optimal_value_matrix(4, 3))


# --- attention: what is refused ---


def test_what_has_no_hooks_cannot_be_measured():
    with pytest.raises(TypeError, match="model must have TransformerLens' hooks, got a list"):
        topic_attention([], [[0, 1]], [0, 1])
