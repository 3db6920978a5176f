"""Documents drawn from a topic model that is known: latent Dirichlet allocation, and its uniform cousin.

There are ``n_topics * words_per_topic`` words, numbered topic by topic from 0. Each topic says its words with equal
probability. Two models of a document (Li et al. 2023):

``alpha``                 proportions of topics from a symmetric Dirichlet; each position draws a topic, then a word
``topics_per_document``   exactly that many topics, all sets alike, in equal proportions (the model of their theory)

Documents are drawn in chunks, each from a seed of its own, so any of them can be had without those before it, and
none is kept. Document ``k`` is the same whatever ``n_documents`` is.

The Dirichlet is drawn in log space. A gamma variate of shape ``alpha`` is one of shape ``alpha + 1`` times
``U ** (1 / alpha)`` with U uniform; for small ``alpha`` that product is 0 in floating point, its logarithm is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._validation import require_count, require_fraction
from ._document import Corpus, Document

_CHUNK = 256
"""Documents that share a seed; part of what a seed means, so it never changes."""
_CHUNKS_KEPT = 4
_STEPS = 2**40
"""Topics are chosen by whole numbers below this: added to the number of a document in its chunk they stay exact."""
_MOST_WORDS, _LONGEST = 1_000_000, 1 << 16
"""Limits of what a chunk takes: a few hundred megabytes at the most."""


@dataclass(frozen=True)
class LdaBatch:
    """Some documents as arrays, padded at the end, with what they were drawn from."""

    token_ids: Int[np.ndarray, "document pos"]
    """[document, pos] word numbers; ``pad_id`` from the end of a document on."""
    lengths: Int[np.ndarray, " document"]
    """[document] number of words."""
    topics: Int[np.ndarray, "document pos"]
    """[document, pos] the topic that each word was drawn from; meaningless where ``mask`` is False."""
    proportions: Float[np.ndarray, "document topic"]
    """[document, topic] true proportions of topics; rows sum to 1."""

    @property
    def mask(self) -> Bool[np.ndarray, "document pos"]:
        """[document, pos] True where there is a word, False where there is padding."""
        return np.arange(self.token_ids.shape[1]) < self.lengths[:, None]


class LdaCorpus(Corpus):
    """Documents of a known topic model, made by :func:`lda`; re-iterable, and none is kept.

    Besides the documents it knows the truth::

        labels = topic_probes.TopicLabels.from_dict(corpus.topics_of, n_topics=corpus.n_topics)
        model = topic_probes.TopicModel.from_matrix(corpus.word_probabilities, corpus.vocabulary, corpus.prior)

    Attributes:
        n_documents: number of documents; also ``len(corpus)``.
        n_topics: number of topics.
        words_per_topic: words that have a topic as their first one.
        n_words: number of words, ``n_topics * words_per_topic``; token ids are 0 .. n_words - 1.
        topics_of: token id -> the topics that can say it, sorted.
        word_probabilities: [topic, word] P(word | topic), read-only.
        prior: [topic] expected proportions of topics, read-only.
        vocabulary: [word] the token ids as strings, for what asks for names.
        alpha: of the Dirichlet; without meaning when ``topics_per_document`` is given.
        topics_per_document: number of topics of each document, or None for the Dirichlet.
        lengths: the shortest and the longest document, in words.
        seed: what all draws are made from.
    """

    def __init__(self, settings: _Settings, n_documents: int) -> None:
        super().__init__(self._documents, name=f"lda(seed={settings.seed})", n_documents=n_documents)
        self._settings = settings
        self._chunk = lru_cache(maxsize=_CHUNKS_KEPT)(settings.draw)
        self.n_documents = n_documents
        self.n_topics = settings.n_topics
        self.words_per_topic = settings.words_per_topic
        self.n_words = settings.n_topics * settings.words_per_topic
        self.alpha = settings.alpha
        self.topics_per_document = settings.topics_per_document
        self.lengths = settings.lengths
        self.seed = settings.seed
        support = settings.support
        probabilities = np.zeros((self.n_topics, self.n_words))
        np.put_along_axis(probabilities, support, 1 / support.shape[1], axis=1)
        self.word_probabilities: Float[np.ndarray, "topic word"] = _read_only(probabilities)
        self.prior: Float[np.ndarray, " topic"] = _read_only(np.full(self.n_topics, 1 / self.n_topics))
        self.topics_of: dict[int, tuple[int, ...]] = {
            word: tuple(np.flatnonzero(probabilities[:, word]).tolist()) for word in range(self.n_words)
        }
        self.vocabulary: tuple[str, ...] = tuple(map(str, range(self.n_words)))

    def __len__(self) -> int:
        return self.n_documents

    def __getstate__(self) -> dict[str, Any]:
        # The cache cannot go to another process, and need not.
        return {"settings": self._settings, "n_documents": self.n_documents}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LdaCorpus.__init__(self, state["settings"], state["n_documents"])

    def take(self, indices: Iterable[int] | np.ndarray, *, pad_id: int = 0) -> LdaBatch:
        """Return the documents of these numbers as one padded batch, in the order asked for.

        Only the chunks of 256 documents that hold them are drawn; neighbours cost nothing more.

        Args:
            indices: numbers of documents, each in 0 .. n_documents - 1; repetitions are allowed.
            pad_id: what stands beyond the end of a document. It is a word unless ``mask`` is heeded.

        Raises:
            IndexError: if there is no such document.

        Examples:
            >>> batch = lda(n_topics=2, words_per_topic=3, lengths=(2, 4), n_documents=10).take([7, 0])
            >>> batch.token_ids.shape[0], batch.mask.sum(axis=1).tolist() == batch.lengths.tolist()
            (2, True)
        """
        wanted = np.asarray(indices if isinstance(indices, (np.ndarray, Sequence)) else list(indices))
        if wanted.size == 0:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(f"indices must be whole numbers in a row, got an array of {wanted.dtype} {wanted.shape}")
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.n_documents):
            wrong = wanted[(wanted < 0) | (wanted >= self.n_documents)][0]
            raise IndexError(f"indices must be in 0 .. {self.n_documents - 1} (n_documents - 1), got {wrong}")
        lengths = np.zeros(len(wanted), dtype=np.int64)
        proportions = np.zeros((len(wanted), self.n_topics))
        pieces = []
        chunks = wanted // _CHUNK
        for chunk in np.unique(chunks).tolist():
            rows = np.flatnonzero(chunks == chunk)
            drawn, inside = self._chunk(chunk), wanted[rows] % _CHUNK
            lengths[rows], proportions[rows] = drawn.lengths[inside], drawn.proportions[inside]
            pieces.append((rows, drawn, inside))
        longest = int(lengths.max(initial=0))
        token_ids = np.full((len(wanted), longest), pad_id, dtype=np.int64)
        topics = np.zeros((len(wanted), longest), dtype=np.int64)
        for rows, drawn, inside in pieces:
            width = min(longest, drawn.token_ids.shape[1])
            there = np.arange(width) < drawn.lengths[inside][:, None]
            token_ids[rows, :width] = np.where(there, drawn.token_ids[inside, :width], pad_id)
            topics[rows, :width] = np.where(there, drawn.topics[inside, :width], 0)
        return LdaBatch(token_ids, lengths, topics, proportions)

    def batches(self, batch_size: int, *, start: int = 0, repeat: bool = False, pad_id: int = 0) -> Iterator[LdaBatch]:
        """Yield batches of consecutive documents, for training.

        Documents are independent draws, so an order of its own would shuffle nothing.

        Args:
            batch_size: documents a batch; without ``repeat`` the last one may be smaller.
            start: number of the first document, to go on where a run stopped.
            repeat: begin again at document 0 after the last one, without end; every batch is then whole.
            pad_id: see :meth:`take`.

        Raises:
            TypeError, ValueError: if ``batch_size`` is not at least 1, or ``start`` is negative.
        """
        require_count("batch_size", batch_size)
        require_count("start", start, minimum=0)
        return self._batches(batch_size, start, repeat, pad_id)

    def _batches(self, batch_size: int, start: int, repeat: bool, pad_id: int) -> Iterator[LdaBatch]:
        while repeat or start < self.n_documents:
            numbers = np.arange(start, start + batch_size)
            yield self.take(
                numbers % self.n_documents if repeat else numbers[numbers < self.n_documents], pad_id=pad_id
            )
            start += batch_size

    def _documents(self) -> Iterator[Document]:
        for chunk in range(-(-self.n_documents // _CHUNK)):
            drawn = self._settings.draw(chunk)
            for row in range(min(_CHUNK, self.n_documents - chunk * _CHUNK)):
                ids = drawn.token_ids[row, : drawn.lengths[row]].tolist()
                yield Document(id=f"lda {self.seed}.{chunk * _CHUNK + row}", token_ids=tuple(ids))


@dataclass(frozen=True)
class _Settings:
    """All that a draw depends on."""

    n_topics: int
    words_per_topic: int
    n_shared: int
    alpha: float
    topics_per_document: int | None
    lengths: tuple[int, int]
    seed: int

    @property
    def support(self) -> Int[np.ndarray, "topic slot"]:
        """[topic, slot] the words that a topic can say: its own, and the shared ones of the topic before it."""
        first = np.arange(self.n_topics)[:, None] * self.words_per_topic
        own = first + np.arange(self.words_per_topic)
        return np.concatenate([own, np.roll(first, 1, axis=0) + np.arange(self.n_shared)], axis=1)

    def draw(self, chunk: int) -> LdaBatch:
        """Return one chunk, padded; what stands in the padding is not defined."""
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(chunk,)))
        low, high = self.lengths
        shape = (_CHUNK, high)
        lengths = generator.integers(low, high, size=_CHUNK, endpoint=True)
        if self.topics_per_document is None:
            proportions = self._dirichlet(generator)
            topics = _choose(proportions, generator.integers(_STEPS, size=shape))
        else:
            count = self.topics_per_document
            # The places of the smallest of independent draws are a set of that size, all sets alike.
            chosen = np.argpartition(generator.random((_CHUNK, self.n_topics)), count - 1, axis=1)[:, :count]
            proportions = np.zeros((_CHUNK, self.n_topics))
            np.put_along_axis(proportions, chosen, 1 / count, axis=1)
            topics = np.take_along_axis(chosen, generator.integers(count, size=shape), axis=1)
        support = self.support
        token_ids = support[topics, generator.integers(support.shape[1], size=shape)]
        return LdaBatch(token_ids, lengths, topics, proportions)

    def _dirichlet(self, generator: np.random.Generator) -> Float[np.ndarray, "document topic"]:
        shape = (_CHUNK, self.n_topics)
        logs = np.log(generator.gamma(self.alpha + 1, size=shape)) - generator.exponential(size=shape) / self.alpha
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


def _choose(
    proportions: Float[np.ndarray, "document topic"], draws: Int[np.ndarray, "document pos"]
) -> Int[np.ndarray, "document pos"]:
    """Return for each draw in 0 .. _STEPS - 1 the topic in whose part of the whole it falls; parts of 0 are not hit."""
    n_documents, n_topics = proportions.shape
    ends = np.cumsum(proportions, axis=1)
    # Rounding may leave the last end a little short; it lies beyond every draw, which stops one step before 1.
    ends[:, -1] = 1.0
    number = np.arange(n_documents)[:, None]
    flat = np.searchsorted((ends + number).ravel(), (draws / _STEPS + number).ravel(), side="right")
    return flat.reshape(draws.shape) - number * n_topics


def lda(
    n_topics: int = 10,
    words_per_topic: int = 10,
    alpha: float = 0.1,
    lengths: int | tuple[int, int] = (100, 150),
    n_documents: int = 1000,
    seed: int = 0,
    *,
    topics_per_document: int | None = None,
    overlap: float = 0.0,
) -> LdaCorpus:
    """Return documents drawn from a topic model that is known, for experiments with a known answer.

    With the defaults these are the synthetic documents of Li et al. (2023): 10 topics of 10 words, ``alpha`` 0.1, 100
    to 150 words. A document holds ``token_ids`` in 0 .. n_words - 1 and no text; a mask token, if a model has one, is
    number ``n_words``. Two passes give the same documents.

    Args:
        n_topics: number of topics.
        words_per_topic: number of words that each topic brings; topic t has the ids from ``t * words_per_topic`` on.
        alpha: of the symmetric Dirichlet, in [1e-100, 1e100]: small for documents of nearly one topic, large for
            documents of all. Of no effect when ``topics_per_document`` is given.
        lengths: the shortest and the longest document, in words, all lengths between alike; or one number.
        n_documents: number of documents; memory does not grow with it.
        seed: a whole number of at least 0; every draw is made from it.
        topics_per_document: exactly this many topics in equal proportions, instead of the Dirichlet.
        overlap: share, in [0, 1], of each topic's words that the next topic (after the last, the first) says as
            well, rounded to whole words. Such a word has two topics, and each topic then says
            ``words_per_topic * (1 + overlap)`` words, all alike.

    Raises:
        TypeError, ValueError: if an argument is out of its range.

    Examples:
        >>> corpus = lda(n_topics=3, words_per_topic=4, lengths=5, n_documents=2, topics_per_document=1)
        >>> [len(document.token_ids) for document in corpus]
        [5, 5]
        >>> {word // 4 for word in next(iter(corpus)).token_ids} == set(corpus.take([0]).topics[0].tolist())
        True
        >>> lda(n_topics=3, words_per_topic=4, overlap=0.25).topics_of[4]
        (1, 2)
    """
    require_count("n_topics", n_topics)
    require_count("words_per_topic", words_per_topic)
    require_count("n_documents", n_documents)
    require_count("seed", seed, minimum=0)
    if n_topics * words_per_topic > _MOST_WORDS:
        raise ValueError(
            f"n_topics * words_per_topic must be at most {_MOST_WORDS:,}, got {n_topics} * {words_per_topic}"
        )
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(f"alpha must be a number, got {alpha!r}: only a symmetric Dirichlet is drawn")
    if not 1e-100 <= float(alpha) <= 1e100:
        raise ValueError(f"alpha must be in [1e-100, 1e100], got {alpha!r}: for one topic each, topics_per_document=1")
    if topics_per_document is not None:
        require_count("topics_per_document", topics_per_document)
        if topics_per_document > n_topics:
            raise ValueError(f"topics_per_document must be at most n_topics ({n_topics}), got {topics_per_document}")
    require_fraction("overlap", overlap)
    n_shared = round(float(overlap) * words_per_topic)
    if n_shared and n_topics == 1:
        raise ValueError(f"overlap must be 0 when there is one topic, got {overlap!r}: no other topic can share words")
    settings = _Settings(
        n_topics=int(n_topics),
        words_per_topic=int(words_per_topic),
        n_shared=n_shared,
        alpha=float(alpha),
        topics_per_document=None if topics_per_document is None else int(topics_per_document),
        lengths=_as_lengths(lengths),
        seed=int(seed),
    )
    return LdaCorpus(settings, int(n_documents))


def _as_lengths(lengths: Any) -> tuple[int, int]:
    both = tuple(lengths) if isinstance(lengths, (tuple, list)) else (lengths, lengths)
    if len(both) != 2:
        raise ValueError(f"lengths must be one number or (shortest, longest), got {lengths!r}")
    for length in both:
        require_count("lengths", length)
    low, high = map(int, both)
    if low > high:
        raise ValueError(f"lengths must be (shortest, longest), got {lengths!r}: the first is the larger")
    if high > _LONGEST:
        raise ValueError(f"lengths must be at most {_LONGEST:,} words, got {lengths!r}")
    return low, high


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
