"""``attach`` counts any forward pass in its block, and says what ``probe`` says."""

from __future__ import annotations

import random
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
    np.testing.assert_array_equal(one.totals.counts.sum(axis=1), other.totals.counts.sum(axis=1))


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
    """A causal model never sees right pads; a bidirectional one without a mask does, as special tokens."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind)
    ids, _ = padded([[2, 5, 6, 3], [2, 5, 6, 7, 8, 9, 3]], "right")
    assert tokenizer.pad_token_id == 0
    with attach(model, WORD_LABELS, tokenizer) as observer:
        model(ids)
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


# ------------------------------------------------------------------- what goes wrong


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
def test_reset_hooks_inside_the_block_is_noticed(kind: str) -> None:
    """The probe's hooks are gone then: an error, and not a count that silently stands still."""
    model = helpers.build(kind)
    with attach(model, LABELS) as observer:
        model(torch.tensor([DOCUMENTS[0]]))
        model.reset_hooks()
        with pytest.raises(PatternError, match=r"do not call reset_hooks\(\) there"):
            model(torch.tensor([DOCUMENTS[1]]))
    require_equal(observer.result(), probed(model, DOCUMENTS[:1]))


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
    with attach(model, LABELS), pytest.raises(PatternError, match=r"layer 1 .* or pass layers= without them"):
        model(ids, stop_at_layer=1)
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
