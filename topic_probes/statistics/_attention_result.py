"""The result of an attention probe: same-topic against cross-topic attention, head by head.

Every mean is in units of uniform attention = 1 (docs/science.md, *Debiased attention*): attention from a query to a
key, times the number of keys that the query may see. A head that looks everywhere alike is
exactly 1 in every class, whatever the lengths of documents and whatever the mask. ``ratio`` is
``same_topic / cross_topic`` (the table of Li et al. 2023), ``difference`` is ``same_topic - cross_topic``.

What the pooled estimate does *not* show: documents with one topic speak mostly for ``same_topic``
and mixed ones for ``cross_topic``, and same-topic words stand nearer to each other. The other
estimators (:mod:`topic_probes.statistics._strata`) compare within documents, at equal distance, or at
equal frequency. All come from one pass over the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._axes import PAIR_CLASSES, Site
from .._folders import read_folder, reading, write_folder
from .._html import html_table
from .._validation import require_count, require_level, require_one_of
from ._by_group import ByGroup, divide, head_intervals, nan_mean
from ._headline import HEADLINE_COLUMNS, Headline
from ._intervals import DEFAULT_METHOD, METHODS, N_RESAMPLES, ConfidenceInterval
from ._p_values import p_values, q_values
from ._strata import ESTIMATORS
from ._sums import COLUMNS, AttentionSums, stored_sums, topical_columns
from ._tables import distance_frame, layer_frame, topic_frame, topic_matrix

if TYPE_CHECKING:
    import pandas as pd

    from ._comparison import AttentionComparison

MEASURES = ("ratio", "difference")
_FACTS = {
    "layers": "texts",
    "tally": "counts by name",
    "visibility": "texts by name",
    "unavailable_layers": "texts",
    "options": "an object",
    "seed": "a count",
}
"""What a saved result must say of itself."""


@dataclass(frozen=True, eq=False)
class AttentionResult:
    """Same- and cross-topic attention of every head, with its counts."""

    totals: AttentionSums
    """Sums by layer, head, group of documents and pair class: everything else is computed from them."""
    tally: Mapping[str, int]
    """What became of the documents: read, windowed, truncated, skipped, empty, their tokens and words."""
    visibility: Mapping[Site | int, str]
    """Layer -> what its queries may see, read off the patterns: bidirectional, causal, a window. In a model of several
    stacks the keys are ``Site(stack, layer)``."""
    unavailable_layers: tuple[Site | int, ...]
    """Layers of the model without an attention pattern (hybrids); ``Site(stack, layer)`` where there are stacks."""
    options: Mapping[str, Any]
    """How it was measured: words, max_length, long_documents, the labels' fingerprint, the model, versions."""
    seed: int
    """Seed of the permutations and of the intervals' resamples."""

    @property
    def n_documents(self) -> int:
        """Documents that were read."""
        return int(self.tally["n_documents"])

    @property
    def n_permutations(self) -> int:
        """Permutations of the labels behind the p-values."""
        return self.totals.null.values.shape[2]

    @property
    def estimators(self) -> tuple[str, ...]:
        """Estimators that this run allows: by frequency only if ``word_counts`` were given."""
        return ESTIMATORS if self.options.get("word_counts") else ESTIMATORS[:-1]

    @property
    def n_topics(self) -> int:
        """Topics of the labels; 0 where attention by topic was not kept."""
        return self.totals.topics.values.shape[2]

    @property
    def pair_counts(self) -> dict[str, int]:
        """Pair class -> exact number of ordered pairs, in the layer that sees most: they differ by window and stack."""
        counts = self.totals.counts.sum(axis=1)
        widest = counts[np.argmax(counts[:, : len(PAIR_CLASSES)].sum(axis=1))]
        return {name: round(widest[COLUMNS.index(name)]) for name in PAIR_CLASSES}

    def means(
        self, column: str, *, estimator: str = "pooled", renormalise: bool = False
    ) -> Float[np.ndarray, "site head"]:
        """Return the mean of a pair class, or of ``special``, for every layer and head; NaN where it is empty.

        Rows are those of ``totals.sites``: layers, or the layers of one stack after those of another.

        Args:
            column: a pair class, or ``"special"``.
            estimator: how same- and cross-topic pairs are weighted; it makes no difference to other columns.
            renormalise: see :meth:`to_frame`.
        """
        require_one_of("column", column, (*PAIR_CLASSES, "special"))
        require_one_of("estimator", estimator, ESTIMATORS)
        index = COLUMNS.index(column)
        if column in ("same_topic", "cross_topic"):
            index = topical_columns(estimator)[column == "cross_topic"]
        counts = self.totals.counts[:, :, index].sum(axis=1)
        sums = self.totals.renormalised if renormalise and column != "special" else self.totals.sums
        with np.errstate(invalid="ignore"):
            return sums[..., index].sum(axis=2) / np.where(counts == 0, np.nan, counts)[:, None]

    def confidence_interval(
        self,
        level: float = 0.95,
        *,
        estimator: str = "pooled",
        measure: str = "ratio",
        method: str = DEFAULT_METHOD,
        renormalise: bool = False,
        n_resamples: int = N_RESAMPLES,
    ) -> ConfidenceInterval:
        """Return both ends [site, head] of the interval of each head over groups of documents.

        Args:
            level: probability with which such intervals cover the truth.
            estimator: ``"pooled"``, ``"within_document"``, ``"distance_matched"``, ``"frequency_matched"``.
            measure: ``"ratio"`` or ``"difference"``.
            method: ``"t"`` (jackknife and Student's t), ``"percentile"`` or ``"bca"`` (bootstrap).
            renormalise: see :meth:`to_frame`.
            n_resamples: draws of the bootstrap.

        Returns:
            The ends; NaN where fewer than 8 groups have pairs of one of the two classes. They say nothing of another
            draw of an untrained twin's weights.
        """
        self._require(estimator, level, method, n_resamples)
        require_one_of("measure", measure, MEASURES)
        by_group = ByGroup.of(self.totals, estimator, renormalise=renormalise)
        return head_intervals(by_group, measure, level, method, n_resamples, self.seed)

    def p_values(self, estimator: str = "pooled") -> Float[np.ndarray, "site head"]:
        """Return the p-value of every head, from permuted labels; NaN if there were none."""
        self._require(estimator)
        return p_values(self.totals, estimator)

    def to_frame(
        self,
        estimator: str = "pooled",
        *,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
        renormalise: bool = False,
    ) -> pd.DataFrame:
        """Return one row per layer and head.

        Columns: ``layer head n_documents n_same_topic n_cross_topic same_topic cross_topic same_token
        no_topic difference difference_low difference_high ratio ratio_low ratio_high p_value q_value
        sink_mass``; means in units of uniform attention = 1, NaN where a class is empty; ``sink_mass`` is the
        mean share of a query's attention that goes to special tokens; numbers of pairs are those of all pairs,
        whatever the estimator.

        In an encoder-decoder there is one row per stack, layer and head, and a first column ``stack``:
        ``"encoder"``, ``"decoder"`` (attention to itself) or ``"cross"`` (of the decoder's queries to the
        encoder's keys). A model of one stack has no such column.

        Args:
            estimator: ``"pooled"``, ``"within_document"``, ``"distance_matched"``, ``"frequency_matched"``.
            level: of the intervals.
            method: of the intervals, see :meth:`confidence_interval`.
            renormalise: True for attention among words alone: each query's attention is divided by what it gives to
                tokens of words, and uniform = 1 is uniform among these. p-values are of plain attention, and NaN here.
        """
        import pandas as pd

        self._require(estimator, level, method)
        n_sites, n_heads = self.totals.sums.shape[:2]
        means = {
            name: self.means(name, estimator=estimator, renormalise=renormalise).ravel()
            for name in ("same_topic", "cross_topic", "same_token", "no_topic")
        }
        pairs = self.totals.counts.sum(axis=1)
        ends = {
            measure: self.confidence_interval(
                level, estimator=estimator, measure=measure, method=method, renormalise=renormalise
            )
            for measure in MEASURES
        }
        p = np.full((n_sites, n_heads), np.nan) if renormalise else self.p_values(estimator)

        def by_site(values: Any) -> np.ndarray:
            return np.repeat(np.asarray(values), n_heads)

        def n_pairs(name: str) -> np.ndarray:
            return by_site(np.rint(pairs[:, COLUMNS.index(name)]).astype(np.int64))

        stacks = [site.stack for site in self.totals.sites]
        return pd.DataFrame(
            {
                **({"stack": by_site(stacks).astype(object)} if any(stacks) else {}),
                "layer": by_site(self.totals.layers),
                "head": np.tile(np.arange(n_heads), n_sites),
                "n_documents": self.n_documents,
                "n_same_topic": n_pairs("same_topic"),
                "n_cross_topic": n_pairs("cross_topic"),
                **means,
                "difference": means["same_topic"] - means["cross_topic"],
                "difference_low": np.ravel(ends["difference"].low),
                "difference_high": np.ravel(ends["difference"].high),
                "ratio": divide(means["same_topic"], means["cross_topic"]),
                "ratio_low": np.ravel(ends["ratio"].low),
                "ratio_high": np.ravel(ends["ratio"].high),
                "p_value": p.ravel(),
                "q_value": q_values(p).ravel(),
                "sink_mass": self.means("special").ravel(),
            }
        )

    def headline(
        self,
        estimator: str = "pooled",
        *,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
        renormalise: bool = False,
        n_resamples: int = N_RESAMPLES,
    ) -> Headline:
        """Return the headline: means over layers (of all stacks) and heads, their ratio with its interval."""
        self._require(estimator, level, method, n_resamples)
        return Headline.of(
            ByGroup.of(self.totals, estimator, renormalise=renormalise),
            estimator=estimator,
            n_documents=self.n_documents,
            pair_counts=self.pair_counts,
            level=level,
            method=method,
            n_resamples=n_resamples,
            seed=self.seed,
        )

    def layer_frame(
        self, estimator: str = "pooled", *, level: float = 0.95, method: str = DEFAULT_METHOD
    ) -> pd.DataFrame:
        """Return one row per layer, the mean over its heads: the columns of :meth:`headline` that are numbers of it."""
        self._require(estimator, level, method)
        return layer_frame(self.totals, estimator, level, method, self.seed)

    def distance_frame(self) -> pd.DataFrame:
        """Return attention against distance: one row per layer, head, pair class and bucket of distance.

        Columns: ``layer head pair_class distance distance_high n_pairs mean``: ``distance`` is the smallest in
        tokens between the words of the bucket, ``distance_high`` the largest; every distance up to 32 has its own.
        Buckets without pairs are left out. In an encoder-decoder ``stack`` comes first.
        """
        return distance_frame(self.totals)

    def topic_matrix(self, layer: int, head: int, *, stack: str = "") -> pd.DataFrame:
        """Return mean debiased attention of a head by topic of the query (rows) and of the key (columns).

        Pairs of the same word are left out. A word with several topics counts in each. NaN where no pair is.

        Raises:
            ValueError: if there is no such head, or attention by topic was not kept.
        """
        return topic_matrix(self.totals, layer, head, stack)

    def topic_frame(self) -> pd.DataFrame:
        """Return one row per layer, head and topic: which head serves which topic.

        Columns: ``layer head topic same_topic other_topics dominance n_pairs``: mean attention from words of
        the topic to words of the same topic, to words of other topics, and their ratio.
        """
        return topic_frame(self.totals)

    def __sub__(self, other: AttentionResult) -> AttentionComparison:
        """Return the comparison of two results on the same corpus, document group by document group."""
        from ._comparison import compare

        return compare(self, other)

    def merge(self, other: AttentionResult) -> AttentionResult:
        """Return the result of both corpora, exactly as if they had been probed at once.

        Raises:
            ValueError: if the two were measured in different ways (other layers, heads, labels, options).
        """
        if not isinstance(other, AttentionResult):
            raise TypeError(f"a result can be merged with an AttentionResult, got {type(other).__name__}")
        for name in sorted({*self.options, *other.options} - {"corpus"}):
            if self.options.get(name) != other.options.get(name):
                raise ValueError(
                    f"only results measured alike can be merged: {name} is {self.options.get(name)!r} in one "
                    f"and {other.options.get(name)!r} in the other"
                )
        if self.n_permutations and self.seed != other.seed:
            raise ValueError(
                f"only results with the same permutations can be merged: seed is {self.seed} in one and {other.seed} "
                "in the other"
            )
        corpora = [result.options["corpus"] for result in (self, other) if "corpus" in result.options]
        return AttentionResult(
            totals=self.totals.merge(other.totals),
            tally={name: self.tally[name] + other.tally[name] for name in self.tally},
            visibility=_merge_visibility(self.visibility, other.visibility),
            unavailable_layers=self.unavailable_layers,
            options={**self.options, **({"corpus": " + ".join(dict.fromkeys(corpora))} if corpora else {})},
            seed=self.seed,
        )

    def save(self, folder: str | PathLike) -> None:
        """Write the result to a folder (JSON and safetensors), whole or not at all."""
        description = {
            "layers": [site.name for site in self.totals.sites],
            "tally": dict(self.tally),
            "visibility": {Site.of(layer).name: text for layer, text in self.visibility.items()},
            "unavailable_layers": [Site.of(layer).name for layer in self.unavailable_layers],
            "options": dict(self.options),
            "seed": self.seed,
        }
        write_folder(folder, kind="attention result", description=description, arrays=self.totals.to_arrays())

    @classmethod
    def load(cls, folder: str | PathLike) -> AttentionResult:
        """Return a result that :meth:`save` wrote."""
        description, arrays = read_folder(folder, kind="attention result", facts=_FACTS, arrays=stored_sums)
        with reading(folder, "attention result"):
            return cls._from_parts(description, arrays)

    @classmethod
    def _from_parts(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> AttentionResult:
        if "n_documents" not in description["tally"]:
            raise KeyError("n_documents of its tally")
        return cls(
            totals=AttentionSums.from_arrays([_site(name) for name in description["layers"]], arrays),
            tally=description["tally"],
            visibility={_site(layer).key: text for layer, text in description["visibility"].items()},
            unavailable_layers=tuple(_site(layer).key for layer in description["unavailable_layers"]),
            options=description["options"],
            seed=description["seed"],
        )

    def _repr_html_(self) -> str:
        """Return the headline by every estimator, for a notebook."""
        import pandas as pd

        rows = [self.headline(estimator).to_dict() for estimator in self.estimators]
        return html_table(pd.DataFrame(rows)[list(HEADLINE_COLUMNS)], repr(self))

    def __repr__(self) -> str:
        n_heads = self.totals.sums.shape[1]
        stacks = [site.stack for site in self.totals.sites]
        layers = " + ".join(
            f"{stacks.count(stack)} {stack}".strip() + f" layers x {n_heads} heads" for stack in dict.fromkeys(stacks)
        )
        pairs = self.pair_counts
        ratio = divide(nan_mean(self.means("same_topic")), nan_mean(self.means("cross_topic")))
        return (
            f"AttentionResult({layers}, {self.n_documents} documents, "
            f"{pairs['same_topic']:,} same-topic and {pairs['cross_topic']:,} cross-topic pairs, ratio {ratio:.3f})"
        )

    def _require(
        self,
        estimator: str,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
        n_resamples: int = N_RESAMPLES,
    ) -> None:
        require_one_of("estimator", estimator, ESTIMATORS)
        require_level(level)
        require_one_of("method", method, METHODS)
        require_count("n_resamples", n_resamples)
        if estimator == "frequency_matched" and not self.options.get("word_counts"):
            raise ValueError(
                "pairs were not matched by frequency in this run: probe again with "
                "word_counts=topic_probes.corpora.word_counts(corpus)"
            )


def _site(name: str | int) -> Site:
    return Site.from_name(str(name))


def _merge_visibility(one: Mapping[Site | int, str], other: Mapping[Site | int, str]) -> dict[Site | int, str]:
    return {
        layer: one[layer] if one[layer] == other.get(layer, one[layer]) else f"{one[layer]}; {other[layer]}"
        for layer in one
    }
