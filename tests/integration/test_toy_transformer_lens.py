"""A toy model as an ordinary model of the installed TransformerLens: the same function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import TopicLabels, probe, probe_embedding
from topic_probes.toy import TopicTransformer, to_transformer_lens

FREEZINGS: list[dict[str, Any]] = [
    {},
    {"embedding": "trained", "d_model": 4, "bias": True},
    {"embedding": "trained", "value": "identity", "attention": "uniform"},
    {"value": "block", "topics": [0, 0, 0, 1, 1, 1, 1]},
]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Relative to the largest logit: sums of a few products of numbers of the order of one."""


def make(options: dict[str, Any], dtype: torch.dtype) -> TopicTransformer:
    model = TopicTransformer(7, init_scale=1.0, **options).to(dtype)
    with torch.no_grad():
        if model.bias:
            model.b_U.copy_(torch.linspace(-1, 1, 7))
    return model


def outputs(model: Any, tokens: torch.Tensor, **arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """[batch, pos, word] logits and [batch, head, query, key] patterns."""
    found: list[torch.Tensor] = []
    with torch.no_grad(), model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", lambda x, hook: found.append(x))]):
        logits = model(tokens, **arguments)
    return logits, found[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", FREEZINGS)
def test_logits_and_patterns_are_equal(options: dict[str, Any], dtype: torch.dtype) -> None:
    """To rounding in either precision, for every word as query and key."""
    model = make(options, dtype)
    other = to_transformer_lens(model)
    generator = torch.Generator().manual_seed(0)
    for length in (1, 2, 11):
        tokens = torch.randint(0, 8, (3, length), generator=generator)
        for wanted, found in zip(outputs(model, tokens), outputs(other, tokens), strict=True):
            assert found.dtype == dtype
            scale = max(1.0, float(wanted.abs().max()))
            torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[dtype] * scale)


def test_the_halves_of_the_stream_do_not_meet() -> None:
    """The embedding is in no logit: with the head cut off only the bias is left."""
    model = make(FREEZINGS[1], torch.float64)
    other = to_transformer_lens(model)
    cut = other.run_with_hooks(torch.tensor([[0, 1, 2]]), fwd_hooks=[("blocks.0.hook_attn_out", lambda x, hook: 0 * x)])
    torch.testing.assert_close(cut.detach(), model.b_U.expand(1, 3, -1).detach())
    assert other.W_E.shape == (8, 8)
    assert not other.W_E[:, 4:].any()
    assert torch.equal(other.b_U.detach(), model.b_U.detach())


def test_it_is_a_model_of_its_own_in_evaluation_mode() -> None:
    """The kind that the installed release has; changing it leaves the toy model as it was."""
    model = make({}, torch.float32)
    before = model.W_V.detach().clone()
    other = to_transformer_lens(model, n_ctx=16)
    assert type(other).__name__ == ("HookedTransformer" if helpers.HAS_HOOKED else "TransformerBridge")
    assert not any(module.training for module in other.modules())
    assert other.cfg.n_ctx == 16
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(1.0)
    assert torch.equal(model.W_V, before)


def test_the_global_generator_is_not_used() -> None:
    """Nothing is drawn that the caller would miss."""
    torch.manual_seed(5)
    state = torch.get_rng_state()
    to_transformer_lens(make({}, torch.float32))
    assert torch.equal(torch.get_rng_state(), state)


def test_probes_find_the_same_in_both() -> None:
    """Attention and embedding measures of the toy model are those of its TransformerLens twin."""
    model = make(FREEZINGS[1], torch.float64)
    other = to_transformer_lens(model)
    labels = TopicLabels.from_dict({word: word // 4 for word in range(7)})
    documents = [[0, 1, 5, 6, 2], [3, 3, 4], [6, 0, 1, 2, 3, 4, 5], [5, 1, 0]]
    frames = [
        probe(each, documents, labels, baseline=None, progress=False).attention.to_frame() for each in (model, other)
    ]
    columns = ["n_same_topic", "n_cross_topic", "same_topic", "cross_topic", "same_token"]
    np.testing.assert_allclose(frames[1][columns], frames[0][columns], rtol=1e-10)
    assert abs(frames[0]["ratio"].iloc[0] - 1) > 0.01
    means = [probe_embedding(each, labels).to_frame()["mean"] for each in (model, other)]
    # Zeros in the other half of the stream change no product; only the mean of dot products is compared to rounding.
    np.testing.assert_allclose(means[1], means[0], rtol=1e-9)


def test_a_release_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is tried before it is handed out."""
    from topic_probes.toy import _transformer_lens as module

    halves = module._halves
    monkeypatch.setattr(module, "_halves", lambda model: {**halves(model), "W_V": -halves(model)["W_V"]})
    with pytest.raises(RuntimeError, match="does not compute the toy model's function"):
        to_transformer_lens(make({}, torch.float32))
