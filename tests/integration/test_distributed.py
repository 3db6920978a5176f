"""``probe(distributed=True)``: any number of processes end with what one process finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers
from topic_probes import TopicLabels, probe
from topic_probes.corpora import as_corpus
from topic_probes.probes._batches import BatchLimits
from topic_probes.probes._distributed import Processes, torchrun_processes
from topic_probes.probes._hooks import pattern_hooks
from topic_probes.probes._reading import CorpusReading
from topic_probes.probes._rows import PairMeasures
from topic_probes.probes._running import Run
from topic_probes.tokens import DocumentReader

ROUNDING = 1e-13
"""Of float64 sums in another order, as a share of the largest number; what is found is some 1e-16."""
LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})


@pytest.fixture(scope="module")
def found(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not hasattr(os, "fork"):
        pytest.skip("the processes of this test are forks")
    outcome = subprocess.run(
        [sys.executable, "many_processes.py", str(tmp_path_factory.mktemp("processes"))],
        cwd=repository / "tests",
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout.splitlines()[-1])


def require_equal(outcome: dict[str, Any]) -> None:
    assert outcome["errors"] == []
    assert len(outcome["different"]) > 10
    assert {name: value for name, value in outcome["different"].items() if value > ROUNDING} == {}


def test_any_number_of_processes_find_what_one_finds(found: dict[str, Any]) -> None:
    """1, 2, 3 and 5 of them; windows of long documents; ids that are numbers; shares without documents."""
    names = [f"long and short, {n}" for n in (1, 2, 3, 5)]
    names += [f"{corpus}, {n}" for corpus in ("three documents", "short ones first") for n in (2, 5)]
    for name in names:
        require_equal(found[name])
        if name.endswith(", 1"):
            assert max(found[name]["different"].values()) == 0.0


def test_a_window_that_only_one_process_meets_is_known_to_all(found: dict[str, Any]) -> None:
    if not helpers.HAS_HOOKED:
        pytest.skip("this TransformerLens has no HookedTransformer")
    require_equal(found["window, 2"])


def test_an_error_in_one_process_is_an_error_in_all(found: dict[str, Any]) -> None:
    """Nobody waits for a process that will not come."""
    assert found["one fails"][1].startswith("CorpusError: document '40' has token id 99")
    for rank in (0, 2):
        assert found["one fails"][rank].startswith(
            "DistributedError: process 1 of 3 failed, so no process has a result"
        )


def test_a_process_that_died_is_an_error_in_the_others(found: dict[str, Any]) -> None:
    left, died = found["one dies"]
    assert died is None
    assert left.startswith(
        "DistributedError: process 0 of 2 lost the others, of which one has probably died: start all"
    )


def test_processes_that_are_called_otherwise_are_refused(found: dict[str, Any]) -> None:
    for error in found["called otherwise"]:
        assert "all processes must probe alike: seed is 0 in process 0 and 1 in process 1" in error


def test_processes_that_read_other_documents_are_refused(found: dict[str, Any]) -> None:
    """A stale copy on one machine, or a list in another order, would lose documents and count others twice."""
    for error in found["one reads fewer"]:
        assert "must read the same documents: process 0 read 23 documents, and process 1 20; no process has" in error
    for error in found["one reads backwards"]:
        assert "those of process 1 are others than those of process 0, or in another order" in error


def test_several_processes_keep_states_and_go_on_from_them(found: dict[str, Any]) -> None:
    require_equal(found["kept, first"])
    require_equal(found["kept, again"])
    for error in found["kept by two, called by three"]:
        assert "is of 2 processes, and this run has 3" in error


def test_without_a_group_of_processes_it_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=r"call torch\.distributed\.init_process_group first, or start them by torchrun"
    ):
        probe(helpers.build(helpers.KINDS[0]), [[1, 2]], LABELS, distributed=True, progress=False)


def test_all_processes_begin_with_what_one_learns_from_its_first_batch() -> None:
    """A process of short documents knows the reach that the longest of all show, and counts its own documents only."""
    model = helpers.build(helpers.KINDS[0])
    names, _ = pattern_hooks(model, None)
    run = Run({"trained": model}, names, PairMeasures(LABELS), "read", None, BatchLimits(4, 8192))
    processes = object.__new__(Processes)
    processes.rank, processes.n = 0, 2
    documents = [[1, 2, 3] if number % 2 == 0 else list(range(30)) for number in range(10)]
    reading = CorpusReading(as_corpus(documents), DocumentReader(None, of_words=False, max_length=32), processes, False)
    reading.count(run, None)
    assert [seen.longest for seen in run.counters["trained"].visibility.values()] == [30, 30]
    assert (reading.reader.tally.n_documents, reading.reader.tally.n_tokens) == (5, 15)
    assert run.counters["trained"].totals is not None
    assert run.counters["trained"].totals.n_rows.sum(axis=1).tolist() == [5, 5]


def test_a_process_that_was_started_alone_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    with torchrun_processes() as processes:
        assert processes is None


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="missing RANK, MASTER_ADDR, MASTER_PORT: use torchrun"), torchrun_processes():
        pass
