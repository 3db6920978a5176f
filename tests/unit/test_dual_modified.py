"""The modified attentions: against loops, against one step of the dual's training, and with gradients."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from scipy.special import softmax

from topic_probes import dual


def head(n_tokens=7, n_queries=3, d_head=4, d_value=2, seed=0, batch=()):
    """Return q, k, v in float64 and a mask of demonstrations."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(*batch, rows, width, generator=generator, dtype=torch.float64)
        for rows, width in ((n_queries, d_head), (n_tokens, d_head), (n_tokens, d_value))
    )
    return q, k, v, torch.arange(n_tokens) < n_tokens - 2


def pattern_of(q, k, factors=None):
    """Return softmax attention by scipy."""
    scores = q.numpy() @ k.numpy().T / np.sqrt(q.shape[-1])
    return softmax(scores if factors is None else scores + factors.numpy(), axis=-1)


def negatives_by_hand(pattern, k, seen, query, token, r, choose):
    """Return the negatives of one token for one query, by sorting in Python."""
    if choose == "least_attended":
        candidates = [j for j in range(len(k)) if seen[j]]
        return sorted(candidates, key=lambda j: (pattern[query, j], j))[:r]
    candidates = [j for j in range(len(k)) if seen[j] and j != token]
    return sorted(candidates, key=lambda j: (float(k[token] @ k[j]), j))[:r]


def test_nothing_changed_is_plain_attention():
    """With a = 0, b = 0 and no maps: torch's own attention."""
    q, k, v, ours = head(batch=(2, 3))
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for output in (
        dual.regularised_attention(q, k, v, ours, 0.0),
        dual.augmented_attention(q, k, v, ours),
        dual.augmented_attention(q, k, v, ours, lambda x: x, lambda x: x),
        dual.negative_sample_attention(q, k, v, ours, 0.0, 2),
        dual.negative_sample_attention(q, k, v, ours, 0.0, 2, choose="least_similar"),
    ):
        torch.testing.assert_close(output, plain)


def test_regularised_attention_shrinks_the_other_part():
    """Demonstration part + (1 - a) other part, which is the dual's step with W_0 decayed."""
    q, k, v, ours = head()
    found = dual.regularised_attention(q, k, v, ours, 0.3).numpy()
    weights = pattern_of(q, k)
    true = weights[:, ours] @ v[ours].numpy() + 0.7 * weights[:, ~ours] @ v[~ours].numpy()
    np.testing.assert_allclose(found, true, rtol=1e-12)
    model = dual.fit(k, v, ours).at(q)
    decayed = model.step() - 0.3 * model.W_0
    np.testing.assert_allclose(found, np.einsum("qvf,qf->qv", decayed, model.query_features), rtol=1e-9)


def test_augmented_attention_is_the_dual_of_mapped_tokens():
    """Demonstrations through the maps, the others as they are."""
    q, k, v, ours = head()
    g_k, g_v = (lambda x: torch.tanh(x) * 2), (lambda x: x.flip(-1) - 1)
    found = dual.augmented_attention(q, k, v, ours, g_k, g_v).numpy()
    keys, values = torch.where(ours[:, None], g_k(k), k), torch.where(ours[:, None], g_v(v), v)
    np.testing.assert_allclose(found, pattern_of(q, keys) @ values.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found, dual.fit(keys, values, ours).predict(q).numpy(), rtol=1e-9)
    keys_alone = dual.augmented_attention(q, k, v, ours, g_k, None).numpy()
    np.testing.assert_allclose(keys_alone, pattern_of(q, keys) @ v.numpy(), rtol=1e-12)


@pytest.mark.parametrize("choose", ["least_attended", "least_similar"])
@pytest.mark.parametrize("r", [1, 3, 50])
def test_negative_samples_are_taken_off_the_values(choose, r):
    """v_i - (b / r) sum of negatives, token by token, query by query; fewer candidates, smaller divisor."""
    q, k, v, ours = head()
    factors = torch.zeros(3, 7, dtype=torch.float64)
    factors[0, 1:] = -torch.inf  # a query with one demonstration
    factors[1, [0, 3]] = -torch.inf
    found = dual.negative_sample_attention(q, k, v, ours, 0.4, r, choose=choose, pair_factors=factors).numpy()
    pattern = pattern_of(q, k, factors)
    for query in range(3):
        seen = [bool(ours[j]) and bool(torch.isfinite(factors[query, j])) for j in range(7)]
        changed = v.numpy().copy()
        for token in (j for j in range(7) if seen[j]):
            negatives = negatives_by_hand(pattern, k, seen, query, token, r, choose)
            if negatives:
                changed[token] -= 0.4 / len(negatives) * v.numpy()[negatives].sum(axis=0)
        np.testing.assert_allclose(found[query], pattern[query] @ changed, rtol=1e-10, atol=1e-13)
        step = dual.fit(k, changed, seen, pair_factors=factors[query : query + 1]).at(q[query : query + 1]).step()
        model = dual.fit(k, changed, seen, pair_factors=factors[query : query + 1]).at(q[query : query + 1])
        np.testing.assert_allclose(found[query], step[0] @ model.query_features[0], rtol=1e-9, atol=1e-12)


def test_demonstrations_may_differ_by_query_and_head():
    """A mask [query_pos, key_pos], such as all but the query's own token, is the rows one by one."""
    q, k, v, _ = head(n_tokens=5, n_queries=5, batch=(2, 3))
    others = ~torch.eye(5, dtype=torch.bool)
    for change in (
        lambda q, d: dual.regularised_attention(q, k, v, d, 0.5),
        lambda q, d: dual.augmented_attention(q, k, v, d, torch.tanh, torch.tanh),
        lambda q, d: dual.negative_sample_attention(q, k, v, d, 0.5, 2),
        lambda q, d: dual.negative_sample_attention(q, k, v, d, 0.5, 2, choose="least_similar"),
    ):
        whole = change(q, others)
        for row in range(5):
            torch.testing.assert_close(change(q[..., row : row + 1, :], others[row]), whole[..., row : row + 1, :])


def test_weights_of_a_pattern_are_the_attention():
    """What hooks use is what training uses."""
    q, k, v, ours = head()
    pattern = torch.from_numpy(pattern_of(q, k))
    torch.testing.assert_close(
        dual.regularised_weights(pattern, ours, 0.2) @ v, dual.regularised_attention(q, k, v, ours, 0.2)
    )
    for choose in ("least_attended", "least_similar"):
        weights = dual.negative_sample_weights(pattern, ours, 0.3, 2, choose=choose, keys=k)
        torch.testing.assert_close(weights @ v, dual.negative_sample_attention(q, k, v, ours, 0.3, 2, choose=choose))
    assert dual.regularised_weights(pattern.float(), ours, 0.2).dtype == torch.float32
    assert dual.negative_sample_weights(pattern.half(), ours, 0.2, 2).dtype == torch.float16


@pytest.mark.parametrize("choose", ["least_attended", "least_similar"])
def test_gradients_are_those_of_finite_differences(choose):
    """torch.autograd.gradcheck for all three, in q, k and v."""
    q, k, v, ours = head(4, 2, 3)
    inputs = tuple(tensor.requires_grad_(True) for tensor in (q, k, v))
    changes = (
        lambda *x: dual.regularised_attention(*x, ours, 0.3),
        lambda *x: dual.augmented_attention(*x, ours, torch.tanh, torch.sin),
        lambda *x: dual.negative_sample_attention(*x, ours, 0.3, 1, choose=choose),
    )
    for change in changes:
        assert torch.autograd.gradcheck(change, inputs)


def test_wrong_negatives_are_refused():
    """One sentence each."""
    q, k, v, ours = head()
    with pytest.raises(ValueError, match="choose must be one of"):
        # past the check of annotations
        inspect.unwrap(dual.negative_sample_weights)(torch.ones(1, 1), ours[:1], 0.1, 1, choose="most_alike")
    with pytest.raises(ValueError, match="r must be at least 1"):
        dual.negative_sample_attention(q, k, v, ours, 0.1, 0)
    with pytest.raises(ValueError, match="keys must be given"):
        dual.negative_sample_weights(torch.ones(1, 7) / 7, ours, 0.1, 1, choose="least_similar")
