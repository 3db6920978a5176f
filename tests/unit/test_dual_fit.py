"""The dual of a head: against plain softmax attention, a loop for the step, and at the door."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax

from topic_probes import dual

EXACT = 1e-9  # rounding in float64 leaves 1e-11 at worst, a wrong term is of order 1
OPTIMISER = 1e-10  # both sides add the same products in another order

KINDS = {
    "exact": "exact",
    "trigonometric": dual.TrigonometricFeatures(64, seed=3),
    "positive": dual.PositiveFeatures(64, seed=3),
}


def random_head(n_tokens=24, n_queries=5, d_head=8, d_value=6, *, largest_score=4.0, seed=0):
    """Return keys, values and queries whose largest score (scale 1) is as asked."""
    generator = np.random.default_rng(seed)
    keys = generator.standard_normal((n_tokens, d_head))
    queries = generator.standard_normal((n_queries, d_head))
    stretch = np.sqrt(largest_score / np.abs(queries @ keys.T).max())
    return keys * stretch, generator.standard_normal((n_tokens, d_value)), queries * stretch


def relative(found, true):
    """Return the largest over rows of |found - true| / |true|."""
    return (np.linalg.norm(found - true, axis=-1) / np.linalg.norm(true, axis=-1)).max()


@pytest.mark.parametrize("d_head", [1, 2, 16, 64])
@pytest.mark.parametrize("largest_score", [0.1, 5, 50, 300, 5000])
def test_the_exact_dual_is_softmax_attention(d_head, largest_score):
    """Whatever the scores, also where the Gram factor of crowded or far tokens would not do."""
    keys, values, queries = random_head(40, 6, d_head, largest_score=largest_score)
    fitted = dual.fit(keys, values, slice(0, 30), scale=1.0)
    true = softmax(queries @ keys.T, axis=1) @ values
    assert relative(fitted.predict(queries), true) < EXACT
    assert fitted.relative_error(queries) < EXACT
    assert fitted.relative_kernel_error(queries) < EXACT


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 3), (7, 1, 2), (300, 3, 64)])
def test_any_number_of_tokens_and_queries_will_do(shape):
    """One token, one query, one number; many tokens."""
    n_tokens, n_queries, d_head = shape
    keys, values, queries = random_head(n_tokens, n_queries, d_head, largest_score=50)
    true = softmax(queries @ keys.T / np.sqrt(d_head), axis=1) @ values
    assert relative(dual.fit(keys, values, [0]).predict(queries), true) < EXACT


@pytest.mark.parametrize("stretch", [1e-6, 1e4])
def test_long_keys_and_short_queries_do_no_harm(stretch):
    """Only the products count: the sizes of keys and queries are balanced against each other."""
    keys, values, queries = random_head(largest_score=20)
    fitted = dual.fit(keys * stretch, values, [0], scale=1.0)
    assert relative(fitted.predict(queries / stretch), softmax(queries @ keys.T, axis=1) @ values) < EXACT


def test_weights_that_serve_large_scores_are_right_for_small_ones():
    """Keys of large kernel for other directions must cancel in W: the kernel is right there, and W must be as well."""
    generator = np.random.default_rng(1763)
    keys, queries = generator.standard_normal((2, 11, 5)) * 5
    values = generator.standard_normal((11, 3))
    queries = queries[:4]
    model = dual.fit(keys, values, [0], scale=1.0).at(queries)
    true = softmax(queries @ keys.T, axis=1) @ values
    assert relative(np.einsum("qvf,qf->qv", model.W, model.query_features), true) < EXACT


def test_keys_far_from_the_origin_do_no_harm():
    """A softmax does not see what all keys have in common."""
    keys, values, queries = random_head(largest_score=10)
    fitted = dual.fit(keys + 30.0, values, [0], scale=1.0)
    assert relative(fitted.predict(queries), softmax(queries @ keys.T, axis=1) @ values) < EXACT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest_score", [2, 50])
@pytest.mark.parametrize("masked", [False, True])
def test_one_optimiser_step_is_the_closed_form(kind, largest_score, masked):
    """For every feature map, query by query: W + sum of rates v phi^T, written as a loop."""
    keys, values, queries = random_head(9, 3, 4, largest_score=largest_score)
    factors = np.where(np.tri(3, 9, 4, dtype=bool), 0.5, -np.inf) if masked else None
    chosen = [0, 2, 3]
    model = dual.fit(keys, values, chosen, scale=1.0, features=KINDS[kind], pair_factors=factors).at(queries)
    step = model.step()
    for query in range(3):
        before, after = np.zeros_like(model.W[0]), np.zeros_like(model.W[0])
        for token in range(9):
            term = model.rates[query, token] * np.outer(values[token], model.key_features[token])
            after += term
            if token not in chosen:
                before += term
        for found, true in ((model.W_0, before), (model.W, after), (step, after)):
            assert np.abs(found[query] - true).max() <= OPTIMISER * np.abs(true).max()
        assert np.abs(model.W_0[query] - after).max() > 1e-6 * np.abs(after).max()  # the step matters


@pytest.mark.parametrize("largest_score", [2, 50])
def test_the_stepped_weights_give_the_attention_output(largest_score):
    """The weights of the real optimiser, applied to the query's features, are the head."""
    keys, values, queries = random_head(30, 4, 16, largest_score=largest_score)
    model = dual.fit(keys, values, slice(5, 25), scale=1.0).at(queries)
    output = np.einsum("qvf,qf->qv", model.step(), model.query_features)
    assert relative(output, softmax(queries @ keys.T, axis=1) @ values) < EXACT


def test_before_the_step_only_the_other_tokens_speak():
    """W_0 phi(q) is their part of the attention output, Z and all."""
    keys, values, queries = random_head()
    model = dual.fit(keys, values, slice(0, 20), scale=1.0).at(queries)
    others = softmax(queries @ keys.T, axis=1)[:, 20:] @ values[20:]
    assert relative(np.einsum("qvf,qf->qv", model.W_0, model.query_features), others) < EXACT


def test_Z_is_the_sum_of_the_kernel():
    """In natural log, scale, centring and factors undone."""
    keys, values, queries = random_head(largest_score=40)
    factors = np.random.default_rng(1).normal(size=(5, 24))
    model = dual.fit(keys + 2.0, values, [0], scale=0.7, pair_factors=factors).at(queries)
    true = logsumexp(0.7 * queries @ (keys + 2.0).T + factors, axis=1)
    np.testing.assert_allclose(model.log_Z, true, rtol=1e-11)


def test_the_loss_is_the_alignment_of_demonstrations():
    """L(W) = -(1/Z) sum v_i . W phi(k_i), for zero weights 0 and after the step as a loop gives it."""
    keys, values, queries = random_head(6, 2, 3)
    model = dual.fit(keys, values, [1, 4], scale=1.0).at(queries)
    for query in range(2):
        by_hand = -sum(
            model.rates[query, token] * values[token] @ (model.W[query] @ model.key_features[token]) for token in (1, 4)
        )
        assert model.loss(model.W)[query] == pytest.approx(by_hand, rel=1e-12)
    np.testing.assert_array_equal(model.loss(np.zeros_like(model.W)), 0)


def test_many_small_steps_end_at_the_attention_output():
    """Steps times rate is 1 unless told otherwise; the loss falls evenly, the distance to the output too."""
    keys, values, queries = random_head()
    fitted = dual.fit(keys, values, slice(0, 18))
    training = fitted.train(20, queries=queries)
    assert training.learning_rate == 1 / 20
    np.testing.assert_allclose(training.W, fitted.at(queries).W, rtol=1e-9, atol=1e-12)
    drops = np.diff(training.losses)
    assert (drops < 0).all()
    np.testing.assert_allclose(drops, drops[0], rtol=1e-9)
    np.testing.assert_allclose(training.distances, training.distances[0] * np.linspace(1, 0, 21), atol=1e-12)
    frame = training.to_frame()
    assert list(frame) == ["step", "total_rate", "loss", "distance"]
    assert frame["total_rate"].iloc[-1] == pytest.approx(1)
    beyond = fitted.train(10, 0.2, queries)  # twice the way
    np.testing.assert_allclose(
        beyond.W - fitted.at(queries).W, fitted.at(queries).W - fitted.at(queries).W_0, atol=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_without_queries_serve_every_query(kind):
    """W of the dual itself: its step is the closed form, and random features of a query predict from it up to Z."""
    keys, values, queries = random_head(10, 4, 6, largest_score=1)
    features = KINDS[kind]
    fitted = dual.fit(keys, values, slice(0, 7), scale=-0.64, features=features)
    assert fitted.W.shape == fitted.W_0.shape == fitted.step().shape
    np.testing.assert_allclose(fitted.step(), fitted.W, rtol=1e-10, atol=1e-13)
    assert np.isnan(fitted.train(3).distances).all()
    if kind != "exact":
        query_features = features.fit(-0.8 * keys, 0.8 * queries).queries
        model = fitted.weights
        normaliser = model.rates[0] @ model.key_features
        found = query_features @ fitted.W.T / (query_features @ normaliser)[:, None]
        assert relative(found, fitted.predict(queries)) < EXACT


@pytest.mark.parametrize(
    ("demonstrations", "same"),
    [
        (slice(1, 3), [1, 2]),
        ([1, 2], [1, 2]),
        ([-4, 2, 1], [1, 2]),
        (np.array([False, True, True, False, False]), [1, 2]),
        (torch.tensor([False, True, True, False, False]), [1, 2]),
        (torch.tensor([1, 2]), [1, 2]),
        (range(1, 3), [1, 2]),
        ([], []),
        (slice(None), [0, 1, 2, 3, 4]),
    ],
)
def test_demonstrations_come_as_mask_slice_or_indices(demonstrations, same):
    """All say the same thing; none and all are fine."""
    mask = dual.demonstration_mask(demonstrations, 5)
    assert mask.tolist() == [token in same for token in range(5)]
    keys, values, queries = random_head(5)
    fitted = dual.fit(keys, values, demonstrations, scale=1.0)
    assert relative(fitted.predict(queries), softmax(queries @ keys.T, axis=1) @ values) < EXACT


def test_with_no_demonstrations_there_is_nothing_to_learn():
    """The step changes nothing and the loss is 0; with all of them W_0 is 0."""
    keys, values, queries = random_head()
    none, everything = dual.fit(keys, values, []).at(queries), dual.fit(keys, values, slice(None)).at(queries)
    np.testing.assert_array_equal(none.step(), none.W_0)
    np.testing.assert_array_equal(none.loss(none.W), 0)
    np.testing.assert_array_equal(everything.W_0, 0)
    np.testing.assert_allclose(everything.W, none.W, rtol=1e-12, atol=1e-12)


def test_repeated_and_zero_keys_lose_no_accuracy():
    """The rank is that of the different tokens, and equal tokens share alike."""
    keys, values, queries = random_head(4, 2, 3)
    repeated, more = np.repeat(keys, 3, axis=0), np.repeat(values, 3, axis=0)
    fitted = dual.fit(repeated, more, [0, 1], scale=1.0)
    assert fitted.at(queries).key_features.shape[1] == 4 + 2
    assert relative(fitted.predict(queries), softmax(queries @ keys.T, axis=1) @ values) < EXACT
    zero = dual.fit(np.zeros((3, 2)), np.array([[1.0], [2.0], [6.0]]), [0])
    np.testing.assert_allclose(zero.predict(queries[:, :2]), 3.0, rtol=1e-14)
    np.testing.assert_allclose(dual.fit(keys, values, [0]).predict(0 * queries), [values.mean(axis=0)] * 2, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_token_is_as_good_as_absent(kind):
    """Log factor -inf, also where it hides the token of by far the largest kernel."""
    keys, values, queries = random_head(12, 1, 2, largest_score=60)
    factors = np.zeros((1, 12))
    factors[0, (queries @ keys.T).argsort()[0, -6:]] = -np.inf
    seen = np.isfinite(factors[0])
    hidden = dual.fit(keys, values, [0], scale=1.0, features=KINDS[kind], pair_factors=factors)
    absent = dual.fit(keys[seen], values[seen], [0], scale=1.0, features=KINDS[kind])
    assert relative(hidden.predict(queries), absent.predict(queries)) < EXACT
    assert hidden.relative_kernel_error(queries) == pytest.approx(absent.relative_kernel_error(queries), abs=1e-9)


def test_what_is_left_when_the_largest_kernels_are_hidden_is_right():
    """Accuracy is judged among the tokens that a query sees: what is tiny beside hidden ones must be right as well."""
    keys, values, queries = random_head(30, 4, 2, largest_score=40)
    scores = queries @ keys.T
    factors = np.zeros_like(scores)
    for query in range(4):
        factors[query, scores[query].argsort()[-22:]] = -np.inf
    found = dual.fit(keys, values, [0], scale=1.0, pair_factors=factors).predict(queries)
    assert relative(found, softmax(scores + factors, axis=1) @ values) < EXACT


def test_pair_factors_are_added_to_the_scores():
    """A bias for each pair, finite and not."""
    keys, values, queries = random_head(largest_score=30)
    factors = np.random.default_rng(5).normal(size=(5, 24)) * 4
    factors[:, ::5] = -np.inf
    found = dual.fit(keys, values, [0], scale=0.5, pair_factors=factors).predict(queries)
    assert relative(found, softmax(queries @ keys.T * 0.5 + factors, axis=1) @ values) < EXACT


def test_a_negative_scale_turns_attention_round():
    """The scale may have any sign, and be 0."""
    keys, values, queries = random_head()
    for scale in (-1.5, 0.0):
        found = dual.fit(keys, values, [0], scale=scale).predict(queries)
        assert relative(found, softmax(scale * queries @ keys.T, axis=1) @ values) < EXACT


def test_torch_comes_in_and_goes_out_and_nothing_is_touched():
    """Half precision and gradients too: the numbers inside are float64, the caller's tensors and modes stay."""
    keys, values, queries = (torch.from_numpy(array).to(torch.bfloat16) for array in random_head())
    keys.requires_grad_(True)
    before = keys.detach().clone()
    with torch.inference_mode():
        fitted = dual.fit(keys, values, slice(0, 9))
        output = fitted.predict(queries)
        step = fitted.at(queries).step()
        assert torch.is_inference_mode_enabled()
    assert output.dtype == torch.float64
    true = softmax(queries.double() @ before.double().T / np.sqrt(8), axis=1) @ values.double().numpy()
    assert relative(output.numpy(), true) < EXACT
    assert relative(np.einsum("qvf,qf->qv", step, fitted.at(queries).query_features), true) < EXACT
    assert torch.equal(keys, before)
    assert keys.grad is None
    assert isinstance(fitted.predict(queries.double().numpy()), np.ndarray)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    """In keys, values and queries, by name and place."""
    keys, values, queries = random_head()
    for name, arrays in (("keys", [keys.copy(), values]), ("values", [keys, values.copy()])):
        arrays[name == "values"][3, 1] = bad
        with pytest.raises(ValueError, match=rf"{name} must be finite, got .* at \(3, 1\)"):
            dual.fit(*arrays, [0])
    queries[0, 0] = bad
    with pytest.raises(ValueError, match="queries must be finite"):
        dual.fit(keys, values, [0]).predict(queries)
    if bad != -np.inf:
        with pytest.raises(ValueError, match="pair_factors must be finite or -inf"):
            dual.fit(keys, values, [0], pair_factors=np.full((1, 24), bad))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"keys": np.zeros(3)}, ValueError, r"keys must have the axes \[token, d_head\]"),
        ({"keys": "cat"}, TypeError, "keys must be an array of real numbers"),
        ({"keys": np.ones((3, 2)) * 1j}, TypeError, "keys must be an array of real numbers"),
        ({"keys": np.zeros((0, 2))}, ValueError, "keys must hold at least one token"),
        ({"values": np.zeros((2, 2))}, ValueError, "values must have one row for each of 3 keys, got 2"),
        ({"demonstrations": [3]}, ValueError, "demonstrations must be indices of 3 tokens, got 3"),
        ({"demonstrations": [True, False]}, ValueError, "demonstrations must have one entry for each of 3 tokens"),
        ({"demonstrations": 1}, TypeError, "demonstrations must be a boolean mask, a slice or indices"),
        ({"demonstrations": [0.5]}, TypeError, "demonstrations must be a boolean mask, a slice or indices"),
        ({"features": "random"}, ValueError, 'features must be "exact"'),
        ({"features": 3}, TypeError, "features must be"),
        ({"features": dual.PositiveFeatures}, TypeError, "features must be"),
        ({"scale": float("inf")}, ValueError, "scale must be a finite number"),
        ({"pair_factors": np.zeros((1, 2))}, ValueError, "pair_factors must have one column for each of 3 keys"),
        ({"pair_factors": np.full((2, 3), -np.inf)}, ValueError, "pair_factors must leave each query a token"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(changes, error, message):
    """One sentence that names the argument and the rule."""
    call = {"keys": np.zeros((3, 2)), "values": np.zeros((3, 2)), "demonstrations": [0], **changes}
    with pytest.raises(error, match=message):
        dual.fit(**call)


def test_wrong_queries_and_steps_are_told_what_is_wrong():
    """What comes later than fit is checked as well."""
    fitted = dual.fit(np.zeros((3, 2)), np.zeros((3, 2)), [0], pair_factors=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="queries must be 2 wide"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="queries must be the 2 that pair_factors has rows for, got 1"):
        fitted.predict(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="pair_factors give each query weights of its own"):
        _ = fitted.W
    with pytest.raises(ValueError, match="n_steps must be at least 1"):
        fitted.train(0, queries=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0"):
        fitted.train(1, -1.0, np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"take dual\.at"):
        _ = dual.fit(np.zeros((3, 2)), np.zeros((3, 2)), [0]).weights.output
