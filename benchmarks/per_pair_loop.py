"""The straightforward way: a loop over every document, layer, head, query and key.

For each pair the class is looked up (same word, labelled, topics in common) and the attention, in units of
uniform = 1, is added to the class. It is written three times: ``tensor_loop`` reads entry by entry from the model's own
tensors, as one writes it first (one document only, it is slow); ``array_loop`` from numpy arrays; ``list_loop`` turns
each head's pattern into lists beforehand, and looks classes up in a table made once per document, which is about as
fast as loops in Python get. Each must give the sums of ``probe`` over the same documents, in all four classes, for
every layer and head, or the comparison is void.

Seconds per pair and head are compared in three ways. *Counting alone*: the patterns are at hand, and the probe's
counter does what it does with them (planning rows included; without permutations, for the loop has none, but with
every estimator and the curve over distance, which the loop has not). *Beyond the forward*: the whole of ``probe``,
reading included, less the forward pass that it watches. *Whole*: all of ``probe``, where the loop still has its
patterns for nothing. Target: at least 1000 times, for 6 layers of 12 heads.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _measuring import median, rounds, seconds
from _setup import BATCH_SIZE, MAX_LENGTH, batches_of, labels_for, open_backbone, open_model, passages, run_uncounted

import topic_probes as tp
from topic_probes.probes._batches import Batch
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.statistics._sums import COLUMNS

N_LOOPED, N_PROBED, ROUNDS = 2, 48, 3
CLASSES = ("same_token", "no_topic", "same_topic", "cross_topic")
AGREEMENT = 1e-5
"""Relative, of sums: patterns are float32, and come from another batch."""
TARGET = 1000.0


def run(n_looped: int = N_LOOPED, n_probed: int = N_PROBED, n_rounds: int = ROUNDS) -> dict[str, Any]:
    """Return nanoseconds per pair and head of the loops and of the probe, and how many times as fast the probe is."""
    texts = passages()
    labels = labels_for(texts)
    texts = texts[:n_probed]
    model, tokenizer = open_model()
    backbone = open_backbone()
    # One text after the other: a list of them would come sorted by length.
    prepared = [batch for text in texts[:n_looped] for batch in batches_of([text], tokenizer)]
    few = [(batch, _patterns(backbone, batch)) for batch in prepared]
    one = [(batch, torch.from_numpy(patterns)) for batch, patterns in few[:1]]
    n_heads = few[0][1].shape[0] * few[0][1].shape[2]
    of_loop: dict[str, float] = {}
    cases: tuple[tuple[str, Any, Any], ...] = (
        ("tensor_loop", _loop, one), ("array_loop", _loop, few), ("list_loop", _list_loop, few),
    )  # fmt: skip
    for name, loop, documents in cases:
        sums: dict[str, np.ndarray] = {}
        spent = seconds(lambda loop=loop, documents=documents, sums=sums: sums.update(loop(documents, labels)))
        result = _probe(model, tokenizer, texts[: len(documents)], labels).attention
        of_loop[name] = spent / (n_heads * sum(result.pair_counts.values()))
        for kind in CLASSES:
            ours = result.totals.sums[..., COLUMNS.index(kind)].sum(axis=2)  # over groups of documents
            np.testing.assert_allclose(ours, sums[kind], rtol=AGREEMENT, err_msg=f"{name} disagrees: {kind}")

    prepared = batches_of(texts, tokenizer)
    recorded = [(batch, _patterns(backbone, batch)) for batch in prepared[:2]]
    n_pairs = n_heads * sum(_probe(model, tokenizer, texts, labels).attention.pair_counts.values())
    n_recorded = n_heads * sum(len(window.words) ** 2 for batch, _ in recorded for window in batch.windows)

    found = rounds(
        {
            "counting": lambda: _count(recorded, labels),
            "uncounted": lambda: run_uncounted(model, prepared),
            "probe": lambda: _probe(model, tokenizer, texts, labels),
        },
        n_rounds,
    )
    ways = {
        "counting": median(found, "counting") / n_recorded,
        "beyond_forward": statistics.median(one["probe"] - one["uncounted"] for one in found) / n_pairs,
        "whole": median(found, "probe") / n_pairs,
    }
    return {
        "layers_times_heads": n_heads,
        **{f"{name}_nanoseconds": 1e9 * value for name, value in (of_loop | ways).items()},
        **{
            # The difference of two times may be nothing, or less: then there is no ratio.
            f"{loop}_over_{name}": value / ways[name] if ways[name] > 0 else float("nan")
            for loop, value in of_loop.items()
            for name in ways
        },
        "target_ratio": TARGET,
    }


def _probe(model: Any, tokenizer: Any, texts: list[str], labels: Any) -> Any:
    return tp.probe(
        model, texts, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
        n_permutations=0, progress=False,
    )  # fmt: skip


def _patterns(backbone: Any, batch: Batch) -> np.ndarray:
    """Return [layer, batch, head, query_pos, key_pos]."""
    with torch.no_grad():
        found = backbone(batch.token_ids, attention_mask=batch.mask, output_attentions=True)
    return torch.stack(found.attentions).numpy()


def _count(recorded: list[tuple[Batch, np.ndarray]], labels: Any) -> None:
    """Count recorded patterns by the probe's own counter."""
    measures = PairMeasures(labels)
    counter = PatternCounter(range(len(recorded[0][1])), measures)
    for batch, patterns in recorded:
        counter.begin_batch(BatchRows(batch.windows, [slice(0, len(window)) for window in batch.windows], measures))
        for layer, pattern in enumerate(patterns):
            counter.count(layer, torch.from_numpy(pattern))
        counter.end_batch()


def _class_of(query: str | int, key: str | int, topics: Any) -> str:
    if query == key:
        return "same_token"
    if query not in topics or key not in topics:
        return "no_topic"
    return "same_topic" if set(topics[query]) & set(topics[key]) else "cross_topic"


def _loop(documents: list[tuple[Batch, Any]], labels: Any) -> dict[str, np.ndarray]:
    """Return class -> [layer, head] sums, from patterns in arrays or in tensors."""
    n_layers, _, n_heads = documents[0][1].shape[:3]
    sums = {name: np.zeros((n_layers, n_heads)) for name in CLASSES}
    for batch, patterns in documents:
        window = batch.windows[0]
        length, positions = len(window), window.starts.tolist()
        for layer in range(n_layers):
            for head in range(n_heads):
                for query, query_pos in zip(window.words, positions, strict=True):
                    for key, key_pos in zip(window.words, positions, strict=True):
                        name = _class_of(query, key, labels.topics_of)
                        sums[name][layer, head] += float(patterns[layer, 0, head, query_pos, key_pos]) * length
    return sums


def _list_loop(documents: list[tuple[Batch, Any]], labels: Any) -> dict[str, np.ndarray]:
    """Return the same, with less work in the innermost loop."""
    n_layers, _, n_heads = documents[0][1].shape[:3]
    sums = np.zeros((len(CLASSES), n_layers, n_heads))
    number: Callable[[str], int] = CLASSES.index
    for batch, patterns in documents:
        window = batch.windows[0]
        positions = window.starts.tolist()
        table = [[number(_class_of(query, key, labels.topics_of)) for key in window.words] for query in window.words]
        for layer in range(n_layers):
            for head in range(n_heads):
                total = [0.0] * len(CLASSES)
                rows = patterns[layer, 0, head].tolist()
                for query_pos, classes in zip(positions, table, strict=True):
                    row = rows[query_pos]
                    for key_pos, kind in zip(positions, classes, strict=True):
                        total[kind] += row[key_pos]
                sums[:, layer, head] += np.array(total) * len(window)
    return dict(zip(CLASSES, sums, strict=True))
