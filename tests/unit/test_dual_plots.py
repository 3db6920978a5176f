"""Pictures of the dual, tested on what is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from topic_probes.report import plot_bound, plot_contributions, plot_feature_errors, save_plot


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


CONTRIBUTIONS = pd.DataFrame(
    {
        "position": [4, 0, 2],
        "token": ["judge", "[CLS]", "law$"],
        "attention": [0.5, 0.2, 0.3],
        "share": [0.6, -0.1, 0.4],
        "pair_class": ["same_topic", "special", "cross_topic"],
    }
)


def bars(ax) -> dict[float, tuple[float, str]]:
    """Place -> height and colour of each bar."""
    drawn = [patch for container in ax.containers for patch in container.patches]
    return {round(bar.get_x() + bar.get_width() / 2): (bar.get_height(), to_hex(bar.get_facecolor())) for bar in drawn}


def test_tokens_stand_in_the_order_of_the_text_and_negative_shares_hang_down() -> None:
    ax = plot_contributions(CONTRIBUTIONS)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["[CLS]", r"law\$", "judge"]
    assert {place: height for place, (height, _) in bars(ax).items()} == {0: -0.1, 1: 0.4, 2: 0.6}


def test_bars_have_the_colour_of_their_class() -> None:
    ax = plot_contributions(CONTRIBUTIONS)
    colours = {place: colour for place, (_, colour) in bars(ax).items()}
    assert len(set(colours.values())) == 3
    legend = {
        text.get_text(): to_hex(patch.get_facecolor())
        for text, patch in zip(ax.get_legend().get_texts(), ax.get_legend().get_patches(), strict=True)
    }
    assert legend == {"same topic": colours[2], "cross topic": colours[1], "special token": colours[0]}


def test_without_classes_there_is_one_colour_and_no_legend() -> None:
    ax = plot_contributions(CONTRIBUTIONS.drop(columns="pair_class"), value="attention")
    assert len({colour for _, colour in bars(ax).values()}) == 1
    assert ax.get_legend() is None
    assert ax.get_ylabel() == "attention"


def test_of_many_tokens_the_largest_in_size_are_drawn_and_the_title_says_so() -> None:
    ax = plot_contributions(CONTRIBUTIONS.assign(share=[0.1, -0.5, 0.4]), most=2)
    assert {place: height for place, (height, _) in bars(ax).items()} == {0: -0.5, 1: 0.4}
    assert ax.get_title(loc="left").endswith("(the 2 largest of 3)")


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (CONTRIBUTIONS, {"value": "weight"}, "value must be one of share"),
        (CONTRIBUTIONS, {"most": 0}, "most must be a whole number"),
        (CONTRIBUTIONS.drop(columns="share"), {}, "it lacks share"),
        (CONTRIBUTIONS[:0], {}, "got none to draw"),
    ],
)
def test_what_cannot_be_drawn_is_refused(frame: pd.DataFrame, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_contributions(frame, **options)


COUNTS = [16, 64, 256]


def errors(scale: float, features: str, norms: str) -> pd.DataFrame:
    rows = [(norms, features, n, seed, scale / np.sqrt(n) * (1 + seed)) for n in COUNTS for seed in (0, 1, 2)]
    return pd.DataFrame(rows, columns=["norms", "features", "n_features", "seed", "relative_kernel_error"])


def test_each_line_is_the_median_of_its_draws_and_the_guide_has_slope_minus_a_half() -> None:
    frame = pd.concat([errors(1.0, "positive", "small"), errors(3.0, "positive", "large")], ignore_index=True)
    ax = plot_feature_errors(frame)
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["positive, small"].get_ydata(), 2 / np.sqrt(COUNTS))
    np.testing.assert_allclose(lines["positive, large"].get_ydata(), 6 / np.sqrt(COUNTS))
    assert lines["positive, small"].get_linestyle() != lines["positive, large"].get_linestyle()
    guide = lines["slope -1/2"]
    x, y = np.log(guide.get_xdata()), np.log(guide.get_ydata())
    assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(-0.5)
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_infinite_errors_are_drawn_at_the_top_as_triangles() -> None:
    """Positive features at long keys overflow: the picture says so, and does not leave them out."""
    frame = errors(1.0, "trigonometric", "x")
    frame.loc[frame["n_features"] == 16, "relative_kernel_error"] = np.inf
    ax = plot_feature_errors(frame.drop(columns="norms"))
    triangles = [line for line in ax.lines if line.get_marker() == "^" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in triangles] == [[16]]
    assert triangles[0].get_ydata()[0] < ax.get_ylim()[1]
    assert any(text.get_text() == "no better than nothing" for text in ax.texts)


def test_errors_that_are_all_small_leave_out_the_region_of_useless_ones() -> None:
    assert not plot_feature_errors(errors(0.1, "positive", "x")).texts


BOUND = pd.DataFrame(
    {"n_demonstrations": [64, 16], "allowed": [1.0, 2.0], "largest_gap": [0.1, 0.2], "gap": [-0.01, 0.05]}
)


def test_the_bound_lies_above_the_gaps_and_a_gap_below_nought_is_left_out() -> None:
    ax = plot_bound(BOUND)
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}
    assert lines == {
        "the bound allows": ([16, 64], [2.0, 1.0]),
        "worst W of the ball": ([16, 64], [0.2, 0.1]),
        "W of least loss": ([16], [0.05]),
    }


def test_pictures_draw_on_the_axes_given_and_can_be_saved(tmp_path) -> None:
    _, axes = plt.subplots(1, 3)
    draw = ((plot_contributions, CONTRIBUTIONS), (plot_feature_errors, errors(1, "positive", "x")), (plot_bound, BOUND))
    for ax, (plot, frame) in zip(axes, draw, strict=True):
        untouched = frame.copy()
        assert plot(frame, ax) is ax
        pd.testing.assert_frame_equal(frame, untouched)
    save_plot(axes[0], tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 5000


def test_an_empty_table_of_errors_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        plot_feature_errors(errors(1, "positive", "x")[:0])
    with pytest.raises(TypeError, match="to_frame"):
        plot_bound([1, 2])
