"""What the probe adds to the forward pass it watches.

Interleaved in one run: the bare backbone of transformers (eager attention, no language-model head) over
batches made beforehand, and ``probe`` over the same passages, tokenisation and classification of pairs
included. The probe stops at the last pattern, so it also saves a part of the last layer.
Target: a ratio of at most 1.15.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _setup import labels_for, open_model, passages

import topic_probes as tp
from topic_probes.corpora import as_corpus
from topic_probes.probes._batches import batches
from topic_probes.tokens import DocumentReader

ROUNDS, BATCH_SIZE, MAX_LENGTH = 7, 16, 512


def run() -> dict[str, Any]:
    """Return median seconds of the bare backbone and of the probe, and the median of their ratio round by round."""
    texts = passages()
    labels = labels_for(texts)
    model, tokenizer = open_model()
    backbone = model.original_model.bert
    reader = DocumentReader(tokenizer, max_length=MAX_LENGTH)
    windows = [window for document in as_corpus(texts) for window in reader.windows(document)]
    prepared = list(batches(windows, BATCH_SIZE, tokenizer.pad_token_id))

    def bare() -> None:
        with torch.no_grad():
            for batch in prepared:
                backbone(batch.token_ids, attention_mask=batch.mask)

    def probed() -> None:
        tp.probe(
            model, texts, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
            progress=False,
        )  # fmt: skip

    bare()
    probed()
    rounds = [(_seconds(bare), _seconds(probed)) for _ in range(ROUNDS)]
    return {
        "passages": len(texts),
        "tokens": reader.tally.n_tokens,
        "bare_seconds": statistics.median(first for first, _ in rounds),
        "probe_seconds": statistics.median(second for _, second in rounds),
        "ratio": statistics.median(second / first for first, second in rounds),
        "target_ratio": 1.15,
    }


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
