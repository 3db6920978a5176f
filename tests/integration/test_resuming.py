"""Checkpoints: a run that was killed ends like one that was not, and a folder of another run is refused."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import CorpusError, ProbeReport, TopicLabels, probe
from topic_probes.corpora import jsonl
from topic_probes.probes._resuming import checkpoint_folder

LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})
DOCUMENTS = [[int(id) for id in row] for row in np.random.default_rng(3).integers(0, helpers.N_WORDS, (40, 6))]


@pytest.fixture(scope="module")
def model() -> Any:
    return helpers.build(helpers.KINDS[0])


def run(
    model: Any, folder: Path | None, documents: Any = DOCUMENTS, labels: TopicLabels = LABELS, **options: Any
) -> Any:
    options = {"baseline": None, "batch_size": 1, "layers": [0], "n_permutations": 2, "progress": False, **options}
    return probe(model, documents, labels, checkpoint=folder, checkpoint_every=1, **options)


def require_equal(one: ProbeReport, other: ProbeReport) -> None:
    for name, array in one.attention.totals.to_arrays().items():
        np.testing.assert_array_equal(array, other.attention.totals.to_arrays()[name], err_msg=name)
    assert one.attention.tally == other.attention.tally
    assert one.attention.visibility == other.attention.visibility


def broken_runs(repository: Path, folder: Path, n_moments: int, seed: int) -> dict[str, Any]:
    if not hasattr(os, "fork"):
        pytest.skip("the runs of this test are forks")
    outcome = subprocess.run(
        [sys.executable, "broken_runs.py", str(folder), str(n_moments), str(seed)],
        cwd=repository / "tests",
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout.splitlines()[-1])


def require_as_if_nothing_had_happened(outcomes: list[dict[str, Any]]) -> None:
    assert [one["how"] for one in outcomes if not one["equal"]] == []
    assert all(one["left"] == ["lock", "state-000000000070"] for one in outcomes), outcomes


def test_a_run_that_was_killed_ends_bit_for_bit_like_one_that_was_not(repository: Path, tmp_path: Path) -> None:
    """Killed by the system at each step of the writing of a state, and at a random moment, twice."""
    outcomes = broken_runs(repository, tmp_path, 1, seed=0)["outcomes"]
    require_as_if_nothing_had_happened(outcomes)
    at_steps = outcomes[:4]
    assert [one["seen"][0] for one in at_steps] == ["signal 9"] * 4
    assert [len(one["seen"][1:]) for one in at_steps] == [1, 1, 1, 2], "the second state comes after the first"


@pytest.mark.slow
def test_a_run_may_be_killed_at_twenty_random_moments(repository: Path, tmp_path: Path) -> None:
    outcomes = broken_runs(repository, tmp_path, 20, seed=20)["outcomes"]
    require_as_if_nothing_had_happened(outcomes)
    assert sum("signal 9" in one["seen"] for one in outcomes[4:]) >= 18
    assert sum(any(seen.startswith("state") for seen in one["seen"]) for one in outcomes[4:]) >= 8


def test_keeping_states_changes_no_number(model: Any, tmp_path: Path) -> None:
    plain = run(model, None)
    require_equal(run(model, tmp_path / "states"), plain)
    require_equal(run(model, tmp_path / "states", resume=True), plain)
    require_equal(run(model, tmp_path / "new", resume=True), plain)


def test_a_run_goes_on_after_what_was_counted(model: Any, tmp_path: Path) -> None:
    """A document that cannot be read stops it; what comes before is not put through the models again."""

    class Stopping(list):
        def __iter__(self) -> Any:
            for number, document in enumerate(super().__iter__()):
                if self.stops and number == 35:
                    raise CorpusError("stopped")
                yield document

    documents = Stopping(DOCUMENTS)
    documents.stops = True
    with pytest.raises(CorpusError, match="stopped"):
        run(model, tmp_path / "states", documents, baseline="random_init")
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["lock", "state-000000000032"]
    documents.stops = False
    rows: list[int] = []
    point = model.hook_dict["blocks.0.attn.hook_pattern"]
    point.add_hook(lambda tensor, hook: rows.append(len(tensor)))
    again = run(model, tmp_path / "states", documents, baseline="random_init", resume=True)
    point.remove_hooks()
    assert sum(rows) == 8
    expected = run(model, None, documents, baseline="random_init")
    require_equal(again, expected)
    require_equal(again.baseline, expected.baseline)


def test_what_was_read_before_a_damaged_document_can_be_kept(model: Any, tmp_path: Path) -> None:
    """By a limit before it, and the same run then."""
    lines = [json.dumps({"token_ids": ids}) for ids in DOCUMENTS]
    (tmp_path / "corpus.jsonl").write_text("\n".join([*lines[:36], "{broken", *lines[36:]]), encoding="utf-8")
    with pytest.raises(CorpusError, match="line 37"):
        run(model, tmp_path / "states", jsonl(tmp_path / "corpus.jsonl"))
    kept = run(model, tmp_path / "states", jsonl(tmp_path / "corpus.jsonl", limit=36), resume=True)
    require_equal(kept, run(model, None, jsonl(tmp_path / "corpus.jsonl", limit=36)))
    with pytest.raises(ValueError, match="it has 20 documents, and 36 were counted"):
        run(model, tmp_path / "states", jsonl(tmp_path / "corpus.jsonl", limit=20), resume=True)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 1}, "seed is 0 there and 1 now"),
    "words": ({"words": "merge"}, "words is 'whole' there and 'merge' now"),
    "batch_size": ({"batch_size": 2}, "batch_size is 1 there and 2 now"),
    "tokens_per_batch": ({"tokens_per_batch": 64}, "tokens_per_batch is 8192 there and 64 now"),
    "max_length": ({"max_length": 7}, "max_length is 32 there and 7 now"),
    "layers": ({"layers": [1]}, r"layers is \['0'\] there and \['1'\] now"),
    "baseline": ({"baseline": "random_init"}, "baseline is None there and 'random_init' now"),
    "n_permutations": ({"n_permutations": 3}, "n_permutations is 2 there and 3 now"),
    "visibility": ({"visibility": "bidirectional"}, "visibility is 'read' there and 'bidirectional' now"),
    "word_counts": ({"word_counts": {1: 2, 2: 3}}, "word_counts is None there and '"),
    "topic_matrices": ({"topic_matrices": False}, "topic_matrices is True there and False now"),
    "labels": ({"labels": TopicLabels.from_dict({1: 0, 2: 1})}, "labels is '.*' there and '.*' now"),
    "fewer documents": ({"documents": DOCUMENTS[:9]}, "another corpus than 'list': it has 9 documents, and 40 were"),
    "other documents": ({"documents": [[1, 2], *DOCUMENTS[1:]]}, "its first 40 documents are not those that were"),
    "other name": ({"documents": tuple(DOCUMENTS)}, "corpus is 'list' there and 'tuple' now"),
}


@pytest.fixture(scope="module")
def kept(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "states"
    run(model, folder)
    return folder


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_another_run_is_refused_with_the_difference(name: str, model: Any, kept: Path) -> None:
    options, message = OTHERS[name]
    with pytest.raises(ValueError, match=message):
        run(model, kept, resume=True, **options)


def test_a_state_that_was_refused_stays_as_it_was(model: Any, kept: Path) -> None:
    """Also where the other corpus goes on beyond the documents that were counted."""
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="its first 40 documents are not those that were counted"):
        run(model, kept, [[1, 2], *DOCUMENTS[1:], *DOCUMENTS], resume=True)
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


def test_a_state_of_other_weights_is_refused(kept: Path) -> None:
    with pytest.raises(ValueError, match=r"weights_digest is '.*' there and '.*' now"):
        run(helpers.build(helpers.KINDS[0], seed=5), kept, resume=True)


def test_a_model_in_which_one_weight_was_changed_is_another(model: Any, kept: Path) -> None:
    changed = copy.deepcopy(model)
    with torch.no_grad():
        weights = max(changed.parameters(), key=torch.numel)
        weights[-1, -2] += 0.5
    with pytest.raises(ValueError, match=r"weights_digest is '.*' there and '.*' now"):
        run(changed, kept, resume=True)


def test_links_in_the_folder_are_not_followed(model: Any, tmp_path: Path) -> None:
    """A lock that is a link would be written through."""
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(FileExistsError, match="holds 'lock', which is no checkpoint: choose another folder"):
        run(model, tmp_path / "states")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception of safetensors for it is no OSError."""
    import safetensors.numpy

    def full(*_: Any) -> None:
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match=r"cannot be written \(.*No space left on device.*\): make room, or write to"):
        run(model, tmp_path / "states")
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["lock"]


def test_a_state_is_not_written_over_unasked(model: Any, kept: Path) -> None:
    with pytest.raises(FileExistsError, match="holds the state of an earlier run: pass resume=True"):
        run(model, kept)


def test_a_folder_with_something_else_is_left_alone(model: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=r"holds 'thesis\.tex', which is no checkpoint"):
            run(model, tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FileExistsError, match="is a file"):
        run(model, tmp_path / "thesis.tex")


def test_two_runs_cannot_use_one_folder(model: Any, tmp_path: Path) -> None:
    """Also under another name of it; afterwards it is free."""
    with (
        checkpoint_folder(tmp_path / "states", {}, resume=False),
        pytest.raises(FileExistsError, match=rf"is in use by process {os.getpid()} on "),
    ):
        run(model, tmp_path / "away" / ".." / "states", resume=True)
    run(model, tmp_path / "states")


def damage_a_number(state: Path) -> None:
    file = state / "arrays.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 0xFF
    file.write_bytes(content)


def damage_a_fact(state: Path) -> None:
    file = state / "description.json"
    file.write_text(
        file.read_text(encoding="utf-8").replace('"n_documents": 40', '"n_documents": 41'), encoding="utf-8"
    )


@pytest.mark.parametrize(
    "damage",
    [
        damage_a_number,
        damage_a_fact,
        lambda state: (state / "arrays.safetensors").write_bytes(b""),
        lambda state: (state / "arrays.safetensors").unlink(),
        lambda state: (state / "description.json").unlink(),
        lambda state: (state / "description.json").write_text("{"),
        lambda state: (state / "description.json").write_text('{"kind": "checkpoint", "format": 1}'),
        lambda state: (state / "description.json").write_text('{"kind": "checkpoint", "format": 2}'),
        lambda state: (state / "description.json").write_text('{"kind": "topic model", "format": 1}'),
    ],
)
def test_a_damaged_state_is_refused_in_one_sentence(damage: Any, model: Any, kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path / "states")
    damage(tmp_path / "states" / "state-000000000040")
    with pytest.raises(ValueError, match=r"damaged|not a|format 2"):
        run(model, tmp_path / "states", resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": True}, r"resume=True needs the folder .* pass checkpoint="),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"checkpoint_seconds": -1.0}, r"checkpoint_seconds must be at least 0, got -1\.0"),
        ({"checkpoint_seconds": float("nan")}, "checkpoint_seconds must be at least 0, got nan"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str, model: Any) -> None:
    with pytest.raises(ValueError, match=message):
        probe(model, DOCUMENTS, LABELS, baseline=None, progress=False, **options)
