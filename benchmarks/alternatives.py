"""Two obvious alternatives: all patterns of a batch at once, then numpy, document by document.

``cache`` takes them from TransformerLens' ``run_with_cache``; ``output_attentions`` from transformers itself, without
TransformerLens. Both are written as one would write them: boolean masks of pairs per document, means by class. They
give the pooled means and nothing else. ``probe`` is taken twice, with all its estimators and intervals: without
permutations, and as it comes (200). Every way runs in processes of its own, after a pass to warm up, once in this order
and once in the other. All print the same headline, or the comparison is void.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _measuring import PeakMemory, in_process, seconds
from _setup import BATCH_SIZE, MAX_LENGTH, N_PASSAGES, batches_of, labels_for, open_backbone, open_model, passages

import topic_probes as tp
from topic_probes.probes._hooks import mask_argument

WAYS = ("probe", "probe_200", "cache", "output_attentions")
WARM_UP = 2 * BATCH_SIZE
AGREEMENT = 1e-5
"""Relative: the alternatives add in float32, as one would."""


def run(n_passages: int = N_PASSAGES) -> dict[str, Any]:
    """Return seconds, peak memory and headline ratio of each way, and what the alternatives cost against ``probe``."""
    texts = passages()
    labels = labels_for(texts)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for name in (*WAYS, *reversed(WAYS)):
        results[name].append(in_process(measure, name, texts[:n_passages], labels))
    found = {
        name: {key: statistics.median(one[key] for one in runs) for key in runs[0]} for name, runs in results.items()
    }
    probe = found["probe"]
    for name, values in found.items():
        if abs(probe["headline"] - values["headline"]) > AGREEMENT * probe["headline"]:
            raise AssertionError(f"{name} and probe disagree: {values['headline']} and {probe['headline']}")
    flat = {f"{name}_{key}": value for name, values in found.items() for key, value in values.items()}
    for name in WAYS[2:]:
        for against in WAYS[:2]:
            flat[f"{name}_time_over_{against}"] = found[name]["seconds"] / found[against]["seconds"]
            flat[f"{name}_memory_over_{against}"] = found[name]["megabytes"] / found[against]["megabytes"]
    return flat


def measure(name: str, texts: list[str], labels: Any) -> dict[str, float]:
    """Return seconds, peak memory in MB and the headline ratio of one way, in this process."""
    model, tokenizer = (None, open_model()[1]) if name == "output_attentions" else open_model()
    way = {"cache": _by_cache, "output_attentions": _by_output_attentions}.get(name)
    if way is None:
        n_permutations = 200 if name == "probe_200" else 0

        def work(some: list[str]) -> float:
            return _by_probe(model, tokenizer, some, labels, n_permutations)
    else:
        patterns = way(model)

        def work(some: list[str]) -> float:
            return _by_numpy(patterns, tokenizer, some, labels)

    work(texts[:WARM_UP])
    headlines: list[float] = []
    with PeakMemory() as memory:
        spent = seconds(lambda: headlines.append(work(texts)))
    return {"seconds": spent, "megabytes": memory.megabytes, "headline": headlines[0]}


def _by_probe(model: Any, tokenizer: Any, texts: list[str], labels: Any, n_permutations: int) -> float:
    report = tp.probe(
        model, texts, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
        n_permutations=n_permutations, progress=False,
    )  # fmt: skip
    return report.attention.headline(n_resamples=1).ratio


def _by_cache(model: Any) -> Callable[[Any], np.ndarray]:
    def patterns(batch: Any) -> np.ndarray:
        _, cache = model.run_with_cache(batch.token_ids, **{str(mask_argument(model)): batch.mask})
        return torch.stack([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in range(model.cfg.n_layers)]).numpy()

    return patterns


def _by_output_attentions(_model: Any) -> Callable[[Any], np.ndarray]:
    backbone = open_backbone()

    def patterns(batch: Any) -> np.ndarray:
        found = backbone(batch.token_ids, attention_mask=batch.mask, output_attentions=True)
        return torch.stack(found.attentions).numpy()

    return patterns


def _by_numpy(patterns: Callable[[Any], np.ndarray], tokenizer: Any, texts: list[str], labels: Any) -> float:
    """Return the headline ratio from ``patterns``, batch -> [layer, batch, head, query_pos, key_pos]."""
    sums: dict[str, Any] = {"same": 0.0, "cross": 0.0}
    counts = {"same": 0, "cross": 0}
    for batch in batches_of(texts, tokenizer):
        with torch.no_grad():
            attention = patterns(batch)
        for row, window in enumerate(batch.windows):
            words = np.array(window.words)
            member = labels.membership(window.words)
            labelled = member.any(axis=1)
            meet = (member.astype(int) @ member.T.astype(int)) > 0
            both = labelled[:, None] & labelled[None, :] & (words[:, None] != words[None, :])
            pattern = attention[:, row][:, :, window.starts][:, :, :, window.starts] * len(window)
            for name, mask in (("same", both & meet), ("cross", both & ~meet)):
                sums[name] = sums[name] + pattern[:, :, mask].sum(axis=-1)
                counts[name] += int(mask.sum())
    return float((sums["same"] / counts["same"]).mean() / (sums["cross"] / counts["cross"]).mean())
