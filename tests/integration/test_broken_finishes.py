"""``probe`` killed at its end, twice in one folder, saves that are killed: nothing is lost, nothing left over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs of these tests are forks"),
    pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x opens no folders"),
]


def outcome_of(repository: Path, folder: Path, every: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "broken_finishes.py", str(folder), str(every)],
        cwd=repository / "tests",
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def outcome(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome_of(repository, tmp_path_factory.mktemp("broken"), every=8)


def require_as_if_nothing_had_happened(outcomes: list[dict[str, Any]]) -> None:
    resumed = [one for one in outcomes if "code" in one]
    wrong = [one for one in resumed if one["code"] != 0 or not one["equal"] or one["left"]]
    assert wrong == []
    half = [one for one in outcomes if one["has_report"] and not one["is_whole"]]
    assert half == [], "report.json says that all is there"
    lost = [one for one in outcomes if not one["has_checkpoint"] and not one["has_report"]]
    assert lost == []


def test_a_run_that_was_killed_when_it_finished_ends_with_the_same_numbers(outcome: dict[str, Any]) -> None:
    """Before each thing that it does to the disk then: nothing is lost, and nothing is left over."""
    assert "checkpoint/state-000000000012" in outcome["kills"]["ready"]
    outcomes = outcome["kills"]["outcomes"]
    assert len(outcomes) > 20
    assert {one["how"] for one in outcomes} == {"signal 9"}
    require_as_if_nothing_had_happened(outcomes)
    resumed = [one for one in outcomes if "code" in one]
    kinds = {(one["has_report"], one["has_checkpoint"]) for one in resumed}
    assert kinds == {(False, True), (True, True), (True, False)}, "before, amid and after the moves"


@pytest.mark.slow
def test_each_of_them_is_taken_up_again(repository: Path, tmp_path: Path) -> None:
    outcomes = outcome_of(repository, tmp_path, every=1)["kills"]["outcomes"]
    assert all("code" in one for one in outcomes)
    require_as_if_nothing_had_happened(outcomes)


def test_of_two_runs_that_start_at_one_moment_one_has_the_folder(outcome: dict[str, Any]) -> None:
    """The other says so and touches nothing, or comes late, when all is done."""
    for one in outcome["collisions"]:
        assert one["codes"] in ([0, 2], [0, 0]), one
        assert one["equal"]
        assert one["left"] == []
        assert all("is in use by process" in said or "holds the results" in said for said in one["refused"]), one
    assert any("is in use by" in said for one in outcome["collisions"] for said in one["refused"])


def test_a_save_that_was_killed_leaves_the_earlier_or_the_later_one(outcome: dict[str, Any]) -> None:
    """Also between its two moves, when neither is in its place: it is put back when the folder is loaded."""
    outcomes = outcome["saves"]
    assert {one["how"] for one in outcomes} == {"signal 9"}
    assert sum(one["was_missing"] for one in outcomes) == 1
    loaded = [one["loaded"] for one in outcomes]
    assert loaded == sorted(loaded)
    assert set(loaded) == {"earlier", "later"}
    assert all(one["saved"] for one in outcomes)
    # A folder whose lock does not say whose it is could be that of a process that lives: it stays, and is empty.
    assert all(re.fullmatch(r"\.topics-\w{8}(/lock)?", path) for one in outcomes for path in one["left"])
