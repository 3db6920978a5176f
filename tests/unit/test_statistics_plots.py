"""Pictures of the statistics, judged by what was rendered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection, QuadMesh

from topic_probes import report
from topic_probes.report import _style as style

plot_forest: Any = report.plot_forest
plot_distance: Any = report.plot_distance
plot_topics: Any = report.plot_topics


@pytest.fixture(autouse=True)
def no_figure_is_left():
    """Each test starts and ends without open figures."""
    plt.close("all")
    yield
    plt.close("all")


def heads() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "layer": [0, 0, 1, 1],
            "head": [0, 1, 0, 1],
            "ratio": [1.2, 3.0, np.nan, 0.8],
            "ratio_low": [1.1, np.nan, np.nan, 0.5],
            "ratio_high": [1.4, np.nan, np.nan, 1.1],
            "q_value": [0.01, 0.2, np.nan, 1.0],
        }
    )


def test_a_forest_has_the_surest_heads_first_each_with_its_interval() -> None:
    ax = plot_forest(heads())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.0", "1.1", "0.1"]  # no interval: last
    (intervals,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    ends = [(segment[0][0], segment[1][0], segment[0][1]) for segment in intervals.get_segments()]
    assert ends == [(1.1, 1.4, 0), (0.5, 1.1, 1)]
    marks = [one for one in ax.collections if isinstance(one, PathCollection)]
    places = sorted(tuple(offset) for mark in marks for offset in mark.get_offsets().tolist())
    assert places == [(0.8, 1.0), (1.2, 0.0), (3.0, 2.0)]
    assert ax.get_title(loc="left") == "Heads most surely above 1"
    low, high = ax.get_xlim()
    assert low < 0.5
    assert high > 3.0
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["q <= 0.05", "q > 0.05"]


def test_a_forest_can_be_cut_and_does_without_q_values() -> None:
    ax = plot_forest(heads().drop(columns="q_value"), n_heads=2)
    assert len(ax.get_yticklabels()) == 2
    assert ax.get_legend() is None
    several = heads().assign(stack=["encoder", "cross", "cross", "encoder"])
    assert plot_forest(several).get_yticklabels()[0].get_text() == "encoder 0.0"
    assert plot_forest(several).get_yticklabels()[2].get_text() == "cross 0.1"


def test_a_forest_without_any_interval_is_in_order_of_ratios() -> None:
    ax = plot_forest(heads().assign(ratio_low=np.nan, ratio_high=np.nan))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.1", "0.0", "1.1"]
    assert ax.get_title(loc="left") == "Heads with the largest ratios"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (heads().drop(columns="ratio_low"), "it lacks ratio_low"),
        (heads().assign(ratio=np.nan), "at least one row per layer and head"),
        (pd.concat([heads(), heads()]), "one row per layer and head"),
    ],
)
def test_a_forest_of_a_wrong_table_is_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_forest(frame)


def curve() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "layer": 0,
            "head": [0, 0, 0, 0, 1, 1],
            "pair_class": ["same_topic", "same_topic", "cross_topic", "cross_topic", "same_topic", "cross_topic"],
            "distance": [1, 8, 1, 8, 1, 1],
            "mean": [4.0, 2.0, 1.0, 0.5, 2.0, 3.0],
            "n_pairs": [5, 5, 5, 1, 5, 5],
        }
    )


def test_a_curve_is_the_mean_over_heads_at_each_distance() -> None:
    ax = plot_distance(curve())
    same, cross = ax.lines[:2]
    np.testing.assert_array_equal(same.get_xydata(), [[1, 3], [8, 2]])
    np.testing.assert_array_equal(cross.get_xydata(), [[1, 2], [8, 0.5]])
    assert same.get_color() == style.SAME_TOPIC_COLOUR
    assert "mean of 2 heads" in ax.get_title(loc="left")
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_buckets_with_few_pairs_can_be_left_out() -> None:
    ax = plot_distance(curve().query("head == 0"), min_pairs=2)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[1, 1]])
    assert "mean of" not in ax.get_title(loc="left")
    with pytest.raises(ValueError, match="at least one row"):
        plot_distance(curve(), min_pairs=100)


def test_topics_that_are_alike_stand_together_and_empty_ones_are_left_out() -> None:
    """Topics 0 and 2 attend alike, 1 and 3 alike; 4 has no pair."""
    values = np.full((5, 5), np.nan)
    values[:4, :4] = [[4, 1, 4, 1], [1, 4, 1, 4], [4, 1, 4, 1], [1, 4, 1, 4]]
    ax = plot_topics(pd.DataFrame(values))
    (mesh,) = [one for one in ax.collections if isinstance(one, QuadMesh)]
    cells = np.asarray(mesh.get_array()).reshape(4, 4)
    np.testing.assert_allclose(cells, np.log2([[4, 4, 1, 1], [4, 4, 1, 1], [1, 1, 4, 4], [1, 1, 4, 4]]))
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert {frozenset(names[:2]), frozenset(names[2:])} == {frozenset({"0", "2"}), frozenset({"1", "3"})}
    plain = plot_topics(pd.DataFrame(values), cluster=False, names=["a", "b", "c", "d", "e"])
    assert [label.get_text() for label in plain.get_yticklabels()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (pd.DataFrame(np.ones((2, 3))), {}, "must be topics by topics"),
        (pd.DataFrame(np.full((2, 2), np.nan)), {}, "at least one pair of topics"),
        (pd.DataFrame(np.ones((2, 2))), {"names": ["a"]}, "one per topic"),
    ],
)
def test_a_wrong_matrix_of_topics_is_refused(matrix: pd.DataFrame, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_topics(matrix, **options)
