"""Modified attention in a running model: ``with regularised(model, a=0.1):`` every forward pass in the block has it.

A change of the dual's training is a change of attention (Ren and Liu 2024, section 5; formulas: ``_modified.py``). All
three are made at ``hook_z``, where a head's output is written anew as ``weights @ values`` from the pattern and the
values of the same pass. So query heads that share keys and values (grouped queries) are treated one by one, and heads
that were not chosen go on with what they had, to the bit. Hooks that the caller left on pattern or values act first.

Demonstrations of a query are all positions that it sees but its own, unless given. Keys whose attention weight is
exactly 0 count as hidden.

Blocks may be nested as long as no head is in two of them: each writes its heads' output anew from the pattern, so the
inner one would undo the outer one.

Where the pattern comes after ``hook_z`` (bridges of some encoders), it is made again from queries, keys and the mask of
the call, and compared with the head's own output; a pass where that does not fit is refused.

What this does *not* show: a model that was trained without a modification need not get better with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .._errors import PatternError
from .._validation import require_count, require_one_of
from ..probes._hooks import arguments_of_call, describe, mask_of_call, require_probeable
from ..probes._observing import ObservedForward, observed
from ._arrays import demonstration_mask
from ._heads import (
    attention_layers,
    by_head,
    log_factors,
    part_names,
    parts_used,
    require_heads,
    scale_of,
    width_of_head,
)
from ._modified import NEGATIVE_RULES, NegativeRule, augmented_attention, negative_sample_weights, regularised_weights

_FITS = 1e-3
"""Relative error up to which a pattern that was made again is the head's own (half precision: twenty times that)."""


@contextmanager
def regularised(
    model: Any,
    a: float,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    demonstrations: Any = None,
) -> Iterator[None]:
    """Attend to demonstrations with full weight, and to the rest with weight ``1 - a``: the step decays ``W_0``.

    Args:
        model: any TransformerLens model in evaluation mode. After the block it is as it was.
        a: strength of the decay; 0 changes nothing, 1 leaves the demonstrations alone.
        layers: layers to change, negative ones from the end; None for all that have attention.
        heads: heads to change in each of them; None for all.
        demonstrations: boolean mask [pos], slice or positions, the same for all queries and rows; None for all
            positions but the query's own.

    Raises:
        TypeError, ValueError: for a model that cannot be hooked, an argument outside its range, or a head that a block
            around this one modifies.
        PatternError: in a pass that cannot be modified, such as one whose ``hook_z`` never comes.

    Examples:
        with topic_probes.dual.regularised(model, a=0.2):
            logits = model(tokens)
    """
    _require_number("a", a)

    def change(parts: _Parts) -> Tensor:
        return regularised_weights(parts.pattern, parts.demonstrations, float(a)) @ parts.values

    with _modified(model, change, layers, heads, demonstrations):
        yield


@contextmanager
def augmented(
    model: Any,
    g_k: Callable[[Tensor], Tensor] | None = None,
    g_v: Callable[[Tensor], Tensor] | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    demonstrations: Any = None,
) -> Iterator[None]:
    """See demonstrations through two maps, ``k -> g_k(k)`` and ``v -> g_v(v)``: the augmentations of the dual.

    Keys are mapped after the rotation of positions where the model hands that out. What is not an inner product of
    query and key (a soft cap, a bias, a mask) stays what it is for the plain key.

    Args:
        model: any TransformerLens model in evaluation mode. After the block it is as it was.
        g_k: map of keys [..., d_head] to keys of the same shape, such as a module; None for the identity.
        g_v: map of values [..., d_head] to values of the same shape; None for the identity.
        layers: as for :func:`regularised`.
        heads: as for :func:`regularised`.
        demonstrations: as for :func:`regularised`.

    Raises:
        TypeError, ValueError, PatternError: as :func:`regularised`.
    """
    for name, mapping in (("g_k", g_k), ("g_v", g_v)):
        if mapping is not None and not callable(mapping):
            raise TypeError(f"{name} must be a function of vectors [..., d_head] or None, got {mapping!r:.60}")

    def change(parts: _Parts) -> Tensor:
        scores = parts.scale * parts.queries @ parts.keys.transpose(-1, -2)
        return augmented_attention(
            parts.queries,
            parts.keys,
            parts.values,
            parts.demonstrations,
            g_k,
            g_v,
            scale=parts.scale,
            pair_factors=_rows_that_see(log_factors(scores, parts.pattern)),
        )

    with _modified(model, change, layers, heads, demonstrations):
        yield


@contextmanager
def negative_samples(
    model: Any,
    b: float,
    r: int = 1,
    *,
    choose: NegativeRule = "least_attended",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    demonstrations: Any = None,
) -> Iterator[None]:
    """Take ``(b / r)`` times the values of ``r`` negative demonstrations off each demonstration's value.

    Args:
        model: any TransformerLens model in evaluation mode. After the block it is as it was.
        b: strength; 0 changes nothing.
        r: negatives for each token; all candidates where a query sees fewer.
        choose: ``"least_attended"`` or ``"least_similar"``, see :func:`negative_sample_weights`.
        layers: as for :func:`regularised`.
        heads: as for :func:`regularised`.
        demonstrations: as for :func:`regularised`; negatives come from those that the query sees.

    Raises:
        TypeError, ValueError, PatternError: as :func:`regularised`.
    """
    _require_number("b", b)
    require_count("r", r)
    require_one_of("choose", choose, NEGATIVE_RULES)

    def change(parts: _Parts) -> Tensor:
        seen = parts.demonstrations & (parts.pattern > 0)
        weights = negative_sample_weights(parts.pattern, seen, float(b), r, choose=choose, keys=parts.keys)
        return weights @ parts.values

    with _modified(model, change, layers, heads, demonstrations):
        yield


def _require_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not abs(float(value)) < float("inf"):
        raise ValueError(f"{name} must be finite, got {value!r}")


def _rows_that_see(factors: Tensor) -> Tensor:
    """Return log factors with 0 in the rows of queries that see nothing (pads), whose softmax would be NaN."""
    return torch.where(torch.isneginf(factors).all(-1, keepdim=True), 0.0, factors)


@dataclass
class _Parts:
    """What a modification works on: one layer of one pass, every query head with its own keys and values."""

    queries: Tensor
    """[batch, head, query_pos, d_head]"""
    keys: Tensor
    """[batch, head, key_pos, d_head]"""
    values: Tensor
    """[batch, head, key_pos, d_head]"""
    pattern: Tensor
    """[batch, head, query_pos, key_pos]"""
    demonstrations: Tensor
    """Boolean, [query_pos, key_pos] or [key_pos]."""
    scale: float


@contextmanager
def _modified(
    model: Any,
    change: Callable[[_Parts], Tensor],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    demonstrations: Any,
) -> Iterator[None]:
    require_probeable(model)
    names = attention_layers(model, layers)
    chosen = require_heads(heads, int(model.cfg.n_heads))
    for other in modifiers_of(model):
        both = sorted(set(names) & set(other.layers)), sorted(set(chosen) & set(other.heads))
        if all(both):
            raise ValueError(
                f"layer {both[0][0]}, head {both[1][0]} is modified by a block around this one, whose output would be "
                "written over: name other layers or heads, or end that block first"
            )
    modifier = _Modifier(model, change, tuple(names), chosen, demonstrations)
    hooks = []
    for layer, name in names.items():
        parts = part_names(model, layer)
        hooks += [(parts[part], modifier.keeping(layer, part)) for part in parts if part != "z"]
        hooks.append((name, modifier.keeping(layer, "pattern")))
        hooks.append((parts["z"], modifier.changing(layer)))
    with observed(model, hooks, modifier):
        yield


def modifiers_of(model: Any) -> list[Any]:
    """Return what the blocks around a call modify the model with: objects with ``layers`` and ``heads``."""
    forward = model.__dict__.get("forward")
    observers = forward.observers if isinstance(forward, ObservedForward) else []
    return [observer for _, observer in observers if isinstance(observer, _Modifier)]


@dataclass
class _Modifier:
    """Observes the passes of a model, and writes ``hook_z`` anew."""

    model: Any
    change: Callable[[_Parts], Tensor]
    layers: tuple[int, ...]
    heads: list[int]
    demonstrations: Any
    parts: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    mask: Tensor | None = None
    stops_at: Any = None

    def keeping(self, layer: int, part: str) -> Callable[..., None]:
        """Return a hook that keeps a part of a layer until its output comes."""

        def keep(tensor: Tensor, *, hook: Any) -> None:
            if layer not in self.changed:  # a pattern that comes after the output is of no use
                self.parts.setdefault(layer, {})[part] = tensor

        return keep

    def changing(self, layer: int) -> Callable[..., Tensor]:
        """Return the hook that writes a layer's ``hook_z`` anew."""

        def write(tensor: Tensor, *, hook: Any) -> Tensor:
            written = self._written(layer, tensor)
            self.changed.add(layer)
            self.parts.pop(layer, None)
            return written

        return write

    def _written(self, layer: int, tensor: Tensor) -> Tensor:
        parts = self.parts.get(layer, {})
        missing = [f"hook_{part}" for part in ("q", "k", "v") if part not in parts]
        if missing:
            raise PatternError(
                f"layer {layer} of {describe(self.model)} put out hook_z before {', '.join(missing)}: its attention "
                "cannot be modified"
            )
        n_heads = int(self.model.cfg.n_heads)
        d_head = width_of_head(parts["q"], n_heads)
        given = [*(parts[name] for name in parts_used(parts)), tensor]
        # Half precision is too coarse for weights times differences of scores; the model gets its own dtype back.
        wide = torch.promote_types(tensor.dtype, torch.float32)
        queries, keys, values, outputs = (by_head(part, n_heads, d_head).to(wide) for part in given)
        pattern = parts.get("pattern")
        n_keys = keys.shape[-2] if pattern is None else pattern.shape[-1]
        if not queries.shape[-2] == keys.shape[-2] == n_keys:
            raise PatternError(
                f"a pass with {queries.shape[-2]} queries and {n_keys} keys cannot be modified: run the whole text "
                "through the model instead of generating with a key-value cache"
            )
        if pattern is not None:
            pattern = pattern.to(wide)
            scale = scale_of(self.model, layer, queries.detach(), keys.detach(), pattern.detach())
        else:
            pattern, scale = self._made_again(layer, queries, keys, values, outputs, tensor.dtype)
        length = keys.shape[-2]
        if self.demonstrations is None:
            ours = ~torch.eye(length, dtype=torch.bool, device=pattern.device)
        else:
            ours = torch.from_numpy(demonstration_mask(self.demonstrations, length)).to(pattern.device)
        changed = self.change(_Parts(queries, keys, values, pattern, ours, scale))
        if changed.shape != outputs.shape:
            raise ValueError(
                f"g_k and g_v must keep the shape of what they are given: outputs became {tuple(changed.shape)}, "
                f"and the model's have {tuple(outputs.shape)}"
            )
        is_chosen = torch.zeros(n_heads, dtype=torch.bool, device=changed.device)
        is_chosen[self.heads] = True
        mixed = torch.where(is_chosen[:, None, None], changed.to(tensor.dtype), outputs.to(tensor.dtype))
        return mixed.transpose(1, 2).reshape(tensor.shape)

    def _made_again(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, outputs: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, float]:
        """Return the pattern of a layer that hands it out too late, and its scale; both checked against its output."""
        length = keys.shape[-2]
        real = torch.ones(queries.shape[0], length, dtype=torch.bool, device=keys.device)
        if self.mask is not None:
            real = self.mask.to(keys.device).reshape(queries.shape[0], length) != 0
        products = queries @ keys.transpose(-1, -2)
        everything = torch.ones(length, length, dtype=torch.bool, device=keys.device)
        best: tuple[float, Tensor, float] | None = None
        for scale in (queries.shape[-1] ** -0.5, 1.0):
            for seen in (everything, everything.tril()):
                visible = seen & real[:, None, None, :]
                pattern = (scale * products).masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num()
                # Other heads may have been modified by another block.
                miss = ((pattern @ values - outputs) * real[:, None, :, None]).detach()[:, self.heads]
                size = (outputs * real[:, None, :, None]).detach()[:, self.heads].norm()
                error = float(miss.norm() / size.clamp(min=1e-30))
                if best is None or error < best[0]:
                    best = error, pattern, scale
        assert best is not None
        limit = _FITS if dtype in (torch.float32, torch.float64) else 20 * _FITS
        if not best[0] <= limit:
            raise PatternError(
                f"layer {layer} of {describe(self.model)} hands out its pattern after hook_z, and what can be made of "
                f"its queries, keys and mask is off by {best[0]:.1%}: its attention cannot be modified; open the model "
                "as another class of TransformerLens, or name other layers"
            )
        return best[1], best[2]

    # What `observed` calls.

    def before_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a pass."""
        self._forget()
        self.mask = mask_of_call(self.model, args, kwargs)
        self.stops_at = arguments_of_call(self.model, args, kwargs).get("stop_at_layer")

    def on_ids(self, token_ids: Tensor) -> None:
        """Token ids are of no use here."""

    def on_decoder_ids(self, token_ids: Tensor) -> None:
        """Nor are those of a decoder."""

    def check_call(self) -> None:
        """Raise if a layer that was to be modified was not, in a pass that went through it."""
        silent = sorted(set(self.layers) - self.changed)
        if silent and self.stops_at is None:
            raise PatternError(
                f"hook_z of layer {silent[0]} of {describe(self.model)} never came, so its attention was not modified: "
                'load the model with attn_implementation="eager", or name other layers'
            )

    def after_call(self) -> None:
        """End a pass."""
        self._forget()

    def call_failed(self) -> None:
        """End a pass that failed."""
        self._forget()

    def _forget(self) -> None:
        self.parts, self.changed, self.mask = {}, set(), None


__all__ = ["augmented", "negative_samples", "regularised"]
