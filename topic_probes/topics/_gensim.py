"""The door to gensim: stop words, variational LDA, coherence, and reading of gensim's models.

Nothing else in this part of the library imports gensim, so a change over there is met here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ._bags import Bags

Measure = Literal["u_mass", "c_npmi", "c_v"]

_BATCH_PASSAGES = 8192
_N_PERPLEXITY_PASSAGES = 256
_N_TOP_WORDS = 10

_log = logging.getLogger("topic_probes")


def version() -> str:
    """Return gensim's version."""
    import gensim

    return gensim.__version__


def stop_words() -> frozenset[str]:
    """Return gensim's English stop words."""
    from gensim.parsing.preprocessing import STOPWORDS

    return frozenset(STOPWORDS)


def fit(
    bags: Bags,
    vocabulary: Sequence[str],
    *,
    n_topics: int,
    seed: int,
    workers: int,
    passes: int,
    alpha: str | float,
    on_passage: Callable[[], object] | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Return gensim's model, and what each pass reached.

    Up to 8192 passages are one batch, and each pass is one step of variational EM: the topics are
    replaced by what the passages say. gensim's defaults would update them after every few documents
    with a large first step, and on a few thousand passages never recover from the first ones. More
    passages are fitted online, in batches of equal size (Hoffman et al. 2010, decay 0.5).

    Args:
        bags: passages in an order that means nothing (online batches must look alike).
        vocabulary: [word].
        n_topics: number of topics.
        seed: of a generator of its own; the global one is not touched.
        workers: processes that share the passages; more than 1 cannot be repeated exactly.
        passes: how often the passages are read.
        alpha: prior of topics in a passage.
        on_passage: called for each passage that is read.
    """
    from gensim.models import LdaModel, LdaMulticore

    n_batches = -(-len(bags) // _BATCH_PASSAGES)
    batch = -(-len(bags) // n_batches)
    monitor = _pass_monitor(bags, vocabulary)
    options: dict[str, Any] = {
        "corpus": bags.watched(on_passage),
        "num_topics": n_topics,
        "id2word": dict(enumerate(vocabulary)),
        "passes": passes,
        # The weight of an update is (1 + updates so far) ** -decay, so 0 makes it 1: EM, not a blend.
        "decay": 0.0 if n_batches == 1 else 0.5,
        "offset": 1.0,
        "alpha": alpha,
        "iterations": 50,
        "eval_every": None,
        "random_state": np.random.RandomState(seed),
        "dtype": np.float64,
    }
    if workers == 1:
        return LdaModel(chunksize=batch, callbacks=[monitor], **options), monitor.history
    lda = LdaMulticore(workers=workers, chunksize=max(1, -(-batch // workers)), batch=n_batches == 1, **options)
    # gensim's model of several processes takes no callbacks: what is known is known at the end
    monitor.n_passes = passes - 1
    monitor.get_value(model=lda)
    return lda, monitor.history


def _pass_monitor(bags: Bags, vocabulary: Sequence[str]) -> Any:
    """Return a gensim metric that logs and keeps log perplexity and coherence after each pass."""
    from gensim.models.callbacks import Metric

    sample = list(bags.take(np.arange(min(len(bags), _N_PERPLEXITY_PASSAGES))))

    class PassMonitor(Metric):
        title = logger = viz_env = None
        n_passes = 0

        def __init__(self) -> None:
            self.history: list[dict[str, Any]] = []

        def get_value(self, **known: Any) -> float:
            lda = known["model"]
            self.n_passes += 1
            # gensim returns the bound on the log likelihood per word, in nats, scaled up to the whole corpus
            log_perplexity = -float(lda.log_perplexity(sample, total_docs=len(bags)))
            topics = [top_indices(row, _N_TOP_WORDS) for row in lda.get_topics()]
            u_mass = float(np.mean(coherences(topics, vocabulary, measure="u_mass", bags=bags)))
            self.history.append({"pass": self.n_passes, "log_perplexity": log_perplexity, "u_mass": u_mass})
            _log.info("pass %d: log perplexity %.3f nats per word, u_mass %.3f", self.n_passes, log_perplexity, u_mass)
            return log_perplexity

    return PassMonitor()


def topic_proportions(lda: Any, bags: Bags) -> Float[np.ndarray, " topic"]:
    """Return the expected topic proportions of the passages, each weighted by its number of words."""
    total = np.zeros(lda.num_topics)
    n_words = bags.n_words()
    for start in range(0, len(bags), _BATCH_PASSAGES):
        chosen = np.arange(start, min(start + _BATCH_PASSAGES, len(bags)))
        gamma, _ = lda.inference(list(bags.take(chosen)))
        gamma = np.asarray(gamma, dtype=np.float64)
        total += n_words[chosen] @ (gamma / gamma.sum(axis=1, keepdims=True))
    return total / total.sum()


def top_indices(values: Float[np.ndarray, " word"], n: int) -> Int[np.ndarray, " top"]:
    """Return the indices of the ``n`` largest values, largest first; of equal ones the first comes first."""
    n = min(n, len(values))
    candidates = np.flatnonzero(values >= np.partition(values, -n)[-n])
    return candidates[np.argsort(-values[candidates], kind="stable")][:n]


def coherences(
    topics: Sequence[Int[np.ndarray, " _"]],
    vocabulary: Sequence[str],
    *,
    measure: Measure,
    bags: Bags | None = None,
    texts: Sequence[Sequence[str]] | None = None,
) -> Float[np.ndarray, " topic"]:
    """Return the coherence of each topic's words: over passages (``u_mass``), else over sliding windows of texts.

    Words that the corpus does not have take no part (gensim would count them as 0, the best that
    ``u_mass`` can be); a topic with fewer than two left is NaN.

    Args:
        topics: [topic] the indices of its top words.
        vocabulary: [word].
        measure: one of gensim's.
        bags: the passages, for ``u_mass``.
        texts: documents as lists of words, for the others.
    """
    if measure == "u_mass":
        assert bags is not None
        occurs = bags.passage_frequencies(len(vocabulary)) > 0
    else:
        assert texts is not None
        found = {word for text in texts for word in text}
        occurs = np.array([word in found for word in vocabulary])
    present = [topic[occurs[topic]] for topic in topics]
    values = np.full(len(topics), np.nan)
    usable = [number for number, topic in enumerate(present) if len(topic) >= 2]
    if usable:
        chosen = [present[number] for number in usable]
        values[usable] = _u_mass(chosen, bags) if bags is not None else _windowed(chosen, vocabulary, measure, texts)
    return values


def _u_mass(topics: Sequence[Int[np.ndarray, " _"]], bags: Bags) -> list[float]:
    """Return gensim's ``u_mass`` of each topic.

    gensim's own counter remembers every passage of every top word, which is many times the passages themselves.
    """
    from gensim.topic_coherence.direct_confirmation_measure import log_conditional_probability
    from gensim.topic_coherence.segmentation import s_one_pre

    together = PassageCounts(topics, bags)
    return log_conditional_probability(s_one_pre([topic.tolist() for topic in topics]), together)


class PassageCounts:
    """In how many passages words stand, and pairs of words of one topic: what gensim calls an accumulator.

    Args:
        topics: [topic] the indices of its words.
        bags: the passages.
    """

    def __init__(self, topics: Sequence[Int[np.ndarray, " _"]], bags: Bags) -> None:
        from scipy.sparse import csr_matrix

        self.num_docs = len(bags)
        self._counts: dict[Any, int] = {}
        words = np.unique(np.concatenate(topics))
        places = [np.searchsorted(words, topic) for topic in topics]
        found = [np.zeros((len(topic), len(topic)), dtype=np.int64) for topic in topics]
        for block in bags.blocks():
            column = np.searchsorted(words, block.words)
            kept = words[np.minimum(column, len(words) - 1)] == block.words
            starts = np.concatenate([[0], np.cumsum(kept)])[block.starts]
            shape = len(starts) - 1, len(words)
            stands = csr_matrix((np.ones(starts[-1], dtype=np.int64), column[kept], starts), shape=shape).tocsc()
            for place, count in zip(places, found, strict=True):
                of_topic = stands[:, place]
                count += (of_topic.T @ of_topic).toarray()
        for topic, count in zip(topics, found, strict=True):
            for one, row in zip(topic.tolist(), count.tolist(), strict=True):
                for other, number in zip(topic.tolist(), row, strict=True):
                    self._counts[one if one == other else (one, other)] = number

    def __getitem__(self, words: Any) -> int:
        return self._counts[words]


def _windowed(
    topics: Sequence[Int[np.ndarray, " _"]],
    vocabulary: Sequence[str],
    measure: Measure,
    texts: Sequence[Sequence[str]] | None,
) -> list[float]:
    """Return gensim's coherence of each topic over sliding windows of texts."""
    from gensim.corpora import Dictionary
    from gensim.models import CoherenceModel

    dictionary = Dictionary()
    dictionary.token2id = {word: index for index, word in enumerate(vocabulary)}
    dictionary.id2token = dict(enumerate(vocabulary))
    model = CoherenceModel(
        topics=[topic.tolist() for topic in topics],
        texts=texts,
        dictionary=dictionary,
        coherence=measure,
        topn=max(map(len, topics)),
        processes=1,
    )
    return model.get_coherence_per_topic()


def read_model(lda: Any, *, trusted: bool) -> dict[str, Any]:
    """Return ``word_probabilities``, ``vocabulary`` and, where known, ``prior`` and ``word_counts`` of gensim's model.

    Args:
        lda: a model with ``get_topics()`` and ``id2word``, or the path of a saved one.
        trusted: whether a saved one may be opened. gensim's files are pickles, which run code when they are read.
    """
    if isinstance(lda, (str, os.PathLike)):
        if not trusted:
            raise ValueError(
                f"a gensim file is a pickle and can run any code when it is read: pass trusted=True only if you trust "
                f"the origin of {os.fspath(lda)!r}, or hand over the model itself"
            )
        from gensim.models import LdaModel

        lda = LdaModel.load(os.fspath(lda))
    if not callable(getattr(lda, "get_topics", None)) or getattr(lda, "id2word", None) is None:
        raise TypeError(
            f"lda must be a gensim topic model with get_topics() and id2word, got {type(lda).__name__}: "
            "use TopicModel.from_matrix for a plain matrix"
        )
    # Never get_term_topics: it drops words below a floor, and what it returns is not a probability of topics.
    probabilities = np.asarray(lda.get_topics(), dtype=np.float64)
    sums = probabilities.sum(axis=1, keepdims=True)
    if not (np.isfinite(sums).all() and (sums > 0).all()):
        raise ValueError("lda.get_topics() must be finite with a positive sum in each row: fit it again, in float64")
    id2word = lda.id2word
    try:
        vocabulary = tuple(str(id2word[index]) for index in range(probabilities.shape[1]))
    except KeyError as error:
        raise ValueError(
            f"lda.id2word must name each of its {probabilities.shape[1]} words, {error} is missing"
        ) from None
    alpha = np.asarray(getattr(lda, "alpha", ()))
    has_prior = alpha.shape == (len(probabilities),) and np.issubdtype(alpha.dtype, np.floating)
    counted = getattr(id2word, "cfs", None) or {}
    known = all(index in counted for index in range(len(vocabulary)))
    return {
        # gensim divides in float32 unless told otherwise; the sums are put right in float64
        "word_probabilities": probabilities / sums,
        "vocabulary": vocabulary,
        "prior": alpha / alpha.sum(dtype=np.float64) if has_prior else None,
        "word_counts": np.array([counted[index] for index in range(len(vocabulary))]) if known else None,
    }
