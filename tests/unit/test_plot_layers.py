"""The picture over layers, judged by what was rendered."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from topic_probes import report
from topic_probes.report import _style as style

plot_layers: Any = report.plot_layers


@pytest.fixture(autouse=True)
def no_figure_is_left():
    """Each test starts and ends without open figures."""
    plt.close("all")
    yield
    plt.close("all")


def layers_frame(n_layers: int = 3, models: tuple[str, ...] = (), first: int = -1) -> pd.DataFrame:
    """A frame as probe_contextual gives it, each mean another number."""
    rows = [
        {
            "layer": layer,
            "measure": measure,
            "pair_class": pair_class,
            "mean": layer + 0.1 * (measure == "cosine") + 0.01 * (pair_class == "same_topic") + 100 * number,
            **({"model": model} if model else {}),
        }
        for number, model in enumerate(models or ("",))
        for layer in range(first, n_layers)
        for measure in ("cosine", "centred_cosine")
        for pair_class in ("same_topic", "cross_topic")
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(low=frame["mean"] - 0.5, high=frame["mean"] + 0.25)


def lines_of(ax: Any) -> dict[str, Any]:
    """Label -> the line, without the zero line."""
    return {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}


def test_each_class_is_a_line_over_the_layers() -> None:
    ax = plot_layers(layers_frame(), measure="cosine")
    lines = lines_of(ax)
    assert list(lines) == ["same topic", "cross topic"]
    for name, extra, colour in (
        ("same topic", 0.01, style.SAME_TOPIC_COLOUR),
        ("cross topic", 0.0, style.CROSS_TOPIC_COLOUR),
    ):
        assert lines[name].get_xdata().tolist() == [-1, 0, 1, 2]
        np.testing.assert_allclose(lines[name].get_ydata(), np.arange(-1, 3) + 0.1 + extra)
        assert lines[name].get_color() == colour
    assert ax.get_ylabel() == "mean cosine"


def test_the_centred_cosine_is_drawn_unless_told_otherwise() -> None:
    ax = plot_layers(layers_frame())
    np.testing.assert_allclose(lines_of(ax)["cross topic"].get_ydata(), np.arange(-1, 3))
    assert ax.get_ylabel() == "mean cosine, mean vector removed"


def test_ends_are_bands_and_need_not_be_there() -> None:
    ax = plot_layers(layers_frame())
    (band, _) = ax.collections
    vertices = band.get_paths()[0].vertices
    # Layer 2 of the same topic: the mean is 2.01.
    at_the_end = vertices[vertices[:, 0] == 2, 1]
    assert at_the_end.min() == pytest.approx(1.51)
    assert at_the_end.max() == pytest.approx(2.26)
    assert len(plot_layers(layers_frame().drop(columns=["low", "high"])).collections) == 0


def test_models_are_told_apart_by_their_lines() -> None:
    ax = plot_layers(layers_frame(models=("trained", "untrained")))
    lines = lines_of(ax)
    assert list(lines) == [
        "same topic, trained",
        "cross topic, trained",
        "same topic, untrained",
        "cross topic, untrained",
    ]
    one, other = lines["same topic, trained"], lines["same topic, untrained"]
    assert one.get_color() == other.get_color()
    assert one.get_linestyle() != other.get_linestyle()
    assert one.get_marker() != other.get_marker()
    np.testing.assert_allclose(other.get_ydata(), one.get_ydata() + 100)


def test_missing_layers_and_values_leave_a_gap() -> None:
    frame = layers_frame(4)
    frame.loc[frame["layer"] == 1, "mean"] = np.nan
    frame = frame.loc[frame["layer"] != 2]
    y = lines_of(plot_layers(frame))["same topic"].get_ydata()
    assert np.isnan(y).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize(("n_layers", "first"), [(1, 0), (3, -1), (12, -1), (12, 0), (32, -1), (80, -1)])
def test_ticks_are_layers_and_do_not_touch(n_layers: int, first: int) -> None:
    ax = plot_layers(layers_frame(n_layers, first=first))
    ax.figure.canvas.draw()
    ticks = [label for label in ax.get_xticklabels() if label.get_text()]
    names = [label.get_text() for label in ticks]
    assert (names[0] == "embed") == (first == -1)
    for name, place in zip(names, ax.get_xticks(), strict=True):
        assert name == ("embed" if place == -1 else str(place))
    boxes = sorted((label.get_window_extent() for label in ticks), key=lambda box: box.x0)
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_it_draws_where_it_is_told_and_leaves_the_style_alone() -> None:
    _, (one, other) = plt.subplots(1, 2)
    before = dict(plt.rcParams)
    assert plot_layers(layers_frame(), ax=other) is other
    assert dict(plt.rcParams) == before
    assert not one.has_data()
    frame = layers_frame()
    kept = frame.copy()
    plot_layers(frame)
    pd.testing.assert_frame_equal(frame, kept)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"it lacks layer, measure"):
        plot_layers(pd.DataFrame({"mean": [1.0], "pair_class": ["same_topic"]}))
    with pytest.raises(ValueError, match=r"one of those in the frame \('cosine', 'centred_cosine'\), got 'dot'"):
        plot_layers(layers_frame(), measure="dot")
    with pytest.raises(ValueError, match="one row per layer and pair_class, got several for layer -1"):
        plot_layers(pd.concat([layers_frame(), layers_frame()]))
    with pytest.raises(ValueError, match="at most 4 models, got 5"):
        plot_layers(layers_frame(models=tuple("abcde")))
    with pytest.raises(TypeError, match="must be a pandas DataFrame, got a list"):
        plot_layers([1, 2])
