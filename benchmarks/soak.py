"""200,000 documents, good and bad, counted in one run without harm and in another that is killed again and again.

``python benchmarks/soak.py [N_DOCUMENTS]`` from the repository. A process of its own counts the corpus once without
harm. Then others count it into one checkpoint folder, each killed (SIGKILL) at a random moment and taken up by the
next. Every document must be counted exactly once, by reason, and the killed run must equal the other to the last bit.
The documents and what must be counted of them: tests/soak_corpus.py.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_DOCUMENTS, N_KILLS = 200_000, 10
_ROOT = Path(__file__).resolve().parents[1]


def run(n_documents: int = N_DOCUMENTS, n_kills: int = N_KILLS) -> dict[str, Any]:
    """Return what was counted, how fast, and the peak of memory; raise AssertionError where counts do not add up."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = _corpus().write_corpus(folder / "documents.jsonl", n_documents, seed=0).tally
        whole = _finished(_start(folder, "whole", None), folder / "whole")
        seconds = whole["facts"]["seconds"]

        numbers, n_killed, n_kept = random.Random(1), 0, 0
        for _ in range(n_kills):
            worker = _start(folder, "killed", max(1, n_documents // 50))
            worker.join(whole["facts"]["seconds_to_start"] + numbers.uniform(0, 2 * seconds / n_kills))
            if worker.is_alive():
                worker.kill()
                worker.join()
                n_killed += 1
                n_kept += any((folder / "state").rglob("state-*"))
        killed = _finished(_start(folder, "killed", max(1, n_documents // 50)), folder / "killed")

    tally = whole["tally"]
    assert tally["n_documents"] + tally["n_skipped"] + tally["n_empty"] == n_documents, tally
    assert {name: tally[name] for name in expected} == expected, (tally, expected)
    assert killed["tally"] == tally, (killed["tally"], tally)
    assert all(np.array_equal(killed["arrays"][name], array) for name, array in whole["arrays"].items())
    return {
        "documents": n_documents,
        "counted": tally["n_documents"],
        "skipped as too long": tally["n_skipped"],
        "empty": tally["n_empty"],
        "times killed": n_killed,
        "of these with a state": n_kept,
        "equal to the last bit": True,
        "documents per second": n_documents / seconds,
        "peak memory, MB": whole["facts"]["megabytes"],
    }


def _corpus() -> Any:
    sys.path[:0] = [path for path in (str(_ROOT), str(_ROOT / "tests")) if path not in sys.path]
    return importlib.import_module("soak_corpus")


def _start(folder: Path, name: str, checkpoint_every: int | None) -> Any:
    worker = multiprocessing.get_context("spawn").Process(target=_count, args=(folder, name, checkpoint_every))
    worker.start()
    return worker


def _count(folder: Path, name: str, checkpoint_every: int | None) -> None:
    """Count the corpus and write what came out; with ``checkpoint_every``, from where an earlier process got to."""
    begun = time.perf_counter()
    corpus = _corpus()
    model, tokenizer = corpus.open_model()
    started = time.perf_counter()
    options: dict[str, Any] = {}
    if checkpoint_every is not None:
        options = {"checkpoint": folder / "state", "resume": True, "checkpoint_every": checkpoint_every}
    result = corpus.soak(model, tokenizer, corpus.breaking(folder / "documents.jsonl", None), **options)
    facts = {
        "seconds_to_start": started - begun,
        "seconds": time.perf_counter() - started,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    np.savez(folder / f"{name}.npz", **result.totals.to_arrays())
    (folder / f"{name}.json").write_text(json.dumps({"tally": dict(result.tally), "facts": facts}), encoding="utf-8")


def _finished(worker: Any, path: Path) -> dict[str, Any]:
    """Return what a process has written, when it has ended well."""
    worker.join()
    assert worker.exitcode == 0, f"exit code {worker.exitcode}"
    with np.load(path.with_suffix(".npz")) as arrays:
        return {**json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), "arrays": dict(arrays)}


if __name__ == "__main__":
    for key, value in run(*map(int, sys.argv[1:2])).items():
        print(f"{key:<24}{value:.4g}" if isinstance(value, float) else f"{key:<24}{value}")
