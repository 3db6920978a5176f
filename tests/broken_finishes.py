"""A program: runs of ``topic-probes probe`` that are killed when they put their results in place, and that collide.

``python broken_finishes.py FOLDER N`` prints one JSON object. The kill comes before the first thing that is done to the
disk when a run finishes, before the second, and so on to the last: Python tells of each of them (``sys.addaudithook``),
whatever the code is that does it. As long as the checkpoint is all that there is, only every Nth of these runs is
taken up again. Saves over an earlier save are killed in the same way. Each run is a fork of a process in which
everything is loaded. No annotation is checked here: it is a child of a test.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import numpy as np

import helpers
import tiny_models
from broken_runs import end_of, fork, numbers_of
from topic_probes import ProbeReport, TopicModel, cli
from topic_probes.cli import _run_folder

_CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"})


def build_lab(folder: Path) -> list[str]:
    """Write a model, topics and documents; return the arguments of a short run over them."""
    tiny_models.bert().save_pretrained(folder / "model")
    helpers.tiny_tokenizer().save_pretrained(folder / "model")
    words = helpers.WORDS[:8]
    matrix = [[0.25] * 4 + [0.0] * 4, [0.0] * 4 + [0.25] * 4]
    TopicModel.from_matrix(matrix, words).save(folder / "topics")
    draw = np.random.default_rng(0)
    lines = [json.dumps({"text": " ".join(draw.choice(words, size=9))}) for _ in range(12)]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    found = ["probe", str(folder / "model"), "--topics", str(folder / "topics"), "--corpus"]
    found += [str(folder / "corpus.jsonl"), "--n-permutations", "2", "--no-baseline", "--examples", "1"]
    return [*found, "--checkpoint-every", "1", "--batch-size", "4"]


def call(arguments: list[str]) -> tuple[int, str]:
    """Run a command; return its code, and what it says on stderr."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = cli.main(arguments)
    return code, said.getvalue()


def kill_at_change(nth: int, count: list[int]) -> None:
    """Let this process kill itself before it changes something on the disk for the nth time from now on."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        # 1 and 2: the file is opened for writing.
        if event in _CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & 3):
            count.append(1)
            if len(count) == nth:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def read_by(work: Callable[[], Any]) -> Any:
    """Return what some work in a process of its own returns, as JSON."""
    told, tell = os.pipe()
    number = fork(lambda: os.write(tell, json.dumps(work()).encode()))
    os.close(tell)
    with os.fdopen(told, "rb") as file:
        content = file.read()
    end_of(number)
    return json.loads(content) if content else None


def same_numbers(folder: Path, expected: dict[str, np.ndarray]) -> bool:
    found = numbers_of(ProbeReport.load(folder))
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in expected)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def killed_finishes(folder: Path, arguments: list[str], every: int) -> dict[str, Any]:
    """Kill a run at each step of its end, and take it up again."""
    whole, ready = folder / "whole" / "run", folder / "ready" / "run"
    assert call([*arguments, "-o", str(whole)])[0] == 0
    report, topics = ProbeReport.load(whole), TopicModel.load(whole / "topics")
    passages = json.loads((whole / "examples.json").read_text())
    run = (whole / "run.toml").read_text()
    expected = numbers_of(report)

    def until_the_end() -> None:
        _run_folder.RunFolderState.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        call([*arguments, "-o", str(ready)])

    assert end_of(fork(until_the_end)) == "signal 9"

    def finish(target: Path, nth: int) -> int:
        count: list[int] = []
        with _run_folder.open_run_folder(target, run, resume=True) as state:
            kill_at_change(nth, count)
            state.finish(report, topics, passages)
        return len(count)

    shutil.copytree(ready.parent, folder / "count")
    n_changes = read_by(lambda: finish(folder / "count" / "run", 10**6))
    outcomes = []
    for nth in range(1, n_changes + 1):
        target = folder / f"step {nth}" / "run"
        shutil.copytree(ready.parent, target.parent)
        found = {
            "step": nth,
            "how": end_of(fork(lambda target=target, nth=nth: finish(target, nth))),
            "has_report": (target / "report.json").exists(),
            "is_whole": {*listing(whole)} <= {*listing(target)},
            "has_checkpoint": contents(target / "checkpoint") == contents(ready / "checkpoint"),
        }
        if nth % every == 0 or not found["has_checkpoint"] or any(target.rglob("report.json")):
            found["code"] = read_by(lambda target=target: call([*arguments, "--resume", "-o", str(target)])[0])
            found["equal"] = found["code"] == 0 and same_numbers(target, expected)
            found["left"] = sorted({*listing(target.parent)} ^ {*listing(whole.parent)})
        outcomes.append(found)
    return {"ready": listing(ready), "outcomes": outcomes}


def killed_saves(folder: Path) -> list[dict[str, Any]]:
    """Kill a save over an earlier one at each step; load what is there, and save once more."""
    earlier, later = (TopicModel.from_matrix(rows, ["cat", "dog"]) for rows in ([[0.5, 0.5]], [[0.25, 0.75]]))

    def save(target: Path, nth: int) -> int:
        count: list[int] = []
        kill_at_change(nth, count)
        later.save(target)
        return len(count)

    earlier.save(folder / "count" / "topics")
    outcomes = []
    for nth in range(1, read_by(lambda: save(folder / "count" / "topics", 10**6)) + 1):
        target = folder / f"save {nth}" / "topics"
        earlier.save(target)
        how = end_of(fork(lambda target=target, nth=nth: save(target, nth)))
        was_missing = not target.exists()
        loaded = TopicModel.load(target).word_probabilities[0, 0]
        later.save(target)
        outcomes.append(
            {
                "step": nth,
                "how": how,
                "was_missing": was_missing,
                "loaded": {0.5: "earlier", 0.25: "later"}[float(loaded)],
                "saved": float(TopicModel.load(target).word_probabilities[0, 0]) == 0.25,
                "left": sorted({*listing(target.parent)} ^ {*listing(folder / "count")}),
            }
        )
    return outcomes


def two_at_once(folder: Path, arguments: list[str], more: list[str]) -> dict[str, Any]:
    """Start two runs in one folder at one moment."""
    whole, target = folder / "whole" / "run", folder / "run"
    begin, wait = os.pipe()[::-1]
    results = []
    for number in range(2):

        def one(number: int = number) -> None:
            os.close(begin)
            os.read(wait, 1)  # until the other end is closed
            (folder / f"said {number}.json").write_text(json.dumps(call([*arguments, *more, "-o", str(target)])))

        results.append(fork(one))
    os.close(wait)
    os.close(begin)
    for number in results:
        end_of(number)
    said = [json.loads((folder / f"said {number}.json").read_text()) for number in range(2)]
    return {
        "codes": sorted(code for code, _ in said),
        "refused": [text.splitlines()[-1] for code, text in said if code],
        "equal": same_numbers(target, numbers_of(ProbeReport.load(whole))),
        "left": sorted({*listing(target)} ^ {*listing(whole)}),
    }


def main(folder: Path, every: int) -> dict[str, Any]:
    arguments = build_lab(folder)
    found = {"kills": killed_finishes(folder, arguments, every), "saves": killed_saves(folder / "saves")}
    found["collisions"] = []
    for number, more in enumerate(([], ["--resume"], ["--resume"])):
        place = folder / f"two {number}"
        place.mkdir()
        shutil.copytree(folder / "whole", place / "whole")
        found["collisions"].append(two_at_once(place, arguments, more))
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
