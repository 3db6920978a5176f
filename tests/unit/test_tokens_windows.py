"""Long documents are cut between words, short and bad ones are counted, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

import tiny_tokenizers
from topic_probes._errors import CorpusError
from topic_probes.corpora import Document
from topic_probes.tokens import DocumentReader, Window

MAX_LENGTH = 24
SENTENCE = "the cat sat on the mat and the dogs of the city have old trees reword "


def long_text(tokenizer, n_tokens):
    """A text of exactly so many tokens, special ones included; most of its words have several."""
    for length in range(1, 400):
        for end in ("", ".", " a"):
            text = (SENTENCE * 20)[:length] + end
            if len(tokenizer(text, verbose=False)["input_ids"]) == n_tokens:
                return text
    raise AssertionError(f"no text of {n_tokens} tokens")


KINDS = ["wordpiece", "byte_level", "byte_level_begin", "unigram", "metaspace_bpe", "byte_fallback", "slow_characters"]


@pytest.fixture(params=KINDS)
def tokenizer(request):
    return tiny_tokenizers.shared(request.param)


def reader(tokenizer, **options):
    return DocumentReader(tokenizer, **{"words": "merge", "max_length": MAX_LENGTH, **options})


def read(reader, text):
    return list(reader.windows(Document("7", text=text)))


@pytest.mark.parametrize("n_tokens", [MAX_LENGTH - 1, MAX_LENGTH])
def test_a_document_that_fits_is_one_window_with_the_ids_of_the_tokenizer(tokenizer, n_tokens):
    text = long_text(tokenizer, n_tokens)
    for long_documents in ("window", "truncate", "skip", "error"):
        counted = reader(tokenizer, long_documents=long_documents)
        (window,) = read(counted, text)
        assert window.token_ids.tolist() == tokenizer(text, verbose=False)["input_ids"]
        tally = counted.tally
        assert (tally.n_documents, tally.n_windows, tally.n_tokens) == (1, 1, n_tokens)
        assert tally.n_windowed == tally.n_truncated == tally.n_skipped == tally.n_empty == 0


@pytest.mark.parametrize("n_tokens", [MAX_LENGTH + 1, MAX_LENGTH * 5 // 2])
def test_windows_hold_every_token_once_and_every_word_whole(tokenizer, n_tokens):
    """Special tokens at the ends are in each window, the others in one, in order; no word is cut."""
    text = long_text(tokenizer, n_tokens)
    counted = reader(tokenizer)
    whole = counted.read(Document("7", text=text))
    windows = read(counted, text)
    ordinary = np.flatnonzero(~whole.is_special)
    before, after = ordinary[0], len(whole) - 1 - ordinary[-1]
    inner = []
    for window in windows:
        assert len(window) <= MAX_LENGTH
        ids = window.token_ids.tolist()
        assert ids[:before] == whole.token_ids[:before].tolist()
        assert ids[len(ids) - after :] == whole.token_ids[len(whole) - after :].tolist()
        assert window.is_special.tolist() == [True] * before + [False] * (len(ids) - before - after) + [True] * after
        inner += ids[before : len(ids) - after]
    assert inner == whole.token_ids[ordinary].tolist()
    assert len(windows) == -(-len(ordinary) // (MAX_LENGTH - before - after)) or len(windows) > 1
    spelled = [
        (word, window.token_ids[start:stop].tolist())
        for window in windows
        for word, start, stop in zip(window.words, window.starts, window.stops, strict=True)
    ]
    assert spelled == [
        (word, whole.token_ids[start:stop].tolist())
        for word, start, stop in zip(whole.words, whole.starts, whole.stops, strict=True)
    ]
    tally = counted.tally
    assert (tally.n_documents, tally.n_windowed, tally.n_windows) == (1, 1, len(windows))
    assert tally.n_tokens == sum(map(len, windows))
    assert tally.n_words_taking_part == len(whole.words) <= tally.n_words


def test_a_window_is_full_when_no_word_is_in_the_way():
    tokenizer = tiny_tokenizers.shared("wordpiece")
    windows = read(reader(tokenizer, max_length=6), "the cat the cat the cat the cat the cat")
    assert [len(window) for window in windows] == [6, 6, 4]


def test_a_word_longer_than_a_window_is_cut_and_takes_no_part():
    tokenizer = tiny_tokenizers.shared("slow_characters")
    windows = read(reader(tokenizer, max_length=7), "ab abcdefghijkl cd")
    assert [word for window in windows for word in window.words] == ["ab", "cd"]
    rejoined = [token for window in windows for token in window.token_ids[~window.is_special].tolist()]
    assert "".join(map(chr, rejoined)) == "ab abcdefghijkl cd"


def test_truncate_reads_the_first_window_only(tokenizer):
    text = long_text(tokenizer, MAX_LENGTH * 2)
    first = read(reader(tokenizer), text)[0]
    counted = reader(tokenizer, long_documents="truncate")
    (window,) = read(counted, text)
    assert window.token_ids.tolist() == first.token_ids.tolist()
    assert (counted.tally.n_truncated, counted.tally.n_windowed, counted.tally.n_windows) == (1, 0, 1)


def test_skip_leaves_long_documents_out_and_counts_them(tokenizer):
    counted = reader(tokenizer, long_documents="skip")
    assert read(counted, long_text(tokenizer, MAX_LENGTH + 1)) == []
    assert counted.tally.as_dict() == {**dict.fromkeys(counted.tally.as_dict(), 0), "n_skipped": 1}


def test_error_refuses_long_documents(tokenizer):
    refusing = reader(tokenizer, long_documents="error")
    with pytest.raises(CorpusError, match=r"document '7' has 25 tokens, more than max_length=24: pass long_documents="):
        read(refusing, long_text(tokenizer, MAX_LENGTH + 1))


def test_a_window_must_have_room_beside_the_special_tokens():
    with pytest.raises(ValueError, match="max_length must leave room beside the 2 special tokens of a document, got 2"):
        read(reader(tiny_tokenizers.shared("wordpiece"), max_length=2), "the cat")


def test_special_tokens_that_a_text_spells_are_not_repeated():
    """They fill no window; only those that the tokenizer adds are at its ends."""
    tokenizer = tiny_tokenizers.shared("wordpiece")
    text = "[SEP] " * 10 + "the cat sat [SEP] on the mat " + "[SEP] " * 10
    windows = read(reader(tokenizer, max_length=8), text)
    names = [tokenizer.convert_ids_to_tokens(window.token_ids.tolist()) for window in windows]
    assert all(name[0] == "[CLS]" and name[-1] == "[SEP]" and name.count("[CLS]") == 1 for name in names)
    assert [word for window in windows for word in window.words] == ["the", "cat", "sat", "on", "the", "mat"]
    assert not any(window.is_special.all() for window in windows)


# Documents of token ids


def read_ids(reader, ids):
    return list(reader.windows(Document("7", token_ids=tuple(ids))))


def test_ids_of_a_text_are_read_as_the_text(tokenizer):
    for n_tokens in (MAX_LENGTH - 1, MAX_LENGTH * 2):
        text = long_text(tokenizer, n_tokens)
        from_text = read(reader(tokenizer), text)
        from_ids = read_ids(reader(tokenizer), tokenizer(text, verbose=False)["input_ids"])
        for one, other in zip(from_text, from_ids, strict=True):
            assert one.token_ids.tolist() == other.token_ids.tolist()
            assert one.starts.tolist() == other.starts.tolist()
            assert one.stops.tolist() == other.stops.tolist()


def test_pads_of_an_id_document_are_left_out():
    tokenizer = tiny_tokenizers.shared("wordpiece")
    ids = tokenizer("the cat")["input_ids"]
    for padded in (ids + [0] * 500, [0] * 500 + ids):
        (window,) = read_ids(reader(tokenizer), padded)
        assert window.token_ids.tolist() == ids
        assert window.words == ("the", "cat")


def test_a_pad_that_also_ends_the_text_stays_once():
    tokenizer = tiny_tokenizers.shared("byte_level")
    end = tokenizer.pad_token_id
    assert end == tokenizer.eos_token_id
    ids = tokenizer("the cat")["input_ids"]
    (window,) = read_ids(reader(tokenizer), [end, end, *ids, end, end, end])
    assert window.token_ids.tolist() == [end, *ids, end]
    (window,) = read_ids(reader(tokenizer), [end, *ids])
    assert window.token_ids.tolist() == [end, *ids]


def test_ids_without_tokenizer_take_part_each():
    counted = DocumentReader(None, of_words=False, max_length=4)
    windows = read_ids(counted, range(10))
    assert [window.words for window in windows] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert [window.starts.tolist() for window in windows] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1]]
    assert [window.stops.tolist() for window in windows] == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2]]
    assert (counted.tally.n_words, counted.tally.n_words_taking_part, counted.tally.n_tokens) == (10, 10, 10)


def test_labels_of_ids_with_a_tokenizer_leave_special_tokens_out():
    tokenizer = tiny_tokenizers.shared("wordpiece")
    (window,) = read(DocumentReader(tokenizer, of_words=False), "the cats [SEP] sat")
    ordinary = window.token_ids[~window.is_special].tolist()
    assert list(window.words) == ordinary
    assert window.token_ids[window.starts].tolist() == ordinary


@pytest.mark.parametrize("wrong", [-1, 100, 10**6])
def test_ids_outside_the_vocabulary_are_refused(wrong, tokenizer):
    for any_tokenizer in (None, tokenizer):
        strict = DocumentReader(any_tokenizer, of_words=False, n_vocabulary=100)
        with pytest.raises(CorpusError, match=rf"document '7' has token id {wrong}, outside .* vocabulary of 100"):
            read_ids(strict, [5, wrong, 6])
    with pytest.raises(CorpusError, match=f"token id {wrong}"):
        read_ids(DocumentReader(tokenizer, n_vocabulary=100), [5, wrong, 6])


def test_ids_that_only_the_model_knows_are_no_word(tokenizer):
    """A model's vocabulary may be larger than its tokenizer's, padded to a round number."""
    beyond = len(tokenizer) + 5
    ids = tokenizer("the cat sat", add_special_tokens=False)["input_ids"]
    if tokenizer.convert_ids_to_tokens([5]) == [chr(5)]:
        pytest.skip("this tokenizer has a token for every id")
    (window,) = read_ids(reader(tokenizer), [*ids, beyond, *ids])
    assert window.token_ids.tolist() == [*ids, beyond, *ids]
    assert window.words[:2] == ("the", "cat")
    assert len(ids) not in {
        position for a, b in zip(window.starts, window.stops, strict=True) for position in range(a, b)
    }


def test_a_text_of_a_wrong_tokenizer_is_refused():
    with pytest.raises(CorpusError, match="document '7' has token id"):
        read(reader(tiny_tokenizers.shared("wordpiece"), n_vocabulary=20), SENTENCE)


def test_text_without_tokenizer_is_refused():
    with pytest.raises(CorpusError, match="document '7' is text, and there is no tokenizer"):
        read(DocumentReader(None, of_words=False), "the cat")


def test_labels_of_words_without_tokenizer_are_refused():
    with pytest.raises(ValueError, match="labels of words need a tokenizer"):
        DocumentReader(None)


def test_documents_without_a_token_of_their_own_are_counted(tokenizer):
    special = tokenizer.convert_ids_to_tokens(int(reader(tokenizer)._view.special_ids[0]))
    counted = reader(tokenizer)
    assert read(counted, "") == []
    assert read_ids(counted, []) == []
    assert read_ids(counted, reader(tokenizer)._view.special_ids.tolist()) == []
    assert counted.tally.as_dict() == {**dict.fromkeys(counted.tally.as_dict(), 0), "n_empty": 3}
    if tokenizer(special, add_special_tokens=False)["input_ids"] == [tokenizer.convert_tokens_to_ids(special)]:
        assert read(counted, special * 50) == []
        assert counted.tally.n_empty == 4


def test_a_document_without_words_is_a_window_without_words(tokenizer):
    counted = reader(tokenizer)
    (window,) = read(counted, "42 ... 7!")
    assert isinstance(window, Window)
    assert window.words == ()
    assert window.starts.shape == window.stops.shape == (0,)
    assert (counted.tally.n_documents, counted.tally.n_words) == (1, 0)


# Rows that a model was given


def test_a_row_is_read_as_it_is(tokenizer):
    text = long_text(tokenizer, MAX_LENGTH * 2)
    ids = np.array(tokenizer(text, verbose=False)["input_ids"])
    counted = reader(tokenizer)
    row = counted.row("3", ids)
    whole = counted.read(Document("3", text=text))
    assert row.document_id == "3"
    assert row.token_ids.tolist() == ids.tolist()
    assert row.is_special.tolist() == whole.is_special.tolist()
    assert row.starts.tolist() == whole.starts.tolist()
    assert (counted.tally.n_documents, counted.tally.n_windows, counted.tally.n_tokens) == (1, 1, len(ids))
    single = reader(tokenizer, words="whole").row("3", ids)
    assert set(single.words) <= set(row.words)
    assert (single.stops - single.starts == 1).all()


def test_an_empty_row_is_read():
    for row in (
        reader(tiny_tokenizers.shared("wordpiece")).row("0", np.zeros(0, dtype=np.int64)),
        DocumentReader(None, of_words=False).row("0", np.zeros(0, dtype=np.int64)),
    ):
        assert len(row) == len(row.words) == 0


def test_a_special_token_that_begins_a_text_is_not_repeated_if_the_tokenizer_adds_none():
    tokenizer = tiny_tokenizers.shared("byte_level")
    end = tokenizer.eos_token_id
    windows = read(reader(tokenizer, max_length=5), f"{tokenizer.eos_token} the mat the mat the mat the mat")
    assert len(windows) > 1
    assert [end in window.token_ids for window in windows] == [True] + [False] * (len(windows) - 1)


def test_ids_repeat_the_special_token_that_they_begin_with():
    """A model whose batches begin with BOS although its tokenizer adds none, as TransformerLens' GPT-2."""
    tokenizer = tiny_tokenizers.shared("byte_level")
    end = tokenizer.eos_token_id
    windows = read_ids(
        reader(tokenizer, max_length=5), [end, *tokenizer("the mat the mat the mat the mat")["input_ids"]]
    )
    assert len(windows) > 1
    assert all(window.token_ids[0] == end for window in windows)


def test_a_window_without_words_has_no_pairs():
    """Nothing that reduces over words stumbles when there is none."""
    from topic_probes.probes._pairs import classify, pair_weights
    from topic_probes.probes._sides import Reach
    from topic_probes.topics import TopicLabels

    (window,) = read(reader(tiny_tokenizers.shared("wordpiece")), "42 ... 7!")
    weights = pair_weights(classify(window, TopicLabels.from_dict({"cat": 0, "mat": 1})), Reach(50, 50))
    assert not weights.counts.any()
    assert not weights.weights.any()
