"""The three rates of masked language modelling, and what they make of the words of an infinite document.

A position is masked with probability ``mask_rate`` (p_m); a masked one shows its own word with ``keep_rate`` (p_c), a
random word with ``random_rate`` (p_r), else [MASK]. In an infinite document with word probabilities P, the share of
each word among the keys is then ``c P + q``, and that of [MASK] is a.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._validation import require_count, require_fraction


@dataclass(frozen=True)
class MaskingRates:
    """The rates of Li et al. (2023), and the shares that follow from them.

    Raises:
        ValueError: if a rate is not in [0, 1], nothing is ever masked, ``keep_rate + random_rate`` is above 1, or no
            word is ever left to be seen.
    """

    mask_rate: float = 0.15
    """Probability that a position is masked, in (0, 1]."""
    keep_rate: float = 0.1
    """Probability that a masked position shows its own word."""
    random_rate: float = 0.1
    """Probability that a masked position shows a random word, its own one among them."""

    def __post_init__(self) -> None:
        for name in ("mask_rate", "keep_rate", "random_rate"):
            require_fraction(name, getattr(self, name))
        if self.mask_rate == 0:
            raise ValueError("mask_rate must be above 0, got 0: without masked positions there is no loss")
        if self.keep_rate + self.random_rate > 1 + 1e-12:
            raise ValueError(
                "keep_rate + random_rate must be at most 1: the rest shows [MASK], "
                f"got {self.keep_rate!r} + {self.random_rate!r}"
            )
        if self.word_share <= 0:
            raise ValueError("mask_rate * (1 - keep_rate) must be below 1, got 1: no document would show its words")

    @property
    def hidden_rate(self) -> float:
        """Probability that a masked position shows [MASK]: ``1 - p_c - p_r``."""
        return max(1 - self.keep_rate - self.random_rate, 0.0)

    @property
    def mask_share(self) -> float:
        """``a``: the share of positions that show [MASK], ``p_m (1 - p_c - p_r)``."""
        return self.mask_rate * self.hidden_rate

    @property
    def word_share(self) -> float:
        """``c``: the share of positions that show their own word by intention, ``1 - p_m (1 - p_c)``."""
        return 1 - self.mask_rate * (1 - self.keep_rate)

    def noise_share(self, n_words: int) -> float:
        """Return ``q``: the share of positions that show one given word by chance, ``p_m p_r / n_words``."""
        return self.mask_rate * self.random_rate / n_words


def require_topics(n_topics: int, words_per_topic: int) -> None:
    """Raise unless there are at least two topics of at least one word."""
    require_count("n_topics", n_topics, minimum=2)
    require_count("words_per_topic", words_per_topic)


def require_topics_per_document(topics_per_document: int, n_topics: int) -> None:
    """Raise unless documents have at least one topic and lack at least one: else all are alike, nothing is learnt."""
    require_count("topics_per_document", topics_per_document)
    if topics_per_document >= n_topics:
        raise ValueError(
            f"topics_per_document must be below n_topics ({n_topics}), got {topics_per_document}: "
            "documents of all topics are all alike"
        )
