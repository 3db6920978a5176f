"""What a newcomer hands to the duals of a real model by mistake: refused in a sentence, never counted wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import TopicLabels
from topic_probes.dual import (
    attach_head,
    augmented,
    contributions_by_topic,
    negative_samples,
    regularised,
    trace,
)
from topic_probes.dual._heads import require_heads, tolerance

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
IDS = [5, 6, 7, 8, 9, 10]
LABELS = TopicLabels.from_dict({token: token % 2 for token in range(5, 20)})
DOCUMENTS = [np.random.default_rng(seed).integers(5, 20, size=8).tolist() for seed in range(9)]
KIND = helpers.KINDS[0]


def head_of(model: Any, tokens: Any = IDS, **options: Any) -> Any:
    return attach_head(model, tokens, **{"layer": 1, "head": 0, **options})


@pytest.mark.parametrize("tokens", [["the cat", "the dog"], b"the cat", None, {"input_ids": [5, 6]}])
@pytest.mark.parametrize("call", [head_of, trace])
def test_tokens_of_another_kind_are_refused_with_the_way_out(call: Any, tokens: Any) -> None:
    with pytest.raises(TypeError, match=r"tokens must be one text or the ids of one row.*input_ids"):
        call(helpers.build(KIND), tokens)


@every_kind
@pytest.mark.parametrize(
    ("tokens", "message"),
    [([5, 50, 6], r"ids in \[0, 50\), got 50"), ([5, -1], "got -1"), ([5] * 33, "at most the 32 .* got 33")],
)
def test_ids_that_the_model_does_not_know_and_texts_that_are_too_long_are_refused(
    kind: str, tokens: list[int], message: str
) -> None:
    model = helpers.build(kind)
    for call in (head_of, trace):
        with pytest.raises(ValueError, match=message):
            call(model, tokens)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.tensor([0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf]), ValueError, "one 0 or 1 for each of the 6 tokens"),
        ([0.5] * 6, ValueError, "values from 0.5 to 0.5"),
        ([0] * 6, ValueError, "it hides every token"),
        ([[1] * 6, [1] * 6], ValueError, r"got shape \(2, 6\)"),
        ([], ValueError, "got none"),
        ("111111", TypeError, "got a str"),
    ],
)
def test_masks_of_another_kind_are_refused(mask: Any, error: type[Exception], message: str) -> None:
    """An additive mask, 0 for tokens, would otherwise hide what it should show."""
    with pytest.raises(error, match=message):
        head_of(helpers.build(KIND), attention_mask=mask)


@every_kind
def test_pads_without_a_mask_are_refused(kind: str) -> None:
    """A row out of a padded batch, taken without its mask, would count pads as demonstrations."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind, tokenizer=tokenizer)
    row = tokenizer("the cat")["input_ids"] + [tokenizer.pad_token_id] * 2
    for call in (head_of, trace):
        with pytest.raises(ValueError, match="attention_mask must hide the 2 pads"):
            call(model, row)
    mask = [1] * (len(row) - 2) + [0, 0]
    assert len(head_of(model, row, attention_mask=mask, query=len(row) - 3).contributions) == len(row) - 3


@every_kind
def test_no_demonstrations_leave_the_whole_head_to_the_weights_before_the_step(kind: str) -> None:
    dual = head_of(helpers.build(kind), demonstrations=[])
    assert len(dual.contributions) == 0
    assert dual.relative_error < 1e-9
    model = dual.dual.at(dual.query[None])
    np.testing.assert_array_equal(model.W, model.W_0)
    assert (dual.by_topic(LABELS)[["n_tokens", "share", "output_norm"]] == 0).all(axis=None)


@every_kind
def test_all_tokens_as_demonstrations_leave_nothing_before_the_step(kind: str) -> None:
    dual = head_of(helpers.build(kind), demonstrations=slice(None))
    assert not dual.dual.at(dual.query[None]).W_0.any()
    assert dual.contributions["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_kind
def test_half_precision_is_still_a_pure_kernel(kind: str, dtype: torch.dtype) -> None:
    """Its rounding is no bias: factors stay out, and the error is what half precision makes."""
    model = helpers.build(kind, dtype=torch.float32).to(dtype)
    dual = head_of(model)
    assert not dual.log_factors.any()
    assert dual.relative_error < 10 * torch.finfo(dtype).eps
    assert dual.output.dtype == torch.float64


def test_the_finer_the_numbers_the_less_is_called_rounding() -> None:
    limits = [tolerance(dtype) for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)]
    assert limits == sorted(limits)
    assert limits[-1] < 0.02


# ---------------------------------------------------------------------- blocks in blocks


@every_kind
def test_a_head_in_two_blocks_is_refused_and_the_outer_block_goes_on(kind: str) -> None:
    """The inner one would write over what the outer one made."""
    model, tokens = helpers.build(kind), torch.tensor([IDS])
    with torch.no_grad(), regularised(model, a=0.5, layers=[0], heads=[1, 2]):
        before = model(tokens)
        for other in (negative_samples(model, b=0.5), augmented(model, heads=[2]), regularised(model, 0.1, layers=[0])):
            with pytest.raises(ValueError, match=r"layer 0, head [12] is modified by a block around this one"), other:
                pass
        torch.testing.assert_close(model(tokens), before, rtol=0, atol=0)


@every_kind
def test_blocks_of_other_heads_and_layers_may_be_nested(kind: str) -> None:
    """Two heads of a layer by two blocks are as by one; when the inner block ends, the outer one goes on."""
    model, tokens = helpers.build(kind), torch.tensor([IDS])
    with torch.no_grad():
        with regularised(model, a=0.5, layers=[0], heads=[0, 2]):
            expected = model(tokens)
        with regularised(model, a=0.5, layers=[0], heads=[0]):
            outer = model(tokens)
            with regularised(model, a=0.5, layers=[0], heads=[2]):
                torch.testing.assert_close(model(tokens), expected)
                with negative_samples(model, b=0.5, layers=[1]):
                    assert not torch.allclose(model(tokens), expected)
            torch.testing.assert_close(model(tokens), outer, rtol=0, atol=0)
        assert not torch.allclose(outer, expected)


@every_kind
def test_a_modified_model_is_not_traced(kind: str) -> None:
    """The modification would write over the duals' outputs, and the stream would seem right whatever they put out."""
    model = helpers.build(kind)
    with regularised(model, a=0.5), pytest.raises(ValueError, match="must not be modified while it is traced"):
        trace(model, IDS)
    assert trace(model, IDS)["relative_error_residual"].max() < 1e-9


# ---------------------------------------------------------------------- heads by number


@pytest.mark.parametrize(
    ("heads", "error", "message"),
    [
        (3, TypeError, "heads must be a list of whole numbers"),
        ("01", TypeError, "heads must be a list of whole numbers"),
        ([0.5], TypeError, "heads must be a whole number"),
        ([3], ValueError, r"heads must be in \[0, 3\)"),
        ([], ValueError, "heads must name at least one head"),
    ],
)
def test_heads_that_are_no_list_of_heads_are_refused(heads: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        require_heads(heads, 3)


def test_a_head_that_is_named_twice_is_measured_once() -> None:
    result = contributions_by_topic(helpers.build(KIND), DOCUMENTS, LABELS, heads=[1, -2, 1], progress=False)
    assert result.heads == (1,)


def test_the_headline_names_heads_by_layer_and_number() -> None:
    result = contributions_by_topic(helpers.build(KIND), DOCUMENTS, LABELS, heads=[0, 2], progress=False)
    assert result.headline(heads=np.array([[1, 2]])) == result.headline(heads=[(1, 2)])
    with pytest.raises(ValueError, match=r"heads must name heads that were measured .*got \(0, 1\)"):
        result.headline(heads=[(0, 1)])
    with pytest.raises(TypeError, match="heads must be pairs"):
        result.headline(heads=(0, 2))
    assert "2 layers, 2 heads" in repr(result)
    assert len(repr(result)) < 200


def test_intervals_by_students_t_are_wider_than_percentiles_with_few_documents() -> None:
    """Nine documents, of which the t interval knows that they are few; both hold the difference."""
    result = contributions_by_topic(helpers.build(KIND), DOCUMENTS, LABELS, progress=False)
    by_t, drawn = result.headline(), result.headline(method="percentile")
    assert by_t["difference"] == drawn["difference"]
    assert by_t["difference_high"] - by_t["difference_low"] > drawn["difference_high"] - drawn["difference_low"]
    frame = result.to_frame(method="percentile", n_resamples=200)
    assert (frame["difference_low"] < frame["difference_high"]).all()
    with pytest.raises(ValueError, match="method must be one of"):
        result.headline(method="bootstrap")
