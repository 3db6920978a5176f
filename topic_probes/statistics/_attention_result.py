"""The result of an attention probe: same-topic against cross-topic attention, head by head.

Every mean is in units of uniform attention = 1 (science: section 4): attention from a query to a
key, times the number of keys that the query may see. A head that looks everywhere alike is
exactly 1 in every class, whatever the lengths of documents and whatever the mask. ``ratio`` is
``same_topic / cross_topic`` (P1's table), ``difference`` is ``same_topic - cross_topic``.

What the pooled estimate does *not* show: documents with one topic speak mostly for ``same_topic``
and mixed ones for ``cross_topic``, and same-topic words stand nearer to each other. A ratio above 1
says that attention follows topics or what goes with them; the untrained twin, run over the same
documents, says what the architecture alone does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._axes import PAIR_CLASSES
from .._folders import read_folder, reading, write_folder
from .._validation import require_count, require_fraction, require_one_of
from ._intervals import MIN_GROUPS, N_RESAMPLES, ConfidenceInterval, percentile_interval, pooled_means, resample_groups
from ._sums import COLUMNS, AttentionSums

if TYPE_CHECKING:
    import pandas as pd

_ESTIMATORS = ("pooled",)
_ARRAYS = ("sums", "counts", "n_documents", "n_excluded_rows")
_HEADS_AT_ONCE = 512
"""Heads whose resamples are in memory together: 512 heads x 2000 resamples are 8 MB a class."""


@dataclass(frozen=True)
class Headline:
    """The row of P1's table: a model's mean over its layers and heads."""

    same_topic: float
    """Mean over heads of same-topic attention, uniform = 1."""
    cross_topic: float
    """Mean over heads of cross-topic attention, uniform = 1."""
    ratio: float
    """``same_topic / cross_topic``."""
    ratio_low: float
    ratio_high: float
    """Interval of the ratio over documents (not over heads)."""
    same_topic_low: float
    same_topic_high: float
    cross_topic_low: float
    cross_topic_high: float
    """Intervals of the two means, from the same resamples."""
    level: float
    """Confidence level of the intervals."""
    n_documents: int
    n_groups: int
    """Groups of documents behind the intervals, of the class that fewer have; below 8 there are no intervals (NaN)."""
    n_same_topic: int
    n_cross_topic: int
    """Numbers of ordered pairs, as in :attr:`AttentionResult.pair_counts`."""
    estimator: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class AttentionResult:
    """Same- and cross-topic attention of every head, with its counts."""

    totals: AttentionSums
    """Sums by layer, head, group of documents and pair class: everything else is computed from them."""
    tally: Mapping[str, int]
    """What became of the documents: read, windowed, truncated, skipped, empty, their tokens and words."""
    visibility: Mapping[int, str]
    """Layer -> what its queries may see, read off the patterns: bidirectional, causal, a window."""
    unavailable_layers: tuple[int, ...]
    """Layers of the model without an attention pattern (hybrids)."""
    options: Mapping[str, Any]
    """How it was measured: words, max_length, long_documents, the labels' fingerprint, the model, versions."""
    seed: int
    """Seed of the intervals' resamples."""

    @property
    def n_documents(self) -> int:
        """Documents that were read."""
        return int(self.tally["n_documents"])

    @property
    def pair_counts(self) -> dict[str, int]:
        """Pair class -> exact number of ordered pairs, in the layer that sees most (layers differ only by window)."""
        counts = self.totals.counts.sum(axis=1)
        widest = counts[np.argmax(counts[:, : len(PAIR_CLASSES)].sum(axis=1))]
        return {name: int(widest[COLUMNS.index(name)]) for name in PAIR_CLASSES}

    def means(self, column: str) -> Float[np.ndarray, "layer head"]:
        """Return the mean of a pair class, or of ``special``, for every layer and head; NaN where it is empty."""
        require_one_of("column", column, COLUMNS)
        index = COLUMNS.index(column)
        counts = self.totals.counts[:, :, index].sum(axis=1)
        with np.errstate(invalid="ignore"):
            return self.totals.sums[..., index].sum(axis=2) / np.where(counts == 0, np.nan, counts)[:, None]

    def confidence_interval(self, level: float = 0.95, *, n_resamples: int = N_RESAMPLES) -> ConfidenceInterval:
        """Return both ends [layer, head] of the percentile interval of each head's ratio over groups of documents.

        NaN where fewer than 8 groups have pairs of either class. With fewer than about 30 documents such
        intervals are too short; they say nothing of another draw of an untrained twin's weights.
        """
        require_fraction("level", level)
        require_count("n_resamples", n_resamples)
        return self._head_intervals(level, n_resamples)

    def to_frame(self, estimator: str = "pooled", *, level: float = 0.95) -> pd.DataFrame:
        """Return one row per layer and head.

        Columns: ``layer head n_documents n_same_topic n_cross_topic same_topic cross_topic same_token
        no_topic difference ratio ratio_low ratio_high sink_mass``; means in units of uniform
        attention = 1, NaN where a class is empty; ``sink_mass`` is the mean share of a query's
        attention that goes to special tokens.
        """
        import pandas as pd

        require_one_of("estimator", estimator, _ESTIMATORS)
        n_layers, n_heads = self.totals.sums.shape[:2]
        means = {name: self.means(name).ravel() for name in PAIR_CLASSES}
        pairs = self.totals.counts.sum(axis=1)
        low, high = self.confidence_interval(level)

        def by_layer(values: Any) -> np.ndarray:
            return np.repeat(np.asarray(values), n_heads)

        return pd.DataFrame(
            {
                "layer": by_layer(self.totals.layers),
                "head": np.tile(np.arange(n_heads), n_layers),
                "n_documents": self.n_documents,
                "n_same_topic": by_layer(pairs[:, COLUMNS.index("same_topic")]),
                "n_cross_topic": by_layer(pairs[:, COLUMNS.index("cross_topic")]),
                **{name: means[name] for name in ("same_topic", "cross_topic", "same_token", "no_topic")},
                "difference": means["same_topic"] - means["cross_topic"],
                "ratio": _divide(means["same_topic"], means["cross_topic"]),
                "ratio_low": np.ravel(low),
                "ratio_high": np.ravel(high),
                "sink_mass": self.means("special").ravel(),
            }
        )

    def headline(self, estimator: str = "pooled", *, level: float = 0.95, n_resamples: int = N_RESAMPLES) -> Headline:
        """Return the row of P1's table: mean over layers and heads, and their ratio with its interval."""
        require_one_of("estimator", estimator, _ESTIMATORS)
        require_fraction("level", level)
        require_count("n_resamples", n_resamples)
        same, cross = _mean(self.means("same_topic")), _mean(self.means("cross_topic"))
        draws, sums, counts = self._resampling(n_resamples)
        resampled = [_resampled_model_mean(draws, sums[..., k], counts[..., k]) for k in (0, 1)]
        statistics = np.stack([_divide(*resampled), *resampled], axis=1)
        ends = percentile_interval(statistics, level) if len(draws) else ConfidenceInterval(*np.full((2, 3), np.nan))
        low, high = np.asarray(ends.low).tolist(), np.asarray(ends.high).tolist()
        pairs = self.pair_counts
        return Headline(
            same_topic=same,
            cross_topic=cross,
            ratio=float(_divide(same, cross)),
            ratio_low=low[0],
            ratio_high=high[0],
            same_topic_low=low[1],
            same_topic_high=high[1],
            cross_topic_low=low[2],
            cross_topic_high=high[2],
            level=level,
            n_documents=self.n_documents,
            n_groups=_groups_of_rarer_class(counts),
            n_same_topic=pairs["same_topic"],
            n_cross_topic=pairs["cross_topic"],
            estimator=estimator,
        )

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
            "layers": list(self.totals.layers),
            "tally": dict(self.tally),
            "visibility": {str(layer): text for layer, text in self.visibility.items()},
            "unavailable_layers": list(self.unavailable_layers),
            "options": dict(self.options),
            "seed": self.seed,
        }
        arrays = {name: getattr(self.totals, name) for name in _ARRAYS}
        write_folder(folder, kind="attention result", description=description, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike) -> AttentionResult:
        """Return a result that :meth:`save` wrote."""
        description, arrays = read_folder(folder, kind="attention result")
        with reading(folder, "attention result"):
            return cls._from_parts(description, arrays)

    @classmethod
    def _from_parts(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> AttentionResult:
        return cls(
            totals=AttentionSums(tuple(description["layers"]), **{name: arrays[name] for name in _ARRAYS}),
            tally=description["tally"],
            visibility={int(layer): text for layer, text in description["visibility"].items()},
            unavailable_layers=tuple(description["unavailable_layers"]),
            options=description["options"],
            seed=description["seed"],
        )

    def __repr__(self) -> str:
        n_layers, n_heads = self.totals.sums.shape[:2]
        pairs = self.pair_counts
        ratio = _divide(_mean(self.means("same_topic")), _mean(self.means("cross_topic")))
        return (
            f"AttentionResult({n_layers} layers x {n_heads} heads, {self.n_documents} documents, "
            f"{pairs['same_topic']:,} same-topic and {pairs['cross_topic']:,} cross-topic pairs, ratio {ratio:.3f})"
        )

    def _resampling(self, n_resamples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return draws [resample, group] over the groups in use, and their same- and cross-topic sums and counts."""
        used = np.flatnonzero(self.totals.n_documents.sum(axis=0))
        topical = [COLUMNS.index("same_topic"), COLUMNS.index("cross_topic")]
        sums = self.totals.sums[:, :, used][..., topical]
        counts = self.totals.counts[:, used][..., topical]
        if _groups_of_rarer_class(counts) < MIN_GROUPS:
            return np.zeros((0, len(used)), dtype=np.int64), sums, counts
        return resample_groups(len(used), n_resamples, self.seed), sums, counts

    def _head_intervals(self, level: float, n_resamples: int) -> ConfidenceInterval:
        draws, sums, counts = self._resampling(n_resamples)
        low = np.full(sums.shape[:2], np.nan)
        high = low.copy()
        if len(draws):
            for index in range(len(sums)):
                for start in range(0, sums.shape[1], _HEADS_AT_ONCE):
                    part = np.s_[index : index + 1, start : start + _HEADS_AT_ONCE]
                    same, cross = (
                        pooled_means(draws, sums[(*part, slice(None), k)], counts[index : index + 1, :, k])
                        for k in (0, 1)
                    )
                    low[part], high[part] = percentile_interval(_divide(same, cross), level)
        return ConfidenceInterval(low, high)


def _groups_of_rarer_class(counts: np.ndarray) -> int:
    """Return the number of groups with pairs of a class, of the class that fewer have; counts [layer, group, class]."""
    return int((counts > 0).any(axis=0).sum(axis=0).min())


def _resampled_model_mean(draws: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mean over layers and heads in every resample, heads without a pair left out."""
    total = np.zeros(len(draws))
    n_heads = np.zeros(len(draws))
    for start in range(0, sums.shape[1], _HEADS_AT_ONCE):
        means = pooled_means(draws, sums[:, start : start + _HEADS_AT_ONCE], counts)
        total += np.nansum(means, axis=(1, 2))
        n_heads += np.isfinite(means).sum(axis=(1, 2))
    return _divide(total, n_heads)


def _divide(numerator: Any, denominator: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(denominator) == 0, np.nan, np.divide(numerator, denominator))[()]


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _merge_visibility(one: Mapping[int, str], other: Mapping[int, str]) -> dict[int, str]:
    return {
        layer: one[layer] if one[layer] == other.get(layer, one[layer]) else f"{one[layer]}; {other[layer]}"
        for layer in one
    }
