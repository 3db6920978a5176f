"""A model comes back from ``probe`` and ``attach`` exactly as it was, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch

import helpers
from topic_probes import TopicLabels, attach, probe

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)

LABELS = TopicLabels.from_dict({token: token % 3 for token in range(40)})
DOCUMENTS = [[1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11, 12]]
IDS = torch.tensor([DOCUMENTS[0]])


class UserError(Exception):
    """Raised by the user's own code."""


def build(kind: str, **options: Any) -> Any:
    """A model that has run once: a bridge completes itself (hooks of its own) in its first pass."""
    model = helpers.build(kind, **options)
    model(IDS)
    return model


def state(model: Any) -> dict[str, Any]:
    """Everything of a model that somebody could notice."""
    return {
        "weights": {name: value.detach().clone() for name, value in model.state_dict().items()},
        "gradients": {name: value.requires_grad for name, value in model.named_parameters()},
        "training": {name: module.training for name, module in model.named_modules()},
        "hooks": {
            name: [list(module._forward_hooks), list(module._forward_pre_hooks), list(module._backward_hooks)]
            for name, module in model.named_modules()
        },
        "hook functions": {
            name: [list(map(id, point.fwd_hooks)), list(map(id, point.bwd_hooks))]
            for name, point in model.hook_dict.items()
        },
        "level": getattr(model, "context_level", None),
        "caching": getattr(model, "is_caching", None),
        "instance": sorted(name for name in model.__dict__ if not name.startswith("_")),  # private ones are its caches
        "tokenizer": repr(getattr(model, "tokenizer", None)),
        "padding": getattr(getattr(model, "tokenizer", None), "padding_side", None),
        "cfg": repr(model.cfg),
        "grad mode": torch.is_grad_enabled(),
    }


def require_unchanged(before: dict[str, Any], model: Any) -> None:
    after = state(model)
    weights = before.pop("weights"), after.pop("weights")
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]) or (value.isnan() == weights[1][name].isnan()).all(), name
    assert after == before
    assert "forward" not in model.__dict__


def use_probe(model: Any) -> None:
    probe(model, DOCUMENTS, LABELS, progress=False)


def use_attach(model: Any) -> None:
    with attach(model, LABELS):
        model(IDS)


def use_attach_and_raise(model: Any) -> None:
    with suppress(UserError), attach(model, LABELS):
        model(IDS)
        raise UserError


def use_attach_with_a_hook_that_raises(model: Any) -> None:
    def fail(tensor: torch.Tensor, hook: Any) -> None:
        raise UserError

    with pytest.raises(UserError), attach(model, LABELS):
        model.run_with_hooks(IDS, fwd_hooks=[("blocks.1.attn.hook_pattern", fail)])


def use_probe_with_an_id_that_does_not_exist(model: Any) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        probe(model, [DOCUMENTS[0], [99]], LABELS, batch_size=1, progress=False)


def use_nested(model: Any) -> None:
    with attach(model, LABELS), attach(model, LABELS, layers=[0]):
        model(IDS)
        probe(model, DOCUMENTS, LABELS, progress=False)


def use_twice(model: Any) -> None:
    use_attach(model)
    use_attach(model)


def use_the_same_twice(model: Any) -> None:
    observer = attach(model, LABELS)
    for _ in range(2):
        with observer:
            model(IDS)
    assert observer.result().n_documents == 2


USES = [
    use_probe,
    use_attach,
    use_attach_and_raise,
    use_attach_with_a_hook_that_raises,
    use_probe_with_an_id_that_does_not_exist,
    use_nested,
    use_twice,
    use_the_same_twice,
]
every_use = pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)


@every_kind
@every_use
def test_the_model_is_as_it_was(kind: str, use: Callable[[Any], None]) -> None:
    """Weights, hooks, modes, levels, attributes, configuration, tokenizer."""
    model = build(kind, tokenizer=helpers.tiny_tokenizer())
    before = state(model)
    use(model)
    require_unchanged(before, model)


@every_kind
@every_use
def test_the_users_hooks_survive_and_fire(kind: str, use: Callable[[Any], None]) -> None:
    """Plain ones and permanent ones, on the very hook point that is read; and a plain torch hook."""
    model = build(kind)
    calls: list[str] = []

    def note(tensor: torch.Tensor, hook: Any) -> None:
        calls.append("plain")

    def note_permanently(tensor: torch.Tensor, hook: Any) -> None:
        calls.append("permanent")

    point = model.hook_dict["blocks.0.attn.hook_pattern"]
    point.add_hook(note)
    point.add_hook(note_permanently, is_permanent=True)
    handle = model.embed.register_forward_pre_hook(lambda module, args: calls.append("torch"))
    before = state(model)
    use(model)
    require_unchanged(before, model)
    calls.clear()
    model(IDS)
    assert sorted(calls) == ["permanent", "plain", "torch"]
    handle.remove()


@every_kind
def test_a_forward_of_the_users_own_is_put_back(kind: str) -> None:
    """Somebody has wrapped the model's forward already."""
    model = build(kind)
    bare, calls = model.forward, []

    def mine(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return bare(*args, **kwargs)

    model.__dict__["forward"] = mine
    use_attach(model)
    assert model.__dict__["forward"] is mine
    assert calls == [1]


@every_kind
@pytest.mark.parametrize("grad", [True, False])
def test_grad_mode_is_the_users(kind: str, grad: bool) -> None:
    """Also inside the block: gradients flow through a pass that is counted."""
    model = build(kind)
    with torch.set_grad_enabled(grad):
        with attach(model, LABELS):
            output = model(IDS)
            assert torch.is_grad_enabled() is grad
        assert output.requires_grad is grad
        probe(model, DOCUMENTS, LABELS, progress=False)
        assert torch.is_grad_enabled() is grad


@every_kind
def test_outputs_inside_the_block_are_the_models_own(kind: str) -> None:
    model = build(kind)
    before = model(IDS)
    with attach(model, LABELS):
        inside = model(IDS)
    assert torch.equal(before, inside)
    assert torch.equal(before, model(IDS))


@every_kind
def test_reset_hooks_inside_the_block_leaves_nothing_behind(kind: str) -> None:
    """The user removes all hooks, ours included; ours do not come back."""
    model = build(kind)
    before = state(model)
    with attach(model, LABELS):
        model(IDS)
        model.reset_hooks()
    require_unchanged(before, model)


@every_kind
def test_inputs_are_as_they_were(kind: str) -> None:
    """Documents, labels and a caller's ids."""
    model = build(kind)
    documents, ids = [list(ids) for ids in DOCUMENTS], IDS.clone()
    topics = dict(LABELS.topics_of)
    probe(model, documents, LABELS, progress=False)
    with attach(model, LABELS):
        model(ids)
    assert documents == DOCUMENTS
    assert torch.equal(ids, IDS)
    assert LABELS.topics_of == topics
