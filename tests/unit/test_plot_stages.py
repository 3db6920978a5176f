"""The picture of when each matrix grew, tested on what is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from topic_probes.report import plot_stages, save_plot

FRAME = pd.DataFrame(
    {
        "optimizer": ["adamw", "sgd", "sgd", "sgd"],
        "learning_rate": [0.01, 10.0, 30.0, 100.0],
        "loss": ["cross_entropy"] * 4,
        "stage_W_E": [math.nan] * 4,
        "stage_W_V": [40.0, 30.0, 20.0, math.nan],
        "stage_W_Q": [80.0, 90.0, 50.0, math.nan],
        "stage_W_K": [20.0, 95.0, 60.0, math.nan],
        "growth_W_V": [9.0, 9.0, 9.0, math.nan],
        "growth_W_Q": [9.0, 9.0, 1.1, math.nan],
        "growth_W_K": [9.0, 9.0, 9.0, math.nan],
        "diverged": [False, False, False, True],
    }
)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def names_of(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_each_mark_stands_at_its_stage():
    """One series a matrix, in steps, one run a row; a frozen matrix has none."""
    ax = plot_stages(FRAME)
    series = [np.ma.filled(one.get_offsets(), np.nan) for one in ax.collections if len(one.get_offsets()) > 1]
    drawn = [one[:, 0][np.isfinite(one[:, 0])].tolist() for one in series]
    assert drawn == [[40.0, 30.0, 20.0], [80.0, 90.0, 50.0], [20.0, 95.0, 60.0]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["W_V", "W_Q", "W_K"]
    assert ax.get_xscale() == "log"
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first run stands on top"


def test_a_run_is_named_by_what_differs_and_exceptions_have_a_star():
    ax = plot_stages(FRAME)
    assert names_of(ax) == ["* adamw, 0.01", "sgd, 10", "sgd, 30", "sgd, 100"]
    assert "* W_V is not first" in ax.get_xlabel()
    assert [line.get_linestyle() for line in ax.lines] == ["--", "-", "-"]
    assert [text.get_text() for text in ax.texts] == ["diverged"]


def test_a_matrix_that_did_not_double_is_hollow():
    ax = plot_stages(FRAME)
    keys = next(one for one in ax.collections if np.ma.filled(one.get_offsets(), 0)[:, 0].tolist()[:2] == [80.0, 90.0])
    colours = [to_hex(colour) for colour in keys.get_facecolors()]
    assert colours[2] == "#ffffff"
    assert "#ffffff" not in colours[:2]


def test_a_run_in_which_a_part_is_frozen_is_no_exception():
    frozen = FRAME.assign(stage_W_V=math.nan)
    assert not any(name.startswith("*") for name in names_of(plot_stages(frozen)))
    alone = FRAME.assign(stage_W_Q=math.nan, stage_W_K=math.nan)
    assert not any(name.startswith("*") for name in names_of(plot_stages(alone)))


def test_settings_have_their_words():
    """Where seeds and starts differ, numbers alone would say nothing."""
    frame = FRAME.iloc[:2].assign(optimizer="sgd", learning_rate=1.0, seed=[0, 1], init_scale=[0.001, 0.02])
    assert names_of(plot_stages(frame)) == ["* start 0.001, seed 0", "start 0.02, seed 1"]
    alike = FRAME.iloc[[1]]
    assert names_of(plot_stages(alike)) == ["run 0"]


def test_it_draws_where_it_is_told_and_changes_nothing(tmp_path: Path):
    frame = FRAME.copy()
    _, ax = plt.subplots()
    assert plot_stages(frame, ax) is ax
    pd.testing.assert_frame_equal(frame, FRAME)
    save_plot(ax, tmp_path / "stages.png")
    assert (tmp_path / "stages.png").stat().st_size > 5_000


def test_a_wrong_table_is_refused():
    with pytest.raises(ValueError, match="stage_W_K"):
        plot_stages(FRAME.drop(columns="stage_W_K"))
    with pytest.raises(ValueError, match="frame must have 1 to 80 rows, one a run, got 0"):
        plot_stages(FRAME.iloc[:0])
    with pytest.raises(ValueError, match="got 84: choose some"):
        plot_stages(pd.concat([FRAME] * 21))
