"""The door to TransformerLens: what we ask of a model, and how it is left as it was.

A model is recognised by what it can do, never by its class: it has a ``cfg``, a ``hook_dict`` and
``hooks``. That holds for HookedTransformer, HookedEncoder, TransformerBridge and for any
HookedRootModule with the same hook points.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .._errors import PatternError

_PATTERN_HOOK = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern")
_MASK_ARGUMENTS = ("attention_mask", "one_zero_attention_mask")


@runtime_checkable
class HookableModel(Protocol):
    """What a model must offer to be probed."""

    cfg: Any

    @property
    def hook_dict(self) -> dict[str, Any]: ...

    def hooks(self, fwd_hooks: Any = ..., bwd_hooks: Any = ...) -> Any: ...

    def forward(self, *args: Any, **kwargs: Any) -> Any: ...


class _Enough(Exception):
    """Raised inside our own hook to end a forward pass whose remaining layers nobody asked for."""


def require_probeable(model: Any) -> None:
    """Raise unless ``model`` can be hooked and is in evaluation mode.

    Raises:
        TypeError: if it has no hooks.
        ValueError: if it, or any module in it, is in training mode (dropout would change what is measured).
    """
    missing = [name for name in ("cfg", "hook_dict", "hooks", "forward") if not hasattr(model, name)]
    if missing:
        raise TypeError(
            f"model must be a TransformerLens model (HookedTransformer, HookedEncoder, TransformerBridge), got "
            f"{type(model).__name__} without {', '.join(missing)}: "
            "wrap a Hugging Face model by TransformerBridge.boot_transformers(name, hf_model=model)"
        )
    if model.training:
        raise ValueError(
            f"model must be in evaluation mode, got a {type(model).__name__} in training mode: model.eval()"
        )
    # A bridge keeps the model that it wraps outside its own modules.
    for root in (model, model.__dict__.get("original_model")):
        for name, module in root.named_modules() if isinstance(root, torch.nn.Module) else ():
            if module.training:
                raise ValueError(
                    f"all of the model must be in evaluation mode, and {name or type(module).__name__} of this "
                    f"{type(model).__name__} is in training mode: model.eval()"
                )


def pattern_hooks(model: HookableModel, layers: Sequence[int] | None = None) -> tuple[dict[int, str], tuple[int, ...]]:
    """Return the attention pattern hooks by layer, and the layers of the model that have none.

    Args:
        model: any TransformerLens model.
        layers: the layers wanted (negative ones count from the end); None for all that have attention.

    Raises:
        PatternError: if no layer has attention, or one that was asked for has none.
        ValueError: if a layer does not exist.
    """
    found = {int(match[1]): name for name in model.hook_dict if (match := _PATTERN_HOOK.fullmatch(name))}
    n_layers = int(getattr(model.cfg, "n_layers", 0) or 0)
    unavailable = tuple(layer for layer in range(n_layers) if layer not in found)
    if not found:
        stacks = sorted({name.split(".")[0] for name in model.hook_dict if name.endswith(".hook_pattern")})
        if len(stacks) > 1:
            raise PatternError(
                f"{describe(model)} has attention in several stacks ({', '.join(stacks)}): encoder-decoders cannot be "
                "probed yet; give an encoder or a decoder"
            )
        raise PatternError(
            f"{describe(model)} has no attention pattern to read: none of its hooks is called "
            "blocks.{layer}.attn.hook_pattern; a model without attention cannot be probed for it"
        )
    if layers is None:
        return dict(sorted(found.items())), unavailable
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise TypeError(f"layers must be a list of whole numbers, such as layers=[0, 1], got {layers!r}")
    wanted: dict[int, str] = {}
    for layer in layers:
        if isinstance(layer, bool) or not isinstance(layer, Integral):
            raise TypeError(f"layers must be whole numbers, got {layer!r}")
        number = layer + n_layers if layer < 0 else layer
        if not 0 <= number < max(n_layers, max(found) + 1):
            raise ValueError(f"layers must be in [0, {n_layers}), or negative and counted from the end, got {layer}")
        if number not in found:
            raise PatternError(
                f"layer {number} of {describe(model)} has no attention; layers that have: {sorted(found)}"
            )
        wanted[number] = found[number]
    if not wanted:
        raise ValueError("layers must name at least one layer, or be None for all, got none")
    return dict(sorted(wanted.items())), unavailable


def require_all_fired(model: HookableModel, asked: dict[int, str], fired: set[int]) -> None:
    """Raise PatternError if a pattern that was asked for never came."""
    silent = sorted(set(asked) - fired)
    if silent:
        listed = ", ".join(map(str, silent))
        raise PatternError(
            f"the attention pattern of layer{'s' if len(silent) > 1 else ''} {listed} of {describe(model)} never came: "
            'load the model with attn_implementation="eager" (sdpa and flash attention make no pattern), '
            "or pass layers= without them"
        )


def describe(model: Any) -> str:
    """Return the class and the name of a model, for messages and results."""
    name = getattr(getattr(model, "cfg", None), "model_name", None)
    return type(model).__name__ + (f" {name!r}" if name else "")


def device_of(model: Any) -> torch.device:
    """Return the device where token ids are expected: that of the first parameter."""
    return next(iter(model.parameters())).device


def mask_argument(model: HookableModel) -> str | None:
    """Return the name under which the model's forward takes a 0/1 mask of real tokens, or None if it takes none."""
    parameters = inspect.signature(type(model).forward).parameters
    return next((name for name in _MASK_ARGUMENTS if name in parameters), None)


def arguments_of_call(model: HookableModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of the model's forward by name; none if the call does not fit its signature."""
    try:
        bound = inspect.signature(type(model).forward).bind_partial(model, *args, **kwargs).arguments
    except TypeError:  # the model's own forward is about to say so, and knows better what it wants
        return {}
    return {**bound, **bound.get("kwargs", {})}


def mask_of_call(model: HookableModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the mask [batch, pos] that a call of the model's forward carries, or None.

    Raises:
        PatternError: if it is not of 0 and 1, one for each position.
    """
    given = arguments_of_call(model, args, kwargs)
    mask = next((given[name] for name in _MASK_ARGUMENTS if given.get(name) is not None), None)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.ndim > 2 or bool((mask < 0).any()):
        came = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise PatternError(
            f"attach needs an attention mask [batch, pos] of 0 (pad) and 1 (token), got {came}: pass such a mask, or "
            "run this batch outside the block"
        )
    return mask


def tokenizer_of(model: Any, tokenizer: Any) -> Any:
    """Return the tokenizer that was given, or else the model's own; None if there is none.

    Raises:
        TypeError: if what was given is no tokenizer.
    """
    if tokenizer is None:
        return getattr(model, "tokenizer", None)
    if not callable(tokenizer):
        hint = f"transformers.AutoTokenizer.from_pretrained({tokenizer!r})" if isinstance(tokenizer, str) else "one"
        raise TypeError(f"tokenizer must be a transformers tokenizer, got {tokenizer!r:.60}: pass {hint}")
    return tokenizer


def run_until_pattern(
    model: HookableModel, token_ids: Tensor, mask: Tensor | None, hooks: dict[int, Any], names: dict[int, str]
) -> None:
    """Run the model as far as the last pattern that is wanted: no later layer, no unembedding, no gradient.

    Args:
        model: any TransformerLens model.
        token_ids: [batch, pos] ids.
        mask: [batch, pos] 1 for real tokens, or None.
        hooks: layer -> ``fn(tensor, *, hook)``.
        names: layer -> name of its pattern hook.
    """
    last = max(names)

    def stop(tensor: Tensor, *, hook: Any) -> None:
        raise _Enough

    fwd_hooks = [(names[layer], function) for layer, function in hooks.items()] + [(names[last], stop)]
    arguments = {} if mask is None else {str(mask_argument(model)): mask}
    with torch.no_grad(), model.hooks(fwd_hooks=fwd_hooks), suppress(_Enough):
        model.forward(token_ids, **arguments)


def embedding_matrix(model: Any) -> tuple[Tensor, str]:
    """Return the token embedding [d_vocab, d_model] of a model, and which matrix it is.

    The name says whether it is raw or processed: TransformerLens' loaders may fold layer norm and
    centre the weights that write to the residual stream, which changes dot products and cosines.
    """
    if not hasattr(model, "W_E"):
        raise TypeError(
            "model must be a TransformerLens model or a matrix [d_vocab, d_model] of numpy or torch, got a "
            f"{type(model).__name__}: wrap rows of numbers by numpy.asarray"
        )
    matrix = model.W_E
    weights = matrix.detach()
    config = model.cfg
    processing = []
    if str(getattr(config, "normalization_type", "")) in ("LNPre", "RMSPre"):
        processing.append("layer norm folded")
    if getattr(model, "compatibility_mode", False):
        processing.append("compatibility mode")
    sample = weights[: min(len(weights), 1024)].double()
    if float(sample.mean(dim=1).abs().max()) < 1e-6 * max(float(sample.abs().max()), 1e-30):
        processing.append("centred")
    return weights, f"W_E of {describe(model)} ({', '.join(processing) or 'raw'})"
