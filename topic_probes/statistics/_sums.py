"""Mergeable sums of attention: all that is ever kept of a pattern.

Documents fall into a fixed number of groups by a hash of their id, and sums are kept per group.
Groups are what intervals resample, so memory does not depend on the number of documents
(docs/statistics.md, *Intervals*). Adding two such sums gives exactly what one run over both corpora gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._axes import PAIR_CLASSES, Site
from .._saved import Stored
from ._strata import DISTANCE_EDGES, ESTIMATORS

N_GROUPS = 256
N_NULL_GROUPS = 16
"""Groups of documents behind the standard error of a permuted statistic; group g of all falls into g % 16."""
BASIC_COLUMNS: tuple[str, ...] = (*PAIR_CLASSES, "special")
COLUMNS: tuple[str, ...] = (
    *BASIC_COLUMNS,
    *(f"{estimator} {name}" for estimator in ESTIMATORS[1:] for name in ("same_topic", "cross_topic")),
)
"""Columns of the sums: the four classes of pairs, attention to special tokens (per query word), and same- and
cross-topic pairs weighted for each estimator that has strata."""

N_CELLS = 2 * len(DISTANCE_EDGES)
"""Cells of the curve over distance: same-topic pairs by bucket, then cross-topic pairs by bucket."""


def topical_columns(estimator: str) -> tuple[int, int]:
    """Return the columns of an estimator's same- and cross-topic sums.

    Examples:
        >>> [COLUMNS[column] for column in topical_columns("within_document")]
        ['within_document same_topic', 'within_document cross_topic']
    """
    prefix = "" if estimator == "pooled" else f"{estimator} "
    return COLUMNS.index(f"{prefix}same_topic"), COLUMNS.index(f"{prefix}cross_topic")


def group_of(document_id: str) -> int:
    """Return the resampling group of a document; the same on every machine and in every run."""
    digest = hashlib.blake2b(document_id.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % N_GROUPS


@dataclass
class WeightedSums:
    """Weighted sums of every head over some axes, and the sums of the weights."""

    values: Float[np.ndarray, "site head ..."]
    weights: Float[np.ndarray, "site ..."]

    def __post_init__(self) -> None:
        n_sites, _, *axes = self.values.shape
        if self.weights.shape != (n_sites, *axes):
            raise ValueError(f"weights must have shape {(n_sites, *axes)}, got {self.weights.shape}")

    @classmethod
    def empty(cls, n_sites: int, n_heads: int, *axes: int) -> WeightedSums:
        """Return sums of nothing."""
        return cls(np.zeros((n_sites, n_heads, *axes)), np.zeros((n_sites, *axes)))

    @property
    def means(self) -> Float[np.ndarray, "site head ..."]:
        """The weighted means; NaN where there is no weight."""
        weights = np.where(self.weights == 0, np.nan, self.weights)
        return self.values / weights[:, None]

    def merge(self, other: WeightedSums) -> WeightedSums:
        """Return the sums of both."""
        return WeightedSums(self.values + other.values, self.weights + other.weights)


@dataclass(frozen=True)
class RowUpdate:
    """What one row of a batch adds for one site."""

    site: Site
    group: int
    sums: Float[np.ndarray, "head column"]
    renormalised: Float[np.ndarray, "head column"]
    counts: Float[np.ndarray, " column"]
    cells: Int[np.ndarray, " cell"]
    """[cell] cells of the curve over distance that have pairs."""
    by_cell: Float[np.ndarray, "head cell"]
    cell_counts: Int[np.ndarray, " cell"]
    topics: tuple[Int[np.ndarray, " topic"], Int[np.ndarray, " key_topic"]] | None
    """Topics on the side of the queries and of the keys."""
    by_topic: Float[np.ndarray, "head topic key_topic"] | None
    topic_counts: Float[np.ndarray, "topic key_topic"] | None
    null: Float[np.ndarray, "head permutation topical"] | None
    null_weights: Float[np.ndarray, "permutation topical"] | None
    n_excluded_rows: int


@dataclass
class AttentionSums:
    """Sums and counts of a set of sites, by head, group of documents and column."""

    sites: tuple[Site, ...]
    """Layers of an ordinary model, or layers of the stacks of an encoder-decoder."""
    sums: Float[np.ndarray, "site head group column"]
    """[site, head, group, column] debiased attention in units of uniform = 1; for ``special`` plain attention."""
    renormalised: Float[np.ndarray, "site head group column"]
    """[site, head, group, column] the same of rows renormalised over the words' tokens."""
    counts: Float[np.ndarray, "site group column"]
    """[site, group, column] numbers of ordered pairs, Mantel-Haenszel weights, query words for ``special``."""
    n_rows: Int[np.ndarray, "site group"]
    """[site, group] rows of the model's batches that were counted."""
    n_excluded_rows: Int[np.ndarray, " site"]
    """[site] query positions without attention to anything (all keys masked: NaN or zero)."""
    curve: WeightedSums
    """[site, head, cell] by class and distance."""
    topics: WeightedSums
    """[site, head, topic, key_topic]; no topics where they were not asked for."""
    null: WeightedSums
    """[site, head, permutation, null_group, topical column] under permuted labels."""

    def __post_init__(self) -> None:
        n_sites, n_heads, n_groups, n_columns = self.sums.shape
        shapes = {
            "sums": (self.sums.shape, (len(self.sites), n_heads, n_groups, len(COLUMNS))),
            "renormalised": (self.renormalised.shape, self.sums.shape),
            "counts": (self.counts.shape, (n_sites, n_groups, n_columns)),
            "n_rows": (self.n_rows.shape, (n_sites, n_groups)),
            "n_excluded_rows": (self.n_excluded_rows.shape, (n_sites,)),
            "curve": (self.curve.values.shape, (n_sites, n_heads, N_CELLS)),
            "topics": (self.topics.values.shape[:2], (n_sites, n_heads)),
            "null": (self.null.values.shape[:2], (n_sites, n_heads)),
        }
        for name, (shape, expected) in shapes.items():
            if shape != expected:
                raise ValueError(f"{name} of {len(self.sites)} layers must have shape {expected}, got {shape}")

    @classmethod
    def empty(
        cls,
        sites: Sequence[Site | int],
        n_heads: int,
        *,
        n_topics: int = 0,
        n_permutations: int = 0,
        n_groups: int = N_GROUPS,
    ) -> AttentionSums:
        """Return sums of nothing, of sites or of layers of an ordinary model."""
        shape = len(sites), n_heads
        return cls(
            tuple(Site.of(site) for site in sites),
            sums=np.zeros((*shape, n_groups, len(COLUMNS))),
            renormalised=np.zeros((*shape, n_groups, len(COLUMNS))),
            counts=np.zeros((len(sites), n_groups, len(COLUMNS))),
            n_rows=np.zeros((len(sites), n_groups), dtype=np.int64),
            n_excluded_rows=np.zeros(len(sites), dtype=np.int64),
            curve=WeightedSums.empty(*shape, N_CELLS),
            topics=WeightedSums.empty(*shape, n_topics, n_topics),
            null=WeightedSums.empty(*shape, n_permutations, N_NULL_GROUPS, 2 * len(ESTIMATORS)),
        )

    @property
    def layers(self) -> tuple[int, ...]:
        """[site] the layer of each site; those of the stacks of an encoder-decoder repeat."""
        return tuple(site.layer for site in self.sites)

    def add(self, row: RowUpdate) -> None:
        """Add what one row gives for one site."""
        index = self.sites.index(row.site)
        self.sums[index, :, row.group] += row.sums
        self.renormalised[index, :, row.group] += row.renormalised
        self.counts[index, row.group] += row.counts
        self.n_rows[index, row.group] += 1
        self.n_excluded_rows[index] += row.n_excluded_rows
        self.curve.values[index][:, row.cells] += row.by_cell
        self.curve.weights[index][row.cells] += row.cell_counts
        if row.topics is not None and row.by_topic is not None and row.topic_counts is not None:
            one, other = np.ix_(*row.topics)
            self.topics.values[index][:, one, other] += row.by_topic
            self.topics.weights[index][one, other] += row.topic_counts
        if row.null is not None and row.null_weights is not None:
            null_group = row.group % N_NULL_GROUPS
            self.null.values[index][:, :, null_group] += row.null
            self.null.weights[index][:, null_group] += row.null_weights

    def merge(self, other: AttentionSums) -> AttentionSums:
        """Return the sums of both, as if one run had seen both corpora.

        Raises:
            ValueError: if they are of different layers, heads, groups, topics or permutations.
        """
        if self.sites != other.sites or self.sums.shape != other.sums.shape:
            one, two = (", ".join(map(str, sums.sites)) for sums in (self, other))
            raise ValueError(
                f"only sums of the same layers and heads can be merged, got layers {one} with "
                f"{self.sums.shape[1]} heads and layers {two} with {other.sums.shape[1]} heads"
            )
        for name in ("topics", "null"):
            mine, theirs = getattr(self, name).values.shape[2], getattr(other, name).values.shape[2]
            if mine != theirs:
                raise ValueError(
                    f"only sums measured alike can be merged: one has {mine} {_MEANING[name]}, the other {theirs}"
                )
        return AttentionSums(
            self.sites,
            sums=self.sums + other.sums,
            renormalised=self.renormalised + other.renormalised,
            counts=self.counts + other.counts,
            n_rows=self.n_rows + other.n_rows,
            n_excluded_rows=self.n_excluded_rows + other.n_excluded_rows,
            curve=self.curve.merge(other.curve),
            topics=self.topics.merge(other.topics),
            null=self.null.merge(other.null),
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name."""
        arrays = {name: getattr(self, name) for name in _PLAIN}
        for name in _WEIGHTED:
            sums = getattr(self, name)
            arrays[f"{name}.values"], arrays[f"{name}.weights"] = sums.values, sums.weights
        return arrays

    @classmethod
    def from_arrays(cls, sites: Sequence[Site], arrays: Mapping[str, np.ndarray]) -> AttentionSums:
        """Return the sums that :meth:`to_arrays` took apart."""
        weighted: dict[str, Any] = {
            name: WeightedSums(arrays[f"{name}.values"], arrays[f"{name}.weights"]) for name in _WEIGHTED
        }
        return cls(tuple(sites), **{name: arrays[name] for name in _PLAIN}, **weighted)


def stored_sums(description: Mapping[str, Any]) -> dict[str, Stored]:
    """Return what the arrays of saved sums must be, from the layers that the description names."""
    n = len(description["layers"])
    return {
        "sums": Stored(f"{n} head group {len(COLUMNS)}"),
        "renormalised": Stored(f"{n} head group {len(COLUMNS)}"),
        "counts": Stored(f"{n} group {len(COLUMNS)}", signed=False),
        "n_rows": Stored(f"{n} group", whole=True),
        "n_excluded_rows": Stored(f"{n}", whole=True),
        "curve.values": Stored(f"{n} head {N_CELLS}"),
        "curve.weights": Stored(f"{n} {N_CELLS}", signed=False),
        "topics.values": Stored(f"{n} head topic topic"),
        "topics.weights": Stored(f"{n} topic topic", signed=False),
        "null.values": Stored(f"{n} head permutation {N_NULL_GROUPS} {2 * len(ESTIMATORS)}"),
        "null.weights": Stored(f"{n} permutation {N_NULL_GROUPS} {2 * len(ESTIMATORS)}", signed=False),
    }


_PLAIN = ("sums", "renormalised", "counts", "n_rows", "n_excluded_rows")
_WEIGHTED = ("curve", "topics", "null")
_MEANING = {"topics": "topics in its matrices", "null": "permutations"}
