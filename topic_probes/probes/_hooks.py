"""The door to TransformerLens: what we ask of a model, and how it is left as it was.

A model is recognised by what it can do, never by its class: it has a ``cfg``, a ``hook_dict`` and
``hooks``. That holds for HookedTransformer, HookedEncoder, TransformerBridge and for any
HookedRootModule with the same hook points.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .._axes import STACKS, Site, Stack
from .._errors import PatternError

_PATTERN_HOOKS: dict[Stack, re.Pattern[str]] = {
    "": re.compile(r"blocks\.(\d+)\.attn\.hook_pattern"),
    "encoder": re.compile(r"encoder_blocks\.(\d+)\.attn\.hook_pattern"),
    "decoder": re.compile(r"decoder_blocks\.(\d+)\.self_attn\.hook_pattern"),
    "cross": re.compile(r"decoder_blocks\.(\d+)\.cross_attn\.hook_pattern"),
}
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


def pattern_hooks(
    model: HookableModel, layers: Sequence[int] | None = None
) -> tuple[dict[Site, str], tuple[Site, ...]]:
    """Return the attention pattern hooks by site, and the sites of the model that have none.

    Args:
        model: any TransformerLens model.
        layers: the layers wanted, in every stack (negative ones count from its end); None for all that have attention.

    Returns:
        Site -> name of its hook: the layers, in an encoder-decoder those of the encoder, then of the decoder, then of
        cross-attention. A site of an ordinary model equals its layer's number.

    Raises:
        PatternError: if no layer has attention, or one that was asked for has none.
        ValueError: if a layer does not exist.
    """
    stacks = _stacks(model)
    n_layers: dict[Stack, int] = {stack: _n_layers(model, stack, stacks) for stack in stacks}
    unavailable = tuple(
        Site(stack, layer) for stack, found in stacks.items() for layer in range(n_layers[stack]) if layer not in found
    )
    wanted: set[tuple[Stack, int]] = set()
    if layers is None:
        wanted = {(stack, layer) for stack, found in stacks.items() for layer in found}
    else:
        if isinstance(layers, str) or not isinstance(layers, Iterable):
            raise TypeError(f"layers must be a list of whole numbers, such as layers=[0, 1], got {layers!r}")
        for layer in layers:
            wanted.update(_of_layer(model, layer, stacks, n_layers))
        if not wanted:
            raise ValueError("layers must name at least one layer, or be None for all, got none")
    names = {
        Site(stack, layer): found[layer]
        for stack, found in stacks.items()
        for layer in sorted(found)
        if (stack, layer) in wanted
    }
    return names, unavailable


def _stacks(model: HookableModel) -> dict[Stack, dict[int, str]]:
    """Return stack -> layer -> name of its pattern hook; no stack is empty."""
    found: dict[Stack, dict[int, str]] = {
        stack: {int(match[1]): name for name in model.hook_dict if (match := _PATTERN_HOOKS[stack].fullmatch(name))}
        for stack in STACKS
    }
    if found[""]:
        return {"": found[""]}
    found = {stack: layers for stack, layers in found.items() if layers}
    if found and hasattr(model, "decoder_embed"):
        return found
    stacks = sorted({name.split(".")[0] for name in model.hook_dict if name.endswith(".hook_pattern")})
    if len(stacks) > 1:
        raise PatternError(
            f"{describe(model)} has attention in several stacks ({', '.join(stacks)}) and no decoder_embed where the "
            "decoder's token ids could be observed: of encoder-decoders only BART and its family can be probed, opened "
            "as a TransformerBridge (transformer-lens 3.9 or later); else give an encoder or a decoder"
        )
    raise PatternError(
        f"{describe(model)} has no attention pattern to read: none of its hooks is called "
        "blocks.{layer}.attn.hook_pattern; a model without attention cannot be probed for it"
    )


def _n_layers(model: HookableModel, stack: Stack, stacks: dict[Stack, dict[int, str]]) -> int:
    if stack == "":
        return max(int(getattr(model.cfg, "n_layers", 0) or 0), max(stacks[""]) + 1)
    # The configuration has one number, and the stacks may have two.
    alike = ("encoder",) if stack == "encoder" else ("decoder", "cross")
    return max(layer for other in alike for layer in stacks.get(other, ())) + 1


def _of_layer(
    model: HookableModel, layer: Any, stacks: dict[Stack, dict[int, str]], n_layers: dict[Stack, int]
) -> set[tuple[Stack, int]]:
    """Return the (stack, layer) that one entry of ``layers`` asks for."""
    if isinstance(layer, bool) or not isinstance(layer, Integral):
        raise TypeError(f"layers must be whole numbers, got {layer!r}")
    number = int(layer)
    exist: dict[Stack, int] = {
        stack: number + n if number < 0 else number for stack, n in n_layers.items() if -n <= number < n
    }
    if not exist:
        raise ValueError(
            f"layers must be in [0, {max(n_layers.values())}), or negative and counted from the end, got {layer}"
        )
    of_layer: set[tuple[Stack, int]] = {(stack, number) for stack, number in exist.items() if number in stacks[stack]}
    if not of_layer:
        have = sorted(set().union(*stacks.values()))
        raise PatternError(
            f"layer {next(iter(exist.values()))} of {describe(model)} has no attention; layers that have: {have}"
        )
    return of_layer


def require_all_fired(model: HookableModel, asked: dict[Site, str], fired: set[Site]) -> None:
    """Raise PatternError if a pattern that was asked for never came."""
    silent = sorted(set(asked) - fired, key=lambda site: site.when)
    if silent:
        raise PatternError(
            f"the attention pattern of {_listed(silent)} of {describe(model)} never came: "
            'load the model with attn_implementation="eager" (sdpa and flash attention make no pattern), '
            "or pass layers= without them"
        )


def _listed(sites: Sequence[Site]) -> str:
    """Return sites in words: ``layers 0, 1``, or ``layers 0, 1 of the encoder and layer 0 of the decoder``."""
    by_stack: dict[str, list[Site]] = {}
    for site in sites:
        by_stack.setdefault(site.stack, []).append(site)
    return " and ".join(
        f"layer{'s' if len(group) > 1 else ''} " + ", ".join([*(str(one.layer) for one in group[:-1]), str(group[-1])])
        for group in by_stack.values()
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


def mask_of_call(
    model: HookableModel, args: tuple[Any, ...], kwargs: dict[str, Any], *, of_decoder: bool = False
) -> Tensor | None:
    """Return the mask [batch, pos] that a call of the model's forward carries, or None.

    Args:
        model: any TransformerLens model.
        args: of the call.
        kwargs: of the call.
        of_decoder: whether the mask of the decoder is wanted, which an encoder-decoder takes beside that of the
            encoder.

    Raises:
        PatternError: if it is not of 0 and 1, one for each position.
    """
    given = arguments_of_call(model, args, kwargs)
    names = ("decoder_attention_mask",) if of_decoder else _MASK_ARGUMENTS
    mask = next((given[name] for name in names if given.get(name) is not None), None)
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
    model: HookableModel,
    token_ids: Tensor,
    mask: Tensor | None,
    hooks: dict[Site, Any],
    names: dict[Site, str],
    decoder_ids: Tensor | None = None,
) -> None:
    """Run the model as far as the last pattern that is wanted: no later layer, no unembedding, no gradient.

    Args:
        model: any TransformerLens model.
        token_ids: [batch, pos] ids.
        mask: [batch, pos] 1 for real tokens, or None.
        hooks: site -> ``fn(tensor, *, hook)``.
        names: site -> name of its pattern hook.
        decoder_ids: [batch, pos] ids of the decoder of an encoder-decoder, under the same mask; None if there is
            no decoder, or for those that the model makes itself.
    """
    last = max(names, key=lambda site: site.when)
    run_until(model, token_ids, mask, [(names[site], hook) for site, hook in hooks.items()], [names[last]], decoder_ids)


def run_until(
    model: HookableModel,
    token_ids: Tensor,
    mask: Tensor | None,
    fwd_hooks: Sequence[tuple[str, Any]],
    last: Sequence[str],
    decoder_ids: Tensor | None = None,
) -> None:
    """Run the model until some hook points have been passed, without gradient.

    Args:
        model: any TransformerLens model.
        token_ids: [batch, pos] ids.
        mask: [batch, pos] 1 for real tokens, or None.
        fwd_hooks: pairs (hook name, ``fn(tensor, *, hook)``).
        last: names of the last hook points that are wanted, in any order; their own hooks still run. None of them
            for the whole model, which also runs to its end if one of them is never passed.
        decoder_ids: [batch, pos] ids of the decoder, see :func:`run_until_pattern`.
    """
    to_come = set(last)

    def passed(name: str) -> Callable[..., None]:
        def stop(tensor: Tensor, *, hook: Any) -> None:
            to_come.discard(name)
            if not to_come:
                raise _Enough

        return stop

    arguments = {} if mask is None else {str(mask_argument(model)): mask}
    if decoder_ids is not None:
        arguments["decoder_input_ids"] = decoder_ids
        if mask is not None:
            arguments["decoder_attention_mask"] = mask
    stops = [(name, passed(name)) for name in last]
    with torch.no_grad(), model.hooks(fwd_hooks=[*fwd_hooks, *stops]), suppress(_Enough):
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
