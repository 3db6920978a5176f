"""Encoder-decoders: sites, rows of the decoder, and pairs between two rows, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from topic_probes import PatternError, TopicLabels
from topic_probes._axes import PAIR_CLASSES, Site
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._decoder import shifted_ids, shifted_window, start_of_decoder, starting
from topic_probes.probes._hooks import pattern_hooks, require_all_fired, require_probeable
from topic_probes.probes._pairs import classify, pair_weights
from topic_probes.probes._real_positions import real_by_id, real_in_shifted
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.probes._sides import EVERYTHING
from topic_probes.probes._visibility import visibility_of
from topic_probes.statistics._sums import AttentionSums
from topic_probes.tokens import Window

LABELS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1})


def window(words: list[str], pieces: list[int] | None = None, *, special: tuple[int, int] = (0, 0)) -> Window:
    """Special tokens, the words one after the other, special tokens."""
    lengths = np.array([1] * len(words) if pieces is None else pieces, dtype=np.int64)
    stops = special[0] + np.cumsum(lengths)
    length = sum(special) + int(lengths.sum())
    at = np.arange(length)
    is_special = (at < special[0]) | (at >= length - special[1])
    return Window("d", at + 10, is_special, tuple(words), stops - lengths, stops)


# Sites.


def test_a_site_of_an_ordinary_model_is_its_layer() -> None:
    """A dictionary by layers can be asked by sites, and the other way round."""
    assert Site("", 3) == 3
    assert {Site("", 3): "x"}[3] == "x"
    assert {3: "x"}[Site("", 3)] == "x"
    assert Site.of(3) == Site("", 3)
    assert Site("", 3).key == 3
    assert isinstance(Site("", 3).key, int)


def test_sites_of_stacks_are_neither_layers_nor_each_other() -> None:
    sites = [3, *(Site(stack, 3) for stack in ("encoder", "decoder", "cross"))]
    assert len(set(sites)) == 4
    assert all(Site.of(site).key == site for site in sites)


@pytest.mark.parametrize("site", [Site("", 0), Site("", 12), Site("encoder", 3), Site("cross", 10)])
def test_the_name_of_a_site_leads_back_to_it(site: Site) -> None:
    back = Site.from_name(site.name)
    assert (back.stack, back.layer) == (site.stack, site.layer)


@pytest.mark.parametrize("name", ["", "x", "decoder", "decoder.", "middle.3", "-1", "decoder.-1"])
def test_what_names_no_site_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a site must be named like"):
        Site.from_name(name)


def test_a_model_comes_to_its_sites_in_this_order() -> None:
    """All of the encoder; then each layer of the decoder, itself first and the encoder after that."""
    expected = [Site("encoder", 0), Site("encoder", 1), Site("decoder", 0), Site("cross", 0), Site("decoder", 1)]
    assert sorted(expected[::-1], key=lambda site: site.when) == expected


def test_sums_of_other_stacks_do_not_merge() -> None:
    one, other = (AttentionSums.empty([Site(stack, 0)], 2) for stack in ("decoder", "cross"))
    with pytest.raises(ValueError, match="got layers 0 of the decoder with 2 heads and layers 0 of cross-attention"):
        one.merge(other)


# Hooks.


class OneEmbedding:
    """An encoder-decoder of two layers and three."""

    class cfg:
        n_layers = 3
        model_name = "stub"

    training = False

    def __init__(self, *without: str) -> None:
        names = [f"encoder_blocks.{layer}.attn" for layer in range(2)]
        names += [f"decoder_blocks.{layer}.{kind}" for kind in ("cross_attn", "self_attn") for layer in range(3)]
        self.hook_dict = {f"{name}.hook_pattern": None for name in names if name not in without}

    def hooks(self, fwd_hooks: Any = (), bwd_hooks: Any = ()) -> Any: ...

    def forward(self, tokens: Any, **kwargs: Any) -> Any: ...


class Stub(OneEmbedding):
    """The same, with an embedding for the decoder."""

    decoder_embed = None


def test_each_stack_has_its_sites() -> None:
    names, unavailable = pattern_hooks(Stub())
    assert {site.name: name for site, name in names.items()} == {
        "encoder.0": "encoder_blocks.0.attn.hook_pattern",
        "encoder.1": "encoder_blocks.1.attn.hook_pattern",
        "decoder.0": "decoder_blocks.0.self_attn.hook_pattern",
        "decoder.1": "decoder_blocks.1.self_attn.hook_pattern",
        "decoder.2": "decoder_blocks.2.self_attn.hook_pattern",
        "cross.0": "decoder_blocks.0.cross_attn.hook_pattern",
        "cross.1": "decoder_blocks.1.cross_attn.hook_pattern",
        "cross.2": "decoder_blocks.2.cross_attn.hook_pattern",
    }
    assert next(iter(names)) == Site("encoder", 0)
    assert unavailable == ()


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([0], ["encoder.0", "decoder.0", "cross.0"]),
        ([-1], ["encoder.1", "decoder.2", "cross.2"]),
        ([2], ["decoder.2", "cross.2"]),
        ([1, -3], ["encoder.1", "decoder.0", "decoder.1", "cross.0", "cross.1"]),
    ],
)
def test_layers_are_chosen_in_every_stack(layers: list[int], expected: list[str]) -> None:
    """From either end of each; a number that one stack lacks is that of the others."""
    assert [site.name for site in pattern_hooks(Stub(), layers)[0]] == expected


@pytest.mark.parametrize("layer", [3, -4])
def test_a_layer_that_no_stack_has_is_refused(layer: int) -> None:
    with pytest.raises(ValueError, match=rf"layers must be in \[0, 3\).*, got {layer}"):
        pattern_hooks(Stub(), [layer])


def test_layers_of_a_stack_without_attention_are_named() -> None:
    names, unavailable = pattern_hooks(Stub("decoder_blocks.1.cross_attn", "decoder_blocks.1.self_attn"))
    assert unavailable == (Site("decoder", 1), Site("cross", 1))
    assert Site("encoder", 1) in names


def test_stacks_whose_decoder_cannot_be_observed_are_refused() -> None:
    """A HookedEncoderDecoder, or a bridge of T5, has one embedding for both."""
    model = OneEmbedding()
    require_probeable(model)
    with pytest.raises(PatternError, match=r"several stacks \(decoder_blocks, encoder_blocks\) .* only BART"):
        pattern_hooks(model)


def test_patterns_that_never_came_are_listed_by_stack() -> None:
    names, _ = pattern_hooks(Stub())
    fired = {Site("encoder", 0), Site("encoder", 1), Site("cross", 0), Site("cross", 1)}
    message = "layers 0, 1, 2 of the decoder and layer 2 of cross-attention of Stub 'stub' never came"
    with pytest.raises(PatternError, match=message):
        require_all_fired(Stub(), names, fired)


# Rows of the decoder.


def test_the_decoder_reads_its_start_and_all_but_the_last_token() -> None:
    assert shifted_ids(torch.tensor([[5, 6, 7], [8, 9, 0]]), 2).tolist() == [[2, 5, 6], [2, 8, 9]]


def test_a_word_moves_with_its_tokens() -> None:
    """Special, cat, dog of two pieces, special: all but the last token, one to the right."""
    shifted = shifted_window(window(["cat", "dog"], [1, 2], special=(1, 1)), 2)
    assert shifted.token_ids.tolist() == [2, 10, 11, 12, 13]
    assert shifted.is_special.tolist() == [True, True, False, False, False]
    assert shifted.words == ("cat", "dog")
    assert (shifted.starts.tolist(), shifted.stops.tolist()) == ([2, 3], [3, 5])
    assert shifted.document_id == "d"


def test_a_word_whose_last_token_falls_off_takes_part_in_nothing() -> None:
    shifted = shifted_window(window(["cat", "dog"], [1, 2]), 2)
    assert shifted.words == ("cat",)
    assert (shifted.starts.tolist(), shifted.stops.tolist()) == ([1], [2])


def test_the_start_of_a_given_row_is_no_word() -> None:
    row = starting(window(["cat", "dog"]))
    assert row.is_special.tolist() == [True, False]
    assert row.words == ("dog",)
    assert (row.starts.tolist(), row.stops.tolist()) == ([1], [2])


def test_a_model_without_a_start_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"must have a decoder_start_token_id .*, got none: set model\.original_model"):
        start_of_decoder(Stub())


def test_real_positions_of_a_shifted_batch() -> None:
    """The start and what is real, one to the right, but never the last real token of a row."""
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    expected = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert real_in_shifted(real).int().tolist() == expected


def test_a_pad_id_at_the_start_is_real_where_real_tokens_attend_to_it() -> None:
    """T5's decoder starts with its pad: one at the beginning is spared, as it is none too many."""
    ids = torch.tensor([[0, 5, 6, 0]])
    pattern = torch.ones(1, 1, 4, 4).tril()
    real, n_attended = real_by_id(ids, 0, pattern, (1, 0))
    assert real.tolist() == [[True, True, True, False]]
    assert n_attended == 0
    assert real_by_id(ids, 0, pattern, (0, 0))[1] == 1


# Pairs between two rows.


def test_each_pair_between_two_rows_has_the_first_class_that_fits() -> None:
    """The same word is the same token wherever it stands; there is no diagonal."""
    classes = classify(window(["dog", "the"]), LABELS, keys=window(["cat", "dog", "sun", "the", "a"])).classes
    names = [[PAIR_CLASSES[number] for number in row] for row in classes]
    same, token, none = "same_topic", "same_token", "no_topic"
    assert names == [[same, token, same, none, none], [none, none, none, token, none]]
    assert PAIR_CLASSES[classify(window(["cat"]), LABELS, keys=window(["sun"])).classes[0, 0]] == "cross_topic"


def test_every_key_of_the_encoder_is_seen_and_counts() -> None:
    """Three keys, one of them special: uniform attention is 1/3, for each query alike."""
    pairs = classify(window(["cat", "dog"], special=(1, 0)), LABELS, keys=window(["sun", "cat"], special=(1, 0)))
    planned = pair_weights(pairs, visibility_of(Site("cross", 0), "read").reach)
    np.testing.assert_array_equal(planned.weights[:4].sum(axis=0), [[0, 0, 0], [0, 3, 3], [0, 3, 3]])
    np.testing.assert_array_equal(planned.weights[-2], [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    counts = dict(zip(PAIR_CLASSES, planned.counts.tolist(), strict=False))
    assert counts == {"same_token": 1, "same_topic": 2, "cross_topic": 1, "no_topic": 0}
    assert planned.counts[-1] == 2


def test_pieces_of_both_rows_are_summed_as_keys_and_averaged_as_queries() -> None:
    """Two pieces of four tokens: a uniform share of 1/2; each of the two query rows counts half."""
    pairs = classify(window(["cat"], [2]), LABELS, keys=window(["sun", "the", "a"], [2, 1, 1]))
    planned = pair_weights(pairs, EVERYTHING)
    cross = planned.weights[PAIR_CLASSES.index("cross_topic")]
    np.testing.assert_allclose(cross, [[1, 1, 0, 0], [1, 1, 0, 0]])


# What is seen.


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("causal", ["bidirectional", "causal", "every token of the encoder"]),
        ("bidirectional", ["bidirectional", "causal", "every token of the encoder"]),
    ],
)
def test_what_stacks_see_can_be_stated_by_either_word(stated: str, expected: list[str]) -> None:
    seen = [str(visibility_of(Site(stack, 0), stated)) for stack in ("encoder", "decoder", "cross")]
    assert seen == expected
    assert str(visibility_of(Site("", 0), stated)) == stated


def crossing_counter(keys: list[Window], places: list, queries: list[Window], query_places: list) -> PatternCounter:
    measures = PairMeasures(LABELS)
    counter = PatternCounter((Site("cross", 0),), measures)
    rows = BatchRows(keys, places, measures)
    rows.add_decoder(queries, query_places, None)
    counter.begin_batch(rows)
    return counter


def test_saturated_cross_attention_is_neither_doubted_nor_misread() -> None:
    """Every query of every head looks at one key only: nothing is to be read off that."""
    keys, queries = window(["cat", "sun"] * 4), window(["cat", "dog"] * 4)
    counter = crossing_counter([keys], [slice(0, 8)], [queries], [slice(0, 8)])
    pattern = torch.zeros(1, 2, 8, 8)
    pattern[..., 1] = 1
    counter.count(Site("cross", 0), pattern)  # a warning would be an error
    counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.counts[0, :, :4].sum() == 64
    # All attention goes to one "sun": of 16 same-topic and 16 cross-topic pairs 4 each get 8 times the uniform share.
    np.testing.assert_allclose(counter.totals.sums.sum(axis=2)[0, :, 1:3], 32)


def test_a_crossing_pattern_has_the_batch_of_its_rows() -> None:
    counter = crossing_counter([window(["cat"])], [slice(0, 1)], [window(["cat", "sun"])], [slice(0, 2)])
    with pytest.raises(PatternError, match=r"layer 0 of cross-attention must have shape .* with 1 rows, got"):
        counter.count(Site("cross", 0), torch.ones(2, 1, 2, 1))
