"""``probe`` through real models of every kind, against four loops over one document at a time."""

from __future__ import annotations

import gc
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import CorpusError, PatternError, ProbeReport, TopicLabels, probe
from topic_probes.corpora import Document
from topic_probes.statistics._sums import BASIC_COLUMNS

every_kind = pytest.mark.parametrize("kind", helpers.KINDS)
RELATIVE = 1e-9
"""Float64 models: other batches mean other orders of sums inside the model, and layers amplify them."""

_numbers = random.Random(0)
TOPICS = {token: tuple(sorted(_numbers.sample(range(4), _numbers.choice([1, 1, 2])))) for token in range(40)}
LABELS = TopicLabels.from_dict(TOPICS)
DOCUMENTS = [[_numbers.randrange(50) for _ in range(_numbers.randrange(2, 20))] for _ in range(14)]


def totals(report: ProbeReport) -> tuple[np.ndarray, np.ndarray]:
    """[layer, head, column] sums and [layer, column] counts."""
    return helpers.basic_sums(report.attention.totals)


def run(model: Any, documents: Any = DOCUMENTS, labels: TopicLabels = LABELS, **options: Any) -> ProbeReport:
    return probe(model, documents, labels, **{"baseline": None, "progress": False, **options})


@every_kind
def test_probe_equals_the_oracle(kind: str) -> None:
    """Whatever the batches; the model sees one document at a time in the oracle."""
    model = helpers.build(kind)
    sums, counts = totals(run(model, batch_size=5))
    expected, expected_counts = helpers.oracle_sums(model, DOCUMENTS, TOPICS, causal=helpers.is_causal(kind))
    np.testing.assert_allclose(sums, expected, rtol=RELATIVE)
    assert counts.tolist() == [expected_counts.tolist()] * 2


@every_kind
@pytest.mark.parametrize("words", ["whole", "merge"])
def test_probe_of_text_equals_the_oracle(kind: str, words: str) -> None:
    """Ids as the tokenizer makes them; plurals are two tokens; [CLS] and [SEP] are special."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(kind, tokenizer=tokenizer)
    topics = {"cat": (0,), "dog": (0,), "bird": (1,), "dogs": (0,), "birds": (1,), "sun": (2,), "moon": (1, 2)}
    texts = ["the cat and the dogs, with a bird.", "Sun of moon", "birds. dogs. cats in the moon; bird", "a dog 7 suns"]
    pieces = [
        [("the", 1), ("cat", 1), ("and", 1), ("the", 1), ("dogs", 2), (",", 0), ("with", 1), ("a", 1), ("bird", 1)],
        [("sun", 1), ("of", 1), ("moon", 1)],
        [("birds", 2), (".", 0), ("dogs", 2), (".", 0), ("cats", 2), ("in", 1), ("the", 1), ("moon", 1), (";", 0)],
        [("a", 1), ("dog", 1), ("7", 0), ("suns", 2)],
    ]
    pieces[0].append((".", 0))
    pieces[2].append(("bird", 1))
    documents, parts, special = [], [], []
    for text, expected in zip(texts, pieces, strict=True):
        ids = tokenizer(text)["input_ids"]
        at, found = 1, []
        for word, n in expected:
            if n == 1 or (n == 2 and words == "merge"):
                found.append((word, list(range(at, at + n))))
            at += max(n, 1)
        assert at + 1 == len(ids)
        documents.append(ids)
        parts.append(found)
        special.append([0, len(ids) - 1])
    # The model's own tokenizer may differ: TransformerLens makes a new one that drops [SEP] where there is a BOS.
    report = run(model, texts, TopicLabels.from_dict(topics), tokenizer=tokenizer, words=words, batch_size=3)
    sums, counts = totals(report)
    expected_sums, expected_counts = helpers.oracle_sums(
        model, documents, topics, causal=helpers.is_causal(kind), words=parts, special=special
    )
    np.testing.assert_allclose(sums, expected_sums, rtol=RELATIVE, atol=1e-13)
    assert counts[0].tolist() == expected_counts.tolist()
    assert report.attention.to_frame()["sink_mass"].between(0, 1).all()


@every_kind
def test_batches_order_and_padding_change_nothing(kind: str) -> None:
    model = helpers.build(kind)
    documents = [Document(id=str(number), token_ids=tuple(ids)) for number, ids in enumerate(DOCUMENTS)]
    one = run(model, documents, batch_size=1).attention.totals
    for batch_size, order in ((3, documents), (100, documents[::-1]), (4, documents[5:] + documents[:5])):
        other = run(model, order, batch_size=batch_size).attention.totals
        np.testing.assert_allclose(other.sums, one.sums, rtol=RELATIVE)
        np.testing.assert_allclose(other.counts, one.counts, rtol=RELATIVE)
        np.testing.assert_array_equal(other.n_rows, one.n_rows)


@every_kind
def test_merging_equals_both_at_once(kind: str) -> None:
    model = helpers.build(kind)
    documents = [Document(id=str(number), token_ids=tuple(ids)) for number, ids in enumerate(DOCUMENTS)]
    both = run(model, documents).attention
    merged = run(model, documents[:5]).attention.merge(run(model, documents[5:]).attention)
    np.testing.assert_allclose(merged.totals.sums, both.totals.sums, rtol=RELATIVE)
    np.testing.assert_allclose(merged.totals.counts, both.totals.counts, rtol=RELATIVE)
    assert merged.tally == both.tally
    assert merged.visibility == both.visibility
    np.testing.assert_allclose(merged.to_frame().to_numpy(), both.to_frame().to_numpy(), rtol=1e-8)


def test_results_of_other_labels_or_options_do_not_merge() -> None:
    model = helpers.build(helpers.KINDS[0])
    one = run(model).attention
    for other in (
        run(model, labels=TopicLabels.from_dict({**TOPICS, 3: 0, 4: 0})),
        run(model, max_length=9),
        run(model, long_documents="truncate"),
    ):
        with pytest.raises(ValueError, match="measured alike"):
            one.merge(other.attention)
    with pytest.raises(ValueError, match="same layers"):
        one.merge(run(model, layers=[0]).attention)
    trained, untrained = (r.attention for r in run(model, baseline="random_init").models.values())
    with pytest.raises(ValueError, match="weights"):
        trained.merge(untrained)


@every_kind
def test_a_saved_report_comes_back_exactly(kind: str, tmp_path: Path) -> None:
    report = run(helpers.build(kind), baseline="random_init")
    report.save(tmp_path / "report")
    back = ProbeReport.load(tmp_path / "report")
    for one, other in zip(report.models.values(), back.models.values(), strict=True):
        np.testing.assert_array_equal(one.attention.totals.sums, other.attention.totals.sums)
        np.testing.assert_array_equal(one.attention.totals.counts, other.attention.totals.counts)
        assert (one.attention.tally, one.attention.options) == (other.attention.tally, other.attention.options)
        assert (one.attention.visibility, one.attention.seed) == (other.attention.visibility, other.attention.seed)
    assert back.to_frame().equals(report.to_frame())
    assert back.headline_frame().equals(report.headline_frame())
    assert back.embedding_frame().equals(report.embedding_frame())


# ------------------------------------------------------- the same weights, another class

needs_both = pytest.mark.skipif(
    not (helpers.HAS_HOOKED and helpers.HAS_BRIDGE), reason="this TransformerLens has no bridge beside Hooked classes"
)


@needs_both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["BERT", "GPT-2"])
def test_hooked_classes_and_bridges_of_the_same_weights_agree(family: str, dtype: torch.dtype) -> None:
    """In every column to 1e-5; in float64 by four orders better, so what is left is rounding."""
    weights = (helpers.tiny_bert() if family == "BERT" else helpers.tiny_gpt2()).to(dtype)
    hooked = (helpers.hooked_encoder if family == "BERT" else helpers.hooked_gpt2)(weights)
    one, other = run(hooked), run(helpers.bridge(weights))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    # A difference of two means near 1 has their absolute rounding.
    frames = (result.attention.to_frame().to_numpy() for result in (one, other))
    np.testing.assert_allclose(*frames, rtol=tolerance, atol=tolerance)
    assert one.embedding is not None
    assert other.embedding is not None
    np.testing.assert_allclose(one.embedding.pairs.mean, other.embedding.pairs.mean, rtol=1e-6)


# ------------------------------------------------------------------- visibility, sdpa

BRIDGE_MISSING = pytest.param("", marks=pytest.mark.skip(reason="this TransformerLens has no bridge"))


@pytest.mark.parametrize("kind", [kind for kind in helpers.KINDS if "bridge" in kind] or [BRIDGE_MISSING])
def test_what_a_query_sees_is_read_off_whatever_the_configuration_says(kind: str) -> None:
    model = helpers.build(kind)
    before = getattr(model.cfg, "attention_dir", None)
    model.cfg.attention_dir = "bidirectional" if helpers.is_causal(kind) else "causal"
    expected = "causal" if helpers.is_causal(kind) else "bidirectional"
    assert set(run(model).attention.visibility.values()) == {expected}
    model.cfg.attention_dir = before


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_local_layer_beside_a_global_one() -> None:
    model = helpers.hooked_transformer(
        use_local_attn=True, attn_types=["local", "global"], window_size=5, dtype=torch.float64
    )
    report = run(model)
    assert report.attention.visibility == {0: "causal, window of 5", 1: "causal"}
    assert report.attention.pair_counts["same_topic"] == report.attention.totals.counts[1, :, 1].sum()
    patterns = [helpers.patterns(model, ids) for ids in DOCUMENTS]
    expected = sum(
        pattern[0, 0, query, key] * min(query + 1, 5)
        for ids, pattern in zip(DOCUMENTS, patterns, strict=True)
        for query in range(len(ids))
        for key in range(max(0, query - 4), query + 1)
    )
    assert totals(report)[0][0, 0, :4].sum() == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_a_model_that_makes_no_patterns_is_refused() -> None:
    """With sdpa a bridge records nothing, silently."""
    with pytest.raises(PatternError, match=r'layers 0, 1 of .* never came: .*attn_implementation="eager"'):
        run(helpers.bridge(helpers.tiny_bert(attention="sdpa")))


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")
def test_compatibility_mode_counts_each_pattern_once() -> None:
    """A bridge then calls a hook once for each name of its hook point; the function stays the same."""
    plain, compatible = helpers.bridge(helpers.tiny_gpt2().double()), helpers.bridge(helpers.tiny_gpt2().double())
    compatible.enable_compatibility_mode(disable_warnings=True)
    one, other = totals(run(plain)), totals(run(compatible))
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)


# -------------------------------------------------------------------- the work that is done


@every_kind
def test_the_model_runs_no_further_than_the_last_layer_wanted(kind: str) -> None:
    model = helpers.build(kind)
    fired: list[str] = []
    watched = ["blocks.0.attn.hook_pattern", "blocks.0.hook_resid_post", "blocks.1.attn.hook_pattern"]
    for name in [name for name in watched if name in model.hook_dict]:
        model.hook_dict[name].add_hook(lambda tensor, hook, name=name: fired.append(name))
    report = run(model, layers=[0])
    assert set(fired) == {"blocks.0.attn.hook_pattern"}
    assert report.attention.totals.layers == (0,)
    np.testing.assert_allclose(totals(report)[0][0], totals(run(model))[0][0], rtol=1e-12)
    np.testing.assert_allclose(totals(run(model, layers=[-1]))[0][0], totals(run(model))[0][1], rtol=1e-12)


@every_kind
def test_at_most_one_layers_pattern_is_alive(kind: str) -> None:
    """Nothing of ours holds a pattern when the next one comes, and none is held afterwards."""
    model = helpers.build(kind)
    alive: list[weakref.ref] = []
    most = 0

    def watch(tensor: torch.Tensor, hook: Any) -> None:
        nonlocal most
        alive.append(weakref.ref(tensor.untyped_storage()))
        storages = {id(reference()) for reference in alive if reference() is not None}
        most = max(most, len(storages))

    for layer in (0, 1):
        model.hook_dict[f"blocks.{layer}.attn.hook_pattern"].add_hook(watch)
    report = run(model, [list(range(20))] * 4, batch_size=2)
    assert len(alive) == 4
    assert report.attention.n_documents == 4
    assert most <= 2  # that of the layer at hand, and of the model's own still unfinished last one
    del model  # some bridges keep their last pattern themselves
    gc.collect()
    assert [reference() for reference in alive] == [None] * 4


@every_kind
def test_the_untrained_twin_sees_the_same_pairs(kind: str) -> None:
    report = run(helpers.build(kind), baseline="random_init")
    assert report.baseline is not None
    np.testing.assert_array_equal(totals(report)[1], totals(report.baseline)[1])
    assert not np.allclose(totals(report)[0], totals(report.baseline)[0])
    assert report.attention.options["weights"] == "trained"
    assert report.baseline.attention.options["weights"] == "untrained"
    again = run(helpers.build(kind), baseline="random_init").baseline
    assert again is not None
    np.testing.assert_array_equal(totals(again)[0], totals(report.baseline)[0])


@every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_are_probed_as_they_are(kind: str, dtype: torch.dtype) -> None:
    model = helpers.build(kind, dtype=torch.float32)
    wide = totals(run(model))
    model.to(dtype)
    if hasattr(model.cfg, "dtype"):
        model.cfg.dtype = dtype
    narrow = totals(run(model))
    np.testing.assert_array_equal(wide[1], narrow[1])
    np.testing.assert_allclose(narrow[0], wide[0], rtol=0.5)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


# ------------------------------------------------------------------------------ bad input


def test_long_documents_are_windowed_truncated_skipped_or_refused() -> None:
    model = helpers.build(helpers.KINDS[0])
    n_long = sum(len(ids) > 9 for ids in DOCUMENTS)
    assert run(model, max_length=9).attention.tally["n_windowed"] == n_long
    assert run(model, max_length=9, long_documents="truncate").attention.tally["n_truncated"] == n_long
    assert run(model, max_length=9, long_documents="skip").attention.tally["n_skipped"] == n_long
    with pytest.raises(CorpusError, match='more than max_length=9: pass long_documents="window"'):
        run(model, max_length=9, long_documents="error")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "nothing in the corpus 'list' could be probed"),
        ([[]], "1 documents are empty"),
        ([[1, 2, 50]], r"token id 50, outside the model's vocabulary of 50"),
        ([[1, -1]], r"token id -1, outside"),
        ([[44, 45], [46, 47]], "no two labelled token ids met in the corpus 'list'"),
        (["the cat"], "is text, and there is no tokenizer"),
    ],
)
@every_kind
def test_a_corpus_that_cannot_be_probed_is_refused(kind: str, documents: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        run(helpers.build(kind), documents)


def test_labels_that_match_no_token_are_refused() -> None:
    model = helpers.build(helpers.KINDS[0], tokenizer=helpers.tiny_tokenizer())
    with pytest.raises(CorpusError, match=r"no two labelled words met .* one language"):
        run(model, ["the cat and the dog"], TopicLabels.from_dict({"chat": 0, "chien": 0}))


def test_labels_of_words_need_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="labels of words need a tokenizer"):
        run(helpers.build(helpers.KINDS[0]), ["the cat"], TopicLabels.from_dict({"cat": 0}))


def test_a_corpus_that_can_be_read_only_once_is_refused() -> None:
    with pytest.raises(TypeError, match="can be read more than once"):
        run(helpers.build(helpers.KINDS[0]), (ids for ids in DOCUMENTS))


@every_kind
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 33}, r"max_length must be at most the model's context of 32 tokens, got 33"),
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"layers": [5]}, r"layers must be in \[0, 2\)"),
    ],
)
def test_options_outside_their_range_are_refused(kind: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(helpers.build(kind), **options)


def test_a_pad_id_outside_the_models_vocabulary_does_no_harm() -> None:
    """A tokenizer to which a pad token was added that the model has no row for."""
    tokenizer = helpers.tiny_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "[NEW]"})
    for number in range(30):
        tokenizer.add_tokens(f"extra{number}")
    tokenizer.pad_token = "extra29"
    assert tokenizer.pad_token_id >= helpers.N_WORDS
    model = helpers.build(helpers.KINDS[0])
    labels = TopicLabels.from_dict({"cat": 0, "dog": 0, "sun": 1})
    report = run(model, ["the cat and the dog", "sun"], labels, tokenizer=tokenizer)
    assert report.attention.pair_counts["same_topic"] == (1 if helpers.is_causal(helpers.KINDS[0]) else 2)


def test_columns_are_what_the_oracle_calls_them() -> None:
    import oracles

    assert (*oracles.CLASSES, "special") == BASIC_COLUMNS


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_model_that_does_not_heed_its_mask_gets_no_pads() -> None:
    """A bidirectional HookedTransformer takes a mask and ignores it; its rows go in by length then."""
    model = helpers.hooked_transformer(attention_dir="bidirectional", dtype=torch.float64)
    sums, counts = totals(run(model, batch_size=5))
    expected, expected_counts = helpers.oracle_sums(model, DOCUMENTS, TOPICS, causal=False)
    np.testing.assert_allclose(sums, expected, rtol=RELATIVE)
    assert counts.tolist() == [expected_counts.tolist()] * 2
    report = run(model, batch_size=5, baseline="random_init")
    assert report.baseline is not None
    assert report.baseline.attention.pair_counts == report.attention.pair_counts


def test_a_tokenizer_of_far_fewer_tokens_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ids fit, and mean other words: plausible numbers would come out without a word."""
    tokenizer = helpers.tiny_tokenizer()
    model = helpers.build(helpers.KINDS[0], tokenizer=tokenizer)
    monkeypatch.setattr(type(tokenizer), "__len__", lambda self: model.cfg.d_vocab // 11)
    labels = TopicLabels.from_dict({word: number % 2 for number, word in enumerate(helpers.WORDS[:8])})
    texts = [" ".join(helpers.WORDS[:8])] * 3
    with pytest.warns(UserWarning, match=r"the tokenizer has \d+ tokens, and the model \d+: if it is another model's"):
        probe(model, texts, labels, tokenizer=tokenizer, baseline=None, n_permutations=0, progress=False)
