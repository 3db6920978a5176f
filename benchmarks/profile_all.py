"""Where the time goes: cProfile of ``probe``, ``probe_embedding``, ``fit_lda``, ``toy.train`` and ``dual.attach_head``.

For each, the functions with most time of their own, as shares of all. The profiler charges every call of Python, so
many small functions look dearer than they are; operators of tensors and arrays are charged to the function that uses
them, other calls to the built-in. ``python benchmarks/profile_all.py [NAME ...]`` prints them; ``run()`` returns them.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _setup import BATCH_SIZE, MAX_LENGTH, labels_for, open_model, passages

import topic_probes as tp
from topic_probes.corpora import Document

N_FUNCTIONS = 15
N_PASSAGES = 64


def run(names: tuple[str, ...] = (), n_passages: int = N_PASSAGES) -> dict[str, Any]:
    """Return, for each case, its seconds and its top functions by own time: share, calls, place."""
    found: dict[str, Any] = {}
    for name, work in _cases(n_passages).items():
        if names and name not in names:
            continue
        work()
        profile = cProfile.Profile()
        profile.runcall(work)
        found |= {f"{name}, {key}": value for key, value in _top(profile).items()}
    return found


def _cases(n_passages: int) -> dict[str, Callable[[], object]]:
    texts = passages()
    labels = labels_for(texts)
    model, tokenizer = open_model()
    few = texts[:n_passages]
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]
    generator = np.random.default_rng(0)
    embedding = generator.normal(size=(30_000, 384)).astype(np.float32)
    words = generator.choice(30_000, 5000, replace=False)
    of_ids = tp.TopicLabels.from_dict({int(word): int(word) % 50 for word in words})
    toy_corpus = tp.corpora.lda(n_documents=512, seed=0)
    token_ids = tokenizer(texts[0])["input_ids"]

    def probe(n_permutations: int) -> object:
        return tp.probe(
            model, few, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
            n_permutations=n_permutations, progress=False,
        )  # fmt: skip

    return {
        "probe": lambda: probe(0),
        "probe with 200 permutations": lambda: probe(200),
        "probe_embedding": lambda: tp.probe_embedding(embedding, of_ids),
        "fit_lda": lambda: tp.fit_lda(documents, n_topics=40, passes=10, progress=False),
        "toy.train": lambda: tp.toy.train(
            tp.toy.TopicTransformer(100), toy_corpus, steps=200, record_every=50, progress=False
        ),
        "dual.attach_head": lambda: [
            tp.dual.attach_head(model, token_ids, layer=3, head=head, tokenizer=tokenizer) for head in range(4)
        ],
    }


def _top(profile: cProfile.Profile) -> dict[str, Any]:
    stats: Any = pstats.Stats(profile, stream=io.StringIO())
    found: dict[str, Any] = {"seconds": stats.total_tt}
    ordered = sorted(stats.stats.items(), key=lambda item: item[1][2], reverse=True)
    for number, ((file, line, function), (_, calls, own, whole, _)) in enumerate(ordered[:N_FUNCTIONS], start=1):
        place = function if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {function}"
        share, all_of_it = own / stats.total_tt, whole / stats.total_tt
        found[f"{number:2}"] = f"own {share:5.1%}  with callees {all_of_it:6.1%}  calls {calls:8}  {place}"
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for key, value in run(tuple(sys.argv[1:])).items():
        print(f"{key:<40}{value}")
