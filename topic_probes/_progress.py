"""Progress bars (rich): in a terminal on stderr, in a notebook below its cell, and nowhere else.

In a log file, a pipe or a test there is nothing to move in, so nothing is written. All open bars stand below each other
in one display. They are drawn when something was done and a moment has passed, by whoever does the work: a thread that
draws would make it unsafe to fork (which gensim does), and would go on drawing for work that has failed.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any

_TERMINAL_SECONDS, _NOTEBOOK_SECONDS = 0.1, 0.5
"""Between two drawings."""
_WITH_BAR, _WITH_UNIT = 78, 100
"""Characters in a line from which on there is room for a bar, and for the unit."""
_NOTEBOOK_WIDTH = 110


def progress_bar(
    iterable: Iterable[Any] | None = None,
    *,
    description: str,
    unit: str,
    total: int | None = None,
    enabled: bool = True,
) -> ProgressBar:
    """Return a bar over ``iterable``, or one to ``update`` by hand when it is None.

    It is on the screen from ``with`` or the first step on, until the end of the block or of the steps, and not after an
    exception. Where the steps are taken inside a generator, open it with ``with`` outside: a generator that is left in
    the middle is closed only when nobody holds it any more, and a traceback may.

    Args:
        iterable: what is gone through.
        description: what is done, in a word or three.
        unit: what is counted, in the plural.
        total: how many there are; the length of ``iterable`` if it has one, and else not known.
        enabled: False for a bar that is never shown.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    return ProgressBar(iterable, description, unit, total, enabled)


class ProgressBar:
    """What :func:`progress_bar` returns: go through it, or ``update`` it inside ``with``."""

    def __init__(
        self, iterable: Iterable[Any] | None, description: str, unit: str, total: int | None, enabled: bool
    ) -> None:
        self.n = 0
        """Done so far."""
        self.description = description
        self.unit = unit
        self.total = total
        self._iterable = iterable
        self._enabled = enabled
        self._line: _Line | None = None

    def __enter__(self) -> ProgressBar:
        """Put it on the screen."""
        if self._enabled and self._line is None:
            self._line = _open_line(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take it off the screen."""
        self.close()

    def __iter__(self) -> Iterator[Any]:
        """Go through the iterable, and take the bar off the screen at the end, whatever that is."""
        if self._iterable is None:
            raise TypeError("a bar without an iterable cannot be gone through: update it by hand")
        with self:
            for one in self._iterable:
                yield one
                self.update()

    def update(self, n: int = 1) -> None:
        """Say that ``n`` more are done."""
        self.n += n
        if self._line is not None:
            self._line.show_sometimes()

    def close(self) -> None:
        """Take it off the screen; a second time does nothing."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


class _Line:
    """One bar in the display."""

    def __init__(self, display: _Display, bar: ProgressBar) -> None:
        self._display = display
        self._bar = bar
        self._task = display.progress.add_task(bar.description, total=bar.total, **self._texts(None))
        self._next = time.monotonic() + display.seconds

    def show_sometimes(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._display.seconds
        progress = self._display.progress
        progress.update(self._task, completed=self._bar.n)
        (task,) = (task for task in progress.tasks if task.id == self._task)
        progress.update(self._task, **self._texts(task))
        self._display.draw()

    def close(self) -> None:
        self._display.progress.remove_task(self._task)
        if self._display.progress.tasks:
            self._display.draw()
        else:
            self._display.close()

    def _texts(self, task: Any) -> dict[str, str]:
        """Return what stands beside the bar, of a task that rich has measured; None before."""
        done, total = f"{self._bar.n:,}", self._bar.total
        count = done if total is None else f"{done:>{len(f'{total:,}')}} of {total:,}"
        if self._display.width >= _WITH_UNIT:
            count = f"{count} {self._bar.unit}"
        elif self._display.width < _WITH_BAR and total:
            count = f"{self._bar.n / total:.0%}"
        gone = _duration(0 if task is None else task.elapsed)
        left = None if task is None or total is None else task.time_remaining
        speed = None if task is None else task.speed
        return {
            "count": count,
            "gone": f"{gone} so far" + ("," if left is not None else ""),
            "left": "" if left is None else f"{_duration(left)} left",
            "rate": "" if not speed else _rate(speed),
        }


class _Display:
    """All bars that are open, on stderr."""

    seconds = _TERMINAL_SECONDS

    def __init__(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self.width = console.width
        # What is printed meanwhile goes above the bars; what goes to a file through stdout goes there as ever.
        self.progress = _progress(console, self.width, redirect_stdout=_is_terminal(sys.stdout))
        self._broken = False
        self._do(self.progress.start)

    def draw(self) -> None:
        self._do(self.progress.refresh)

    def close(self) -> None:
        global _display
        _display = None
        self._do(self.progress.stop)

    def _do(self, draw: Any) -> None:
        """Draw, unless the terminal is gone: the work goes on without it."""
        if self._broken:
            return
        try:
            draw()
        except (OSError, ValueError):  # a closed file is a ValueError
            self._broken = True


class _NotebookDisplay(_Display):
    """All bars that are open, as one output of the cell, which is changed in place and empty at the end.

    Rich's own display there needs a package of widgets, and leaves one in the notebook.
    """

    seconds = _NOTEBOOK_SECONDS

    def __init__(self) -> None:
        from rich.console import Console

        self.width = _NOTEBOOK_WIDTH
        self.progress = _progress(Console(), self.width, redirect_stdout=False)
        self._handle: Any = None
        self._broken = False

    def draw(self) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]  # there is one: this is it

        if self._handle is None:  # not before there is something to show: what is over at once leaves no output
            self._handle = display(self.progress, display_id=True)
        else:
            self._handle.update(self.progress)

    def close(self) -> None:
        global _display
        _display = None
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


_display: _Display | None = None


def _open_line(bar: ProgressBar) -> _Line | None:
    """Return a new line of the display; None where there is no place for one."""
    global _display
    if _display is None:
        if _in_notebook():
            _display = _NotebookDisplay()
        elif _is_terminal(sys.stderr):
            _display = _Display()
        else:
            return None
    return _Line(_display, bar)


@atexit.register
def _leave_a_clean_screen() -> None:
    if _display is not None:
        _display.close()


def _progress(console: Any, width: int, *, redirect_stdout: bool) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    def text(name: str, style: str = "none") -> Any:
        return TextColumn(f"{{task.{name}}}", markup=False, style=style, table_column=Column(no_wrap=True))

    count, gone, left = text("fields[count]"), text("fields[gone]"), text("fields[left]", "progress.remaining")
    rate = text("fields[rate]", "dim")
    columns = [text("description"), count, left]
    if width >= _WITH_BAR:
        columns = [text("description"), BarColumn(12 if width < _WITH_UNIT else 20), count, gone, left, rate]
    return Progress(*columns, console=console, auto_refresh=False, transient=True, redirect_stdout=redirect_stdout)


def _duration(seconds: float | int) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _rate(speed: float) -> str:
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each"


def _in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, and not in a terminal (not in IPython's either)."""
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
