"""The topic model: by hand, against loops, and in and out of folders and gensim."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from topic_probes._errors import CorpusError
from topic_probes.topics import TopicModel

WORDS = ["cat", "pet", "car", "road"]
PHI = [[0.5, 0.3, 0.2, 0.0], [0.0, 0.1, 0.4, 0.5]]


def model(**known):
    return TopicModel(np.array(PHI), tuple(WORDS), **known)


def shares_by_loops(phi, prior, word):
    """Bayes' rule, written out."""
    joint = [phi[topic][word] * prior[topic] for topic in range(len(phi))]
    return [value / math.fsum(joint) for value in joint]


def test_shares_are_bayes_rule_by_hand():
    """pet: 0.3 against 0.1, so 3 to 1; with a prior of 1 to 3 it is even."""
    topics = TopicModel.from_matrix(PHI, WORDS, prior=[0.25, 0.75])
    np.testing.assert_allclose(topics.shares("pet"), [0.75, 0.25], rtol=1e-15)
    np.testing.assert_allclose(topics.shares("pet", prior="corpus"), [0.5, 0.5], rtol=1e-15)
    assert topics.shares("pet").dtype == np.float64


def test_shares_agree_with_loops_for_every_word():
    generator = np.random.default_rng(0)
    phi, prior = generator.dirichlet(np.ones(7), size=5), generator.dirichlet(np.ones(5))
    topics = TopicModel.from_matrix(phi, list("abcdefg"), prior=prior)
    cases: list[tuple[Any, list[float]]] = [("uniform", [0.2] * 5), ("corpus", prior.tolist())]
    for name, weights in cases:
        expected = [shares_by_loops(phi.tolist(), weights, word) for word in range(7)]
        np.testing.assert_allclose(topics.share_matrix(name), expected, rtol=1e-13)
        np.testing.assert_allclose([topics.shares(word, name) for word in "abcdefg"], expected, rtol=1e-13)


def test_a_word_that_no_topic_says_has_no_share_and_no_label():
    """Its share is not a number, never 0 and never 1 / n_topics."""
    topics = TopicModel.from_matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], ["cat", "car", "ghost"])
    assert np.isnan(topics.shares("ghost")).all()
    assert np.isnan(topics.share_matrix()[2]).all()
    assert "ghost" not in topics.label_words(top_k=None, min_share=0.0, stop_words=None).topics_of


def test_an_unknown_word_or_prior_is_refused():
    with pytest.raises(ValueError, match="'dog'"):
        model().shares("dog")
    with pytest.raises(ValueError, match="not known"):
        model().shares("cat", prior="corpus")
    with pytest.raises(ValueError, match="not known"):
        model().label_words(prior="corpus")


def test_top_words_are_the_likeliest_and_ties_keep_the_order_of_the_vocabulary():
    topics = TopicModel.from_matrix([[0.2, 0.3, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]], WORDS)
    assert topics.top_words(3) == [["pet", "car", "cat"], ["cat", "pet", "car"]]
    assert topics.top_words(99) == [["pet", "car", "cat", "road"], ["cat", "pet", "car", "road"]]
    with pytest.raises(ValueError, match="n must be at least 1"):
        topics.top_words(0)


def test_rows_off_by_float32_rounding_are_put_right_in_float64():
    phi = np.random.default_rng(0).dirichlet(np.ones(500), size=3).astype(np.float32)
    assert np.abs(phi.sum(axis=1, dtype=np.float64) - 1).max() > 1e-12
    topics = TopicModel.from_matrix(phi, [f"w{'a' * number}" for number in range(500)])
    np.testing.assert_allclose(topics.word_probabilities.sum(axis=1), 1, atol=1e-14)


@pytest.mark.parametrize(
    ("phi", "words", "prior", "says"),
    [
        ([[0.5, 0.4]], ["a", "b"], None, "sum to 1"),
        ([[0.5, 0.500002]], ["a", "b"], None, "sum to 1"),
        ([[1.5, -0.5]], ["a", "b"], None, "negative"),
        ([[np.nan, 1.0]], ["a", "b"], None, "finite"),
        ([[np.inf, 1.0]], ["a", "b"], None, "finite"),
        ([0.5, 0.5], ["a", "b"], None, "2 axes"),
        ([[0.5, 0.5], [1.0]], ["a", "b"], None, "rectangular"),
        (np.zeros((0, 2)), ["a", "b"], None, "at least one topic"),
        ([[0.5, 0.5]], ["a"], None, "2 columns"),
        ([[0.5, 0.5]], ["a", "a"], None, "'a' twice"),
        ([[0.5, 0.5]], ["a", "b"], [0.5, 0.5], "shape"),
        ([[0.5, 0.5]], ["a", "b"], [0.9], "prior must sum to 1"),
    ],
)
def test_what_is_no_topic_model_is_refused(phi, words, prior, says):
    with pytest.raises(ValueError, match=says):
        TopicModel.from_matrix(phi, words, prior)


def test_counts_must_fit_and_be_whole():
    with pytest.raises(ValueError, match="word_counts must have shape"):
        model(word_counts=np.array([1, 2]))
    with pytest.raises(ValueError, match="whole"):
        model(word_counts=np.array([1, 2, 3, 0.5]))


def test_a_model_keeps_copies_that_cannot_be_written_to():
    phi = np.array(PHI)
    topics = TopicModel.from_matrix(phi, WORDS)
    phi[:] = 0
    assert topics.word_probabilities[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        topics.word_probabilities[0, 0] = 1


def test_saving_and_loading_change_no_bit(tmp_path):
    generator = np.random.default_rng(3)
    phi = generator.dirichlet(np.full(50, 0.1), size=7)
    topics = TopicModel(
        (phi / (1 + 3e-8)).astype(np.float64),
        tuple(f"été{'x' * number}" for number in range(50)),
        prior=generator.dirichlet(np.ones(7)),
        word_counts=generator.integers(0, 9, 50),
        n_tokens=1234,
        n_documents=5,
        coherences=np.array([-1.0, np.nan, -2.5, -3, -4, -5, -6]),
        history=[{"pass": 1, "log_perplexity": 0.1 + 0.2, "u_mass": -1 / 3}],
        options={"seed": 4, "passage_words": None},
    )
    loaded = TopicModel.load(topics.save(tmp_path / "topics"))
    for name in ("word_probabilities", "prior", "word_counts", "coherences"):
        before, after = getattr(topics, name), getattr(loaded, name)
        assert before.tobytes() == after.tobytes(), name
        assert before.dtype == after.dtype, name
    for name in ("vocabulary", "n_tokens", "n_documents", "history", "options"):
        assert getattr(topics, name) == getattr(loaded, name), name
    assert loaded.shares("été").tobytes() == topics.shares("été").tobytes()


def test_a_model_with_nothing_known_is_saved_too(tmp_path):
    loaded = TopicModel.load(model().save(tmp_path / "topics"))
    assert (loaded.prior, loaded.word_counts, loaded.n_tokens, loaded.coherences) == (None, None, None, None)


def test_a_saved_model_holds_no_pickle(tmp_path):
    folder = model().save(tmp_path / "topics")
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["arrays.safetensors", "description.json"]
    for file in files:
        with pytest.raises(Exception, match=r"."):
            pickle.loads(file.read_bytes())


def test_another_folder_is_neither_read_nor_overwritten(tmp_path):
    with pytest.raises(FileNotFoundError, match="topic model"):
        TopicModel.load(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not a saved topic model"):
        model().save(tmp_path)


def test_labels_by_hand():
    """Shares: cat 1 : 0, pet 3 : 1, car 1 : 2, road 0 : 1."""
    topics = model()
    assert topics.label_words().topics_of == {"cat": (0,), "pet": (0,), "car": (1,), "road": (1,)}
    assert topics.label_words(top_k=None, min_share=0.3).topics_of["car"] == (0, 1)
    assert topics.label_words(top_k=2, min_share=0.3).topics_of["pet"] == (0,)
    assert list(topics.label_words(min_share=0.7).topics_of) == ["cat", "pet", "road"]
    # the likeliest quarter of four words is one word per topic
    assert topics.label_words(top_fraction=0.25).topics_of == {"cat": (0,), "road": (1,)}
    assert list(topics.label_words(stop_words=["Cat", "road"]).topics_of) == ["car", "pet"]


def test_a_share_of_exactly_the_threshold_is_kept_and_ties_go_to_the_first_topic():
    third = TopicModel.from_matrix([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9]], ["cat", "car"])
    assert third.label_words(min_share=1 / 3).topics_of == {"cat": (0,), "car": (0,)}
    assert third.label_words(top_k=2, min_share=1 / 3).topics_of == {"cat": (0, 1), "car": (0, 1)}
    # 1/9 against 1/6 is a share of 2/5, which floating point makes a little smaller
    assert 1 / 9 / (1 / 9 + 1 / 6) < 2 / 5
    rounded = TopicModel.from_matrix([[1 / 9, 8 / 9], [1 / 6, 5 / 6]], ["cat", "car"])
    assert rounded.label_words(top_k=None, min_share=2 / 5).topics_of["cat"] == (0, 1)


def test_a_tie_that_rounding_breaks_is_still_a_tie():
    """1/2 of 0.6 and 3/4 of 0.4 are both 0.3; in floating point the second is a little more."""
    assert 1 / 2 * 0.6 < 3 / 4 * 0.4
    topics = TopicModel.from_matrix([[1 / 2, 1 / 2], [3 / 4, 1 / 4]], ["cat", "car"], prior=[0.6, 0.4])
    assert topics.label_words(prior="corpus").topics_of["cat"] == (0,)


def test_a_fraction_of_the_words_is_not_spoiled_by_rounding():
    """0.07 of 100 words is 7 words, though 0.07 * 100 is more than 7 in floating point."""
    assert 0.07 * 100 > 7
    words = [f"w{'a' * number}" for number in range(100)]
    phi = np.arange(100, 0, -1) / np.arange(100, 0, -1).sum()
    labels = TopicModel.from_matrix([phi], words).label_words(top_fraction=0.07, stop_words=None)
    assert list(labels.topics_of) == words[:7]


def test_the_prior_matters_for_labels():
    topics = TopicModel.from_matrix(PHI, WORDS, prior=[0.1, 0.9])
    assert topics.label_words().topics_of["pet"] == (0,)
    assert topics.label_words(prior="corpus").topics_of["pet"] == (1,)


def test_english_stop_words_are_unlabelled_unless_wanted():
    """Also the pieces that the word rule leaves of "isn't" and "19th"."""
    words = ["the", "isn", "t", "s", "th", "cat"]
    topics = TopicModel.from_matrix([[0.1, 0.1, 0.1, 0.1, 0.1, 0.5]], words)
    assert list(topics.label_words().topics_of) == ["cat"]
    assert list(topics.label_words(stop_words=None).topics_of) == sorted(words)
    assert topics.label_words().topic_names == ("cat",)


def test_words_that_no_text_can_have_are_left_out_with_a_warning():
    topics = TopicModel.from_matrix([[0.25] * 4], ["Cat", "covid19", "ice cream", "dog"])
    with pytest.warns(UserWarning, match="3 of the 4 words"):
        labels = topics.label_words()
    assert labels.topics_of == {"dog": (0,)}


def test_labels_know_their_coverage():
    topics = model(word_counts=np.array([10, 5, 3, 2]), n_tokens=100)
    labels = topics.label_words(min_share=0.7)
    assert labels.coverage == {
        "n_words": 4,
        "n_tokens": 100,
        "n_labelled_tokens": 17,
        "n_labelled_words": 3,
        "n_topics_used": 2,
    }
    assert repr(labels) == "TopicLabels(3 of 4 words, 17 % of the corpus' words, 2 of 2 topics)"
    assert model(word_counts=np.array([10, 5, 3, 2])).label_words().coverage["n_tokens"] == 20
    assert "n_tokens" not in model().label_words().coverage


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"top_k": 0}, ValueError, "top_k"),
        ({"top_k": 1.5}, TypeError, "top_k"),
        ({"min_share": 1.5}, ValueError, "min_share"),
        ({"top_fraction": 0.0}, ValueError, "top_fraction"),
        ({"top_fraction": -1.0}, ValueError, "top_fraction"),
        ({"stop_words": "german"}, ValueError, "'german'"),
        ({"stop_words": WORDS}, ValueError, "no word is left with top_k=1, min_share=0.5"),
    ],
)
def test_bad_filters_are_refused(options, error, says):
    # the annotations say float and int; what they let through, and what a caller without a checker sends, is caught
    checked = getattr(TopicModel.label_words, "__wrapped__", TopicModel.label_words)
    with pytest.raises(error, match=says):
        checked(model(), **options)


def test_stored_coherence_is_returned_and_nothing_else_is_made_up():
    topics = model(coherences=np.array([-1.0, -2.0]))
    assert topics.coherence().tolist() == [-1.0, -2.0]
    with pytest.raises(ValueError, match="corpus must be given"):
        topics.coherence(measure="c_v")
    with pytest.raises(ValueError, match="corpus must be given"):
        topics.coherence(top_n=5)
    with pytest.raises(ValueError, match="no coherence"):
        model().coherence()


def test_u_mass_is_its_formula():
    """Mean over pairs of top words of log((D(w_i, w_j) + 1e-12) / D(w_j)) per document (Mimno et al. 2011)."""
    documents = ["cat pet", "cat pet car", "car road", "road pet", "the cat, a pet"]
    sets = [set(document.replace(",", "").split()) for document in documents]
    expected = []
    for topic in model().top_words(3):
        terms = []
        for later in range(1, 3):
            for earlier in range(later):
                both = sum(topic[later] in words and topic[earlier] in words for words in sets)
                given = sum(topic[earlier] in words for words in sets)
                terms.append(math.log((both / 5 + 1e-12) / (given / 5)))
        expected.append(math.fsum(terms) / len(terms))
    np.testing.assert_allclose(model().coherence(documents, top_n=3), expected, rtol=1e-9)


@pytest.mark.parametrize("measure", ["c_npmi", "c_v"])
def test_words_that_stand_together_cohere_more(measure):
    """For the measures over sliding windows, of which one topic's words share all and the other's none."""
    documents = ["cat pet sat by the fire"] * 4 + ["car drove far and off"] * 4 + ["road was long and grey"] * 4
    values = model().coherence(documents, measure=measure, top_n=2)
    assert values[0] > values[1] + 0.5


def test_a_topic_whose_words_are_absent_has_no_coherence():
    """Not 0, which would be the best that u_mass can be."""
    values = model().coherence(["cat pet", "cat", "pet"], top_n=2)
    assert np.isfinite(values[0])
    assert np.isnan(values[1])


def test_a_corpus_without_any_word_of_the_model_is_refused():
    with pytest.raises(CorpusError, match="none of its 4"):
        model().coherence(["nothing here", ""])
    with pytest.raises(CorpusError, match="none of its 4"):
        model().coherence([[1, 2, 3]])


def test_the_frame_has_a_row_per_topic():
    frame = model(prior=np.array([0.3, 0.7])).to_frame(2)
    assert frame["top_words"].tolist() == ["cat pet", "road car"]
    assert frame["prior"].tolist() == [0.3, 0.7]
    assert np.isnan(frame["coherence"].to_numpy()).all()
    assert list(frame.columns) == ["topic", "top_words", "prior", "coherence"]


def test_the_repr_is_short():
    assert repr(model()) == "TopicModel(2 topics, 4 words)"
    known = model(n_documents=7, coherences=np.array([-1.0, -2.0]))
    assert repr(known) == "TopicModel(2 topics, 4 words, from 7 documents, u_mass -1.50)"


@pytest.fixture(scope="module")
def lda():
    """A small model of gensim's, with its default float32."""
    from gensim.corpora import Dictionary
    from gensim.models import LdaModel

    texts = [["cat", "pet", "paw"], ["car", "road"], ["cat", "paw"], ["road", "car", "pet"]] * 5
    dictionary = Dictionary(texts)
    bags = [dictionary.doc2bow(text) for text in texts]
    alpha: Any = [0.1, 0.2, 0.7]
    return LdaModel(bags, num_topics=3, id2word=dictionary, alpha=alpha, random_state=0, passes=20)


def test_a_model_of_gensim_keeps_its_topics_words_prior_and_counts(lda):
    topics = TopicModel.from_gensim(lda)
    np.testing.assert_allclose(topics.word_probabilities, lda.get_topics(), rtol=1e-5)
    assert topics.vocabulary == tuple(lda.id2word[index] for index in range(5))
    assert topics.prior is not None
    np.testing.assert_allclose(topics.prior, [0.1, 0.2, 0.7], rtol=1e-6)
    assert topics.word_counts is not None
    assert dict(zip(topics.vocabulary, topics.word_counts.tolist(), strict=True)) == {
        "cat": 10,
        "pet": 10,
        "paw": 10,
        "car": 10,
        "road": 10,
    }
    for word in topics.vocabulary:
        expected = shares_by_loops(lda.get_topics().tolist(), [1, 1, 1], topics.vocabulary.index(word))
        np.testing.assert_allclose(topics.shares(word), expected, rtol=1e-5)


def test_a_file_of_gensim_is_opened_only_by_one_who_trusts_it(lda, tmp_path):
    path = tmp_path / "lda.model"
    lda.save(str(path))
    for given in (path, str(path)):
        with pytest.raises(ValueError, match=r"pickle.*trusted=True"):
            TopicModel.from_gensim(given)
        opened = TopicModel.from_gensim(given, trusted=True)
        assert opened.word_probabilities.tobytes() == TopicModel.from_gensim(lda).word_probabilities.tobytes()


def test_what_is_no_model_of_gensim_is_refused(lda):
    with pytest.raises(TypeError, match="from_matrix"):
        TopicModel.from_gensim(np.eye(3))

    class Broken:
        id2word = lda.id2word

        def get_topics(self):
            return np.full((2, 5), np.nan)

    with pytest.raises(ValueError, match="finite"):
        TopicModel.from_gensim(Broken())
    Broken.get_topics = lambda self: np.full((2, 9), 1 / 9)
    with pytest.raises(ValueError, match="id2word must name each of its 9 words"):
        TopicModel.from_gensim(Broken())
