"""Classes and weights of the pairs of one row, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from topic_probes import TopicLabels
from topic_probes._axes import PAIR_CLASSES
from topic_probes.probes._pairs import classify, pair_weights
from topic_probes.probes._sides import EVERYTHING, Reach
from topic_probes.tokens import Window

LABELS = TopicLabels.from_dict({"cat": 0, "dog": [0, 1], "sun": 1})


def window(words: list[str], pieces: list[int] | None = None, n_special: int = 0) -> Window:
    """Special tokens, then the words one after the other."""
    lengths = np.array([1] * len(words) if pieces is None else pieces, dtype=np.int64)
    stops = n_special + np.cumsum(lengths)
    length = n_special + int(lengths.sum())
    return Window("d", np.arange(length), np.arange(length) < n_special, tuple(words), stops - lengths, stops)


def test_each_pair_has_the_first_class_that_fits() -> None:
    classes = classify(window(["cat", "dog", "sun", "the", "cat", "the"]), LABELS).classes
    names = [[PAIR_CLASSES[number] for number in row] for row in classes]
    same, cross, token, none = "same_topic", "cross_topic", "same_token", "no_topic"
    assert names == [
        [token, same, cross, none, token, none],
        [same, token, same, none, same, none],
        [cross, same, token, none, cross, none],
        [none, none, none, token, none, token],
        [token, same, cross, none, token, none],
        [none, none, none, token, none, token],
    ]


def test_a_weight_is_the_number_of_keys_seen() -> None:
    """Whole words, causal: attention to a key is divided by 1 / (query + 1)."""
    planned = pair_weights(classify(window(["cat", "sun", "dog"]), LABELS), Reach(9, 0))
    total = planned.weights[: len(PAIR_CLASSES)].sum(axis=0)
    np.testing.assert_array_equal(total, [[1, 0, 0], [2, 2, 0], [3, 3, 3]])
    assert dict(zip(PAIR_CLASSES, planned.counts.tolist(), strict=False)) == {
        "same_token": 3,
        "same_topic": 2,
        "cross_topic": 1,
        "no_topic": 0,
    }


def test_a_word_of_two_pieces_is_summed_as_key_and_averaged_as_query() -> None:
    """Uniform share of two pieces among three tokens is 2/3; each of the two query rows counts half."""
    planned = pair_weights(classify(window(["cat", "sun"], pieces=[2, 1]), LABELS), Reach(9, 9))
    cross = planned.weights[PAIR_CLASSES.index("cross_topic")]
    np.testing.assert_allclose(cross, [[0, 0, 1.5], [0, 0, 1.5], [1.5, 1.5, 0]])
    assert planned.counts[PAIR_CLASSES.index("cross_topic")] == 2


def test_special_keys_are_a_share_of_the_query_and_in_no_pair() -> None:
    planned = pair_weights(classify(window(["cat", "sun"], n_special=1), LABELS), Reach(9, 9))
    np.testing.assert_array_equal(planned.weights[-2], [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert planned.counts[-1] == 2
    assert not planned.weights[: len(PAIR_CLASSES), :, 0].any()


def test_a_row_of_special_tokens_only_has_no_pairs() -> None:
    planned = pair_weights(classify(window([], n_special=3), LABELS), Reach(9, 9))
    assert not planned.weights.any()
    assert not planned.counts.any()


def test_rows_that_cannot_be_used_leave_the_pairs_of_their_word() -> None:
    usable = np.array([True, False])
    planned = pair_weights(classify(window(["cat", "sun"]), LABELS), EVERYTHING, usable)
    assert planned.counts.tolist() == [1, 0, 1, 0, 1]
    assert not planned.weights[:, 1].any()


def test_a_hole_in_the_mask_counts_as_distance() -> None:
    """Tokens at 0, 1 and 5 under a window of two: the last sees itself alone."""
    planned = pair_weights(classify(window(["cat", "sun", "dog"]), LABELS, np.array([0, 1, 5])), Reach(2, 0))
    np.testing.assert_array_equal(planned.weights[:4].sum(axis=0), [[1, 0, 0], [2, 2, 0], [0, 0, 1]])


@pytest.mark.parametrize(("places", "span"), [(None, 3), (np.array([0, 1, 5]), 6)])
def test_the_span_holds_the_holes(places: np.ndarray | None, span: int) -> None:
    assert classify(window(["cat", "sun", "dog"]), LABELS, places).query.span == span
