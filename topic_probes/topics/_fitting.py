"""From documents to topics: words, passages, bags of words, and gensim's variational LDA.

Latent Dirichlet allocation (Blei, Ng and Jordan 2003) takes each passage for a mixture of topics, and each
topic for a distribution over words. Words are found by the library's own rule, by which the probe finds
them again in a document. The fit says which words go together in this corpus; it does not say that a
topic is one that a reader would name.
"""

from __future__ import annotations

import platform
import warnings
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._errors import CorpusError
from .._progress import progress_bar
from .._validation import require_count, require_fraction
from .._words import WORD_RULE, find_words, normalise
from ..corpora import CorpusLike, Document, as_corpus
from ..corpora._document import Corpus
from . import _gensim
from ._bags import Bags
from ._model import TopicModel
from ._passages import PASSAGE_WORDS, cut_passages
from ._stop_words import resolve_stop_words

_ALPHAS = ("auto", "symmetric", "asymmetric")
_DUPLICATE = 0.999
"""Two topics are copies if their Bhattacharyya coefficient, 1 for equal distributions, is at least this."""


def fit_lda(
    corpus: CorpusLike,
    n_topics: int = 100,
    *,
    seed: int = 0,
    workers: int = 1,
    passes: int = 30,
    passage_words: int | None = PASSAGE_WORDS,
    stop_words: str | Iterable[str] | None = "english",
    min_passages: int = 5,
    max_passage_share: float = 0.3,
    max_vocabulary: int = 20_000,
    alpha: str | float = "auto",
    progress: bool = True,
) -> TopicModel:
    """Fit topics to the texts of a corpus with gensim's LDA, in float64.

    With one worker the same corpus, options and seed give the same model in every bit on one machine,
    and neither numpy's nor Python's global random state is touched. Log perplexity and coherence are
    logged after each pass (logger ``topic_probes``) and kept in ``TopicModel.history``.

    Args:
        corpus: documents with text; :mod:`topic_probes.corpora`, or a list of strings. It is read once.
        n_topics: at least 2; at most the number of usable passages and of words.
        seed: of the order of passages and the start of the fit.
        workers: number of processes. More than 1 uses gensim's ``LdaMulticore``, whose result cannot be repeated
            exactly, which learns no ``alpha``, and which in a script needs ``if __name__ == "__main__":``.
        passes: how often all passages are read.
        passage_words: documents are cut into passages of at most so many running words; None keeps them whole.
        stop_words: left out: ``"english"``, None, or words of one's own.
        min_passages: leave out words that stand in fewer passages.
        max_passage_share: leave out words that stand in a larger share of the passages, in (0, 1].
        max_vocabulary: keep the words of the most passages; of equal ones the alphabetically first.
        alpha: Dirichlet prior of topics in a passage: ``"auto"`` (learned), ``"symmetric"`` (1 / n_topics),
            ``"asymmetric"``, or one positive number for all topics.
        progress: show a bar on stderr.

    Returns:
        A model whose ``vocabulary`` is in alphabetical order and whose ``prior`` is the expected topic proportions
        of the passages, weighted by their words.

    Raises:
        CorpusError: if nothing is left to fit: no documents, no text, or no word within the limits.
        TypeError, ValueError: if an option is of the wrong kind or out of range.

    Warns:
        UserWarning: for ``workers`` > 1, and if topics are copies of each other.

    Examples:
        >>> cats, cars = "cat paw purr whisker", "car road motor wheel"
        >>> model = fit_lda([cats, cars] * 10, n_topics=2, max_passage_share=1.0, progress=False)
        >>> sorted(sorted(words) for words in model.top_words(4))
        [['car', 'motor', 'road', 'wheel'], ['cat', 'paw', 'purr', 'whisker']]
    """
    require_count("n_topics", n_topics, minimum=2)
    require_count("seed", seed, minimum=0)
    if seed >= 2**32:
        raise ValueError(f"seed must be below 2**32, got {seed!r}")
    for name, value in {
        "workers": workers,
        "passes": passes,
        "min_passages": min_passages,
        "max_vocabulary": max_vocabulary,
    }.items():
        require_count(name, value)
    if passage_words is not None:
        require_count("passage_words", passage_words)
    require_fraction("max_passage_share", max_passage_share)
    if max_passage_share == 0:
        raise ValueError("max_passage_share must be above 0, got 0: it would leave no word")
    _require_alpha(alpha)
    alpha = alpha if isinstance(alpha, str) else float(alpha)
    limits = _Limits(resolve_stop_words(stop_words), int(min_passages), float(max_passage_share), int(max_vocabulary))

    passages = _select(_read(as_corpus(corpus), passage_words, limits.stop_words, progress), limits)
    bags, vocabulary = passages.bags, passages.words
    useful = min(len(bags), len(vocabulary))
    if n_topics > useful:
        raise ValueError(
            f"n_topics must be at most {useful}, because {len(bags)} passages and {len(vocabulary)} words are usable, "
            f"got {n_topics}: ask for fewer topics, or give more text"
        )
    if workers > 1:
        prior_note = ""
        if alpha == "auto":
            alpha, prior_note = "symmetric", ", and alpha is 'symmetric' because it cannot learn one"
        warnings.warn(
            f"workers={workers} fits with gensim's LdaMulticore: the result cannot be repeated exactly{prior_note}; "
            "workers=1 can be repeated",
            UserWarning,
            stacklevel=2,
        )
    # Online batches must look alike, and articles come sorted; the order is drawn by a generator of its own.
    order = np.random.default_rng(seed).permutation(len(bags))
    total = int(passes) * len(bags)
    with progress_bar(description="Fitting topics", unit="passages", total=total, enabled=progress) as bar:
        lda, history = _gensim.fit(
            bags.take(order),
            vocabulary,
            n_topics=int(n_topics),
            seed=int(seed),
            workers=int(workers),
            passes=int(passes),
            alpha=alpha,
            on_passage=bar.update,
        )
    probabilities = _gensim.read_model(lda, trusted=False)["word_probabilities"]
    tops = [_gensim.top_indices(row, 10) for row in probabilities]
    model = TopicModel(
        probabilities,
        vocabulary,
        prior=_gensim.topic_proportions(lda, bags),
        word_counts=bags.word_frequencies(len(vocabulary)),
        n_tokens=passages.n_tokens,
        n_documents=passages.n_documents - passages.n_without_text - passages.n_without_words,
        coherences=_gensim.coherences(tops, vocabulary, measure="u_mass", bags=bags),
        history=history,
        options={
            "origin": "fit_lda",
            "corpus": passages.corpus_name,
            "n_topics": int(n_topics),
            "seed": int(seed),
            "workers": int(workers),
            "passes": int(passes),
            "passage_words": None if passage_words is None else int(passage_words),
            "stop_words": stop_words if isinstance(stop_words, str) else sorted(limits.stop_words),
            "min_passages": limits.min_passages,
            "max_passage_share": limits.max_passage_share,
            "max_vocabulary": limits.max_vocabulary,
            "alpha": alpha,
            "word_rule": WORD_RULE,
            "versions": _versions(),
            "n_documents_read": passages.n_documents,
            "n_documents_without_text": passages.n_without_text,
            "n_documents_without_usable_words": passages.n_without_words,
            "n_passages": len(bags),
            "n_passages_without_usable_words": passages.n_empty_passages,
        },
    )
    n_copies = _count_copies(model.word_probabilities)
    if n_copies:
        warnings.warn(
            f"{n_copies} of the {n_topics} topics are copies of others: the corpus does not hold so many topics; "
            "ask for fewer, or give more text",
            UserWarning,
            stacklevel=2,
        )
    return model


@dataclass(frozen=True)
class _Limits:
    """Which words may take part."""

    stop_words: frozenset[str]
    min_passages: int
    max_passage_share: float
    max_vocabulary: int


@dataclass(frozen=True)
class _Passages:
    """Passages of a corpus, and what was counted on the way."""

    corpus_name: str
    bags: Bags
    words: tuple[str, ...]
    document_of: np.ndarray
    """[passage] the number of its document."""
    n_tokens: int
    n_documents: int
    n_without_text: int
    n_without_words: int = 0
    n_empty_passages: int = 0


def _read(corpus: Corpus, passage_words: int | None, stop_words: frozenset[str], progress: bool) -> _Passages:
    """Read the corpus once, into bags of all its words but the stop words."""
    index: dict[str, int] = {}
    document_of = array("q")
    counted = {"documents": 0, "without_text": 0, "tokens": 0}

    def passages(documents: Iterable[Document]) -> Iterator[list[int]]:
        for document in documents:
            counted["documents"] += 1
            if document.text is None:
                counted["without_text"] += 1
                continue
            words = [found.word for found in find_words(normalise(document.text))]
            counted["tokens"] += len(words)
            for passage in cut_passages(words, passage_words):
                document_of.append(counted["documents"] - 1)
                yield [index.setdefault(word, len(index)) for word in passage if word not in stop_words]

    with progress_bar(
        corpus, description="Reading documents", unit="documents", total=corpus.expected, enabled=progress
    ) as documents:
        bags = Bags.of(passages(documents))
    return _Passages(
        corpus.name,
        bags,
        tuple(index),
        np.frombuffer(document_of, dtype=np.int64),
        counted["tokens"],
        counted["documents"],
        counted["without_text"],
    )


def _select(read: _Passages, limits: _Limits) -> _Passages:
    """Keep the words within the limits, in alphabetical order, and the passages that have one of them."""
    name = f"corpus {read.corpus_name!r}"
    if not read.n_documents:
        raise CorpusError(f"{name} must have documents, got none")
    if read.n_without_text == read.n_documents:
        raise CorpusError(
            f"{name} must have text, but its {read.n_documents} documents are token ids only: topics are fitted to "
            "words; for ids give labels with TopicLabels.from_dict"
        )
    frequency = read.bags.passage_frequencies(len(read.words))
    at_most = limits.max_passage_share * len(read.bags)
    # 0.1 * 30 is a little above 3 in floating point; the tolerance keeps the limit itself inside
    within = np.flatnonzero((frequency >= limits.min_passages) & (frequency <= at_most + 1e-9))
    ranked = sorted(within.tolist(), key=lambda word: (-frequency[word], read.words[word]))
    chosen = sorted(ranked[: limits.max_vocabulary], key=read.words.__getitem__)
    if not chosen:
        raise CorpusError(
            f"{name} must have words to fit, but of its {read.n_documents} documents and {read.n_tokens} words nothing "
            f"is left: a word must be no stop word ({len(limits.stop_words)} of them) and stand in at least "
            f"min_passages={limits.min_passages} and at most max_passage_share={limits.max_passage_share} of the "
            f"{len(read.bags)} passages; give more text, or widen the limits"
        )
    new_index = np.full(len(read.words), -1, dtype=np.int32)
    new_index[chosen] = np.arange(len(chosen), dtype=np.int32)
    bags = read.bags.rename(new_index)
    usable = np.flatnonzero(np.diff(bags.starts))
    n_with_words = len(np.unique(read.document_of[usable]))
    return _Passages(
        read.corpus_name,
        bags.take(usable),
        tuple(read.words[word] for word in chosen),
        read.document_of[usable],
        read.n_tokens,
        read.n_documents,
        read.n_without_text,
        n_without_words=read.n_documents - read.n_without_text - n_with_words,
        n_empty_passages=len(bags) - len(usable),
    )


def _count_copies(probabilities: np.ndarray) -> int:
    """Return how many topics are nearly equal to an earlier one."""
    roots = np.sqrt(probabilities)
    overlap = np.tril(roots @ roots.T, k=-1)
    return int((overlap >= _DUPLICATE).any(axis=1).sum())


def _require_alpha(alpha: Any) -> None:
    if isinstance(alpha, str):
        good = alpha in _ALPHAS
    else:
        good = isinstance(alpha, Real) and not isinstance(alpha, bool) and 0 < float(alpha) < float("inf")
    if not good:
        raise ValueError(f"alpha must be 'auto', 'symmetric', 'asymmetric' or a positive number, got {alpha!r}")


def _versions() -> dict[str, str]:
    from .. import __version__

    return {
        "topic_probes": __version__,
        "gensim": _gensim.version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
