"""Invariances of synthetic documents and of the measures made of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topic_probes.corpora import lda, token_id_file
from topic_probes.toy import numerical_value_matrix, optimal_embedding_gram, optimal_value_matrix
from topic_probes.toy._measures import block_contrast

seeds = st.integers(0, 2**40)


@st.composite
def settings_of_documents(draw):
    n_topics = draw(st.integers(2, 6))
    return {
        "n_topics": n_topics,
        "words_per_topic": draw(st.integers(1, 5)),
        "alpha": 10.0 ** draw(st.floats(-99, 99)),
        "lengths": tuple(sorted(draw(st.tuples(st.integers(1, 20), st.integers(1, 20))))),
        "n_documents": draw(st.integers(1, 300)),
        "seed": draw(seeds),
        "topics_per_document": draw(st.none() | st.integers(1, n_topics)),
        "overlap": draw(st.floats(0, 1)),
    }


@given(settings=settings_of_documents())
def test_every_word_of_a_document_can_be_said_by_a_topic_of_it(settings):
    """Whatever the settings: lengths keep their bounds, ids and proportions theirs."""
    corpus = lda(**settings)
    batch = corpus.take(range(settings["n_documents"]))
    assert batch.lengths.min() >= settings["lengths"][0]
    assert batch.lengths.max() <= settings["lengths"][1]
    np.testing.assert_allclose(batch.proportions.sum(axis=1), 1)
    said = batch.proportions @ corpus.word_probabilities
    rows, columns = np.nonzero(batch.mask)
    assert (said[rows, batch.token_ids[rows, columns]] > 0).all()
    np.testing.assert_allclose(corpus.word_probabilities.sum(axis=1), 1)


@given(settings=settings_of_documents(), data=st.data())
def test_documents_are_the_same_however_they_are_asked_for(settings, data):
    corpus = lda(**settings)
    numbers = data.draw(st.lists(st.integers(0, settings["n_documents"] - 1), max_size=8))
    documents = [document.token_ids for document in corpus]
    batch = corpus.take(numbers)
    found = [tuple(row[mask].tolist()) for row, mask in zip(batch.token_ids, batch.mask, strict=True)]
    assert found == [documents[number] for number in numbers]


@given(documents=st.lists(st.lists(st.integers(0, 10**9 - 1), min_size=1), max_size=5), own_line=st.booleans())
def test_a_file_of_word_numbers_gives_what_was_written(documents, own_line, tmp_path_factory):
    path = tmp_path_factory.mktemp("ids") / "documents.txt"
    separator = "\n" if own_line else " "
    path.write_text("".join(" ".join(map(str, ids)) + separator + "END\n" for ids in documents))
    assert [list(document.token_ids) for document in token_id_file(path)] == documents


@st.composite
def rates(draw):
    keep, random = draw(st.floats(0, 0.9)), draw(st.floats(0, 0.9))
    scale = max(1.0, (keep + random) / 0.95)
    return draw(st.floats(0.01, 0.95)), keep / scale, random / scale


@given(n_topics=st.integers(2, 6), words=st.integers(1, 4), rates=rates(), data=st.data())
def test_the_closed_form_is_the_pseudo_inverse_whatever_the_rates(n_topics, words, rates, data):
    """And the embedding's gap is the value matrix's."""
    tau = data.draw(st.integers(1, n_topics - 1))
    optimum = optimal_value_matrix(n_topics, words, *rates)
    numerical = numerical_value_matrix(n_topics, words, *rates, topics_per_document=tau)
    # The pseudo-inverse loses digits as the shares of different topic sets come near each other.
    np.testing.assert_allclose(optimum.matrix(), numerical, atol=1e-9 * max(1.0, optimum.same))
    gram = optimal_embedding_gram(n_topics, words, *rates)
    np.testing.assert_allclose(gram.gap, optimum.gap)
    assert np.linalg.eigvalsh(gram.matrix()).min() > -1e-9 * gram.same


@given(seed=seeds, names=st.permutations(range(4)), order=st.permutations(range(8)))
def test_a_contrast_does_not_depend_on_the_order_of_words_or_the_names_of_topics(seed, names, order):
    generator = np.random.default_rng(seed)
    matrix, topics = generator.normal(size=(8, 8)), generator.integers(4, size=8)
    first = block_contrast(matrix, topics)
    renamed = np.array(names)[topics][order]
    second = block_contrast(matrix[np.ix_(order, order)], renamed)
    for name in ("same", "cross", "diagonal", "correlation"):
        np.testing.assert_allclose(getattr(second, name), getattr(first, name), atol=1e-12)
