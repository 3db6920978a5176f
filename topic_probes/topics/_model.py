"""A topic model: what each topic says, and from it what each word says about topics.

``word_probabilities[topic, word] = P(word | topic)``. The *share* of a topic in a word is

    ``P(topic | word) = P(word | topic) P(topic) / sum over topics``

with a uniform prior (Li et al. 2023) or the corpus prior, the expected topic proportions
of the training documents. Shares of a word add to one. A share says how well a word points to a topic,
not how often the topic uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from .._errors import CorpusError
from .._folders import read_folder, write_folder
from .._html import html_table
from .._saved import Stored
from .._validation import require_count, require_one_of
from .._words import find_words, normalise
from ..corpora import CorpusLike, as_corpus
from . import _gensim
from ._arrays import as_float64, checked_array, frozen, normalised, row_shares
from ._bags import Bags
from ._gensim import Measure, top_indices
from ._labelling import Filters, label_by_share
from ._labels import TopicLabels
from ._passages import PASSAGE_WORDS, cut_passages
from ._stop_words import resolve_stop_words

if TYPE_CHECKING:
    import pandas as pd

Prior = Literal["uniform", "corpus"]

_KIND = "topic model"
_STORED_TOP_WORDS = 10
_FACTS = {
    "vocabulary": "texts",
    "n_tokens": "a count?",
    "n_documents": "a count?",
    "history": "objects",
    "options": "an object",
}


def _stored(description: Mapping[str, Any]) -> dict[str, Stored]:
    n_words = len(description["vocabulary"])
    return {
        "word_probabilities": Stored(f"topic {n_words}"),
        "prior": Stored("topic", optional=True),
        "word_counts": Stored(f"{n_words}", whole=True, optional=True),
        "coherences": Stored("topic", finite=False, optional=True),
    }


@dataclass(frozen=True, eq=False, repr=False)
class TopicModel:
    """Topics as distributions over the words of a vocabulary.

    Made by :func:`fit_lda`, :meth:`from_gensim`, :meth:`from_matrix` or :meth:`load`. Arrays are copies, in
    float64, and read-only.

    Raises:
        ValueError: if shapes do not fit, a number is not finite or negative, a row of ``word_probabilities``
            or the prior does not sum to 1 (within 1e-6), or a word is twice in the vocabulary.

    Examples:
        >>> model = TopicModel.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], ["cat", "pet", "car"])
        >>> model.top_words(2)
        [['cat', 'pet'], ['car', 'pet']]
        >>> model.shares("cat")
        array([1., 0.])
    """

    # Plain arrays here: __post_init__ judges shapes, with a sentence.
    word_probabilities: np.ndarray
    """[topic, word] P(word | topic); rows sum to 1."""
    vocabulary: tuple[str, ...]
    """[word] the words, each once."""
    prior: np.ndarray | None = None
    """[topic] the corpus prior, the expected topic proportions of the training documents; None if not known."""
    word_counts: np.ndarray | None = None
    """[word] how often each word stands in the training corpus; None if not known."""
    n_tokens: int | None = None
    """Number of all words of the training corpus, stop words and rare words included; None if not known."""
    n_documents: int | None = None
    """Number of training documents that had usable words; None if not known."""
    coherences: np.ndarray | None = None
    """[topic] u_mass of the ten top words over the training passages; None if not known."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """After each pass of a fit: ``pass``, ``log_perplexity`` (nats per word, a bound) and mean ``u_mass``."""
    options: dict[str, Any] = field(default_factory=dict)
    """How it was made: options and seed of the fit, the word rule, versions, and counts of what was left out."""

    def __post_init__(self) -> None:
        probabilities = checked_array("word_probabilities", self.word_probabilities, n_axes=2)
        n_topics, n_words = probabilities.shape
        if not n_topics or not n_words:
            raise ValueError(f"word_probabilities must have at least one topic and one word, got {probabilities.shape}")
        vocabulary = tuple(self.vocabulary)
        if len(vocabulary) != n_words:
            raise ValueError(
                f"vocabulary must name the {n_words} columns of word_probabilities, got {len(vocabulary)} words"
            )
        if not all(isinstance(word, str) for word in vocabulary):
            raise TypeError("vocabulary must consist of strings")
        index = {word: number for number, word in enumerate(vocabulary)}
        if len(index) != n_words:
            twice = next(word for number, word in enumerate(vocabulary) if index[word] != number)
            raise ValueError(f"vocabulary must name each word once, got {twice!r} twice")
        _set(self, "word_probabilities", frozen(normalised("word_probabilities", probabilities)))
        _set(self, "vocabulary", vocabulary)
        _set(self, "_index", index)
        if self.prior is not None:
            prior = checked_array("prior", self.prior, shape=(n_topics,))
            _set(self, "prior", frozen(normalised("prior", prior[None])[0]))
        if self.word_counts is not None:
            counts = checked_array("word_counts", self.word_counts, shape=(n_words,))
            if (counts != np.floor(counts)).any():
                raise ValueError("word_counts must be whole numbers")
            _set(self, "word_counts", frozen(counts.astype(np.int64)))
        if self.coherences is not None:
            coherences = np.array(self.coherences, dtype=np.float64)
            if coherences.shape != (n_topics,):
                raise ValueError(f"coherences must have shape {(n_topics,)}, got {coherences.shape}")
            _set(self, "coherences", frozen(coherences))

    @classmethod
    def from_matrix(cls, word_probabilities: Any, vocabulary: Iterable[str], prior: Any = None) -> TopicModel:
        """Return a model from ``P(word | topic)``.

        Args:
            word_probabilities: [topic, word]; rows sum to 1.
            vocabulary: [word], lower-case if they are to be found in documents.
            prior: [topic] proportions of topics; sums to 1.

        Raises:
            ValueError: see :class:`TopicModel`.
        """
        return cls(
            as_float64("word_probabilities", word_probabilities),
            tuple(vocabulary),
            None if prior is None else as_float64("prior", prior),
            options={"origin": "from_matrix"},
        )

    @classmethod
    def from_gensim(cls, lda: Any, *, trusted: bool = False) -> TopicModel:
        """Return the model that gensim fitted.

        The corpus prior is the mean of the model's Dirichlet, ``alpha / sum(alpha)``, where it has one. Word
        counts come from its dictionary, where that counted.

        Args:
            lda: an ``LdaModel`` or another model of gensim's with ``get_topics()`` and ``id2word``, or the
                path of a saved ``LdaModel``.
            trusted: allow a path. gensim's files are pickles, and reading a pickle runs what is in it.

        Raises:
            ValueError: for a path without ``trusted=True``; if the model is not finite.
            TypeError: for another object.
        """
        options = {"origin": "from_gensim", "versions": {"gensim": _gensim.version()}}
        return cls(**_gensim.read_model(lda, trusted=trusted), options=options)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return self.word_probabilities.shape[0]

    @property
    def n_words(self) -> int:
        """Number of words of the vocabulary."""
        return self.word_probabilities.shape[1]

    def top_words(self, n: int = 10) -> list[list[str]]:
        """Return [topic] the ``n`` most likely words of each, most likely first; ties in order of the vocabulary.

        Raises:
            TypeError, ValueError: if ``n`` is not a whole number of at least 1.
        """
        require_count("n", n)
        return [[self.vocabulary[word] for word in top_indices(row, int(n))] for row in self.word_probabilities]

    def shares(self, word: str, prior: Prior = "uniform") -> Float[np.ndarray, " topic"]:
        """Return [topic] P(topic | word); NaN for a word that no topic can say.

        Args:
            word: a word of the vocabulary.
            prior: ``"uniform"`` (Li et al. 2023) or ``"corpus"``.

        Raises:
            ValueError: for a word that is not in the vocabulary, or a corpus prior that is not known.

        Examples:
            >>> model = TopicModel.from_matrix([[0.5, 0.5], [0.1, 0.9]], ["cat", "pet"], prior=[0.1, 0.9])
            >>> model.shares("cat").round(3).tolist()
            [0.833, 0.167]
            >>> model.shares("cat", prior="corpus").round(3).tolist()
            [0.357, 0.643]
        """
        index: dict[str, int] = self.__dict__["_index"]
        if word not in index:
            raise ValueError(
                f"word must be one of the {self.n_words} words of the vocabulary, {word!r} is not: rare, very "
                "frequent and stop words are left out of it, and its words are lower-case"
            )
        weights = self.word_probabilities[:, index[word]] * self._prior(prior)
        return row_shares(weights[None])[0]

    def share_matrix(self, prior: Prior = "uniform") -> Float[np.ndarray, "word topic"]:
        """Return [word, topic] P(topic | word); rows sum to 1, or are NaN for a word that no topic can say.

        Raises:
            ValueError: as :meth:`shares`.
        """
        return row_shares((self.word_probabilities * self._prior(prior)[:, None]).T)

    def _prior(self, prior: str) -> np.ndarray:
        require_one_of("prior", prior, ("uniform", "corpus"))
        if prior == "uniform":
            return np.ones(self.n_topics)
        if self.prior is None:
            raise ValueError("prior='corpus' needs the model's corpus prior, which is not known: use prior='uniform'")
        return self.prior

    def coherence(
        self, corpus: CorpusLike | None = None, measure: Measure = "u_mass", top_n: int = 10
    ) -> Float[np.ndarray, " topic"]:
        """Return [topic] how well the top words of each topic go together in a corpus; higher is better.

        Top words that the corpus does not have take no part; a topic with fewer than two left is NaN.

        Args:
            corpus: documents with text; None returns what the fit stored (``u_mass`` of ten words).
            measure: ``"u_mass"`` (words of the same passage, at most 0), ``"c_npmi"`` (windows of 10 running
                words, -1 to 1) or ``"c_v"`` (windows of 110 running words, 0 to 1); all by gensim.
            top_n: number of top words per topic, at least 2.

        Raises:
            ValueError: if nothing is stored, or stored values are asked for with another measure or ``top_n``.
            CorpusError: if no word of the vocabulary stands in the corpus.
        """
        require_one_of("measure", measure, ("u_mass", "c_npmi", "c_v"))
        require_count("top_n", top_n, minimum=2)
        if corpus is None:
            if self.coherences is None or measure != "u_mass" or top_n != _STORED_TOP_WORDS:
                kept = "no coherence" if self.coherences is None else f"only u_mass of {_STORED_TOP_WORDS} words"
                raise ValueError(f"corpus must be given, because the model stores {kept}: coherence(corpus, ...)")
            return self.coherences.copy()
        corpus = as_corpus(corpus)
        index: dict[str, int] = self.__dict__["_index"]
        texts = [
            [word.word for word in find_words(normalise(document.text))]
            for document in corpus
            if document.text is not None
        ]
        if not any(word in index for text in texts for word in text):
            raise CorpusError(
                f"corpus {corpus.name!r} must hold words of the model's vocabulary, but has none of its {self.n_words}"
            )
        topics = [top_indices(row, int(top_n)) for row in self.word_probabilities]
        if measure != "u_mass":
            return _gensim.coherences(topics, self.vocabulary, measure=measure, texts=texts)
        passage_words = self.options.get("passage_words", PASSAGE_WORDS)
        bags = Bags.of(
            [index[word] for word in passage if word in index]
            for text in texts
            for passage in cut_passages(text, passage_words)
        )
        bags = bags.take(np.flatnonzero(bags.n_words()))
        return _gensim.coherences(topics, self.vocabulary, measure=measure, bags=bags)

    def label_words(
        self,
        top_k: int | None = 1,
        min_share: float = 0.5,
        top_fraction: float | None = None,
        prior: Prior = "uniform",
        stop_words: str | Iterable[str] | None = "english",
    ) -> TopicLabels:
        """Label words with the topics that they point to, by three filters that combine.

        Words of the vocabulary that the library's word rule never finds in a text (``"covid19"``,
        ``"Cat"``) are left out, with a warning.

        Args:
            top_k: only the topics of the ``top_k`` largest shares, of equal ones the first; None for all.
                Li et al. (2023) use 1 when topics are disjoint, more when words are shared.
            min_share: only topics whose share is at least this (the ambiguity threshold of Li et al. 2023). A topic of
                share 0 is never a label.
            top_fraction: keep a word for a topic only if it is among the ``ceil(top_fraction * n_words)`` most
                likely words of that topic; None for no such filter.
            prior: of the shares, ``"uniform"`` (Li et al. 2023) or ``"corpus"``.
            stop_words: words that stay unlabelled: ``"english"``, None, or words of one's own.

        Raises:
            ValueError: if an option is out of range, or no word is left.

        Examples:
            >>> model = TopicModel.from_matrix([[0.6, 0.4, 0.0], [0.0, 0.3, 0.7]], ["cat", "pet", "car"])
            >>> model.label_words().topics_of
            {'car': (1,), 'cat': (0,), 'pet': (0,)}
            >>> model.label_words(top_k=2, min_share=0.4).topics_of
            {'car': (1,), 'cat': (0,), 'pet': (0, 1)}
        """
        filters = Filters(top_k=top_k, min_share=min_share, top_fraction=top_fraction)
        return label_by_share(self, self.share_matrix(prior), filters, resolve_stop_words(stop_words))

    def to_frame(self, n: int = 10) -> pd.DataFrame:
        """Return one row per topic: ``topic``, ``top_words`` (one string), ``prior``, ``coherence``; NaN if not known.

        Raises:
            TypeError, ValueError: if ``n`` is not a whole number of at least 1.
        """
        import pandas as pd

        unknown = np.full(self.n_topics, np.nan)
        return pd.DataFrame(
            {
                "topic": np.arange(self.n_topics),
                "top_words": [" ".join(words) for words in self.top_words(n)],
                "prior": unknown if self.prior is None else self.prior.copy(),
                "coherence": unknown if self.coherences is None else self.coherences.copy(),
            }
        )

    def save(self, folder: str | os.PathLike) -> Path:
        """Write the model to a folder (JSON and safetensors, no pickle) and return the folder.

        Raises:
            FileExistsError: if ``folder`` holds something that is not a saved topic model.
        """
        arrays = {
            "word_probabilities": self.word_probabilities,
            "prior": self.prior,
            "word_counts": self.word_counts,
            "coherences": self.coherences,
        }
        description = {
            "vocabulary": list(self.vocabulary),
            "n_tokens": self.n_tokens,
            "n_documents": self.n_documents,
            "history": self.history,
            "options": self.options,
        }
        known = {name: array for name, array in arrays.items() if array is not None}
        return write_folder(folder, kind=_KIND, description=description, arrays=known)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> TopicModel:
        """Return the model that :meth:`save` wrote, equal in every bit.

        Raises:
            FileNotFoundError: if there is no such folder, or a file is missing in it.
            ValueError: if it holds something else, or is damaged.
        """
        description, arrays = read_folder(folder, kind=_KIND, facts=_FACTS, arrays=_stored)
        return cls(
            arrays["word_probabilities"],
            tuple(description["vocabulary"]),
            prior=arrays.get("prior"),
            word_counts=arrays.get("word_counts"),
            n_tokens=description.get("n_tokens"),
            n_documents=description.get("n_documents"),
            coherences=arrays.get("coherences"),
            history=description["history"],
            options=description["options"],
        )

    def _repr_html_(self) -> str:
        """Return the first topics with their top words, for a notebook."""
        return html_table(self.to_frame(8), repr(self))

    def __repr__(self) -> str:
        parts = [f"{self.n_topics} topics", f"{self.n_words} words"]
        if self.n_documents is not None:
            parts.append(f"from {self.n_documents} documents")
        if self.coherences is not None and np.isfinite(self.coherences).any():
            parts.append(f"u_mass {np.nanmean(self.coherences):.2f}")
        return f"TopicModel({', '.join(parts)})"


def _set(model: TopicModel, name: str, value: Any) -> None:
    object.__setattr__(model, name, value)  # the dataclass is frozen for its users, not while it is built
