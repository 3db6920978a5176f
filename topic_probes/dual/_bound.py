"""How far the dual's loss on its demonstrations is from its loss on tokens to come.

With ``l(W; k, v) = -v . W phi(k)``, L its expectation and L_hat its mean over N demonstrations, for all W with
``|W|_F <= w``, ``|v| <= rho``, ``|phi(k)| <= kappa``, and G the Gram matrix of the demonstrations' features, with
probability at least ``1 - delta``

    L(W) <= L_hat(W) + 2 w rho sqrt(tr G) / N + 6 w rho kappa sqrt(log(2 / delta) / (2 N))

(empirical Rademacher complexity of a linear class, losses in a range of ``2 w rho kappa``; Ren and Liu 2024, section 4,
state the same order in N). Both terms fall like ``N^-1/2``.

What it does *not* show: tightness. It holds for every W of the ball and every distribution, and the simulation says how
loose that is. Demonstrations must be drawn independently; tokens of one text are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .._html import html_table
from .._validation import require_count
from ._arrays import as_float64

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GeneralisationBound:
    """The bound and its terms, all in units of the loss."""

    bound: float
    """``empirical_loss + complexity + confidence``: the expected loss is at most this."""
    empirical_loss: float
    """L_hat: mean over demonstrations of ``-v . W phi(k)``."""
    complexity: float
    """``2 w rho sqrt(tr G) / N``."""
    confidence: float
    """``6 w rho kappa sqrt(log(2 / delta) / (2 N))``."""
    n_demonstrations: int
    """N."""
    delta: float
    """The bound may fail with this probability."""
    w: float
    """Radius of the ball of W, in the Frobenius norm."""
    rho: float
    """Bound of ``|v|``."""
    kappa: float
    """Bound of ``|phi(k)|``."""
    trace: float
    """tr G: sum of ``|phi(k_i)|^2`` over demonstrations."""


def generalisation_bound(
    W: Any,
    features: Any,
    values: Any,
    *,
    delta: float = 0.05,
    w: float | None = None,
    rho: float | None = None,
    kappa: float | None = None,
) -> GeneralisationBound:
    """Return the bound on the expected loss of the dual model, with its terms (docs/dual.md, *What is proved*).

    Args:
        W: [d_value, feature] weights, such as :attr:`Dual.W`.
        features: [demonstration, feature] phi(k) of the demonstrations.
        values: [demonstration, d_value].
        delta: probability that the bound may fail, in (0, 1).
        w: radius of the ball that W is chosen from. The theorem wants it fixed before the demonstrations are seen;
            ``|W|_F`` unless given.
        rho: bound of ``|v|`` for all tokens; the largest among the demonstrations unless given.
        kappa: bound of ``|phi(k)|`` for all tokens; the largest among the demonstrations unless given.

    Raises:
        TypeError: if something is not an array or a number.
        ValueError: if shapes do not fit, there is no demonstration, delta is not in (0, 1), or w, rho or kappa is
            smaller than what it should bound.

    Examples:
        >>> import numpy as np
        >>> terms = generalisation_bound(np.eye(1), np.ones((4, 1)), np.ones((4, 1)), delta=2 / np.e)
        >>> terms.empirical_loss, terms.complexity, round(terms.confidence, 4)  # -1, 2 * sqrt(4) / 4, 6 / sqrt(8)
        (-1.0, 1.0, 2.1213)
    """
    W = as_float64("W", W, ("d_value", "feature"))
    features = as_float64("features", features, ("demonstration", "feature"))
    values = as_float64("values", values, ("demonstration", "d_value"))
    n_demonstrations = len(features)
    if n_demonstrations == 0:
        raise ValueError("features must hold at least one demonstration, got none")
    if len(values) != n_demonstrations or W.shape != (values.shape[1], features.shape[1]):
        raise ValueError(
            f"W [d_value, feature], features [demonstration, feature] and values [demonstration, d_value] must fit, "
            f"got the shapes {W.shape}, {features.shape} and {values.shape}"
        )
    _require_delta(delta)
    squares = (features**2).sum(axis=1)
    w = _bound_of("w", w, float(np.linalg.norm(W)))
    rho = _bound_of("rho", rho, float(np.linalg.norm(values, axis=1).max()))
    kappa = _bound_of("kappa", kappa, float(np.sqrt(squares.max())))
    trace = float(squares.sum())
    empirical_loss = -float(np.einsum("td,df,tf->t", values, W, features).mean())
    complexity, confidence = _terms(w, rho, kappa, trace, n_demonstrations, delta)
    return GeneralisationBound(
        bound=empirical_loss + float(complexity) + confidence,
        empirical_loss=empirical_loss,
        complexity=float(complexity),
        confidence=confidence,
        n_demonstrations=n_demonstrations,
        delta=float(delta),
        w=w,
        rho=rho,
        kappa=kappa,
        trace=trace,
    )


@dataclass(frozen=True)
class BoundSimulation:
    """Many draws of demonstrations from a population whose expected loss is known."""

    runs: pd.DataFrame
    """One row per n_demonstrations and simulation: empirical_loss and expected_loss of the W that is best on the
    demonstrations, gap (expected - empirical), largest_gap (over all W of the ball), allowed (complexity + confidence),
    holds (largest_gap <= allowed, so the bound holds for every W at once)."""
    delta: float
    """The bound may fail with this probability."""
    seed: int
    """Of the simulation."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per n_demonstrations.

        Columns: n_demonstrations, n_simulations, share_holding, gap, largest_gap and allowed (means), looseness
        (mean allowed over mean largest_gap: 1 would be tight).
        """
        import pandas as pd

        rows = []
        for count, group in self.runs.groupby("n_demonstrations", sort=True):
            columns = ("holds", "gap", "largest_gap", "allowed")
            means = {name: float(group[name].to_numpy(dtype=np.float64).mean()) for name in columns}
            rows.append(
                {
                    "n_demonstrations": count,
                    "n_simulations": len(group),
                    "share_holding": means["holds"],
                    "gap": means["gap"],
                    "largest_gap": means["largest_gap"],
                    "allowed": means["allowed"],
                    "looseness": means["allowed"] / means["largest_gap"] if means["largest_gap"] else float("inf"),
                }
            )
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), f"BoundSimulation(delta={self.delta:g})")


def simulate_bound(
    n_demonstrations: Any = (16, 64, 256, 1024),
    n_simulations: int = 1000,
    *,
    delta: float = 0.05,
    n_population: int = 400,
    d_head: int = 4,
    d_value: int = 3,
    n_features: int = 16,
    seed: int = 0,
) -> BoundSimulation:
    """Draw demonstrations again and again, and see whether the bound holds, and by how much.

    The population is finite, so the expected loss is a sum: random keys, features of the Gaussian kernel (norm 1), and
    values that follow the keys with noise, cut to norm 1. Demonstrations are drawn from it with replacement. The W on
    trial is the one of the unit ball with the least empirical loss, which is the direction of the dual's gradient; and,
    beyond it, the worst W of the ball: the loss is linear, so its gap is a norm.

    Args:
        n_demonstrations: the numbers N to try.
        n_simulations: draws for each.
        delta: probability that the bound may fail.
        n_population: tokens in the population.
        d_head: width of the keys.
        d_value: width of the values.
        n_features: width of the features, even.
        seed: of a local generator.

    Raises:
        TypeError: if a count is no whole number.
        ValueError: if a count is too small or delta is not in (0, 1).
    """
    import pandas as pd

    from ._features import TrigonometricFeatures

    counts: list[Any] = np.atleast_1d(n_demonstrations).tolist()
    for count in counts:
        require_count("n_demonstrations", count)
    require_count("n_simulations", n_simulations)
    require_count("n_population", n_population)
    require_count("d_head", d_head)
    require_count("d_value", d_value)
    _require_delta(delta)
    generator = np.random.default_rng(seed)
    keys = generator.standard_normal((n_population, d_head)) / np.sqrt(d_head)
    # The waves alone, without their factor exp(|k|^2 / 2): the features of the Gaussian kernel, all of norm 1.
    features = TrigonometricFeatures(n_features, seed).fit(keys, keys[:0]).keys
    values = np.sin(keys @ generator.standard_normal((d_head, d_value))) + generator.standard_normal(
        (n_population, d_value)
    )
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1.0)
    terms = np.einsum("td,tf->tdf", values, features).reshape(n_population, -1)
    expected = terms.mean(axis=0)
    frames = []
    for count in counts:
        draws = generator.multinomial(count, np.full(n_population, 1 / n_population), size=n_simulations)
        observed = draws @ terms / count
        best = observed / np.linalg.norm(observed, axis=1, keepdims=True)
        empirical_loss, expected_loss = -(best * observed).sum(axis=1), -best @ expected
        complexity, confidence = _terms(1.0, 1.0, 1.0, draws @ (features**2).sum(axis=1), count, delta)
        largest_gap = np.linalg.norm(observed - expected, axis=1)
        frames.append(
            pd.DataFrame(
                {
                    "n_demonstrations": count,
                    "simulation": np.arange(n_simulations),
                    "empirical_loss": empirical_loss,
                    "expected_loss": expected_loss,
                    "gap": expected_loss - empirical_loss,
                    "largest_gap": largest_gap,
                    "allowed": complexity + confidence,
                    "holds": largest_gap <= complexity + confidence,
                }
            )
        )
    return BoundSimulation(runs=pd.concat(frames, ignore_index=True), delta=float(delta), seed=seed)


def _terms(w: float, rho: float, kappa: float, trace: Any, n_demonstrations: int, delta: float) -> tuple[Any, float]:
    complexity = 2 * w * rho * np.sqrt(trace) / n_demonstrations
    confidence = 6 * w * rho * kappa * float(np.sqrt(np.log(2 / delta) / (2 * n_demonstrations)))
    return complexity, confidence


def _require_delta(delta: Any) -> None:
    if isinstance(delta, bool) or not isinstance(delta, Real):
        raise TypeError(f"delta must be a number in (0, 1), got {delta!r}")
    if not 0 < float(delta) < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")


def _bound_of(name: str, given: Any, found: float) -> float:
    if given is None:
        return found
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{name} must be a number, got {given!r}")
    # Rounding in the norm must not refuse the bound that was meant.
    if not found * (1 - 1e-12) <= float(given) < np.inf:
        raise ValueError(f"{name} must be finite and at least {found!r}, which the demonstrations reach, got {given!r}")
    return float(given)
