"""The documents of a toy corpus in one array, and batches of them in an order that a seed decides."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import CorpusError
from ..corpora import CorpusLike, as_corpus
from ..corpora._lda import LdaCorpus

_DRAWN_TOGETHER = 2048
"""Documents of a known topic model that are drawn at a time."""


@dataclass(frozen=True)
class Bag:
    """Documents one after the other, without pads."""

    tokens: np.ndarray
    """[token] int64 word ids of all documents."""
    lengths: np.ndarray
    """[document] int64 tokens of each; at least 1."""

    @property
    def document(self) -> np.ndarray:
        """[token] the document that each token stands in."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """[document] where each begins in ``tokens``."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def place(self) -> np.ndarray:
        """[token] position within its document."""
        return np.arange(len(self.tokens)) - np.repeat(self.starts, self.lengths)

    def take(self, documents: np.ndarray) -> Bag:
        """Return some of the documents, in the order asked for; one asked for twice comes twice."""
        lengths = self.lengths[documents]
        shift = self.starts[documents] - (np.cumsum(lengths) - lengths)
        where = np.repeat(shift, lengths) + np.arange(lengths.sum())
        return Bag(self.tokens[where].astype(np.int64), lengths)


def read_documents(corpus: CorpusLike, n_words: int | None) -> Bag:
    """Return all documents of a corpus of word ids, 4 bytes a token; empty ones are left out.

    Args:
        corpus: documents of token ids.
        n_words: ids must be below it; None for any.

    Raises:
        CorpusError: if a document is text or holds an id outside the vocabulary, or if nothing is left.
    """
    documents = as_corpus(corpus)
    if isinstance(documents, LdaCorpus):  # its ids come as arrays, and are its own words 0 .. n_words-1
        if n_words is not None and documents.n_words > n_words:
            raise CorpusError(
                f"the corpus {documents.name!r} has {documents.n_words} words, and the model {n_words}: make the model "
                "with a larger n_words"
            )
        drawn = [(batch.token_ids[batch.mask], batch.lengths) for batch in documents.batches(_DRAWN_TOGETHER)]
        return Bag(np.concatenate([ids for ids, _ in drawn], dtype=np.int32), np.concatenate([n for _, n in drawn]))
    pieces: list[np.ndarray] = []
    for document in documents:
        if document.token_ids is None:
            raise CorpusError(
                f"document {document.id!r} of the corpus {documents.name!r} is text, and a toy model reads word ids: "
                "use topic_probes.corpora.lda, or a list of sequences of word ids"
            )
        ids = np.asarray(document.token_ids, dtype=np.int64)
        if len(ids) and (ids.min() < 0 or (n_words is not None and ids.max() >= n_words)):
            limit = "at least 0" if n_words is None else f"in 0 .. {n_words - 1}"
            raise CorpusError(
                f"word ids of the corpus {documents.name!r} must be {limit}, got {ids.min()} to {ids.max()} in "
                f"document {document.id!r}: make the model with a larger n_words"
            )
        if len(ids):
            pieces.append(ids.astype(np.int32))
    if not pieces:
        raise CorpusError(f"the corpus {documents.name!r} has no document with a word in it: give more documents")
    return Bag(np.concatenate(pieces), np.array([len(piece) for piece in pieces], dtype=np.int64))


def fingerprint(bag: Bag) -> str:
    """Return eight hexadecimal digits that tell one set of documents from another."""
    return f"{zlib.crc32(bag.lengths.tobytes(), zlib.crc32(np.ascontiguousarray(bag.tokens).tobytes())):08x}"


class Order:
    """The documents of each step: epoch after epoch, each in an order of its own.

    The order is a function of the seed and the step alone, so that a resumed run needs no memory of it.
    """

    def __init__(self, n_documents: int, batch_size: int, seed: int) -> None:
        self._n, self._batch_size, self._seed = n_documents, batch_size, seed
        self._epoch: tuple[int, Any] = (-1, None)

    def __call__(self, step: int) -> np.ndarray:
        """Return the [batch] numbers of the documents of a step."""
        drawn = np.arange(step * self._batch_size, (step + 1) * self._batch_size)
        epochs, places = np.divmod(drawn, self._n)
        found = [self._permutation(epoch)[places[epochs == epoch]] for epoch in np.unique(epochs).tolist()]
        return np.concatenate(found)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._epoch[0] != epoch:
            self._epoch = epoch, np.random.default_rng([self._seed, 1, epoch]).permutation(self._n)
        return self._epoch[1]
