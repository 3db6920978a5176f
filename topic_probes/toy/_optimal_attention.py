"""The optimal attention once the value matrix is: the second stage of training. Computed, not proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._html import html_table
from ._infinite_documents import of_one_topic, shown_and_target
from ._masking_rates import MaskingRates, require_topics_per_document
from ._population_loss import PopulationLoss, loss_of
from ._value_matrix import optimal_value_matrix

if TYPE_CHECKING:
    import pandas as pd

_MOST_LOG_WEIGHT = 20.0


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

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), "OptimalAttention")


def optimal_attention(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    *,
    topics_per_document: int = 1,
) -> OptimalAttention:
    """Return the best attention for the optimal value matrix: the second stage of training.

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
    is gained: every answer is that topic, and uniform attention is optimal.

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
    shown, target = shown_and_target(n_topics, words_per_topic, rates, range(topics_per_document))

    def total(logs: np.ndarray) -> float:
        scores = _scores(n_topics, words_per_topic, logs[0], logs[0], logs[1])
        return loss_of(shown, target, value, scores, rates, "squared")

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


def _scores(n_topics: int, words_per_topic: int, same_word: float, same_topic: float, mask: float) -> np.ndarray:
    n_words = n_topics * words_per_topic
    scores = np.zeros((n_words + 1, n_words + 1))
    scores[:n_words, :n_words] = np.where(of_one_topic(n_topics, words_per_topic), same_topic, 0.0)
    np.fill_diagonal(scores[:n_words, :n_words], same_word)
    scores[:, n_words] = mask
    return scores
