"""The result of an embedding probe: similarities of word vectors, same topic against cross topic.

Li et al. (2023) find that embeddings of same-topic words have the larger dot products after training. Any two
embeddings look similar (they share a large common direction), so the cosine after removing the
mean vector stands beside the plain one, and the untrained twin beside both.

The same of words in context has an axis more, the layer: see :mod:`topic_probes.statistics._contextual`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._folders import read_folder, reading, write_folder
from .._html import html_table
from .._saved import Stored
from .._validation import require_level, require_one_of
from ._contextual import ARRAYS as LAYER_ARRAYS
from ._contextual import ESTIMATORS, LayerPairs
from ._frequency_pairs import FrequencyPairs
from ._intervals import DEFAULT_METHOD, METHODS
from ._strata import N_FREQUENCY_STRATA
from ._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES, VectorPairs

if TYPE_CHECKING:
    import pandas as pd

_ARRAYS = ("mean", "std", "n_pairs", "n_without_direction")
_MATCHED_ARRAYS = ("sums", "counts")
_MATCHED = "frequency_matched"

_FACTS = {
    "matrix": "a text",
    "n_labelled": "a count",
    "options": "an object",
    "n_words": "a count?",
    "layers": "layers?",
    "tally": "counts by name?",
    "seed": "a count?",
}
"""What a saved result must say of itself."""


def _stored(description: Mapping[str, Any]) -> dict[str, Stored]:
    """Return what the arrays of a saved result must be."""
    by_class = f"{len(MEASURES)} {len(VECTOR_PAIR_CLASSES)}"
    if description.get("layers") is not None:
        n = len(description["layers"])
        return {
            "counts": Stored(f"{n} group {by_class}", whole=True),
            "sums": Stored(f"{n} group {by_class}"),
            "squares": Stored(f"{n} group {by_class}"),
            "row_weights": Stored(f"{n} group {len(MEASURES)}"),
            "row_sums": Stored(f"{n} group {by_class}"),
            "n_rows": Stored("group", whole=True),
            "n_words": Stored("group", whole=True),
            "n_not_finite": Stored(f"{n}", whole=True),
        }
    if description.get("n_words") is None:
        raise ValueError("the description says neither 'layers' nor 'n_words'")
    by_stratum = f"{len(MEASURES)} {N_FREQUENCY_STRATA} {len(VECTOR_PAIR_CLASSES)}"
    return {
        "mean": Stored(by_class, finite=False),
        "std": Stored(by_class, finite=False),
        "n_pairs": Stored(by_class, whole=True),
        "n_without_direction": Stored(f"{len(MEASURES)}", whole=True),
        "topic_similarity": Stored("topic topic", finite=False),
        "matched_sums": Stored(by_stratum, optional=True),
        "matched_counts": Stored(by_stratum, whole=True, optional=True),
    }


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """Mean and spread of every measure, over all pairs of labelled words: of a matrix, or layer by layer."""

    pairs: VectorPairs | LayerPairs
    """The numbers: ``mean``, ``std`` and ``n_pairs`` by measure and pair class, of words in context first by layer."""
    topic_similarity: Float[np.ndarray, "topic topic"] | None
    """[topic, topic] mean centred cosine between the words of two topics; NaN without a pair; None with layers."""
    matrix: str
    """Which vectors were measured, and whether the weights they come from are raw or processed."""
    n_labelled: int
    """Labelled words, of which only those that are one token have a vector."""
    options: Mapping[str, Any]
    """The labels' fingerprint and whatever else says how it was measured."""
    tally: Mapping[str, int] | None = None
    """What became of the documents; None where there are no layers, and no documents."""
    seed: int = 0
    """Seed of the intervals' resamples."""
    frequency_pairs: FrequencyPairs | None = None
    """Sums over pairs of like frequency; None with layers, or where no ``word_counts`` were given."""

    @property
    def layers(self) -> tuple[int, ...] | None:
        """The layers measured, -1 for the stream before the first; None for a matrix, which has none."""
        return self.pairs.layers if isinstance(self.pairs, LayerPairs) else None

    def to_frame(self, estimator: str = "pooled", *, level: float = 0.95, method: str = DEFAULT_METHOD) -> pd.DataFrame:
        """Return one row per measure and pair class: ``measure pair_class mean std n_pairs``.

        ``std`` is over the pairs (population); pairs are unordered; NaN where a class is empty. A result with
        layers has one row for each of them too: ``layer`` comes first, and ``low`` and ``high`` last, the ends
        of the mean's interval over groups of documents; NaN with too few documents.

        Args:
            estimator: ``"pooled"``: the mean over all pairs. ``"within_document"``, with layers only: both classes
                averaged over rows with the same weights, so that what rows differ in is in both alike; ``std`` and
                ``n_pairs`` stay those of all pairs. ``"frequency_matched"``, of a matrix probed with
                ``word_counts=``: both classes averaged with the same weights over strata, the frequency classes of
                the two words; ``n_pairs`` are the pairs of strata that hold both classes, and ``std`` is NaN.
            level: of the intervals.
            method: of the intervals, ``"t"``, ``"percentile"`` or ``"bca"``, as for
                :meth:`topic_probes.AttentionResult.confidence_interval`.

        Raises:
            ValueError: for another estimator, or one that needs documents, or counts of words, where there are none.
        """
        import pandas as pd

        require_level(level)
        require_one_of("method", method, METHODS)
        require_one_of("estimator", estimator, (*ESTIMATORS, _MATCHED))
        means = self._means(estimator)
        matched = self.frequency_pairs if estimator == _MATCHED else None
        n_pairs = self.pairs.n_pairs if matched is None else matched.n_pairs
        shape = (len(MEASURES), len(VECTOR_PAIR_CLASSES))
        n_layers = 1 if self.layers is None else len(self.layers)
        frame = pd.DataFrame(
            {
                "measure": np.tile(np.repeat(MEASURES, shape[1]), n_layers),
                "pair_class": np.tile(VECTOR_PAIR_CLASSES, shape[0] * n_layers),
                "mean": means.ravel(),
                "std": self.pairs.std.ravel() if matched is None else np.nan,
                "n_pairs": n_pairs.ravel(),
            }
        )
        if isinstance(self.pairs, LayerPairs):
            frame.insert(0, "layer", np.repeat(self.pairs.layers, shape[0] * shape[1]))
            of_means, _ = self.pairs.intervals(estimator, level, self.seed, method)
            frame["low"], frame["high"] = np.ravel(of_means.low), np.ravel(of_means.high)
        return frame

    def difference(self, measure: str = "centred_cosine", estimator: str = "pooled") -> Any:
        """Return the mean of a measure over same-topic pairs minus that over cross-topic pairs.

        A float; of a result with layers a float64 array [layer]. Estimators and errors as of :meth:`to_frame`.
        """
        require_one_of("measure", measure, MEASURES)
        mean = self._means(estimator)[..., MEASURES.index(measure), :]
        difference = mean[..., 0] - mean[..., 1]
        return float(difference) if difference.ndim == 0 else difference

    def difference_frame(self, *, level: float = 0.95, method: str = DEFAULT_METHOD) -> pd.DataFrame:
        """Return how far apart the classes are at each layer, by both estimators, with intervals over documents.

        One row per layer and measure: ``layer measure difference difference_low difference_high within_document
        within_document_low within_document_high n_rows``; ``n_rows`` are documents, or windows of long ones.
        Options as of :meth:`to_frame`.

        Raises:
            ValueError: for a result without layers.
        """
        import pandas as pd

        require_level(level)
        require_one_of("method", method, METHODS)
        if not isinstance(self.pairs, LayerPairs):
            raise ValueError(
                "difference_frame needs a result with layers, and this one is of a matrix: call difference(), "
                "or probe_contextual for words in context"
            )
        columns: dict[str, Any] = {
            "layer": np.repeat(self.pairs.layers, len(MEASURES)),
            "measure": np.tile(MEASURES, len(self.pairs.layers)),
        }
        for name, estimator in (("difference", "pooled"), ("within_document", "within_document")):
            means = self.pairs.means(estimator)
            _, of_difference = self.pairs.intervals(estimator, level, self.seed, method)
            columns[name] = (means[..., 0] - means[..., 1]).ravel()
            columns[f"{name}_low"], columns[f"{name}_high"] = np.ravel(of_difference.low), np.ravel(of_difference.high)
        return pd.DataFrame({**columns, "n_rows": int(self.pairs.n_rows.sum())})

    def _means(self, estimator: str) -> np.ndarray:
        if isinstance(self.pairs, LayerPairs):
            if estimator == _MATCHED:
                raise ValueError(
                    f"estimator={estimator!r} needs a result of a matrix, and this one is of words in context: pass "
                    '"pooled" or "within_document", or call probe_embedding'
                )
            return self.pairs.means(estimator)
        if estimator == _MATCHED:
            if self.frequency_pairs is None:
                raise ValueError(
                    f"estimator={estimator!r} needs counts of words, and this result has none: probe with "
                    "word_counts=topic_probes.corpora.word_counts(corpus)"
                )
            return self.frequency_pairs.mean
        if estimator != "pooled":
            raise ValueError(
                f"estimator={estimator!r} needs documents, and this result is of a matrix: "
                'pass "pooled", or probe_contextual for words in context'
            )
        return self.pairs.mean

    def merge(self, other: EmbeddingResult) -> EmbeddingResult:
        """Return the result of both corpora, as if they had been probed at once.

        An embedding matrix does not depend on a corpus: two results of the same one are that one.

        Raises:
            ValueError: if the two were measured in different ways (other layers, labels, weights, options).
        """
        if not isinstance(other, EmbeddingResult):
            raise TypeError(f"a result can be merged with an EmbeddingResult, got {type(other).__name__}")
        one_way, other_way = self._way(), other._way()
        for name in sorted({*one_way, *other_way}):
            if one_way.get(name) != other_way.get(name):
                raise ValueError(
                    f"only results measured alike can be merged: {name} is {one_way.get(name)!r} in one "
                    f"and {other_way.get(name)!r} in the other"
                )
        if not (isinstance(self.pairs, LayerPairs) and isinstance(other.pairs, LayerPairs)):
            if not np.array_equal(self.pairs.mean, other.pairs.mean, equal_nan=True):  # of one way, so matched, too
                raise ValueError(
                    "only results of the same matrix can be merged, and these two have other means: "
                    "an embedding is not pooled over models"
                )
            return self
        corpora = [result.options["corpus"] for result in (self, other) if "corpus" in result.options]
        one, two = self.tally or {}, other.tally or {}
        return replace(
            self,
            pairs=self.pairs.merge(other.pairs),
            options={**self.options, **({"corpus": " + ".join(dict.fromkeys(corpora))} if corpora else {})},
            tally={name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}},
        )

    def _way(self) -> dict[str, Any]:
        """Return everything that two results must have in common to be merged."""
        options = {name: value for name, value in self.options.items() if name != "corpus"}
        return {**options, "layers": self.layers, "matrix": self.matrix, "n_labelled": self.n_labelled}

    def save(self, folder: str | PathLike) -> None:
        """Write the result to a folder (JSON and safetensors), whole or not at all."""
        description: dict[str, Any] = {
            "matrix": self.matrix,
            "n_labelled": self.n_labelled,
            "options": dict(self.options),
        }
        if isinstance(self.pairs, LayerPairs):
            description |= {"layers": list(self.pairs.layers), "tally": dict(self.tally or {}), "seed": self.seed}
            arrays = {name: getattr(self.pairs, name) for name in LAYER_ARRAYS}
        else:
            description["n_words"] = self.pairs.n_words
            arrays = {name: getattr(self.pairs, name) for name in _ARRAYS}
        if self.frequency_pairs is not None:
            arrays |= {f"matched_{name}": getattr(self.frequency_pairs, name) for name in _MATCHED_ARRAYS}
        if self.topic_similarity is not None:
            arrays["topic_similarity"] = self.topic_similarity
        write_folder(folder, kind="embedding result", description=description, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike) -> EmbeddingResult:
        """Return a result that :meth:`save` wrote."""
        description, arrays = read_folder(folder, kind="embedding result", facts=_FACTS, arrays=_stored)
        with reading(folder, "embedding result"):
            return cls._from_parts(description, arrays)

    @classmethod
    def _from_parts(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> EmbeddingResult:
        if description.get("layers") is not None:
            pairs = LayerPairs(tuple(description["layers"]), **{name: arrays[name] for name in LAYER_ARRAYS})
        else:
            pairs = VectorPairs(n_words=description["n_words"], **{name: arrays[name] for name in _ARRAYS})
        matched = None
        if any(name.startswith("matched_") for name in arrays):
            matched = FrequencyPairs(**{name: arrays[f"matched_{name}"] for name in _MATCHED_ARRAYS})
        return cls(
            pairs=pairs,
            topic_similarity=None if description.get("layers") is not None else arrays["topic_similarity"],
            matrix=description["matrix"],
            n_labelled=description["n_labelled"],
            options=description["options"],
            tally=description.get("tally"),
            seed=description.get("seed") or 0,
            frequency_pairs=matched,
        )

    def _repr_html_(self) -> str:
        """Return the measures, or the differences at each layer, for a notebook."""
        frame = self.to_frame() if self.layers is None else self.difference_frame()
        return html_table(frame, repr(self))

    def __repr__(self) -> str:
        if isinstance(self.pairs, LayerPairs):
            differences = self.difference("centred_cosine", "within_document")
            known = differences[np.isfinite(differences)]
            reach = f"{known.min():.4f} to {known.max():.4f}" if known.size else "none"
            return (
                f"EmbeddingResult({self.matrix}, {len(self.pairs.layers)} layers, {int(self.pairs.n_rows.sum())} rows, "
                f"centred cosine of same-topic minus cross-topic words within documents: {reach})"
            )
        same, cross = self.pairs.mean[MEASURES.index("centred_cosine")]
        return (
            f"EmbeddingResult({self.matrix}, {self.pairs.n_words} of {self.n_labelled} labelled words, "
            f"centred cosine {same:.4f} same-topic and {cross:.4f} cross-topic)"
        )
