"""What the heads of a layer read and wrote in one forward pass, as the dual needs it.

Queries and keys are taken after the rotation of positions where the model hands them out (``hook_rot_q``,
``hook_rot_k``), else before it (``hook_q``, ``hook_k``). With grouped queries each query head gets its own copy of
the keys and values that it shares. Attention is *read* (``hook_pattern``), never computed again, so masks, windows,
soft caps and biases are in it whatever they are. What of it is not an inner product of query and key enters the
dual as a log factor for each pair, up to a constant for each query, which cancels in the softmax:

    log_factor[query, key] = log pattern[query, key] - scale * query . key      (-inf for a hidden key)

``hook_attn_scores`` is not used: some bridges call it after the softmax. What this does *not* show: a factor makes any
row exact. Only a head whose factors are nothing but masks is a pure inner product kernel; :func:`unfolded` says how far
a head is from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._axes import Site
from .._errors import PatternError
from ..probes._hooks import (
    describe,
    device_of,
    mask_argument,
    pattern_hooks,
    require_all_fired,
    require_probeable,
    run_until,
)
from ..tokens._tokenizer import TokenizerView

_PARTS = ("q", "k", "v", "z", "rot_q", "rot_k")
_SURE = 1e-2
"""Total variation above which no scale of the candidates can be said to fit."""


@dataclass(frozen=True, eq=False)
class LayerHeads:
    """The heads of one layer over one row, in float64 on the CPU."""

    layer: int
    queries: Tensor
    """[head, query_pos, d_head], rotated where the model hands that out."""
    keys: Tensor
    """[head, key_pos, d_head], each query head with the keys that it uses."""
    values: Tensor
    """[head, key_pos, d_head]"""
    outputs: Tensor
    """[head, query_pos, d_head] the model's own ``hook_z``."""
    pattern: Tensor
    """[head, query_pos, key_pos] the model's own attention."""
    scale: float
    """Factor of the inner products, 1/sqrt(d_head) in most models."""
    precision: torch.dtype
    """The dtype in which the model made its pattern."""

    def log_factors(self) -> Tensor:
        """Return [head, query_pos, key_pos] what the inner products leave of the scores; -inf for hidden keys."""
        scores = self.scale * self.queries @ self.keys.transpose(-1, -2)
        return log_factors(scores, self.pattern)


def log_factors(scores: Tensor, pattern: Tensor) -> Tensor:
    """Return [..., query_pos, key_pos] log pattern minus scores, with mean 0 over what a query attends to.

    Args:
        scores: [..., query_pos, key_pos] scaled inner products.
        pattern: [..., query_pos, key_pos] attention; a weight of 0 is a hidden key.
    """
    seen = pattern > 0
    # Without the inner where, the gradient of log at 0 would spoil that of all the rest.
    rest = torch.where(seen, torch.where(seen, pattern, 1.0).log() - scores, 0.0)
    centre = (pattern * rest).sum(-1, keepdim=True) / pattern.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.where(seen, rest - centre, -torch.inf)


def unfolded(scores: Tensor, pattern: Tensor) -> Tensor:
    """Return [...] query by query how much attention the inner products do not explain: total variation, 0 to 1.

    The attention that scores alone would make over the keys that the query sees, against the model's.
    """
    hidden = pattern <= 0
    alone = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return (alone - pattern).nan_to_num().abs().sum(-1) / 2


def tolerance(dtype: torch.dtype) -> float:
    """Return the total variation that rounding alone may make; below it factors other than masks are left out."""
    return {torch.float64: 1e-10, torch.float32: 1e-5}.get(dtype, 2 * torch.finfo(dtype).eps)


def attention_layers(model: Any, layers: Sequence[int] | None) -> dict[int, str]:
    """Return layer -> name of its pattern hook, in order.

    Raises:
        TypeError, ValueError, PatternError: for layers that do not exist or have no attention, or encoder-decoders.
    """
    names, _ = pattern_hooks(model, layers)
    if any(site.stack for site in names):
        raise PatternError(
            f"{describe(model)} has attention in several stacks, whose heads have no dual here: give an encoder or a "
            "decoder"
        )
    return {site.layer: name for site, name in names.items()}


def require_patterns(model: Any, names: dict[int, str], fired: set[int]) -> None:
    """Raise PatternError if a pattern that was asked for never came."""
    require_all_fired(
        model, {Site("", layer): name for layer, name in names.items()}, {Site("", layer) for layer in fired}
    )


def part_names(model: Any, layer: int) -> dict[str, str]:
    """Return part -> hook name, for those of q, k, v, z, rot_q and rot_k that the layer has.

    Raises:
        PatternError: if q, k, v or z is missing.
    """
    names = {part: f"blocks.{layer}.attn.hook_{part}" for part in _PARTS}
    known = model.hook_dict  # some models make it anew each time
    there = {part: name for part, name in names.items() if name in known}
    missing = [names[part] for part in ("q", "k", "v", "z") if part not in there]
    if missing:
        raise PatternError(
            f"the dual of a head needs {', '.join(missing)}, which {describe(model)} does not have: open the model "
            "with a TransformerLens class that has it"
        )
    return there


def by_head(tensor: Tensor, n_heads: int, d_head: int) -> Tensor:
    """Return [batch, head, pos, d_head] of [batch, pos, head, d_head]; shared keys or values once for each query head.

    Query head h uses key-value head ``h // (n_heads // n_kv_heads)``. A tensor [batch, pos, head * d_head] is split.
    """
    if tensor.ndim == 3:
        tensor = tensor.unflatten(-1, (-1, d_head))
    return tensor.transpose(1, 2).repeat_interleave(n_heads // tensor.shape[2], dim=1)


def scale_of(model: Any, layer: int, queries: Tensor, keys: Tensor, pattern: Tensor) -> float:
    """Return the factor of the inner products in a layer's scores.

    A HookedTransformer states it. Bridges do not: there it is 1/sqrt(d_head), the ``scaling`` of the wrapped
    attention or 1, whichever explains the pattern best, and 1/sqrt(d_head) where none does (soft caps, biases: any
    scale will do then, for the factors take up the rest).

    Args:
        model: any TransformerLens model.
        layer: the layer.
        queries: [..., query_pos, d_head]
        keys: [..., key_pos, d_head]
        pattern: [..., query_pos, key_pos]
    """
    attention = model.blocks[layer].attn
    stated = getattr(attention, "attn_scale", None)
    if isinstance(stated, (int, float)) and stated > 0:
        return 1.0 / float(stated)
    usual = queries.shape[-1] ** -0.5
    wrapped = getattr(attention, "original_component", None)
    inner = [wrapped, getattr(wrapped, "self", None), getattr(wrapped, "attention", None)]
    scalings = [getattr(module, name, None) for module in inner for name in ("scaling", "scale")]
    candidates = [usual, *(float(one) for one in scalings if isinstance(one, (int, float)) and one > 0), 1.0]
    products = queries @ keys.transpose(-1, -2)
    misses = [float(unfolded(scale * products, pattern).mean()) for scale in candidates]
    best = int(np.argmin(misses))
    return candidates[best] if misses[best] < _SURE else usual


def read_layers(
    model: Any,
    token_ids: Tensor,
    mask: Tensor | None = None,
    layers: Sequence[int] | None = None,
    extra: Sequence[tuple[str, Callable[..., Any]]] = (),
) -> dict[int, LayerHeads]:
    """Run one row through the model and return its heads, layer by layer.

    Args:
        model: any TransformerLens model in evaluation mode; it comes back as it was.
        token_ids: [1, pos] ids.
        mask: [1, pos] 1 for real tokens, or None.
        layers: the layers wanted, negative ones from the end; None for all that have attention.
        extra: further hooks for the same pass, pairs (name, ``fn(tensor, *, hook)``); without any the pass ends
            with the last layer's heads.

    Raises:
        TypeError, ValueError, PatternError: for a model that cannot be hooked, has no such layer, makes no pattern, or
            whose attention does not sum to one.
    """
    require_probeable(model)
    names = attention_layers(model, layers)
    require_in_model(model, token_ids)
    found: dict[int, dict[str, Tensor]] = {layer: {} for layer in names}
    dtypes: dict[int, torch.dtype] = {}
    hooks: list[tuple[str, Callable[..., Any]]] = []

    def keeping(layer: int, part: str) -> Callable[..., None]:
        def keep(tensor: Tensor, *, hook: Any) -> None:
            if part == "pattern":
                dtypes[layer] = tensor.dtype
            found[layer][part] = tensor.detach().cpu().double()

        return keep

    parts = {layer: part_names(model, layer) for layer in names}
    for layer, name in names.items():
        hooks.append((name, keeping(layer, "pattern")))
        hooks += [(hook, keeping(layer, part)) for part, hook in parts[layer].items()]
    # Some models hide nothing without a mask and others everything behind it, so one is passed wherever it is taken.
    argument = mask_argument(model)
    if argument is None and mask is not None and not bool(mask.all()):
        raise ValueError(
            f"attention_mask must hide nothing, for {describe(model)} takes no mask, got one that hides "
            f"{int((mask == 0).sum())} positions: leave the pads out of tokens"
        )
    device = device_of(model)
    given = None if argument is None else (torch.ones_like(token_ids) if mask is None else mask).to(device)
    # Unless somebody else reads on. Some models hand out a pattern only after what the heads made of it.
    last = [] if extra else [names[max(names)], *parts[max(names)].values()]
    run_until(model, token_ids.to(device), given, [*hooks, *extra], last)
    require_patterns(model, names, {layer for layer, read in found.items() if "pattern" in read})
    return {layer: _as_heads(model, layer, read, dtypes[layer]) for layer, read in found.items()}


def _as_heads(model: Any, layer: int, parts: dict[str, Tensor], dtype: torch.dtype) -> LayerHeads:
    silent = [f"blocks.{layer}.attn.hook_{part}" for part in ("q", "k", "v", "z") if part not in parts]
    if silent:
        raise PatternError(f"{', '.join(silent)} of {describe(model)} never came: the dual of a head needs it")
    pattern = parts["pattern"][0]
    n_heads = len(pattern)
    d_head = width_of_head(parts["q"], n_heads)
    used = [parts[name] for name in parts_used(parts)]
    queries, keys, values, outputs = (by_head(part, n_heads, d_head)[0] for part in (*used, parts["z"]))
    rows = pattern.sum(-1)
    off = float((rows - 1)[rows > 0].abs().max()) if bool((rows > 0).any()) else 0.0
    if not off <= (1e-3 if dtype in (torch.float32, torch.float64) else 5e-2):
        raise PatternError(
            f"the attention of layer {layer} must sum to 1 over the tokens, and is off by up to {off:.2g}: a head with "
            "an attention sink outside the tokens has no dual here"
        )
    scale = scale_of(model, layer, queries, keys, pattern)
    return LayerHeads(layer, queries, keys, values, outputs, pattern, scale, dtype)


def parts_used(parts: dict[str, Tensor]) -> tuple[str, str, str]:
    """Return the names of the queries, keys and values: rotated ones if both came and have the same width."""
    rotated = "rot_q" in parts and "rot_k" in parts and parts["rot_q"].shape == parts["q"].shape
    return ("rot_q", "rot_k", "v") if rotated else ("q", "k", "v")


def width_of_head(queries: Tensor, n_heads: int) -> int:
    """Return d_head, of queries [batch, pos, head, d_head] or [batch, pos, head * d_head]."""
    return queries.shape[-1] if queries.ndim == 4 else queries.shape[-1] // n_heads


def as_token_ids(tokens: Any, tokenizer: Any) -> Tensor:
    """Return [1, pos] ids of a text, a list of ids, or a tensor [pos] or [1, pos].

    Raises:
        TypeError, ValueError: if it is neither, or of several rows, or a text without a tokenizer.
    """
    if isinstance(tokens, str):
        if tokenizer is None:
            raise ValueError("tokens must be ids where there is no tokenizer, got a text: pass tokenizer=, or ids")
        tokens = TokenizerView(tokenizer).tokenize(tokens).token_ids
    try:
        ids = (tokens if isinstance(tokens, Tensor) else torch.as_tensor(np.asarray(tokens))).cpu()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"tokens must be one text or the ids of one row, got a {type(tokens).__name__} ({tokens!r:.60}): call it "
            "for each text; of what a tokenizer returns, take its input_ids"
        ) from error
    if torch.is_floating_point(ids) or torch.is_complex(ids) or ids.dtype == torch.bool:
        raise TypeError(f"tokens must be a text or whole numbers, got {ids.dtype}")
    ids = ids[None] if ids.ndim == 1 else ids
    if ids.ndim != 2 or len(ids) != 1 or ids.shape[1] == 0:
        raise ValueError(
            f"tokens must be one row of at least one id, got shape {tuple(ids.shape)}: a dual is of one text; call it "
            "for each row"
        )
    return ids.long()


def as_mask(attention_mask: Any, token_ids: Tensor, tokenizer: Any = None) -> Tensor | None:
    """Return [1, pos] 0/1 of what was given as a mask of one row, or None.

    Without a mask the model would attend to pads as to any token, so those that the tokenizer knows are refused; a pad
    token that has another use (GPT-2's end of text) cannot be told.

    Raises:
        TypeError: if it is no array of numbers.
        ValueError: if it does not fit the tokens, holds anything but 0 and 1, or hides all; or if it is None and there
            are pads.
    """
    if attention_mask is None:
        pad = getattr(tokenizer, "pad_token_id", None)
        used = {getattr(tokenizer, f"{name}_token_id", None) for name in ("eos", "bos", "unk")}
        if pad is not None and pad not in used and bool((token_ids == pad).any()):
            raise ValueError(
                f"attention_mask must hide the {int((token_ids == pad).sum())} pads of tokens, got None: pass the "
                "tokenizer's own for that row, or leave the pads out"
            )
        return None
    try:
        given = torch.as_tensor(attention_mask).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"attention_mask must be one 0 or 1 for each token, got a {type(attention_mask).__name__}"
        ) from error
    # Compared before it is cast: an additive mask, 0 for tokens and -inf for pads, would turn into its opposite.
    if given.numel() != token_ids.shape[1] or not bool(((given == 0) | (given == 1)).all()):
        raise ValueError(
            f"attention_mask must have one 0 or 1 for each of the {token_ids.shape[1]} tokens, got shape "
            f"{tuple(given.shape)} and values from {float(given.min()):g} to {float(given.max()):g}"
            if given.numel()
            else f"attention_mask must have one 0 or 1 for each of the {token_ids.shape[1]} tokens, got none"
        )
    mask = given.long().reshape(1, -1)
    if not bool(mask.any()):
        raise ValueError("attention_mask must be 1 for tokens and 0 for pads, got 0 for all: it hides every token")
    return mask


def require_in_model(model: Any, token_ids: Tensor) -> None:
    """Raise ValueError for ids that the model does not know, or more of them than it reads."""
    n_known, context = getattr(model.cfg, "d_vocab", None), getattr(model.cfg, "n_ctx", None)
    low, high = int(token_ids.min()), int(token_ids.max())
    if low < 0 or (n_known and high >= n_known):
        raise ValueError(
            f"tokens must be ids in [0, {n_known}), got {low if low < 0 else high}: is the tokenizer another model's?"
        )
    if context and token_ids.shape[1] > context:
        raise ValueError(
            f"tokens must be at most the {context} that {describe(model)} reads, got {token_ids.shape[1]}: cut the text"
        )


def require_heads(heads: Any, n_heads: int) -> list[int]:
    """Return the heads that were named, once each and counted from the front; all of them for None."""
    if heads is None:
        return list(range(n_heads))
    if isinstance(heads, (str, bytes)) or not isinstance(heads, Iterable):
        raise TypeError(f"heads must be a list of whole numbers, such as heads=[0, 1], got {heads!r}")
    chosen = list(dict.fromkeys(require_index("heads", head, n_heads) for head in heads))
    if not chosen:
        raise ValueError("heads must name at least one head, or be None for all, got none")
    return chosen


def require_index(name: str, value: Any, length: int) -> int:
    """Return ``value`` counted from the front; raise unless it is a whole number in [-length, length)."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if not -length <= int(value) < length:
        raise ValueError(f"{name} must be in [0, {length}), or negative and counted from the end, got {value}")
    return int(value) % length
