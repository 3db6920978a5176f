"""The door to TransformerLens: what is asked of a model, its mask, its embedding, its untrained twin."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import PatternError
from topic_probes.probes._hooks import (
    embedding_matrix,
    mask_argument,
    mask_of_call,
    pattern_hooks,
    require_probeable,
)
from topic_probes.probes._twin import untrained_twin

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)


@every_kind
def test_every_layer_has_its_pattern_hook(kind: str) -> None:
    names, unavailable = pattern_hooks(helpers.build(kind))
    assert names == {0: "blocks.0.attn.hook_pattern", 1: "blocks.1.attn.hook_pattern"}
    assert unavailable == ()


@every_kind
def test_layers_are_chosen_from_either_end(kind: str) -> None:
    model = helpers.build(kind)
    assert list(pattern_hooks(model, [-1])[0]) == [1]
    assert list(pattern_hooks(model, [1, 0, -2])[0]) == [0, 1]


@every_kind
@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_that_does_not_exist_is_refused(kind: str, layer: int) -> None:
    with pytest.raises(ValueError, match=rf"layers must be in \[0, 2\).*, got {layer}"):
        pattern_hooks(helpers.build(kind), [layer])


def test_layers_must_be_whole_numbers_and_some() -> None:
    model = helpers.build(helpers.KINDS[0])
    with pytest.raises(ValueError, match="at least one layer"):
        pattern_hooks(model, [])


class Stub:
    """A model of three layers of which the second has no attention."""

    class cfg:
        n_layers = 3
        model_name = "stub"

    training = False

    def __init__(self, *with_attention: int) -> None:
        self.hook_dict = {f"blocks.{layer}.attn.hook_pattern": None for layer in with_attention}
        self.hook_dict["blocks.1.hook_resid_post"] = None

    def hooks(self, fwd_hooks: Any = (), bwd_hooks: Any = ()) -> Any: ...

    def forward(self, tokens: Any, **kwargs: Any) -> Any: ...


def test_layers_without_attention_are_named() -> None:
    names, unavailable = pattern_hooks(Stub(0, 2))
    assert list(names) == [0, 2]
    assert unavailable == (1,)
    with pytest.raises(PatternError, match=r"layer 1 of Stub 'stub' has no attention; layers that have: \[0, 2\]"):
        pattern_hooks(Stub(0, 2), [1])


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(PatternError, match="Stub 'stub' has no attention pattern"):
        pattern_hooks(Stub())


def test_a_plain_transformers_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"got BertForMaskedLM without .*boot_transformers"):
        require_probeable(helpers.tiny_bert())


@every_kind
def test_a_model_in_training_mode_is_refused(kind: str) -> None:
    model = helpers.build(kind)
    model.train()
    with pytest.raises(ValueError, match=r"must be in evaluation mode.*model\.eval\(\)"):
        require_probeable(model)


@every_kind
def test_any_module_in_training_mode_is_refused(kind: str) -> None:
    """Dropout would be measured; also where a bridge keeps the wrapped model outside its own modules."""
    model = helpers.build(kind)
    require_probeable(model)
    wrapped = model.__dict__.get("original_model")
    for root in (model, *([wrapped] if wrapped is not None else [])):
        for module in list(root.modules())[1:4]:
            module.training = True
            with pytest.raises(ValueError, match=r"all of the model must be in evaluation mode.*model\.eval\(\)"):
                require_probeable(model)
            module.training = False
    require_probeable(model)


@every_kind
def test_the_mask_is_found_under_the_models_own_name(kind: str) -> None:
    """By keyword and by place."""
    model = helpers.build(kind)
    name = mask_argument(model)
    assert name == ("one_zero_attention_mask" if kind == "HookedEncoder" else "attention_mask")
    ids, mask = torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3)
    assert mask_of_call(model, (ids,), {name: mask}) is mask
    assert mask_of_call(model, (ids,), {}) is None
    assert mask_of_call(model, (ids,), {name: None}) is None


@every_kind
def test_the_embedding_is_the_models_own(kind: str) -> None:
    model = helpers.build(kind)
    weights, name = embedding_matrix(model)
    assert weights.shape == (helpers.N_WORDS, helpers.SIZES["d_model"])
    assert name.endswith("(raw)")
    assert type(model).__name__ in name


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_processed_weights_of_a_hooked_transformer_are_named() -> None:
    raw = helpers.hooked_transformer(normalization_type="LN")
    processed = helpers.hooked_transformer(normalization_type="LNPre")
    state = copy.deepcopy(raw.state_dict())
    processed.load_and_process_state_dict(
        state, fold_ln=True, center_writing_weights=True, center_unembed=True, fold_value_biases=True
    )
    name = embedding_matrix(processed)[1]
    assert "layer norm folded" in name
    assert "centred" in name


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_processed_weights_of_a_bridge_are_named() -> None:
    model = helpers.bridge(helpers.tiny_gpt2())
    before = embedding_matrix(model)[0].clone()
    model.enable_compatibility_mode(disable_warnings=True)
    weights, name = embedding_matrix(model)
    assert "compatibility mode" in name
    assert "centred" in name
    assert not torch.equal(weights, before)


# ------------------------------------------------------------------ the untrained twin


def parameters(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


@every_kind
def test_the_twin_has_the_same_shapes_and_other_weights(kind: str) -> None:
    model = helpers.build(kind)
    before = parameters(model)
    twin = untrained_twin(model, 0)
    assert {name: value.shape for name, value in parameters(twin).items()} == {n: v.shape for n, v in before.items()}
    assert {value.dtype for value in parameters(twin).values()} == {torch.float64}
    changed = [n for n, v in parameters(twin).items() if v.ndim > 1 and v.std() > 0 and not torch.equal(v, before[n])]
    assert len(changed) > 10
    assert not torch.allclose(twin.W_E, model.W_E)
    assert not twin.training
    for name, value in parameters(model).items():
        assert torch.equal(value, before[name])


@every_kind
def test_biases_of_the_twin_are_zero_and_norms_one(kind: str) -> None:
    """Whatever is constant in a fresh model is that constant."""
    model = helpers.build(kind)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.37)
    for name, value in parameters(untrained_twin(model, 0)).items():
        leaf = name.rsplit(".", 1)[-1]
        if leaf == "bias" or leaf.startswith("b_") or leaf == "b":
            assert not value.any(), name
        elif value.ndim == 1:
            assert (value == 1).all(), name
        else:
            assert value.std() > 0, name


@every_kind
def test_the_twin_depends_on_the_seed_alone(kind: str) -> None:
    model = helpers.build(kind)
    one, again, other = (untrained_twin(model, seed).W_E for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@every_kind
@pytest.mark.parametrize("seed", [0, 1])
def test_the_twin_is_no_model_that_the_caller_drew_with_the_same_seed(kind: str, seed: int) -> None:
    """A freshly initialised model compared with itself would pass for "no difference"."""
    model = helpers.build(kind, seed=seed)
    assert not torch.allclose(untrained_twin(model, seed).W_E, model.W_E)


@every_kind
def test_the_twin_leaves_the_generators_alone(kind: str) -> None:
    model = helpers.build(kind)
    torch.manual_seed(5)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    untrained_twin(model, 0)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)


@every_kind
def test_the_twin_has_none_of_the_callers_hooks(kind: str) -> None:
    """Not the permanent ones, and the original is not run in its place."""
    model = helpers.build(kind)
    calls = []
    model.hook_dict["blocks.0.attn.hook_pattern"].add_hook(lambda tensor, hook: calls.append(1), is_permanent=True)
    twin = untrained_twin(model, 0)
    with torch.no_grad():
        logits = twin(torch.tensor([[1, 2, 3]]))
        assert calls == []
        assert not torch.allclose(model(torch.tensor([[1, 2, 3]])), logits)
    assert calls == [1]


@every_kind
def test_the_twin_shares_the_tokenizer_or_has_none(kind: str) -> None:
    model = helpers.build(kind, tokenizer=helpers.tiny_tokenizer())
    tokenizer, settings = model.tokenizer, repr(model.tokenizer)
    twin = untrained_twin(model, 0)
    assert getattr(twin, "tokenizer", None) in (None, tokenizer)
    assert model.tokenizer is tokenizer
    assert repr(tokenizer) == settings


SCRIPT = """
import json, random, sys, warnings
import numpy, torch
warnings.simplefilter("ignore")
sys.path[:0] = [{repository!r}, {tests!r}]
import helpers
import topic_probes
labels = topic_probes.TopicLabels.from_dict({{word: word % 3 for word in range(20)}})
model = helpers.build({kind!r})
def state():
    return [repr(random.getstate()), repr(numpy.random.get_state()[1].tolist()), torch.get_rng_state().tolist()]
before = state()
topic_probes.probe(model, [[1, 2, 3, 4], [5, 6, 7]], labels, progress=False)
with topic_probes.attach(model, labels) as probe:
    model(torch.tensor([[1, 2, 3]]))
probe.result().headline()
print(json.dumps([one == other for one, other in zip(before, state())]))
"""


@pytest.mark.parametrize("kind", helpers.KINDS[:1])
def test_probing_leaves_all_global_generators_alone(kind: str, repository: Any) -> None:
    """In a process of its own: the checker of annotations draws from `random` here."""
    script = SCRIPT.format(repository=str(repository), tests=str(repository / "tests"), kind=kind)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True, True, True]
