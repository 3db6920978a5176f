"""The obvious alternative: ``run_with_cache`` of all patterns, then numpy, document by document.

Each way runs in a process of its own, so that peak memory is its own. The alternative is written as one
would write it: a cache of every pattern of a batch, boolean masks of pairs per document, means by class.
Both print the same headline, or the comparison is void.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from typing import Any

import numpy as np
import psutil
import torch
from _setup import labels_for, open_model, passages

import topic_probes as tp
from topic_probes.corpora import as_corpus
from topic_probes.probes._batches import batches
from topic_probes.tokens import DocumentReader

BATCH_SIZE, MAX_LENGTH = 16, 512
AGREEMENT = 1e-5
"""Relative: the alternative adds in float32, as one would."""


def run() -> dict[str, Any]:
    """Return seconds, peak memory and headline ratio of both ways."""
    context = multiprocessing.get_context("spawn")
    results = {}
    for name in ("probe", "cache"):
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(name, theirs))
        worker.start()
        results[name] = json.loads(ours.recv())
        worker.join()
    probe, cache = results["probe"], results["cache"]
    if abs(probe["headline"] - cache["headline"]) > AGREEMENT * probe["headline"]:
        raise AssertionError(f"the two ways disagree: {probe['headline']} and {cache['headline']}")
    return {
        **{f"{name}_{key}": value for name, values in results.items() for key, value in values.items()},
        "time_ratio": cache["seconds"] / probe["seconds"],
        "memory_ratio": cache["peak_megabytes"] / probe["peak_megabytes"],
    }


def _work(name: str, pipe: Any) -> None:
    texts = passages()
    labels = labels_for(texts)
    model, tokenizer = open_model()
    way = _by_probe if name == "probe" else _by_cache
    way(model, tokenizer, texts[:2], labels)
    with _PeakMemory() as memory:
        begun = time.perf_counter()
        headline = way(model, tokenizer, texts, labels)
        seconds = time.perf_counter() - begun
    pipe.send(json.dumps({"seconds": seconds, "peak_megabytes": memory.megabytes, "headline": headline}))


class _PeakMemory:
    """Most memory of the process inside the block, beyond what it held before; looked at 200 times a second."""

    def __enter__(self) -> _PeakMemory:
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


def _by_probe(model: Any, tokenizer: Any, texts: list[str], labels: Any) -> float:
    report = tp.probe(
        model, texts, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
        progress=False,
    )  # fmt: skip
    return report.attention.headline(n_resamples=1).ratio


def _by_cache(model: Any, tokenizer: Any, texts: list[str], labels: Any) -> float:
    reader = DocumentReader(tokenizer, max_length=MAX_LENGTH)
    windows = [window for document in as_corpus(texts) for window in reader.windows(document)]
    sums: dict[str, Any] = {"same": 0.0, "cross": 0.0}
    counts = {"same": 0, "cross": 0}
    for batch in batches(windows, BATCH_SIZE, tokenizer.pad_token_id):
        with torch.no_grad():
            _, cache = model.run_with_cache(batch.token_ids, attention_mask=batch.mask)
        stacked = torch.stack([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in range(model.cfg.n_layers)])
        patterns = stacked.numpy()
        for row, window in enumerate(batch.windows):
            length = len(window)
            words = np.array(window.words)
            member = labels.membership(window.words)
            labelled = member.any(axis=1)
            meet = (member.astype(int) @ member.T.astype(int)) > 0
            both = labelled[:, None] & labelled[None, :] & (words[:, None] != words[None, :])
            pattern = patterns[:, row][:, :, window.starts][:, :, :, window.starts] * length
            for name, mask in (("same", both & meet), ("cross", both & ~meet)):
                sums[name] = sums[name] + pattern[:, :, mask].sum(axis=-1)
                counts[name] += int(mask.sum())
    return float((sums["same"] / counts["same"]).mean() / (sums["cross"] / counts["cross"]).mean())
