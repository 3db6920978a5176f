"""The dual under changes that attention does not see."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from topic_probes import dual

EXACT = 1e-9

heads = st.fixed_dictionaries(
    {
        "n_tokens": st.integers(1, 12),
        "n_queries": st.integers(1, 4),
        "d_head": st.integers(1, 6),
        "size": st.floats(0.01, 8),
        "seed": st.integers(0, 2**16),
    }
)


def draw(n_tokens, n_queries, d_head, size, seed):
    generator = np.random.default_rng(seed)
    keys, queries = generator.standard_normal((2, max(n_tokens, n_queries), d_head)) * size
    demonstrations = generator.random(n_tokens) < 0.5
    return keys[:n_tokens], generator.standard_normal((n_tokens, 3)), queries[:n_queries], demonstrations, generator


@settings(max_examples=30)
@given(heads)
@example({"n_tokens": 11, "n_queries": 4, "d_head": 5, "size": 5.0, "seed": 1763})
def test_the_output_is_attention_whatever_the_demonstrations(shape):
    """Which tokens are called demonstrations moves terms from W_0 to the step, and the output not at all."""
    keys, values, queries, demonstrations, _ = draw(**shape)
    true = softmax(queries @ keys.T, axis=1) @ values
    size = np.abs(values).max()
    for chosen in (demonstrations, ~demonstrations):
        model = dual.fit(keys, values, chosen, scale=1.0).at(queries)
        assert np.abs(model.output - true).max() <= EXACT * size
        stepped = np.einsum("qvf,qf->qv", model.step(), model.query_features)
        assert np.abs(stepped - true).max() <= EXACT * size


@settings(max_examples=30)
@given(heads)
def test_order_of_tokens_common_shifts_and_rotations_do_not_matter(shape):
    """Tokens in another order, one vector added to all keys, one rotation of keys and queries."""
    keys, values, queries, demonstrations, generator = draw(**shape)
    output = dual.fit(keys, values, demonstrations).predict(queries)
    order = generator.permutation(len(keys))
    rotation = np.linalg.qr(generator.standard_normal((keys.shape[1],) * 2))[0]
    shift = generator.standard_normal(keys.shape[1])
    changed = dual.fit((keys[order] + shift) @ rotation, values[order], demonstrations[order])
    assert np.abs(changed.predict(queries @ rotation) - output).max() <= EXACT * np.abs(values).max()


@settings(max_examples=30)
@given(heads)
def test_a_factor_of_a_whole_query_cancels(shape):
    """The same log factor for all pairs of a query goes into Z and out again."""
    keys, values, queries, demonstrations, generator = draw(**shape)
    factors = np.repeat(generator.normal(size=(len(queries), 1)) * 20, len(keys), axis=1)
    plain = dual.fit(keys, values, demonstrations).predict(queries)
    shifted = dual.fit(keys, values, demonstrations, pair_factors=factors).predict(queries)
    assert np.abs(shifted - plain).max() <= EXACT * np.abs(values).max()
