"""Mergeable sums of attention by pair class: all that is ever kept of a pattern.

Documents fall into a fixed number of groups by a hash of their id, and sums are kept per group.
Groups are what intervals resample, so memory does not depend on the number of documents
(science: section 5). Adding two such sums gives exactly what one run over both corpora gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .._axes import PAIR_CLASSES

N_GROUPS = 256
COLUMNS: tuple[str, ...] = (*PAIR_CLASSES, "special")
"""Columns of the sums: the four classes of pairs, and attention to special tokens (per query position)."""


def group_of(document_id: str, n_groups: int = N_GROUPS) -> int:
    """Return the resampling group of a document; the same on every machine and in every run."""
    digest = hashlib.blake2b(document_id.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % n_groups


@dataclass
class AttentionSums:
    """Sums and counts of a set of layers, by head, group of documents and column."""

    layers: tuple[int, ...]
    sums: Float[np.ndarray, "layer head group column"]
    """[layer, head, group, column] debiased attention in units of uniform = 1; for ``special`` plain attention."""
    counts: Int[np.ndarray, "layer group column"]
    """[layer, group, column] numbers of ordered pairs; for ``special`` of query positions."""
    n_documents: Int[np.ndarray, "layer group"]
    """[layer, group] rows of the model's batches that were counted."""
    n_excluded_rows: Int[np.ndarray, " layer"]
    """[layer] query positions without attention to anything (all keys masked: NaN or zero)."""

    def __post_init__(self) -> None:
        shapes = self.sums.shape, self.counts.shape, self.n_documents.shape, self.n_excluded_rows.shape
        n_layers, (_, _, n_groups, n_columns) = len(self.layers), self.sums.shape
        expected = (
            (n_layers, self.sums.shape[1], n_groups, len(COLUMNS)),
            (n_layers, n_groups, n_columns),
            (n_layers, n_groups),
            (n_layers,),
        )
        if shapes != expected:
            raise ValueError(f"sums of {n_layers} layers must have shapes {expected}, got {shapes}")

    @classmethod
    def empty(cls, layers: Sequence[int], n_heads: int, n_groups: int = N_GROUPS) -> AttentionSums:
        """Return sums of nothing."""
        n_layers, n_columns = len(layers), len(COLUMNS)
        return cls(
            tuple(layers),
            np.zeros((n_layers, n_heads, n_groups, n_columns)),
            np.zeros((n_layers, n_groups, n_columns), dtype=np.int64),
            np.zeros((n_layers, n_groups), dtype=np.int64),
            np.zeros(n_layers, dtype=np.int64),
        )

    def update(
        self,
        layer: int,
        group: int,
        sums: Float[np.ndarray, "head column"],
        counts: Int[np.ndarray, " column"],
        *,
        n_excluded_rows: int = 0,
    ) -> None:
        """Add one document's sums for one layer."""
        index = self.layers.index(layer)
        self.sums[index, :, group] += sums
        self.counts[index, group] += counts
        self.n_documents[index, group] += 1
        self.n_excluded_rows[index] += n_excluded_rows

    def merge(self, other: AttentionSums) -> AttentionSums:
        """Return the sums of both, as if one run had seen both corpora.

        Raises:
            ValueError: if they are of different layers, heads or groups.
        """
        if self.layers != other.layers or self.sums.shape != other.sums.shape:
            raise ValueError(
                f"only sums of the same layers and heads can be merged, got layers {self.layers} with "
                f"{self.sums.shape[1]} heads and layers {other.layers} with {other.sums.shape[1]} heads"
            )
        return AttentionSums(
            self.layers,
            self.sums + other.sums,
            self.counts + other.counts,
            self.n_documents + other.n_documents,
            self.n_excluded_rows + other.n_excluded_rows,
        )
