"""The toy laboratory from nothing to pictures: whole or not at all, and it says what is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from topic_probes import demo
from topic_probes.demo import _toy as lab


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases instead of eleven."""
    chosen = ("value_and_attention", "value_closed_form")
    monkeypatch.setattr(lab, "CASES", {name: lab.CASES[name] for name in chosen})


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


@pytest.mark.usefixtures("short")
def test_a_run_that_is_too_short_is_doubted(tmp_path: Path) -> None:
    """Nothing is learned in three steps: every claim about learning is doubted, the untrained model is not."""
    outcome = demo.run_toy(tmp_path / "toy", steps=3, grid=False, show=False)
    doubted = {doubt.split(":")[0] for doubt in outcome.doubts}
    assert doubted == {"value_and_attention", "value_closed_form"}
    summary = json.loads((tmp_path / "toy" / "summary.json").read_text(encoding="utf-8"))
    assert summary == outcome.summary
    assert summary["untrained_ratio"] == pytest.approx(1, abs=0.01)
    assert summary["doubts"] == list(outcome.doubts)
    written = {path.relative_to(tmp_path / "toy").as_posix() for path in (tmp_path / "toy").rglob("*.*")}
    assert written == set(summary["files"])
    assert {"cases.csv", "value_closed_form/history.csv", "value_and_attention/document.png"} <= written
    cases = pd.read_csv(tmp_path / "toy" / "cases.csv")
    assert cases["case"].tolist() == ["untrained", "value_and_attention", "value_closed_form"]
    history = pd.read_csv(tmp_path / "toy" / "value_and_attention" / "history.csv")
    assert history["step"].tolist() == [0, 1, 2, 3]


def test_a_folder_of_its_own_is_replaced_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind by a run that fails, and an earlier one stays."""
    monkeypatch.setattr(lab, "CASES", {"value_sgd": lab.CASES["value_sgd"]})
    folder = tmp_path / "toy"
    demo.run_toy(folder, steps=1, grid=False, show=False)
    before = (folder / "summary.json").read_text(encoding="utf-8")

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lab, "_write_case", fail)
        with pytest.raises(KeyboardInterrupt):
            demo.run_toy(folder, steps=1, grid=False, show=False)
    assert (folder / "summary.json").read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="choose another folder"):
        demo.run_toy(folder, steps=1, grid=False, show=False)
    assert (folder / "notes.txt").read_text() == "mine"


def test_wrong_numbers_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for options, name in (({"steps": 0}, "steps"), ({"seed": -1}, "seed"), ({"n_jobs": 0}, "n_jobs")):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            demo.run_toy(tmp_path / "toy", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_laboratory_finds_what_the_paper_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All cases and the grid, at full length: no doubt is left, and the exceptions of the two stages are listed."""
    outcome = demo.run_toy(tmp_path / "toy")
    assert outcome.doubts == ()
    stages = outcome.summary["two_stages"]
    assert stages["n_runs"] == 24
    assert stages["by_topics"]["fraction"] == 1
    assert 0.3 < stages["by_norms"]["fraction"] < 0.8
    assert len(stages["disagree_by_norms"]) == stages["by_norms"]["n_disagree"]
    assert outcome.summary["closed_form"]["gap_ratio"] == pytest.approx(1, rel=0.05)
    frame = pd.read_csv(tmp_path / "toy" / "stages.csv")
    assert (frame["value_first"] == "no").sum() == stages["by_norms"]["n_disagree"]
    assert "untrained" in capsys.readouterr().out
