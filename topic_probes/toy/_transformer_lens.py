"""The toy model as an ordinary model of TransformerLens: the same function, weight for weight.

A model of TransformerLens always has a residual stream, and the toy model has none. The stream is made twice as wide
and its halves never meet:

    first half    written by W_E; read by W_Q, W_K, W_V
    second half   written by W_O; read by W_U

Nothing writes the embedding where W_U reads, so what the residual carries past the attention is in no logit; and W_O
writes where nothing else has written, so the second half is the attention's output alone. No term is approximated or
cancelled.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from .._validation import require_count
from ._model import TopicTransformer

_AGREEMENT = 1e-3
"""Relative difference beyond rounding that says a TransformerLens release computes another function."""


def to_transformer_lens(model: TopicTransformer, *, n_ctx: int = 1024) -> Any:
    """Return the same function as a ``HookedTransformer``, or as a ``TransformerBridge`` where that is gone (4.x).

    Logits and patterns are those of ``model`` to rounding error. It is attention only, bidirectional, without layer
    norm, its positions are zero, d_model is 2d and d_head is d, so that scores are over sqrt(d) here and there; ``b_U``
    is the model's. The residual is handled by separate halves of the stream, see the module.

    A bidirectional ``HookedTransformer`` does not heed ``attention_mask`` (no release does): give it rows of one
    length. The bridge heeds it.

    Args:
        model: the toy model; it is not changed, and shares no memory with what is returned.
        n_ctx: longest document, in tokens. A toy model has no such limit; TransformerLens keeps a table of positions.

    Returns:
        A model in evaluation mode, of the same dtype and on the same device, with all its weights trainable: training
        would also move what is frozen in ``model``, and the halves of the stream would meet.

    Raises:
        TypeError: if ``model`` is no :class:`TopicTransformer`.
        RuntimeError: if the installed TransformerLens computes something else, such as causal attention only.
    """
    if not isinstance(model, TopicTransformer):
        raise TypeError(f"model must be a TopicTransformer, got a {type(model).__name__}")
    require_count("n_ctx", n_ctx, minimum=2)
    try:
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except (ImportError, AttributeError):
        other = _native_bridge(model, n_ctx)
    else:
        other = _hooked_transformer(model, n_ctx, HookedTransformer, HookedTransformerConfig)
    _require_same(model, other)
    return other


def _sizes(model: TopicTransformer, n_ctx: int) -> dict[str, Any]:
    width = model.cfg.d_model
    return {
        "n_layers": 1,
        "n_heads": 1,
        "d_model": 2 * width,
        "d_head": width,
        "n_ctx": n_ctx,
        "d_vocab": model.n_words + 1,
        "d_vocab_out": model.n_words,
        "attn_only": True,
        "normalization_type": None,
        "attention_dir": "bidirectional",
        "positional_embedding_type": "standard",
        "model_name": "TopicTransformer",
    }


def _halves(model: TopicTransformer) -> dict[str, Tensor]:
    """Return the weights in TransformerLens' convention (row vectors, [d_model, d_head]) over the doubled stream."""
    width = model.cfg.d_model
    of_dtype = {"dtype": model.W_E.dtype, "device": model.W_E.device}
    zero, one = torch.zeros(width, width, **of_dtype), torch.eye(width, **of_dtype)
    rows = model.W_E.detach()
    return {
        "W_E": torch.cat([rows, torch.zeros_like(rows)], dim=1),
        **{name: torch.cat([getattr(model, name).detach().T, zero]) for name in ("W_Q", "W_K", "W_V")},
        "W_O": torch.cat([zero, one], dim=1),
        "W_U": torch.cat([torch.zeros_like(rows[:-1]), rows[:-1]], dim=1).T,
        "b_U": model.b_U.detach().clone(),
    }


def _hooked_transformer(model: TopicTransformer, n_ctx: int, kind: Any, config: Any) -> Any:
    weights = _halves(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.x says so whenever one is built, and it is wanted here
        other = kind(
            config(
                **_sizes(model, n_ctx),
                dtype=weights["W_E"].dtype,
                device=str(weights["W_E"].device),
                init_weights=False,
            )
        )
    attn = other.blocks[0].attn
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
        other.embed.W_E.copy_(weights["W_E"])
        other.unembed.W_U.copy_(weights["W_U"])
        other.unembed.b_U.copy_(weights["b_U"])
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            getattr(attn, name)[0].copy_(weights[name])
    return other.eval()


def _native_bridge(model: TopicTransformer, n_ctx: int) -> Any:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    weights = _halves(model)
    sizes = {**_sizes(model, n_ctx), "act_fn": "gelu", "architecture": "TransformerLensNative", "seed": 0}
    other = TransformerBridge.boot_native(  # type: ignore[attr-defined]
        TransformerBridgeConfig(**sizes), device=weights["W_E"].device, dtype=weights["W_E"].dtype
    )
    native: Any = other.original_model
    inner = {
        "W_E": native.tok_embed.weight,
        **{f"W_{name.upper()}": getattr(native.layers[0].attn, name).weight for name in "qkvo"},
        "W_U": native.head.weight,
    }
    with torch.no_grad():
        for parameter in native.parameters():
            parameter.zero_()
        for name, weight in inner.items():
            weight.copy_(weights[name] if name == "W_E" else weights[name].T)  # linear layers keep [out, in]
        other.unembed.b_U.copy_(weights["b_U"])
    return other.eval()


def _require_same(model: TopicTransformer, other: Any) -> None:
    """Raise unless both give the same logits for two words; a release that cannot do this would say nothing itself."""
    tokens = torch.tensor([[0, model.n_words]], device=model.W_E.device)
    with torch.no_grad():
        wanted, found = model(tokens), other(tokens)
    scale = float(wanted.abs().max()) + 1e-30
    if found.shape != wanted.shape or float((found - wanted).abs().max()) > _AGREEMENT * scale:
        raise RuntimeError(
            f"the {type(other).__name__} of the installed transformer-lens does not compute the toy model's function "
            "(bidirectional attention, separate read and write halves): install transformer-lens 3.x, or 4.3 or newer"
        )
