"""Fitting topics: planted ones come back, the same call gives the same bits, and what cannot be fitted is said."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from topic_probes._errors import CorpusError
from topic_probes._progress import progress_bar
from topic_probes._words import WORD_RULE, find_words, normalise
from topic_probes.corpora import Document
from topic_probes.topics import TopicModel, _gensim, fit_lda

N_TOPICS = 4


def planted(n_documents=80, n_words=60, words_per_topic=8, topics_per_document=1, seed=0):
    """Documents of words like ``ab``: topic a, word b. A few of each document come from other topics."""
    chooser = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    documents, own = [], []
    for number in range(n_documents):
        topics = [(number + step) % N_TOPICS for step in range(topics_per_document)]
        words = [
            letters[chooser.choice(topics) if chooser.random() < 0.9 else chooser.randrange(N_TOPICS)] * 2
            + letters[chooser.randrange(words_per_topic)]
            for _ in range(n_words)
        ]
        documents.append(" ".join(words))
        own.append(topics)
    return documents, own


def fit(corpus, n_topics=N_TOPICS, **options):
    return fit_lda(corpus, n_topics, **{"progress": False, "max_passage_share": 1.0, "stop_words": None, **options})


@pytest.fixture(scope="module")
def fitted():
    return fit(planted()[0])


def test_planted_topics_are_recovered(fitted):
    """The likeliest words of each topic are those of one planted topic, and each planted topic is found once."""
    first_letters = [{word[0] for word in words} for words in fitted.top_words(8)]
    assert sorted(first_letters, key=min) == [{letter} for letter in "abcd"]
    labels = fitted.label_words()
    assert len(labels.topics_of) == 32
    assert len({(word[0], topics) for word, topics in labels.topics_of.items()}) == N_TOPICS


def test_the_corpus_prior_is_the_share_of_each_topic():
    """Three quarters of the words are of one topic, so its prior is near three quarters."""
    documents, own = planted(n_documents=80)
    kept = [document for document, topics in zip(documents, own, strict=True) if topics == [0]] * 6
    kept += [document for document, topics in zip(documents, own, strict=True) if topics == [1]] * 2
    topics = fit(kept, n_topics=2)
    first = next(topic for topic, words in enumerate(topics.top_words(1)) if words[0][0] == "a")
    assert topics.prior is not None
    assert topics.prior.sum() == pytest.approx(1)
    counts = Counter(word[0] for document in kept for word in document.split())
    assert topics.prior[first] == pytest.approx(counts["a"] / (counts["a"] + counts["b"]), abs=0.06)


def test_mixed_by_its_prior_the_model_says_the_words_of_the_corpus(fitted):
    """``sum over topics of P(topic) P(word | topic)`` is the frequency of the word."""
    assert fitted.word_counts is not None
    frequencies = fitted.word_counts / fitted.word_counts.sum()
    np.testing.assert_allclose(fitted.prior @ fitted.word_probabilities, frequencies, atol=2e-3)


def test_the_same_call_gives_the_same_bits(fitted):
    again = fit(planted()[0])
    for name in ("word_probabilities", "prior", "coherences", "word_counts"):
        assert getattr(again, name).tobytes() == getattr(fitted, name).tobytes(), name
    assert (again.vocabulary, again.history, again.options) == (fitted.vocabulary, fitted.history, fitted.options)


@pytest.fixture
def inner(monkeypatch):
    """What goes into gensim and comes out of it, for each fit: (bags, model)."""
    seen = []
    original = _gensim.fit

    def watched(bags, *arguments, **options):
        lda, history = original(bags, *arguments, **options)
        seen.append((bags, lda))
        return lda, history

    monkeypatch.setattr(_gensim, "fit", watched)
    return seen


def test_gensim_computes_in_float64(inner):
    topics = fit(planted(n_documents=20)[0], passes=1)
    _, lda = inner[0]
    assert lda.state.sstats.dtype == lda.alpha.dtype == np.float64
    np.testing.assert_allclose(topics.word_probabilities, lda.get_topics(), rtol=1e-14)


def test_a_pass_over_one_batch_is_a_step_of_em(inner):
    """The second pass replaces the topics by what the passages say under those of the first; a blend would lag."""
    fit(planted()[0], passes=1, alpha="symmetric")
    fit(planted()[0], passes=2, alpha="symmetric")
    (bags, first), (_, second) = inner
    _, expected = first.inference(list(bags), collect_sstats=True)
    lag = np.abs(first.state.sstats - expected).max()
    assert np.abs(second.state.sstats - expected).max() < 0.05 * lag


def test_the_seed_decides_the_order_of_passages(inner):
    """And no passage is lost or doubled on the way."""
    for seed in (0, 1):
        fit(planted()[0], passes=1, seed=seed)
    zero, one = ([list(bag) for bag in bags] for bags, _ in inner)
    assert zero != one
    assert sorted(zero) == sorted(one)


def test_the_seed_matters(fitted):
    other = fit(planted()[0], seed=1)
    assert not np.array_equal(other.word_probabilities, fitted.word_probabilities)
    assert other.options["seed"] == 1


def test_bags_in_a_file_give_the_same_bits(fitted, monkeypatch):
    monkeypatch.setattr("topic_probes.topics._bags.IN_MEMORY", 100)
    monkeypatch.setattr("topic_probes.topics._bags.BLOCK", 50)
    other = fit(planted()[0])
    assert other.word_probabilities.tobytes() == fitted.word_probabilities.tobytes()
    assert other.history == fitted.history
    np.testing.assert_allclose(other.prior, fitted.prior, rtol=1e-14)


def test_nothing_global_changes_and_another_process_gives_the_same_bits(fitted, repository):
    """In a process of its own: the checker of annotations in this one draws random numbers itself.

    Hashes of strings differ there, so no set may decide anything.
    """
    code = """
import hashlib, json, random, sys, warnings
import numpy as np
from topic_probes.topics import fit_lda
documents = json.load(sys.stdin)
fit_lda(documents, 4, progress=False, max_passage_share=1.0, passes=1)  # imports happen here
def state():
    return [random.getstate(), np.random.get_state()[1].tolist(), np.geterr(), list(warnings.filters), list(documents)]
before = state()
model = fit_lda(documents, 4, progress=False, max_passage_share=1.0, stop_words=None)
print(before == state(), hashlib.sha256(model.word_probabilities.tobytes()).hexdigest())
"""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(planted()[0]),
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.split() == ["True", hashlib.sha256(fitted.word_probabilities.tobytes()).hexdigest()]


def test_the_model_is_float64_finite_and_normalised(fitted):
    phi = fitted.word_probabilities
    assert phi.dtype == np.float64
    assert np.isfinite(phi).all()
    np.testing.assert_allclose(phi.sum(axis=1), 1, atol=1e-14)
    # float32 would leave only values that survive the way through it
    assert not np.array_equal(phi, phi.astype(np.float32))


def test_words_counts_and_documents_are_those_of_the_corpus():
    """Counted here by split(), there by the word rule; stop words count among all words and nowhere else."""
    documents = ["Cat the cat, pet!", "the PET and a cat", "the the", "car road car", "road car"]
    topics = fit(documents, n_topics=2, stop_words=["the"], min_passages=2, passes=2)
    assert topics.vocabulary == ("car", "cat", "pet", "road")
    assert topics.word_counts is not None
    assert topics.word_counts.tolist() == [3, 3, 2, 2]
    assert topics.n_tokens == 4 + 5 + 2 + 3 + 2
    assert topics.n_documents == 4
    assert topics.options["n_documents_without_usable_words"] == 1


def test_word_limits_are_those_of_gensims_dictionary():
    from gensim.corpora import Dictionary

    documents, _ = planted(n_documents=40, n_words=25, words_per_topic=20)
    texts = [document.split() for document in documents]
    for low, high, most in [(1, 1.0, 10**6), (9, 1.0, 10**6), (1, 0.2, 10**6), (7, 0.25, 10**6)]:
        dictionary = Dictionary(texts)
        dictionary.filter_extremes(low, high, most)
        topics = fit(documents, n_topics=2, min_passages=low, max_passage_share=high, max_vocabulary=most, passes=1)
        assert (len(topics.vocabulary) == 80) == (low == high == 1)
        assert set(topics.vocabulary) == set(dictionary.token2id)
    # of words in equally many passages gensim keeps the first seen, and we the alphabetically first
    frequency = Counter(word for text in texts for word in set(text))
    kept = sorted(frequency, key=lambda word: (-frequency[word], word))[:7]
    assert set(fit(documents, n_topics=2, max_vocabulary=7, passes=1).vocabulary) == set(kept)


def test_documents_are_cut_into_passages():
    documents, _ = planted(n_documents=10, n_words=50)
    for passage_words, n_passages in [(None, 10), (50, 10), (49, 20), (20, 30)]:
        topics = fit(documents, passage_words=passage_words, min_passages=1, passes=1)
        assert topics.options["n_passages"] == n_passages
        assert topics.word_counts is not None
        assert topics.word_counts.sum() == topics.n_tokens == 500


def test_words_are_those_of_gensims_tokenizer():
    """On plain and on accented text; the model and the probe share this rule."""
    from gensim.utils import tokenize

    texts = [
        "The cat sat on Route 66, isn't it? x2 y_z 3rd a-b.",
        "Ærøskøbing, Łódź und Größe; ÉTÉ naïve: Παράδειγμα Жираф 東京 ٣٤",
    ]
    for text in texts:
        expected = list(tokenize(normalise(text), lowercase=True))
        assert [word.word for word in find_words(normalise(text))] == expected
        vocabulary = fit([text] * 6, n_topics=2, passes=1, alpha="symmetric").vocabulary
        assert vocabulary == tuple(sorted(set(expected)))


def test_composed_and_decomposed_accents_are_one_word():
    topics = fit(["café noir thé"] * 5 + ["cafe\u0301 noir the\u0301"] * 5, n_topics=2, passes=1)
    assert topics.vocabulary == ("café", "noir", "thé")


def test_each_pass_is_recorded_and_logged(caplog):
    with caplog.at_level(logging.INFO, logger="topic_probes"):
        topics = fit(planted()[0], passes=5)
    assert [record["pass"] for record in topics.history] == [1, 2, 3, 4, 5]
    assert topics.history[-1]["log_perplexity"] < topics.history[0]["log_perplexity"]
    messages = [record.getMessage() for record in caplog.records if record.name == "topic_probes"]
    assert len(messages) == 5
    assert f"{topics.history[-1]['log_perplexity']:.3f}" in messages[-1]
    assert topics.coherences is not None
    assert topics.history[-1]["u_mass"] == pytest.approx(topics.coherences.mean(), rel=1e-9)


def test_log_perplexity_is_that_of_the_planted_source(fitted):
    """The bound is in nats per word, above the entropy of the source and not far above it.

    0.9 + 0.1/4 of the words are uniform over 8 words of the own topic, the rest over 24 others.
    """
    own = 0.9 + 0.1 / 4
    entropy = -own * math.log(own / 8) - (1 - own) * math.log((1 - own) / 24)
    assert entropy < fitted.history[-1]["log_perplexity"] < entropy + 0.4


def test_log_perplexity_does_not_depend_on_how_many_passages_estimate_it(fitted, monkeypatch):
    """A tenth of the passages stands for all; unscaled, the price of the topics would be paid ten times over."""
    monkeypatch.setattr(_gensim, "_N_PERPLEXITY_PASSAGES", 8)
    few = fit(planted()[0])
    assert few.history[-1]["log_perplexity"] == pytest.approx(fitted.history[-1]["log_perplexity"], abs=0.1)


def test_stored_coherence_is_that_of_the_training_corpus(fitted):
    documents, _ = planted()
    assert fitted.coherences is not None
    np.testing.assert_allclose(fitted.coherence(documents), fitted.coherences, rtol=1e-12)


def test_how_it_was_made_is_recorded_and_saved(fitted, tmp_path):
    options = fitted.options
    assert options["word_rule"] == WORD_RULE
    assert (options["seed"], options["passes"], options["alpha"]) == (0, 30, "auto")
    assert set(options["versions"]) == {"topic_probes", "gensim", "numpy", "python"}
    loaded = TopicModel.load(fitted.save(tmp_path / "topics"))
    assert loaded.options == options
    assert loaded.history == fitted.history
    assert loaded.word_probabilities.tobytes() == fitted.word_probabilities.tobytes()


def test_many_passages_are_fitted_in_batches(fitted, monkeypatch):
    """Online, and the planted topics are still found."""
    monkeypatch.setattr("topic_probes.topics._gensim._BATCH_PASSAGES", 30)
    topics = fit(planted()[0])
    assert {frozenset(word[0] for word in words) for words in topics.top_words(8)} == {frozenset(x) for x in "abcd"}
    assert not np.array_equal(topics.word_probabilities, fitted.word_probabilities)
    assert topics.prior is not None
    assert topics.prior.sum() == pytest.approx(1)


@pytest.mark.parametrize("alpha", ["symmetric", "asymmetric", 0.5])
def test_alpha_matters(fitted, alpha):
    topics = fit(planted()[0], alpha=alpha)
    assert topics.options["alpha"] == alpha
    assert not np.array_equal(topics.word_probabilities, fitted.word_probabilities)


def test_several_processes_find_the_topics_and_say_that_they_cannot_be_repeated():
    with pytest.warns(UserWarning, match="cannot be repeated exactly, and alpha is 'symmetric'"):
        topics = fit(planted()[0], workers=2)
    assert {frozenset(word[0] for word in words) for words in topics.top_words(8)} == {frozenset(x) for x in "abcd"}
    assert (topics.options["workers"], topics.options["alpha"]) == (2, "symmetric")
    assert [record["pass"] for record in topics.history] == [30]


def test_copies_of_topics_are_warned_about():
    """Two kinds of documents hold two topics; the other ten of twelve stay empty, so nine are copies of the tenth."""
    kinds = [" ".join(kind + letter for letter in "abcdefghijklmnopqrst") for kind in "xy"]
    with pytest.warns(UserWarning, match="9 of the 12 topics are copies"):
        fit(kinds * 30, n_topics=12)


def test_a_progress_bar_is_shown_on_stderr_unless_unwanted(capsys, monkeypatch):
    """If that is a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("topic_probes._progress._Display.seconds", 0.0)
    fit(planted(n_documents=20)[0], passes=3, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Fitting topics" in shown.err
    fit(planted(n_documents=20)[0], passes=3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("batch", [100, 7])
def test_the_progress_bar_counts_every_passage_of_every_pass(monkeypatch, batch):
    bars = []

    def bar(*arguments, **options):
        bars.append(progress_bar(*arguments, **options))
        return bars[-1]

    monkeypatch.setattr("topic_probes.topics._fitting.progress_bar", bar)
    monkeypatch.setattr(_gensim, "_BATCH_PASSAGES", batch)
    fit(planted(n_documents=20)[0], passes=3)
    assert [(bar.description, bar.n, bar.total) for bar in bars] == [
        ("Reading documents", 20, 20),
        ("Fitting topics", 60, 60),
    ]


def test_documents_of_ids_are_counted_and_left_out():
    documents, _ = planted(n_documents=20)
    mixed = [Document(id=str(number), text=text) for number, text in enumerate(documents)]
    topics = fit([*mixed, Document(id="ids", token_ids=(1, 2, 3))], passes=1)
    assert topics.options["n_documents_read"] == 21
    assert topics.options["n_documents_without_text"] == 1
    assert topics.n_documents == 20


@pytest.mark.parametrize(
    ("corpus", "options", "says"),
    [
        ([], {}, "must have documents, got none"),
        ([[1, 2, 3], [4]], {}, "2 documents are token ids only"),
        (["", "  ", "12 34 !"], {}, "3 documents and 0 words nothing is left"),
        (["the and of"] * 9, {"stop_words": "english"}, "nothing is left"),
        (["cat dog"] * 4, {}, "min_passages=5"),
        (["cat dog"] * 9, {"max_passage_share": 0.5}, "max_passage_share=0.5"),
    ],
)
def test_a_corpus_with_nothing_left_is_one_clear_error(corpus, options, says):
    """The sentence names the limits."""
    with pytest.raises(CorpusError, match=says):
        fit(corpus, n_topics=2, **options)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"n_topics": 1}, ValueError, "n_topics must be at least 2"),
        ({"n_topics": 21}, ValueError, "n_topics must be at most 20, because 20 passages and 32 words"),
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": 2**32}, ValueError, "seed"),
        ({"workers": 0}, ValueError, "workers"),
        ({"passes": 0}, ValueError, "passes"),
        ({"passage_words": 0}, ValueError, "passage_words"),
        ({"min_passages": 0}, ValueError, "min_passages"),
        ({"max_vocabulary": 0}, ValueError, "max_vocabulary"),
        ({"max_passage_share": 0.0}, ValueError, "max_passage_share"),
        ({"max_passage_share": 1.5}, ValueError, "max_passage_share"),
        ({"alpha": "learned"}, ValueError, "alpha must be 'auto'"),
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"alpha": float("nan")}, ValueError, "alpha"),
        ({"stop_words": "german"}, ValueError, "'german'"),
    ],
)
def test_bad_options_are_refused(options, error, says):
    documents, _ = planted(n_documents=20)
    with pytest.raises(error, match=says):
        fit(documents, **options)


def test_one_string_is_not_a_corpus():
    with pytest.raises(TypeError, match="wrap it in a list"):
        fit("a cat sat")
