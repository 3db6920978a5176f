"""The libraries that take long to import, and so wait in this package until they are used."""

from __future__ import annotations

HEAVY = frozenset(
    {
        "datasets",
        "gensim",
        "matplotlib",
        "pandas",
        "scipy",
        "seaborn",
        "sklearn",
        "torch",
        "transformer_lens",
        "transformers",
    }
)
