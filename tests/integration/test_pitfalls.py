"""Known pitfalls of the libraries underneath, on every family of models that the installed TransformerLens opens.

Each is a kind of fault that users of such tools have met. Where it is tested:

What the model hands out
    a class that vanished between releases    test_architecture.py; test_versions.py
    sdpa makes no pattern, silently           here: test_without_eager_attention_...; test_probe.py, test_attach.py
    layers without attention, silent hooks    here: test_a_layer_without_attention_..., test_a_real_..._hybrid_...;
                                              test_hooks.py, test_stacks.py
    hooks of the user, or left behind         here: test_the_model_and_the_users_hooks_...; test_model_untouched.py
    a cache of every pattern                  test_probe.py: test_at_most_one_layers_pattern_is_alive
    bf16, fp16                                here: test_pads_on_either_side_...; test_probe.py, test_encoder_decoder.py
    rows whose keys are all masked            here: test_queries_that_see_nothing_..., test_a_row_of_pads_...;
                                              test_visibility.py
    attention to pads, missing masks          here: test_pads_without_a_mask_...; test_attach.py, test_probe.py,
                                              test_encoder_decoder.py
    padding on the left or on the right       here: test_pads_on_either_side_...; test_attach.py,
                                              test_encoder_decoder.py
    BOS doubled, forced or dropped            here: test_special_tokens_are_found_by_id_...; test_tokens_words.py,
                                              test_tokens_windows.py; of text: test_attach.py, test_probe.py
    a configuration that says causal of BERT  test_matrix.py; test_probe.py
    documents longer than the context         here: test_documents_around_the_context_...; test_tokens_windows.py
    grouped queries                           test_matrix.py (heads are the pattern's); test_dual_heads.py (weights)
    folded or centred embeddings              test_embedding_processing.py; test_hooks.py
    attention sinks, rows that sum to less    here: test_rows_that_sum_to_less_than_one_..., test_a_real_sink_...;
                                              test_visibility.py

Words, topics, corpora
    word_ids() missing, all 0 or None         here: test_what_a_tokenizer_says_of_words_...; test_tokens_words.py (no
                                              offsets, all offsets 0, spelling)
    byte-level offsets, one character in      here: test_text_of_many_bytes_...; test_tokens_words.py,
    several tokens                            test_tokens.py (properties)
    get_term_topics drops words               test_topic_model.py: shares are Bayes' rule over get_topics()
    empty documents, unseen words             test_tokens_windows.py, test_fit_lda.py, test_probe.py
    NaN or identical topics                   test_fit_lda.py, test_topic_model.py
    LdaMulticore                              test_fit_lda.py: one process, several by request
    pickles                                   test_topic_model.py: no pickle; a gensim file by trust alone
    old names and scripts of datasets         test_huggingface.py
    streams that lose or repeat rows          test_huggingface.py, test_corpora.py (properties)
"""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import transformers

import helpers
import matrix
import oracles
import tiny_models
import tiny_tokenizers
import token_oracles
from topic_probes import AttentionResult, CorpusError, PatternError, TopicLabels, attach, probe
from topic_probes.probes._hooks import mask_argument, pattern_hooks

pytestmark = [
    pytest.mark.filterwarnings("ignore:A hook on attention.hook_pattern:UserWarning"),  # of BERT in 4.x
]

RELATIVE = 1e-9
"""Both sides sum the same numbers in float64."""
OTHER_BATCHES = 1e-5
"""Other batches, other orders of sums: float64, but some libraries compute rotations and norms in float32."""

ALL = matrix.cases({name: row for name, row in matrix.ROWS.items() if row.readme})
"""Variants of a family, which the README does not list, go with it."""
ONE_STACK = [(name, way) for name, way in ALL if name != "BART"]
"""The encoder-decoder has these tests, stack by stack, in test_encoder_decoder.py."""

every_family = pytest.mark.parametrize(("name", "way"), ALL)
every_family_of_one_stack = pytest.mark.parametrize(("name", "way"), ONE_STACK)

LABELS = TopicLabels.from_dict(matrix.TOPICS)
WORDS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1, "bird": 0, "milk": 2})
"""Ids 5, 6, 9, 7 and 14 of the tiny tokenizer."""
CONTEXT = tiny_models.N_CONTEXT


@functools.cache
def opened(name: str, way: str, dtype: torch.dtype = torch.float64) -> Any:
    """A model of a family, the same one for all tests: each has to leave it as it was."""
    if way in (matrix.BRIDGE, matrix.OURS):
        from topic_probes import architectures

        architectures.register()
        return helpers.bridge(tiny_models.MODELS[name]().to(dtype))
    model = matrix.open_model(name, way)
    if dtype != torch.float64:
        model.to(dtype)
        model.cfg.dtype = dtype
    return model


LIGHT = {"n_permutations": 0, "topic_matrices": False}


def probed(model: Any, documents: Any, labels: TopicLabels = LABELS, **options: Any) -> AttentionResult:
    return probe(model, documents, labels, baseline=None, progress=False, **LIGHT, **options).attention


def attached(model: Any, labels: TopicLabels, tokenizer: Any = None, **options: Any) -> Any:
    return attach(model, labels, tokenizer, **LIGHT, **options)


def ids_of(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng((seed, length)).integers(3, 20, size=length).tolist()


@contextmanager
def hooked(model: Any, function: Callable[..., Any], layers: list[int] | None = None) -> Iterator[None]:
    """A hook of the user's on the patterns of some layers; the probe's own come after it."""
    names, _ = pattern_hooks(model, layers)
    with model.hooks(fwd_hooks=[(name, function) for name in names.values()]):
        yield


@contextmanager
def recorded(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """What the model goes on with, in float64, by the name of its hook."""
    found: dict[str, torch.Tensor] = {}

    def keep(tensor: torch.Tensor, hook: Any) -> None:
        found.setdefault(hook.name, tensor.detach().double().clone())

    with hooked(model, keep):
        yield found


def require_loops(
    result: AttentionResult,
    patterns: dict[str, torch.Tensor],
    ids: torch.Tensor,
    real: torch.Tensor,
    sees: tuple[str, ...],
    *,
    topics: dict | None = None,
    special: tuple[int, ...] = (),
) -> None:
    """The result of one batch is that of four loops over the real part of each pattern; ids are words."""
    sums, counts = [], []
    for pattern, rule in zip(patterns.values(), sees, strict=True):
        of_heads: Any = 0.0
        of_layer: Any = 0
        for row, kept, tokens in zip(pattern, real, ids, strict=True):
            if not kept.any():
                continue
            held = tokens[kept].tolist()
            parts = [(token, [at]) for at, token in enumerate(held) if token not in special]
            at_special = [at for at, token in enumerate(held) if token in special]
            found = [
                oracles.attention_by_class(
                    head[kept][:, kept].tolist(), parts, topics or matrix.TOPICS, matrix.may_see(rule), at_special
                )
                for head in row
            ]
            of_heads = of_heads + np.array([[*one[0].values(), one[2]] for one in found])
            of_layer = of_layer + np.array([*found[0][1].values(), found[0][3]])
        sums.append(of_heads)
        counts.append(of_layer)
    found_sums, found_counts = helpers.basic_sums(result.totals)
    np.testing.assert_array_equal(found_counts, counts)
    np.testing.assert_allclose(found_sums, sums, rtol=RELATIVE, atol=1e-12)


def run(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None) -> None:
    with torch.no_grad():
        model(ids, **({} if mask is None else {str(mask_argument(model)): mask}))


# Pads, masks, precision.


def batch(side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents of unequal lengths and a row of pads alone."""
    documents = [*matrix.documents(), []]
    ids = torch.zeros(len(documents), max(map(len, documents)), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        where = slice(0, len(document)) if side == "right" else slice(ids.shape[1] - len(document), None)
        ids[row, where], mask[row, where] = torch.tensor(document, dtype=torch.int64), 1
    return ids, mask


@every_family_of_one_stack
@pytest.mark.parametrize(
    ("side", "dtype"), [("right", torch.bfloat16), ("left", torch.float32), ("left", torch.float16)]
)
def test_pads_on_either_side_count_nowhere_and_narrow_patterns_are_summed_in_float64(
    name: str, way: str, side: str, dtype: torch.dtype
) -> None:
    """The sums are those of loops in float64 over the patterns as they are, pads cut out; a row of pads is empty."""
    model = opened(name, way, dtype)
    ids, mask = batch(side)
    # In float16 a weight below 6e-8 is 0, and the heads of some of these models are that sharp: state what is seen.
    stated = "bidirectional" if dtype == torch.float16 and "causal" not in matrix.ROWS[name].sees[0] else "read"
    with recorded(model) as patterns, attached(model, LABELS, visibility=stated) as observer:
        run(model, ids, mask)
    result = observer.result()
    require_loops(result, patterns, ids, mask.bool(), matrix.ROWS[name].sees)
    assert result.tally["n_tokens"] == sum(matrix.LENGTHS)
    assert result.tally["n_empty"] == 1
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


@every_family_of_one_stack
def test_pads_without_a_mask_are_told_by_id_or_said_to_be_attended_to(name: str, way: str) -> None:
    """A causal model never sees pads behind a text; a bidirectional one does, and they count as tokens then."""
    model, tokenizer = opened(name, way), helpers.tiny_tokenizer()
    ids = torch.tensor([[2, 5, 6, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
    causal = "causal" in matrix.ROWS[name].sees[0]
    with warnings.catch_warnings(record=True) as said, attached(model, WORDS, tokenizer) as observer:
        warnings.simplefilter("always")
        run(model, ids)
    messages = [str(one.message) for one in said if "pads at the ends" in str(one.message)]
    assert len(messages) == (0 if causal else 1)
    assert observer.result().tally["n_tokens"] == (10 if causal else 12)
    assert observer.result().tally["n_words_taking_part"] == 6


@every_family
def test_a_row_of_pads_alone_is_empty_and_probes_own_batches_do_not_depend_on_their_size(name: str, way: str) -> None:
    """Rows of one token beside rows of many: `probe` gives its batches a mask, or no pads where that does not help."""
    model = opened(name, way)
    documents = [ids_of(length) for length in (1, 30, 2, 17, 9)]
    one, many = (probed(model, documents, batch_size=size) for size in (1, 5))
    np.testing.assert_allclose(many.totals.sums, one.totals.sums, rtol=OTHER_BATCHES, atol=1e-9)
    np.testing.assert_allclose(many.totals.counts, one.totals.counts, rtol=RELATIVE)
    assert not many.totals.n_excluded_rows.any()
    assert probed(model, [*documents, []]).tally["n_empty"] == 1


@every_family_of_one_stack
def test_queries_that_see_nothing_are_left_out_and_counted(name: str, way: str) -> None:
    """In the last layer, by a hook: two queries, or all of the row, which leaves a document without a pair."""
    model = opened(name, way)
    last = len(matrix.ROWS[name].sees) - 1
    sees = matrix.may_see(matrix.ROWS[name].sees[last])
    rows = torch.tensor([ids_of(9), ids_of(9, seed=1)])
    _, plain_counts = helpers.basic_sums(probed(model, rows.tolist()).totals)
    for nothing, which in ((0.0, [0, 3]), (float("nan"), [0, 3]), (float("nan"), list(range(9)))):

        def mask_out(tensor: torch.Tensor, hook: Any, nothing: float = nothing, which: list[int] = which) -> Any:
            patched = tensor.clone()
            patched[0, :, which] = nothing
            return patched

        with hooked(model, mask_out, [last]), attached(model, LABELS) as observer:
            run(model, rows)
        sums, counts = helpers.basic_sums(observer.result().totals)
        assert observer.result().totals.n_excluded_rows.tolist() == [0] * last + [len(which)]
        assert np.isfinite(sums).all()
        np.testing.assert_array_equal(counts[:last], plain_counts[:last])
        lost = sum(sees(query, key) for query in which for key in range(9))
        assert counts[last, :4].sum() == plain_counts[last, :4].sum() - lost


@every_family_of_one_stack
def test_rows_that_sum_to_less_than_one_count_as_they_are(name: str, way: str) -> None:
    """As with a learned sink that is no position: 40 % of the attention is 40 % of every sum, and nothing is lost."""
    model = opened(name, way)
    rows = torch.tensor([ids_of(9), ids_of(9, seed=1)])
    with hooked(model, lambda tensor, hook: 0.4 * tensor, [-1]), attached(model, LABELS) as observer:
        run(model, rows)
    totals, plain = observer.result().totals, probed(model, rows.tolist()).totals
    np.testing.assert_allclose(totals.sums[-1].sum(axis=1), 0.4 * plain.sums[-1].sum(axis=1), rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(totals.counts[-1].sum(axis=0), plain.counts[-1].sum(axis=0))
    assert not totals.n_excluded_rows.any()


REAL_ONES = {
    "GptOss": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "num_local_experts": 2},
    "Qwen3Next": {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_value_heads": 2,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "num_experts": 2,
    },
}
"""Families that have what is made up by hooks here: a learned sink in each head; a layer without attention."""


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x does not open them")
@pytest.mark.parametrize("family", REAL_ONES)
def test_a_real_sink_and_a_real_hybrid_are_probed_as_transformers_computes_them(family: str) -> None:
    """Sums of all layers with attention are those of loops over transformers' own; the other layer is named."""
    if not hasattr(transformers, f"{family}ForCausalLM"):
        pytest.skip(f"this transformers has no {family}")
    options = {**tiny_models._GROUPED, **REAL_ONES[family], "head_dim": 8, "num_experts_per_tok": 1}
    kind, config = f"{family}ForCausalLM", f"{family}Config"
    reference = tiny_models._build(kind, config, **options)
    try:
        result = probed(helpers.bridge(tiny_models._build(kind, config, **options)), matrix.documents())
    except AttributeError as error:
        pytest.skip(f"this transformer-lens cannot run {family}: {error!s:.80}")
    expected: Any = 0.0
    for ids in matrix.documents():
        with torch.no_grad():
            given = reference(torch.tensor([ids]), output_attentions=True).attentions
        # Only the sinks' family has a window here, in its first layer.
        rules = ["causal, window of 4" if family == "GptOss" else "causal", "causal"][-len(given) :]
        words = [(token, [at]) for at, token in enumerate(ids)]
        expected = expected + np.array(
            [
                list(oracles.attention_by_class(head, words, matrix.TOPICS, matrix.may_see(rule))[0].values())
                for layer, rule in zip(given, rules, strict=True)
                for head in layer[0].double().numpy()
            ]
        ).reshape(len(given), -1, 4)
    np.testing.assert_allclose(helpers.basic_sums(result.totals)[0][..., :4], expected, rtol=1e-4, atol=1e-5)
    assert result.unavailable_layers == ((0,) if family == "Qwen3Next" else ())
    assert not result.totals.n_excluded_rows.any()


# Layers, patterns, hooks.


@every_family
def test_a_layer_without_attention_is_named_and_the_others_count_as_ever(name: str, way: str) -> None:
    """As in a hybrid: one pattern hook is missing."""
    model = opened(name, way)
    documents = [ids_of(9), ids_of(12)]
    whole = probed(model, documents)
    missing, hook = next(iter(pattern_hooks(model)[0].items()))
    points = {key: point for key, point in model.hook_dict.items() if key != hook}
    where = type(model) if isinstance(getattr(type(model), "hook_dict", None), property) else model
    with mock.patch.object(where, "hook_dict", points):
        part = probed(model, documents)
    assert part.unavailable_layers == (missing.key,)
    assert whole.unavailable_layers == ()
    np.testing.assert_allclose(part.totals.sums, whole.totals.sums[1:], rtol=RELATIVE, atol=1e-12)


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, way in ALL if way in (matrix.BRIDGE, matrix.OURS)])
def test_without_eager_attention_a_bridge_is_refused_or_counted_right_but_never_silent(name: str, way: str) -> None:
    """With sdpa some bridges compute patterns all the same; the others have none, and the error says what to do."""
    from topic_probes import architectures

    architectures.register()
    reference = tiny_models.MODELS[name]().double()
    try:
        reference.set_attn_implementation("sdpa")
    except ValueError as error:
        pytest.skip(f"transformers itself refuses it: {error!s:.60}")
    model = helpers.bridge(reference)
    documents = [ids_of(9), ids_of(12)]
    said, found = "", None
    try:
        found = probed(model, documents)
    except PatternError as error:
        said = str(error)
    if found is None:
        assert 'attn_implementation="eager"' in said
    else:
        np.testing.assert_allclose(found.totals.sums, probed(opened(name, way), documents).totals.sums, rtol=1e-5)


def condition(model: Any) -> dict[str, Any]:
    """What a caller would notice."""
    return {
        "hooks": {name: len(point._forward_hooks) for name, point in model.hook_dict.items()},
        "listed": {name: len(point.fwd_hooks) for name, point in model.hook_dict.items()},
        "weights": [parameter.detach().double().sum().item() for parameter in model.parameters()],
        "gradients": [parameter.grad is None for parameter in model.parameters()],
        "trains": [module.training for module in model.modules()],
        "forward": "forward" in model.__dict__,
        "grad mode": torch.is_grad_enabled(),
    }


@every_family
def test_the_model_and_the_users_hooks_are_as_they_were(name: str, way: str) -> None:
    """After probe and attach, after a pass that failed, and with probes nested in each other."""
    model = opened(name, way)
    first, *_, last = pattern_hooks(model)[0].values()
    fired: list[str] = []
    model.hook_dict[first].add_hook(lambda tensor, hook: fired.append("permanent"), is_permanent=True)
    model.hook_dict[first].add_hook(lambda tensor, hook: fired.append("passing"))
    before = condition(model)
    ids = torch.tensor([ids_of(9)])

    def fail(tensor: torch.Tensor, hook: Any) -> None:
        raise KeyError("the user's")

    probed(model, [ids_of(9), ids_of(4)])
    with attached(model, LABELS), attached(model, LABELS):
        run(model, ids)
        probed(model, [ids_of(9)])
        with pytest.raises(KeyError), model.hooks(fwd_hooks=[(last, fail)]):
            run(model, ids)
    assert condition(model) == before
    fired.clear()
    run(model, ids)
    assert set(fired) == {"permanent", "passing"}
    model.reset_hooks(including_permanent=True)


# What stands in a row.

TEXTS_IN_IDS = {
    "as the tokenizer makes it": [2, 5, 6, 11, 7, 3],
    "no BOS": [5, 6, 11, 7, 3],
    "two BOS": [2, 2, 5, 6, 11, 7, 3],
    "in the middle": [5, 6, 2, 11, 7, 3],
    "bare": [5, 6, 11, 7],
}
"""The same four words, of which the third has no label, with special tokens (2, 3) wherever a policy puts them."""


@every_family_of_one_stack
def test_special_tokens_are_found_by_id_wherever_they_stand(name: str, way: str) -> None:
    """They are in no pair, and what they get is reported apart, whatever puts them there or leaves them out."""
    model, tokenizer = opened(name, way), helpers.tiny_tokenizer()
    for given in TEXTS_IN_IDS.values():
        ids = torch.tensor([given])
        with recorded(model) as patterns, attached(model, WORDS, tokenizer) as observer:
            run(model, ids)
        require_loops(
            observer.result(),
            patterns,
            ids,
            torch.ones_like(ids).bool(),
            matrix.ROWS[name].sees,
            topics={5: [0], 6: [0, 1], 7: [0]},
            special=(2, 3),
        )
        assert observer.result().tally["n_words_taking_part"] == 4


@every_family
def test_documents_around_the_context_are_cut_into_windows_that_no_pair_crosses(name: str, way: str) -> None:
    """Of n_ctx - 1, n_ctx, n_ctx + 1 and 2.5 n_ctx tokens; the parts, each a document of its own, give the same sums.

    The last window of the third has one token, beside which its row is pads.
    """
    model = opened(name, way)
    options = {"max_length": CONTEXT} if model.cfg.n_ctx > CONTEXT else {}
    documents = [ids_of(length) for length in (CONTEXT - 1, CONTEXT, CONTEXT + 1, 5 * CONTEXT // 2)]
    parts = [[ids[start : start + CONTEXT] for start in range(0, len(ids), CONTEXT)] for ids in documents]
    whole = probed(model, documents, **options)
    by_hand = probed(model, [part for of_document in parts for part in of_document], batch_size=1)
    for one, other in zip(helpers.basic_sums(whole.totals), helpers.basic_sums(by_hand.totals), strict=True):
        np.testing.assert_allclose(one, other, rtol=OTHER_BATCHES, atol=1e-9)
    assert whole.options["max_length"] == CONTEXT
    assert (whole.n_documents, whole.tally["n_windowed"]) == (4, 2)
    with pytest.raises(CorpusError, match=f"more than max_length={CONTEXT}"):
        probed(model, documents, long_documents="error", **options)


# Text.

TEXTS = (
    "Café naïve, jalapeño in Zürich; the cat and the dogs.",
    "\u732b\u3068\u72ac cat \U0001f431\u200d\U0001f4bb dog word",
    "Привет, мир: the words word\u00a0cat",
)
"""Characters of two, three and four bytes, joined emoji, a space that does not break."""


@functools.cache
def reader_of_many_words() -> Any:
    """A decoder with room for the ids of every tiny tokenizer."""
    config = transformers.GPT2Config(
        vocab_size=700,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_inner=8,
        n_positions=160,
        initializer_range=0.5,
        attn_implementation="eager",
        bos_token_id=1,
        eos_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = transformers.GPT2LMHeadModel(config).eval().double()
    if helpers.HAS_BRIDGE:
        return helpers.bridge(weights)
    return helpers.hooked_transformer(d_model=16, n_heads=2, n_ctx=160, d_vocab=700, dtype=torch.float64)


def labels_of(texts: tuple[str, ...]) -> TopicLabels:
    words = sorted({text[start:end].lower() for text in texts for start, end in token_oracles.words_of(text)})
    numbers = random.Random(0)
    return TopicLabels.from_dict({word: numbers.randrange(3) for word in words if not word.isascii() or len(word) > 2})


@pytest.mark.parametrize("words", ["whole", "merge"])
@pytest.mark.parametrize("kind", [kind for kind in tiny_tokenizers.OFFSETS if kind != "minilm"])
def test_text_of_many_bytes_is_probed_word_by_word(kind: str, words: str) -> None:
    """Through every kind of tokenizer: the words are those of an oracle that goes character by character."""
    tokenizer, model = tiny_tokenizers.shared(kind), reader_of_many_words()
    assert len(tokenizer) <= 700
    labels = labels_of(TEXTS)
    sums: Any = 0.0
    counts: Any = 0
    for text in TEXTS:
        spelled = sorted(token_oracles.spelled_words(tokenizer, text), key=lambda found: found[1])
        parts = [(word, list(range(a, b))) for word, a, b in spelled if words == "merge" or b - a == 1]
        ids = tokenizer(text)["input_ids"]
        special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        at_special = [at for at, token in enumerate(ids) if token in special]
        for number, layer in enumerate(helpers.patterns(model, ids)):
            found = [
                oracles.attention_by_class(head, parts, labels.topics_of, lambda q, k: k <= q, at_special)
                for head in layer
            ]
            sums = sums + np.eye(2)[number][:, None, None] * np.array([[*one[0].values(), one[2]] for one in found])
            counts = counts + np.eye(2)[number][:, None] * np.array([*found[0][1].values(), found[0][3]])
    result = probed(model, list(TEXTS), labels, tokenizer=tokenizer, words=words)
    found_sums, found_counts = helpers.basic_sums(result.totals)
    np.testing.assert_array_equal(found_counts, counts)
    np.testing.assert_allclose(found_sums, sums, rtol=RELATIVE, atol=1e-12)


class _Lying(transformers.BatchEncoding):
    """What a tokenizer of some libraries hands out: it knows nothing of words, or something wrong."""

    answer: Any = None

    def word_ids(self, batch_index: int = 0) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer] * len(self["input_ids"])


class _LyingTokenizer(transformers.PreTrainedTokenizerFast):
    answer: Any = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        encoded = super().__call__(*args, **options)
        lying = _Lying(encoded.data, encoding=encoded.encodings)
        lying.answer = self.answer
        return lying


@pytest.mark.parametrize("answer", [0, None, ValueError("word_ids() is not available")])
@pytest.mark.parametrize("words", ["whole", "merge"])
def test_what_a_tokenizer_says_of_words_is_not_asked(answer: Any, words: str) -> None:
    """Words are found by offsets: `word_ids()` may be all 0, all None, or missing."""
    import tokenizers

    plain = tiny_tokenizers.shared("byte_level")
    lying = _LyingTokenizer(
        tokenizer_object=tokenizers.Tokenizer.from_str(plain.backend_tokenizer.to_str()), bos_token="<|endoftext|>"
    )
    lying.answer = answer
    model, labels = reader_of_many_words(), labels_of(TEXTS)
    one, other = (
        probed(model, list(TEXTS), labels, tokenizer=tokenizer, words=words).totals for tokenizer in (plain, lying)
    )
    np.testing.assert_array_equal(one.sums, other.sums)
    np.testing.assert_array_equal(one.counts, other.counts)


@pytest.mark.parametrize(("slow", "fast"), [("slow_wordpiece", "wordpiece"), ("zero_offsets", "byte_level")])
@pytest.mark.parametrize("words", ["whole", "merge"])
def test_a_tokenizer_without_offsets_gives_the_same_sums(slow: str, fast: str, words: str) -> None:
    """Or with offsets that are all 0: the words are spelled out instead."""
    model, text = reader_of_many_words(), "the cat sat on the mat and the dogs in the old gardens of the city"
    labels = TopicLabels.from_dict({"cat": 0, "mat": 0, "dogs": 1, "gardens": 1, "city": 0, "old": 1})
    one, other = (
        probed(model, [text], labels, tokenizer=tiny_tokenizers.shared(kind), words=words).totals
        for kind in (slow, fast)
    )
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(one.sums, other.sums, rtol=RELATIVE, atol=1e-12)
