"""The bound: its terms by hand, and in simulation."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from topic_probes import dual


def test_the_terms_are_those_of_the_formula():
    """By a loop, with radii given and found."""
    generator = np.random.default_rng(0)
    W, features, values = (generator.standard_normal(shape) for shape in ((2, 3), (5, 3), (5, 2)))
    found = dual.generalisation_bound(W, features, values, delta=0.1)
    loss = math.fsum(-float(values[i] @ W @ features[i]) for i in range(5)) / 5
    w = math.sqrt(math.fsum(x * x for x in W.ravel()))
    rho = max(math.sqrt(v @ v) for v in values)
    kappa = max(math.sqrt(f @ f) for f in features)
    trace = math.fsum(f @ f for f in features)
    terms = (2 * w * rho * math.sqrt(trace) / 5, 6 * w * rho * kappa * math.sqrt(math.log(20) / 10))
    assert found.empirical_loss == pytest.approx(loss, rel=1e-12)
    assert (found.complexity, found.confidence) == pytest.approx(terms, rel=1e-12)
    assert found.bound == pytest.approx(loss + sum(terms), rel=1e-12)
    wider = dual.generalisation_bound(W, features, values, delta=0.1, w=3 * w, rho=2 * rho, kappa=5 * kappa)
    assert wider.complexity == pytest.approx(6 * terms[0])
    assert wider.confidence == pytest.approx(30 * terms[1])


def test_the_bound_of_a_fitted_dual_holds_its_own_loss():
    """Weights and features of a dual fit in as they are."""
    generator = np.random.default_rng(1)
    keys, values = generator.standard_normal((12, 3)), generator.standard_normal((12, 2))
    model = dual.fit(keys, values, slice(0, 10)).weights
    found = dual.generalisation_bound(model.W[0], model.key_features[:10], values[:10])
    assert found.n_demonstrations == 10
    assert found.bound > found.empirical_loss


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_bound_holds_in_simulation_and_falls_like_one_over_root_N(delta):
    """In at least 1 - delta of 1000 simulations, for every W at once; slope -1/2 for the bound and the worst gap."""
    table = dual.simulate_bound((16, 64, 256, 1024), 1000, delta=delta).to_frame()
    assert (table["n_simulations"] == 1000).all()
    assert (table["share_holding"] >= 1 - delta).all()
    logs = np.log(table["n_demonstrations"])
    assert np.polyfit(logs, np.log(table["allowed"]), 1)[0] == pytest.approx(-0.5, abs=0.01)
    assert np.polyfit(logs, np.log(table["largest_gap"]), 1)[0] == pytest.approx(-0.5, abs=0.03)
    assert (table["looseness"] > 1).all()


def test_simulated_gaps_are_below_the_worst_and_not_nothing():
    """The W that fits the demonstrations best is optimistic, and no W is further off than the worst."""
    simulation = dual.simulate_bound([8, 32], 200, seed=4)
    runs = simulation.runs
    assert (runs["gap"] <= runs["largest_gap"] + 1e-12).all()
    assert (runs.groupby("n_demonstrations")["gap"].mean() > 0).all()
    np.testing.assert_allclose(runs["gap"], runs["expected_loss"] - runs["empirical_loss"], rtol=1e-12, atol=1e-12)
    again = dual.simulate_bound([8, 32], 200, seed=4).runs
    assert runs.equals(again)
    assert not runs.equals(dual.simulate_bound([8, 32], 200, seed=5).runs)


def test_the_range_of_the_worst_gap_is_that_of_the_ball():
    """The worst gap of one demonstration over a population of one token is 0."""
    runs = dual.simulate_bound(3, 5, n_population=1).runs
    np.testing.assert_allclose(runs["largest_gap"], 0, atol=1e-15)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"delta": 0.0}, ValueError, r"delta must be in \(0, 1\)"),
        ({"delta": "a"}, TypeError, "delta must be a number"),
        ({"w": 0.5}, ValueError, "w must be finite and at least 1.0"),
        ({"rho": 0.1}, ValueError, "rho must be finite and at least"),
        ({"kappa": float("inf")}, ValueError, "kappa must be finite"),
        ({"kappa": "long"}, TypeError, "kappa must be a number"),
        ({"values": np.ones((2, 1))}, ValueError, "must fit, got the shapes"),
        ({"features": np.ones((0, 1)), "values": np.ones((0, 1))}, ValueError, "at least one demonstration"),
        ({"W": np.full((1, 1), np.nan)}, ValueError, "W must be finite"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(changes, error, message):
    """One sentence that names the argument and the rule."""
    call = {"W": np.eye(1), "features": np.ones((4, 1)), "values": np.ones((4, 1)), **changes}
    with pytest.raises(error, match=message):
        inspect.unwrap(dual.generalisation_bound)(**call)  # past the check of annotations
