"""Promises of documents drawn from a known topic model."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.stats

import topic_probes as tp
from topic_probes.corpora import lda


def ids_of(corpus) -> list[tuple[int, ...]]:
    return [document.token_ids for document in corpus]


def test_the_defaults_are_the_papers():
    """10 topics of 10 words, 100 to 150 words a document, both lengths included."""
    corpus = lda(n_documents=2000)
    assert (corpus.n_topics, corpus.words_per_topic, corpus.n_words, corpus.alpha) == (10, 10, 100, 0.1)
    lengths = [len(ids) for ids in ids_of(corpus)]
    assert (min(lengths), max(lengths), len(lengths), len(corpus)) == (100, 150, 2000, 2000)


def test_two_passes_side_by_side_give_the_same_documents():
    corpus = lda(n_documents=600, lengths=(5, 9))
    assert ids_of(corpus) == [second.token_ids for _, second in zip(corpus, corpus, strict=True)]


def test_a_seed_makes_the_documents_and_another_makes_others():
    assert ids_of(lda(n_documents=3, seed=4)) == ids_of(lda(n_documents=3, seed=4))
    assert ids_of(lda(n_documents=3, seed=4)) != ids_of(lda(n_documents=3, seed=5))


def test_chunks_are_drawn_from_different_seeds():
    """A document does not come back 256 documents later."""
    documents = ids_of(lda(n_documents=1030))
    assert len(set(documents)) == 1030


def test_numpys_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    ids_of(lda(n_documents=5))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_longer_corpus_begins_with_the_shorter_one():
    assert ids_of(lda(n_documents=700))[:10] == ids_of(lda(n_documents=10))


def test_documents_have_ids_of_their_own_that_name_the_seed():
    first, second = list(lda(n_documents=300)), list(lda(n_documents=300, seed=1))
    assert len({document.id for document in first + second}) == 600


@pytest.mark.parametrize("alpha", [1e-100, 1e-4, 0.1, 1.0, 1e4, 1e100])
def test_any_alpha_gives_proportions_that_sum_to_one(alpha: float):
    """Very small ones give documents of one topic, very large ones even proportions; none gives NaN."""
    corpus = lda(alpha=alpha, n_documents=300)
    proportions = corpus.take(range(300)).proportions
    assert np.isfinite(proportions).all()
    np.testing.assert_allclose(proportions.sum(axis=1), 1, atol=1e-12)
    if alpha <= 1e-4:
        assert np.mean(proportions.max(axis=1) > 1 - 1e-6) > 0.98
        assert len(set(proportions.argmax(axis=1))) == 10
    if alpha >= 1e4:
        np.testing.assert_allclose(proportions, 0.1, atol=0.02)


@pytest.mark.parametrize("alpha", [0.05, 0.7, 3.0])
def test_proportions_are_dirichlet(alpha: float):
    """The proportion of one topic follows scipy's beta distribution, its marginal."""
    proportions = lda(n_topics=4, alpha=alpha, n_documents=4000, lengths=1, seed=3).take(range(4000)).proportions
    for topic in range(4):
        assert scipy.stats.kstest(proportions[:, topic], scipy.stats.beta(alpha, 3 * alpha).cdf).pvalue > 1e-4


def test_words_follow_the_documents_proportions_and_are_even_within_a_topic():
    """Chi-square of one long document against its true proportions, and of its words against their topic."""
    corpus = lda(n_topics=5, words_per_topic=4, alpha=1.0, lengths=20_000, n_documents=1, seed=2)
    batch = corpus.take([0])
    expected = batch.proportions[0] @ corpus.word_probabilities * 20_000
    counts = np.bincount(batch.token_ids[0], minlength=20)
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4
    assert scipy.stats.chisquare(np.bincount(batch.topics[0], minlength=5), batch.proportions[0] * 20_000).pvalue > 1e-4


def test_neighbours_in_a_document_are_independent():
    """Given the topic proportions, a word says nothing about the next: no runs, no order."""
    batch = lda(n_topics=2, words_per_topic=1, lengths=20_000, n_documents=1, topics_per_document=2).take([0])
    words = batch.token_ids[0]
    table = np.array([[np.sum((words[:-1] == a) & (words[1:] == b)) for b in (0, 1)] for a in (0, 1)])
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("count", [1, 3, 5])
def test_documents_have_exactly_so_many_topics_in_equal_proportions(count: int):
    corpus = lda(n_topics=5, words_per_topic=3, n_documents=400, topics_per_document=count)
    batch = corpus.take(range(400))
    assert set(np.unique(batch.proportions)) <= {0.0, 1 / count}
    assert ((batch.proportions > 0).sum(axis=1) == count).all()
    for document, row in zip(corpus, batch.proportions, strict=True):
        assert {word // 3 for word in document.token_ids} == set(np.flatnonzero(row))


def test_all_sets_of_topics_are_alike():
    """Chi-square over the ten pairs of five topics."""
    proportions = lda(n_topics=5, n_documents=3000, lengths=1, topics_per_document=2).take(range(3000)).proportions
    found = [tuple(np.flatnonzero(row)) for row in proportions]
    counts = [found.count(pair) for pair in itertools.combinations(range(5), 2)]
    assert sum(counts) == 3000
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_overlap_gives_a_share_of_words_to_the_next_topic_as_well():
    corpus = lda(n_topics=3, words_per_topic=4, overlap=0.5, n_documents=50)
    assert corpus.topics_of == {
        0: (0, 1), 1: (0, 1), 2: (0,), 3: (0,),
        4: (1, 2), 5: (1, 2), 6: (1,), 7: (1,),
        8: (0, 2), 9: (0, 2), 10: (2,), 11: (2,),
    }  # fmt: skip
    np.testing.assert_allclose(corpus.word_probabilities.sum(axis=1), 1)
    assert set(np.unique(corpus.word_probabilities)) == {0.0, 1 / 6}


def test_a_word_comes_from_a_topic_that_can_say_it():
    """Shared words come from both of their topics."""
    corpus = lda(n_topics=3, words_per_topic=4, overlap=0.5, alpha=1.0, n_documents=50)
    batch = corpus.take(range(50))
    pairs = set(zip(batch.token_ids[batch.mask].tolist(), batch.topics[batch.mask].tolist(), strict=True))
    assert pairs == {(word, topic) for word, topics in corpus.topics_of.items() for topic in topics}


def test_the_truth_makes_labels_and_a_topic_model():
    corpus = lda(n_topics=3, words_per_topic=2, overlap=0.5)
    labels = tp.TopicLabels.from_dict(corpus.topics_of, n_topics=corpus.n_topics)
    assert (labels.n_topics, labels.topics_of[0], labels.topics_of[1]) == (3, (0, 1), (0,))
    model = tp.TopicModel.from_matrix(corpus.word_probabilities, corpus.vocabulary, prior=corpus.prior)
    np.testing.assert_allclose(model.shares("0"), [0.5, 0.5, 0])


def test_the_truth_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        lda().word_probabilities[0, 0] = 1


def test_any_documents_can_be_taken_in_any_order():
    """They are those of the corpus, padded, whichever chunks they lie in."""
    corpus = lda(n_documents=900, lengths=(3, 12))
    documents, wanted = ids_of(corpus), [899, 0, 256, 255, 0, 511]
    batch = corpus.take(wanted, pad_id=-7)
    assert [tuple(row[:n]) for row, n in zip(batch.token_ids.tolist(), batch.lengths, strict=True)] == [
        documents[number] for number in wanted
    ]
    assert (batch.token_ids[~batch.mask] == -7).all()
    assert batch.token_ids.shape[1] == max(len(documents[number]) for number in wanted)
    np.testing.assert_array_equal(batch.mask.sum(axis=1), batch.lengths)


def test_a_batch_may_be_written_to_without_changing_the_corpus():
    corpus = lda(n_documents=10)
    before = corpus.take([1]).token_ids.copy()
    for array in vars(corpus.take(range(10))).values():
        array[:] = 0
    np.testing.assert_array_equal(corpus.take([1]).token_ids, before)


def test_no_document_is_an_empty_batch():
    assert lda(n_documents=10).take([]).token_ids.shape == (0, 0)


def test_batches_hold_each_document_once_in_order():
    corpus = lda(n_documents=10, lengths=(1, 4))
    batches = list(corpus.batches(4))
    assert [len(batch.lengths) for batch in batches] == [4, 4, 2]
    rows = [tuple(row[mask]) for batch in batches for row, mask in zip(batch.token_ids, batch.mask, strict=True)]
    assert rows == ids_of(corpus)


def test_batches_go_round_and_on_from_anywhere():
    """Repeated, every batch is whole; started later, they are those of an uninterrupted run."""
    corpus = lda(n_documents=10, lengths=6)
    endless = list(itertools.islice(corpus.batches(4, repeat=True), 6))
    numbers = [range(4 * k, 4 * k + 4) for k in range(6)]
    for batch, wanted in zip(endless, numbers, strict=True):
        np.testing.assert_array_equal(batch.token_ids, corpus.take([n % 10 for n in wanted]).token_ids)
    resumed = next(corpus.batches(4, start=12, repeat=True))
    np.testing.assert_array_equal(resumed.token_ids, endless[3].token_ids)


def test_a_corpus_can_be_sent_to_another_process():
    corpus = lda(n_documents=20, alpha=0.3, overlap=0.2, seed=8)
    corpus.take([0])
    again = pickle.loads(pickle.dumps(corpus))
    assert ids_of(again) == ids_of(corpus)
    assert again.topics_of == corpus.topics_of


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_topics": 0}, "n_topics must be at least 1"),
        ({"words_per_topic": 0}, "words_per_topic must be at least 1"),
        ({"n_topics": 2000, "words_per_topic": 1000}, "n_topics \\* words_per_topic must be at most"),
        ({"n_documents": 0}, "n_documents must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"alpha": 0.0}, r"alpha must be in \[1e-100, 1e100\], got 0.0"),
        ({"alpha": math.nan}, "alpha must be in"),
        ({"alpha": math.inf}, "alpha must be in"),
        ({"lengths": (5, 3)}, r"lengths must be \(shortest, longest\), got \(5, 3\)"),
        ({"lengths": 0}, "lengths must be at least 1"),
        ({"lengths": 10**6}, "lengths must be at most"),
        ({"topics_per_document": 0}, "topics_per_document must be at least 1"),
        ({"topics_per_document": 11}, r"topics_per_document must be at most n_topics \(10\), got 11"),
        ({"overlap": 1.5}, "overlap must be in"),
        ({"overlap": 1.0, "n_topics": 1}, "overlap must be 0 when there is one topic"),
    ],
)
def test_a_wrong_argument_is_named(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        lda(**options)


@pytest.mark.parametrize("number", [-1, 10])
def test_a_document_that_is_not_there_is_named(number: int):
    with pytest.raises(IndexError, match=rf"indices must be in 0 .. 9 \(n_documents - 1\), got {number}"):
        lda(n_documents=10).take([3, number])


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": 2, "start": -1}])
def test_wrong_batches_are_refused_when_asked_for(options: dict):
    """Not only when the first one is read."""
    with pytest.raises(ValueError, match="must be at least"):
        lda(n_documents=10).batches(**options)


def test_a_draw_at_an_end_falls_to_the_next_topic_and_never_to_one_of_proportion_zero():
    """The first, middle and last of all draws, for a document in the second row as well."""
    from topic_probes.corpora._lda import _STEPS, _choose

    draws = np.array([[0, _STEPS // 2 - 1, _STEPS // 2, _STEPS - 1]] * 2)
    found = _choose(np.array([[0.0, 0.5, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5]]), draws)
    assert found.tolist() == [[1, 1, 2, 2], [0, 0, 3, 3]]
