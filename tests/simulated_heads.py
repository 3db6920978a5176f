"""Documents and heads whose answers are known, counted by the package's own code.

A head is a function of a random generator and a document; it returns weights [head, query_pos, key_pos] of several
heads at once. There are two ways to measure it:

- :func:`probe_patterns`: the weights are attention patterns (rows sum to one) and go through ``PatternCounter``, as
  those of a model do.
- :func:`probe_debiased`: the weights are attention in units of uniform = 1 already, between labelled words only. Rows
  need not sum to one, so the true means are whatever the head says; and documents shrink to their labelled words, so
  thousands of them are quick. Plans, contraction, strata and permutations are the package's own here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from topic_probes import AttentionResult, TopicLabels
from topic_probes._axes import Site
from topic_probes.probes._contraction import contract
from topic_probes.probes._counting import PatternCounter, _update
from topic_probes.probes._row_plan import Positions, plan_row
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.probes._sides import EVERYTHING, Side
from topic_probes.statistics._sums import AttentionSums, group_of
from topic_probes.tokens import Window

N_UNLABELLED_WORDS = 500


@dataclass(frozen=True)
class Vocabulary:
    """Labelled words, each of one topic: word number ``topic * words_per_topic + i``."""

    probabilities: np.ndarray
    """[topic, word of the topic] P(word | topic)."""

    @classmethod
    def flat(cls, n_topics: int = 10, words_per_topic: int = 20) -> Vocabulary:
        return cls(np.full((n_topics, words_per_topic), 1 / words_per_topic))

    @classmethod
    def zipf(cls, n_topics: int = 10, words_per_topic: int = 20) -> Vocabulary:
        """The i-th word of each topic is 1/i as frequent as the first, as words are in texts."""
        ranks = 1.0 / np.arange(1, words_per_topic + 1)
        return cls(np.tile(ranks / ranks.sum(), (n_topics, 1)))

    @property
    def n_topics(self) -> int:
        return self.probabilities.shape[0]

    @property
    def n_words(self) -> int:
        return self.probabilities.size

    @property
    def labels(self) -> TopicLabels:
        per_topic = self.probabilities.shape[1]
        return TopicLabels.from_dict({word: word // per_topic for word in range(self.n_words)})

    def words(self, generator: np.random.Generator, topics: np.ndarray) -> np.ndarray:
        """[pos] a word of each topic."""
        below = np.cumsum(self.probabilities, axis=1)
        drawn = (generator.random(len(topics))[:, None] > below[topics]).sum(axis=1)
        return topics * self.probabilities.shape[1] + np.minimum(drawn, self.probabilities.shape[1] - 1)


@dataclass(frozen=True)
class Document:
    """Words of a document, or some of them with the places where they stand."""

    name: str
    words: np.ndarray
    """[pos] number of the word at each position."""
    topics: np.ndarray
    """[pos] topic that each word was drawn for; says nothing where the word is unlabelled or special."""
    is_labelled: np.ndarray
    is_special: np.ndarray
    places: np.ndarray
    """[pos] where they stand in the whole document."""

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_same(self) -> np.ndarray:
        """[query_pos, key_pos] both are labelled, and of one topic."""
        both = self.is_labelled[:, None] & self.is_labelled[None, :]
        return both & (self.topics[:, None] == self.topics[None, :])

    @property
    def distance(self) -> np.ndarray:
        """[query_pos, key_pos] in tokens."""
        return np.abs(self.places[:, None] - self.places[None, :])

    def only_labelled(self) -> Document:
        at = np.flatnonzero(self.is_labelled)
        fields = ("words", "topics", "is_labelled", "is_special", "places")
        return replace(self, **{name: getattr(self, name)[at] for name in fields})

    def window(self) -> Window:
        """The same as the package sees it: every token that is not special is a word."""
        at = np.flatnonzero(~self.is_special)
        return Window(self.name, self.words, self.is_special, tuple(self.words[at].tolist()), at, at + 1)


Head = Callable[[np.random.Generator, Document], np.ndarray]
"""To weights [head, query_pos, key_pos]."""


def mixed_lengths(generator: np.random.Generator, n: int) -> np.ndarray:
    """From 20 to 500 words, each doubling as likely as the next."""
    return np.exp(generator.uniform(np.log(20), np.log(501), n)).astype(np.int64)


def make_documents(
    generator: np.random.Generator,
    n_documents: int,
    vocabulary: Vocabulary | None = None,
    *,
    alpha: float | np.ndarray = 0.3,
    lengths: np.ndarray | None = None,
    labelled_share: float = 0.3,
    run_length: int = 1,
    with_start: bool = False,
) -> list[Document]:
    """Documents of an LDA model, with unlabelled words strewn in.

    Args:
        generator: of everything.
        n_documents: how many.
        vocabulary: the labelled words; flat frequencies unless given.
        alpha: of the Dirichlet distribution of a document's topics; a number, or one for each topic.
        lengths: [document] words of each; 20 to 500 unless given.
        labelled_share: how likely a word is labelled.
        run_length: words in a row that are of one topic: above 1 topics cluster.
        with_start: whether a special token comes first.
    """
    vocabulary = Vocabulary.flat() if vocabulary is None else vocabulary
    lengths = mixed_lengths(generator, n_documents) if lengths is None else lengths
    documents = []
    corpus = generator.integers(1 << 60)  # other corpora fall into other groups
    for number, length in enumerate(lengths.tolist()):
        mixture = generator.dirichlet(np.broadcast_to(alpha, vocabulary.n_topics))
        runs = generator.choice(vocabulary.n_topics, -(-length // run_length), p=mixture)
        topics = np.repeat(runs, run_length)[:length]
        is_labelled = generator.random(length) < labelled_share
        unlabelled = vocabulary.n_words + 1 + generator.integers(0, N_UNLABELLED_WORDS, length)
        words = np.where(is_labelled, vocabulary.words(generator, topics), unlabelled)
        is_special = np.zeros(length, dtype=np.bool_)
        if with_start:
            words, topics = np.r_[vocabulary.n_words, words], np.r_[0, topics]
            is_labelled, is_special = np.r_[False, is_labelled], np.r_[True, is_special]
        documents.append(Document(f"{corpus}-{number}", words, topics, is_labelled, is_special, np.arange(len(words))))
    return documents


def word_counts(documents: Sequence[Document]) -> dict[int, int]:
    """Occurrences of each word."""
    words, counts = np.unique(np.concatenate([document.words for document in documents]), return_counts=True)
    return dict(zip(words.tolist(), counts.tolist(), strict=True))


def probe_patterns(
    generator: np.random.Generator, documents: Sequence[Document], head: Head, measures: PairMeasures, seed: int = 0
) -> AttentionResult:
    """The result of heads that give patterns, through the counter that models go through."""
    counter = PatternCounter((0,), measures, visibility="bidirectional")
    for document in documents:
        counter.begin_batch(BatchRows([document.window()], [slice(0, len(document))], measures))
        counter.count(0, torch.from_numpy(head(generator, document))[None])
        counter.end_batch()
    assert counter.totals is not None
    return _result(counter.totals, documents, measures, seed)


def probe_debiased(
    generator: np.random.Generator, documents: Sequence[Document], head: Head, measures: PairMeasures, seed: int = 0
) -> AttentionResult:
    """The result of heads that give debiased attention between labelled words."""
    totals: AttentionSums | None = None
    for document in documents:
        labelled = document.only_labelled()
        length = len(labelled)
        if length < 2:
            continue
        weights = head(generator, labelled)
        if totals is None:
            totals = AttentionSums.empty((0,), len(weights), n_permutations=measures.n_permutations)
        side = Side.of(labelled.window(), measures.labels, labelled.places)
        at = torch.arange(length)
        plan = plan_row(
            side,
            side,
            EVERYTHING,
            Positions(at, at, length),
            measures.topic_sets,
            document=None,
            frequency_class=measures.frequency_class,
            topic_table=None,
        )
        # The plan multiplies by the keys in reach, which are the labelled words here.
        sums = contract(torch.from_numpy(weights / length), plan)
        totals.add(_update(Site("", 0), group_of(document.name), plan, sums, 0))
    assert totals is not None
    return _result(totals, documents, measures, seed)


def _result(totals: AttentionSums, documents: Sequence[Document], measures: PairMeasures, seed: int) -> AttentionResult:
    options = {"word_counts": None if measures.frequency_class is None else "given"}
    return AttentionResult(totals, {"n_documents": len(documents)}, {0: "bidirectional"}, (), options, seed)


# Heads that give debiased attention: their mean over cross-topic pairs is 1, and over same-topic pairs 1 + effect.


def noisy(n_heads: int) -> Head:
    """Independent noise in each pair, no topics."""

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        return generator.standard_exponential((n_heads, len(document), len(document)))

    return head


def varied(n_heads: int, effect: float | np.ndarray = 0.0, *, spread: float = 0.4) -> Head:
    """A head that differs from document to document and from key word to key word, and with an effect of topics.

    Args:
        n_heads: how many, independent of each other.
        effect: mean of ``ratio - 1``; a number, or one for each head.
        spread: standard deviation over documents of the logarithm of a head's level.
    """

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        n = len(document)
        level = np.exp(generator.normal(-(spread**2) / 2, spread, (n_heads, 1, 1)))
        of_document = np.reshape(effect, (-1, 1, 1)) * (1 + generator.normal(0, 0.5, (n_heads, 1, 1)))
        of_key = generator.gamma(2, 0.5, (n_heads, 1, n))
        noise = generator.standard_exponential((n_heads, n, n))
        return level * (1 + of_document * document.is_same) * of_key * noise

    return head


def near(n_heads: int, scale: float = 10.0, *, spread: float = 0.4) -> Head:
    """Attention that falls with distance, of another level in each document; no topics. Its mean is not 1."""

    def head(generator: np.random.Generator, document: Document) -> np.ndarray:
        level = np.exp(generator.normal(-(spread**2) / 2, spread, (n_heads, 1, 1)))
        noise = generator.standard_exponential((n_heads, len(document), len(document)))
        return level * (0.1 + np.exp(-document.distance / scale)) * noise

    return head


# Parts of heads that give patterns.


def normalised(weights: np.ndarray) -> np.ndarray:
    """Patterns: every row divided by its sum."""
    return weights / weights.sum(axis=-1, keepdims=True)


def with_sink(pattern: np.ndarray, share: float) -> np.ndarray:
    """The same pattern after every query has given a share of its attention to the first token."""
    sunk = (1 - share) * pattern
    sunk[..., 0] += share
    return sunk
