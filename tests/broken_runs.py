"""A program: runs of ``probe`` that are killed without warning and taken up again, against one that is left alone.

``python broken_runs.py FOLDER N_MOMENTS SEED`` prints one JSON object. Each run is a fork of a process in which
everything is loaded, so that a run takes a second and not ten. No annotation is checked here: it is a child of a test.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import numpy as np

import helpers
from topic_probes import TopicLabels, probe

_numbers = random.Random(1)
LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})
DOCUMENTS = [[_numbers.randrange(50) for _ in range(_numbers.choice([2, 5, 8, 40]))] for _ in range(70)]
"""Some are longer than the model's 32 tokens: stretches end after documents, not in the middle of one."""


def run(model: Any, folder: Path | None, **options: Any) -> Any:
    return probe(
        model, DOCUMENTS, LABELS, batch_size=1, layers=[0], baseline=None, n_permutations=3, progress=False,
        checkpoint=folder, checkpoint_every=1, **options,
    )  # fmt: skip


def numbers_of(report: Any) -> dict[str, np.ndarray]:
    """Every number of a report, by name."""
    found = {}
    for name, part in report.models.items():
        attention = part.attention
        found |= {f"{name} {key}": array for key, array in attention.totals.to_arrays().items()}
        found[f"{name} tally"] = np.array(list(attention.tally.values()))
        found[f"{name} visibility"] = np.array(list(attention.visibility.values()))
    return found


def fork(work: Callable[[], object]) -> int:
    """Do some work in a process of its own; return its number."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def kill_at_call(place: str, nth: int) -> None:
    """Let this process kill itself when it comes to a step of the writing of a state for the nth time."""
    import safetensors.numpy

    from topic_probes.probes import _resuming

    owner, name = {
        "before writing": (_resuming, "write_folder"),
        "while writing": (safetensors.numpy, "save_file"),
        "before moving": (Path, "replace"),
        "before deleting": (_resuming.shutil, "rmtree"),
    }[place]
    function, n_calls = getattr(owner, name), 0

    def last(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    setattr(owner, name, last)


def end_of(number: int) -> str:
    """Wait until a process ends; return in a word how it did."""
    _, status = os.waitpid(number, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended"


@contextmanager
def when_counting(model: Any, action: Callable[[], object]) -> Iterator[None]:
    """Do something whenever a batch goes through the model."""
    point = model.hook_dict["blocks.0.attn.hook_pattern"]

    def tell(tensor: Any, hook: Any) -> None:
        action()

    point.add_hook(tell)
    try:
        yield
    finally:
        point.remove_hooks()


def kill_after(model: Any, n_batches: int, seconds: float, target: Path) -> str:
    """Kill a run from outside, at a moment of its work and not of the clock: a busy machine changes nothing."""
    told, tell = os.pipe()

    def work() -> None:
        with when_counting(model, lambda: os.write(tell, b".")):
            run(model, target, resume=True)

    number = fork(work)
    os.close(tell)
    if all(os.read(told, 1) for _ in range(n_batches)):
        time.sleep(seconds)
    os.kill(number, signal.SIGKILL)  # of a process that has ended, and is not waited for yet: nothing happens
    os.close(told)
    return end_of(number)


def states_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("state-*"))


def main(folder: Path, n_moments: int, seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    model = helpers.build(helpers.KINDS[0])
    batches: list[int] = []
    begun = time.monotonic()
    with when_counting(model, lambda: batches.append(1)):
        expected = numbers_of(run(model, None))
    seconds, n_batches = time.monotonic() - begun, len(batches)

    places = [("before writing", 2), ("while writing", 2), ("before moving", 2), ("before deleting", 2)]
    plans: list[tuple[str, Callable[[Path], list[str]]]] = []

    def killed_at(place: str, nth: int) -> Callable[[Path], list[str]]:
        def way(target: Path) -> list[str]:
            def work() -> None:
                kill_at_call(place, nth)
                run(model, target)

            return [end_of(fork(work)), *states_in(target)]

        return way

    def killed_while_counting(moments: list[tuple[int, float]]) -> Callable[[Path], list[str]]:
        def way(target: Path) -> list[str]:
            return [word for moment in moments for word in (kill_after(model, *moment, target), *states_in(target))]

        return way

    plans += [(f"{place}, time {nth}", killed_at(place, nth)) for place, nth in places]
    for _ in range(n_moments):
        moments = [(draw.randrange(n_batches), draw.uniform(0, 2 * seconds / n_batches)) for _ in range(2)]
        plans.append((f"after {moments} batches and seconds", killed_while_counting(moments)))

    outcomes = []
    for number, (name, way) in enumerate(plans):
        target = folder / f"run {number}"
        seen = way(target)
        result = folder / f"result {number}.npz"

        def finish(target: Path = target, result: Path = result) -> None:
            np.savez(result, **numbers_of(run(model, target, resume=True)))

        _, status = os.waitpid(fork(finish), 0)
        found = dict(np.load(result)) if status == 0 else {}
        outcomes.append(
            {
                "how": name,
                "seen": seen,
                "left": sorted(path.name for path in target.iterdir()),
                "equal": found.keys() == expected.keys()
                and all(np.array_equal(found[key], expected[key]) for key in expected),
            }
        )
    return {"seconds": seconds, "batches": n_batches, "outcomes": outcomes}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
