"""What ``demo``, ``toy`` and ``dual`` would take; nothing is run.

The sizes are those of their articles, models and trainings. The times of training and drawing are as measured on one
core of an ordinary server: good to a factor of three.
"""

from __future__ import annotations

import os
from typing import Any

from .._validation import require_count
from ..corpora import as_corpus, sample_wikipedia
from ..topics import TopicLabels
from ._estimate import Estimate, estimate_probe, estimate_topics, in_words

_PASSES, _VOCABULARY = 30, 20_000
"""Of ``fit_lda``, unless given."""
_TOY_SECONDS, _UPDATE_SECONDS, _GRID_UPDATE_SECONDS = 22.0, 0.0025, 0.008
"""Probes and pictures of all cases; an update of a case; an update of the grid, whose history is finer."""
_TOY_BYTES = 300_000_000
"""Of each process."""
_DUAL_DOCUMENT_SECONDS, _DUAL_SECONDS, _DUAL_BYTES = 0.25, 20.0, 400_000_000
"""A document of 128 tokens; everything that is done once; the model and the values of its heads."""
_PICTURES_SECONDS, _PICTURES_BYTES = 10.0, 1_000_000


def estimate_toy(*, steps: int, grid: bool, n_jobs: int) -> Estimate:
    """Return what ``topic-probes toy`` would take.

    Raises:
        ValueError: if there is no such number of processes.
    """
    from ..demo._toy import CASES, GRID

    if n_jobs != -1:
        require_count("n_jobs", n_jobs)
    # What has a number of steps of its own is not made longer than asked for.
    n_runs, n_updates = len(CASES), sum(min(steps, case.training.get("steps", steps)) for case in CASES.values())
    seconds = _TOY_SECONDS + n_updates * _UPDATE_SECONDS
    n_processes = 0
    if grid:
        n_rates = sum(len(GRID["learning_rate"][optimizer]) for optimizer in GRID["optimizer"])
        n_more = n_rates * len(GRID["loss"]) * len(GRID["init_scale"])
        n_cores = os.cpu_count() or 1
        n_processes = min(n_cores if n_jobs == -1 else n_jobs, n_more)
        seconds += n_more * GRID["steps"] * _GRID_UPDATE_SECONDS / min(n_processes, n_cores)
        n_runs, n_updates = n_runs + n_more, n_updates + n_more * GRID["steps"]
    numbers = {
        "n_runs": n_runs,
        "n_updates": n_updates,
        "memory_bytes": _TOY_BYTES * (1 + n_processes),
        "disk_bytes": 150_000 * len(CASES) + 200_000 * grid,
        "seconds": round(seconds, 1),
    }
    return Estimate(numbers, in_words(numbers))


def estimate_dual(
    *, passage: str | None, layer: int | None, head: int | None, n_topics: int, articles: int | None, seed: int
) -> Estimate:
    """Return what ``topic-probes dual`` would take.

    Raises:
        ValueError: as the command would.
    """
    from ..demo._dual import require_dual_options
    from ..demo._run import split_articles

    require_dual_options(passage, layer, head, n_topics, articles, seed)
    documents = list(sample_wikipedia(limit=articles))
    others, held_out = split_articles(documents)
    topics = _topics(others, n_topics)
    # Heads are chosen on half of the others, and measured on the held-out ones, trained and untrained.
    n_read = len(others[::2]) + 2 * len(held_out)
    numbers = {
        "n_documents": len(documents),
        "n_documents_read_by_models": n_read,
        "memory_bytes": max(topics["memory_bytes"], _DUAL_BYTES),
        "disk_bytes": topics["disk_bytes"] + _PICTURES_BYTES,
        "seconds": round(topics["seconds"] + _DUAL_SECONDS + _DUAL_DOCUMENT_SECONDS * n_read, 1),
    }
    return Estimate(numbers, in_words(numbers))


def estimate_demo(*, models: list[str], n_topics: int, articles: int | None) -> Estimate:
    """Return what ``topic-probes demo`` would take.

    Raises:
        ValueError: for a model that the demo does not know.
        ModuleNotFoundError: if the package that carries a model is not installed.
    """
    from ..demo._run import MODELS, known_models, split_articles
    from ..probes._batches import BATCH_SIZE, TOKENS_PER_BATCH
    from ..probes._rows import N_PERMUTATIONS

    names = known_models(models)
    documents = list(sample_wikipedia(limit=articles))
    others, held_out = split_articles(documents)
    parts = [_topics(others, n_topics)]
    # Which words have topics is not known yet, and does not matter: these are words as well.
    labels = TopicLabels.from_dict({"a" * (topic + 1): topic for topic in range(n_topics)})
    for name in names:
        options = {"words": "whole", "long_documents": "truncate", "batch_size": BATCH_SIZE, **MODELS[name].reading}
        reading = {key: options.pop(key) for key in ("words", "long_documents", "max_length")}
        probed = estimate_probe(
            name,
            as_corpus(held_out),
            labels,
            reading=reading,
            layers=None,
            baseline=True,
            contextual=False,
            n_permutations=N_PERMUTATIONS,
            batch_size=options["batch_size"],
            tokens_per_batch=TOKENS_PER_BATCH,
            dtype="float32",
            device="cpu",
        ).numbers
        probed["seconds"] += _PICTURES_SECONDS
        probed["disk_bytes"] += _PICTURES_BYTES
        parts.append(probed)
    numbers = {
        "n_documents": len(documents),
        "n_documents_read_by_models": 2 * len(held_out) * len(names),
        "n_parameters": sum(part.get("n_parameters", 0) for part in parts),
        "n_heads": sum(part.get("n_heads", 0) for part in parts),
        "memory_bytes": max(part["memory_bytes"] for part in parts),
        "disk_bytes": sum(part["disk_bytes"] for part in parts),
        "seconds": round(sum(part["seconds"] for part in parts), 1),
    }
    return Estimate(numbers, in_words(numbers))


def _topics(documents: list[Any], n_topics: int) -> dict[str, Any]:
    found = estimate_topics(as_corpus(documents), n_topics=n_topics, passes=_PASSES, max_vocabulary=_VOCABULARY)
    return found.numbers
