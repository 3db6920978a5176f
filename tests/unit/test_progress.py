"""Progress bars: seen where there is a screen, gone when it is over, and silent anywhere else."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from topic_probes import _progress
from topic_probes._progress import progress_bar

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal of 80 characters in which every step is drawn (no fixture: pytest puts its own back)."""
    found = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(_progress._Display, "seconds", 0.0)
    return found


@pytest.fixture(autouse=True)
def _no_display_is_left() -> Iterator[None]:
    yield
    assert _progress._display is None, "a bar was left on the screen"


def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def test_all_that_is_gone_through_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    assert list(progress_bar(numbers(5), description="Counting", unit="things", total=5)) == list(range(5))
    said = terminal.getvalue()
    assert "Counting" in said
    assert "3 of 5" in said
    assert "so far" in said
    assert said.rstrip("\r").endswith(SHOW_CURSOR)


@pytest.mark.parametrize(("columns", "has_bar", "has_unit"), [(40, False, False), (80, True, False), (120, True, True)])
def test_a_bar_fits_into_a_line_of_its_terminal(
    columns: int, has_bar: bool, has_unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there is no room for is left out, and not broken into a second line."""
    terminal = a_terminal(monkeypatch)
    from rich.text import Text

    monkeypatch.setenv("COLUMNS", str(columns))
    with progress_bar(description="Reading documents", unit="documents", total=12_345) as bar:
        for _ in range(5):
            bar.update(1000)
    lines = [Text.from_ansi(line).plain for line in terminal.getvalue().replace("\r", "\n").splitlines()]
    shown = [line for line in lines if ("5,000 of 12,345" if has_bar else "41%") in line]
    assert shown
    assert max(map(len, lines)) <= columns
    assert any("\N{BOX DRAWINGS HEAVY HORIZONTAL}" in line for line in shown) == has_bar
    assert any("12,345 documents" in line for line in shown) == has_unit
    assert any("left" in line for line in shown)


def test_without_a_total_there_is_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    list(progress_bar(numbers(4), description="Counting", unit="things"))
    assert "left" not in terminal.getvalue()
    assert "3" in terminal.getvalue()


def test_the_length_of_a_list_is_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    list(progress_bar([1, 2, 3], description="Counting", unit="things"))
    assert "2 of 3" in terminal.getvalue()


def test_two_bars_stand_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the outer one stays when the inner one is over."""
    terminal = a_terminal(monkeypatch)
    with progress_bar(description="Outer", unit="things", total=2) as outer:
        for _ in range(2):
            list(progress_bar(numbers(3), description="Inner", unit="steps", total=3))
            outer.update()
            assert _progress._display is not None
    said = terminal.getvalue()
    assert "Outer" in said
    assert "Inner" in said
    assert said.count(SHOW_CURSOR) == said.count(HIDE_CURSOR) == 1, "one display for both"


@pytest.mark.parametrize("kind", ["with", "for", "source"])
def test_a_bar_is_gone_after_an_exception(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the traceback is still held; stderr is the caller's again."""
    terminal = a_terminal(monkeypatch)

    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    def of_a_block() -> None:
        with progress_bar(broken(), description="Counting", unit="things") as bar:
            made = (one for one in bar)
            for _ in made:
                raise KeyError("broken")

    def of_a_loop() -> None:
        for _ in progress_bar(numbers(3), description="Counting", unit="things"):
            raise KeyError("broken")

    def of_the_source() -> None:
        for _ in progress_bar(broken(), description="Counting", unit="things"):
            pass

    with pytest.raises(KeyError) as held:
        {"with": of_a_block, "for": of_a_loop, "source": of_the_source}[kind]()
    assert held.tb is not None
    assert _progress._display is None
    assert sys.stderr is terminal
    assert terminal.getvalue().rstrip("\r").endswith(SHOW_CURSOR)


@pytest.mark.parametrize("forced", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}])
def test_a_log_file_stays_empty(
    forced: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where colours are forced, as in continuous integration."""
    for name, value in forced.items():
        monkeypatch.setenv(name, value)
    assert len(list(progress_bar(numbers(1000), description="Counting", unit="things", total=1000))) == 1000
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("stream", [None, "closed"])
def test_no_stderr_is_no_reason_to_stop(stream: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", None if stream is None else closed)
    assert list(progress_bar(numbers(3), description="Counting", unit="things")) == [0, 1, 2]


def test_a_terminal_that_goes_away_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    done = []
    for number in progress_bar(numbers(4), description="Counting", unit="things"):
        done.append(number)

        def gone(_: str) -> int:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(terminal, "write", gone)
    assert done == [0, 1, 2, 3]


def test_a_bar_that_is_not_wanted_counts_and_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress_bar(description="Counting", unit="things", enabled=False) as bar:
        bar.update(3)
        bar.update()
    assert bar.n == 4
    assert terminal.getvalue() == ""


def test_what_is_printed_meanwhile_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Above the bars if it goes to the terminal, and in its file if stdout is one."""
    terminal = a_terminal(monkeypatch)
    for _ in progress_bar(numbers(3), description="Counting", unit="things", total=3):
        print("a result")
        print("a warning", file=sys.stderr)
    assert capsys.readouterr().out == "a result\n" * 3
    assert terminal.getvalue().count("a warning") == 3


def test_a_bar_without_steps_of_its_own_cannot_be_gone_through() -> None:
    with pytest.raises(TypeError, match="update it by hand"):
        next(iter(progress_bar(description="Counting", unit="things")))


def test_in_a_notebook_one_output_is_changed_in_place_and_empty_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a package of widgets, and without a warning that there is none."""
    display = pytest.importorskip("IPython.display", reason="notebooks have IPython")
    shown: list[tuple[str, Any]] = []

    class Handle:
        def update(self, what: Any, **_: Any) -> None:
            shown.append(("changed", what))

    def show(what: Any, **_: Any) -> Handle:
        shown.append(("new", what))
        return Handle()

    monkeypatch.setattr(display, "display", show)
    monkeypatch.setattr(_progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(_progress._NotebookDisplay, "seconds", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(progress_bar(numbers(3), description="Counting", unit="things", total=3))
        assert "Counting" in shown[0][1]._repr_mimebundle_((), ())["text/html"] or len(shown) == 4
    assert [kind for kind, _ in shown] == ["new", "changed", "changed", "changed"]
    assert shown[-1][1] == {"text/plain": ""}

    shown.clear()
    monkeypatch.setattr(_progress._NotebookDisplay, "seconds", 60.0)
    list(progress_bar(numbers(3), description="Counting", unit="things"))
    assert shown == [], "what is over at once leaves no output"
