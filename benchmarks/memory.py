"""Peak memory against the length of a stream: ``probe`` and ``fit_lda`` over 100 and over 10,000 documents.

Each measurement is a fresh process, and the number is the most that the operating system ever gave it (resident set).
Documents are made one by one as they are read, so a corpus takes no memory of its own. Target: at most 60 MB more for a
hundred times as many. ``python benchmarks/memory.py probe 300`` is one of these processes.

``probe`` keeps sums and one stretch of the corpus, whatever its length. ``fit_lda`` keeps its passages in a temporary
file, and of each some numbers in memory; what grows with a corpus is the list of its different words.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FEW, MANY = 100, 10_000
TARGET_MEGABYTES = 60.0
WORDS_PER_DOCUMENT = {"probe": 40, "fit_lda": 400}
N_WORDS = {"probe": 200, "fit_lda": 9_990}


def run(few: int = FEW, many: int = MANY) -> dict[str, Any]:
    """Return the peak in MB over few and over many documents, and the difference, for both functions."""
    found: dict[str, Any] = {"few": few, "many": many, "target_megabytes": TARGET_MEGABYTES}
    for name in ("probe", "fit_lda"):
        peaks = [_measure(name, n) for n in (few, many)]
        found |= {f"{name}_few_megabytes": peaks[0], f"{name}_many_megabytes": peaks[1]}
        found[f"{name}_more_megabytes"] = peaks[1] - peaks[0]
    return found


def _measure(name: str, n_documents: int) -> float:
    root = Path(__file__).resolve().parents[1]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    outcome = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), name, str(n_documents)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(outcome.stdout.splitlines()[-1])["megabytes"])


def _peak_megabytes() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _words(n_documents: int, name: str) -> Iterator[list[int]]:
    """Yield the words of each document: of ten topics, mostly of one."""
    import numpy as np

    length, of_topic = WORDS_PER_DOCUMENT[name], N_WORDS[name] // 10
    for number in range(n_documents):
        generator = np.random.default_rng(number)
        topics = np.where(generator.random(length) < 0.7, number % 10, generator.integers(0, 10))
        yield (topics * of_topic + generator.integers(0, of_topic, length)).tolist()


def _spelled(word: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{word:04d}")


def _corpus(n_documents: int, name: str) -> Any:
    from topic_probes.corpora import Document
    from topic_probes.corpora._document import Corpus

    def documents() -> Iterator[Document]:
        for number, words in enumerate(_words(n_documents, name)):
            if name == "fit_lda":
                yield Document(str(number), text=" ".join(map(_spelled, words)))
            else:
                yield Document(str(number), token_ids=tuple(words))

    return Corpus(documents, name="made up", n_documents=n_documents)


def _probe(n_documents: int) -> None:
    import torch

    import topic_probes as tp
    from topic_probes.toy import TopicTransformer

    torch.set_num_threads(1)
    n_words = N_WORDS["probe"]
    labels = tp.TopicLabels.from_dict({word: word // (n_words // 10) for word in range(n_words)})
    tp.probe(
        TopicTransformer(n_words), _corpus(n_documents, "probe"), labels, baseline=None, n_permutations=20,
        progress=False,
    )  # fmt: skip


def _fit_lda(n_documents: int) -> None:
    import topic_probes as tp

    tp.fit_lda(_corpus(n_documents, "fit_lda"), n_topics=10, passes=2, min_passages=1, progress=False)


if __name__ == "__main__":
    {"probe": _probe, "fit_lda": _fit_lda}[sys.argv[1]](int(sys.argv[2]))
    print(json.dumps({"megabytes": _peak_megabytes()}))
