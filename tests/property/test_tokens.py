"""Whatever the text: the words of every kind of tokenizer are the oracle's, and both ways to them agree."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tiny_tokenizers
from token_oracles import says_where_tokens_stand, spelled_words
from topic_probes.corpora import Document
from topic_probes.tokens import DocumentReader
from topic_probes.tokens._alignment import align_words
from topic_probes.tokens._text import in_normal_form, without_spaces
from topic_probes.tokens._tokenizer import TokenizerView

FAST = [name for name in tiny_tokenizers.OFFSETS if name != "minilm"]
LOSSLESS = [name for name in FAST if name.startswith("byte")]
VIEWS = {name: TokenizerView(tiny_tokenizers.shared(name)) for name in [*FAST, *tiny_tokenizers.NO_OFFSETS]}

pieces = st.sampled_from(
    [
        *(
            "cat",
            "Cats",
            "word",
            "s",
            "'",
            "'s",
            "42",
            "_",
            "-",
            ".",
            " ",
            "  ",
            "\n",
            "\t",
            "\u00a0",
            "é",
            "e\u0301",
            "ï",
        ),
        *("猫", "犬", "と", "日本語", "🐱", "👩\u200d👧", "\u0302", "ß", "İ", "кош", "\u0142"),
        *("[SEP]", "<s>", "<|endoftext|>", "<unk>"),
    ]
)
texts = st.lists(pieces | st.characters(exclude_categories=["Cs"]), max_size=25).map("".join)
plain_texts = st.lists(
    st.sampled_from(["cat", "cats", "Word", "s", "'s", "42", "-", ".", " ", "  ", "é", "猫", "🐱", "\n", "\u0142"]),
    max_size=25,
).map("".join)


def triples(aligned):
    return list(zip(aligned.words, aligned.starts.tolist(), aligned.stops.tolist(), strict=True))


@pytest.mark.parametrize("name", FAST)
@given(texts)
def test_words_are_those_of_the_oracle(name, text):
    text = unicodedata.normalize("NFC", text)
    assume(says_where_tokens_stand(tiny_tokenizers.shared(name), text))
    assert set(triples(align_words(VIEWS[name].tokenize(text)))) == spelled_words(tiny_tokenizers.shared(name), text)


@pytest.mark.parametrize("name", list(VIEWS))
@given(texts)
def test_ids_are_the_tokenizers_and_words_stand_in_order(name, text):
    tokenized = VIEWS[name].tokenize(text)
    assert tokenized.token_ids.tolist() == tiny_tokenizers.shared(name)(text, verbose=False)["input_ids"]
    for way in (tokenized, VIEWS[name].spell_out(tokenized.token_ids)):
        aligned = align_words(way)
        assert (aligned.stops > aligned.starts).all()
        assert (aligned.starts[1:] >= aligned.stops[:-1]).all()
        assert unicodedata.is_normalized("NFC", way.text)


@pytest.mark.parametrize("name", LOSSLESS)
@given(plain_texts)
def test_offsets_and_spelling_give_the_same_words(name, text):
    tokenized = VIEWS[name].tokenize(text)
    assert triples(align_words(VIEWS[name].spell_out(tokenized.token_ids))) == triples(align_words(tokenized))


@pytest.mark.parametrize("name", ["unigram", "metaspace_bpe"])
@given(plain_texts)
def test_spelling_finds_no_word_that_offsets_do_not(name, text):
    """What is unknown in a spelling could be a letter, so its neighbours are no words; nothing else is lost."""
    tokenized = VIEWS[name].tokenize(text)
    spelled = triples(align_words(VIEWS[name].spell_out(tokenized.token_ids)))
    assert set(spelled) <= set(triples(align_words(tokenized)))
    if tiny_tokenizers.shared(name).unk_token_id not in tokenized.token_ids:
        assert spelled == triples(align_words(tokenized))


@pytest.mark.parametrize(("slow", "fast"), [("slow_wordpiece", "wordpiece"), ("zero_offsets", "byte_level")])
@given(plain_texts)
def test_without_offsets_no_other_words_are_found(slow, fast, text):
    without, with_offsets = (triples(align_words(VIEWS[name].tokenize(text))) for name in (slow, fast))
    assert set(without) <= set(with_offsets)


@pytest.mark.parametrize("name", list(VIEWS))
@given(st.lists(st.integers(0, 420), max_size=30))
def test_any_ids_can_be_read(name, ids):
    """Also such as no text gives: bytes in disorder, special tokens anywhere, ids beyond the vocabulary."""
    spelled = VIEWS[name].spell_out(np.array(ids, dtype=np.int64))
    aligned = align_words(spelled)
    assert all(spelled.is_readable[start:stop].all() for _, start, stop in triples(aligned))


@pytest.mark.parametrize("name", ["wordpiece", "byte_level_begin", "unigram", "slow_characters"])
@given(texts, st.integers(4, 12))
def test_windows_hold_every_ordinary_token_once(name, text, max_length):
    reader = DocumentReader(tiny_tokenizers.shared(name), words="merge", max_length=max_length)
    document = Document("0", text=text)
    whole, windows = reader.read(document), list(reader.windows(document))
    ordinary = [token for window in windows for token in window.token_ids[~window.is_special].tolist()]
    assert ordinary == whole.token_ids[~whole.is_special].tolist()
    assert all(len(window) <= max_length for window in windows)
    room = max_length - sum(reader._view.frame)
    kept = [word for word, n in zip(whole.words, whole.stops - whole.starts, strict=True) if n <= room]
    assert [word for window in windows for word in window.words] == kept
    taken = [
        window.token_ids[a:b].tolist() for window in windows for a, b in zip(window.starts, window.stops, strict=True)
    ]
    assert taken == [
        whole.token_ids[a:b].tolist() for a, b in zip(whole.starts, whole.stops, strict=True) if b - a <= room
    ]


marks = st.lists(
    st.sampled_from("aeoqyc \u0301\u0302\u0323\u0327\u0334\u1100\u1161\u11a8\u09c7\u09be한é\u0344"), max_size=14
)


@given((marks | st.lists(st.characters(exclude_categories=["Cs"]), max_size=8)).map("".join), st.data())
def test_normal_form_is_unicodes_and_places_stay(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    spans = np.array(list(zip([0, *cuts], [*cuts, len(text)], strict=True)), dtype=np.int64)
    composed, moved = in_normal_form(text, spans)
    assert composed == unicodedata.normalize("NFC", text)
    for (start, end), (new_start, new_end) in zip(spans.tolist(), moved.tolist(), strict=True):
        if end > start:
            assert unicodedata.normalize("NFD", text[start:end])[0] in unicodedata.normalize(
                "NFD", composed[new_start:new_end]
            )
            assert 0 <= new_start < new_end <= len(composed)
        else:
            assert new_start == new_end


@given(texts, st.data())
def test_spans_lose_their_outer_spaces_only(text, data):
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    new_start, new_end = without_spaces(text, np.array([[start, end]])).tolist()[0]
    assert text[new_start:new_end] == text[start:end].strip() if new_end > new_start else not text[start:end].strip()
