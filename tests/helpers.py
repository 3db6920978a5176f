"""Tiny models of every kind that the installed TransformerLens can build, without a network."""

from __future__ import annotations

import functools
import tempfile
import warnings
from typing import Any

import numpy as np
import torch

import oracles

try:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
except ImportError:
    build_bridge_from_module = None
try:
    from transformer_lens import HookedEncoder, HookedTransformer, HookedTransformerConfig
except (ImportError, AttributeError):
    HookedEncoder = HookedTransformer = HookedTransformerConfig = None

HAS_BRIDGE = build_bridge_from_module is not None
HAS_HOOKED = HookedTransformer is not None

N_WORDS = 50
SIZES = {"n_layers": 2, "n_heads": 3, "d_model": 24, "n_ctx": 32}


WORDS = (
    *("cat", "dog", "bird", "horse", "sun", "moon", "star", "sky", "bread", "milk", "salt", "rice"),
    *("the", "a", "of", "and", "in", "with"),
)
"""Words that are one token of :func:`tiny_tokenizer`; their plurals are two."""


def tiny_tokenizer() -> Any:
    """A WordPiece tokenizer of fewer tokens than the models have; [CLS] and [SEP] also serve as BOS and EOS."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(_tokenizer_folder().name)


@functools.cache
def _tokenizer_folder() -> tempfile.TemporaryDirectory:
    # TransformerLens loads a tokenizer again from where it came from, so it has to lie on disk.
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: number for number, token in enumerate([*special, *WORDS, "##s", "##ly", ".", ","])}
    assert len(vocabulary) <= N_WORDS
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    whole = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    folder = tempfile.TemporaryDirectory()
    whole.save_pretrained(folder.name)
    return folder


def tiny_bert(seed: int = 0, *, attention: str = "eager") -> Any:
    """A BERT of 2 layers and 3 heads with random weights, as a transformers model."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=N_WORDS,
        hidden_size=SIZES["d_model"],
        num_hidden_layers=SIZES["n_layers"],
        num_attention_heads=SIZES["n_heads"],
        intermediate_size=32,
        max_position_embeddings=SIZES["n_ctx"],
        initializer_range=0.5,
        attn_implementation=attention,
    )
    return _seeded(seed, lambda: BertForMaskedLM(config).eval())


def tiny_gpt2(seed: int = 0) -> Any:
    """A GPT-2 of the same size."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=N_WORDS,
        n_positions=SIZES["n_ctx"],
        n_embd=SIZES["d_model"],
        n_layer=SIZES["n_layers"],
        n_head=SIZES["n_heads"],
        n_inner=32,
        initializer_range=0.5,
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=0,
    )
    return _seeded(seed, lambda: GPT2LMHeadModel(config).eval())


def bridge(hf_model: Any, tokenizer: Any = None) -> Any:
    """A TransformerBridge around a transformers model."""
    assert build_bridge_from_module is not None
    return build_bridge_from_module(
        hf_model,
        architecture=type(hf_model).__name__,
        hf_config=hf_model.config,
        tokenizer=tokenizer,
        model_name=f"tiny {type(hf_model).__name__}",
    ).eval()


def native_bridge(seed: int = 0, *, tokenizer: Any = None, dtype: torch.dtype | None = None) -> Any:
    """A bridge around TransformerLens' own small model."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    config = TransformerBridgeConfig(
        **SIZES,
        d_head=8,
        d_mlp=32,
        d_vocab=N_WORDS,
        act_fn="gelu",
        init_weights=True,
        seed=seed,
        architecture="TransformerLensNative",
    )
    return TransformerBridge.boot_native(config, tokenizer=tokenizer, dtype=dtype).eval()


def hooked_transformer(seed: int = 0, *, tokenizer: Any = None, **options: Any) -> Any:
    """A random HookedTransformer of the same size (causal unless told otherwise)."""
    config = {
        **SIZES,
        "d_head": 8,
        "d_mlp": 32,
        "d_vocab": N_WORDS,
        "act_fn": "gelu",
        "device": "cpu",
        "init_weights": True,
        "initializer_range": 0.5,
        **options,
    }
    return _seeded(seed, lambda: HookedTransformer(HookedTransformerConfig(**config), tokenizer).eval())


def hooked_gpt2(hf_model: Any) -> Any:
    """A HookedTransformer with the weights of a transformers GPT-2, unprocessed."""
    from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights

    dtype = next(hf_model.parameters()).dtype
    model = hooked_transformer(normalization_type="LN", act_fn="gelu_new", eps=1e-5, dtype=dtype)
    weights = convert_gpt2_weights(hf_model, model.cfg)
    model.load_state_dict({name: value.detach().clone() for name, value in weights.items()}, strict=False)
    return model


def hooked_encoder(hf_model: Any, tokenizer: Any = None) -> Any:
    """A HookedEncoder with the weights of a transformers BERT."""
    from transformer_lens.pretrained.weight_conversions import convert_bert_weights

    config = HookedTransformerConfig(
        n_layers=hf_model.config.num_hidden_layers,
        d_model=hf_model.config.hidden_size,
        n_heads=hf_model.config.num_attention_heads,
        d_head=hf_model.config.hidden_size // hf_model.config.num_attention_heads,
        d_mlp=hf_model.config.intermediate_size,
        n_ctx=hf_model.config.max_position_embeddings,
        d_vocab=hf_model.config.vocab_size,
        eps=hf_model.config.layer_norm_eps,
        act_fn="gelu",
        attention_dir="bidirectional",
        device="cpu",
        dtype=next(hf_model.parameters()).dtype,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        encoder = HookedEncoder(config, tokenizer)
    parts = torch.nn.Module()
    parts.bert, parts.cls = hf_model.bert, hf_model.cls
    if getattr(parts.bert, "pooler", None) is None:
        parts.bert.pooler = torch.nn.Module()
        parts.bert.pooler.dense = torch.nn.Linear(config.d_model, config.d_model)
    if not hasattr(parts.cls, "seq_relationship"):
        parts.cls.seq_relationship = torch.nn.Linear(config.d_model, 2)
    weights = convert_bert_weights(parts, config)
    encoder.load_state_dict({name: value.detach().clone() for name, value in weights.items()}, strict=False)
    return encoder.eval()


KINDS = (
    *(("BERT bridge", "GPT-2 bridge", "native bridge") if HAS_BRIDGE else ()),
    *(("HookedTransformer", "HookedEncoder") if HAS_HOOKED else ()),
)
"""The kinds of models that the installed TransformerLens has."""


def build(kind: str, *, dtype: torch.dtype = torch.float64, tokenizer: Any = None, seed: int = 0) -> Any:
    """A tiny model of one of :data:`KINDS`; float64 unless told otherwise, so that sums can be compared closely."""
    if kind == "BERT bridge":
        model = bridge(tiny_bert(seed).to(dtype), tokenizer)
    elif kind == "GPT-2 bridge":
        model = bridge(tiny_gpt2(seed).to(dtype), tokenizer)
    elif kind == "native bridge":
        model = native_bridge(seed, tokenizer=tokenizer, dtype=dtype)
    elif kind == "HookedTransformer":
        model = hooked_transformer(seed, dtype=dtype, tokenizer=tokenizer)
    else:
        model = hooked_encoder(tiny_bert(seed).to(dtype), tokenizer)
    assert sum(parameter.numel() for parameter in model.parameters()) < 20_000, "tiny models must be tiny"
    return model


def is_causal(kind: str) -> bool:
    """Whether a kind of model sees only what came before."""
    return kind in ("GPT-2 bridge", "native bridge", "HookedTransformer")


def patterns(model: Any, token_ids: Any) -> np.ndarray:
    """[layer, head, query_pos, key_pos] of one document on its own, in float64."""
    found: dict[str, np.ndarray] = {}

    def keep(tensor: torch.Tensor, hook: Any) -> None:
        found[hook.name] = tensor[0].detach().double().numpy()

    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(SIZES["n_layers"])]
    with torch.no_grad(), model.hooks(fwd_hooks=[(name, keep) for name in names]):
        model(torch.tensor([list(token_ids)]))
    return np.stack(list(found.values()))


def oracle_sums(
    model: Any, documents: Any, topics: dict, *, causal: bool, words: Any = None, special: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """[layer, head, column] sums and [column] counts over documents of token ids, by the four loops of the oracle.

    ``words`` and ``special`` give each document's (word, positions) and special positions; else every
    position is its own word.
    """
    sums: Any = 0.0
    counts: Any = 0
    for number, ids in enumerate(documents):
        parts = [(token, [at]) for at, token in enumerate(ids)] if words is None else words[number]
        at_special = () if special is None else special[number]
        pattern = patterns(model, ids)
        found = [
            [
                oracles.attention_by_class(
                    head, parts, topics, (lambda q, k: k <= q) if causal else (lambda q, k: True), at_special
                )
                for head in layer
            ]
            for layer in pattern
        ]
        sums = sums + np.array([[[*one[0].values(), one[2]] for one in layer] for layer in found])
        counts = counts + np.array([*found[0][0][1].values(), found[0][0][3]])
    return sums, counts


def basic_sums(totals: Any) -> tuple[np.ndarray, np.ndarray]:
    """[site, head, column] sums and [site, column] counts of all documents: pair classes and special tokens."""
    n_basic = len(oracles.CLASSES) + 1
    counts = totals.counts.sum(axis=1)[:, :n_basic]
    assert (counts == np.rint(counts)).all(), "numbers of pairs are whole"
    return totals.sums.sum(axis=2)[..., :n_basic], counts.astype(np.int64)


def _seeded(seed: int, build: Any) -> Any:
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.manual_seed(seed)
        return build()
