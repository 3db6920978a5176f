"""BART: encoder, decoder and cross-attention, as transformers computes them."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
import matrix
import oracles
import tiny_models
from topic_probes import PatternError, TopicLabels, attach, probe
from topic_probes._axes import Site
from topic_probes.probes import ProbeReport
from topic_probes.probes._hooks import device_of, pattern_hooks, run_until_pattern
from topic_probes.probes._twin import untrained_twin
from topic_probes.statistics import AttentionResult

pytestmark = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x has no bridges")

RELATIVE = 1e-9
LABELS = TopicLabels.from_dict(matrix.TOPICS)
DOCUMENTS = matrix.documents()
SITES = tuple(Site(stack, layer) for stack in ("encoder", "decoder", "cross") for layer in (0, 1))
WORDS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1, "dogs": 0, "milk": 2})
START = 2
"""With which the decoder of the tiny BART starts."""


def bart(dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    return helpers.bridge(tiny_models.bart().to(dtype), **options)


def probed(model: Any, documents: Any = DOCUMENTS, labels: TopicLabels = LABELS, **options: Any) -> AttentionResult:
    return probe(model, documents, labels, baseline=None, progress=False, **options).attention


def require_equal(one: AttentionResult, other: AttentionResult) -> None:
    np.testing.assert_allclose(one.totals.sums.sum(axis=2), other.totals.sums.sum(axis=2), rtol=RELATIVE, atol=1e-13)
    np.testing.assert_allclose(one.totals.counts.sum(axis=1), other.totals.counts.sum(axis=1), rtol=RELATIVE)


def loops(
    calls: list[dict[str, Any]], topics: dict, *, dtype: torch.dtype = torch.float64
) -> tuple[np.ndarray, np.ndarray]:
    """[site, head, column] sums and [site, column] counts, from transformers' own attentions of calls of one row.

    A call has ``ids`` and ``decoder_ids``, and ``words`` and ``special`` (of the encoder, of the decoder).
    """
    reference = tiny_models.bart().to(dtype)
    sums: Any = 0.0
    counts: Any = 0
    for call in calls:
        given = matrix.attentions(
            reference, torch.tensor([call["ids"]]), decoder_input_ids=torch.tensor([call["decoder_ids"]])
        )
        found = []
        for site, layer in zip(SITES, given.values(), strict=True):
            queries, keys = site.stack != "encoder", site.stack == "decoder"
            found.append(
                [
                    oracles.attention_by_class(
                        head.tolist(),
                        call["words"][queries],
                        topics,
                        (lambda q, k: k <= q) if site.stack == "decoder" else (lambda q, k: True),
                        call["special"][keys],
                        key_words=call["words"][keys],
                    )
                    for head in layer[0]
                ]
            )
        sums = sums + np.array([[[*one[0].values(), one[2]] for one in site] for site in found])
        counts = counts + np.array([[*site[0][1].values(), site[0][3]] for site in found])
    return sums, counts


def require_loops(result: AttentionResult, expected: tuple[np.ndarray, np.ndarray]) -> None:
    sums, counts = helpers.basic_sums(result.totals)
    np.testing.assert_allclose(sums, expected[0], rtol=RELATIVE, atol=1e-13)
    np.testing.assert_array_equal(counts, expected[1])


def call_of_ids(ids: list[int], decoder_ids: list[int]) -> dict[str, Any]:
    """Each token is its own word, but for the decoder's start."""
    return {
        "ids": ids,
        "decoder_ids": decoder_ids,
        "words": (
            [(token, [at]) for at, token in enumerate(ids)],
            [(token, [at]) for at, token in enumerate(decoder_ids) if at > 0],
        ),
        "special": ([], [0]),
    }


# What is counted.


@pytest.mark.parametrize("decoder_argument", ["decoder_input_ids", "decoder_input"])
def test_two_texts_of_one_call_are_told_apart(decoder_argument: str) -> None:
    """A document and its summary: the decoder's words ask, the encoder's answer; lengths differ."""
    model = bart()
    calls = [
        call_of_ids(DOCUMENTS[0], [START, 5, 8, 9, 30, 6]),
        call_of_ids(DOCUMENTS[1][:4], [START, *DOCUMENTS[2]]),
    ]
    with attach(model, LABELS) as observer:
        for call in calls:
            model(torch.tensor([call["ids"]]), **{decoder_argument: torch.tensor([call["decoder_ids"]])})
    result = observer.result()
    require_loops(result, loops(calls, matrix.TOPICS))
    assert result.totals.sites == SITES
    assert result.n_documents == 2


def test_the_encoders_own_sums_do_not_depend_on_what_the_decoder_reads() -> None:
    model = bart()
    results = []
    for decoder_ids in ([START, 5, 8], [START, 9, 6, 6, 13, 20]):
        with attach(model, LABELS) as observer:
            model(torch.tensor([DOCUMENTS[0]]), decoder_input_ids=torch.tensor([decoder_ids]))
        results.append(observer.result().totals.sums)
    np.testing.assert_array_equal(results[0][:2], results[1][:2])
    for site in range(2, 6):
        assert not np.allclose(results[0][site].sum(axis=1), results[1][site].sum(axis=1))


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_probe_reads_the_document_in_the_decoder_shifted_right(batch_size: int) -> None:
    """Whatever the batches: the decoder reads its start and all tokens of the document but the last."""
    calls = [call_of_ids(ids, [START, *ids[:-1]]) for ids in DOCUMENTS]
    require_loops(probed(bart(), batch_size=batch_size), loops(calls, matrix.TOPICS))


@pytest.mark.parametrize("words", ["whole", "merge"])
def test_words_of_text_are_those_of_the_tokens_that_the_decoder_holds(words: str) -> None:
    """Special tokens of the encoder are the sinks of cross-attention, the start another one of the decoder."""
    tokenizer = helpers.tiny_tokenizer()
    texts = ["the cats and the dog", "dogs in the sun, milk", "milk"]
    pieces = [
        [("the", 1), ("cats", 2), ("and", 1), ("the", 1), ("dog", 1)],
        [("dogs", 2), ("in", 1), ("the", 1), ("sun", 1), (",", 0), ("milk", 1)],
        [("milk", 1)],
    ]
    calls = []
    for text, expected in zip(texts, pieces, strict=True):
        ids = tokenizer(text)["input_ids"]
        at, found = 1, []
        for word, n in expected:
            if n == 1 or (n == 2 and words == "merge"):
                found.append((word, list(range(at, at + n))))
            at += max(n, 1)
        calls.append(
            {
                "ids": ids,
                "decoder_ids": [START, *ids[:-1]],
                "words": (found, [(word, [place + 1 for place in places]) for word, places in found]),
                "special": ([0, len(ids) - 1], [0, 1]),
            }
        )
    topics = {word: tuple(np.atleast_1d(topic)) for word, topic in WORDS.topics_of.items()}
    expected_sums = loops(calls, topics)
    require_loops(probed(bart(), texts, WORDS, tokenizer=tokenizer, words=words), expected_sums)
    model = bart()
    with attach(model, WORDS, tokenizer, words=words) as observer:
        for call in calls:
            model(torch.tensor([call["ids"]]))
    require_loops(observer.result(), expected_sums)
    assert expected_sums[0][4:, :, 4].all(), "cross-attention has sinks"


@pytest.mark.parametrize("call", ["plain", "forward", "hooks", "cache", "one row", "shifted by the caller"])
def test_attach_equals_probe_where_the_model_shifts(call: str) -> None:
    model = bart()
    with attach(model, LABELS) as observer:
        for document in DOCUMENTS:
            ids = torch.tensor([document])
            if call == "hooks":
                model.run_with_hooks(ids, fwd_hooks=[])
            elif call == "cache":
                model.run_with_cache(ids)
            elif call == "forward":
                model.forward(ids)
            elif call == "one row":
                model(ids[0])
            elif call == "plain":
                model(ids)
            else:
                model(ids, decoder_input_ids=torch.cat([torch.tensor([[START]]), ids[:, :-1]], dim=1))
    require_equal(observer.result(), probed(model))
    assert observer.result().n_documents == len(DOCUMENTS)


# Pads and masks.


@pytest.mark.parametrize("with_decoder_mask", [True, False])
def test_right_pads_count_in_neither_stack(with_decoder_mask: bool) -> None:
    """Also where the model shifts a padded batch itself, and a pad slips in before the decoder's mask."""
    model = bart()
    ids, mask = matrix.padded(0)
    with attach(model, LABELS) as observer:
        model(ids, attention_mask=mask, **({"decoder_attention_mask": mask} if with_decoder_mask else {}))
    require_equal(observer.result(), probed(model))


def test_batches_of_probe_carry_a_mask_for_either_stack() -> None:
    """Right pads of a causal decoder do no harm without one, those of other decoders would."""
    model = bart()
    given: list[dict[str, Any]] = []

    def spy(*args: Any, **kwargs: Any) -> Any:
        given.append(kwargs)
        return type(model).forward(model, *args, **kwargs)

    model.__dict__["forward"] = spy
    probed(model, batch_size=3)
    assert len(given) == 1
    assert given[0]["attention_mask"].sum(dim=1).tolist() == sorted(map(len, DOCUMENTS), reverse=True)
    assert torch.equal(given[0]["decoder_attention_mask"], given[0]["attention_mask"])


def test_left_pads_of_the_decoder_need_a_mask_of_their_own() -> None:
    """Without one its real tokens attend to them, which is said."""
    model = bart()
    ids, mask = torch.tensor([[0, 0, 5, 6, 7], [5, 6, 7, 8, 9]]), torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    message = r"layer 0 of the decoder attends to padding .*its decoder has none \(decoder_attention_mask=\)"
    with pytest.raises(PatternError, match=message), attach(model, LABELS):
        model(ids, attention_mask=mask)
    with attach(model, LABELS) as observer:
        model(ids, attention_mask=mask, decoder_input_ids=ids, decoder_attention_mask=mask)
    counts = observer.result().totals.counts.sum(axis=1)[:, :4].sum(axis=1)
    assert counts.tolist() == [9 + 25] * 2 + [6 + 15] * 2 + [9 + 25] * 2


def test_pads_of_labels_are_found_though_there_is_no_mask() -> None:
    """-100 in the labels becomes the configuration's pad id in the decoder; nothing real attends to it."""
    model = bart()
    ids = torch.tensor([DOCUMENTS[0], DOCUMENTS[0]])
    with attach(model, LABELS) as observer:
        model(ids, labels=torch.tensor([[8, 9, 5, -100, -100], [8, 9, 5, 6, 7]]))
    calls = [call_of_ids(DOCUMENTS[0], [START, 8, 9, 5]), call_of_ids(DOCUMENTS[0], [START, 8, 9, 5, 6])]
    require_loops(observer.result(), loops(calls, matrix.TOPICS))


def test_pads_without_a_mask_are_counted_and_said() -> None:
    """The encoder attends to them."""
    model = bart()
    ids = torch.tensor([[2, 5, 6, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
    with (
        pytest.warns(UserWarning, match=r"attends to 2 pads .* pass its mask \(attention_mask=\)"),
        attach(model, WORDS, helpers.tiny_tokenizer()) as observer,
    ):
        model(ids)
    assert observer.result().tally["n_tokens"] == 12


def test_pads_of_given_decoder_ids_are_found_by_their_id() -> None:
    """Real tokens of a causal decoder never attend to pads on the right: no warning, and they count for nothing."""
    model = bart()
    ids = torch.tensor([[2, 5, 6, 3], [2, 5, 6, 3]])
    results = []
    for decoder_ids in ([[2, 7, 8, 0, 0]], [[2, 7, 8]]):
        with attach(model, WORDS, helpers.tiny_tokenizer()) as observer:
            model(ids[:1], decoder_input_ids=torch.tensor(decoder_ids))
        results.append(observer.result())
    require_equal(*results)


def test_a_row_that_is_all_padding_is_counted_as_empty() -> None:
    model = bart()
    ids, mask = torch.tensor([[0, 0, 0, 0], [5, 6, 7, 8]]), torch.tensor([[0] * 4, [1] * 4])
    with attach(model, LABELS) as observer:
        model(ids, attention_mask=mask)
    require_equal(observer.result(), probed(model, [[5, 6, 7, 8]]))
    assert observer.result().tally["n_empty"] == 1


# What is refused.


def test_without_patterns_the_way_out_is_named() -> None:
    """Under sdpa no hook fires, in any stack."""
    plain = tiny_models.bart()
    config = copy.deepcopy(plain.config)
    config._attn_implementation = "sdpa"
    model = helpers.bridge(type(plain)(config).eval())
    message = 'layers 0, 1 of the encoder and layers 0, 1 of the decoder and .* attn_implementation="eager"'
    with pytest.raises(PatternError, match=message):
        probed(model)
    with pytest.raises(PatternError, match=message), attach(model, LABELS):
        model(torch.tensor([[5, 6, 7]]))


def test_training_mode_of_either_stack_is_refused() -> None:
    model = bart()
    for part in (model.original_model.model.encoder.layers[0], model.original_model.model.decoder.layers[1]):
        part.training = True
        with pytest.raises(ValueError, match="all of the model must be in evaluation mode"):
            probed(model)
        part.training = False
    probed(model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"decoder_inputs_embeds": torch.zeros(1, 3, 24).double(), "decoder_input_ids": None}, "ids of the decoder"),
        ({"encoder_outputs": (torch.zeros(1, 3, 24).double(),)}, "this forward pass embedded none"),
    ],
)
def test_a_pass_without_ids_of_either_stack_is_refused_and_not_counted(given: dict, message: str) -> None:
    model = bart()
    with attach(model, LABELS) as observer:
        with pytest.raises(PatternError, match=message):
            model(torch.tensor([DOCUMENTS[0]]), **given)
        model(torch.tensor([DOCUMENTS[0]]))
    require_equal(observer.result(), probed(model, DOCUMENTS[:1]))
    assert observer.result().tally == {**probed(model, DOCUMENTS[:1]).tally}


def test_a_decoder_without_a_start_cannot_be_probed_and_can_be_attached_to() -> None:
    model = bart()
    model.original_model.config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="must have a decoder_start_token_id"):
        probed(model)
    with attach(model, LABELS) as observer:
        model(torch.tensor([DOCUMENTS[0]]), decoder_input_ids=torch.tensor([[5, 6]]))
    assert observer.result().totals.counts.sum(axis=1)[2, :4].sum() == 3


# What comes back.


def test_the_frame_tells_the_stacks_apart() -> None:
    result = probed(bart())
    frame = result.to_frame()
    assert list(frame.columns[:3]) == ["stack", "layer", "head"]
    assert [f"{row.stack} {row.layer}.{row.head}" for row in frame.itertuples()] == [
        f"{site.stack} {site.layer}.{head}" for site in SITES for head in range(3)
    ]
    assert result.visibility == dict(zip(SITES, matrix.ROWS["BART"].sees, strict=True))
    assert repr(result).startswith("AttentionResult(2 encoder layers x 3 heads + 2 decoder layers x 3 heads + 2 cross")
    headline = result.headline()
    assert headline.same_topic == pytest.approx(frame["same_topic"].mean(), rel=1e-12)
    assert headline.ratio == pytest.approx(frame["same_topic"].mean() / frame["cross_topic"].mean(), rel=1e-12)


def test_a_report_is_drawn_stack_by_stack() -> None:
    """One panel each, or one that is chosen."""
    from matplotlib import pyplot as plt

    report = probe(bart(), DOCUMENTS, LABELS, baseline=None, progress=False)
    curves = report.attention.distance_frame().query("stack == 'cross' and layer == 0 and head == 1")
    report.plot_distance(0, 1, ax=(ax := plt.figure().subplots()), stack="cross")
    drawn = np.concatenate([line.get_ydata() for line in ax.get_lines()])
    assert np.isin(curves["mean"].to_numpy(), drawn).any()
    with pytest.raises(ValueError, match="stack must be one that was measured, got 'sideways'"):
        report.plot_distance(stack="sideways")
    first = report.plot_heads()
    titles = [ax.get_title(loc="left").split("\n")[0] for ax in first.figure.axes if ax.get_xlabel()]
    assert titles == ["Encoder", "Decoder", "Decoder to encoder"]
    assert report.plot_heads(stack="cross").get_title(loc="left").startswith("Decoder to encoder\n")
    plt.close("all")


@pytest.mark.parametrize("kind", helpers.KINDS)
def test_a_model_of_one_stack_has_no_such_column(kind: str) -> None:
    result = probed(helpers.build(kind))
    assert "stack" not in result.to_frame().columns
    assert repr(result).startswith("AttentionResult(2 layers x 3 heads, ")
    assert [type(layer) for layer in result.visibility] == [int, int]


def test_layers_are_chosen_in_every_stack() -> None:
    model = bart()
    whole, last = probed(model), probed(model, layers=[-1])
    assert [site.name for site in last.totals.sites] == ["encoder.1", "decoder.1", "cross.1"]
    np.testing.assert_allclose(last.totals.sums, whole.totals.sums[[1, 3, 5]], rtol=RELATIVE)


def test_a_saved_report_comes_back_exactly(tmp_path: Path) -> None:
    report = probe(bart(), DOCUMENTS, LABELS, progress=False)
    report.save(tmp_path / "report")
    back = ProbeReport.load(tmp_path / "report")
    for one, other in zip(report.models.values(), back.models.values(), strict=True):
        assert one.attention.to_frame().equals(other.attention.to_frame())
        assert one.attention.totals.sites == other.attention.totals.sites
        assert one.attention.visibility == other.attention.visibility
        assert one.attention.unavailable_layers == other.attention.unavailable_layers == ()
    both = back.merge(report)
    np.testing.assert_array_equal(both.attention.totals.counts, 2 * report.attention.totals.counts)


def test_merging_equals_both_at_once() -> None:
    model = bart()
    one, other = probed(model, DOCUMENTS[:1]), probed(model, DOCUMENTS[1:])
    require_equal(one.merge(other), probed(model))
    with pytest.raises(ValueError, match="same layers"):
        one.merge(probed(model, layers=[0]))


# The twin, the pass, and the model itself.


def test_the_untrained_twin_is_an_encoder_decoder_of_fresh_weights() -> None:
    """Nothing is left of the trained one, in any stack; the same seed gives the same twin."""
    model = bart()
    one, again = untrained_twin(model, 0), untrained_twin(model, 0)
    assert not torch.allclose(one.W_E, model.W_E)
    assert torch.equal(one.W_E, again.W_E)
    report = probe(model, DOCUMENTS, LABELS, progress=False)
    assert report.baseline is not None
    untrained = report.baseline.attention
    assert untrained.totals.sites == SITES
    np.testing.assert_array_equal(untrained.totals.counts, report.attention.totals.counts)
    for site in range(len(SITES)):
        assert not np.allclose(untrained.totals.sums[site], report.attention.totals.sums[site])
    require_equal(untrained, probed(one))


def test_a_pass_ends_at_the_last_cross_attention_that_is_wanted() -> None:
    """Running order: the cross-attention of a layer comes after its attention to itself."""
    model = bart()
    seen: list[str] = []
    points = [name for name in model.hook_dict if name.endswith("hook_pattern")] + ["unembed.hook_out"]
    for layers, last in (([0], "decoder_blocks.0.cross_attn.hook_pattern"), ([1], points[-2])):
        names, _ = pattern_hooks(model, layers)
        seen.clear()
        with model.hooks(fwd_hooks=[(name, lambda tensor, hook: seen.append(hook.name)) for name in points]):
            run_until_pattern(model, torch.tensor([[5, 6, 7]], device=device_of(model)), None, {}, names)
        assert seen[-1] == last
    assert points[-2] == "decoder_blocks.1.cross_attn.hook_pattern"


def test_the_model_comes_back_as_it_was() -> None:
    """Weights, mode, the caller's own hooks in all stacks, also after a pass that fails."""
    model = bart()
    calls: list[str] = []
    mine = [name for name in model.hook_dict if name.endswith("hook_pattern")]
    for name in mine:
        model.hook_dict[name].add_hook(lambda tensor, hook: calls.append(hook.name))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    hooks = {name: len(point._forward_hooks) for name, point in model.hook_dict.items()}
    embeddings = [len(part._forward_pre_hooks) for part in (model.embed, model.decoder_embed)]
    probe(model, DOCUMENTS, LABELS, progress=False)
    with attach(model, LABELS):
        model(torch.tensor([[5, 6, 7]]))
        with pytest.raises(PatternError):
            model(
                torch.tensor([[5, 6, 7]]), decoder_inputs_embeds=torch.zeros(1, 3, 24).double(), decoder_input_ids=None
            )
    assert {name: len(point._forward_hooks) for name, point in model.hook_dict.items()} == hooks
    assert [len(part._forward_pre_hooks) for part in (model.embed, model.decoder_embed)] == embeddings
    assert not model.training
    assert "forward" not in model.__dict__
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    calls.clear()
    model(torch.tensor([[5, 6, 7]]))
    assert sorted(calls) == sorted(mine)


def test_nested_probes_each_count_all_stacks() -> None:
    model = bart()
    with attach(model, LABELS) as outer, attach(model, LABELS, layers=[1]) as inner:
        model(torch.tensor([DOCUMENTS[0]]))
    require_equal(outer.result(), probed(model, DOCUMENTS[:1]))
    require_equal(inner.result(), probed(model, DOCUMENTS[:1], layers=[1]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_narrow_models_are_summed_in_float64(dtype: torch.dtype) -> None:
    """No warning, no NaN; pairs are those of the wide model."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = probed(bart(dtype))
    np.testing.assert_array_equal(result.totals.counts, probed(bart()).totals.counts)
    assert np.isfinite(result.totals.sums).all()
    if dtype == torch.float32:
        np.testing.assert_allclose(result.totals.sums, probed(bart()).totals.sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_what_is_stated_of_the_stacks_is_what_they_see(visibility: str) -> None:
    """Either word says what is read off anyway."""
    require_equal(probed(bart(), visibility=visibility), probed(bart()))
