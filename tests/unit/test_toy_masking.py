"""Masks have P1's rates and one position a document at least; batches go through all documents."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from topic_probes import CorpusError
from topic_probes.toy._documents import Bag, Order, fingerprint, read_documents
from topic_probes.toy._masking import mask_documents
from topic_probes.toy._masking_rates import MaskingRates

N_WORDS = 7


def documents(n: int = 400, *, seed: int = 0, longest: int = 60) -> Bag:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, n)
    return Bag(generator.integers(0, N_WORDS, lengths.sum()).astype(np.int32), lengths)


def shares(shown: np.ndarray, targets: np.ndarray) -> tuple[int, int]:
    """How many masked positions show [MASK], and how many a word that is not theirs."""
    return int((shown == N_WORDS).sum()), int(((shown != N_WORDS) & (shown != targets)).sum())


def test_positions_are_masked_at_the_three_rates() -> None:
    """Numbers of masked, hidden and exchanged positions are binomial with the rates asked for."""
    bag = documents(3000, longest=90)
    bag = bag.take(np.flatnonzero(bag.lengths >= 40))  # one position for documents without one does not matter here
    found = mask_documents(bag, MaskingRates(0.3, 0.2, 0.25), N_WORDS, np.random.default_rng(1))
    n_hidden, n_other = shares(found.shown.tokens[found.masked], found.targets)
    n = len(found.masked)
    for count, total, rate in [
        (n, len(bag.tokens), 0.3),
        (n_hidden, n, 0.55),
        (n_other, n, 0.25 * (N_WORDS - 1) / N_WORDS),
    ]:
        assert scipy.stats.binomtest(count, total, rate).pvalue > 1e-3, (count / total, rate)


@pytest.mark.parametrize(("keep", "random"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_extreme_rates_do_one_thing_only(keep: float, random: float) -> None:
    """All kept, all random, all hidden."""
    bag = documents()
    found = mask_documents(bag, MaskingRates(0.5, keep, random), N_WORDS, np.random.default_rng(0))
    shown = found.shown.tokens[found.masked]
    if keep:
        assert np.array_equal(shown, found.targets)
    elif random:
        assert shown.max() < N_WORDS
        assert 0.5 < (shown != found.targets).mean() < 1
    else:
        assert (shown == N_WORDS).all()


def test_what_is_not_masked_stays_and_the_documents_too() -> None:
    """Targets are the true words, other positions show theirs, and the input is not written to."""
    bag = documents()
    before = bag.tokens.copy()
    found = mask_documents(bag, MaskingRates(), N_WORDS, np.random.default_rng(0))
    others = np.setdiff1d(np.arange(len(before)), found.masked)
    assert np.array_equal(bag.tokens, before)
    assert np.array_equal(found.shown.tokens[others], before[others])
    assert np.array_equal(found.targets, before[found.masked])
    assert (np.diff(found.masked) > 0).all()


def test_each_document_has_a_masked_position() -> None:
    """Also where the rate is tiny; the one that is forced is at any place alike, and is shown by the same rates."""
    bag = Bag(np.arange(4 * 5000) % N_WORDS, np.full(5000, 4))
    found = mask_documents(bag, MaskingRates(1e-9, 0.25, 0.25), N_WORDS, np.random.default_rng(0))
    assert np.array_equal(bag.document[found.masked], np.arange(5000))
    assert scipy.stats.chisquare(np.bincount(found.masked % 4)).pvalue > 1e-3
    n_hidden, _ = shares(found.shown.tokens[found.masked], found.targets)
    assert scipy.stats.binomtest(n_hidden, 5000, 0.5).pvalue > 1e-3


def test_one_generator_gives_one_mask() -> None:
    """Masks are decided by the generator, and by nothing else."""
    draw = [mask_documents(documents(), MaskingRates(), N_WORDS, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert np.array_equal(draw[0].shown.tokens, draw[1].shown.tokens)
    assert not np.array_equal(draw[0].shown.tokens, draw[2].shown.tokens)


def test_taking_documents_gives_those_documents() -> None:
    """In the order asked for, and twice where asked twice."""
    bag = documents(6, longest=5)
    rows = np.split(bag.tokens, bag.starts[1:])
    taken = bag.take(np.array([4, 0, 4]))
    assert [row.tolist() for row in np.split(taken.tokens, taken.starts[1:])] == [rows[n].tolist() for n in (4, 0, 4)]
    assert taken.place.tolist() == [at for n in (4, 0, 4) for at in range(len(rows[n]))]
    assert taken.document.tolist() == [number for number, n in enumerate((4, 0, 4)) for _ in rows[n]]


@pytest.mark.parametrize("batch_size", [1, 3, 7, 20])
def test_each_epoch_goes_through_all_documents_once(batch_size: int) -> None:
    """Whatever the batch size; epochs have orders of their own, and a step can be asked for by itself."""
    order = Order(7, batch_size, seed=2)
    drawn = np.concatenate([order(step) for step in range(-(-21 // batch_size))])[:21].reshape(3, 7)
    assert (np.sort(drawn, axis=1) == np.arange(7)).all()
    assert len({tuple(row) for row in drawn.tolist()}) == 3
    again = Order(7, batch_size, seed=2)
    assert np.array_equal(again(1), order(1))


def test_documents_are_read_from_lists_and_from_known_topic_models_alike() -> None:
    """A corpus that hands out arrays gives what its documents say one by one."""
    from topic_probes import corpora

    corpus = corpora.lda(n_topics=2, words_per_topic=3, lengths=(1, 9), n_documents=600, seed=1)
    quick = read_documents(corpus, 6)
    slow = read_documents([list(document.token_ids or ()) for document in corpus], 6)
    assert fingerprint(quick) == fingerprint(slow)
    assert np.array_equal(quick.tokens, slow.tokens)
    assert np.array_equal(quick.lengths, slow.lengths)
    with pytest.raises(CorpusError, match="has 6 words, and the model 5"):
        read_documents(corpus, 5)


def test_empty_documents_are_left_out_and_wrong_ones_refused() -> None:
    """Nothing is asked of an empty document; text and foreign ids are errors that say where."""
    assert read_documents([[0, 1], [], [2]], 3).lengths.tolist() == [2, 1]
    with pytest.raises(CorpusError, match="is text"):
        read_documents(["a cat"], 3)
    with pytest.raises(CorpusError, match=r"must be in 0 .. 2, got 1 to 3"):
        read_documents([[0], [1, 3]], 3)
    with pytest.raises(CorpusError, match="no document with a word"):
        read_documents([[], []], 3)
