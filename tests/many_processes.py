"""A program: ``probe`` in 1, 2, 3 and 5 processes that share the documents, against one that knows of no others.

``python many_processes.py FOLDER`` prints one JSON object: case -> what was found. The processes are forks of one in
which everything is loaded, joined by gloo through a file. No annotation is checked here: it is a child of a test.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import numpy as np
import torch.distributed as dist

import helpers
from broken_runs import fork, numbers_of
from topic_probes import TopicLabels, probe
from topic_probes.corpora import Document

_numbers = random.Random(2)
LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})


def document(number: int, length: int) -> Document:
    """Its id is its number, as in a stream without ids."""
    return Document(str(number), token_ids=tuple(_numbers.randrange(50) for _ in range(length)))


CORPORA = {
    "long and short": [document(number, _numbers.choice([2, 5, 9, 40])) for number in range(23)],
    "three documents": [document(number, length) for number, length in enumerate((7, 12, 9))],
    # Of two processes the first would see three tokens at a time, and the second thirty.
    "short ones first": [document(number, 3 if number % 2 == 0 else 30) for number in range(10)],
}


class Deadly(list):
    """Documents before whose last one a process is killed, unless it is the first."""

    def __iter__(self) -> Iterator[Document]:
        yield from self[:-1]
        if dist.get_rank():
            os.kill(os.getpid(), signal.SIGKILL)
        yield self[-1]


def run(model: Any, documents: Any, **options: Any) -> Any:
    return probe(
        model,
        documents,
        LABELS,
        **{"batch_size": 4, "baseline": None, "n_permutations": 3, "progress": False, **options},
    )


def together(folder: Path, name: str, n: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what each of n processes made of some work, or the error in words; nothing of one that died."""

    def one(rank: int) -> None:
        try:
            dist.init_process_group("gloo", init_method=f"file://{folder}/{name}.group", rank=rank, world_size=n)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = {"numbers": {key: array.tolist() for key, array in numbers_of(work(rank)).items()}}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        (folder / f"{name}.{rank}.json").write_text(json.dumps(found), encoding="utf-8")

    for child in [fork(lambda rank=rank: one(rank)) for rank in range(n)]:
        os.waitpid(child, 0)
    files = [folder / f"{name}.{rank}.json" for rank in range(n)]
    return [json.loads(file.read_text(encoding="utf-8")) if file.exists() else {} for file in files]


def compare(found: list[dict[str, Any]], expected: dict[str, np.ndarray]) -> dict[str, Any]:
    """The largest difference of any process from one alone, as a share of the largest number of each array."""
    outcome: dict[str, Any] = {"errors": [one["error"] for one in found if "error" in one], "different": {}}
    for one in found:
        for name, array in one.get("numbers", {}).items():
            mine, theirs = np.array(array), expected[name]
            if theirs.dtype.kind != "f":
                difference = 0.0 if (mine == theirs).all() else float("inf")
            else:
                difference = float(np.abs(mine - theirs).max() / max(float(np.abs(theirs).max()), 1e-300))
            outcome["different"][name] = max(difference, outcome["different"].get(name, 0.0))
    return outcome


def main(folder: Path) -> dict[str, Any]:
    outcomes: dict[str, Any] = {}
    model = helpers.build(helpers.KINDS[0])
    for corpus, documents in CORPORA.items():
        options = {"baseline": "random_init"} if corpus == "three documents" else {}
        expected = numbers_of(run(model, documents, **options))
        for n in (1, 2, 3, 5) if corpus == "long and short" else (2, 5):
            name = f"{corpus}, {n}"
            found = together(
                folder,
                name.replace(" ", "-"),
                n,
                lambda _, own=documents, how=options: run(model, own, distributed=True, **how),
            )
            outcomes[name] = compare(found, expected)

    if helpers.HAS_HOOKED:
        options = {"use_local_attn": True, "attn_types": ["local", "global"], "window_size": 5}
        local = helpers.hooked_transformer(**options, dtype=helpers.torch.float64)
        documents = CORPORA["short ones first"]
        found = together(folder, "local", 2, lambda _: run(local, documents, distributed=True))
        outcomes["window, 2"] = compare(found, numbers_of(run(local, documents)))

    documents = CORPORA["long and short"]
    shared = {"distributed": True}
    # Beyond what all processes read to learn from: only the process with number 40 meets it.
    broken = [document(number, 9) if number != 40 else Document("40", token_ids=(1, 99)) for number in range(45)]
    outcomes["one fails"] = [
        one.get("error") for one in together(folder, "fails", 3, lambda _: run(model, broken, batch_size=1, **shared))
    ]
    outcomes["one dies"] = [
        one.get("error") for one in together(folder, "dies", 2, lambda _: run(model, Deadly(documents), **shared))
    ]
    outcomes["called otherwise"] = [
        one.get("error")
        for one in together(folder, "other", 2, lambda rank: run(model, documents, seed=rank, **shared))
    ]
    for name, read in {
        "one reads fewer": lambda rank: documents[: len(documents) - 3 * rank],
        "one reads backwards": lambda rank: documents[::-1] if rank else documents,
    }.items():
        outcomes[name] = [
            one.get("error")
            for one in together(
                folder, name.replace(" ", "-"), 2, lambda rank, read=read: run(model, read(rank), **shared)
            )
        ]
    kept = {"checkpoint": folder / "kept", "resume": True, "checkpoint_every": 1, **shared}
    alone = numbers_of(run(model, documents))
    for time in ("first", "again"):
        outcomes[f"kept, {time}"] = compare(together(folder, time, 2, lambda _: run(model, documents, **kept)), alone)
    outcomes["kept by two, called by three"] = [
        one.get("error") for one in together(folder, "three", 3, lambda _: run(model, documents, **kept))
    ]
    return outcomes


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
