"""``fit_lda`` against scikit-learn's LDA: seconds until both predict held-out words equally well.

Both read the same bags of words: those that ``fit_lda`` makes of the training articles. Both are fitted with a growing
number of passes. Held-out perplexity is not taken from either library but estimated here, by document completion: of
each held-out passage one half of the words gives the mixture of topics, the other half is predicted. Seconds to reach
a perplexity are interpolated along each curve.

``fit_lda`` is timed whole (reading text, coherence and history included), and once more without reading, which is
what scikit-learn is spared here. It learns its prior of topics, scikit-learn does not.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
from _measuring import seconds
from _setup import ARTICLES

import topic_probes as tp
from topic_probes.corpora import Document
from topic_probes.topics import _fitting
from topic_probes.topics._bags import Bags

N_TOPICS = 40
PASSES = (1, 2, 4, 8, 16, 32)
HELD_OUT = 5
"""Every fifth article is held out."""
FOLD_IN_STEPS, FOLD_IN_PRIOR = 100, 0.1
"""Steps of EM for the mixture of a passage, and what is added to each topic's count of words: the same for both."""


def run(n_topics: int = N_TOPICS, passes: tuple[int, ...] = PASSES, n_articles: int | None = None) -> dict[str, Any]:
    """Return both curves of held-out perplexity against seconds, and the ratio of seconds at equal perplexity."""
    if ARTICLES.is_file():
        lines = ARTICLES.read_text(encoding="utf-8").splitlines()
        articles = [Document(id=str(number), text=json.loads(line)["text"]) for number, line in enumerate(lines)]
    else:
        articles = list(tp.corpora.sample_wikipedia())
    articles = articles[:n_articles]
    train = [article for number, article in enumerate(articles) if number % HELD_OUT]
    options: dict[str, Any] = {"n_topics": n_topics, "seed": 0, "progress": False}
    read_seconds, bags, vocabulary = _read(train)
    held_out = _bags_of(articles[::HELD_OUT], vocabulary)
    halves = _halves(held_out, np.random.default_rng(0))

    curves: dict[str, list[tuple[float, float]]] = {"fit_lda": [], "sklearn_batch": [], "sklearn_online": []}
    for n in passes:
        models: list[Any] = []
        spent = seconds(lambda n=n, models=models: models.append(tp.fit_lda(train, passes=n, **options)))
        assert models[0].vocabulary == vocabulary
        curves["fit_lda"].append((spent, perplexity(models[0].word_probabilities, *halves)))
        for method in ("batch", "online"):
            spent, topics = _sklearn(bags, len(vocabulary), n_topics, method, n)
            curves[f"sklearn_{method}"].append((spent, perplexity(topics, *halves)))
    curves["fit_lda_without_reading"] = [(spent - read_seconds, value) for spent, value in curves["fit_lda"]]
    unigram = bags.word_frequencies(len(vocabulary))[None, :]
    found: dict[str, Any] = {
        "train_passages": len(bags),
        "held_out_passages": len(held_out),
        "words": len(vocabulary),
        "read_seconds": read_seconds,
        "perplexity_of_one_topic": perplexity(unigram / unigram.sum(), *halves),
    }
    for name, curve in curves.items():
        found[f"{name}_passes_seconds_perplexity"] = [
            (n, round(spent, 2), round(value, 1)) for n, (spent, value) in zip(passes, curve, strict=True)
        ]
    for method in ("batch", "online"):
        theirs = curves[f"sklearn_{method}"]
        # The best that both reach.
        target = max(min(value for _, value in curve) for curve in (theirs, curves["fit_lda"]))
        found[f"{method}_perplexity"] = target
        found[f"{method}_sklearn_seconds"] = seconds_to_reach(theirs, target)
        for name in ("fit_lda", "fit_lda_without_reading"):
            found[f"{method}_{name}_seconds"] = seconds_to_reach(curves[name], target)
            found[f"{method}_ratio_{name}"] = seconds_to_reach(theirs, target) / seconds_to_reach(curves[name], target)
    return found


def seconds_to_reach(curve: list[tuple[float, float]], target: float) -> float:
    """Return when a curve of (seconds, perplexity) first is as low as ``target``, between its points by logarithms.

    NaN if it never is; the time of its first point if that is low enough.
    """
    before: tuple[float, float] | None = None
    for spent, value in curve:
        if value <= target:
            if before is None:
                return spent
            share = (before[1] - target) / (before[1] - value)
            return float(np.exp((1 - share) * np.log(before[0]) + share * np.log(spent)))
        before = spent, value
    return float("nan")


def perplexity(topics: np.ndarray, given: np.ndarray, predicted: np.ndarray) -> float:
    """Return exp of minus the mean log-probability of words, by document completion.

    Args:
        topics: [topic, word] probabilities.
        given: [passage, word] counts from which the mixture of each passage is inferred.
        predicted: [passage, word] counts of the words that are predicted.
    """
    mixture = np.full((len(given), len(topics)), 1.0 / len(topics))
    floor = np.finfo(float).tiny
    for _ in range(FOLD_IN_STEPS):
        expected = given / np.maximum(mixture @ topics, floor)
        counted = mixture * (expected @ topics.T) + FOLD_IN_PRIOR
        mixture = counted / counted.sum(axis=1, keepdims=True)
    probability = np.maximum(mixture @ topics, floor)
    return float(np.exp(-(predicted * np.log(probability)).sum() / predicted.sum()))


def _read(documents: list[Document]) -> tuple[float, Bags, tuple[str, ...]]:
    """Return the seconds that ``fit_lda`` reads, its bags of words, and its vocabulary."""
    limits = _fitting._Limits(_fitting.resolve_stop_words("english"), 5, 0.3, 20_000)
    kept: list[Any] = []

    def read() -> None:
        corpus = tp.corpora.as_corpus(documents)
        kept.append(_fitting._select(_fitting._read(corpus, 200, limits.stop_words, False), limits))

    spent = seconds(read)
    return spent, kept[0].bags, kept[0].words


def _bags_of(documents: list[Document], vocabulary: tuple[str, ...]) -> np.ndarray:
    """Return [passage, word] counts of passages with at least 20 words of the vocabulary."""
    index = {word: number for number, word in enumerate(vocabulary)}
    rows = []
    for document in documents:
        words = [found.word for found in _fitting.find_words(_fitting.normalise(document.text or ""))]
        for passage in _fitting.cut_passages(words, 200):
            known = [index[word] for word in passage if word in index]
            if len(known) >= 20:
                rows.append(np.bincount(known, minlength=len(vocabulary)))
    return np.array(rows)


def _halves(counts: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return each passage's words in two random halves, [passage, word] each."""
    given = np.array([generator.multivariate_hypergeometric(row, row.sum() // 2) for row in counts])
    return given, counts - given


def _sklearn(bags: Bags, n_words: int, n_topics: int, method: Any, passes: int) -> tuple[float, np.ndarray]:
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation

    counts, words = (np.concatenate([getattr(block, name) for block in bags.blocks()]) for name in ("counts", "words"))
    matrix = csr_matrix((counts, words, bags.starts), shape=(len(bags), n_words))
    lda = LatentDirichletAllocation(n_topics, learning_method=method, max_iter=passes, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps that did not converge, which is what is measured
        spent = seconds(lambda: lda.fit(matrix))
    return spent, lda.components_ / lda.components_.sum(axis=1, keepdims=True)
