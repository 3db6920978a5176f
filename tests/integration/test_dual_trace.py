"""``trace``: a model's residual stream rebuilt from the duals of its heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import helpers
import tiny_models
from topic_probes.dual import PositiveFeatures, fit
from topic_probes.dual._heads import LayerHeads, read_layers
from topic_probes.dual._trace import trace

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
IDS = [5, 6, 7, 8, 9, 10, 11, 12, 6, 7]
EXACT = 1e-9
SINGLE = 1e-5


@every_kind
def test_the_stream_is_rebuilt_from_the_duals_of_all_heads(kind: str) -> None:
    """In float64 after every layer, and by the inner product kernels alone."""
    frame = trace(helpers.build(kind), IDS)
    assert frame["layer"].tolist() == [0, 1]
    assert frame[["relative_error_attention", "relative_error_residual", "unfolded"]].to_numpy().max() <= EXACT


@every_kind
def test_in_float32_it_is_to_1e_5(kind: str) -> None:
    frame = trace(helpers.build(kind, dtype=torch.float32), IDS)
    assert frame[["relative_error_attention", "relative_error_residual"]].to_numpy().max() <= SINGLE


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
@pytest.mark.parametrize("family", ["GPT-NeoX", "Llama", "Gemma 2"])
def test_the_stream_is_rebuilt_in_bridges_of_every_family(family: str) -> None:
    """With grouped queries, windows, soft caps and rotations that are not handed out."""
    frame = trace(helpers.bridge(tiny_models.MODELS[family]().double()), IDS)
    assert frame[["relative_error_attention", "relative_error_residual"]].to_numpy().max() <= 1e-6


@every_kind
def test_what_the_duals_put_out_does_reach_the_stream(kind: str) -> None:
    """Features that are useless make errors in attention and in the stream: nothing is read back from the model."""
    frame = trace(helpers.build(kind), IDS, features=PositiveFeatures(4, seed=0))
    assert frame["relative_error_attention"].min() > 0.05
    assert frame["relative_error_residual"].min() > 0.01
    expected = trace(helpers.build(kind), IDS)
    np.testing.assert_allclose(frame["unfolded"], expected["unfolded"], atol=1e-12)


@every_kind
def test_later_layers_are_fed_the_rebuilt_stream(kind: str) -> None:
    """The error after the second layer, whose queries, keys and values are of the stream that the first dual made."""
    model = helpers.build(kind)
    features = PositiveFeatures(8, seed=0)
    frame = trace(model, IDS, features=features)
    ids = torch.tensor([IDS])
    clean = read_layers(model, ids)
    first = _predictions(clean[0], clean[0].pattern, features)

    def write(tensor: torch.Tensor, *, hook: Any) -> torch.Tensor:
        return first

    second = read_layers(model, ids, layers=[1], extra=[("blocks.0.attn.hook_z", write)])[1]
    outputs = _predictions(second, clean[1].pattern, features)
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", write)]):
        rebuilt = _stream(model, 1, outputs)
    real = _stream(model, 1, clean[1].outputs.transpose(0, 1)[None])
    expected = float((rebuilt - real).norm() / real.norm())
    assert expected > 0.01
    assert frame.loc[1, "relative_error_residual"] == pytest.approx(expected, rel=1e-6)


def _predictions(heads: LayerHeads, pattern: torch.Tensor, features: Any) -> torch.Tensor:
    """[1, pos, head, d_head] what duals put out that know which keys are hidden, and no more."""
    hidden = torch.where(pattern > 0, 0.0, -torch.inf).double()
    made = [
        fit(heads.keys[head], heads.values[head], [0], features=features, pair_factors=hidden[head]).predict(
            heads.queries[head]
        )
        for head in range(len(pattern))
    ]
    return torch.stack(made, dim=1)[None]


@every_kind
def test_the_linearised_error_is_that_of_finite_differences(kind: str) -> None:
    """|f(z_0) + J delta - f(z_0 + delta)| / |f(z_0 + delta) - f(z_0)|, with J delta from two passes near z_0."""
    model = helpers.build(kind)
    frame = trace(model, IDS, linearised=True)
    for layer in range(2):
        pattern, values, outputs = (_part(model, layer, name) for name in ("pattern", "v", "z"))
        own = torch.einsum("bhii,bihd->bihd", pattern, values)
        delta = outputs - own
        before, after = (_stream(model, layer, z) for z in (own, outputs))
        step = 1e-5
        slope = (_stream(model, layer, own + step * delta) - _stream(model, layer, own - step * delta)) / (2 * step)
        expected = float((before + slope - after).norm() / (after - before).norm())
        assert frame.loc[layer, "relative_error_linearised"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_a_layer_whose_network_does_not_see_its_attention_is_linear() -> None:
    """GPT-NeoX has attention and feed-forward side by side: the error of linearising is rounding."""
    frame = trace(helpers.bridge(tiny_models.gpt_neox().double()), IDS, linearised=True)
    assert frame["relative_error_linearised"].max() <= EXACT


@every_kind
def test_pads_are_compared_nowhere(kind: str) -> None:
    from topic_probes.probes._hooks import mask_argument

    model = helpers.build(kind)
    if mask_argument(model) is None:
        pytest.skip("this model takes no mask")
    frame = trace(model, [*IDS, 0, 0], attention_mask=[1] * 10 + [0, 0], linearised=True)
    assert frame[["relative_error_attention", "relative_error_residual"]].to_numpy().max() <= EXACT
    alone = trace(model, IDS, linearised=True)["relative_error_linearised"]
    np.testing.assert_allclose(frame["relative_error_linearised"], alone, rtol=1e-6)


@every_kind
def test_the_model_is_left_as_it_was(kind: str) -> None:
    model = helpers.build(kind)
    before = model(torch.tensor([IDS]))
    hooks = {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()}
    trace(model, IDS, linearised=True)
    after = model(torch.tensor([IDS]))
    torch.testing.assert_close(getattr(after, "logits", after), getattr(before, "logits", before), rtol=0, atol=0)
    assert {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()} == hooks


def _part(model: Any, layer: int, name: str) -> torch.Tensor:
    found: list[torch.Tensor] = []
    with (
        torch.no_grad(),
        model.hooks(
            fwd_hooks=[(f"blocks.{layer}.attn.hook_{name}", lambda tensor, hook: found.append(tensor.detach().clone()))]
        ),
    ):
        model(torch.tensor([IDS]))
    return found[0]


def _stream(model: Any, layer: int, outputs: torch.Tensor) -> torch.Tensor:
    """The stream after a layer whose heads put out these numbers."""
    found: dict[str, torch.Tensor] = {}
    names = [f"blocks.{layer}.hook_resid_post", f"blocks.{layer}.hook_normalized_resid_post"]
    name = [name for name in names if name in model.hook_dict][-1]

    def keep(tensor: torch.Tensor, hook: Any) -> None:
        found["stream"] = tensor.detach().clone()

    with (
        torch.no_grad(),
        model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_z", lambda tensor, hook: outputs), (name, keep)]),
    ):
        model(torch.tensor([IDS]))
    return found["stream"]
