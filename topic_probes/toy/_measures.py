"""Topic structure as numbers: blocks of a matrix, attention by class, and how far it is to the optimum.

A matrix of words by words is *block-shaped* when entries of two words that share a topic are larger than the others.
The diagonal is kept apart: a word has its own topics whatever the matrix says.

Attention is measured by the definitions that the probe uses (docs/science.md, *Debiased attention*): every ordered
pair of positions of a document counts, a pair of equal words is ``same_token``, and a weight is multiplied by the
number of keys, so that uniform attention is 1 in every class.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._axes import PAIR_CLASSES
from .._html import html_table
from ..corpora import CorpusLike, as_corpus
from ._embedding_gram import EmbeddingGram
from ._matrices import PATTERN, as_matrix
from ._topics import pairs_of_words, word_topics
from ._value_matrix import ValueMatrix

if TYPE_CHECKING:
    import pandas as pd

_SORTED_TOGETHER = 512
"""Documents that are grouped by their lengths at a time, so that no batch needs padding."""
_CELLS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class BlockContrast:
    """Entries of a matrix for pairs of different words: those that share a topic against those that do not."""

    same: float
    """Mean entry of pairs that share a topic; NaN if there are none."""
    cross: float
    """Mean entry of pairs that do not; NaN if there are none."""
    diagonal: float
    """Mean entry of a labelled word with itself."""
    n_same: int
    """Number of ordered pairs behind ``same``."""
    n_cross: int
    """Number of ordered pairs behind ``cross``."""
    correlation: float
    """The contrast in standard units: the correlation, over all pairs, of the entry with sharing a topic.

    1 for perfect blocks, 0 for none; whatever the scale of the matrix. NaN where all entries are alike.
    """

    @property
    def contrast(self) -> float:
        """``same - cross``, in the units of the matrix."""
        return self.same - self.cross

    def to_frame(self) -> pd.DataFrame:
        """Return one row: ``same cross diagonal contrast correlation n_same n_cross``."""
        return _one_row(self, ("same", "cross", "diagonal", "contrast", "correlation", "n_same", "n_cross"))

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), "BlockContrast")


def block_contrast(matrix: Any, topics: Any) -> BlockContrast:
    """Return by how much entries of same-topic words exceed those of other words, the diagonal apart.

    It serves E = W_E W_E^T, W_V with a one-hot embedding, W_V^T W_V, W_K^T W_Q, and any other matrix of words by words.

    Args:
        matrix: [word, word] array, tensor or table; one more row, or one more column, at the end, as that of [MASK],
            takes no part.
        topics: one topic (or several) for each word in turn, or ``{word id: topic or topics}``, or ``TopicLabels`` of
            ids. Words that a mapping leaves out have no topic and take no part.

    Raises:
        TypeError: if either is of another kind.
        ValueError: if the matrix is not square (up to that row or column) or holds NaN, or a sequence of topics has
            another length.

    Examples:
        >>> found = block_contrast([[9, 2, 0], [2, 9, 0], [0, 1, 9]], topics=[0, 0, 1])
        >>> found.same, found.cross, found.contrast, found.diagonal
        (2.0, 0.25, 1.75, 9.0)
    """
    cells = as_matrix("matrix", matrix)
    given = getattr(topics, "topics_of", topics)
    n_words = min(cells.shape)
    if max(cells.shape) - n_words > 1:
        raise ValueError(f"matrix must have a row and a column per word, and at most one more, got {cells.shape}")
    if cells.shape[0] == cells.shape[1] and not hasattr(given, "keys"):
        n_words -= len(given) == n_words - 1  # a row and a column of [MASK]
    table = word_topics(given, n_words)
    cells = cells[:n_words, :n_words]
    same, cross = pairs_of_words(table)
    pairs = np.concatenate([cells[same], cells[cross]])
    sharing = np.arange(len(pairs)) < same.sum()
    return BlockContrast(
        same=_mean(cells[same]),
        cross=_mean(cells[cross]),
        diagonal=_mean(np.diagonal(cells)[table.any(axis=1)]),
        n_same=int(same.sum()),
        n_cross=int(cross.sum()),
        correlation=_correlation(pairs, sharing.astype(np.float64)),
    )


@dataclass(frozen=True)
class TopicAttention:
    """Attention by pair class, head by head, in units of uniform = 1."""

    sums: Float[np.ndarray, "head pair_class"]
    """[layer and head, pair class] sums of attention times the number of keys; classes as in ``PAIR_CLASSES``."""
    counts: Int[np.ndarray, " pair_class"]
    """[pair class] number of ordered pairs, the same for every head."""
    heads: tuple[tuple[int, int], ...]
    """(layer, head) of each row of ``sums``."""
    n_documents: int
    """Documents that were read, empty ones aside."""

    def mean(self, pair_class: str) -> float:
        """Return the mean over all pairs of a class, and over heads; NaN if the class is empty."""
        index = PAIR_CLASSES.index(pair_class)
        return float(self.sums[:, index].mean() / self.counts[index]) if self.counts[index] else math.nan

    @property
    def same_topic(self) -> float:
        """Mean over pairs of different words that share a topic."""
        return self.mean("same_topic")

    @property
    def cross_topic(self) -> float:
        """Mean over pairs of words that share none."""
        return self.mean("cross_topic")

    @property
    def ratio(self) -> float:
        """``same_topic / cross_topic``; NaN where ``cross_topic`` is 0 or empty."""
        return self.same_topic / self.cross_topic if self.cross_topic else math.nan

    def to_frame(self) -> pd.DataFrame:
        """Return one row per ``layer`` and ``head``: means and counts by pair class, ``difference``, ``ratio``."""
        import pandas as pd

        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.sums / np.where(self.counts == 0, np.nan, self.counts)
            columns: dict[str, Any] = {
                "layer": [layer for layer, _ in self.heads],
                "head": [head for _, head in self.heads],
                **{name: means[:, number] for number, name in enumerate(PAIR_CLASSES)},
            }
            columns["difference"] = columns["same_topic"] - columns["cross_topic"]
            columns["ratio"] = columns["same_topic"] / np.where(
                columns["cross_topic"] == 0, np.nan, columns["cross_topic"]
            )
        for number, name in enumerate(PAIR_CLASSES):
            columns[f"n_{name}"] = int(self.counts[number])
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), f"TopicAttention in {self.n_documents} documents, uniform = 1")


def topic_attention(model: Any, corpus: CorpusLike, topics: Any, *, limit: int | None = None) -> TopicAttention:
    """Return a model's attention between words of the same topic and of different topics, over an id corpus.

    The numbers are those of :func:`topic_probes.probe` (pooled), for models that attend both ways, without intervals,
    baseline and labels object: cheap enough to be taken again and again while a toy model learns. Documents are shown
    as they are, without [MASK].

    Args:
        model: any model with TransformerLens' hooks that takes token ids [batch, pos], in evaluation mode. It is left
            as it was.
        corpus: documents with ``token_ids``.
        topics: ``{token id: topic or topics}`` (``corpus.topics_of``), a topic for each id in turn, or ``TopicLabels``.
        limit: read at most this many documents.

    Raises:
        TypeError: if the model has no hooks.
        ValueError: if it is in training mode, has no attention pattern, or attends backwards only; if a document has
            text and no ids, or there is none.
    """
    import torch

    if not hasattr(model, "run_with_hooks") or not hasattr(model, "hook_dict"):
        raise TypeError(f"model must have TransformerLens' hooks, got a {type(model).__name__}")
    if model.training:
        raise ValueError("model must be in evaluation mode, got one in training mode: model.eval()")
    names = sorted(
        (int(name.split(".")[1]), name)
        for name in model.hook_dict
        if name.startswith("blocks.") and name.endswith(PATTERN.partition(".0")[2])
    )
    if not names:
        raise ValueError(f"model must have an attention pattern, such as {PATTERN}, got none")
    table = _table(topics)
    parameter = next(iter(model.parameters()), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    caught: dict[int, np.ndarray] = {}
    sums: dict[tuple[int, int], np.ndarray] = {}
    counts, n_documents = np.zeros(len(PAIR_CLASSES), dtype=np.int64), 0
    for ids in _batches_of_equal_length(as_corpus(corpus), limit):
        masks = _class_masks(ids, table)
        caught.clear()

        def catch(pattern: Any, hook: Any, into: dict[int, np.ndarray] = caught) -> None:
            into[int(hook.name.split(".")[1])] = pattern.detach().double().cpu().numpy()

        with torch.no_grad():
            model.run_with_hooks(torch.from_numpy(ids).to(device), fwd_hooks=[(name, catch) for _, name in names])
        for layer, pattern in sorted(caught.items()):
            _require_both_ways(pattern)
            found = np.stack([np.einsum("bhqk,bqk->h", pattern, mask, optimize=False) for mask in masks], axis=1)
            for head, row in enumerate(found):
                sums[layer, head] = sums.get((layer, head), 0.0) + row * ids.shape[1]
        counts += np.array([int(mask.sum()) for mask in masks])
        n_documents += len(ids)
    if not n_documents:
        raise ValueError("corpus must hold at least one document with a word, got none")
    heads = tuple(sorted(sums))
    return TopicAttention(np.stack([sums[head] for head in heads]), counts, heads, n_documents)


@dataclass(frozen=True)
class OptimumDistance:
    """How far a trained matrix is from the optimum that theory gives."""

    relative_error: float
    """``|W - W*| / |W*|``, Frobenius norms over all entries of the optimum. 0 only at the optimum itself."""
    cosine: float
    """``<W, W*> / (|W| |W*|)``: the shape, whatever the scale. NaN for a matrix of zeros."""
    gap: float
    """Mean entry of same-topic words, the diagonal included, minus mean entry of cross-topic words."""
    optimal_gap: float
    """The same of the optimum: 1 / (v (1 - (1 - p_c) p_m))."""

    @property
    def gap_ratio(self) -> float:
        """``gap / optimal_gap``: 0 at the start, 1 at *every* matrix without excess loss."""
        return self.gap / self.optimal_gap

    def to_frame(self) -> pd.DataFrame:
        """Return one row: ``relative_error cosine gap optimal_gap gap_ratio``."""
        return _one_row(self, ("relative_error", "cosine", "gap", "optimal_gap", "gap_ratio"))

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), "OptimumDistance")


def distance_to_optimum(matrix: Any, optimum: ValueMatrix | EmbeddingGram) -> OptimumDistance:
    """Return how far a matrix is from :func:`optimal_value_matrix` or :func:`optimal_embedding_gram`.

    Proved is that the gap of every matrix without excess loss is the optimal one; the other two numbers compare with
    the smallest of them, to which training comes only from a small start.

    Args:
        matrix: W [T v, T v + 1], output word by input word, or with a last row for [MASK], which is left out; for a
            Gram matrix [T v + 1, T v + 1].
        optimum: what to compare with.

    Raises:
        ValueError: if the matrix has another shape, or holds NaN.

    Examples:
        >>> from topic_probes.toy import optimal_value_matrix
        >>> optimum = optimal_value_matrix(3, 2)
        >>> found = distance_to_optimum(0.5 * optimum.matrix(), optimum)
        >>> round(found.relative_error, 9), round(found.gap_ratio, 9), round(found.cosine, 9)
        (0.5, 0.5, 1.0)
    """
    goal = optimum.matrix()
    cells = as_matrix("matrix", matrix)
    if isinstance(optimum, ValueMatrix) and cells.shape == (len(goal) + 1, len(goal) + 1):
        cells = cells[:-1]
    if cells.shape != goal.shape:
        raise ValueError(
            f"matrix must have the shape {goal.shape}, as {optimum.n_topics} topics of {optimum.words_per_topic} words "
            f"and [MASK] have, got {cells.shape}"
        )
    n_words = optimum.n_topics * optimum.words_per_topic
    topics = np.arange(n_words) // optimum.words_per_topic
    same = topics[:, None] == topics
    words = cells[:n_words, :n_words]
    size, goal_size = float(np.linalg.norm(cells)), float(np.linalg.norm(goal))
    return OptimumDistance(
        relative_error=float(np.linalg.norm(cells - goal)) / goal_size,
        cosine=float((cells * goal).sum()) / (size * goal_size) if size else math.nan,
        gap=_mean(words[same]) - _mean(words[~same]),
        optimal_gap=optimum.gap,
    )


def _one_row(result: Any, names: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame({name: [getattr(result, name)] for name in names})


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _correlation(values: np.ndarray, others: np.ndarray) -> float:
    if not values.size:
        return math.nan
    values, others = values - values.mean(), others - others.mean()
    scale = float(np.linalg.norm(values)) * float(np.linalg.norm(others))
    return float(values @ others) / scale if scale else math.nan


def _table(topics: Any) -> Bool[np.ndarray, "word topic"]:
    """Return the topics of each id, with a last row for ids that have none."""
    given = getattr(topics, "topics_of", topics)
    n_words = max(given, default=-1) + 1 if hasattr(given, "keys") else len(given)
    table = word_topics(given, n_words)
    return np.concatenate([table, np.zeros((1, table.shape[1]), dtype=np.bool_)])


def _class_masks(ids: Int[np.ndarray, "batch pos"], table: Bool[np.ndarray, "word topic"]) -> list[np.ndarray]:
    """Return for each pair class which pairs [batch, query_pos, key_pos] are of it."""
    rows = table.take(np.where(ids < len(table) - 1, ids, len(table) - 1), axis=0)
    labelled = np.any(rows, axis=2)
    weights = rows.astype(np.float32)
    meet = (weights @ weights.transpose(0, 2, 1)) > 0
    same_token = ids[:, :, None] == ids[:, None, :]
    both = labelled[:, :, None] & labelled[:, None, :] & ~same_token
    classes = {
        "same_token": same_token,
        "same_topic": both & meet,
        "cross_topic": both & ~meet,
        "no_topic": ~both & ~same_token,
    }
    return [classes[name].astype(np.float64) for name in PAIR_CLASSES]


def _batches_of_equal_length(corpus: Any, limit: int | None) -> Iterator[Int[np.ndarray, "batch pos"]]:
    documents = itertools.islice(corpus, limit)
    while chunk := list(itertools.islice(documents, _SORTED_TOGETHER)):
        for document in chunk:
            if document.token_ids is None:
                raise ValueError(
                    f"corpus must hold token ids, and document {document.id!r} is text: use topic_probes.probe"
                )
        ordered = sorted((document.token_ids for document in chunk if document.token_ids), key=len)
        for length, equal in itertools.groupby(ordered, key=len):
            together = list(equal)
            step = max(1, _CELLS_AT_ONCE // length**2)
            for start in range(0, len(together), step):
                yield np.array(together[start : start + step], dtype=np.int64)


def _require_both_ways(pattern: Float[np.ndarray, "batch head query_pos key_pos"]) -> None:
    if pattern.shape[-1] > 1 and not pattern[..., np.triu(np.ones(pattern.shape[-2:], dtype=np.bool_), 1)].any():
        raise ValueError(
            "model must attend both ways, got one whose queries see no later key: topic_probes.probe counts the keys "
            "that each query sees"
        )
