"""What the probe adds to the forward pass it watches.

Interleaved in one run: the bare backbone of transformers (eager attention, no TransformerLens, no language-model head)
over batches made beforehand, and ``probe`` over the same passages, tokenisation and classification of pairs included:
without permutations (all estimators), with 200 and with 999. The probe stops at the last pattern, so it also saves a
part of the last layer. ``uncounted`` is the forward pass of TransformerLens as far as that, with hooks that do nothing:
what is below it is not the probe's. Target: at most 1.10 times the bare backbone without permutations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _measuring import median, rounds
from _setup import BATCH_SIZE, MAX_LENGTH, batches_of, labels_for, open_backbone, open_model, passages, run_uncounted

import topic_probes as tp

ROUNDS, N_PASSAGES = 5, 128
PERMUTATIONS = (0, 200, 999)


def run(n_passages: int = N_PASSAGES, n_rounds: int = ROUNDS) -> dict[str, Any]:
    """Return median seconds of the bare backbone and of the probe, and the median of their ratio round by round."""
    texts = passages()
    labels = labels_for(texts)
    texts = texts[:n_passages]
    model, tokenizer = open_model()
    backbone = open_backbone()
    prepared = batches_of(texts, tokenizer)

    def bare() -> None:
        with torch.no_grad():
            for batch in prepared:
                backbone(batch.token_ids, attention_mask=batch.mask)

    def probed(n_permutations: int) -> None:
        tp.probe(
            model, texts, labels, tokenizer=tokenizer, batch_size=BATCH_SIZE, max_length=MAX_LENGTH, baseline=None,
            n_permutations=n_permutations, progress=False,
        )  # fmt: skip

    ways: dict[str, Callable[[], object]] = {"bare": bare, "uncounted": lambda: run_uncounted(model, prepared)}
    ways |= {f"permutations_{n}": partial(probed, n) for n in PERMUTATIONS}
    found = rounds(ways, n_rounds)
    n_tokens = sum(int(batch.mask.sum()) for batch in prepared)
    return {
        "passages": len(texts),
        "tokens": n_tokens,
        **{f"permutations_{n}_tokens_per_second": n_tokens / median(found, f"permutations_{n}") for n in PERMUTATIONS},
        **{f"{name}_seconds": median(found, name) for name in ways},
        **{f"{name}_ratio": median(found, name, "bare") for name in ways if name != "bare"},
        **{f"permutations_{n}_over_uncounted": median(found, f"permutations_{n}", "uncounted") for n in PERMUTATIONS},
        "target_ratio_without_permutations": 1.10,
    }
