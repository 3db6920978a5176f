"""``probe_contextual`` against ``run_with_cache`` and loops over all pairs, one document at a time."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
import tiny_models
from topic_probes import CorpusError, EmbeddingResult, PatternError, TopicLabels, probe_contextual
from topic_probes.corpora import Document
from topic_probes.probes._contextual import stream_hooks
from topic_probes.statistics._vector_pairs import MEASURES, VECTOR_PAIR_CLASSES

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
needs_hooked = pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
ONE = "GPT-2 bridge" if helpers.HAS_BRIDGE else "HookedTransformer"
RELATIVE = 1e-9
"""Float64 models: other batches mean other orders of sums inside the model, and layers amplify them."""

_numbers = random.Random(0)
TOPICS = {token: tuple(sorted(_numbers.sample(range(4), _numbers.choice([1, 1, 2])))) for token in range(30)}
LABELS = TopicLabels.from_dict(TOPICS)
DOCUMENTS = [
    Document(id=str(number), token_ids=tuple(_numbers.randrange(50) for _ in range(length)))
    for number, length in enumerate((2, 3, *(_numbers.randrange(8, 20) for _ in range(12))))
]
LAYERS = (-1, 0, 1)


def run(model: Any, documents: Any = DOCUMENTS, labels: TopicLabels = LABELS, **options: Any) -> EmbeddingResult:
    return probe_contextual(model, documents, labels, **{"progress": False, **options})


def streams(model: Any, token_ids: Any) -> dict[int, np.ndarray]:
    """Layer -> [pos, d_model] of one document on its own: what the layer hands on to the next."""
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.tensor([list(token_ids)]))
    post = "hook_normalized_resid_post" if "blocks.0.hook_normalized_resid_post" in cache else "hook_resid_post"
    names = {-1: "blocks.0.hook_resid_pre", **{layer: f"blocks.{layer}.{post}" for layer in LAYERS[1:]}}
    return {layer: cache[name][0].double().numpy() for layer, name in names.items()}


Values = dict[tuple[int, str, str], list[float]]


def of_one_row(stream: np.ndarray, words: list[tuple[Any, list[int]]], topics: dict) -> dict[tuple[str, str], list]:
    """Every measure of every pair of labelled words of one row at one layer, one at a time."""
    found: dict[tuple[str, str], list] = {}
    at = [(word, stream[places].mean(axis=0)) for word, places in words if word in topics]
    if not at:
        return found
    places = {word: [vector for other, vector in at if other == word] for word, _ in at}
    for (one, x), (other, y) in itertools.combinations(at, 2):
        if one == other:
            continue
        name = "same_topic" if set(topics[one]) & set(topics[other]) else "cross_topic"
        found.setdefault(("dot", name), []).append(float(x @ y))
        found.setdefault(("cosine", name), []).append(float(x @ y / np.sqrt((x @ x) * (y @ y))))
        if len(places) >= 3:
            others = [sum(vectors) / len(vectors) for word, vectors in places.items() if word not in (one, other)]
            middle = sum(others) / len(others)
            a, b = x - middle, y - middle
            found.setdefault(("centred_cosine", name), []).append(float(a @ b / np.sqrt((a @ a) * (b @ b))))
    return found


def oracle(model: Any, rows: list[tuple[Any, list]], topics: dict) -> tuple[Values, dict]:
    """All values by layer, measure and class; and by layer and measure the rows' (weight, difference)."""
    values: Values = {}
    contrasts: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for token_ids, words in rows:
        for layer, stream in streams(model, token_ids).items():
            row = of_one_row(stream, words, topics)
            for (measure, name), found in row.items():
                values.setdefault((layer, measure, name), []).extend(found)
            for measure in MEASURES:
                same, cross = row.get((measure, "same_topic")), row.get((measure, "cross_topic"))
                if same and cross:
                    weight = len(same) * len(cross) / (len(same) + len(cross))
                    contrasts.setdefault((layer, measure), []).append((weight, np.mean(same) - np.mean(cross)))
    return values, contrasts


def require_oracle(result: EmbeddingResult, values: Values, contrasts: dict) -> None:
    frame = result.to_frame()
    assert len(frame) == len(result.layers) * len(MEASURES) * len(VECTOR_PAIR_CLASSES)
    for row in frame.itertuples():
        found = values.get((row.layer, row.measure, row.pair_class), [])
        assert row.n_pairs == len(found)
        assert row.mean == pytest.approx(np.mean(found), rel=RELATIVE, abs=1e-12)
        assert row.std == pytest.approx(np.std(found), rel=1e-7, abs=1e-12)
    for row in result.difference_frame().itertuples():
        weights, differences = np.array(contrasts[row.layer, row.measure]).T
        assert row.within_document == pytest.approx((weights @ differences) / weights.sum(), rel=1e-7, abs=1e-11)
        same, cross = (np.mean(values[row.layer, row.measure, name]) for name in VECTOR_PAIR_CLASSES)
        assert row.difference == pytest.approx(same - cross, rel=1e-7, abs=1e-11)


def rows_of_ids(documents: Any = DOCUMENTS) -> list:
    return [
        (document.token_ids, [(token, [at]) for at, token in enumerate(document.token_ids)]) for document in documents
    ]


@every_kind
def test_the_probe_equals_the_oracle(kind: str) -> None:
    """Whatever the batches and their pads; the oracle's model sees one document at a time."""
    model = helpers.build(kind)
    result = run(model, batch_size=5)
    assert result.layers == LAYERS
    require_oracle(result, *oracle(model, rows_of_ids(), TOPICS))


@every_kind
@pytest.mark.parametrize("words", ["whole", "merge"])
def test_words_of_text_equal_the_oracle(kind: str, words: str) -> None:
    """A plural is two tokens: no word, or the mean of both; the same word twice is no pair."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind, tokenizer=tokenizer)
    topics = {"cat": (0,), "dog": (0,), "bird": (1,), "dogs": (0,), "birds": (1,), "sun": (2,), "moon": (1, 2)}
    texts = ["the cat and the dogs with a bird and a cat sun", "sun of moon", "birds dogs cats in the moon bird dog"]
    rows = []
    for text in texts:
        at, parts = 1, []
        for word in text.split():
            n = 2 if word.endswith("s") and word not in helpers.WORDS else 1
            if n == 1 or words == "merge":
                parts.append((word, list(range(at, at + n))))
            at += n
        ids = tokenizer(text)["input_ids"]
        assert at + 1 == len(ids)
        rows.append((ids, parts))
    result = run(model, texts, TopicLabels.from_dict(topics), tokenizer=tokenizer, words=words, batch_size=2)
    require_oracle(result, *oracle(model, rows, topics))


@every_kind
def test_batches_and_order_change_nothing(kind: str) -> None:
    model = helpers.build(kind)
    one = run(model, batch_size=1)
    for batch_size, documents in ((3, DOCUMENTS), (100, DOCUMENTS[::-1]), (4, DOCUMENTS[5:] + DOCUMENTS[:5])):
        other = run(model, documents, batch_size=batch_size)
        np.testing.assert_array_equal(other.pairs.n_pairs, one.pairs.n_pairs)
        np.testing.assert_allclose(other.pairs.mean, one.pairs.mean, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(other.pairs.std, one.pairs.std, rtol=1e-8, atol=1e-12)


@every_kind
def test_merged_halves_are_the_whole(kind: str) -> None:
    """Numbers, intervals, tally and documents."""
    model = helpers.build(kind)
    whole, merged = run(model), run(model, DOCUMENTS[:5]).merge(run(model, DOCUMENTS[5:]))
    assert merged.tally == whole.tally
    np.testing.assert_array_equal(merged.pairs.counts, whole.pairs.counts)
    np.testing.assert_array_equal(merged.pairs.n_words, whole.pairs.n_words)
    assert whole.to_frame()["low"].notna().all()
    for frame in ("to_frame", "difference_frame"):
        one, other = (
            getattr(result, frame)().select_dtypes("number").to_numpy(dtype=float) for result in (merged, whole)
        )
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_results_of_another_kind_do_not_merge() -> None:
    model = helpers.build(ONE)
    one = run(model)
    for other, message in (
        (run(model, labels=TopicLabels.from_dict({**TOPICS, 3: 0, 4: 1})), "labels"),
        (run(model, max_length=9), "max_length"),
        (run(model, layers=[0]), "layers"),
        (run(model, weights="untrained"), "weights"),
        (run(helpers.build(ONE, seed=5)), "weights_digest"),
    ):
        with pytest.raises(ValueError, match=f"measured alike can be merged: .*{message}"):
            one.merge(other)
    with pytest.raises(TypeError, match="merged with an EmbeddingResult, got dict"):
        one.merge({})


def test_a_saved_result_comes_back_exactly(tmp_path: Path) -> None:
    result = run(helpers.build(ONE))
    result.save(tmp_path / "result")
    back = EmbeddingResult.load(tmp_path / "result")
    assert back.to_frame().equals(result.to_frame())
    assert back.difference_frame().equals(result.difference_frame())
    assert (back.layers, back.matrix, back.options) == (result.layers, result.matrix, result.options)
    assert (back.tally, back.seed, repr(back)) == (result.tally, result.seed, repr(result))
    np.testing.assert_array_equal(back.merge(run(helpers.build(ONE))).pairs.counts, 2 * result.pairs.counts)


@every_kind
def test_layers_are_chosen_and_the_rest_is_not_run(kind: str) -> None:
    """``-1`` among ``layers`` is the last layer, and ``"embedding"`` the stream before the first."""
    model = helpers.build(kind)
    whole = run(model)
    fired: list[str] = []
    for name in ("blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"):
        model.hook_dict[name].add_hook(lambda tensor, hook, name=name: fired.append(name))
    first = run(model, layers=["embedding"])
    assert fired == []
    assert first.layers == (-1,)
    second = run(model, layers=[0])
    assert set(fired) == {"blocks.0.attn.hook_pattern"}
    last = run(model, layers=[-1, "embedding"])
    assert last.layers == (-1, 1)
    for part, numbers in ((first, [0]), (second, [1]), (last, [0, 2])):
        np.testing.assert_allclose(part.pairs.mean, whole.pairs.mean[numbers], rtol=1e-12)


@pytest.mark.parametrize(
    ("layers", "kind_of_error", "message"),
    [
        ([2], ValueError, r"layers must be in \[0, 2\), or negative .* \"embedding\" .*, got 2"),
        ([-3], ValueError, "got -3"),
        ([], ValueError, "at least one layer"),
        ([True], TypeError, "got True"),
        (["last"], TypeError, "got 'last'"),
        ("embedding", TypeError, r"layers must be a list, such as layers=\[\"embedding\", 0, -1\]"),
    ],
)
def test_layers_that_do_not_exist_are_refused(layers: Any, kind_of_error: Any, message: str) -> None:
    with pytest.raises(kind_of_error, match=message):
        run(helpers.build(ONE), layers=layers)


# --------------------------------------------------------------------- which stream it is


IDS = torch.tensor([[5, 6, 7, 8, 9]])


def opened(name: str) -> tuple[Any, Any]:
    """A bridge around a tiny model of a family and its hidden states before; or a skip, with the reason."""
    from topic_probes.architectures import register

    register()
    hf_model = tiny_models.MODELS[name]().double()
    with torch.no_grad():
        found = hf_model(IDS, output_hidden_states=True)
    try:
        return getattr(found, "hidden_states", None), helpers.bridge(hf_model)
    except (ValueError, KeyError) as error:
        pytest.skip(f"this TransformerLens does not open {name}: {error}")


@needs_bridge
@pytest.mark.parametrize("name", [name for name in tiny_models.MODELS if name != "BART"])
def test_the_stream_is_what_transformers_calls_hidden_states(name: str) -> None:
    """In every family; of a decoder all but the last, which transformers gives after the final norm."""
    expected, model = opened(name)
    names, found = stream_hooks(model), {}

    def keep(tensor: torch.Tensor, hook: Any, layer: int) -> None:
        found[layer] = tensor

    with torch.no_grad(), model.hooks([(hook, partial(keep, layer=layer)) for layer, hook in names.items()]):
        model(IDS)
    assert list(names) == list(range(-1, len(expected) - 1))
    is_decoder = not any(part in name for part in ("BERT", "ELECTRA"))
    for layer, stream in list(found.items())[: -1 if is_decoder else None]:
        # Rotary positions are float32 in some models, whatever the weights are.
        largest = float(expected[layer + 1].abs().max())
        torch.testing.assert_close(stream, expected[layer + 1], rtol=0, atol=1e-5 * largest)


@needs_bridge
@needs_hooked
def test_hooked_classes_and_bridges_of_the_same_weights_agree() -> None:
    """BERT's norm comes after the layer: both read the vector behind it, though they name it differently."""
    weights = helpers.tiny_bert().double()
    one, other = run(helpers.hooked_encoder(weights)), run(helpers.bridge(weights))
    assert "hook_normalized_resid_post" in one.matrix
    np.testing.assert_allclose(one.pairs.mean, other.pairs.mean, rtol=1e-8, atol=1e-12)
    weights = helpers.tiny_gpt2().double()
    one, other = run(helpers.hooked_gpt2(weights)), run(helpers.bridge(weights))
    np.testing.assert_allclose(one.pairs.mean, other.pairs.mean, rtol=1e-8, atol=1e-12)


@needs_bridge
def test_an_encoder_decoder_is_refused_in_a_sentence() -> None:
    _, model = opened("BART")
    sentence = r"several stacks \(decoder_blocks, encoder_blocks\).*: give an encoder or a decoder alone"
    with pytest.raises(PatternError, match=sentence):
        run(model)


# --------------------------------------------------------------------------- a good guest


@every_kind
def test_one_stream_is_alive_at_a_time(kind: str) -> None:
    """Nothing of ours holds a layer's stream when it is done."""
    model = helpers.build(kind)
    alive: list[weakref.ref] = []
    names = list(stream_hooks(model).values())
    for name in names:
        model.hook_dict[name].add_hook(lambda tensor, hook: alive.append(weakref.ref(tensor.untyped_storage())))
    result = run(model)
    assert len(alive) >= len(names)
    del model
    gc.collect()
    assert result.layers == LAYERS
    assert [reference() for reference in alive] == [None] * len(alive)


@every_kind
def test_the_model_comes_back_as_it_was(kind: str) -> None:
    """Weights, mode, gradients and hooks; after an error as well."""
    model = helpers.build(kind)
    model(torch.tensor([[1, 2, 3]]))  # a bridge completes itself in its first pass

    def state() -> Any:
        return (
            {name: (value.dtype, value.double().sum().item()) for name, value in model.state_dict().items()},
            {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()},
            [(name, module.training, len(module._forward_hooks)) for name, module in model.named_modules()],
            repr(model.cfg),
            torch.is_grad_enabled(),
        )

    before = state()
    run(model)
    assert state() == before

    def fail(tensor: torch.Tensor, hook: Any) -> None:
        raise RuntimeError("of the caller")

    with (
        model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", fail)]),
        pytest.raises(RuntimeError, match="of the caller"),
    ):
        run(model)
    assert state() == before


@every_kind
def test_the_callers_own_hooks_act(kind: str) -> None:
    """What they make of the stream is what is measured."""
    model = helpers.build(kind)
    plain = run(model, layers=[1])
    name = stream_hooks(model, [1])[1]
    with model.hooks(fwd_hooks=[(name, lambda tensor, hook: tensor * 2)]):
        doubled = run(model, layers=[1])
    np.testing.assert_allclose(doubled.pairs.mean[0, 0], 4 * plain.pairs.mean[0, 0], rtol=1e-9)
    np.testing.assert_allclose(doubled.pairs.mean[0, 1:], plain.pairs.mean[0, 1:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_kind
def test_half_precision_models_are_probed_as_they_are(kind: str, dtype: torch.dtype) -> None:
    model = helpers.build(kind, dtype=torch.float32)
    wide = run(model)
    model.to(dtype)
    if hasattr(model.cfg, "dtype"):
        model.cfg.dtype = dtype
    narrow = run(model)
    np.testing.assert_array_equal(wide.pairs.n_pairs, narrow.pairs.n_pairs)
    np.testing.assert_allclose(narrow.pairs.mean[:, 1:], wide.pairs.mean[:, 1:], atol=0.1)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


def test_vectors_that_are_not_finite_are_left_out_and_counted() -> None:
    """As half precision overflows: the other words of the row count as if it were not there."""
    model = helpers.build(ONE)
    documents = [Document(id="a", token_ids=(1, 2, 3, 4, 5))]
    labels = TopicLabels.from_dict({1: 0, 2: 0, 3: 1, 4: 1, 5: 0})

    def overflow(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
        tensor = tensor.clone()
        tensor[0, 4, 3] = torch.inf
        return tensor

    with model.hooks(fwd_hooks=[("blocks.1.hook_resid_post", overflow)]):
        result = run(model, documents, labels)
    assert result.pairs.n_not_finite.tolist() == [0, 0, 1]
    without = {1: (0,), 2: (0,), 3: (1,), 4: (1,)}
    values, _ = oracle(model, rows_of_ids(documents), without)
    last = result.to_frame().query("layer == 1")
    for row in last.itertuples():
        found = values[1, row.measure, row.pair_class]
        assert row.n_pairs == len(found)
        assert row.mean == pytest.approx(np.mean(found), rel=1e-8)


@needs_hooked
def test_a_model_that_does_not_heed_its_mask_gets_no_pads() -> None:
    """A bidirectional HookedTransformer takes a mask and ignores it."""
    model = helpers.hooked_transformer(attention_dir="bidirectional", dtype=torch.float64)
    require_oracle(run(model, batch_size=5), *oracle(model, rows_of_ids(), TOPICS))


@needs_bridge
def test_compatibility_mode_counts_each_stream_once_and_is_never_entered() -> None:
    """A bridge then calls a hook once for each name of its hook point."""
    model = helpers.bridge(helpers.tiny_gpt2().double())
    plain = run(model)
    assert not model.compatibility_mode
    assert plain.matrix.endswith("(raw)")
    model.enable_compatibility_mode(disable_warnings=True)
    other = run(model)
    np.testing.assert_array_equal(other.pairs.n_pairs, plain.pairs.n_pairs)
    assert "compatibility mode" in other.matrix
    with pytest.raises(ValueError, match="measured alike"):
        plain.merge(other)


# ----------------------------------------------------------------------- what it says


@every_kind
def test_the_untrained_twin_sees_the_same_pairs(kind: str) -> None:
    """And the seed says which weights it draws."""
    model = helpers.build(kind)
    trained, untrained = run(model), run(model, weights="untrained")
    np.testing.assert_array_equal(trained.pairs.n_pairs, untrained.pairs.n_pairs)
    assert not np.allclose(trained.pairs.mean, untrained.pairs.mean)
    np.testing.assert_array_equal(run(model, weights="untrained").pairs.mean, untrained.pairs.mean)
    assert not np.allclose(run(model, weights="untrained", seed=1).pairs.mean, untrained.pairs.mean)
    assert (trained.options["weights"], untrained.options["weights"]) == ("trained", "untrained")


def test_pairs_never_cross_windows() -> None:
    """A long document is as many rows as it has windows, in one group of documents."""
    model = helpers.build(ONE)
    document = Document(id="long", token_ids=tuple(range(1, 25)))
    parts = [Document(id="part", token_ids=document.token_ids[start : start + 8]) for start in (0, 8, 16)]
    result = run(model, [document], max_length=8)
    require_oracle(result, *oracle(model, rows_of_ids(parts), TOPICS))
    assert result.pairs.n_rows.max() == result.pairs.n_rows.sum() == 3
    assert result.tally["n_windowed"] == 1


def test_one_topic_that_is_planted_is_found() -> None:
    """Words of a topic share a direction and others do not: within documents, with an interval."""
    model = helpers.build(ONE)
    topics = {token: token % 2 for token in range(2, 40)}
    generator = np.random.default_rng(0)
    documents = [Document(id=str(n), token_ids=tuple(generator.integers(2, 40, 20).tolist())) for n in range(60)]
    planted = torch.from_numpy(generator.normal(size=(2, helpers.SIZES["d_model"])))

    def plant(strength: float) -> EmbeddingResult:
        ids: list[torch.Tensor] = []
        handle = model.embed.register_forward_pre_hook(
            lambda module, args, kwargs: ids.append(args[0] if args else next(iter(kwargs.values()))), with_kwargs=True
        )
        push = lambda tensor, hook: tensor + strength * planted[ids[-1] % 2]  # noqa: E731
        try:
            with model.hooks(fwd_hooks=[("blocks.1.hook_resid_post", push)]):
                return run(model, documents, TopicLabels.from_dict(topics), layers=[1])
        finally:
            handle.remove()

    with_topic, without = (
        plant(strength).difference_frame().query("measure == 'centred_cosine'").iloc[0] for strength in (8.0, 0.0)
    )
    assert with_topic["within_document_low"] > 0.1
    assert with_topic["within_document_low"] < with_topic["within_document"] < with_topic["within_document_high"]
    assert abs(without["within_document"]) < 0.1 < with_topic["within_document"]


def test_repeated_words_of_a_document_do_not_look_like_topic() -> None:
    """Vectors that know nothing of topics, all at right angles, and documents that say one word of their topic often.

    A mean over places, the pair's own among them, gives -0.05 here.
    """
    generator = np.random.default_rng(0)
    model = helpers.build(ONE)
    vectors = torch.eye(helpers.SIZES["d_model"], dtype=torch.float64)
    documents = []
    for number in range(20):
        own = generator.permutation(8)[:5] + 8 * (number % 3)
        # As the subject of an article: six times, the rest once or twice.
        tokens = generator.permutation(np.r_[np.repeat(own[:1], 6), own, generator.permutation(24)[:8]])
        documents.append(Document(id=str(number), token_ids=tuple(tokens.tolist())))
    labels = TopicLabels.from_dict({token: token // 8 for token in range(24)})
    name = stream_hooks(model, ["embedding"])[-1]
    ids: list[torch.Tensor] = []
    handle = model.embed.register_forward_pre_hook(
        lambda module, args, kwargs: ids.append(args[0] if args else next(iter(kwargs.values()))), with_kwargs=True
    )
    with model.hooks(fwd_hooks=[(name, lambda tensor, hook: vectors[ids[-1]])]):
        result = run(model, documents, labels, layers=["embedding"])
    handle.remove()
    found = result.difference_frame().query("measure == 'centred_cosine'").iloc[0]
    assert found["within_document"] == pytest.approx(0, abs=1e-12)


def test_three_different_words_are_enough_to_centre_and_repeats_do_not_help() -> None:
    """The third word alone is the mean; the same word again is no third word."""
    model = helpers.build(ONE)
    topics = {1: (0,), 2: (0,), 3: (1,)}
    labels = TopicLabels.from_dict(topics)
    three, repeated = Document(id="a", token_ids=(1, 2, 3)), Document(id="b", token_ids=(1, 2, 1, 2, 1))
    require_oracle(run(model, [three], labels), *oracle(model, rows_of_ids([three]), topics))
    counts = run(model, [repeated], labels).pairs.n_pairs
    assert counts[0, :, 0].tolist() == [6, 6, 0]


def test_documents_of_two_words_have_no_centred_cosine() -> None:
    """There is no other word to take a mean of."""
    result = run(helpers.build(ONE), [Document(id="a", token_ids=(1, 2))], TopicLabels.from_dict({1: 0, 2: 0}))
    frame = result.to_frame().query("pair_class == 'same_topic'").set_index(["layer", "measure"])
    assert frame.loc[(0, "cosine"), "n_pairs"] == 1
    assert frame.loc[(0, "centred_cosine"), "n_pairs"] == 0
    assert np.isnan(frame.loc[(0, "centred_cosine"), "mean"])
    assert frame[["low", "high"]].isna().all(axis=None)


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "nothing in the corpus 'list' could be probed"),
        ([[]], "1 documents are empty"),
        ([[1, 2, 50]], "token id 50, outside the model's vocabulary of 50"),
        ([[44, 45], [1, 1]], "no two different labelled token ids met in the corpus 'list'"),
    ],
)
def test_a_corpus_that_cannot_be_probed_is_refused(documents: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        run(helpers.build(ONE), documents)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 33}, "max_length must be at most the model's context of 32 tokens, got 33"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_options_outside_their_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(helpers.build(ONE), **options)


def test_a_model_in_training_mode_is_refused() -> None:
    model = helpers.build(ONE)
    model.train()
    with pytest.raises(ValueError, match="evaluation mode"):
        run(model)
