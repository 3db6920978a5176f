"""Options in a TOML file: what is read is what was written, and mistakes are said in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topic_probes import cli
from topic_probes._run_file import read_run, write_run
from topic_probes.cli._config import _toml, same_run
from topic_probes.cli._options import as_layers

# All of Unicode but halves of characters, which no file in UTF-8 can hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@example("\x7f")  # JSON leaves it as it is, TOML does not allow it
@given(TEXTS | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False))
def test_any_value_comes_back_as_it_was_written(value: object) -> None:
    """Quotes, backslashes and control characters as well."""
    found = tomllib.loads(f"value = {_toml(value)}\n")["value"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("n_topic = 3", "has the option 'n_topic', which topics has not: it has"),
        ('command = "probe"', "is of probe"),
        ("n_topics = ", "is not"),
        ("n_topics = 1", "--n-topics"),
        ('n_topics = "many"', "--n-topics"),
        ("[n_topics]\na = 1", "n_topics must be a text, a number, true, false or a list"),
        ("n_topics = true", "n_topics must be a value, not true or false"),
        ("n_topics = 7.5", "--n-topics"),
        ("dry_run = true", "has the option 'dry_run'"),
        ("a = " + "[" * 5000, "is not"),
        ("traceback = true", "has the option 'traceback'"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_and_code_2(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.toml").write_text(content)
    assert cli.main(["topics", "sample", "--config", str(tmp_path / "own.toml"), "-o", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_names_may_be_written_as_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With - or _, the corpus as well, and the command line wins."""
    (tmp_path / "own.toml").write_text('corpus = "sample"\nn-topics = 7\nlimit = 3\nmax_vocabulary = 50\n')
    for limit in (3, 2):
        more = ["--limit", "2"] if limit == 2 else []
        assert cli.main(["topics", "--config", str(tmp_path / "own.toml"), "--dry-run", "--json", *more]) == 0
        assert f'"n_documents": {limit}' in capsys.readouterr().out


def test_a_switch_is_true_or_false(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text that reads like one is refused, and not guessed at."""
    (tmp_path / "own.toml").write_text('grid = "no"\n')
    assert cli.main(["toy", "--config", str(tmp_path / "own.toml"), "--dry-run"]) == 2
    assert "grid must be true or false, got 'no'" in capsys.readouterr().err
    (tmp_path / "own.toml").write_text("grid = false\nsteps = 2\n")
    assert cli.main(["toy", "--config", str(tmp_path / "own.toml"), "--dry-run", "--json"]) == 0
    assert '"n_updates": 22' in capsys.readouterr().out


def test_a_folder_is_no_file_of_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["toy", "--config", str(tmp_path), "--dry-run"]) == 2
    assert "--config must be a file that can be read" in capsys.readouterr().err


def test_a_byte_order_mark_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some editors put one before the text."""
    (tmp_path / "own.toml").write_bytes(b"\xef\xbb\xbfgrid = false\n")
    assert cli.main(["toy", "--config", str(tmp_path / "own.toml"), "--dry-run"]) == 0


def test_a_name_that_is_no_unicode_comes_back(tmp_path: Path) -> None:
    """As file names may be on Linux."""
    text = 'corpus = "caf\udce9.txt"\n'
    write_run(tmp_path / "run.toml", text)
    assert read_run(tmp_path / "run.toml") == text
    assert same_run(read_run(tmp_path / "run.toml"), text) == ""


def test_what_changes_no_number_does_not_make_another_run() -> None:
    assert same_run('seed = 1\nestimator = "pooled"\n', "seed = 1\nexamples = 3\n") == ""
    assert same_run("seed = 1\n", "seed = 2\nlimit = 3\n") == "limit is None there and 3 now, seed is 1 there and 2 now"


@pytest.mark.parametrize(
    ("text", "layers"), [("0", [0]), ("0,2-4,-1", [0, 2, 3, 4, -1]), ("3, 3", [3]), ("5-5", [5]), (None, None)]
)
def test_layers_are_numbers_and_ranges(text: str | None, layers: list[int] | None) -> None:
    assert as_layers(text) == layers


@pytest.mark.parametrize("text", ["", "a", "1-", "4-2", "-3-2", "1.5"])
def test_other_layers_are_refused(text: str) -> None:
    with pytest.raises(Exception, match="must be numbers and ranges"):
        as_layers(text)
