r"""The optimum of the one-layer transformer, from theory: what training must come to.

P1 (Li, Li and Risteski 2023): T topics of v words each, disjoint and uniform; a document has exactly tau topics, all
sets alike, in equal proportions, and is infinitely long. With the shares of :class:`MaskingRates`, a document with the
topic set S shows the words ``x = c P + q`` and [MASK] with share ``a``, where ``P_i = 1 / (tau v)`` for the words of S
and else 0. The word behind a masked position is distributed as P.

*Uniform attention, squared loss.* The output is W x, and the loss per masked position (squared error against the
one-hot true word, summed over words) is ``|W x - P|^2 + 1 - 1 / (tau v)``. The second part no model can avoid. Write D
for ``a^2 T v + (1 - a)^2``. For every tau < T:

- a W of excess 0 exists; among all of them the one of smallest Frobenius norm has three values,
  :func:`optimal_value_matrix`, and does not depend on tau. Gradient descent from zero leads to it.
- *any* W of excess 0 has, in each row, the same gap 1 / (c v) between the mean of the word's own topic and the mean of
  any other topic.

Both are proved: differences between topic sets fix the gaps, and the rest is a quadratic in one unknown.

What is only computed: :func:`numerical_value_matrix` (the check of the closed form), :func:`optimal_attention`, and
the loss of a given model (:func:`population_loss`). None of it speaks of finite documents, where the words seen hold
sampling noise and the masked word is no longer independent of them, nor of how training gets there.

Convention: ``W[i, j]`` is the weight of input word j for output word i. Words are numbered topic by topic, [MASK]
comes last.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from .._validation import require_one_of
from ._masking_rates import MaskingRates, require_topics, require_topics_per_document
from ._matrices import as_logits_and_scores

if TYPE_CHECKING:
    import pandas as pd

_MOST_SETS = 5_000
_MOST_LOG_WEIGHT = 20.0


@dataclass(frozen=True)
class ValueMatrix:
    """The value matrix of smallest norm among those without excess loss: one value per class of word pair."""

    n_topics: int
    """T."""
    words_per_topic: int
    """v."""
    same: float
    """Weight of input words of the output word's own topic, the word itself included."""
    cross: float
    """Weight of input words of other topics."""
    mask: float
    """Weight of [MASK] as an input, for every output word."""

    @property
    def gap(self) -> float:
        """``same - cross = 1 / (v (1 - (1 - p_c) p_m))``, whatever the number of topics."""
        return self.same - self.cross

    def matrix(self, *, mask_row: bool = False) -> Float[np.ndarray, "output_word input_word"]:
        """Return W [T v, T v + 1], the last column for [MASK] as input.

        Args:
            mask_row: add a last row, for [MASK] as an output; it is 0, because [MASK] is never the answer.
        """
        return _blocks(self, mask_row=mask_row)

    def to_frame(self) -> pd.DataFrame:
        """Return one row: ``n_topics words_per_topic same cross mask gap``."""
        import pandas as pd

        names = ("n_topics", "words_per_topic", "same", "cross", "mask", "gap")
        return pd.DataFrame({name: [getattr(self, name)] for name in names})


def optimal_value_matrix(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
) -> ValueMatrix:
    """Return the optimal value matrix: one-hot embedding, uniform attention, squared loss (P1's case 2).

    *Proved*: of all matrices without excess loss it is the one of smallest Frobenius norm, for documents of any number
    of topics below ``n_topics``, infinitely long::

        cross = -( a^2 / c + (1 - a) q / c ) / D,    same = cross + 1 / (c v),    mask = a / D

    with a, c, q of :class:`MaskingRates` and ``D = a^2 T v + (1 - a)^2``. There is no bias. Nothing is proved here of
    cross-entropy, whose optimum has the same shape and other values.

    Args:
        n_topics: T, at least 2.
        words_per_topic: v.
        mask_rate: p_m, in (0, 1].
        keep_rate: p_c.
        random_rate: p_r.

    Raises:
        TypeError, ValueError: if an argument is out of its range.

    Examples:
        >>> optimum = optimal_value_matrix(2, 1, mask_rate=0.5, keep_rate=0.0, random_rate=0.0)
        >>> round(optimum.gap, 12), optimum.matrix().round(3).tolist()
        (2.0, [[1.333, -0.667, 0.667], [-0.667, 1.333, 0.667]])
    """
    require_topics(n_topics, words_per_topic)
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    n_words = n_topics * words_per_topic
    a, c, q = rates.mask_share, rates.word_share, rates.noise_share(n_words)
    determinant = a**2 * n_words + (1 - a) ** 2
    cross = -(a**2 + (1 - a) * q) / (c * determinant)
    return ValueMatrix(
        n_topics, words_per_topic, same=cross + 1 / (c * words_per_topic), cross=cross, mask=a / determinant
    )


def numerical_value_matrix(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    *,
    topics_per_document: int = 1,
) -> Float[np.ndarray, "output_word input_word"]:
    """Return the same optimum, W [T v, T v + 1], without the closed form: least squares over all topic sets.

    *Computed*: the least-norm solution by pseudo-inverse, one equation per topic set, in expectation over masking in
    the limit of infinite documents.

    Args:
        n_topics: T.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.
        topics_per_document: tau, in 1 .. T - 1.

    Raises:
        ValueError: if an argument is out of its range, or there are more than 5,000 topic sets.
    """
    require_topics(n_topics, words_per_topic)
    shown, targets = _documents(
        n_topics, words_per_topic, MaskingRates(mask_rate, keep_rate, random_rate), topics_per_document
    )
    return (np.linalg.pinv(shown) @ targets).T


@dataclass(frozen=True)
class EmbeddingGram:
    """E = W_E W_E^T of the smallest embedding without excess loss: one value per class of pair."""

    n_topics: int
    """T."""
    words_per_topic: int
    """v."""
    same: float
    """Product of embeddings of one topic, of a word with itself included."""
    cross: float
    """Product of embeddings of different topics."""
    mask: float
    """Product of a word's embedding and that of [MASK]."""
    mask_square: float
    """Product of the embedding of [MASK] with itself."""

    @property
    def gap(self) -> float:
        """``same - cross``: 1 / (c v), as of the value matrix, and as of the topic means of any optimum."""
        return self.same - self.cross

    def matrix(self) -> Float[np.ndarray, "word word"]:
        """Return E [T v + 1, T v + 1], [MASK] last; symmetric, no negative eigenvalue, rank T."""
        matrix = _blocks(self, mask_row=True)
        matrix[-1] = self.mask
        matrix[-1, -1] = self.mask_square
        return matrix


def optimal_embedding_gram(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
) -> EmbeddingGram:
    """Return E = W_E W_E^T of an optimal embedding: value matrix the identity, uniform attention (P1's case 1).

    *Proved*, for tied weights, squared loss, no bias and infinite documents of any number of topics below
    ``n_topics``: every E without excess loss has, in each row, the gap 1 / (c v) between the *mean* over the word's own
    topic and the mean over any other. Single entries, the diagonal among them, are free, so E itself is not unique.
    Of all of them this one has the smallest trace, that is the smallest Frobenius norm of W_E::

        sum of a word's row over all words = 1 / sqrt(D),  mask = (1 - (1 - a) / sqrt(D)) / (T v a)

    (by symmetry the smallest one can be taken equal within classes of pairs; two unknowns are left, and one equation).
    It takes ``d_model >= n_topics``.

    *Not proved*: that gradient descent on W_E comes to this one. From a start that is not small it does not.

    Args:
        n_topics: T, at least 2.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.

    Raises:
        TypeError, ValueError: if an argument is out of its range.

    Examples:
        >>> gram = optimal_embedding_gram(10, 10)
        >>> round(gram.gap * 10 * (1 - 0.9 * 0.15), 12)
        1.0
    """
    require_topics(n_topics, words_per_topic)
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    n_words = n_topics * words_per_topic
    a, c = rates.mask_share, rates.word_share
    root = math.sqrt(a**2 * n_words + (1 - a) ** 2)
    row_sum = 1 / root
    # (1 - (1 - a) / root) / (n_words a), without the difference of nearly equal numbers when a is small.
    mask = a / (root * (root + 1 - a))
    cross = (row_sum - 1 / c) / n_words
    return EmbeddingGram(
        n_topics,
        words_per_topic,
        same=cross + 1 / (c * words_per_topic),
        cross=cross,
        mask=mask,
        mask_square=mask**2 * n_words * root,
    )


@dataclass(frozen=True)
class PopulationLoss:
    """The expected loss per masked position over infinite documents."""

    total: float
    """The loss; squared error summed over words, or cross-entropy in nats."""
    irreducible: float
    """The loss of the true distribution of the document's words, P: ``1 - 1 / (tau v)``, or ``log(tau v)``.

    A model with uniform attention cannot do better. One whose queries know what they show can, because a masked
    position shows its own word with probability ``keep_rate``: its ``excess`` may be below 0.
    """

    @property
    def excess(self) -> float:
        """``total - irreducible``."""
        return self.total - self.irreducible


def population_loss(
    model: Any,
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    *,
    topics_per_document: int = 1,
    loss: Literal["squared", "cross_entropy"] = "squared",
) -> PopulationLoss:
    """Return the expected loss of a model, or of a value matrix, over infinitely long documents.

    *Computed*, exactly up to rounding: all topic sets are gone through, and what a masked position shows ([MASK], its
    own word, a random word) is averaged over. A query that shows word s attends to word k with weight
    ``x_k exp(score[s, k])``, normalised, where x is what the document shows.

    Args:
        model: a matrix W [T v, T v + 1] (or with a last row for [MASK], which is left out), with uniform attention; a
            pair (W, scores), with scores [T v + 1, T v + 1] of queries (rows) and keys before the softmax; or a model
            of one attention layer, read off as :func:`logits_and_scores` does. [MASK] is word number T v.
        n_topics: T.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.
        topics_per_document: tau, in 1 .. T - 1.
        loss: ``"squared"`` (against the one-hot true word, summed over words) or ``"cross_entropy"``.

    Raises:
        ValueError: if an argument is out of its range, a matrix has another shape, there are more than 5,000 topic
            sets, or the model's logits are no attention-weighted mean.
        TypeError: if ``model`` is none of these.

    Examples:
        >>> optimum = optimal_value_matrix(4, 3)
        >>> loss = population_loss(optimum.matrix(), 4, 3, topics_per_document=2)
        >>> round(loss.total, 12) == round(1 - 1 / 6, 12), abs(loss.excess) < 1e-12
        (True, True)
    """
    require_topics(n_topics, words_per_topic)
    require_one_of("loss", loss, ("squared", "cross_entropy"))
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    n_words = n_topics * words_per_topic
    logits, scores = as_logits_and_scores(model, n_words)
    shown, targets = _documents(n_topics, words_per_topic, rates, topics_per_document)
    per_set = [_loss_of(x, target, logits, scores, rates, loss) for x, target in zip(shown, targets, strict=True)]
    size = topics_per_document * words_per_topic
    return PopulationLoss(
        total=float(np.mean(per_set)), irreducible=1 - 1 / size if loss == "squared" else math.log(size)
    )


@dataclass(frozen=True)
class OptimalAttention:
    """The attention weights, before normalising, that suit the optimal value matrix best."""

    n_topics: int
    """T."""
    words_per_topic: int
    """v."""
    same_word: float
    """Weight of a key that is the query's own word; ``other_topic`` is 1."""
    same_topic: float
    """Weight of a key that is another word of the query's topic."""
    mask: float
    """Weight of a key that is [MASK]."""
    loss: PopulationLoss
    """At these weights."""
    uniform_loss: PopulationLoss
    """Under uniform attention, all weights 1."""
    other_topic: float = 1.0
    """Weight of a key of another topic, and of every word for the query [MASK]: the unit."""

    @property
    def at_bound(self) -> bool:
        """Whether a weight ran to the end of what was searched, exp(-20) to exp(20): there is no finite optimum."""
        logs = np.log([self.same_topic, self.mask])
        return bool((np.abs(logs) > _MOST_LOG_WEIGHT - 1e-6).any())

    def scores(self) -> Float[np.ndarray, "query_word key_word"]:
        """Return [T v + 1, T v + 1] the logarithms of the weights, queries in rows, [MASK] last."""
        return _scores(self.n_topics, self.words_per_topic, *np.log([self.same_word, self.same_topic, self.mask]))

    def to_frame(self) -> pd.DataFrame:
        """Return one row: the settings, the four weights, ``loss`` and ``uniform_loss`` (totals), ``excess``."""
        import pandas as pd

        names = ("n_topics", "words_per_topic", "same_word", "same_topic", "other_topic", "mask")
        row = {name: [getattr(self, name)] for name in names}
        losses = {"loss": self.loss.total, "uniform_loss": self.uniform_loss.total, "excess": self.loss.excess}
        return pd.DataFrame({**row, **{name: [value] for name, value in losses.items()}})


def optimal_attention(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    *,
    topics_per_document: int = 1,
) -> OptimalAttention:
    """Return the best attention for the optimal value matrix: the second stage of training (P1).

    The value matrix is fixed at :func:`optimal_value_matrix`. A query that shows a word pays one weight each to keys of
    the same word, the same topic, another topic (1, the unit) and [MASK]; a query that shows [MASK] knows no topic and
    pays 1 to every word, and to [MASK] the same weight as other queries do.

    *Computed*: the minimum of the squared population loss (infinite documents, masked positions only) over the
    logarithms of these weights, by L-BFGS-B from uniform attention. *Proved*: with this value matrix, whose entries are
    equal within a topic, the loss depends on ``same_word + (v - 1) same_topic`` only, because all words of a topic are
    shown equally often; the two are not told apart, and the point with ``same_word == same_topic`` is returned. Not
    proved: that the minimum is the only one, or that training finds it.

    Why the own topic gains: a masked position that shows its own word (``keep_rate``) is better answered with that
    word's topic; one that shows a random word (``random_rate``) pulls the other way. In documents of one topic nothing
    is
    gained: every answer is that topic, and uniform attention is optimal.

    Args:
        n_topics: T.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.
        topics_per_document: tau, in 1 .. T - 1.

    Raises:
        ValueError: if an argument is out of its range, or masked positions always show [MASK], so that no query
            knows its topic.
    """
    from scipy.optimize import minimize

    value = optimal_value_matrix(n_topics, words_per_topic, mask_rate, keep_rate, random_rate).matrix()
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    if rates.keep_rate + rates.random_rate == 0:
        raise ValueError("keep_rate + random_rate must be above 0, got 0: no masked position would show a word")
    require_topics_per_document(topics_per_document, n_topics)
    # By symmetry every topic set has the same loss, so one is enough.
    shown, target = _shown_and_target(n_topics, words_per_topic, rates, range(topics_per_document))

    def total(logs: np.ndarray) -> float:
        scores = _scores(n_topics, words_per_topic, logs[0], logs[0], logs[1])
        return _loss_of(shown, target, value, scores, rates, "squared")

    bounds = [(-_MOST_LOG_WEIGHT, _MOST_LOG_WEIGHT)] * 2
    found = minimize(total, np.zeros(2), method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10})
    own, mask = (float(np.exp(log)) for log in found.x)
    floor = 1 - 1 / (topics_per_document * words_per_topic)
    return OptimalAttention(
        n_topics,
        words_per_topic,
        same_word=own,
        same_topic=own,
        mask=mask,
        loss=PopulationLoss(total(found.x), floor),
        uniform_loss=PopulationLoss(total(np.zeros(2)), floor),
    )


def _blocks(values: ValueMatrix | EmbeddingGram, *, mask_row: bool) -> Float[np.ndarray, "output_word input_word"]:
    n_words = values.n_topics * values.words_per_topic
    topics = np.arange(n_words) // values.words_per_topic
    matrix = np.zeros((n_words + mask_row, n_words + 1))
    matrix[:n_words, :n_words] = np.where(topics[:, None] == topics, values.same, values.cross)
    matrix[:n_words, n_words] = values.mask
    return matrix


def _scores(n_topics: int, words_per_topic: int, same_word: float, same_topic: float, mask: float) -> np.ndarray:
    n_words = n_topics * words_per_topic
    topics = np.arange(n_words) // words_per_topic
    scores = np.zeros((n_words + 1, n_words + 1))
    scores[:n_words, :n_words] = np.where(topics[:, None] == topics, same_topic, 0.0)
    np.fill_diagonal(scores[:n_words, :n_words], same_word)
    scores[:, n_words] = mask
    return scores


def _documents(
    n_topics: int, words_per_topic: int, rates: MaskingRates, topics_per_document: int
) -> tuple[Float[np.ndarray, "document input_word"], Float[np.ndarray, "document word"]]:
    """Return what a document of each topic set shows, and the distribution of its words."""
    require_topics_per_document(topics_per_document, n_topics)
    n_sets = math.comb(n_topics, topics_per_document)
    if n_sets > _MOST_SETS:
        raise ValueError(
            f"topics_per_document must leave at most {_MOST_SETS:,} topic sets, got {n_sets:,} "
            f"for {topics_per_document} of {n_topics} topics: take fewer of either"
        )
    pairs = [
        _shown_and_target(n_topics, words_per_topic, rates, chosen)
        for chosen in itertools.combinations(range(n_topics), topics_per_document)
    ]
    return np.array([shown for shown, _ in pairs]), np.array([target for _, target in pairs])


def _shown_and_target(
    n_topics: int, words_per_topic: int, rates: MaskingRates, chosen: Any
) -> tuple[Float[np.ndarray, " input_word"], Float[np.ndarray, " word"]]:
    target = np.zeros((n_topics, words_per_topic))
    target[list(chosen)] = 1 / (len(chosen) * words_per_topic)
    target = target.ravel()
    words = rates.word_share * target + rates.noise_share(len(target))
    return np.append(words, rates.mask_share), target


def _loss_of(
    shown: Float[np.ndarray, " input_word"],
    target: Float[np.ndarray, " word"],
    logits: Float[np.ndarray, "word input_word"],
    scores: Float[np.ndarray, "query_word input_word"] | None,
    rates: MaskingRates,
    loss: str,
) -> float:
    """Return the expected loss of a masked position in one document; the query knows only what it shows."""
    if scores is None:
        outputs = np.broadcast_to(logits @ shown, (len(shown), len(target)))
    else:
        weights = shown * np.exp(scores - scores.max(axis=1, keepdims=True))
        outputs = (weights / weights.sum(axis=1, keepdims=True)) @ logits.T
    if loss == "squared":
        # |output - one-hot of w|^2 = constant of the query - 2 output[w]
        constant, of_word = (outputs**2).sum(axis=1) + 1, -2 * outputs
    else:
        largest = outputs.max(axis=1, keepdims=True)
        constant = np.log(np.exp(outputs - largest).sum(axis=1)) + largest[:, 0]
        of_word = -outputs
    expected = constant + of_word @ target
    n_words = len(target)
    own = float(target @ (constant[:n_words] + np.diagonal(of_word)[:n_words]))
    return (
        rates.hidden_rate * float(expected[n_words])
        + rates.keep_rate * own
        + rates.random_rate * float(expected[:n_words].mean())
    )
