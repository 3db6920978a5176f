"""Tiny transformers models of every family that the package is tried on: name -> function that builds one.

Weights are random with a fixed seed, attention is eager, the mode is evaluation. The configuration says which class
the model is of, as it does when a model comes from a checkpoint: TransformerLens reads it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

N_VOCABULARY = 50
N_CONTEXT = 32
PAD_ID = 0
LIMIT = 25_000
"""A tiny model has fewer parameters than this."""

# 24 wide, 3 heads of 8; 0.5 makes patterns that are far from uniform.
_ENCODER = {
    "vocab_size": N_VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "max_position_embeddings": N_CONTEXT,
    "initializer_range": 0.5,
    "pad_token_id": PAD_ID,
}
# One number for all special tokens that a decoder's configuration has a default for beyond this vocabulary.
_DECODER = {**_ENCODER, "bos_token_id": 1, "eos_token_id": 1}
_GROUPED = {**_DECODER, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}


def _build(kind: str, config: str, *, seed: int = 0, **options: Any) -> Any:
    configuration = getattr(transformers, config)(**options, attn_implementation="eager")
    configuration.architectures = [kind]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, kind)(configuration).eval()
        # Zero biases and unit norms would hide a forgotten or a swapped one.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert n_parameters < LIMIT, f"{kind} has {n_parameters} parameters: tiny models must be tiny"
    return model


def bert(seed: int = 0) -> Any:
    return _build("BertForMaskedLM", "BertConfig", seed=seed, **_ENCODER)


def roberta(seed: int = 0) -> Any:
    """Positions are counted from behind the pad id, so the table is that much longer."""
    options = {**_ENCODER, "pad_token_id": 1, "max_position_embeddings": N_CONTEXT + 2, "type_vocab_size": 1}
    return _build("RobertaForMaskedLM", "RobertaConfig", seed=seed, **options)


def electra_generator(seed: int = 0) -> Any:
    return _build("ElectraForMaskedLM", "ElectraConfig", seed=seed, embedding_size=24, **_ENCODER)


def electra_generator_narrow(seed: int = 0) -> Any:
    """Embeddings narrower than the layers, with a projection between them."""
    return _build("ElectraForMaskedLM", "ElectraConfig", seed=seed, embedding_size=16, **_ENCODER)


def electra_discriminator(seed: int = 0) -> Any:
    return _build("ElectraForPreTraining", "ElectraConfig", seed=seed, embedding_size=24, **_ENCODER)


def electra_discriminator_narrow(seed: int = 0) -> Any:
    return _build("ElectraForPreTraining", "ElectraConfig", seed=seed, embedding_size=16, **_ENCODER)


def albert(seed: int = 0) -> Any:
    """Three layers, one set of weights."""
    options = {**_ENCODER, "num_hidden_layers": 3, "embedding_size": 16}
    return _build("AlbertForMaskedLM", "AlbertConfig", seed=seed, **options)


def albert_groups(seed: int = 0) -> Any:
    """Three passes in two groups (two and one), two inner layers each: six layers of four sets of weights."""
    options = {**_ENCODER, "num_hidden_layers": 3, "embedding_size": 16}
    return _build("AlbertForMaskedLM", "AlbertConfig", seed=seed, num_hidden_groups=2, inner_group_num=2, **options)


def distilbert(seed: int = 0) -> Any:
    options = {
        "vocab_size": N_VOCABULARY,
        "dim": 24,
        "n_layers": 2,
        "n_heads": 3,
        "hidden_dim": 32,
        "max_position_embeddings": N_CONTEXT,
        "initializer_range": 0.5,
        "pad_token_id": PAD_ID,
    }
    return _build("DistilBertForMaskedLM", "DistilBertConfig", seed=seed, **options)


def bart(seed: int = 0) -> Any:
    options = {
        "vocab_size": N_VOCABULARY,
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": N_CONTEXT,
        "init_std": 0.5,
        "pad_token_id": PAD_ID,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }
    return _build("BartForConditionalGeneration", "BartConfig", seed=seed, **options)


def gpt2(seed: int = 0) -> Any:
    options = {
        "vocab_size": N_VOCABULARY,
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 3,
        "n_inner": 32,
        "n_positions": N_CONTEXT,
        "initializer_range": 0.5,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    return _build("GPT2LMHeadModel", "GPT2Config", seed=seed, **options)


def gpt_neox(seed: int = 0) -> Any:
    """Pythia's family: attention and feed-forward side by side, a quarter of each head rotated."""
    return _build("GPTNeoXForCausalLM", "GPTNeoXConfig", seed=seed, **_DECODER)


def llama(seed: int = 0) -> Any:
    """Four query heads share two key and value heads."""
    return _build("LlamaForCausalLM", "LlamaConfig", seed=seed, **_GROUPED)


def gemma2(seed: int = 0) -> Any:
    """The first layer sees 4 tokens back, the second all; scores and logits have soft caps."""
    options = {
        **_GROUPED,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0,
    }
    return _build("Gemma2ForCausalLM", "Gemma2Config", seed=seed, **options)


def mistral(seed: int = 0) -> Any:
    """All layers see a window of 5 tokens."""
    return _build("MistralForCausalLM", "MistralConfig", seed=seed, sliding_window=5, **_GROUPED)


def qwen2(seed: int = 0) -> Any:
    return _build("Qwen2ForCausalLM", "Qwen2Config", seed=seed, **_GROUPED)


MODELS: dict[str, Callable[..., Any]] = {
    "BERT": bert,
    "RoBERTa": roberta,
    "ELECTRA generator": electra_generator,
    "ELECTRA generator, narrow embeddings": electra_generator_narrow,
    "ELECTRA discriminator": electra_discriminator,
    "ELECTRA discriminator, narrow embeddings": electra_discriminator_narrow,
    "ALBERT": albert,
    "ALBERT, groups": albert_groups,
    "DistilBERT": distilbert,
    "BART": bart,
    "GPT-2": gpt2,
    "GPT-NeoX": gpt_neox,
    "Llama": llama,
    "Gemma 2": gemma2,
    "Mistral": mistral,
    "Qwen2": qwen2,
}
"""Name of the family -> ``build(seed=0)``, a transformers model of 2 to 6 layers."""
