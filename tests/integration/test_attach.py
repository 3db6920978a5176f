"""``attach`` counts any forward pass in its block, and says what ``probe`` says."""

from __future__ import annotations

import copy
import random
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import AttentionResult, PatternError, TopicLabels, attach, probe
from topic_probes.probes._hooks import mask_argument

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
RELATIVE = 1e-9

_numbers = random.Random(1)
LABELS = TopicLabels.from_dict({token: _numbers.randrange(4) for token in range(40)})
DOCUMENTS = [[_numbers.randrange(1, 50) for _ in range(_numbers.randrange(2, 16))] for _ in range(8)]
WORD_LABELS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1, "dogs": 0, "milk": 2})
TEXTS = ["the cat and the dog", "dogs in the sun, milk", "milk"]


def padded(documents: list[list[int]], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, documents))
    ids = torch.zeros(len(documents), longest, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        where = slice(0, len(document)) if side == "right" else slice(longest - len(document), longest)
        ids[row, where], mask[row, where] = torch.tensor(document), 1
    return ids, mask


def require_equal(one: AttentionResult, other: AttentionResult, rtol: float = RELATIVE) -> None:
    np.testing.assert_allclose(one.totals.sums.sum(axis=2), other.totals.sums.sum(axis=2), rtol=rtol, atol=1e-13)
    np.testing.assert_allclose(one.totals.counts.sum(axis=1), other.totals.counts.sum(axis=1), rtol=RELATIVE)


def probed(model: Any, documents: Any = DOCUMENTS, labels: TopicLabels = LABELS, **options: Any) -> AttentionResult:
    return probe(model, documents, labels, baseline=None, progress=False, **options).attention


@every_kind
@pytest.mark.parametrize("call", ["plain", "hooks", "cache", "forward", "positional"])
def test_attach_equals_probe_whoever_calls(kind: str, call: str) -> None:
    """One pass a document, without a mask."""
    model = helpers.build(kind)
    with attach(model, LABELS) as observer:
        for document in DOCUMENTS:
            ids = torch.tensor([document])
            if call == "hooks":
                model.run_with_hooks(ids, fwd_hooks=[("blocks.0.attn.hook_pattern", lambda tensor, hook: None)])
            elif call == "cache":
                model.run_with_cache(ids)
            elif call == "forward":
                model.forward(ids)
            else:
                model(ids)
    result = observer.result()
    require_equal(result, probed(model))
    assert result.n_documents == len(DOCUMENTS)
    assert result.visibility == {layer: "causal" if helpers.is_causal(kind) else "bidirectional" for layer in (0, 1)}


@every_kind
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_batches_with_a_mask(kind: str, side: str) -> None:
    """Under the name that the model knows. Left pads shift positions, so the oracle is the model's own batch."""
    model = helpers.build(kind)
    ids, mask = padded(DOCUMENTS, side)
    name = mask_argument(model)
    assert name is not None
    with attach(model, LABELS) as observer:
        model(ids[:3], **{name: mask[:3]})
        model.run_with_hooks(ids[3:], fwd_hooks=[], **{name: mask[3:]})
    if side == "right":
        require_equal(observer.result(), probed(model))
    else:
        expected = sums_of_a_batch(model, ids, mask, name, causal=helpers.is_causal(kind))
        totals = observer.result().totals
        np.testing.assert_allclose(totals.sums.sum(axis=2)[..., :4].sum(axis=-1), expected, rtol=RELATIVE)
        np.testing.assert_array_equal(totals.counts.sum(axis=1), probed(model).totals.counts.sum(axis=1))


def sums_of_a_batch(model: Any, ids: torch.Tensor, mask: torch.Tensor, name: str, *, causal: bool) -> np.ndarray:
    """[layer, head] all debiased attention: times the keys seen, summed over rows."""
    found: list[torch.Tensor] = []
    hooks = [
        (f"blocks.{layer}.attn.hook_pattern", lambda tensor, hook: found.append(tensor.detach().double()))
        for layer in (0, 1)
    ]
    with torch.no_grad(), model.hooks(fwd_hooks=hooks):
        model(ids[:3], **{name: mask[:3]})
        model(ids[3:], **{name: mask[3:]})
    sums = np.zeros((2, 3))
    for number, pattern in enumerate(found):
        real = (mask[:3] if number < 2 else mask[3:]).bool()
        for row, keep in zip(pattern, real, strict=True):
            block = row[:, keep][:, :, keep]
            n = block.shape[-1]
            seen = torch.arange(1, n + 1) if causal else torch.full((n,), n)
            sums[number % 2] += (block * seen[:, None]).sum(dim=(1, 2)).numpy()
    return sums


@every_kind
def test_a_mask_with_holes_counts_real_tokens_only(kind: str) -> None:
    model = helpers.build(kind)
    ids = torch.tensor([DOCUMENTS[0][:1] * 2 + list(range(1, 9))])
    mask = torch.ones_like(ids)
    mask[0, [3, 4, 7]] = 0
    with attach(model, LABELS) as observer:
        model(ids, **{str(mask_argument(model)): mask})
    n = 7
    n_pairs = n * (n + 1) // 2 if helpers.is_causal(kind) else n * n
    assert sum(observer.result().pair_counts.values()) == n_pairs
    assert observer.result().totals.n_excluded_rows.tolist() == [0, 0]


@every_kind
def test_a_row_that_is_all_padding_is_counted_as_empty(kind: str) -> None:
    model = helpers.build(kind)
    ids, mask = padded([*DOCUMENTS[:2], []], "right")
    with attach(model, LABELS) as observer:
        model(ids, **{str(mask_argument(model)): mask})
    require_equal(observer.result(), probed(model, DOCUMENTS[:2]))
    assert observer.result().tally["n_empty"] == 1


@every_kind
def test_pads_without_a_mask_are_found_by_id_where_nothing_attends_to_them(kind: str) -> None:
    """A causal model never sees right pads; a bidirectional one without a mask does, and a warning says so."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind)
    ids, _ = padded([[2, 5, 6, 3], [2, 5, 6, 7, 8, 9, 3]], "right")
    assert tokenizer.pad_token_id == 0
    with warnings.catch_warnings(record=True) as said, attach(model, WORD_LABELS, tokenizer) as observer:
        warnings.simplefilter("always")
        model(ids)
    said = [str(one.message) for one in said if "pads" in str(one.message)]
    if helpers.is_causal(kind):
        assert said == []
    else:
        assert len(said) == 1
        assert "the model attends to 3 pads" in said[0]
        assert f"pass its mask ({mask_argument(model)}=)" in said[0]
    assert observer.result().tally["n_tokens"] == (11 if helpers.is_causal(kind) else 14)
    assert observer.result().tally["n_words_taking_part"] == 7


@every_kind
def test_a_text_of_nothing_is_empty(kind: str) -> None:
    """All positions have the pad's id, as a lone BOS of GPT-2 has."""
    model = helpers.build(kind)
    with attach(model, WORD_LABELS, helpers.tiny_tokenizer()) as observer:
        model(torch.tensor([[0, 0]]))
        model(torch.tensor([[2, 5, 6, 3]]))
    assert observer.result().tally["n_empty"] == 1
    assert observer.result().n_documents == 1


@every_kind
@pytest.mark.parametrize("words", ["whole", "merge"])
def test_text_is_counted_as_the_model_reads_it(kind: str, words: str) -> None:
    """Text goes in; ids are taken where they are embedded."""
    model = helpers.build(kind, tokenizer=helpers.tiny_tokenizer())
    with attach(model, WORD_LABELS, words=words) as observer:
        for text in TEXTS:
            model(text)
    require_equal(observer.result(), probed(model, TEXTS, WORD_LABELS, words=words))
    assert observer.result().tally["n_words_taking_part"] == (10 if words == "whole" else 11)


@every_kind
def test_layers_can_be_chosen(kind: str) -> None:
    model = helpers.build(kind)
    with attach(model, LABELS, layers=[-1]) as observer:
        model(torch.tensor([DOCUMENTS[0]]))
    assert observer.result().totals.layers == (1,)
    require_equal(observer.result(), probed(model, DOCUMENTS[:1], layers=[1]))


@every_kind
def test_a_result_does_not_change_when_more_is_counted(kind: str) -> None:
    """It can be taken inside the block, and again later."""
    model = helpers.build(kind)
    with attach(model, LABELS) as observer:
        model(torch.tensor([DOCUMENTS[0]]))
        first = observer.result()
        model(torch.tensor([DOCUMENTS[1]]))
    require_equal(first, probed(model, DOCUMENTS[:1]))
    require_equal(observer.result(), probed(model, DOCUMENTS[:2]))
    assert first.n_documents == 1


@every_kind
def test_two_attached_probes_each_count_all(kind: str) -> None:
    """Nested, with other labels, and one after the other."""
    model = helpers.build(kind)
    other_labels = TopicLabels.from_dict({token: token % 2 for token in range(50)})
    with attach(model, LABELS) as outer, attach(model, other_labels) as inner:
        model(torch.tensor([DOCUMENTS[0]]))
    with attach(model, LABELS) as later:
        model(torch.tensor([DOCUMENTS[0]]))
    require_equal(outer.result(), probed(model, DOCUMENTS[:1]))
    require_equal(later.result(), outer.result())
    require_equal(inner.result(), probed(model, DOCUMENTS[:1], other_labels))


@every_kind
def test_probing_inside_the_block_is_not_counted_by_the_attached_probe(kind: str) -> None:
    """``probe`` ends its passes early, and its twin is another model."""
    model = helpers.build(kind)
    with attach(model, LABELS) as observer:
        model(torch.tensor([DOCUMENTS[0]]))
        inside = probe(model, DOCUMENTS, LABELS, progress=False)
    outside = probe(model, DOCUMENTS, LABELS, progress=False)
    require_equal(observer.result(), probed(model, DOCUMENTS[:1]))
    require_equal(inside.attention, outside.attention)
    assert inside.baseline is not None
    assert outside.baseline is not None
    require_equal(inside.baseline.attention, outside.baseline.attention)


# ------------------------------------------------------------------- blocks, copies, hooks, threads


@every_kind
@pytest.mark.parametrize("first_out", [0, 1, 2])
def test_blocks_may_end_in_any_order(kind: str, first_out: int) -> None:
    """Each probe counts exactly what ran while it was attached; the model is whole again after the last."""
    model = helpers.build(kind)
    n_hooks = [len(point._forward_hooks) for point in model.hook_dict.values()]
    probes = [attach(model, LABELS) for _ in range(3)]
    for observer in probes:
        observer.__enter__()
    model(torch.tensor([DOCUMENTS[0]]))
    probes[first_out].__exit__(None, None, None)
    model(torch.tensor([DOCUMENTS[1]]))
    for number in {0, 1, 2} - {first_out}:
        probes[number].__exit__(None, None, None)
    model(torch.tensor([DOCUMENTS[2]]))
    assert "forward" not in model.__dict__
    assert [len(point._forward_hooks) for point in model.hook_dict.values()] == n_hooks
    for number, observer in enumerate(probes):
        require_equal(observer.result(), probed(model, DOCUMENTS[: 1 if number == first_out else 2]))


def test_a_block_in_a_generator_that_is_closed_inside_another_block() -> None:
    model = helpers.build(helpers.KINDS[0])

    def passes() -> Any:
        with attach(model, LABELS):
            yield model(torch.tensor([DOCUMENTS[0]]))

    generator = passes()
    next(generator)
    with attach(model, LABELS) as observer:
        generator.close()
        model(torch.tensor([DOCUMENTS[1]]))
    model(torch.tensor([DOCUMENTS[2]]))
    require_equal(observer.result(), probed(model, DOCUMENTS[1:2]))
    assert "forward" not in model.__dict__


@every_kind
def test_a_wrapper_that_the_user_adds_inside_the_block_stays(kind: str) -> None:
    model = helpers.build(kind)
    calls = []
    with attach(model, LABELS) as observer:
        inner = model.forward

        def mine(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return inner(*args, **kwargs)

        model.__dict__["forward"] = mine
        model(torch.tensor([DOCUMENTS[0]]))
    model(torch.tensor([DOCUMENTS[1]]))
    assert model.__dict__.pop("forward") is mine
    assert len(calls) == 2
    require_equal(observer.result(), probed(model, DOCUMENTS[:1]))


@every_kind
def test_a_copy_made_inside_the_block_is_a_model_of_its_own(kind: str) -> None:
    """It runs, on its own weights, and nobody counts it; it can be attached to and copied again."""
    model = helpers.build(kind)
    ids = torch.tensor([DOCUMENTS[0]])
    with torch.no_grad():  # some bridges keep their last pattern, and torch copies no tensor that has a gradient
        expected = model(ids)
    with torch.no_grad(), attach(model, LABELS) as observer:
        twin = copy.deepcopy(model)
        model(ids)
        assert torch.equal(twin(ids), expected)
    with torch.no_grad():
        assert torch.equal(twin(ids), expected)
    assert observer.result().n_documents == 1
    with torch.no_grad(), attach(copy.deepcopy(twin), LABELS) as other:
        twin(ids)
        other._model(ids)
    require_equal(other.result(), observer.result())
    with torch.no_grad():
        next(iter(twin.parameters())).zero_()
    assert not torch.equal(twin(ids), expected)
    assert torch.equal(model(ids), expected)


@pytest.mark.filterwarnings("ignore:A hook on attention.hook_pattern:UserWarning")  # of BERT in 4.x: it came too late
@every_kind
@pytest.mark.parametrize("call", ["run_with_hooks", "add_hook"])
def test_hooks_that_patch_the_pattern_are_seen(kind: str, call: str) -> None:
    """What is counted is what the model goes on with: uniform attention is exactly 1 in every class."""
    model = helpers.build(kind)

    def uniform(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
        seen = (tensor > 0).to(tensor.dtype)
        return seen / seen.sum(dim=-1, keepdim=True)

    hooks = [(f"blocks.{layer}.attn.hook_pattern", uniform) for layer in (0, 1)]
    with attach(model, LABELS) as observer:
        if call == "add_hook":
            for name, function in hooks:
                model.hook_dict[name].add_hook(function)
        for document in DOCUMENTS:
            model.run_with_hooks(torch.tensor([document]), fwd_hooks=hooks if call == "run_with_hooks" else [])
    frame = observer.result().to_frame()
    np.testing.assert_allclose(frame[["same_topic", "cross_topic"]], 1.0, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:A hook on attention.hook_pattern:UserWarning")  # of BERT in 4.x: it came too late
@every_kind
def test_saturated_attention_is_doubted_unless_what_queries_see_is_stated(kind: str) -> None:
    """Every head looks at one key only: the previous token, or itself."""
    model = helpers.build(kind)
    stated = "causal" if helpers.is_causal(kind) else "bidirectional"

    def saturate(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
        n = tensor.shape[-1]
        before = torch.nn.functional.one_hot((torch.arange(n) - 1).clamp(min=0), n)
        return before.to(tensor.dtype).expand_as(tensor)

    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    hooks = [(f"blocks.{layer}.attn.hook_pattern", saturate) for layer in (0, 1)]
    with attach(model, LABELS) as doubted, pytest.warns(UserWarning, match="saturated attention.*visibility="):
        model.run_with_hooks(ids, fwd_hooks=hooks)
    assert doubted.result().visibility[0] == "causal, window of 2"
    with attach(model, LABELS, visibility=stated) as sure:
        model.run_with_hooks(ids, fwd_hooks=hooks)
    assert sure.result().visibility == {0: stated, 1: stated}
    assert sum(sure.result().pair_counts.values()) == (21 if stated == "causal" else 36)


@every_kind
def test_stating_what_is_true_changes_nothing(kind: str) -> None:
    model = helpers.build(kind)
    stated = "causal" if helpers.is_causal(kind) else "bidirectional"
    read, said = probed(model), probed(model, visibility=stated)
    require_equal(read, said)
    assert read.visibility == said.visibility


@pytest.mark.parametrize("kind", [kind for kind in helpers.KINDS if not helpers.is_causal(kind)])
def test_a_bidirectional_model_is_not_counted_as_causal(kind: str) -> None:
    with pytest.raises(PatternError, match="visibility='causal' was stated"):
        probed(helpers.build(kind), visibility="causal")


def test_a_pad_id_that_also_begins_a_text_is_no_pad_there() -> None:
    """GPT-2's one special token; one at each end is spared, more are warned about."""
    tokenizer = helpers.tiny_tokenizer()
    tokenizer.pad_token = "[CLS]"
    model = helpers.build(next(kind for kind in helpers.KINDS if not helpers.is_causal(kind)))
    with attach(model, WORD_LABELS, tokenizer) as observer:
        model(torch.tensor([[2, 5, 6, 7, 3]]))
    assert observer.result().tally["n_tokens"] == 5
    with attach(model, WORD_LABELS, tokenizer), pytest.warns(UserWarning, match="attends to 2 pads"):
        model(torch.tensor([[2, 2, 2, 5, 6, 7, 3]]))


# ------------------------------------------------------------------- what goes wrong


@every_kind
def test_a_second_thread_is_refused(kind: str) -> None:
    """While a pass runs; the pass itself is counted."""
    model = helpers.build(kind)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            model(torch.tensor([DOCUMENTS[1]]))
        except PatternError as error:
            errors.append(error)

    def in_between(tensor: torch.Tensor, hook: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    with attach(model, LABELS) as observer:
        model.run_with_hooks(torch.tensor([DOCUMENTS[0]]), fwd_hooks=[("blocks.0.attn.hook_pattern", in_between)])
    assert "from one thread at a time" in str(errors[0])
    require_equal(observer.result(), probed(model, DOCUMENTS[:1]))


@every_kind
def test_a_pass_that_one_probe_refuses_is_counted_by_none(kind: str) -> None:
    model = helpers.build(kind, tokenizer=helpers.tiny_tokenizer())
    with attach(model, LABELS) as outer, attach(model, LABELS) as inner:
        model(torch.tensor([DOCUMENTS[0]]))
        inner.check_call = lambda: (_ for _ in ()).throw(PatternError("refused"))
        with pytest.raises(PatternError, match="refused"):
            model(torch.tensor([DOCUMENTS[1]]))
    assert outer.result().n_documents == inner.result().n_documents == 1


def test_a_probe_that_is_attached_cannot_be_attached_again() -> None:
    model = helpers.build(helpers.KINDS[0])
    with attach(model, LABELS) as observer:
        with pytest.raises(RuntimeError, match="attached already: leave its with block first"):
            observer.__enter__()
        model(torch.tensor([DOCUMENTS[0]]))
    assert observer.result().n_documents == 1
    assert "forward" not in model.__dict__


@every_kind
@pytest.mark.parametrize("mask", [torch.ones(1, 1, 4, 4), torch.tensor([[0.0, 0.0, -1e9, -1e9]])])
def test_a_mask_of_another_form_is_refused(kind: str, mask: torch.Tensor) -> None:
    model = helpers.build(kind)
    with attach(model, LABELS), pytest.raises(PatternError, match=r"needs an attention mask \[batch, pos\] of 0 "):
        model(torch.tensor([[1, 2, 3, 4]]), **{str(mask_argument(model)): mask})


@pytest.mark.parametrize("kind", [kind for kind in helpers.KINDS if kind.startswith("Hooked")])
def test_a_wrong_keyword_is_the_models_own_error(kind: str) -> None:
    model = helpers.build(kind)
    ids = torch.tensor([[1, 2, 3, 4]])
    with pytest.raises(TypeError) as bare:
        model(ids, a_mask=torch.ones_like(ids))
    with attach(model, LABELS), pytest.raises(TypeError) as attached:
        model(ids, a_mask=torch.ones_like(ids))
    assert str(attached.value) == str(bare.value)
    assert "bind" not in {entry.name for entry in attached.traceback}


@every_kind
def test_a_pass_that_fails_is_not_counted(kind: str) -> None:
    """Not by half either: a hook of the user's raises when the first layer has already come."""
    model = helpers.build(kind)

    def fail(tensor: torch.Tensor, hook: Any) -> None:
        raise KeyError("the user's")

    with attach(model, LABELS) as observer:
        model(torch.tensor([DOCUMENTS[0]]))
        with pytest.raises(KeyError):
            model.run_with_hooks(torch.tensor([DOCUMENTS[1]]), fwd_hooks=[("blocks.1.attn.hook_pattern", fail)])
        model(torch.tensor([DOCUMENTS[2]]))
    require_equal(observer.result(), probed(model, [DOCUMENTS[0], DOCUMENTS[2]]))
    assert observer.result().tally == probed(model, [DOCUMENTS[0], DOCUMENTS[2]]).tally


@every_kind
@pytest.mark.parametrize("first", [True, False])
def test_reset_hooks_inside_the_block_changes_nothing(kind: str, first: bool) -> None:
    """The probe's hooks are on the model during a pass only."""
    model = helpers.build(kind)
    with attach(model, LABELS) as observer:
        if not first:
            model(torch.tensor([DOCUMENTS[0]]))
        model.reset_hooks(including_permanent=True)
        model(torch.tensor([DOCUMENTS[1]]))
    require_equal(observer.result(), probed(model, DOCUMENTS[1 if first else 0 : 2]))


def test_without_a_forward_pass_there_is_no_result() -> None:
    with attach(helpers.build(helpers.KINDS[0]), LABELS) as observer:
        pass
    with pytest.raises(PatternError, match="run the model inside the with block"):
        observer.result()


@every_kind
def test_a_model_put_in_training_mode_inside_the_block_is_refused(kind: str) -> None:
    model = helpers.build(kind)
    with attach(model, LABELS):
        model.train()
        with pytest.raises(ValueError, match="evaluation mode"):
            model(torch.tensor([DOCUMENTS[0]]))
    model.eval()


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_a_model_that_makes_no_patterns_is_refused_at_the_first_pass() -> None:
    model = helpers.bridge(helpers.tiny_bert(attention="sdpa"))
    with attach(model, LABELS), pytest.raises(PatternError, match=r'attn_implementation="eager"'):
        model(torch.tensor([DOCUMENTS[0]]))


@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")  # transformers' own affair
@pytest.mark.parametrize("kind", [kind for kind in helpers.KINDS if kind in ("GPT-2 bridge", "HookedTransformer")])
def test_generation_with_a_cache_is_refused(kind: str) -> None:
    """The patterns of its later steps have one query."""
    model = helpers.build(kind, tokenizer=helpers.tiny_tokenizer())
    with attach(model, LABELS), pytest.raises(PatternError, match=r"cannot be counted|generate outside the block"):
        model.generate(torch.tensor([DOCUMENTS[0]]), max_new_tokens=3, verbose=False, stop_at_eos=False)
    assert "forward" not in model.__dict__


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_pass_that_begins_in_the_middle_is_refused() -> None:
    model = helpers.hooked_transformer()
    with attach(model, LABELS), pytest.raises(PatternError, match="this forward pass embedded none"):
        model(torch.zeros(1, 4, helpers.SIZES["d_model"]), start_at_layer=1)


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_pass_that_stops_early_is_refused_unless_its_layers_are_named() -> None:
    model = helpers.hooked_transformer()
    ids = torch.tensor([DOCUMENTS[0]])
    for stop, silent in ((1, 1), (0, 0)):
        with (
            attach(model, LABELS),
            pytest.raises(PatternError, match=rf"stop_at_layer={stop}\).* of layer {silent}: run"),
        ):
            model(ids, stop_at_layer=stop)
    with attach(model, LABELS, layers=[0]) as observer:
        model(ids, stop_at_layer=1)
    require_equal(observer.result(), probed(model, DOCUMENTS[:1], layers=[0]), rtol=1e-5)


def test_plain_models_and_unknown_options_are_refused() -> None:
    model = helpers.build(helpers.KINDS[0])
    with pytest.raises(TypeError, match="must be a TransformerLens model"):
        attach(helpers.tiny_bert(), LABELS)
    with pytest.raises(ValueError, match="layers must be"):
        attach(model, LABELS, layers=[9])
    with pytest.raises(ValueError, match="labels of words need a tokenizer"):
        attach(model, WORD_LABELS)
