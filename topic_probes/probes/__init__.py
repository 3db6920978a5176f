"""Probes: hooks on a model, patterns reduced to sums as they come, embeddings over all pairs."""

from ._attach import AttachedProbe, attach
from ._embedding import probe_embedding, word_vectors
from ._matrices import word_attention, word_similarity
from ._probe import probe
from ._report import ProbeReport

__all__ = [
    "AttachedProbe",
    "ProbeReport",
    "attach",
    "probe",
    "probe_embedding",
    "word_attention",
    "word_similarity",
    "word_vectors",
]
