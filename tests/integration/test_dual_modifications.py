"""Modified attention in running models: what a hooked head puts out is one step of the modified dual's training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch

import helpers
import tiny_models
from topic_probes import PatternError, TopicLabels, attach
from topic_probes.dual._arrays import demonstration_mask
from topic_probes.dual._attach import HeadDual, head_dual
from topic_probes.dual._fit import fit
from topic_probes.dual._heads import read_layers
from topic_probes.dual._modifications import augmented, negative_samples, regularised
from topic_probes.probes._hooks import mask_argument
from topic_probes.probes._observing import observed

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
IDS = [5, 6, 7, 8, 9, 10, 11, 12, 6, 7]
EXACT = 1e-9
"""Relative, in float64."""
SINGLE = 1e-5
"""Relative, where the model computes in float32 or makes its softmax so."""

A, B, R = 0.3, 0.4, 2


def bend(vectors: torch.Tensor) -> torch.Tensor:
    """A map of keys that is neither linear nor near the identity."""
    return torch.tanh(vectors) * 0.5 + vectors * 0.8


def tilt(vectors: torch.Tensor) -> torch.Tensor:
    """A map of values."""
    return vectors.flip(-1) + 1.0


class Outputs:
    """What the heads put out in the last pass, after every modification: layer -> [batch, pos, head, d_head]."""

    def __init__(self, model: Any) -> None:
        self.found: dict[int, torch.Tensor] = {}
        names = [(layer, f"blocks.{layer}.attn.hook_z") for layer in range(2)]
        self.watching = observed(model, [(name, self._keep(layer)) for layer, name in names], self)

    def _keep(self, layer: int) -> Callable[..., None]:
        def keep(tensor: torch.Tensor, *, hook: Any) -> None:
            self.found[layer] = tensor.detach().double()

        return keep

    def before_call(self, args: Any, kwargs: Any) -> None: ...
    def on_ids(self, token_ids: Any) -> None: ...
    def on_decoder_ids(self, token_ids: Any) -> None: ...
    def check_call(self) -> None: ...
    def after_call(self) -> None: ...
    def call_failed(self) -> None: ...


def outputs_under(model: Any, modification: AbstractContextManager, ids: Any = (IDS,), **options: Any) -> dict:
    watch = Outputs(model)
    with modification, watch.watching:
        model(torch.tensor(np.array(ids)), **options)
    return watch.found


def regularised_step(head: HeadDual) -> np.ndarray:
    """The dual's W_0 decayed by a, and then its step."""
    model = head.dual.at(head.query[None, :])
    weights = (1 - A) * model.W_0[0] + (model.W[0] - model.W_0[0])
    assert model.query_features is not None
    return weights @ model.query_features[0]


def augmented_step(head: HeadDual) -> np.ndarray:
    """A dual that is trained on mapped keys and values."""
    ours = head.is_demonstration[:, None]
    keys, values = torch.where(ours, bend(head.keys), head.keys), torch.where(ours, tilt(head.values), head.values)
    return trained_on(head, keys, values)


def negative_step(head: HeadDual) -> np.ndarray:
    """A dual that is trained on values less those of the two demonstrations that are least attended to."""
    ours = [number for number, is_ours in enumerate(head.is_demonstration.tolist()) if is_ours]
    negatives = sorted(ours, key=lambda number: float(head.attention[number]))[:R]
    values = head.values.clone()
    for number in ours:
        for negative in negatives:
            values[number] -= B / len(negatives) * head.values[negative]
    return trained_on(head, head.keys, values)


def unlike_step(head: HeadDual) -> np.ndarray:
    """The same with the two whose keys are least like the token's own."""
    ours = [number for number, is_ours in enumerate(head.is_demonstration.tolist()) if is_ours]
    values = head.values.clone()
    for number in ours:
        others = sorted(
            (other for other in ours if other != number),
            key=lambda other: float(head.keys[number] @ head.keys[other]),
        )[:R]
        for negative in others:
            values[number] -= B / len(others) * head.values[negative]
    return trained_on(head, head.keys, values)


def trained_on(head: HeadDual, keys: torch.Tensor, values: torch.Tensor) -> np.ndarray:
    factors = head.log_factors[None, :]
    dual = fit(keys, values, head.is_demonstration, scale=head.scale, pair_factors=factors)
    return dual.predict(head.query[None, :])[0].numpy()


MODIFICATIONS: dict[str, tuple[Callable[..., AbstractContextManager], Callable[[HeadDual], np.ndarray]]] = {
    "regularised": (lambda model, **options: regularised(model, A, **options), regularised_step),
    "augmented": (lambda model, **options: augmented(model, bend, tilt, **options), augmented_step),
    "negative samples": (lambda model, **options: negative_samples(model, B, R, **options), negative_step),
    "unlike samples": (
        lambda model, **options: negative_samples(model, B, R, choose="least_similar", **options),
        unlike_step,
    ),
}
each = pytest.mark.parametrize("name", MODIFICATIONS)


def check(model: Any, name: str, tolerance: float, demonstrations: Any = None) -> None:
    modification, step = MODIFICATIONS[name]
    changes = []
    plain = read_layers(model, torch.tensor([IDS]))
    ours = None if demonstrations is None else torch.from_numpy(demonstration_mask(demonstrations, len(IDS)))
    for layer in range(2):
        found = outputs_under(model, modification(model, layers=[layer], demonstrations=demonstrations))[layer][
            0
        ].numpy()
        for head in (0, found.shape[1] - 1):
            for query in (3, 9):
                # The layer's own queries, keys and values are as ever, for no earlier layer is modified.
                dual = head_dual(plain[layer], head, query, ours, token_ids=tuple(IDS))
                expected = step(dual)
                assert np.linalg.norm(found[query, head] - expected) <= tolerance * np.linalg.norm(expected)
                before = dual.attention_output.numpy()
                changes.append(np.linalg.norm(before - expected) / np.linalg.norm(before))
    assert max(changes) > 0.01, "it matters"


@every_kind
@each
def test_a_modified_head_is_one_step_of_the_modified_duals_training(name: str, kind: str) -> None:
    """In float64, for heads of both layers."""
    check(helpers.build(kind), name, EXACT)


@every_kind
def test_in_float32_it_is_to_1e_5(kind: str) -> None:
    for name in ("regularised", "negative samples"):
        check(helpers.build(kind, dtype=torch.float32), name, SINGLE)


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
@pytest.mark.parametrize("family", ["Llama", "Gemma 2"])
@each
def test_query_heads_that_share_values_are_modified_one_by_one(name: str, family: str) -> None:
    """With grouped queries, rotations, windows and soft caps."""
    check(helpers.bridge(tiny_models.MODELS[family]().double()), name, SINGLE)


@each
def test_demonstrations_may_be_named(name: str) -> None:
    check(helpers.build(helpers.KINDS[-1]), name, EXACT, demonstrations=[0, 2, 3, 5])


@every_kind
def test_only_the_chosen_heads_change(kind: str) -> None:
    model = helpers.build(kind)
    plain = outputs_under(model, regularised(model, 0.0, layers=[1], heads=[0]))
    for name, (modification, _) in MODIFICATIONS.items():
        found = outputs_under(model, modification(model, layers=[1], heads=[2, -3]))
        torch.testing.assert_close(found[0], plain[0], rtol=0, atol=0)
        torch.testing.assert_close(found[1][:, :, 1], plain[1][:, :, 1], rtol=0, atol=0)
        assert all((found[1][:, :, head] - plain[1][:, :, head]).abs().max() > 1e-3 for head in (0, 2)), name


@every_kind
def test_strength_nought_and_no_maps_change_nothing(kind: str) -> None:
    model = helpers.build(kind)
    expected = logits(model)
    for modification in (regularised(model, 0.0), augmented(model), negative_samples(model, 0.0, 3)):
        with modification:
            torch.testing.assert_close(logits(model), expected, rtol=1e-9, atol=1e-9)


@every_kind
def test_every_later_layer_goes_on_with_what_was_modified(kind: str) -> None:
    """The second layer's modification acts on the stream that the first one's made."""
    model = helpers.build(kind)
    with regularised(model, A):
        both = logits(model)
    with regularised(model, A, layers=[0]), regularised(model, A, layers=[1]):
        nested = logits(model)
    torch.testing.assert_close(nested, both, rtol=1e-9, atol=1e-9)
    assert (both - logits(model)).abs().max() > 1e-3


@every_kind
def test_passes_in_one_block_do_not_meet(kind: str) -> None:
    """A second text is modified as it would be in a block of its own."""
    model = helpers.build(kind)
    texts = [torch.tensor([IDS]), torch.tensor([[9, 5, 14, 20]])]
    for modification, _ in MODIFICATIONS.values():
        alone = []
        for text in texts:
            with modification(model):
                alone.append(logits(model, text))
        with modification(model):
            together = [logits(model, text) for text in texts]
        torch.testing.assert_close(together, alone, rtol=0, atol=0)


@every_kind
def test_pads_change_nothing_for_the_tokens(kind: str) -> None:
    model = helpers.build(kind)
    argument = mask_argument(model)
    if argument is None:
        pytest.skip("this model takes no mask")
    mask = torch.tensor([[1] * 10 + [0, 0], [1] * 12])
    rows = [[*IDS, 0, 0], [*IDS, 8, 9]]
    for modification, _ in MODIFICATIONS.values():
        alone = outputs_under(model, modification(model))
        padded = outputs_under(model, modification(model), rows, **{argument: mask})
        for layer in range(2):
            torch.testing.assert_close(padded[layer][0, :10], alone[layer][0], rtol=1e-8, atol=1e-9)


@every_kind
@each
def test_the_model_is_as_it_was_after_the_block(name: str, kind: str) -> None:
    """Also after an exception in it, in the model's forward or in a map."""
    model = helpers.build(kind)
    expected = logits(model)
    hooks = {point: len(found.fwd_hooks) for point, found in model.hook_dict.items()}
    modification, _ = MODIFICATIONS[name]

    def fail(*_: Any) -> torch.Tensor:
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"), modification(model):
        fail(logits(model))
    with augmented(model, fail):
        with pytest.raises(KeyError, match="on purpose"):
            logits(model)
        with pytest.raises(KeyError, match="on purpose"):
            logits(model)
    torch.testing.assert_close(logits(model), expected, rtol=0, atol=0)
    assert {point: len(found.fwd_hooks) for point, found in model.hook_dict.items()} == hooks
    assert "forward" not in model.__dict__


@every_kind
def test_maps_can_be_trained_in_the_running_model(kind: str) -> None:
    """Gradients of the output reach the parameters of g_k and g_v, and are finite."""
    model = helpers.build(kind)
    g_k, g_v = (torch.nn.Linear(8, 8, dtype=torch.float64) for _ in range(2))
    with augmented(model, g_k, g_v):
        logits(model).square().mean().backward()
    for module in (g_k, g_v):
        assert module.weight.grad is not None
        assert torch.isfinite(module.weight.grad).all()
        assert module.weight.grad.abs().max() > 0


@every_kind
def test_a_probe_in_the_block_counts_the_modified_model(kind: str) -> None:
    """The second layer's attention is that of the modified stream, the first one's is as ever."""
    model = helpers.build(kind)
    labels = TopicLabels.from_dict({token: token % 3 for token in range(5, 35)})
    with attach(model, labels) as plain:
        logits(model)
    with negative_samples(model, 1.0, 2), attach(model, labels) as changed:
        logits(model)
    before, after = (probe.result().means("same_topic") for probe in (plain, changed))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-9)
    assert np.abs(after[1] - before[1]).max() > 1e-3


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_compatibility_mode_modifies_once() -> None:
    """A bridge then calls a hook once for each name of its hook point."""
    plain, compatible = helpers.bridge(helpers.tiny_gpt2().double()), helpers.bridge(helpers.tiny_gpt2().double())
    compatible.enable_compatibility_mode(disable_warnings=True)
    for modification, _ in MODIFICATIONS.values():
        with modification(plain), modification(compatible):
            one, other = (logits(model).log_softmax(-1) for model in (plain, compatible))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_generation_with_a_cache_is_refused() -> None:
    """One query and many keys: the dual of a whole text is another."""
    import transformer_lens

    names = ("TransformerLensKeyValueCache", "HookedTransformerKeyValueCache")  # 3.x, 2.x
    kind = next(getattr(transformer_lens, name) for name in names if hasattr(transformer_lens, name))
    model = helpers.hooked_transformer(dtype=torch.float64, tokenizer=helpers.tiny_tokenizer())
    cache = kind.init_cache(model.cfg, "cpu", 1)
    model(torch.tensor([IDS]), past_kv_cache=cache)
    with regularised(model, A), pytest.raises(PatternError, match="key-value cache"):
        model(torch.tensor([[5]]), past_kv_cache=cache)


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_pass_that_stops_early_is_modified_as_far_as_it_goes() -> None:
    model = helpers.hooked_transformer(dtype=torch.float64)
    plain = model(torch.tensor([IDS]), stop_at_layer=1)
    with regularised(model, A):
        stopped = model(torch.tensor([IDS]), stop_at_layer=1)
    assert (stopped - plain).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("modification", "error", "message"),
    [
        (lambda model: regularised(model, float("nan")), ValueError, "a must be finite"),
        (lambda model: negative_samples(model, 0.1, 0), ValueError, "r must be at least 1"),
        (lambda model: regularised(model, 0.1, heads=[3]), ValueError, r"heads must be in \[0, 3\)"),
        (lambda model: regularised(model, 0.1, heads=[]), ValueError, "heads must name at least one"),
        (lambda model: regularised(model, 0.1, layers=[7]), ValueError, r"layers must be in \[0, 2\)"),
    ],
)
def test_options_outside_their_range_are_refused(modification: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message), modification(helpers.build(helpers.KINDS[0])):
        pass


def test_demonstrations_of_another_length_and_maps_of_another_width_are_refused() -> None:
    model = helpers.build(helpers.KINDS[0])
    with regularised(model, 0.1, demonstrations=[True, False]), pytest.raises(ValueError, match="one entry for each"):
        logits(model)
    with augmented(model, None, lambda v: v[..., :4]), pytest.raises((ValueError, RuntimeError)):
        logits(model)


def test_a_model_in_training_mode_is_refused() -> None:
    model = helpers.build(helpers.KINDS[0]).train()
    with pytest.raises(ValueError, match="evaluation mode"), regularised(model, 0.1):
        pass


def logits(model: Any, token_ids: torch.Tensor | None = None) -> torch.Tensor:
    found = model(torch.tensor([IDS]) if token_ids is None else token_ids)
    return getattr(found, "logits", found)
