"""What the command line prints: whole numbers in narrow terminals, JSON in any encoding."""

from __future__ import annotations

import io
import json
import sys

import pytest

from topic_probes.cli import _screen
from topic_probes.cli._tables import _table


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_number_is_cut_where_the_terminal_is_narrow(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("weights", "same", "cross", "ratio", "95 % interval")
    _screen.show(_table("Attention", names, [("trained", "1.260", "1.005", "1.254", "1.04 to 1.51")], left=names[:1]))
    said = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    for number in ("1.260", "1.005", "1.254", "1.04 to 1.51"):
        assert number in said


def test_words_of_topics_are_wrapped_into_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("1", "court law judge appeal jury verdict sentence trial", "-4.20")]
    _screen.show(_table("Topics", ("topic", "top words", "coherence"), rows, left=("top words",)))
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 40
    assert "trial" in said
    assert "-4.20" in said


@pytest.mark.parametrize("text", ["caf\u00e9", "\u2014", "caf\udce9.txt"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_any_encoding(encoding: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stdout has no character for is escaped, and reads the same."""
    raw = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        _screen.show_json({"folder": text})
        sys.stdout.flush()
        sys.stdout.detach()  # type: ignore[union-attr]
    assert json.loads(raw.getvalue().decode(encoding)) == {"folder": text}
