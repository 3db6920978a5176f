"""Measures of toy models against the probe, against loops, and against models whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import topic_probes as tp
from topic_probes.corpora import lda
from topic_probes.toy import optimal_attention, optimal_value_matrix, population_loss
from topic_probes.toy._matrices import logits_and_scores
from topic_probes.toy._measures import topic_attention
from topic_probes.toy._model import TopicTransformer

FLOAT32 = 2e-6
"""Relative error of sums of some hundred attention weights that were computed in float32."""


@pytest.fixture(scope="module")
def model() -> TopicTransformer:
    """Random weights, large enough that attention is far from uniform."""
    model = TopicTransformer(12, embedding="trained", d_model=8, init_scale=0.8, bias=True, seed=1)
    assert sum(parameter.numel() for parameter in model.parameters()) < 1000
    with torch.no_grad():
        model.b_U.copy_(torch.linspace(-1, 1, 12))
    return model


@pytest.fixture(scope="module")
def corpus():
    return lda(n_topics=4, words_per_topic=3, overlap=0.34, lengths=(1, 30), n_documents=60, alpha=0.5, seed=2)


def test_attention_is_what_the_probe_says(model, corpus):
    """Same means, same counts, for documents of many lengths and words of two topics."""
    labels = tp.TopicLabels.from_dict(corpus.topics_of, n_topics=4)
    expected = tp.probe(model, corpus, labels, baseline=None, progress=False).attention
    found = topic_attention(model, corpus, corpus.topics_of)
    row = expected.to_frame().iloc[0]
    for name in ("same_topic", "cross_topic", "same_token"):
        assert found.mean(name) == pytest.approx(row[name], rel=FLOAT32)
    assert found.ratio == pytest.approx(row["ratio"], rel=FLOAT32)
    assert dict(zip(expected.pair_counts, found.counts.tolist(), strict=True)) == expected.pair_counts
    assert found.n_documents == expected.n_documents == 60
    assert abs(found.ratio - 1) > 0.01


def test_attention_is_that_of_plain_loops(model, corpus):
    """From one document's pattern at a time, with an unlabelled word."""
    topics = {word: set(of_word) for word, of_word in corpus.topics_of.items() if word != 5}
    sums, counts = dict.fromkeys(("same_token", "no_topic", "same_topic", "cross_topic"), 0.0), {}
    for document in corpus:
        ids = document.token_ids
        _, cache = model.run_with_cache(torch.tensor([ids]))
        pattern = cache["blocks.0.attn.hook_pattern"][0, 0].double().numpy()
        for q, query in enumerate(ids):
            for k, key in enumerate(ids):
                if query == key:
                    name = "same_token"
                elif query not in topics or key not in topics:
                    name = "no_topic"
                else:
                    name = "same_topic" if topics[query] & topics[key] else "cross_topic"
                sums[name] += pattern[q, k] * len(ids)
                counts[name] = counts.get(name, 0) + 1
    found = topic_attention(model, corpus, topics)
    frame = found.to_frame()
    for name, total in sums.items():
        assert found.mean(name) == pytest.approx(total / counts[name], rel=FLOAT32)
        assert frame.loc[0, f"n_{name}"] == counts[name]
        assert frame.loc[0, name] == pytest.approx(found.mean(name))


def test_uniform_attention_is_one_in_every_class(corpus):
    model = TopicTransformer(12, attention="uniform")
    found = topic_attention(model, corpus, corpus.topics_of, limit=20)
    assert (found.same_topic, found.cross_topic, found.mean("same_token")) == pytest.approx((1, 1, 1), rel=FLOAT32)
    assert found.n_documents == 20
    assert math.isnan(found.mean("no_topic"))
    assert math.isnan(found.to_frame().loc[0, "no_topic"])


def test_the_model_is_left_as_it_was(model, corpus):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    topic_attention(model, corpus, corpus.topics_of, limit=5)
    logits_and_scores(model, 12)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(hook.fwd_hooks for hook in model.hook_dict.values())
    assert torch.is_grad_enabled()


def test_what_cannot_be_measured_is_refused(model, corpus):
    with pytest.raises(ValueError, match=r"use topic_probes\.probe"):
        topic_attention(model, ["a text"], [0])
    with pytest.raises(ValueError, match="at least one document with a word"):
        topic_attention(model, [[]], [0])
    model.train()
    try:
        with pytest.raises(ValueError, match="model must be in evaluation mode"):
            topic_attention(model, corpus, corpus.topics_of)
    finally:
        model.eval()


def test_a_model_that_looks_back_only_is_refused(corpus):
    """Its queries see fewer keys than the document has."""
    model = TopicTransformer(12, attention="uniform")
    attn = model.blocks[0].attn
    causal = lambda pattern, hook: torch.tril(pattern) / torch.tril(pattern).sum(-1, keepdim=True)  # noqa: E731
    attn.hook_pattern.add_hook(causal)
    with pytest.raises(ValueError, match="model must attend both ways"):
        topic_attention(model, [[0, 1, 2]], corpus.topics_of)


# --- a model as two matrices ---


def test_the_matrices_are_read_off_the_models_outputs(model):
    """Logits of each key, bias included, and scores up to a constant of each query, as its weights have them."""
    logits, scores = logits_and_scores(model, 12)
    expected = model.ov_circuit().detach().double().numpy() + model.b_U.detach().double().numpy()[:, None]
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    qk = model.qk_circuit().detach().double().numpy()
    np.testing.assert_allclose(scores - scores[:, :1], qk - qk[:, :1], atol=1e-5)


def test_the_population_loss_of_a_model_is_that_of_its_matrices(model):
    found = population_loss(model, 4, 3, topics_per_document=2)
    logits = model.ov_circuit().detach().double().numpy() + model.b_U.detach().double().numpy()[:, None]
    expected = population_loss((logits, model.qk_circuit().detach().double().numpy()), 4, 3, topics_per_document=2)
    assert found.total == pytest.approx(expected.total, rel=1e-5)
    assert abs(found.total - population_loss(logits, 4, 3, topics_per_document=2).total) > 1e-3


def test_a_model_at_the_optimum_has_the_optimal_loss():
    """The closed-form value matrix and the best attention, put into a model's weights."""
    optimum = optimal_attention(4, 3, topics_per_document=2)
    model = TopicTransformer(12, value="block", value_matrix=optimal_value_matrix(4, 3).matrix())
    attn = model.blocks[0].attn
    with torch.no_grad():
        attn.W_K.copy_(torch.eye(13))
        attn.W_Q.copy_(torch.tensor(optimum.scores().T * math.sqrt(13)))
    found = population_loss(model, 4, 3, topics_per_document=2)
    assert found.total == pytest.approx(optimum.loss.total, abs=1e-6)
    assert found.total < optimum.uniform_loss.total - 1e-4


def test_a_model_that_is_more_than_one_layer_of_attention_is_refused():
    model = TopicTransformer(12, init_scale=0.5)
    model.hook_embed.add_hook(lambda embedded, hook: embedded + torch.arange(embedded.shape[1])[None, :, None] * 0.1)
    with pytest.raises(ValueError, match="attention-weighted mean over the words"):
        logits_and_scores(model, 12)


def test_descent_on_the_value_matrix_comes_to_the_closed_form():
    """Gradient descent on the population loss, from zero, by torch: the smallest optimum, whatever tau."""
    from topic_probes.toy._measures import distance_to_optimum

    optimum = optimal_value_matrix(3, 2)
    value = torch.zeros(6, 7, dtype=torch.float64, requires_grad=True)
    c, q, a = 1 - 0.15 * 0.9, 0.15 * 0.1 / 6, 0.15 * 0.8
    targets = torch.tensor([[(w // 2 in pair) / 4 for w in range(6)] for pair in ((0, 1), (0, 2), (1, 2))]).double()
    shown = torch.cat([c * targets + q, torch.full((3, 1), a)], dim=1)
    for _ in range(3000):
        loss = ((shown @ value.T - targets) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, value)
        with torch.no_grad():
            value -= gradient
    found = distance_to_optimum(value, optimum)
    assert found.relative_error < 1e-6
    assert population_loss(value, 3, 2, topics_per_document=2).excess < 1e-10
