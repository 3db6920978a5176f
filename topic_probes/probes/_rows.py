"""The rows of a batch as the counter sees them, and what is measured of their pairs.

Rows do not depend on a model's patterns: those of a batch are made once and serve the trained model and its
untrained twin, all layers that see alike share a plan, and windows of one document share its strata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..statistics._strata import Estimator, frequency_classes
from ..statistics._sums import group_of
from ..tokens import Window
from ..topics import TopicLabels
from ._decoder import shifted_window
from ._document_strata import StrataCounts, document_counts
from ._row_plan import Positions, RowPlan, plan_row
from ._sides import Reach, Side
from ._topic_sets import TopicSets

N_PERMUTATIONS = 200
"""Permutations of the labels unless told otherwise: p-values down to 1/201."""

_TOPIC_CELLS = 2**24
"""Heads x topics x topics that are kept without asking: 128 MB."""


def keeps_topics(wanted: bool | None, model: Any, n_sites: int, labels: TopicLabels) -> bool:
    """Return whether attention by topic is kept: as wanted, else if it takes little memory."""
    if wanted is not None:
        return wanted
    n_heads = int(getattr(model.cfg, "n_heads", 1) or 1)
    return n_sites * n_heads * labels.n_topics**2 <= _TOPIC_CELLS


def require_word_counts(counts: Any, labels: TopicLabels) -> None:
    """Raise unless ``counts`` are numbers of occurrences by word, with some of a labelled one; None is fine."""
    if counts is None:
        return
    if not isinstance(counts, Mapping):
        raise TypeError(
            f"word_counts must map words (or token ids) to numbers of occurrences, got a {type(counts).__name__}: pass "
            "topic_probes.corpora.word_counts(corpus)"
        )
    if not any(counts.get(word, 0) > 0 for word in labels.topics_of):
        raise ValueError(
            "word_counts must count at least one labelled word, got none: count the corpus that is probed, words in "
            "lower case"
        )


def labelled_frequency_classes(labels: TopicLabels, word_counts: Mapping[Any, int]) -> dict[Any, int]:
    """Return the tenth, 0 (rare) to 9 (common), of each labelled word among the occurrences of all labelled words."""
    tenths = frequency_classes({word: int(word_counts.get(word, 0)) for word in labels.topics_of})
    # A labelled word that was never counted is as rare as can be.
    return {word: tenths.get(word, 0) for word in labels.topics_of}


class PairMeasures:
    """What is measured of pairs: by the true labels, under permuted ones, by topic, by frequency.

    Args:
        labels: topics of words or of token ids.
        n_permutations: permutations of the labels; 0 for no p-values.
        seed: of the permutations.
        topic_matrices: whether attention by topic of query and key is kept.
        word_counts: word or token id -> occurrences in the corpus, to match pairs by frequency; None not to.
    """

    def __init__(
        self,
        labels: TopicLabels,
        *,
        n_permutations: int = 0,
        seed: int = 0,
        topic_matrices: bool = False,
        word_counts: Mapping[Any, int] | None = None,
    ) -> None:
        self.labels = labels
        self.topic_sets = TopicSets(labels, n_permutations, seed)
        self.topic_table = labels.topic_table if topic_matrices else None
        self.frequency_class: np.ndarray | None = None
        if word_counts is not None:
            tenths = labelled_frequency_classes(labels, word_counts)
            self.frequency_class = np.array([tenths[word] for word in labels.topics_of], dtype=np.int64)

    @property
    def n_topics(self) -> int:
        """Topics in the matrices; 0 if none are kept."""
        return 0 if self.topic_table is None else self.topic_table.shape[1]

    @property
    def n_permutations(self) -> int:
        """Permutations of the labels."""
        return self.topic_sets.n_permutations


@dataclass
class Row:
    """One row of a batch in one stack: its real positions, as queries and as keys, and the pairs among them."""

    index: int
    """Which row of the batch it is."""
    query: Side
    key: Side
    """The same object as ``query`` where a stack attends to itself."""
    group: int
    positions: slice | Tensor
    """Where the real tokens of the queries stand in the batch (pads left out)."""
    key_positions: slice | Tensor
    measures: PairMeasures
    siblings: _Siblings | None
    """The rows of the same document in this stack; None if this is all of it."""
    _plans: dict[tuple[Any, ...], RowPlan] = field(default_factory=dict)

    def block(self, pattern: Tensor) -> Tensor:
        """Return the part [head, query_pos, key_pos] of a batch's pattern that is between real tokens."""
        return pattern[self.index][:, self.positions][:, :, self.key_positions]

    def plan(self, pattern: Tensor, reach: Reach, usable: np.ndarray | None = None) -> RowPlan:
        """Return the weights for patterns [batch, head, query_pos, key_pos] of that shape and device.

        Args:
            pattern: of the batch.
            reach: what a query sees.
            usable: query positions that count; None for all.
        """
        name = reach, pattern.shape[2:], pattern.device
        if usable is None and name in self._plans:
            return self._plans[name]
        measures = self.measures
        plan = plan_row(
            self.query,
            self.key,
            reach,
            Positions(
                _indices(self.positions, pattern.device), _indices(self.key_positions, pattern.device), pattern.shape[3]
            ),
            measures.topic_sets.to(pattern.device),
            document=None if self.siblings is None else self.siblings.counts(reach, measures),
            frequency_class=measures.frequency_class,
            topic_table=measures.topic_table,
            usable=usable,
        )
        if usable is None:
            self._plans[name] = plan
        return plan


@dataclass(frozen=True)
class _Siblings:
    """All rows of one document in one stack."""

    windows: tuple[Window, ...]
    stack: str
    start: int | None
    """The id with which the decoder starts, for rows of a decoder."""
    facts: dict[Any, Any]
    """Shared by all windows of the document."""

    def counts(self, reach: Reach, measures: PairMeasures) -> dict[Estimator, StrataCounts]:
        """Return the numbers of pairs by stratum of the whole document."""
        name = self.stack, reach, id(measures)
        if name not in self.facts:
            sides = [self._sides(window, measures.labels) for window in self.windows]
            self.facts[name] = document_counts(sides, reach, measures.topic_sets, measures.frequency_class)
        return self.facts[name]

    def _sides(self, window: Window, labels: TopicLabels) -> tuple[Side, Side]:
        encoder = Side.of(window, labels)
        if self.stack in ("", "encoder"):
            return encoder, encoder
        assert self.start is not None
        decoder = Side.of(shifted_window(window, self.start), labels)
        return decoder, decoder if self.stack == "decoder" else encoder


class BatchRows:
    """The rows of one batch, by stack.

    Args:
        windows: the real tokens of each row of the model, or of its encoder; None for a row without any.
        positions: where they stand in the batch.
        measures: what is measured of their pairs.
    """

    def __init__(
        self, windows: Sequence[Window | None], positions: Sequence[slice | Tensor], measures: PairMeasures
    ) -> None:
        self.measures = measures
        self.n_rows = len(windows)
        self.of_stack: dict[str, list[Row]] = {}
        self._encoder = self._sides(windows, positions)
        self._windows = list(windows)
        self._positions = list(positions)
        self.of_stack[""] = self.of_stack["encoder"] = self._self_attention("", self._encoder, positions, None)

    def add_decoder(
        self, windows: Sequence[Window | None], positions: Sequence[slice | Tensor], start: int | None
    ) -> None:
        """Add the rows of the decoder, one for each of the encoder.

        Args:
            windows: the real tokens of each row of the decoder.
            positions: where they stand in it.
            start: the id with which it starts, if it reads the encoder's rows shifted right; None if it reads others.
        """
        sides = self._sides(windows, positions)
        self.of_stack["decoder"] = self._self_attention("decoder", sides, positions, start)
        self.of_stack["cross"] = [
            self._row(index, "cross", query, key, where, key_where, start)
            for index, (query, key, where, key_where) in enumerate(
                zip(sides, self._encoder, positions, self._positions, strict=True)
            )
            if query is not None and key is not None
        ]

    def _sides(self, windows: Sequence[Window | None], positions: Sequence[slice | Tensor]) -> list[Side | None]:
        labels = self.measures.labels
        return [
            None if window is None else Side.of(window, labels, _places(where))
            for window, where in zip(windows, positions, strict=True)
        ]

    def _self_attention(
        self, stack: str, sides: Sequence[Side | None], positions: Sequence[slice | Tensor], start: int | None
    ) -> list[Row]:
        return [
            self._row(index, stack, side, side, where, where, start)
            for index, (side, where) in enumerate(zip(sides, positions, strict=True))
            if side is not None
        ]

    def _row(
        self,
        index: int,
        stack: str,
        query: Side,
        key: Side,
        positions: slice | Tensor,
        key_positions: slice | Tensor,
        start: int | None,
    ) -> Row:
        source = self._windows[index]
        document = None if source is None else source.document
        siblings = None if document is None else _Siblings(document.windows, stack, start, document.facts)
        name = query.window.document_id if source is None else source.document_id
        return Row(index, query, key, group_of(name), positions, key_positions, self.measures, siblings)


def _places(positions: slice | Tensor) -> np.ndarray | None:
    """Return [pos] where the tokens stand, counted from the first; None if there are no holes between them."""
    if isinstance(positions, slice):
        return None
    return (positions - positions[0]).cpu().numpy()


def _indices(positions: slice | Tensor, device: torch.device) -> Tensor:
    if isinstance(positions, slice):
        return torch.arange(positions.start, positions.stop, device=device)
    return positions.to(device)
