"""What a run would take, from the configuration of a model and the first documents of a corpus; nothing is run.

Sizes are counted. Times are arithmetic: operations, by the rate at which this machine multiplies matrices, which is
measured for a moment. They are good to a factor of three, enough to tell minutes from days.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .._words import find_words, normalise
from ..corpora import Corpus
from ..topics import TopicLabels
from ..topics._bags import IN_MEMORY
from ._named_models import BUILT_IN
from ._screen import show, show_json
from ._tables import facts_table

if TYPE_CHECKING:
    import torch

_SAMPLED = 50
"""Documents that are looked at."""
_COPIES_OF_BAGS = 3
"""As they are read, with the words that take part, and in the order of the fit."""
_FIT_SECONDS = 1.7e-6
_FIT_SECONDS_PER_TOPIC = 2e-8
"""Seconds that gensim takes for a running word and a pass, and more of them for each topic, as measured on one core."""
_EFFICIENCY = 0.35
"""Share of the rate of large matrix products that a forward pass of ordinary batches reaches, probe included."""
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Estimate:
    """Numbers for programs, and the same in words."""

    numbers: dict[str, Any]
    shown: dict[str, str]


@dataclass(frozen=True)
class _Model:
    n_sites: int
    n_heads: int
    d_model: int
    n_parameters: int
    n_embedding: int
    tokenizer: Any
    context: int


def estimate_topics(documents: Corpus, *, n_topics: int, passes: int, max_vocabulary: int) -> Estimate:
    """Return what fitting topics would take.

    Raises:
        CorpusError: if the corpus cannot be read.
    """
    sample = list(itertools.islice(documents, _SAMPLED))
    words = [[found.word for found in find_words(normalise(document.text or ""))] for document in sample]
    n_words = sum(map(len, words))
    n_documents = _n_documents(documents, sample)
    per_document = n_words / max(1, len(sample))
    # Half the running words are stop words or rare; a bag holds each word of a passage once, in 8 bytes.
    factor = (n_documents or 1000) / max(1, len(sample))
    bag_bytes = int(4 * n_words * factor)
    state_bytes = 4 * 8 * n_topics * max_vocabulary
    seconds = passes * n_words * factor * (_FIT_SECONDS + _FIT_SECONDS_PER_TOPIC * n_topics)
    numbers = {
        "n_documents": n_documents,
        "n_documents_sampled": len(sample),
        "words_per_document": round(per_document, 1),
        "memory_bytes": _COPIES_OF_BAGS * min(bag_bytes, IN_MEMORY) + state_bytes,
        # Bags that are many are kept in a temporary file.
        "disk_bytes": 8 * n_topics * max_vocabulary + (_COPIES_OF_BAGS * bag_bytes if bag_bytes > IN_MEMORY else 0),
        "seconds": round(seconds, 1),
        "for_n_documents": n_documents or 1000,
    }
    return Estimate(numbers, in_words(numbers))


def estimate_probe(
    name: str,
    documents: Corpus,
    labels: TopicLabels,
    *,
    reading: dict[str, Any],
    layers: list[int] | None,
    baseline: bool,
    contextual: bool,
    n_permutations: int,
    batch_size: int,
    tokens_per_batch: int,
    dtype: str,
    device: str | None,
) -> Estimate:
    """Return what a probe would take.

    Raises:
        ValueError: if the model's configuration cannot be read.
        CorpusError: if the corpus cannot be read.
    """
    from ..probes._corpus_for_model import DEFAULT_MAX_LENGTH
    from ..probes._rows import keeps_topics
    from ..statistics._sums import AttentionSums
    from ..tokens import DocumentReader

    model = _described(name)
    max_length = reading["max_length"] or min(model.context, DEFAULT_MAX_LENGTH)
    reader = DocumentReader(
        model.tokenizer,
        words=reading["words"],
        of_words=True,
        max_length=max_length,
        long_documents=reading["long_documents"],
        n_vocabulary=None,
    )
    sample = list(itertools.islice(documents, _SAMPLED))
    lengths = [len(window) for document in sample for window in reader.windows(document)]
    n_documents = _n_documents(documents, sample)
    factor = (n_documents or 1000) / max(1, len(sample))
    n_models = 2 if baseline else 1
    n_sites = len(layers) if layers is not None else model.n_sites
    n_topics = labels.n_topics if keeps_topics(None, SimpleNamespace(cfg=model), n_sites, labels) else 0
    one = AttentionSums.empty([0], model.n_heads, n_topics=n_topics, n_permutations=n_permutations)
    sums_bytes = sum(array.nbytes for array in one.to_arrays().values()) * n_sites * n_models
    longest = max(lengths, default=0)
    rows = max(1, min(batch_size, tokens_per_batch // max(1, longest)))
    # Scores, pattern, and the copies of it in which pairs are weighed.
    pattern_bytes = 4 * rows * model.n_heads * longest**2 * 4
    weights_bytes = _BYTES[dtype] * model.n_parameters * n_models
    operations = sum(
        length * (2 * (model.n_parameters - model.n_embedding) + 4 * model.n_sites * model.d_model * length)
        for length in lengths
    )
    numbers = {
        "n_documents": n_documents,
        "n_documents_sampled": len(sample),
        "tokens_per_document": round(sum(lengths) / max(1, len(sample)), 1),
        "n_parameters": model.n_parameters,
        "n_heads": n_sites * model.n_heads,
        "memory_bytes": weights_bytes + pattern_bytes + sums_bytes,
        "disk_bytes": sums_bytes,
        "seconds": round(
            operations * factor * n_models * (2 if contextual else 1) / (_EFFICIENCY * _rate(device, dtype)), 1
        ),
        "for_n_documents": n_documents or 1000,
    }
    return Estimate(numbers, in_words(numbers))


def _described(name: str) -> _Model:
    """Return what the configuration of a model says; its weights are neither read nor made."""
    import torch
    import transformers

    from .. import demo
    from ..models import _loading

    if name in BUILT_IN:  # small, and on this disk
        opened, tokenizer = getattr(demo, BUILT_IN[name])()
        cfg = opened.cfg
        n_parameters = sum(parameter.numel() for parameter in opened.parameters())
        return _Model(
            cfg.n_layers, cfg.n_heads, cfg.d_model, n_parameters, cfg.d_vocab * cfg.d_model, tokenizer, cfg.n_ctx
        )
    try:
        place = _loading._place(name)
        config = _loading._read(place, "AutoConfig")
        tokenizer = _loading._tokenizer(place)
    except OSError as error:
        raise ValueError(str(error)) from error
    with torch.device("meta"):
        bare = transformers.AutoModel.from_config(config, trust_remote_code=False)
    n_embedding = bare.get_input_embeddings().weight.numel()
    n_parameters = sum(parameter.numel() for parameter in bare.parameters())
    if getattr(config, "is_encoder_decoder", False):
        n_sites = config.encoder_layers + 2 * config.decoder_layers
    else:
        n_sites = config.num_hidden_layers
    context = getattr(config, "max_position_embeddings", None) or 512
    context = min(context, getattr(tokenizer, "model_max_length", context))
    return _Model(
        n_sites, config.num_attention_heads, config.hidden_size, n_parameters, n_embedding, tokenizer, context
    )


def _rate(device: str | None, dtype: str) -> float:
    """Return the floating-point operations a second of matrix products here."""
    import torch

    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    matrix = torch.ones(1024, 1024, device=place, dtype=_measurable(place, dtype))
    _ = matrix @ matrix
    best = float("inf")
    for _attempt in range(3):
        started = time.perf_counter()
        float((matrix @ matrix)[0, 0])
        best = min(best, time.perf_counter() - started)
    return 2 * 1024**3 / max(best, 1e-6)


def _measurable(place: torch.device, dtype: str) -> torch.dtype:
    """Half precision is slow on a CPU, and a short measurement of it says little: float32 stands for it there."""
    import torch

    return getattr(torch, dtype) if place.type == "cuda" else torch.float32


def _n_documents(documents: Corpus, sample: list[Any]) -> int | None:
    """Return how many documents there are to expect; None if nobody knows without reading all."""
    return len(sample) if len(sample) < _SAMPLED else documents.expected


def show_estimate(estimate: Estimate, as_json: bool) -> None:
    """Print an estimate to stdout, as a table or as one JSON object."""
    if as_json:
        show_json(estimate.numbers)
    else:
        show("Nothing was run. Estimates, good to a factor of three:", facts_table(estimate.shown))


def in_words(numbers: dict[str, Any]) -> dict[str, str]:
    """Return the numbers of an estimate as a reader wants them: name -> value with its unit."""
    shown = {}
    names = {
        "n_documents": "documents",
        "n_documents_read_by_models": "documents that models read",
        "n_runs": "trainings",
        "n_updates": "updates in all",
        "words_per_document": "words in a document",
        "tokens_per_document": "tokens in a document",
        "n_parameters": "parameters",
        "n_heads": "heads to probe",
    }
    for key, name in names.items():
        if key in numbers:
            value = numbers[key]
            shown[name] = "not known without reading all" if value is None else f"{value:,}"
    known = "" if numbers.get("n_documents", 0) is not None else f" for {numbers['for_n_documents']:,} documents"
    shown[f"time{known}"] = _duration(numbers["seconds"])
    shown["memory, beside the programs"] = _size(numbers["memory_bytes"])
    shown["results on disk"] = _size(numbers["disk_bytes"])
    return shown


def _size(n_bytes: Any) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} TB"


def _duration(seconds: Any) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"
