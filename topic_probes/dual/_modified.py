"""The three modified attentions as pure functions of torch tensors, for training and for hooks.

Attention is one gradient step of its dual model (Ren and Liu 2024, sections 3 and 5):
``output = W_0 phi(q) + demonstration part``, with ``W_0`` from the tokens that are no demonstrations. A change of the
dual's training is a change of attention:

``regularised``       the step also decays ``W_0``: ``(1 - a) * other part + demonstration part``
``augmented``         demonstrations are seen through learned maps: ``k -> g_k(k)``, ``v -> g_v(v)``
``negative samples``  values are pushed apart: ``v_i -> v_i - (b / r) * sum of the values of r negative tokens``

With ``a = 0``, identity maps and ``b = 0`` each is plain softmax attention. The weights that come out need not sum
to one. What these do *not* show: that a model trained without them gets better with them.

Two have a twin that works on attention patterns (``..._weights``), for hooks that have a pattern and no scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from .._validation import require_count, require_one_of

NegativeRule = Literal["least_attended", "least_similar"]
NEGATIVE_RULES: tuple[NegativeRule, ...] = ("least_attended", "least_similar")


def regularised_weights(pattern: Tensor, demonstrations: Tensor, a: float) -> Tensor:
    """Return the pattern with the weights of tokens that are no demonstrations times ``1 - a``.

    Args:
        pattern: [..., query_pos, key_pos] attention, rows summing to 1.
        demonstrations: boolean, [key_pos] or any shape that broadcasts to the pattern.
        a: strength of the decay of ``W_0``; 0 changes nothing, 1 leaves the demonstrations alone.

    Returns:
        [..., query_pos, key_pos] weights for the values; a row sums to ``1 - a * (mass of the others)``.
    """
    return torch.where(demonstrations, pattern, pattern * (1.0 - a))


def negative_sample_weights(
    pattern: Tensor,
    demonstrations: Tensor,
    b: float,
    r: int,
    *,
    choose: NegativeRule = "least_attended",
    keys: Tensor | None = None,
    order: Tensor | None = None,
) -> Tensor:
    """Return the weights for the *unchanged* values that equal the pattern's on values with negatives taken off.

    Args:
        pattern: [..., query_pos, key_pos] attention.
        demonstrations: boolean, broadcasts to the pattern; also the tokens that negatives are taken from. Leave
            out what a query cannot see.
        b: strength; 0 changes nothing.
        r: negatives for each token. Where a query has fewer candidates, all of them are taken, and the divisor is
            their number.
        choose: ``"least_attended"``: the r demonstrations with the least attention of the query, the same ones for
            each of its tokens (a token may be its own negative). ``"least_similar"``: for each token, the r other
            demonstrations with the smallest inner product of keys, of those that the query has.
        keys: [..., key_pos, d_head], needed for ``"least_similar"``.
        order: [..., query_pos, key_pos], what ``"least_attended"`` sorts by in place of the pattern: scores, say,
            which do not underflow. Ties go to the earlier position.

    Returns:
        [..., query_pos, key_pos] weights; negatives of one query carry negative weight.

    Raises:
        ValueError: for an unknown rule, ``r`` below 1, or ``"least_similar"`` without keys.
    """
    require_one_of("choose", choose, NEGATIVE_RULES)
    require_count("r", r)
    chosen = demonstrations.expand_as(pattern)
    ours = pattern * chosen
    if choose == "least_attended":
        negative = _lowest(pattern if order is None else order, chosen, r)
        counts = negative.sum(-1, keepdim=True).clamp(min=1)
        return pattern - b * ours.sum(-1, keepdim=True) * negative / counts
    if keys is None:
        raise ValueError("keys must be given for choose='least_similar': hand over [..., key_pos, d_head]")
    similarity = (keys @ keys.transpose(-1, -2)).unsqueeze(-3)
    itself = torch.eye(keys.shape[-2], dtype=torch.bool, device=keys.device)
    candidates = chosen.unsqueeze(-2) & ~itself
    negative = _lowest(similarity.expand(candidates.shape), candidates, r)
    counts = negative.sum(-1, keepdim=True).clamp(min=1)
    return pattern - b * torch.einsum("...qt,...qtj->...qj", ours, negative / counts.to(pattern.dtype))


def regularised_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    demonstrations: Tensor,
    a: float,
    *,
    scale: float | None = None,
    pair_factors: Tensor | None = None,
) -> Tensor:
    """Return attention whose dual step decays ``W_0`` by ``a``: demonstration part + (1 - a) * other part.

    Args:
        q: [..., query_pos, d_head] queries.
        k: [..., key_pos, d_head] keys.
        v: [..., key_pos, d_value] values.
        demonstrations: boolean, [key_pos] or a shape that broadcasts to [..., query_pos, key_pos].
        a: strength of the decay; 0 is plain softmax attention.
        scale: factor of the inner products, 1/sqrt(d_head) unless given.
        pair_factors: log factors that are added to the scores, broadcasting to [..., query_pos, key_pos]; ``-inf``
            hides a key.

    Returns:
        [..., query_pos, d_value] outputs, differentiable in all tensors.

    Examples:
        >>> import torch
        >>> q, k, v = torch.zeros(1, 2), torch.zeros(2, 2), torch.tensor([[2.0], [4.0]])
        >>> regularised_attention(q, k, v, torch.tensor([True, False]), a=0.5)  # 2/2 + (1 - 0.5) * 4/2
        tensor([[2.]])
    """
    pattern = _scores(q, k, scale, pair_factors).softmax(-1)
    return regularised_weights(pattern, demonstrations, a) @ v


def augmented_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    demonstrations: Tensor,
    g_k: Callable[[Tensor], Tensor] | None = None,
    g_v: Callable[[Tensor], Tensor] | None = None,
    *,
    scale: float | None = None,
    pair_factors: Tensor | None = None,
) -> Tensor:
    """Return attention that sees demonstrations through ``g_k`` and ``g_v``, the two augmentations of the dual.

    Args:
        q: [..., query_pos, d_head] queries.
        k: [..., key_pos, d_head] keys.
        v: [..., key_pos, d_value] values.
        demonstrations: boolean, [key_pos] or a shape that broadcasts to [..., query_pos, key_pos].
        g_k: map of keys to keys of the same width, such as an MLP; None is the identity.
        g_v: map of values to values of the same width; None is the identity.
        scale: factor of the inner products, 1/sqrt(d_head) unless given.
        pair_factors: log factors as in :func:`regularised_attention`.

    Returns:
        [..., query_pos, d_value] outputs. The softmax runs over the mapped keys of demonstrations and the plain keys
        of the others.
    """
    plain = _scores(q, k, scale, pair_factors)
    mapped = plain if g_k is None else _scores(q, g_k(k), scale, pair_factors)
    pattern = torch.where(demonstrations, mapped, plain).softmax(-1)
    if g_v is None:
        return pattern @ v
    ours = pattern * demonstrations.to(pattern.dtype)
    return ours @ g_v(v) + (pattern - ours) @ v


def negative_sample_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    demonstrations: Tensor,
    b: float,
    r: int,
    *,
    choose: NegativeRule = "least_attended",
    scale: float | None = None,
    pair_factors: Tensor | None = None,
) -> Tensor:
    """Return attention to demonstrations whose values are ``v_i - (b / r) * sum of r negatives``.

    Args:
        q: [..., query_pos, d_head] queries.
        k: [..., key_pos, d_head] keys.
        v: [..., key_pos, d_value] values.
        demonstrations: boolean, [key_pos] or a shape that broadcasts to [..., query_pos, key_pos]; negatives come
            from those that the query sees.
        b: strength; 0 is plain softmax attention.
        r: negatives for each token; all candidates where there are fewer.
        choose: ``"least_attended"`` or ``"least_similar"``, see :func:`negative_sample_weights`.
        scale: factor of the inner products, 1/sqrt(d_head) unless given.
        pair_factors: log factors as in :func:`regularised_attention`.

    Returns:
        [..., query_pos, d_value] outputs; the choice of negatives carries no gradient.

    Raises:
        ValueError: for an unknown rule or ``r`` below 1.
    """
    scores = _scores(q, k, scale, pair_factors)
    seen = demonstrations & ~torch.isneginf(scores)
    weights = negative_sample_weights(scores.softmax(-1), seen, b, r, choose=choose, keys=k, order=scores)
    return weights @ v


def _scores(q: Tensor, k: Tensor, scale: float | None, pair_factors: Tensor | None) -> Tensor:
    products = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return products if pair_factors is None else products + pair_factors


def _lowest(numbers: Tensor, candidates: Tensor, r: int) -> Tensor:
    """Mark the ``r`` lowest candidates along the last axis (fewer where there are fewer)."""
    ranked = torch.where(candidates, numbers.detach(), torch.inf)
    order = ranked.argsort(dim=-1, stable=True)[..., :r]
    marked = torch.zeros_like(candidates).scatter(-1, order, True)
    return marked & candidates
