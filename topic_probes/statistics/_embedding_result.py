"""The result of an embedding probe: similarities of word vectors, same topic against cross topic.

P1 finds that embeddings of same-topic words have the larger dot products after training. Any two
embeddings look similar (they share a large common direction), so the cosine after removing the
mean vector stands beside the plain one, and the untrained twin beside both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._folders import read_folder, reading, write_folder
from .._validation import require_one_of
from ._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES, VectorPairs

if TYPE_CHECKING:
    import pandas as pd

_ARRAYS = ("mean", "std", "n_pairs", "n_without_direction")


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """Mean and spread of every measure, over all pairs of labelled words."""

    pairs: VectorPairs
    """The numbers: mean, standard deviation and count by measure and pair class."""
    topic_similarity: Float[np.ndarray, "topic topic"]
    """[topic, topic] mean centred cosine between the words of two topics; NaN without a pair."""
    matrix: str
    """Which matrix was measured, and whether its weights are raw or processed."""
    n_labelled: int
    """Labelled words, of which only those that are one token have a vector."""
    options: Mapping[str, Any]
    """The labels' fingerprint and whatever else says how it was measured."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per measure and pair class: ``measure pair_class mean std n_pairs``.

        ``std`` is over the pairs (population); pairs are unordered; NaN where a class is empty.
        """
        import pandas as pd

        shape = (len(MEASURES), len(VECTOR_PAIR_CLASSES))
        return pd.DataFrame(
            {
                "measure": np.repeat(MEASURES, shape[1]),
                "pair_class": np.tile(VECTOR_PAIR_CLASSES, shape[0]),
                "mean": self.pairs.mean.ravel(),
                "std": self.pairs.std.ravel(),
                "n_pairs": self.pairs.n_pairs.ravel(),
            }
        )

    def difference(self, measure: str = "centred_cosine") -> float:
        """Return the mean of a measure over same-topic pairs minus that over cross-topic pairs."""
        require_one_of("measure", measure, MEASURES)
        same, cross = self.pairs.mean[MEASURES.index(measure)]
        return float(same - cross)

    def save(self, folder: str | PathLike) -> None:
        """Write the result to a folder (JSON and safetensors), whole or not at all."""
        description = {
            "n_words": self.pairs.n_words,
            "matrix": self.matrix,
            "n_labelled": self.n_labelled,
            "options": dict(self.options),
        }
        arrays = {name: getattr(self.pairs, name) for name in _ARRAYS}
        arrays["topic_similarity"] = self.topic_similarity
        write_folder(folder, kind="embedding result", description=description, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike) -> EmbeddingResult:
        """Return a result that :meth:`save` wrote."""
        description, arrays = read_folder(folder, kind="embedding result")
        with reading(folder, "embedding result"):
            return cls._from_parts(description, arrays)

    @classmethod
    def _from_parts(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> EmbeddingResult:
        return cls(
            pairs=VectorPairs(n_words=description["n_words"], **{name: arrays[name] for name in _ARRAYS}),
            topic_similarity=arrays["topic_similarity"],
            matrix=description["matrix"],
            n_labelled=description["n_labelled"],
            options=description["options"],
        )

    def __repr__(self) -> str:
        same, cross = self.pairs.mean[MEASURES.index("centred_cosine")]
        return (
            f"EmbeddingResult({self.matrix}, {self.pairs.n_words} of {self.n_labelled} labelled words, "
            f"centred cosine {same:.4f} same-topic and {cross:.4f} cross-topic)"
        )
