"""Two hours' worth of documents in short: 200,000 of them, good and bad, with runs that are broken off at random.

``python benchmarks/soak.py [N_DOCUMENTS]`` from the repository. Every document must be counted exactly once, and the
run that was broken off must equal the one that was not, to the last bit. The documents: tests/soak_corpus.py.
"""

from __future__ import annotations

import importlib
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

N_DOCUMENTS, N_BREAKS = 200_000, 10


def run(n_documents: int = N_DOCUMENTS, n_breaks: int = N_BREAKS) -> dict[str, Any]:
    """Return what was counted, how fast, and the peak of memory; raise AssertionError where counts do not add up."""
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root), str(root / "tests")]
    corpus: Any = importlib.import_module("soak_corpus")
    model, tokenizer = corpus.open_model()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "documents.jsonl")
        expected = corpus.write_corpus(path, n_documents, seed=0)
        started = time.perf_counter()
        whole = corpus.soak(model, tokenizer, corpus.breaking(path, None))
        seconds = time.perf_counter() - started
        breaks = sorted(random.Random(1).sample(range(n_documents), n_breaks))
        broken, n_broken = corpus.soak_broken(
            model, tokenizer, path, Path(place, "state"), breaks, max(1, n_documents // 50)
        )
    tally = whole.tally
    assert tally["n_documents"] + tally["n_skipped"] + tally["n_empty"] == n_documents, tally
    assert {name: tally[name] for name in expected.tally} == expected.tally, (tally, expected.tally)
    assert broken.tally == tally
    arrays, again = whole.totals.to_arrays(), broken.totals.to_arrays()
    assert all((arrays[name] == again[name]).all() for name in arrays)
    return {
        "documents": n_documents,
        "counted": tally["n_documents"],
        "skipped as too long": tally["n_skipped"],
        "empty": tally["n_empty"],
        "broken off": n_broken,
        "equal to the last bit": True,
        "documents per second": n_documents / seconds,
        "peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    for key, value in run(*map(int, sys.argv[1:2])).items():
        print(f"{key:<24}{value:.4g}" if isinstance(value, float) else f"{key:<24}{value}")
