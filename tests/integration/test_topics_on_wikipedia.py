"""Topics of real articles: of different subjects they have different words, and an article keeps to its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from topic_probes._words import find_words, normalise
from topic_probes.corpora import sample_wikipedia
from topic_probes.topics import fit_lda


@pytest.fixture(scope="module")
def articles(shared_data):
    """Title -> text and subject of the articles of four clear subjects."""
    subjects = {}
    for line in (shared_data / "wiki_a_labels.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        subjects[entry["title"]] = entry["topic"]
    texts = {}
    for line in (shared_data / "wiki_a.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        texts[entry["title"]] = entry["text"]
    return [(texts[title], subject) for title, subject in subjects.items() if title in texts]


@pytest.fixture(scope="module")
def fitted(articles):
    chosen = [article for article in articles if article[1] in {"computing", "popular_music", "chemistry", "astronomy"}]
    assert len(chosen) >= 20
    return chosen, fit_lda([text for text, _ in chosen], n_topics=12, progress=False)


def test_articles_of_one_subject_share_topics(fitted):
    """Cosine of the topics of two articles, by their labelled words, is larger within a subject than across."""
    chosen, topics = fitted
    labels = topics.label_words()
    profiles = []
    for text, _ in chosen:
        profile = labels.membership([word.word for word in find_words(normalise(text))]).sum(axis=0).astype(float)
        profiles.append(profile / np.linalg.norm(profile))
    similarity = np.array(profiles) @ np.array(profiles).T
    same = np.array([[one == other for _, other in chosen] for _, one in chosen])
    off_diagonal = ~np.eye(len(chosen), dtype=bool)
    assert similarity[same & off_diagonal].mean() > 1.5 * similarity[~same].mean()


def test_the_fit_improves_and_says_the_words_of_the_corpus(fitted):
    _, topics = fitted
    assert topics.history[-1]["log_perplexity"] < topics.history[0]["log_perplexity"]
    frequencies = topics.word_counts / topics.word_counts.sum()
    assert np.corrcoef(topics.prior @ topics.word_probabilities, frequencies)[0, 1] > 0.99


def test_labels_cover_a_part_of_the_corpus_and_most_topics(fitted):
    _, topics = fitted
    coverage = topics.label_words().coverage
    assert coverage["n_topics_used"] >= 11
    assert 0 < coverage["n_labelled_tokens"] < coverage["n_tokens"]
    assert topics.label_words(min_share=0.8).coverage["n_labelled_words"] < coverage["n_labelled_words"]


def test_top_words_go_together_more_than_random_words(fitted):
    """By a measure that the fit does not look at, over the same articles."""
    chosen, topics = fitted
    texts = [text for text, _ in chosen]
    coherent = topics.coherence(texts, "c_npmi").mean()
    mixed = np.random.default_rng(0).permuted(topics.word_probabilities, axis=1)
    shuffled = type(topics).from_matrix(mixed, topics.vocabulary).coherence(texts, "c_npmi").mean()
    assert coherent > shuffled + 0.05


def test_the_articles_inside_gensim_are_enough_for_topics():
    """Offline, with the defaults."""
    topics = fit_lda(sample_wikipedia(limit=25), n_topics=10, progress=False)
    assert topics.n_documents is not None
    assert topics.n_documents > 20
    assert not {"the", "and", "isn", "th"} & set(topics.vocabulary)
    assert len(topics.label_words().topics_of) > 100
