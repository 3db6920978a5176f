"""The dual of one attention head: attending to demonstrations is one gradient step.

With ``K(x, y) = exp(x . y) = phi(x) . phi(y)`` and ``Z = sum_i K(k_i, q)`` (Ren and Liu 2024, section 3):

    output = sum_i v_i K(k_i, q) / Z = W phi(q),   W = W_0 + (1/Z) sum over demonstrations of v_i phi(k_i)^T
    L(W) = -(1/Z) sum over demonstrations of v_i . W phi(k_i)

``W`` is one step of gradient descent on ``L`` from ``W_0``, at rate 1; ``W_0`` holds the tokens that are no
demonstrations. Identity that must hold: the closed form, the step of a real optimiser, and softmax attention agree to
rounding when the features are exact.

``Z`` depends on the query, and so do per-pair factors (masks, biases, rotary positions that fold into no inner
product): :meth:`Dual.at` gives each query its own weights. Without per-pair factors one set of weights serves all
queries up to ``Z``: those are :attr:`Dual.W_0` and :attr:`Dual.W`.

What it does *not* show: that the model was trained to learn in context. The identity holds for random weights too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from .._html import html_table
from .._validation import require_count
from ._arrays import as_float64, attention_weights, demonstration_mask, finite_number
from ._features import ExactFeatures, FeatureMap, KernelFeatures

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class DualTraining:
    """Many small steps of the dual's training."""

    losses: Float[np.ndarray, " step"]
    """[step] loss before the first step and after each, summed over the models; linear in W, so it falls evenly.
    Its course says something, its size does not: see :meth:`DualModel.loss`."""
    distances: Float[np.ndarray, " step"]
    """[step] |W phi(q) - output of the attention| / |output|, over all queries; NaN where no queries are at hand."""
    W: Float[np.ndarray, "model d_value feature"]
    """[model, d_value, feature] weights at the end."""
    learning_rate: float
    """Of each step; ``n_steps * learning_rate = 1`` ends at the attention's output."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per step: step, total_rate (steps times learning rate), loss, distance."""
        import pandas as pd

        steps = np.arange(len(self.losses))
        return pd.DataFrame(
            {
                "step": steps,
                "total_rate": steps * self.learning_rate,
                "loss": self.losses,
                "distance": self.distances,
            }
        )

    def _repr_html_(self) -> str:
        """Return the first and the last step, for a notebook."""
        ends = self.to_frame().iloc[[0, -1]]
        return html_table(ends, f"DualTraining of {len(self.losses) - 1} steps at rate {self.learning_rate:g}")


@dataclass(frozen=True)
class DualModel:
    """Linear models ``W phi(.)``, one for each query, before and after the step that the attention is.

    The features here are those of :class:`KernelFeatures`; the factors that stand apart from them in log space are
    in ``rates``, so ``rates[q, i]`` is ``K(k_i, q) / Z`` divided by ``key_features[i] . query_features[q]``.
    """

    key_features: Float[np.ndarray, "token feature"]
    """[token, feature]."""
    values: Float[np.ndarray, "token d_value"]
    """[token, d_value]."""
    demonstrations: Bool[np.ndarray, " token"]
    """[token] which tokens are demonstrations."""
    rates: Float[np.ndarray, "model token"]
    """[model, token] weight of each token's term in the loss; 1/Z is in it."""
    query_features: Float[np.ndarray, "model feature"] | None = None
    """[model, feature] of the query of each model, None where the weights serve any query."""
    log_Z: Float[np.ndarray, " model"] | None = None
    """[model] natural log of Z, as the features give it; NaN where random features make it negative."""
    relative_kernel_error: float = float("nan")
    """See :attr:`KernelFeatures.relative_kernel_error`; hidden tokens do not count."""

    @cached_property
    def W_0(self) -> Float[np.ndarray, "model d_value feature"]:
        """[model, d_value, feature] weights before the step: ``(1/Z) sum over the others of v_j phi(k_j)^T``."""
        return self._weights(~self.demonstrations)

    @cached_property
    def W(self) -> Float[np.ndarray, "model d_value feature"]:
        """[model, d_value, feature] weights after the step, in closed form."""
        return self.W_0 + self._weights(self.demonstrations)

    @cached_property
    def output(self) -> Float[np.ndarray, "model d_value"]:
        """[model, d_value] what each model says of its query after the step: the attention output.

        Raises:
            ValueError: if no queries are at hand.
        """
        return self._predict(self.W)

    def loss(self, W: Float[np.ndarray, "model d_value feature"]) -> Float[np.ndarray, " model"]:
        """Return ``L(W) = -(1/Z) sum over demonstrations of v_i . W phi(k_i)`` for each model.

        In units of these features. The output is the same for all features of one kernel, the loss is not: keys twice
        as long and queries half as long leave attention alone and change ``phi(k_i) . phi(k_j)``. So compare losses
        within one model only.
        """
        losses = _losses(torch.from_numpy(np.ascontiguousarray(W)), *self._demonstration_tensors())
        return losses.numpy()

    def step(self, learning_rate: float = 1.0) -> Float[np.ndarray, "model d_value feature"]:
        """Return the weights after one step of ``torch.optim.SGD`` on the loss, from ``W_0``, by autograd.

        At rate 1 it equals :attr:`W` to rounding.
        """
        return self.train(1, learning_rate).W

    def train(self, n_steps: int, learning_rate: float | None = None) -> DualTraining:
        """Take ``n_steps`` of ``torch.optim.SGD`` from ``W_0`` and keep the loss.

        Args:
            n_steps: number of steps.
            learning_rate: of each; ``1 / n_steps`` unless given, which ends at the attention's output.

        Raises:
            ValueError: if ``n_steps`` is below 1 or the rate is not a positive number.
        """
        require_count("n_steps", n_steps)
        rate = 1.0 / n_steps if learning_rate is None else finite_number("learning_rate", learning_rate, above=0.0)
        # The caller may be under no_grad; the step needs gradients all the same, and leaves the mode as it was.
        with torch.inference_mode(False), torch.enable_grad():
            tensors = self._demonstration_tensors()
            W = torch.from_numpy(self.W_0.copy()).requires_grad_(True)
            optimizer = torch.optim.SGD([W], lr=rate)
            losses, distances = [], [self._distance(self.W_0)]
            for _ in range(n_steps):
                optimizer.zero_grad()
                loss = _losses(W, *tensors).sum()
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
                distances.append(self._distance(W.detach().numpy()))
            losses.append(_losses(W.detach(), *tensors).sum().item())
        return DualTraining(np.array(losses), np.array(distances), W.detach().numpy(), rate)

    def _weights(self, chosen: np.ndarray) -> np.ndarray:
        weighted = self.rates[:, chosen, None] * self.key_features[chosen]
        return np.einsum("tv,mtf->mvf", self.values[chosen], weighted, optimize=True)

    def _predict(self, W: np.ndarray) -> np.ndarray:
        if self.query_features is None:
            raise ValueError("these weights serve any query and have no output: take dual.at(queries)")
        return np.einsum("mvf,mf->mv", W, self.query_features)

    def _distance(self, W: np.ndarray) -> float:
        if self.query_features is None:
            return float("nan")
        size = np.linalg.norm(self.output)
        return float(np.linalg.norm(self._predict(W) - self.output) / size) if size else 0.0

    def _demonstration_tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chosen = self.demonstrations
        arrays = (self.key_features[chosen], self.values[chosen], self.rates[:, chosen])
        key_features, values, rates = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
        return key_features, values, rates


@dataclass(frozen=True)
class Dual:
    """One attention head over given keys and values, as a model that is trained by one step. Made by :func:`fit`."""

    keys: Float[np.ndarray, "token d_head"]
    """[token, d_head] as given, without the scale."""
    values: Float[np.ndarray, "token d_value"]
    """[token, d_value]."""
    demonstrations: Bool[np.ndarray, " token"]
    """[token] which tokens are demonstrations."""
    scale: float
    """Factor of the inner products."""
    features: Any
    """The feature map."""
    pair_factors: Float[np.ndarray, "query token"] | None = None
    """[query, token] log factors, added to the scores; None for none."""

    def predict(self, queries: Any) -> Any:
        """Return the output of the trained dual: the attention output, to rounding for exact features.

        Args:
            queries: [query, d_head] numpy or torch; with pair factors, as many as those have rows.

        Returns:
            [query, d_value] float64, of the kind that came in.

        Raises:
            ValueError: if the shape does not fit, or a number is not finite.
        """
        output = self.at(queries).output
        return torch.from_numpy(output) if isinstance(queries, torch.Tensor) else output

    def at(self, queries: Any) -> DualModel:
        """Return the dual of each query, with its own Z: weights before and after, loss, optimiser steps.

        Args:
            queries: [query, d_head] numpy or torch; with pair factors, as many as those have rows.

        Raises:
            ValueError: if the shape does not fit, or a number is not finite.
        """
        features, factors = self._features_at(queries)
        scores = features.scores + factors
        shift = scores.max(axis=1)
        # Random features may overflow, or make Z zero or negative; relative_kernel_error tells.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rates = np.exp(features.log_rates(factors, shift))
            Z = (rates * (features.queries @ features.keys.T)).sum(axis=1)
            return DualModel(
                key_features=features.keys,
                values=self.values,
                demonstrations=self.demonstrations,
                rates=rates / Z[:, None],
                query_features=features.queries,
                log_Z=shift + np.log(np.where(Z > 0, Z, np.nan)),
                relative_kernel_error=features.kernel_error(factors),
            )

    def attention(self, queries: Any) -> Float[np.ndarray, "query d_value"]:
        """Return softmax attention itself, without features: what :meth:`predict` is compared with."""
        vectors, factors = self._at_door(queries)
        return attention_weights(vectors @ self.keys.T * self.scale + factors) @ self.values

    def relative_error(self, queries: Any) -> float:
        """Return the largest over queries of |predict - attention| / |attention| (Euclidean norms)."""
        true = self.attention(queries)
        error = np.linalg.norm(self.at(queries).output - true, axis=1)
        size = np.linalg.norm(true, axis=1)
        # An output of exactly 0 leaves nothing to be relative to: the error itself then.
        return float((error / np.where(size > 0, size, 1.0)).max(initial=0.0))

    def relative_kernel_error(self, queries: Any) -> float:
        """Return the largest over queries of ``sum_i |error of K(k_i, q)| / Z``, with the pair factors counted in."""
        features, factors = self._features_at(queries)
        return features.kernel_error(factors)

    @property
    def weights(self) -> DualModel:
        """The one model that serves any query, with Z left out: features of the keys alone, in units of exp(shift).

        The shift makes the largest factor of a key 1; it cancels in W phi(q) / Z.

        Raises:
            ValueError: with pair factors, which give each query its own weights.
        """
        if self.pair_factors is not None:
            raise ValueError("pair_factors give each query weights of its own: take dual.at(queries)")
        features = self.features.fit(self.keys * (self.scale / self._root), np.zeros((0, self.keys.shape[1])))
        rates = np.exp(features.log_keys - features.log_keys.max())
        return DualModel(features.keys, self.values, self.demonstrations, rates[None])

    @property
    def W_0(self) -> Float[np.ndarray, "d_value feature"]:
        """[d_value, feature] weights before the step, up to Z; see :attr:`weights`."""
        return self.weights.W_0[0]

    @property
    def W(self) -> Float[np.ndarray, "d_value feature"]:
        """[d_value, feature] weights after the step in closed form, up to Z; see :attr:`weights`."""
        return self.weights.W[0]

    def step(self, learning_rate: float = 1.0) -> Float[np.ndarray, "d_value feature"]:
        """Return the weights after one real optimiser step, up to Z; see :meth:`DualModel.step`."""
        return self.weights.step(learning_rate)[0]

    def train(self, n_steps: int, learning_rate: float | None = None, queries: Any = None) -> DualTraining:
        """Take many small steps and keep the loss; with queries, also the distance to the attention output.

        Args:
            n_steps: number of steps.
            learning_rate: of each, ``1 / n_steps`` unless given.
            queries: [query, d_head], each with its own Z; None trains the one model that leaves Z out.
        """
        return (self.weights if queries is None else self.at(queries)).train(n_steps, learning_rate)

    @property
    def _root(self) -> float:
        """The share of the scale that queries carry; keys carry the rest, sign included."""
        return abs(self.scale) ** 0.5 or 1.0

    def _features_at(self, queries: Any) -> tuple[KernelFeatures, np.ndarray]:
        vectors, factors = self._at_door(queries)
        # Half of the scale to each side is what random features are best at: their error grows with both norms.
        keys, vectors = self.keys * (self.scale / self._root), vectors * self._root
        if isinstance(self.features, ExactFeatures):
            return self.features.fit(keys, vectors, factors), factors
        return self.features.fit(keys, vectors), factors

    def _at_door(self, queries: Any) -> tuple[np.ndarray, np.ndarray]:
        vectors = as_float64("queries", queries, ("query", "d_head"))
        if vectors.shape[1] != self.keys.shape[1]:
            raise ValueError(f"queries must be {self.keys.shape[1]} wide, as the keys are, got {vectors.shape[1]}")
        if self.pair_factors is None:
            return vectors, np.zeros((len(vectors), len(self.keys)))
        if len(self.pair_factors) != len(vectors):
            raise ValueError(
                f"queries must be the {len(self.pair_factors)} that pair_factors has rows for, got {len(vectors)}"
            )
        return vectors, self.pair_factors


def fit(
    keys: Any,
    values: Any,
    demonstrations: Any,
    scale: float | None = None,
    features: Any = "exact",
    pair_factors: Any = None,
) -> Dual:
    """Return the dual model of one attention head over these tokens (Ren and Liu 2024, section 3).

    Args:
        keys: [token, d_head] numpy or torch, any float; float64 inside.
        values: [token, d_value].
        demonstrations: which tokens are demonstrations: a boolean mask [token], a slice or indices. None of them, or
            all, is fine.
        scale: factor of the inner products, 1/sqrt(d_head) unless given.
        features: ``"exact"``, :class:`TrigonometricFeatures`, :class:`PositiveFeatures` or another
            :class:`FeatureMap`.
        pair_factors: [query, token] log factors for queries to come, added to the scores: a mask (``-inf``), a
            bias, what soft caps or rotary positions change.

    Raises:
        TypeError: if something is not an array or a number, or features is no feature map.
        ValueError: if shapes do not fit, a number is not finite, or a row of pair_factors hides every token.

    Examples:
        >>> import numpy as np
        >>> dual = fit(np.zeros((2, 4)), np.array([[1.0], [3.0]]), demonstrations=[0])
        >>> dual.predict(np.ones((1, 4)))  # equal keys: the mean of the values
        array([[2.]])
    """
    key_array = as_float64("keys", keys, ("token", "d_head"))
    value_array = as_float64("values", values, ("token", "d_value"))
    n_tokens, d_head = key_array.shape
    if n_tokens == 0 or d_head == 0:
        raise ValueError(f"keys must hold at least one token and one number each, got the shape {key_array.shape}")
    if len(value_array) != n_tokens:
        raise ValueError(f"values must have one row for each of {n_tokens} keys, got {len(value_array)}")
    if isinstance(features, str):
        if features != "exact":
            raise ValueError(f'features must be "exact" or a feature map, got {features!r}')
        features = ExactFeatures()
    elif isinstance(features, type) or not isinstance(features, FeatureMap):
        raise TypeError(f'features must be "exact" or an object with fit(keys, queries), got {features!r}')
    factors = None
    if pair_factors is not None:
        factors = as_float64("pair_factors", pair_factors, ("query", "token"), minus_infinity=True)
        if factors.shape[1] != n_tokens:
            raise ValueError(f"pair_factors must have one column for each of {n_tokens} keys, got {factors.shape[1]}")
        hidden = np.isneginf(factors).all(axis=1)
        if hidden.any():
            raise ValueError(
                f"pair_factors must leave each query a token, got only -inf for query {hidden.argmax()}: leave it out"
            )
    return Dual(
        keys=key_array,
        values=value_array,
        demonstrations=demonstration_mask(demonstrations, n_tokens),
        scale=d_head**-0.5 if scale is None else finite_number("scale", scale),
        features=features,
        pair_factors=factors,
    )


def _losses(W: torch.Tensor, key_features: torch.Tensor, values: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    """The loss of each model, term by term as it is written: -(1/Z) sum_i v_i . W phi(k_i)."""
    predictions = torch.einsum("mvf,tf->mtv", W, key_features)
    return -(rates * torch.einsum("tv,mtv->mt", values, predictions)).sum(-1)
