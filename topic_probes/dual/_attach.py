"""``attach_head``: one query of one head of a real model, as a dual model that was trained on the other tokens.

With scores ``s_i = scale * k_i . q + f_i`` (f_i a log factor, 0 for a pure inner product kernel), weights
``A_i = exp(s_i) / Z`` and features phi of the exponential kernel, the head's output is (docs/science.md, *The dual*)

    z = W' phi(q),   W' = W_0 + sum over demonstrations of (e^f_i / Z) v_i phi(k_i)^T

so a demonstration token contributes one rank-one update. Three numbers say what it does: the *loss term*
``-(e^f_i / Z) v_i . W_0 phi(k_i)``, its part of the loss before the step; the *update norm*
``(e^f_i / Z) |v_i| |phi(k_i)|``; and its *share* ``A_i v_i . z / |z|^2`` of the output along the output's own
direction. Shares of all tokens, the query's own included, add up to one. All three are of the kernel
``K(x, y) = exp(scale x . y)`` itself, whatever the features. Attention does not change when one vector is added to all
keys; loss terms and update norms do, for they are of keys among themselves.

What a share does *not* show: tokens that move the output sideways and cancel each other have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .._axes import WordPolicy
from .._html import html_table
from ..probes._hooks import describe, tokenizer_of
from ..topics import TopicLabels
from ._arrays import demonstration_mask
from ._fit import Dual, fit
from ._heads import (
    LayerHeads,
    as_mask,
    as_token_ids,
    log_factors,
    read_layers,
    require_index,
    tolerance,
    unfolded,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class HeadDual:
    """The dual of one head at one query: see :func:`attach_head`, which makes it.

    Tensors are float64 on the CPU. ``seen`` counts the tokens that the query sees, in order.
    """

    dual: Dual
    """The dual model, fitted on the tokens that the query sees; ``dual.predict(query)`` is ``output``."""
    output: Float[Tensor, " d_head"]
    """[d_head] what the dual model predicts for the query."""
    attention_output: Float[Tensor, " d_head"]
    """[d_head] what the head itself put out: ``hook_z`` at the query."""
    relative_error: float
    """``|output - attention_output| / |attention_output|``."""
    kernel_error: float
    """``sum_i |error of K(k_i, q)| / Z`` of the dual's features: rounding for exact ones, 1 for useless ones."""
    unfolded: float
    """Share of the attention (total variation, 0 to 1) that the inner product kernel alone does not make.

    Above rounding the rest (rotations that the model does not hand out, biases, soft caps) is in ``log_factors``, which
    make any row exact: then ``relative_error`` is no evidence that the head is a kernel.
    """
    contributions: pd.DataFrame
    """One row per demonstration: ``position token attention loss_term update_norm share``."""
    query: Float[Tensor, " d_head"]
    """[d_head] the query vector, after rotation where the model hands that out."""
    keys: Float[Tensor, "seen d_head"]
    values: Float[Tensor, "seen d_head"]
    attention: Float[Tensor, " seen"]
    """[seen] the model's own weights of the tokens."""
    log_factors: Float[Tensor, " seen"]
    """[seen] what enters beside the inner products; all 0 for a pure kernel."""
    positions: tuple[int, ...]
    """[seen] where these tokens stand in the row."""
    is_demonstration: Bool[Tensor, " seen"]
    """[seen] which of them the dual was trained on; the others make W_0."""
    scale: float
    """Factor of the inner products."""
    layer: int
    head: int
    query_position: int
    token_ids: tuple[int, ...]
    """[pos] the whole row."""
    model: str
    """Class and name of the model."""
    tokenizer: Any
    """The tokenizer that the tokens were named by, or None."""

    def by_topic(self, labels: TopicLabels, tokenizer: Any = None, *, words: WordPolicy = "whole") -> pd.DataFrame:
        """Return the contributions summed by pair class: see :func:`topic_probes.dual._head_by_topic.head_by_topic`.

        Args:
            labels: topics of words or of token ids.
            tokenizer: the one that was given to :func:`attach_head` unless given; not needed for token ids.
            words: which tokens are words, as for :func:`topic_probes.probe`.

        Returns:
            One row per class: ``pair_class n_tokens attention loss_term update_norm output_norm share``. There
            ``update_norm`` is the Frobenius norm of the *summed* update, ``output_norm`` the length of the summed
            ``A_i v_i``.
        """
        from ._head_by_topic import head_by_topic

        return head_by_topic(self, labels, self.tokenizer if tokenizer is None else tokenizer, words)

    def classified(self, labels: TopicLabels, tokenizer: Any = None, *, words: WordPolicy = "whole") -> pd.DataFrame:
        """Return ``contributions`` with one more column, ``pair_class``: the class of each token.

        Args:
            labels: topics of words or of token ids.
            tokenizer: as for :meth:`by_topic`.
            words: as for :meth:`by_topic`.

        Returns:
            A new table; ``topic_probes.report.plot_contributions`` draws it.
        """
        from ._head_by_topic import head_classified

        return head_classified(self, labels, self.tokenizer if tokenizer is None else tokenizer, words)

    def _repr_html_(self) -> str:
        """Return the demonstrations with the largest shares of the output, for a notebook."""
        return html_table(self.contributions.sort_values("share", key=abs, ascending=False), repr(self))

    def __repr__(self) -> str:
        return (
            f"HeadDual(layer {self.layer}, head {self.head} of {self.model}, query {self.query_position}, "
            f"{int(self.is_demonstration.sum())} demonstrations, relative error {self.relative_error:.1e})"
        )


def attach_head(
    model: Any,
    tokens: Any,
    *,
    layer: int,
    head: int,
    query: int = -1,
    demonstrations: Any = None,
    attention_mask: Any = None,
    tokenizer: Any = None,
    features: Any = "exact",
) -> HeadDual:
    """Return the dual of one head at one query of one text, from one forward pass of the model.

    Inside a block of :func:`regularised` and the like, the layers before this one are modified, and this one is not.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        tokens: a text, or the ids [pos] of one row.
        layer: the layer, negative ones from the end.
        head: the query head within the layer. With grouped queries it uses the keys and values of head
            ``head // (n_heads // n_key_value_heads)``.
        query: position of the query, the last one unless given.
        demonstrations: boolean mask [pos], slice or positions of the tokens that the dual is trained on. Unless given,
            all that the query sees but its own: every token before it in a causal model, all others in an encoder.
            Of those given, tokens that the query does not see are left out.
        attention_mask: [pos] 1 for tokens, 0 for pads; None for no pads.
        tokenizer: the model's own (``model.tokenizer``) unless given; names the tokens.
        features: ``"exact"``, or a feature map of this package.

    Returns:
        The dual, its output beside the head's, the errors, and one row per demonstration.

    Raises:
        TypeError, ValueError: for a model that cannot be hooked, a layer, head or query that does not exist, or tokens
            that are not one row.
        PatternError: if the model hands out no pattern, queries, keys, values or output of the layer.

    Examples:
        dual = topic_probes.dual.attach_head(model, "The cat sat on the mat", layer=0, head=1)
        dual.relative_error, dual.contributions
    """
    tokenizer = tokenizer_of(model, tokenizer)
    token_ids = as_token_ids(tokens, tokenizer)
    mask = as_mask(attention_mask, token_ids, tokenizer)
    chosen = _chosen(demonstrations, token_ids.shape[1])
    (read,) = read_layers(model, token_ids, mask, [layer]).values()
    head = require_index("head", head, len(read.pattern))
    query = require_index("query", query, token_ids.shape[1])
    return head_dual(
        read,
        head,
        query,
        chosen,
        token_ids=tuple(token_ids[0].tolist()),
        model=describe(model),
        tokenizer=tokenizer,
        features=features,
    )


def _chosen(demonstrations: Any, length: int) -> Tensor | None:
    return None if demonstrations is None else torch.from_numpy(demonstration_mask(demonstrations, length))


def head_dual(
    read: LayerHeads,
    head: int,
    query: int,
    demonstrations: Tensor | None,
    *,
    token_ids: tuple[int, ...],
    model: str = "",
    tokenizer: Any = None,
    features: Any = "exact",
) -> HeadDual:
    """Return the dual of a head of a layer that was read; arguments as for :func:`attach_head`, checked."""
    row = read.pattern[head, query]
    seen = torch.nonzero(row > 0).flatten()
    if len(seen) == 0:
        raise ValueError(
            f"query must be a position that attends to something, got {query}, whose attention is all hidden (a pad?)"
        )
    keys, values, vector = read.keys[head, seen], read.values[head, seen], read.queries[head, query]
    attention = row[seen]
    ours = seen != query if demonstrations is None else demonstrations[seen]
    scores = read.scale * keys @ vector
    missing = float(unfolded(scores, attention))
    pure = missing <= tolerance(read.precision)
    factors = torch.zeros_like(attention) if pure else log_factors(scores, attention)
    dual = fit(keys, values, ours, scale=read.scale, features=features, pair_factors=None if pure else factors[None, :])
    output = torch.as_tensor(dual.predict(vector[None, :])).double().reshape(-1)
    head_output = read.outputs[head, query]
    return HeadDual(
        dual=dual,
        output=output,
        attention_output=head_output,
        relative_error=relative_error(output, head_output),
        kernel_error=dual.relative_kernel_error(vector[None, :]),
        unfolded=missing,
        contributions=_contributions(
            seen, ours, keys, values, scores + factors, attention, factors, read.scale, token_ids, tokenizer
        ),
        query=vector,
        keys=keys,
        values=values,
        attention=attention,
        log_factors=factors,
        positions=tuple(seen.tolist()),
        is_demonstration=ours,
        scale=read.scale,
        layer=read.layer,
        head=head,
        query_position=query,
        token_ids=token_ids,
        model=model,
        tokenizer=tokenizer,
    )


def relative_error(found: Tensor, real: Tensor) -> float:
    """Return ``|found - real| / |real|``; the length of the difference itself where ``real`` is 0."""
    size = float(real.norm())
    return float((found - real).norm()) / (size if size > 0 else 1.0)


def _contributions(
    seen: Tensor,
    ours: Tensor,
    keys: Tensor,
    values: Tensor,
    scores: Tensor,
    attention: Tensor,
    factors: Tensor,
    scale: float,
    token_ids: tuple[int, ...],
    tokenizer: Any,
) -> pd.DataFrame:
    import pandas as pd

    log_weights = factors - scores.logsumexp(0)
    output = attention @ values
    share = attention * (values @ output) / output.square().sum()
    loss = loss_terms(keys, values, log_weights, ours, scale)
    norms = (log_weights + scale * keys.square().sum(-1) / 2).exp() * values.norm(dim=-1)
    chosen = torch.nonzero(ours).flatten()
    positions = seen[chosen].tolist()
    ids = [token_ids[position] for position in positions]
    tokens = [str(number) for number in ids] if tokenizer is None else list(tokenizer.convert_ids_to_tokens(ids))
    return pd.DataFrame(
        {
            "position": pd.Series(positions, dtype="int64"),
            "token": pd.Series(tokens, dtype=object),
            "attention": attention[chosen].numpy(),
            "loss_term": loss[chosen].numpy(),
            "update_norm": norms[chosen].numpy(),
            "share": share[chosen].numpy(),
        }
    )


def loss_terms(keys: Tensor, values: Tensor, log_weights: Tensor, is_demonstration: Tensor, scale: float) -> Tensor:
    """Return [seen] each token's term of the dual's loss before the step, ``-(e^f_i / Z) v_i . W_0 phi(k_i)``.

    By the kernel, ``W_0 phi(k_i) = sum over others j of (e^f_j / Z) v_j exp(scale k_j . k_i)``; summed in log space,
    for kernels of two keys overflow where those of key and query do not. Infinite beyond float64.

    Args:
        keys: [seen, d_head]
        values: [seen, d_head]
        log_weights: [seen] ``f_i - log Z``.
        is_demonstration: [seen] the others make W_0.
        scale: factor of the inner products.
    """
    rest = torch.nonzero(~is_demonstration).flatten()
    if len(rest) == 0:
        return torch.zeros_like(log_weights)
    exponents = log_weights[:, None] + log_weights[None, rest] + scale * keys @ keys[rest].T
    top = exponents.max(-1, keepdim=True).values
    sums = ((exponents - top).exp() * (values @ values[rest].T)).sum(-1)
    return torch.where(sums == 0, 0.0, -sums * top[:, 0].exp())


__all__ = ["HeadDual", "attach_head"]
