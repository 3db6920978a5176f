"""``trace``: a transformer as a chain of duals, each trained on what the one before it put out.

In each layer the attention output is made anew, head by head and query by query, by the duals of the heads; the model's
own output matrix, norms and feed-forward network do the rest. The next layer's
queries, keys and values come from that stream, not from the model's. What is not an inner product of query and key
(masks, windows, biases, rotations that are not handed out, soft caps) is taken once from the model's own pass.

With the feed-forward network linearised the whole layer is one dual: let f be the layer from its attention output z to
its stream, ``z_0`` the outputs before the step (the query's own token) and delta the demonstrations' part. Then

    f(z_0 + delta) ~ f(z_0) + J delta = f(z_0) + sum over demonstrations of A_i (J v_i),   J = derivative of f at z_0

so J folds into the values. J acts through W_O, the norms and the feed-forward network, and is taken by forward-mode
differentiation of the model itself. Its error is reported against ``f(z_0 + delta) - f(z_0)``: 0 if the layer is
linear over the step, 1 if it is no better than no step at all.

What this does *not* show: that a layer learns in context. The identity holds for random weights too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._errors import PatternError
from ..probes._hooks import describe, device_of, mask_argument, require_probeable, tokenizer_of
from ._attach import relative_error
from ._fit import fit
from ._heads import (
    LayerHeads,
    as_mask,
    as_token_ids,
    by_head,
    part_names,
    parts_used,
    read_layers,
    tolerance,
    unfolded,
)
from ._modifications import modifiers_of

if TYPE_CHECKING:
    import pandas as pd


def trace(
    model: Any,
    tokens: Any,
    *,
    attention_mask: Any = None,
    tokenizer: Any = None,
    features: Any = "exact",
    linearised: bool = False,
) -> pd.DataFrame:
    """Rebuild a model's residual stream from the duals of its heads, and say how far off it is at each layer.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        tokens: a text, or the ids [pos] of one row.
        attention_mask: [pos] 1 for tokens, 0 for pads; None for no pads. Pads are compared nowhere.
        tokenizer: the model's own (``model.tokenizer``) unless given; needed for a text only.
        features: ``"exact"``, or a feature map of this package.
        linearised: also linearise each layer around the stream before the step; one more pass for each layer.

    Returns:
        One row per layer with attention. ``layer``; ``relative_error_attention``: the largest over heads of
        ``|duals' outputs - hook_z| / |hook_z|``, from the model's own queries, keys and values;
        ``relative_error_residual``: of the stream after the layer, all earlier layers rebuilt too; ``unfolded``: the
        largest over heads of the mean share of attention that the inner product kernel alone does not make;
        with ``linearised`` also ``relative_error_linearised``. The stream is ``hook_resid_post``, after its norm in
        models that norm behind (BERT).

    Raises:
        TypeError, ValueError, PatternError: as for :func:`topic_probes.dual.attach_head`; for a model without
            ``hook_resid_post``; inside a block that modifies its attention; with ``linearised`` for one whose
            operations have no forward derivative (BLOOM).
    """
    import pandas as pd

    require_probeable(model)
    if modifiers_of(model):
        # The modification would write over what the duals put out, and the stream would agree with itself.
        raise ValueError("model must not be modified while it is traced: call trace outside the with block")
    tokenizer = tokenizer_of(model, tokenizer)
    token_ids = as_token_ids(tokens, tokenizer)
    mask = as_mask(attention_mask, token_ids, tokenizer)
    real: dict[int, Tensor] = {}
    read = read_layers(model, token_ids, mask, extra=_stream_hooks(model, real))
    kept = torch.ones(token_ids.shape[1], dtype=torch.bool) if mask is None else mask[0].bool()
    factors = {layer: _factors(heads) for layer, heads in read.items()}

    rebuilt: dict[int, Tensor] = {}
    hooks = _stream_hooks(model, rebuilt)
    for layer, heads in read.items():
        hooks += _Rebuilder(heads, factors[layer], features).hooks(part_names(model, layer))
    _run(model, token_ids, mask, hooks)

    rows = []
    for layer, heads in read.items():
        predicted = duals_output(heads.queries, heads.keys, heads.values, heads.scale, factors[layer], features)
        scores = heads.scale * heads.queries @ heads.keys.transpose(-1, -2)
        row = {
            "layer": layer,
            "relative_error_attention": max(
                relative_error(one[kept], other[kept]) for one, other in zip(predicted, heads.outputs, strict=True)
            ),
            "relative_error_residual": relative_error(rebuilt[layer][kept], real[layer][kept]),
            "unfolded": float(unfolded(scores, heads.pattern)[:, kept].mean(-1).max()),
        }
        if linearised:
            row["relative_error_linearised"] = _linearised_error(model, token_ids, mask, heads, kept)
        rows.append(row)
    return pd.DataFrame(rows)


def duals_output(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, factors: Tensor, features: Any = "exact"
) -> Tensor:
    """Return [head, query_pos, d_head] the outputs of the duals of all heads at all queries; 0 where all is hidden.

    Args:
        queries: [head, query_pos, d_head]
        keys: [head, key_pos, d_head]
        values: [head, key_pos, d_head]
        scale: factor of the inner products.
        factors: [head, query_pos, key_pos] log factors, -inf for hidden keys.
        features: as for :func:`topic_probes.dual.fit`.
    """
    made = torch.zeros_like(queries)
    for head in range(len(queries)):
        sees = ~torch.isneginf(factors[head]).all(-1)
        # Which tokens are demonstrations splits W = W_0 + step, and leaves W and its outputs alone.
        dual = fit(
            keys[head],
            values[head],
            slice(None),
            scale=scale,
            features=features,
            pair_factors=factors[head][sees],
        )
        made[head, sees] = dual.predict(queries[head, sees])
    return made


def _factors(heads: LayerHeads) -> Tensor:
    """Return [head, query_pos, key_pos] log factors: masks alone for the queries that are pure kernels."""
    scores = heads.scale * heads.queries @ heads.keys.transpose(-1, -2)
    pure = unfolded(scores, heads.pattern) <= tolerance(heads.precision)
    masks = torch.zeros_like(heads.pattern).masked_fill(heads.pattern <= 0, -torch.inf)
    return torch.where(pure[..., None], masks, heads.log_factors())


class _Rebuilder:
    """Puts the duals' outputs in the place of a layer's own, from the queries, keys and values of the pass at hand."""

    def __init__(self, heads: LayerHeads, factors: Tensor, features: Any) -> None:
        self.heads, self.factors, self.features = heads, factors, features
        self.parts: dict[str, Tensor] = {}
        self.written: Tensor | None = None

    def hooks(self, names: dict[str, str]) -> list[tuple[str, Callable[..., Any]]]:
        """Return pairs (hook name, hook) for the parts of a layer."""
        keep = [(name, self._keeping(part)) for part, name in names.items() if part != "z"]
        return [*keep, (names["z"], self._write)]

    def _keeping(self, part: str) -> Callable[..., None]:
        def keep(tensor: Tensor, *, hook: Any) -> None:
            self.parts[part] = tensor

        return keep

    def _write(self, tensor: Tensor, *, hook: Any) -> Tensor:
        if self.written is None:  # else the same hook under a second name
            n_heads, _, d_head = self.heads.queries.shape
            used = (self.parts[name] for name in parts_used(self.parts))
            q, k, v = (by_head(part, n_heads, d_head)[0].detach().cpu().double() for part in used)
            made = duals_output(q, k, v, self.heads.scale, self.factors, self.features)
            self.written = _as_output(made, tensor)
        return self.written


def _as_output(made: Tensor, like: Tensor) -> Tensor:
    """Return [head, pos, d_head] in the shape, dtype and place of a model's ``hook_z``."""
    return made.transpose(0, 1).reshape(like.shape).to(like)


def _stream_hooks(model: Any, kept: dict[int, Tensor]) -> list[tuple[str, Callable[..., Any]]]:
    """Return hooks that keep the stream [pos, d_model] after each layer, in float64."""
    hooks = []
    for layer in range(int(model.cfg.n_layers)):
        hooks.append((_stream_name(model, layer), _keeping_stream(kept, layer)))
    return hooks


def _stream_name(model: Any, layer: int) -> str:
    # HookedEncoder hands out the stream before its last norm as well, under the usual name.
    names = [f"blocks.{layer}.{name}" for name in ("hook_normalized_resid_post", "hook_resid_post")]
    there = [name for name in names if name in model.hook_dict]
    if not there:
        raise PatternError(f"trace needs {names[-1]}, which {describe(model)} does not have")
    return there[0]


def _keeping_stream(kept: dict[int, Tensor], layer: int) -> Callable[..., None]:
    def keep(tensor: Tensor, *, hook: Any) -> None:
        kept[layer] = tensor[0].detach().cpu().double()

    return keep


def _run(model: Any, token_ids: Tensor, mask: Tensor | None, hooks: list[tuple[str, Callable[..., Any]]]) -> None:
    device, argument = device_of(model), mask_argument(model)
    given = torch.ones_like(token_ids) if mask is None else mask
    with torch.no_grad(), model.hooks(fwd_hooks=hooks):
        model.forward(token_ids.to(device), **({} if argument is None else {argument: given.to(device)}))


def _linearised_error(model: Any, token_ids: Tensor, mask: Tensor | None, heads: LayerHeads, kept: Tensor) -> float:
    """Return ``|f(z_0) + J delta - f(z_0 + delta)| / |f(z_0 + delta) - f(z_0)|`` for one layer."""
    from torch.autograd import forward_ad

    own = torch.diagonal(heads.pattern, dim1=-2, dim2=-1)[..., None] * heads.values
    delta = heads.outputs - own
    name, stream = part_names(model, heads.layer)["z"], _stream_name(model, heads.layer)
    found: dict[str, Tensor] = {}

    def pass_with(outputs: Tensor, tangent: Tensor | None, key: str) -> None:
        def write(tensor: Tensor, *, hook: Any) -> Tensor:
            base = _as_output(outputs, tensor)
            return base if tangent is None else forward_ad.make_dual(base, _as_output(tangent, tensor))

        def keep(tensor: Tensor, *, hook: Any) -> None:
            value, derivative = forward_ad.unpack_dual(tensor) if tangent is not None else (tensor, None)
            found[key] = value[0].detach().cpu().double()
            if tangent is not None:
                slope = torch.zeros_like(value) if derivative is None else derivative
                found["slope"] = slope[0].detach().cpu().double()

        _run(model, token_ids, mask, [(name, write), (stream, keep)])

    _load_forward_derivatives()
    try:
        with forward_ad.dual_level():
            pass_with(own, delta, "before")
    except NotImplementedError as error:
        raise ValueError(
            f"linearised must be False for {describe(model)}: an operation of its layers has no forward derivative"
        ) from error
    pass_with(heads.outputs, None, "after")
    change = found["after"] - found["before"]
    return relative_error(found["slope"][kept], change[kept])


def _load_forward_derivatives() -> None:
    """Let torch load what it needs for forward derivatives: on first use it warns of a part of torch itself."""
    from torch.autograd import forward_ad

    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_ad.make_dual(torch.zeros(1), torch.zeros(1))


__all__ = ["trace"]
