"""The untrained twin: the same architecture with fresh weights, the baseline of every report.

What a probe finds in it is what the architecture alone does over the same documents; what a trained
model shows beyond it was put there by training (Li et al. 2023 use a randomly initialised BERT so).
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from ._hooks import device_of

_TWIN_SEED = 303_04245
"""Added to the seed of untrained weights: a model that the caller drew with the same small seed is not its own twin."""


def untrained_twin(model: Any, seed: int) -> Any:
    """Return a model of the same architecture with freshly initialised weights; the global generator is untouched.

    A bridge around a Hugging Face model is built anew around a fresh one, initialised as that class
    initialises itself. A model with TransformerLens' own parameters is copied and drawn afresh:
    matrices from a normal distribution of standard deviation ``cfg.initializer_range`` (0.02 where
    none is set), norms one, biases zero.
    """
    # Only the generator of the CPU is used and put back: torch.manual_seed would seed those of all devices.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_TWIN_SEED + seed)
        wrapped = model.__dict__.get("original_model")
        if wrapped is not None and hasattr(wrapped, "config"):
            return _fresh_bridge(model, wrapped)
        twin = _bare_copy(model)
        if wrapped is not None:
            twin.cfg.seed = _TWIN_SEED + seed
            twin.init_weights()
        else:
            _draw_parameters(twin)
        return twin.eval()


def _bare_copy(model: Any) -> Any:
    """Return a copy without the hooks that the caller, or a probe around this one, has put on the model."""
    shared = getattr(model, "tokenizer", None)
    twin = copy.deepcopy(model, {id(shared): shared})
    twin.__dict__.pop("forward", None)
    twin.reset_hooks(including_permanent=True)
    twin.embed._forward_pre_hooks.clear()
    return twin


def _fresh_bridge(model: Any, wrapped: Any) -> Any:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    config = copy.deepcopy(wrapped.config)
    config._attn_implementation = "eager"
    fresh = type(wrapped)(config).to(device=device_of(model), dtype=next(iter(model.parameters())).dtype).eval()
    twin = build_bridge_from_module(
        fresh,
        architecture=model.cfg.architecture,
        hf_config=config,
        model_name=getattr(model.cfg, "model_name", "twin"),
    )
    return twin.eval()


def _draw_parameters(twin: Any) -> None:
    deviation = float(getattr(twin.cfg, "initializer_range", -1.0) or -1.0)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            leaf = name.rsplit(".", 1)[-1]
            if leaf == "w":
                parameter.fill_(1.0)
            elif leaf.startswith("b_") or leaf == "b" or parameter.ndim < 2:
                parameter.zero_()
            else:
                drawn = torch.empty(parameter.shape).normal_(std=deviation if deviation > 0 else 0.02)
                parameter.copy_(drawn)  # drawn on the CPU: the same on every device
