"""What holds for topic models and labels of any content."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from gensim.corpora import Dictionary
from gensim.models import CoherenceModel
from hypothesis import given
from hypothesis import strategies as st

from topic_probes.topics import TopicLabels, TopicModel, _bags
from topic_probes.topics._bags import Bags
from topic_probes.topics._gensim import coherences, top_indices
from topic_probes.topics._passages import cut_passages

WORDS = [first + second for first in "bcd" for second in "xyz"]


@st.composite
def models(draw):
    """Small whole numbers, so that ties and zeros are common."""
    n_topics, n_words = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    weights = [draw(st.lists(st.integers(0, 4), min_size=n_words, max_size=n_words)) for _ in range(n_topics)]
    for row in weights:
        if not any(row):
            row[draw(st.integers(0, n_words - 1))] = 1
    prior = draw(st.lists(st.integers(1, 4), min_size=n_topics, max_size=n_topics))
    return [[Fraction(value, sum(row)) for value in row] for row in weights], [Fraction(p, sum(prior)) for p in prior]


def as_model(phi, prior):
    return TopicModel.from_matrix(
        [[float(value) for value in row] for row in phi], WORDS[: len(phi[0])], [float(value) for value in prior]
    )


def labels_by_brute_force(phi, prior, top_k, min_share, top_fraction, stopped):
    """The three filters in exact fractions, one word and topic at a time."""
    n_topics, n_words = len(phi), len(phi[0])
    labels = {}
    for word in range(n_words):
        total = sum(phi[topic][word] * prior[topic] for topic in range(n_topics))
        if total == 0 or WORDS[word] in stopped:
            continue
        share = [phi[topic][word] * prior[topic] / total for topic in range(n_topics)]
        kept = []
        for topic in range(n_topics):
            better = sum(share[other] > share[topic] for other in range(n_topics))
            better += sum(share[other] == share[topic] for other in range(topic))
            likelier = sum(phi[topic][other] > phi[topic][word] for other in range(n_words))
            likelier += sum(phi[topic][other] == phi[topic][word] for other in range(word))
            enough = top_fraction is None or likelier < math.ceil(top_fraction * n_words)
            if share[topic] > 0 and share[topic] >= min_share and (top_k is None or better < top_k) and enough:
                kept.append(topic)
        if kept:
            labels[WORDS[word]] = tuple(kept)
    return labels


@given(
    models(),
    st.none() | st.integers(1, 4),
    st.fractions(0, 1, max_denominator=6),
    st.none() | st.fractions(Fraction(1, 10), 1, max_denominator=10),
    st.booleans(),
    st.sets(st.sampled_from(WORDS), max_size=3),
)
def test_the_three_filters_are_what_they_say(model, top_k, min_share, top_fraction, corpus_prior, stopped):
    """Ties, zeros and thresholds that are met exactly included."""
    phi, prior = model
    weights = prior if corpus_prior else [Fraction(1)] * len(phi)
    expected = labels_by_brute_force(phi, weights, top_k, min_share, top_fraction, stopped)
    try:
        labels = as_model(phi, prior).label_words(
            top_k,
            float(min_share),
            None if top_fraction is None else float(top_fraction),
            "corpus" if corpus_prior else "uniform",
            stopped,
        )
    except ValueError:
        assert not expected
        return
    assert labels.topics_of == expected
    assert labels.coverage["n_topics_used"] == len({topic for topics in expected.values() for topic in topics})


@given(models(), st.randoms(use_true_random=False))
def test_renamed_topics_give_renamed_labels(model, chooser):
    """With all topics over the threshold kept, no tie needs breaking."""
    phi, prior = model
    order = list(range(len(phi)))
    chooser.shuffle(order)
    options = {"top_k": None, "min_share": 0.3, "prior": "corpus", "stop_words": None}
    try:
        before = as_model(phi, prior).label_words(**options)
    except ValueError:
        return
    after = as_model([phi[topic] for topic in order], [prior[topic] for topic in order]).label_words(**options)
    renamed = {word: tuple(sorted(order.index(topic) for topic in topics)) for word, topics in before.topics_of.items()}
    assert after.topics_of == renamed


@given(models())
def test_shares_of_a_word_add_to_one(model):
    shares = as_model(*model).share_matrix("corpus")
    said = np.array([any(row[word] for row in model[0]) for word in range(shares.shape[0])])
    np.testing.assert_allclose(shares[said].sum(axis=1), 1, rtol=1e-12)
    assert np.isnan(shares[~said]).all()


@given(st.lists(st.lists(st.floats(1e-9, 1.0), min_size=5, max_size=5), min_size=1, max_size=4), st.floats(-9e-7, 9e-7))
def test_saving_and_loading_change_no_bit(weights, off):
    phi = np.array(weights)
    phi = phi / phi.sum(axis=1, keepdims=True) * (1 + off)
    model = TopicModel.from_matrix(phi, WORDS[:5])
    with tempfile.TemporaryDirectory() as folder:
        loaded = TopicModel.load(model.save(Path(folder, "topics")))
    assert loaded.word_probabilities.tobytes() == model.word_probabilities.tobytes()


@given(st.dictionaries(st.sampled_from(WORDS), st.sets(st.integers(0, 5), min_size=1), min_size=1), st.data())
def test_membership_is_a_look_up(topics_of, data):
    keys = data.draw(st.lists(st.sampled_from([*WORDS, "other"])))
    labels = TopicLabels.from_dict(topics_of, n_topics=6)
    member = labels.membership(keys)
    assert member.shape == (len(keys), 6)
    for key, row in zip(keys, member, strict=True):
        assert set(np.flatnonzero(row)) == topics_of.get(key, set())
    assert TopicLabels.from_dict(labels.topics_of, n_topics=6).fingerprint() == labels.fingerprint()


@given(st.lists(st.integers(-3, 3), min_size=1), st.integers(1, 50))
def test_top_indices_are_a_stable_sort(values, n):
    expected = sorted(range(len(values)), key=lambda index: (-values[index], index))[:n]
    assert top_indices(np.array(values, dtype=np.float64), n).tolist() == expected


@given(st.integers(0, 300), st.none() | st.integers(1, 40))
def test_passages_are_the_document_in_order_of_nearly_equal_lengths(n_words, passage_words):
    words = [str(number) for number in range(n_words)]
    passages = cut_passages(words, passage_words)
    assert [word for passage in passages for word in passage] == words
    lengths = [len(passage) for passage in passages]
    if words:
        assert max(lengths) - min(lengths) <= 1
        assert len(passages) == (1 if passage_words is None else math.ceil(n_words / passage_words))


@pytest.mark.parametrize("block", [1, 5, _bags.BLOCK])
@given(st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=8), st.sampled_from([1, _bags.IN_MEMORY]), st.data())
def test_bags_are_counted_passages(block, passages, in_memory, data):
    """Chosen, renamed and counted as lists of numbers would be, wherever they are kept and however they are read."""
    with mock.patch.multiple(_bags, BLOCK=block, IN_MEMORY=in_memory):
        require_counted(passages, data)


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=1, max_size=8), st.data())
def test_u_mass_is_that_of_gensims_own_counter(passages, data):
    """To the last bit, also where words never stand together; of words that stand somewhere."""
    present = sorted({word for passage in passages for word in passage})
    topic = st.lists(st.sampled_from(present), min_size=2, max_size=len(present), unique=True)
    topics = data.draw(st.lists(topic, min_size=1, max_size=3)) if len(present) > 1 else []
    bags, names = Bags.of(passages), [str(word) for word in range(7)]
    found = coherences([np.array(words) for words in topics], names, measure="u_mass", bags=bags)
    if topics:
        dictionary = Dictionary()
        dictionary.token2id, dictionary.id2token = {name: int(name) for name in names}, dict(enumerate(names))
        corpus = [list(bag) for bag in bags]
        theirs = CoherenceModel(topics=topics, corpus=corpus, dictionary=dictionary, coherence="u_mass", topn=7)
        assert found.tolist() == theirs.get_coherence_per_topic()


def require_counted(passages, data):
    bags = Bags.of(iter(passages))
    assert [dict(bag) for bag in bags] == [{word: p.count(word) for word in sorted(set(p))} for p in passages]
    assert bags.n_words().tolist() == [len(passage) for passage in passages]
    assert bags.passage_frequencies(7).tolist() == [sum(word in passage for passage in passages) for word in range(7)]
    assert bags.word_frequencies(7).tolist() == [sum(passage.count(word) for passage in passages) for word in range(7)]
    chosen = data.draw(st.lists(st.integers(0, max(len(passages) - 1, 0)), max_size=6)) if passages else []
    taken = bags.take(np.array(chosen, dtype=np.int64))
    assert [list(bag) for bag in taken] == [list(list(bags)[number]) for number in chosen]
    names = data.draw(st.permutations([0, 1, 2, 3, -1, -1, -1]))
    renamed = bags.rename(np.array(names, dtype=np.int32))
    assert [dict(bag) for bag in renamed] == [
        {names[word]: count for word, count in bag if names[word] >= 0} for bag in bags
    ]
