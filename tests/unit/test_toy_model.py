"""The toy model computes the paper's formula, with TransformerLens' hook points, and freezes what it is told to."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from topic_probes.toy import TopicTransformer

FREEZINGS: dict[str, dict[str, Any]] = {
    "all trained": {"embedding": "trained", "d_model": 4, "bias": True},
    "one-hot": {},
    "embedding alone": {"embedding": "trained", "value": "identity", "attention": "uniform"},
    "value alone": {"attention": "uniform"},
    "attention alone": {"value": "block", "topics": [0, 0, 0, 1, 1]},
    "nothing": {"value": "identity", "attention": "uniform"},
}
N_WORDS = 5


def make(freezing: str, **options: Any) -> TopicTransformer:
    """A model of five words whose entries are of the order of one, in float64."""
    model = TopicTransformer(N_WORDS, init_scale=1.0, **FREEZINGS[freezing], **options).double()
    with torch.no_grad():
        if model.bias:
            model.b_U.copy_(torch.linspace(-1, 1, N_WORDS))
    return model


def formula(model: TopicTransformer, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """[pos, word] logits and [query, key] pattern of one document, by loops over its positions."""
    rows, w_v, w_q, w_k, bias = (getattr(model, name).detach().numpy() for name in ("W_E", "W_V", "W_Q", "W_K", "b_U"))
    logits, pattern = np.zeros((len(ids), N_WORDS)), np.zeros((len(ids), len(ids)))
    for query, asking in enumerate(ids):
        scores = [float((w_q @ rows[asking]) @ (w_k @ rows[word])) / math.sqrt(rows.shape[1]) for word in ids]
        total = math.fsum(math.exp(score) for score in scores)
        mixed = np.zeros(rows.shape[1])
        for key, word in enumerate(ids):
            pattern[query, key] = math.exp(scores[key]) / total
            mixed += pattern[query, key] * (w_v @ rows[word])
        for word in range(N_WORDS):
            logits[query, word] = rows[word] @ mixed + bias[word]
    return logits, pattern


def pattern_of(model: Any, tokens: torch.Tensor, **arguments: Any) -> torch.Tensor:
    found: list[torch.Tensor] = []
    with torch.no_grad(), model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", lambda x, hook: found.append(x))]):
        model(tokens, **arguments)
    return found[0]


@pytest.mark.parametrize("freezing", FREEZINGS)
def test_the_forward_is_the_formula(freezing: str) -> None:
    """Logits and pattern are those of loops over positions, for every freezing."""
    model, ids = make(freezing), [0, 3, 3, 5, 1, 0]
    logits, pattern = formula(model, ids)
    np.testing.assert_allclose(model(torch.tensor([ids])).detach()[0], logits, atol=1e-12)
    np.testing.assert_allclose(pattern_of(model, torch.tensor([ids]))[0, 0], pattern, atol=1e-12)


@pytest.mark.parametrize("freezing", ["all trained", "value alone"])
def test_pads_change_nothing(freezing: str) -> None:
    """A padded row has the logits of the row alone, whatever stands in the pads, and a row of pads is finite."""
    model = make(freezing)
    rows = torch.tensor([[0, 3, 1, 4, 4], [2, 5, 2, 0, 1], [1, 1, 1, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    logits = model(rows, attention_mask=mask)
    torch.testing.assert_close(logits[0, :3], model(rows[:1, :3])[0])
    torch.testing.assert_close(logits[1], model(rows[1:2])[0])
    torch.testing.assert_close(logits[2], model.b_U.expand(5, -1))


@pytest.mark.parametrize("freezing", FREEZINGS)
def test_a_document_is_a_bag_of_words(freezing: str) -> None:
    """Counts and the two circuits give the logits of every query, which training relies on."""
    model, ids = make(freezing), [0, 3, 3, 5, 1, 0, 3]
    scores, values = model.qk_circuit().detach().numpy(), model.ov_circuit().detach().numpy()
    logits = model(torch.tensor([ids])).detach()[0].numpy()
    counts = np.bincount(ids, minlength=N_WORDS + 1)
    for at, asking in enumerate(ids):
        weights = counts * np.exp(scores[asking])
        np.testing.assert_allclose(
            values @ (weights / weights.sum()) + model.b_U.detach().numpy(), logits[at], atol=1e-12
        )


def test_hook_points_have_the_names_and_shapes_of_transformer_lens() -> None:
    """Everything that a probe may ask for is in hook_dict, and a cache of a run has the shapes that it has there."""
    model = make("all trained")
    _, cache = model.run_with_cache(torch.tensor([[0, 1, 2], [3, 4, 5]]))
    shapes = {name: tuple(tensor.shape) for name, tensor in cache.items()}
    attn = "blocks.0.attn."
    assert shapes == {
        "hook_embed": (2, 3, 4),
        **{f"{attn}hook_{name}": (2, 3, 1, 4) for name in "qkvz"},
        f"{attn}hook_attn_scores": (2, 1, 3, 3),
        f"{attn}hook_pattern": (2, 1, 3, 3),
    }
    assert set(model.hook_dict) == set(shapes)
    assert (model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_vocab, model.cfg.d_vocab_out) == (1, 1, 6, 5)


@pytest.mark.parametrize("name", ["hook_embed", "blocks.0.attn.hook_pattern", "blocks.0.attn.hook_v"])
def test_a_hook_can_change_what_the_model_computes(name: str) -> None:
    """What a hook returns is what the model goes on with."""
    model, tokens = make("all trained"), torch.tensor([[0, 1, 2]])
    changed = model.run_with_hooks(tokens, fwd_hooks=[(name, lambda x, hook: 0 * x)])
    torch.testing.assert_close(changed, model.b_U.expand(1, 3, -1))
    assert not torch.allclose(changed, model(tokens))


@pytest.mark.parametrize(
    ("freezing", "trained"),
    [
        ("all trained", {"embed.W_E", "blocks.0.attn.W_Q", "blocks.0.attn.W_K", "blocks.0.attn.W_V", "b_U"}),
        ("one-hot", {"blocks.0.attn.W_Q", "blocks.0.attn.W_K", "blocks.0.attn.W_V"}),
        ("embedding alone", {"embed.W_E"}),
        ("value alone", {"blocks.0.attn.W_V"}),
        ("attention alone", {"blocks.0.attn.W_Q", "blocks.0.attn.W_K"}),
        ("nothing", set()),
    ],
)
def test_only_what_is_trained_has_a_gradient(freezing: str, trained: set[str]) -> None:
    """Frozen matrices are buffers; the model knows them all the same."""
    model = make(freezing)
    assert {name for name, weight in model.named_parameters() if weight.requires_grad} == trained
    assert model.W_E.shape == (6, model.cfg.d_model)
    assert not model.training


def test_one_seed_draws_the_same_matrices_whatever_is_frozen() -> None:
    """Runs of one seed can be compared across freezings; another seed draws others."""
    value_alone, both = TopicTransformer(5, attention="uniform", seed=3), TopicTransformer(5, seed=3)
    assert torch.equal(value_alone.W_V, both.W_V)
    assert not torch.equal(TopicTransformer(5, seed=4).W_V, both.W_V)
    torch.testing.assert_close(TopicTransformer(5, seed=3, init_scale=0.2).W_V, both.W_V * 10)


def test_the_global_generator_is_not_used() -> None:
    """Making a model draws nothing from torch's own random numbers."""
    torch.manual_seed(5)
    state = torch.get_rng_state()
    TopicTransformer(5, embedding="trained")
    assert torch.equal(torch.get_rng_state(), state)


def test_the_row_of_mask_is_zero_in_a_one_hot_value_matrix() -> None:
    """No logit reads it, so its norm must not count as growth."""
    assert not TopicTransformer(5).W_V[5].any()
    assert TopicTransformer(5).W_V[:5].all()


def test_a_block_shares_a_word_among_the_words_of_its_topics() -> None:
    """By hand: word 1 has both topics, half of its weight goes to each; a word without topic and [MASK] give none."""
    model = TopicTransformer(4, value="block", topics={0: 0, 1: [0, 1], 2: 1}, attention="uniform")
    wanted = [
        [1 / 2, 1 / 4, 0, 0, 0],
        [1 / 2, 1 / 2, 1 / 2, 0, 0],
        [0, 1 / 4, 1 / 2, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(model.W_V, wanted)


def test_a_value_matrix_can_be_given_over_words_or_whole() -> None:
    """Both shapes mean the same; it can be frozen, or be where training begins."""
    over_words = np.arange(12.0).reshape(3, 4)
    whole = np.vstack([over_words, np.zeros(4)])
    frozen = TopicTransformer(3, value="block", value_matrix=over_words)
    start = TopicTransformer(3, value_matrix=torch.tensor(whole))
    np.testing.assert_allclose(frozen.W_V, whole)
    np.testing.assert_allclose(start.W_V.detach(), whole)
    assert start.W_V.requires_grad
    assert not frozen.W_V.requires_grad


def test_an_untrained_twin_keeps_what_is_frozen() -> None:
    """The baseline of a probe draws only what would be trained."""
    from topic_probes.probes._twin import untrained_twin

    model = make("attention alone")
    twin = untrained_twin(model, 0)
    assert torch.equal(twin.W_V, model.W_V)
    assert torch.equal(twin.W_E, model.W_E)
    assert not torch.equal(twin.W_Q, model.W_Q)


def test_a_copy_is_a_model_of_its_own() -> None:
    """Changing the copy leaves the original as it was."""
    model = make("all trained")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.W_V.zero_()
    assert model.W_V.any()
    assert torch.equal(twin(torch.tensor([[1, 2]]))[0, 0], model.b_U)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_words": 0}, "n_words must be at least 1"),
        ({"init_scale": float("nan")}, "init_scale must be a finite number"),
        ({"init_scale": -1.0}, "init_scale must be a finite number"),
        ({"d_model": 7}, "d_model must be n_words \\+ 1 = 101"),
        ({"value": "block"}, "needs topics="),
        ({"value": "block", "topics": [0] * 100, "value_matrix": np.zeros((101, 101))}, "got both or neither"),
        ({"value": "block", "embedding": "trained", "topics": [0] * 100}, "needs embedding"),
        ({"topics": [0] * 100}, "topics make a frozen value matrix"),
        ({"value": "identity", "value_matrix": np.zeros((101, 101))}, "value_matrix cannot be given"),
        ({"value_matrix": np.zeros((3, 3))}, "value_matrix must be .* got shape \\[3, 3\\]"),
        ({"value": "block", "topics": [0, 1]}, "one entry for each of the 100 words, got 2"),
        ({"value": "block", "topics": {100: 0}}, "must be in 0 .. 99, got 100"),
        ({"value": "block", "topics": {0: -1}}, "must be at least 0"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused_with_a_sentence(options: dict[str, Any], sentence: str) -> None:
    """The sentence names the argument and the rule."""
    with pytest.raises(ValueError, match=sentence):
        TopicTransformer(**options)


@pytest.mark.parametrize("topics", ["01234", {"cat": 1}, {0: "a"}, {0: 1.5}, 3])
def test_topics_of_another_kind_are_refused(topics: Any) -> None:
    """Topics are whole numbers of word ids."""
    with pytest.raises(TypeError, match="topics"):
        TopicTransformer(5, value="block", topics=topics)


def test_wrong_tokens_are_refused_with_a_sentence() -> None:
    """Ids outside the vocabulary, embeddings, and a mask of another shape."""
    model = make("one-hot")
    with pytest.raises(ValueError, match=r"tokens must be in 0 .. 5 \(5 is \[MASK\]\), got 0 to 6"):
        model(torch.tensor([[0, 6]]))
    with pytest.raises(TypeError, match="tokens must be whole numbers"):
        model(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="attention_mask must have the shape of tokens"):
        model(torch.tensor([[0, 1]]), attention_mask=torch.ones(1, 3))
