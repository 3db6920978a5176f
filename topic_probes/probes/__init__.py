"""Probes: hooks on a model, patterns reduced to sums as they come, embeddings over all pairs."""

from ._attach import AttachedProbe, attach
from ._contextual import probe_contextual
from ._embedding import probe_embedding, word_vectors
from ._examples import example_passages
from ._matrices import word_attention, word_similarity
from ._probe import probe
from ._report import ProbeReport

__all__ = [
    "AttachedProbe",
    "ProbeReport",
    "attach",
    "example_passages",
    "probe",
    "probe_contextual",
    "probe_embedding",
    "word_attention",
    "word_similarity",
    "word_vectors",
]
