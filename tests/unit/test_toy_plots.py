"""Pictures of the toy laboratory, tested on what is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from topic_probes.report import plot_document_attention, plot_topic_matrix, plot_training, save_plot


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def cells_of(ax) -> np.ma.MaskedArray:
    mesh = ax.collections[0]
    values = np.ma.asarray(mesh.get_array())
    return values.reshape(mesh.get_coordinates().shape[0] - 1, -1)


def ticks(ax, which: str) -> list[str]:
    axis = ax.xaxis if which == "x" else ax.yaxis
    return [label.get_text() for label in axis.get_ticklabels()]


def lines_at(ax) -> tuple[set[float], set[float]]:
    """Places of the horizontal and of the vertical lines."""
    drawn = [line.get_xydata() for line in ax.lines]
    horizontal = {float(data[0, 1]) for data in drawn if data[0, 1] == data[1, 1]}
    return horizontal, {float(data[0, 0]) for data in drawn if data[0, 0] == data[1, 0]}


MATRIX = np.arange(16.0).reshape(4, 4) - 8


def test_words_are_sorted_by_topic_and_topics_marked_off():
    """Topics in the order in which they appear, words in theirs; a line after each topic."""
    ax = plot_topic_matrix(MATRIX, [1, 0, 1, 0])
    order = [0, 2, 1, 3]
    np.testing.assert_array_equal(np.argsort(cells_of(ax).ravel()), np.argsort(MATRIX[np.ix_(order, order)].ravel()))
    assert lines_at(ax) == ({2.0}, {2.0})
    assert ticks(ax, "y") == ["topic 1", "topic 0"]


def test_colours_are_symmetric_about_zero_and_end_at_the_largest_entry_off_the_diagonal():
    matrix = np.array([[100.0, 2.0], [-3.0, 50.0]])
    ax = plot_topic_matrix(matrix, [0, 1])
    mesh = ax.collections[0]
    assert mesh.get_clim() == (-3.0, 3.0)
    assert mesh.colorbar.extend == "max"
    white = mesh.get_cmap()(0.5)
    assert min(white[:3]) > 0.95


def test_the_diagonal_may_be_left_out():
    assert cells_of(plot_topic_matrix(MATRIX, [0, 0, 1, 1], diagonal=False)).mask.sum() == 4
    assert not np.ma.getmaskarray(cells_of(plot_topic_matrix(MATRIX, [0, 0, 1, 1]))).any()


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 5), (4, 5), (5, 4)])
@pytest.mark.parametrize("topics", [[0, 0, 1, 1], {0: (0, 1), 1: 0, 2: 1, 3: [1]}])
def test_the_mask_comes_last_and_is_marked_off(rows, columns, topics):
    ax = plot_topic_matrix(np.eye(5)[:rows, :columns], topics, "value")
    assert cells_of(ax).shape == (rows, columns)
    horizontal, vertical = lines_at(ax)
    assert (4.0 in horizontal, 4.0 in vertical) == (rows == 5, columns == 5)
    ax.figure.canvas.draw()
    assert (ticks(ax, "y")[-1] == "[MASK]", ticks(ax, "x")[-1] == "[MASK]") == (rows == 5, columns == 5)
    assert ax.get_ylabel() == "word as output"


def test_words_without_a_topic_come_after_all_others():
    ax = plot_topic_matrix(MATRIX, [None, 0, None, 1])
    assert ticks(ax, "y") == ["topic 0", "topic 1", "no topic"]


def test_the_matrix_is_left_alone_and_the_axes_are_used():
    matrix = MATRIX.copy()
    _, ax = plt.subplots()
    assert plot_topic_matrix(matrix, [0, 0, 1, 1], "key_query", ax, diagonal=False, title="Mine") is ax
    np.testing.assert_array_equal(matrix, MATRIX)
    assert ax.get_title(loc="left") == "Mine"


def test_a_matrix_of_zeros_can_be_drawn():
    assert plot_topic_matrix(np.zeros((2, 2)), [0, 1]).collections[0].get_clim() == (-1, 1)


@pytest.mark.parametrize(
    ("matrix", "topics", "message"),
    [
        (np.zeros((4, 6)), [0, 0, 1, 1], "topics must have one entry per word of the matrix"),
        (np.zeros((4, 4)), [0, 1], "topics must have one entry per word of the matrix"),
        (np.zeros((1001, 1001)), [0] * 1001, "matrix must have at most 1,000 rows and columns"),
        (np.zeros(4), [0] * 4, "matrix must have rows and columns"),
    ],
)
def test_a_wrong_matrix_is_named(matrix, topics, message):
    with pytest.raises(ValueError, match=message):
        plot_topic_matrix(matrix, topics)


def test_the_attention_of_a_document_is_sorted_by_topic_in_units_of_uniform():
    """Ids 5 and 6 have topic 0, id 7 topic 1, id 9 none: drawn in that order, times the number of keys."""
    pattern = np.arange(1.0, 17.0).reshape(4, 4)
    pattern /= pattern.sum(axis=1, keepdims=True)
    ax = plot_document_attention(pattern, [9, 7, 5, 6], {5: (0,), 6: [0, 1], 7: 1})
    order = [2, 3, 1, 0]
    np.testing.assert_allclose(cells_of(ax), np.minimum(4 * pattern[np.ix_(order, order)], 2))
    assert lines_at(ax) == ({2.0, 3.0}, {2.0, 3.0})
    ax.figure.canvas.draw()
    assert ticks(ax, "y") == ["5", "6", "7", "9"]


def test_a_long_document_is_cut_and_says_so():
    """The first words are drawn, not the first of a topic."""
    pattern = np.full((6, 6), 1 / 6)
    ax = plot_document_attention(pattern, [3, 2, 1, 0, 0, 0], {0: 0, 1: 1, 2: 2, 3: 3}, max_words=3)
    ax.figure.canvas.draw()
    assert ticks(ax, "y") == ["1", "2", "3"]
    assert "first 3 of 6 words" in ax.get_title(loc="left")


def test_a_pattern_of_another_document_is_named():
    with pytest.raises(ValueError, match=r"pattern must be \[query_pos, key_pos\] of the 2 token_ids, got \(3, 3\)"):
        plot_document_attention(np.eye(3), [0, 1], {})


HISTORY = pd.DataFrame(
    {
        "step": [0, 10, 20],
        "loss": [3.0, 2.0, 1.0],
        "norm_W_E": [5.0] * 3,
        "norm_W_V": [1.0, 2.0, 3.0],
        "norm_W_Q": [0.0, 0.0, 4.0],
    }
)


def test_norms_that_change_are_drawn_as_a_share_of_their_growth():
    ax = plot_training(HISTORY)
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines}
    assert drawn == {"W_V": [0.0, 0.5, 1.0], "W_Q": [0.0, 0.0, 1.0]}
    assert ax.lines[0].get_xdata().tolist() == [0, 10, 20]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["W_V", "W_Q"]


def test_values_are_drawn_as_they_are_on_request():
    ax = plot_training(HISTORY, columns=["loss"], relative=False, label="loss")
    assert ax.lines[0].get_ydata().tolist() == [3.0, 2.0, 1.0]
    assert ax.get_ylabel() == "loss"


def test_stages_are_marked_at_their_step_in_the_colour_of_their_curve():
    ax = plot_training(HISTORY, stages={"W_V": 10.0, "norm_W_Q": 15.0, "W_E": np.nan})
    curves = {line.get_label(): line.get_color() for line in ax.lines if len(line.get_xdata()) == 3}
    marks = {line.get_xdata()[0]: line.get_color() for line in ax.lines if len(line.get_xdata()) == 2}
    assert marks == {10.0: curves["W_V"], 15.0: curves["W_Q"]}
    assert {text.get_text() for text in ax.texts} == {"W_V: 10", "W_Q: 15"}


def test_a_stage_that_was_not_reached_is_not_drawn():
    assert len(plot_training(HISTORY, stages={"W_V": np.nan}).lines) == 2


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="it lacks accuracy"):
        plot_training(HISTORY, columns=["accuracy"])
    with pytest.raises(ValueError, match="at least one row"):
        plot_training(HISTORY.iloc[:0])
    with pytest.raises(ValueError, match="name the columns to draw"):
        plot_training(HISTORY[["step", "loss"]])


def test_all_three_can_be_written(tmp_path):
    for number, ax in enumerate(
        [
            plot_topic_matrix(MATRIX, [0, 0, 1, 1]),
            plot_document_attention(np.full((2, 2), 0.5), [0, 1], {0: 0}),
            plot_training(HISTORY),
        ]
    ):
        save_plot(ax, tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 5000
