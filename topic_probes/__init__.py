"""What did training put into attention, and what does attention do with it?

    import topic_probes as tp

    topics = tp.fit_lda(tp.corpora.sample_wikipedia(limit=60), n_topics=30)
    report = tp.probe(model, corpus, topics.label_words())
    report.headline_frame()

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import corpora, dual, report, toy
    from ._errors import CorpusError, DistributedError, PatternError
    from .models import load_model
    from .probes import (
        AttachedProbe,
        ProbeReport,
        attach,
        example_passages,
        probe,
        probe_contextual,
        probe_embedding,
        word_attention,
        word_similarity,
        word_vectors,
    )
    from .statistics import (
        AttentionComparison,
        AttentionResult,
        ConfidenceInterval,
        EmbeddingResult,
        Headline,
        TopicHead,
        topic_heads,
    )
    from .topics import TopicLabels, TopicModel, fit_lda

__version__ = "0.1.0"

_HOME = {
    "CorpusError": "_errors",
    "DistributedError": "_errors",
    "PatternError": "_errors",
    "load_model": "models",
    "AttachedProbe": "probes",
    "ProbeReport": "probes",
    "attach": "probes",
    "example_passages": "probes",
    "probe": "probes",
    "probe_contextual": "probes",
    "probe_embedding": "probes",
    "word_attention": "probes",
    "word_similarity": "probes",
    "word_vectors": "probes",
    "AttentionComparison": "statistics",
    "AttentionResult": "statistics",
    "ConfidenceInterval": "statistics",
    "EmbeddingResult": "statistics",
    "Headline": "statistics",
    "TopicHead": "statistics",
    "topic_heads": "statistics",
    "TopicLabels": "topics",
    "TopicModel": "topics",
    "fit_lda": "topics",
}
_SUBPACKAGES = ("corpora", "dual", "report", "toy")

__all__ = [
    "AttachedProbe",
    "AttentionComparison",
    "AttentionResult",
    "ConfidenceInterval",
    "CorpusError",
    "DistributedError",
    "EmbeddingResult",
    "Headline",
    "PatternError",
    "ProbeReport",
    "TopicHead",
    "TopicLabels",
    "TopicModel",
    "attach",
    "corpora",
    "dual",
    "example_passages",
    "fit_lda",
    "load_model",
    "probe",
    "probe_contextual",
    "probe_embedding",
    "report",
    "topic_heads",
    "toy",
    "word_attention",
    "word_similarity",
    "word_vectors",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
