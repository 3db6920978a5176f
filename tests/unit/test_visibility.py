"""What a query may see is read off the patterns, whatever a configuration says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from topic_probes import PatternError, TopicLabels
from topic_probes.probes._counting import PatternCounter
from topic_probes.probes._rows import BatchRows, PairMeasures
from topic_probes.probes._sides import EVERYTHING
from topic_probes.probes._visibility import Visibility
from topic_probes.tokens import Window


def pattern(sees: torch.Tensor, n_heads: int = 2) -> torch.Tensor:
    """A random softmax pattern [head, query_pos, key_pos] over what may be seen; zero where nothing is."""
    logits = torch.randn(n_heads, *sees.shape, dtype=torch.float64)
    return torch.nan_to_num(torch.softmax(logits.masked_fill(~sees, -torch.inf), dim=-1))


def band(length: int, back: int, ahead: int) -> torch.Tensor:
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    return (offset <= back) & (-offset <= ahead)


def chunks(length: int, size: int, *, causal: bool) -> torch.Tensor:
    chunk = torch.arange(length) // size
    together = chunk[:, None] == chunk[None, :]
    return together & band(length, length, 0) if causal else together


def row(length: int, name: str = "d") -> Window:
    at = np.arange(length)
    return Window(name, at, np.zeros(length, dtype=bool), tuple(at.tolist()), at, at + 1)


LABELS = TopicLabels.from_dict({0: 0, 1: 0, 2: 1})
MEASURES = PairMeasures(LABELS)


@pytest.mark.parametrize(
    ("back", "ahead", "said"),
    [
        (99, 99, "bidirectional"),
        (99, 0, "causal"),
        (3, 0, "causal, window of 4"),
        (2, 1, "window of 2 back and 1 ahead"),
    ],
)
def test_the_reach_is_read_off(back: int, ahead: int, said: str) -> None:
    seen = Visibility()
    seen.learn(0, [pattern(band(9, back, ahead)), pattern(band(5, back, ahead))])
    assert str(seen) == said
    assert seen.reach == (back if back < 8 else None, ahead if ahead < 8 else None)


def test_nothing_is_known_from_rows_of_one_token() -> None:
    seen = Visibility()
    seen.learn(0, [pattern(band(1, 9, 9))])
    assert str(seen) == "unknown (rows of one token)"


def test_a_window_shows_when_longer_rows_come_and_short_rows_were_right_before() -> None:
    """Short first, long later: the same sums as the other way round."""
    lengths = [4, 3, 12, 5]
    patterns = [pattern(band(length, 4, 0))[None] for length in lengths]
    totals = []
    for order in ([0, 1, 2, 3], [2, 3, 1, 0]):
        counter = PatternCounter((0,), MEASURES)
        for number in order:
            counter.begin_batch(BatchRows([row(lengths[number], str(number))], [slice(0, lengths[number])], MEASURES))
            counter.count(0, patterns[number])
            counter.end_batch()
        assert str(counter.visibility[0]) == "causal, window of 5"
        totals.append(counter.totals)
    np.testing.assert_allclose(totals[0].sums, totals[1].sums, rtol=1e-12)
    np.testing.assert_array_equal(totals[0].counts, totals[1].counts)
    assert totals[0].counts[0, :, :4].sum() == sum(int(band(length, 4, 0).sum()) for length in lengths)


def test_attention_beyond_the_known_reach_widens_it() -> None:
    """The first long row hides its far keys (they carry no weight); a later one of the same length shows them."""
    counter = PatternCounter((0,), MEASURES)
    for name, ahead in (("a", 0), ("b", 9)):
        counter.begin_batch(BatchRows([row(6, name)], [slice(0, 6)], MEASURES))
        counter.count(0, pattern(band(6, 9, ahead))[None])
        counter.end_batch()
    assert str(counter.visibility[0]) == "bidirectional"


def test_a_single_query_far_beyond_the_reach_is_noticed_in_a_long_row() -> None:
    """One row of 100 is 1 % of the attention: a rule of thumb on the whole would let it pass."""
    counter = PatternCounter((0,), MEASURES)
    near = pattern(band(100, 2, 0))
    far = near.clone()
    far[:, 99] = 0
    far[:, 99, 0] = 1
    for name, one in (("a", near), ("b", far)):
        counter.begin_batch(BatchRows([row(100, name)], [slice(0, 100)], MEASURES))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counter.count(0, one.float()[None])
        counter.end_batch()
    assert counter.visibility[0].back == 99


@pytest.mark.parametrize("n_chunks", [2, 3, 8])
@pytest.mark.parametrize("causal", [True, False])
def test_a_chunked_mask_warns_once(n_chunks: int, causal: bool) -> None:
    seen = Visibility()
    with pytest.warns(UserWarning, match="layer 7 reach .* not a window"):
        seen.learn(7, [pattern(chunks(8 * n_chunks, 8, causal=causal))])
    seen.learn(7, [pattern(chunks(8 * n_chunks + 3, 8, causal=causal))])  # a second warning would be an error


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_peaked_half_precision_rows_do_not_pass_for_chunks(half: torch.dtype) -> None:
    """In float16 small weights vanish in single heads, not in all of twelve."""
    torch.manual_seed(0)
    logits = 6 * torch.randn(12, 40, 40)
    seen = Visibility()
    seen.learn(0, [torch.softmax(logits, dim=-1).to(half)])
    assert str(seen) == "bidirectional"


def test_fully_masked_rows_do_not_pass_for_chunks() -> None:
    """Half of the queries see nothing: they say nothing about the mask of the others."""
    sees = band(8, 9, 9)
    sees[1:5] = False
    seen = Visibility()
    seen.learn(0, [pattern(sees)])
    assert str(seen) == "bidirectional"


def test_nan_in_one_row_hides_no_other() -> None:
    one = pattern(band(6, 9, 9))
    one[0, 2] = torch.nan
    seen = Visibility()
    seen.learn(0, [one])
    assert seen.reach == EVERYTHING


@pytest.mark.parametrize("nothing", [0.0, torch.nan])
def test_rows_that_see_nothing_are_left_out_and_counted(nothing: float) -> None:
    """Two of five query positions are masked whole: their pairs do not count, those of the others do."""
    one = pattern(band(5, 9, 9))
    one[:, [1, 4]] = nothing
    counter = PatternCounter((0,), MEASURES)
    counter.begin_batch(BatchRows([row(5)], [slice(0, 5)], MEASURES))
    counter.count(0, one[None])
    counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.n_excluded_rows.tolist() == [2]
    assert counter.totals.counts.sum(axis=(0, 1))[:4].sum() == 3 * 5
    expected = 5 * one[:, [0, 2, 3]].sum(dim=(1, 2)).numpy()
    np.testing.assert_allclose(counter.totals.sums[0, :, :, :4].sum(axis=(1, 2)), expected, rtol=1e-12)


def test_a_masked_row_of_a_token_that_takes_no_part_is_not_counted_as_lost() -> None:
    one = pattern(band(3, 9, 9))
    one[:, 0] = torch.nan
    at = np.arange(1, 3)
    window = Window("d", np.arange(3), np.arange(3) < 1, (1, 2), at, at + 1)
    counter = PatternCounter((0,), MEASURES)
    counter.begin_batch(BatchRows([window], [slice(0, 3)], MEASURES))
    counter.count(0, one[None])
    counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.n_excluded_rows.tolist() == [0]
    assert np.isfinite(counter.totals.sums).all()
    assert counter.totals.counts.sum(axis=(0, 1))[:5].tolist() == [2, 0, 2, 0, 2]


def test_rows_with_a_sink_outside_the_text_sum_to_less_than_one_and_count_as_they_are() -> None:
    """Some models give attention to a learned sink that is no position."""
    one = 0.4 * pattern(band(5, 9, 9))
    counter = PatternCounter((0,), MEASURES)
    counter.begin_batch(BatchRows([row(5)], [slice(0, 5)], MEASURES))
    counter.count(0, one[None])
    counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.n_excluded_rows.tolist() == [0]
    np.testing.assert_allclose(counter.totals.sums[0, :, :, :4].sum(axis=(1, 2)), 5 * 5 * 0.4, rtol=1e-12)


def test_attention_to_pads_is_an_error() -> None:
    """A model that ignores its mask: a few per cent of one query are enough."""
    one = pattern(band(6, 9, 9))
    one[:, 0] = torch.tensor([0.2, 0.2, 0.2, 0.37, 0.03, 0.0])
    one[:, 1:4] = torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0, 0.0])
    counter = PatternCounter((0,), MEASURES)
    counter.begin_batch(BatchRows([row(4)], [slice(0, 4)], MEASURES))
    with pytest.raises(PatternError, match="attends to padding that the mask hides"):
        counter.count(0, one[None])


@pytest.mark.parametrize("shape", [(2, 2, 4, 4), (1, 2, 4, 5), (2, 4, 4)])
def test_a_pattern_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    counter = PatternCounter((0,), MEASURES)
    counter.begin_batch(BatchRows([row(4)], [slice(0, 4)], MEASURES))
    with pytest.raises(PatternError, match="must have shape"):
        counter.count(0, torch.ones(shape) / 4)


def test_a_batch_that_is_dropped_leaves_nothing() -> None:
    """Also when one of its layers has already come."""
    counter = PatternCounter((0, 1), MEASURES)
    counter.begin_batch(BatchRows([row(4)], [slice(0, 4)], MEASURES))
    counter.count(0, pattern(band(4, 9, 9))[None])
    counter.drop_batch()
    counter.end_batch()
    assert counter.totals is None


def test_the_same_tensor_handed_in_twice_counts_once_a_batch() -> None:
    """A bridge calls a hook once for each name of its hook point; a constant pattern comes again in each batch."""
    counter = PatternCounter((0,), MEASURES)
    one = pattern(band(4, 9, 9))[None]
    for _ in range(2):
        counter.begin_batch(BatchRows([row(4)], [slice(0, 4)], MEASURES))
        counter.count(0, one)
        counter.count(0, one)
        counter.end_batch()
    assert counter.totals is not None
    assert counter.totals.counts[..., :4].sum() == 2 * 16


def test_short_rows_and_holes_are_not_called_saturated() -> None:
    """Behind holes a query may see itself alone: no warning (warnings are errors here)."""
    pattern = torch.eye(6, dtype=torch.float64)[None]
    with pytest.warns(UserWarning, match="saturated attention"):
        Visibility().learn(0, [pattern])
    Visibility().learn(0, [pattern[:, :5, :5]])
    Visibility().learn(0, [pattern], [torch.arange(6) * 3])
