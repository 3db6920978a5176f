"""Do the topic sets of two words meet? For the true labels, and for permuted ones, all at once.

The null of a p-value permutes the labels among the labelled words (docs/statistics.md, *p-values*): a word gets the
topic set of another one. Topic sizes stay as they are, and numbers of pairs about the same.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..topics import TopicLabels

_BITS = 62
"""Topics in one whole number; the sign is left alone."""


class TopicSets:
    """The topic set of each labelled word, and of each word under each permutation.

    Args:
        labels: topics of words.
        n_permutations: how many permutations; 0 for none.
        seed: of the permutations.
    """

    def __init__(self, labels: TopicLabels, n_permutations: int, seed: int) -> None:
        table = labels.topic_table
        self.n_permutations = n_permutations
        self.is_disjoint = bool((table.sum(axis=1) == 1).all())
        if self.is_disjoint:
            codes = table.argmax(axis=1)[:, None]
        else:
            chunks = [table[:, start : start + _BITS] for start in range(0, table.shape[1], _BITS)]
            codes = np.stack([chunk @ (1 << np.arange(chunk.shape[1], dtype=np.int64)) for chunk in chunks], axis=1)
        generator = np.random.default_rng(seed)
        self._true = torch.from_numpy(codes.astype(np.int64))
        """[row, chunk] the topic of a word, or its set as bits; on the CPU."""
        self._codes = self._true
        permuted = np.empty((len(table), n_permutations), dtype=np.int32)
        for number in range(n_permutations):
            permuted[:, number] = generator.permutation(len(table))
        self._permuted = torch.from_numpy(permuted)
        """[row, permutation] the word whose topics a word gets."""

    def to(self, device: torch.device) -> TopicSets:
        """Move the tables to a device; return self."""
        self._codes, self._permuted = self._codes.to(device), self._permuted.to(device)
        return self

    def meet(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return whether the topics of words meet, by two arrays of their rows in the labels' table."""
        return self._meet(self._true[torch.from_numpy(one)], self._true[torch.from_numpy(other)]).numpy()

    def meet_permuted(self, rows: np.ndarray, key_rows: np.ndarray, query: np.ndarray, key: np.ndarray) -> Tensor:
        """Return [pair, permutation] 1 where the topics that two words get meet, else 0; float32.

        Args:
            rows: [word] rows in the labels' table of the query words.
            key_rows: the same of the key words.
            query: [pair] entry in ``rows``.
            key: [pair] entry in ``key_rows``.
        """
        device = self._codes.device
        one, other = (
            self._codes[self._permuted[torch.from_numpy(side).to(device)].long()].to(self._small)
            for side in (rows, key_rows)
        )
        query_entry, key_entry = torch.from_numpy(query).to(device), torch.from_numpy(key).to(device)
        return self._meet(one[query_entry], other[key_entry]).float()

    @property
    def _small(self) -> torch.dtype:
        return torch.int16 if self.is_disjoint else torch.int64

    def _meet(self, one: Tensor, other: Tensor) -> Tensor:
        if self.is_disjoint:
            return (one == other)[..., 0]
        return ((one & other) != 0).any(dim=-1)
