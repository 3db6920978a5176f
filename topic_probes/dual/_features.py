"""Feature maps of the softmax kernel: ``exp(k . q) = phi(k) . phi(q)``, exactly or at random.

Every map returns :class:`KernelFeatures`, in which sizes stand apart in log space:

    exp(k . q)  ~  exp(log_keys[k] + log_queries[q]) * (keys[k] . queries[q])

so a score of 50, or of 500, is no overflow: a common shift cancels between attention's numerator and Z.

*Exact* (default). ``exp(x . y) = exp(|x|^2 / 2) exp(|y|^2 / 2) exp(-|x - y|^2 / 2)``; the Gaussian part over the tokens
at hand, keys and queries, is factored by Cholesky with pivots, which stops when nothing is left (its rank). At most
as many features as tokens. Keys are centred first (a softmax does not see it) and scaled against the queries. Where
scores of many hundreds, or crowds on a line, leave that factor inaccurate, the same linear models are written in other
coordinates (:attr:`KernelFeatures.coordinates` says which), of which the last is exact at any size.

*Random* (Ren and Liu 2024, section 3). Trigonometric features, or positive ones (those of the Performer). The error of
the positive ones is of order ``exp(|k + q|^2 / 2) / sqrt(n_features)``: at the norms of real heads they may be useless,
and ``relative_kernel_error`` says so.

What the number does *not* show: the relative error of each single entry. Where tokens crowd (small ``d_head``, many
tokens), entries that are tiny beside the largest of their query are lost to rounding, and do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from .._validation import require_count

_ROUNDING = float(np.finfo(np.float64).eps)

GOOD_ENOUGH = 1e-11
"""Relative error, of the kernel or of weights made from it, above which the exact map tries other coordinates."""


@dataclass(frozen=True)
class KernelFeatures:
    """Features of keys and queries whose inner products are the softmax kernel, up to factors in log space."""

    keys: Float[np.ndarray, "token feature"]
    """[token, feature] features of the keys."""
    queries: Float[np.ndarray, "query feature"]
    """[query, feature] features of the queries."""
    log_keys: Float[np.ndarray, " token"]
    """[token] natural log of the factor of each key."""
    log_queries: Float[np.ndarray, " query"]
    """[query] natural log of the factor of each query."""
    scores: Float[np.ndarray, "query token"]
    """[query, token] true log kernel, k . q with the scale folded in."""
    coordinates: str = "random"
    """``"random"``; of the exact map: ``"gram"``, ``"shortest gram"`` (the Gram factor of the shortest vectors with the
    same inner products) or ``"key basis"`` (key i is the i-th unit vector, a query its kernel values: W then has one
    column per token)."""

    @property
    def n_features(self) -> int:
        """Number of features; of the exact map, the numerical rank."""
        return self.keys.shape[1]

    @property
    def relative_kernel_error(self) -> float:
        """Largest over queries of ``sum_i |error of K(k_i, q)| / sum_i K(k_i, q)``: 0 is exact, 1 is useless."""
        return self.kernel_error()

    def kernel_error(self, pair_factors: Float[np.ndarray, "query token"] | None = None) -> float:
        """Return the relative kernel error with log factors [query, token] counted in: hidden tokens do not count."""
        per_query = self.kernel_errors(pair_factors)
        return float(per_query.max()) if len(per_query) else 0.0

    def kernel_errors(
        self, pair_factors: Float[np.ndarray, "query token"] | None = None
    ) -> Float[np.ndarray, " query"]:
        """Return for each query ``sum_i |error of K(k_i, q)| / sum_i K(k_i, q)``, inf on overflow."""
        factors = np.zeros_like(self.scores) if pair_factors is None else pair_factors
        logs = self.scores + factors
        largest = logs.max(axis=1, keepdims=True)
        true = np.exp(logs - largest)
        with np.errstate(over="ignore", invalid="ignore"):
            estimate = np.exp(self.log_rates(factors, largest[:, 0])) * (self.queries @ self.keys.T)
            errors = np.abs(estimate - true).sum(axis=1) / true.sum(axis=1)
        return np.where(np.isnan(errors), np.inf, errors)

    def weights_error(self, pair_factors: Float[np.ndarray, "query token"] | None = None) -> float:
        """Return how far rounding can move ``W phi(q)``, relative to Z: the largest over queries.

        The kernel may be right entry by entry while W is not: W adds up the features of all tokens before it meets
        the query, so terms that are large for other queries must cancel for this one. It is the unit of rounding times
        ``sum_i sum_f |terms| / Z``.
        """
        factors = np.zeros_like(self.scores) if pair_factors is None else pair_factors
        logs = self.scores + factors
        largest = logs.max(axis=1, initial=-np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.exp(self.log_rates(factors, largest)) * (np.abs(self.queries) @ np.abs(self.keys).T)
            moved = _ROUNDING * sizes.sum(axis=1) / np.exp(logs - largest[:, None]).sum(axis=1)
        return float(np.where(np.isnan(moved), np.inf, moved).max(initial=0.0))

    def log_rates(
        self, pair_factors: Float[np.ndarray, "query token"], shift: Float[np.ndarray, " query"]
    ) -> Float[np.ndarray, "query token"]:
        """Return the log of what multiplies ``keys[k] . queries[q]``, less a shift for each query."""
        return self.log_keys + self.log_queries[:, None] + pair_factors - shift[:, None]


@runtime_checkable
class FeatureMap(Protocol):
    """Anything that turns keys and queries into :class:`KernelFeatures`."""

    def fit(self, keys: Any, queries: Any) -> KernelFeatures:
        """Return features of keys [token, d_head] and queries [query, d_head], the scale folded into them."""
        ...


@dataclass(frozen=True)
class ExactFeatures:
    """The exact map over the tokens at hand, to rounding. See the module's text.

    Examples:
        >>> import numpy as np
        >>> features = ExactFeatures().fit(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[3.0, 2.0]]))
        >>> features.n_features, features.relative_kernel_error < 1e-15  # two equal keys are one feature
        (2, True)
    """

    def fit(
        self,
        keys: Float[np.ndarray, "token d_head"],
        queries: Float[np.ndarray, "query d_head"],
        pair_factors: Float[np.ndarray, "query token"] | None = None,
    ) -> KernelFeatures:
        """Return features of keys [token, d_head] and queries [query, d_head]; their inner products are exact.

        Args:
            keys: the scale folded in.
            queries: may be empty.
            pair_factors: log factors that count in the judgement of what is accurate: where they hide the keys of
                largest kernel, the others must be right beside each other.
        """
        middle = keys.mean(axis=0)
        plain = _gram_features(*_balance(keys - middle, queries), keys, queries, middle, "gram")
        if _good_enough(plain, pair_factors):
            return plain
        # Long vectors that hardly meet: rotate and stretch until keys and queries are as short as their scores allow.
        points = _balance(*_shortest(keys - middle, queries))
        shortest = _gram_features(*points, keys, queries, middle, "shortest gram")
        if _good_enough(shortest, pair_factors):
            return shortest
        return _key_basis(queries @ keys.T)


@dataclass(frozen=True)
class TrigonometricFeatures:
    """Random cosines and sines: ``exp(|x|^2 / 2) [cos(w . x), sin(w . x)]`` (Rahimi and Recht 2007).

    Raises:
        ValueError: if ``n_features`` is odd or below 2.
    """

    n_features: int = 256
    """Width of the features: half of them cosines."""
    seed: int = 0
    """Of a local generator."""
    orthogonal: bool = False
    """Whether directions are orthogonal in blocks of d_head, which lowers the variance."""

    def __post_init__(self) -> None:
        require_count("n_features", self.n_features, minimum=2)
        if self.n_features % 2:
            raise ValueError(f"n_features must be even (cosines and sines), got {self.n_features}")

    def fit(
        self, keys: Float[np.ndarray, "token d_head"], queries: Float[np.ndarray, "query d_head"]
    ) -> KernelFeatures:
        """Return random features of keys [token, d_head] and queries [query, d_head]; unbiased, of either sign."""
        directions = random_directions(self.n_features // 2, keys.shape[1], self.seed, self.orthogonal)

        def waves(vectors: np.ndarray) -> np.ndarray:
            angles = vectors @ directions.T
            return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(self.n_features // 2)

        return KernelFeatures(
            keys=waves(keys),
            queries=waves(queries),
            log_keys=_half_squares(keys),
            log_queries=_half_squares(queries),
            scores=queries @ keys.T,
        )


@dataclass(frozen=True)
class PositiveFeatures:
    """Positive random features: ``exp(w . x - |x|^2 / 2)`` (Choromanski et al. 2021, the Performer).

    Raises:
        ValueError: if ``n_features`` is below 1.
    """

    n_features: int = 256
    """Width of the features."""
    seed: int = 0
    """Of a local generator."""
    orthogonal: bool = True
    """Whether directions are orthogonal in blocks of d_head, which lowers the variance."""

    def __post_init__(self) -> None:
        require_count("n_features", self.n_features)

    def fit(
        self, keys: Float[np.ndarray, "token d_head"], queries: Float[np.ndarray, "query d_head"]
    ) -> KernelFeatures:
        """Return random features of keys [token, d_head] and queries [query, d_head]; unbiased, all positive."""
        directions = random_directions(self.n_features, keys.shape[1], self.seed, self.orthogonal)

        def exponentials(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            exponents = vectors @ directions.T
            largest = exponents.max(axis=1, initial=-np.inf)
            features = np.exp(exponents - largest[:, None]) / np.sqrt(self.n_features)
            return features, largest - _half_squares(vectors)

        (key_features, log_keys), (query_features, log_queries) = exponentials(keys), exponentials(queries)
        return KernelFeatures(key_features, query_features, log_keys, log_queries, scores=queries @ keys.T)


def random_directions(
    n_directions: int, d_head: int, seed: int, orthogonal: bool
) -> Float[np.ndarray, "direction d_head"]:
    """Return standard normal directions, orthogonal within blocks of ``d_head`` if asked (each row still normal)."""
    generator = np.random.default_rng(seed)
    normal = generator.standard_normal((n_directions, d_head))
    if not orthogonal:
        return normal
    rows = []
    for start in range(0, n_directions, d_head):
        rotation, upper = np.linalg.qr(generator.standard_normal((d_head, d_head)))
        # The signs of R make the rotation uniform; QR alone prefers some.
        rotation = rotation * np.sign(np.diag(upper))
        rows.append(rotation.T[: n_directions - start])
    return np.vstack(rows) * np.linalg.norm(normal, axis=1, keepdims=True)


def gaussian_factor(
    points: Float[np.ndarray, "point d_head"],
) -> tuple[Float[np.ndarray, "point feature"], Int[np.ndarray, " feature"]]:
    """Factor ``exp(-|x - y|^2 / 2)`` over the points as ``L L^T`` by Cholesky with pivots.

    Args:
        points: [point, d_head] float64.

    Returns:
        ``L`` [point, feature], with as many features as the matrix has numerical rank, and the pivots: which point
        each feature was made for.
    """
    n_points = len(points)
    left = np.ones(n_points)
    factor = np.zeros((n_points, n_points))
    pivots: list[int] = []
    for step in range(n_points):
        pivot = int(left.argmax())
        if left[pivot] <= 4 * _ROUNDING:
            break
        column = np.exp(-((points - points[pivot]) ** 2).sum(axis=1) / 2)
        column -= factor[:, :step] @ factor[pivot, :step]
        root = np.sqrt(left[pivot])
        column /= root
        column[pivots] = 0.0
        column[pivot] = root
        factor[:, step] = column
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        pivots.append(pivot)
    return factor[:, : len(pivots)].copy(), np.array(pivots, dtype=np.int64)


def _gram_features(
    key_points: np.ndarray,
    query_points: np.ndarray,
    keys: np.ndarray,
    queries: np.ndarray,
    middle: np.ndarray,
    coordinates: str,
) -> KernelFeatures:
    """Features from coordinates with ``key_points . query_points = (keys - middle) . queries``."""
    factor, _ = gaussian_factor(np.vstack([key_points, query_points]))
    return KernelFeatures(
        keys=factor[: len(keys)],
        queries=factor[len(keys) :],
        log_keys=_half_squares(key_points),
        log_queries=_half_squares(query_points) + queries @ middle,
        scores=queries @ keys.T,
        coordinates=coordinates,
    )


def _good_enough(features: KernelFeatures, pair_factors: np.ndarray | None) -> bool:
    return max(features.kernel_error(pair_factors), features.weights_error(pair_factors)) <= GOOD_ENOUGH


def _key_basis(scores: np.ndarray) -> KernelFeatures:
    """Coordinates in the basis of the keys' own features: exact whatever the sizes, and of full length."""
    n_keys = scores.shape[1]
    largest = scores.max(axis=1)
    return KernelFeatures(
        keys=np.eye(n_keys),
        queries=np.exp(scores - largest[:, None]),
        log_keys=np.zeros(n_keys),
        log_queries=largest,
        scores=scores,
        coordinates="key basis",
    )


def _balance(keys: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale keys and queries against each other, so that both have the same mean square."""
    if not keys.any() or not queries.any():
        return keys, queries
    ratio = np.sqrt(np.linalg.norm(queries) / np.sqrt(len(queries)) / (np.linalg.norm(keys) / np.sqrt(len(keys))))
    return keys * ratio, queries / ratio


def _shortest(keys: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of least total square that have the same inner products: from the SVD of those."""
    left, sizes, right = np.linalg.svd(keys @ queries.T, full_matrices=False)
    return left * np.sqrt(sizes), right.T * np.sqrt(sizes)


def _half_squares(vectors: np.ndarray) -> np.ndarray:
    return (vectors**2).sum(axis=1) / 2
