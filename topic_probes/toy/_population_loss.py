"""The expected loss of a given model over infinitely long documents: computed, exactly up to rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from .._validation import require_one_of
from ._infinite_documents import all_documents
from ._masking_rates import MaskingRates, require_topics
from ._matrices import as_logits_and_scores


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
        >>> from topic_probes.toy import optimal_value_matrix
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
    shown, targets = all_documents(n_topics, words_per_topic, rates, topics_per_document)
    per_set = [loss_of(x, target, logits, scores, rates, loss) for x, target in zip(shown, targets, strict=True)]
    size = topics_per_document * words_per_topic
    return PopulationLoss(
        total=float(np.mean(per_set)), irreducible=1 - 1 / size if loss == "squared" else math.log(size)
    )


def loss_of(
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
