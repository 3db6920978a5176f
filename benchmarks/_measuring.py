"""Clocks and meters of the benchmarks: seconds, interleaved rounds, peak memory, a process of one's own."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes, by the clock of :func:`clock_name`."""
    clock = time.process_time if clock_name() == "processor" else time.perf_counter
    begun = clock()
    work()
    return clock() - begun


def clock_name() -> str:
    """Return ``"processor"`` where all is done by one thread, else ``"wall"``.

    Time that a process has had of a processor is not lengthened by others on the same machine. Of several threads it
    would be the sum, and says nothing of how long one waits.
    """
    return "processor" if os.environ.get("OMP_NUM_THREADS") == "1" else "wall"


def rounds(ways: Mapping[str, Callable[[], object]], n: int) -> list[dict[str, float]]:
    """Return n times name -> seconds, after one call of each to warm up.

    The order is reversed in every other round, so that none always comes after the same one.
    """
    for work in ways.values():
        work()
    found = []
    for number in range(n):
        order = list(ways) if number % 2 == 0 else list(ways)[::-1]
        found.append({name: seconds(ways[name]) for name in order})
    return found


def median(found: list[dict[str, float]], name: str, over: str | None = None) -> float:
    """Return the median over rounds of a way's seconds, or of their ratio to another way's in the same round."""
    return statistics.median(one[name] / (1.0 if over is None else one[over]) for one in found)


def in_process(work: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns in a fresh process, so that its memory is its own; it must be importable."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, work, args))
    process.start()
    theirs.close()  # else a process that dies would leave us waiting
    try:
        return ours.recv()
    finally:
        process.join()


def _send(pipe: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    pipe.send(work(*args))


class PeakMemory:
    """Most memory of the process inside the block, beyond what it held before; looked at 200 times a second."""

    megabytes: float

    def __enter__(self) -> PeakMemory:
        self._process = psutil.Process()
        self._before = self._most = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.megabytes = (self._most - self._before) / 2**20

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._most = max(self._most, self._process.memory_info().rss)
