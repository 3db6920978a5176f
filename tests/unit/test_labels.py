"""Labels of words and of token ids: what they accept, what they refuse, what they say of themselves."""

from __future__ import annotations

import numpy as np
import pytest

from topic_probes.topics import TopicLabels


def test_words_are_brought_into_the_form_in_which_they_are_found():
    """Case and composed or decomposed accents make no difference, and keys of one word pool their topics."""
    labels = TopicLabels.from_dict({"CAFÉ": 3, "cafe\u0301": [0, 1], "dog": np.int64(2)})
    assert labels.topics_of == {"café": (0, 1, 3), "dog": (2,)}
    assert labels.n_topics == 4
    assert labels.of_words


def test_any_label_can_be_given_again():
    """The lower case of a dotted capital I has a combining dot, and is still one word."""
    labels = TopicLabels.from_dict({"İstanbul": 0})
    assert labels.topics_of == {"i\u0307stanbul": (0,)}
    assert TopicLabels.from_dict(labels.topics_of) == labels


def test_token_ids_may_be_numpy_integers():
    labels = TopicLabels.from_dict({np.int64(7): 0, np.int32(9): [1, 0]})
    assert labels.topics_of == {7: (0,), 9: (0, 1)}
    assert TopicLabels.from_dict({7: np.array(3), 8: np.array([1, 0])}).topics_of == {7: (3,), 8: (0, 1)}
    assert not labels.of_words
    assert all(type(key) is int for key in labels.topics_of)


def test_membership_is_a_mask_per_position():
    """An unlabelled word has no topic at all, not a topic of its own; positions repeat and keep their order."""
    labels = TopicLabels.from_dict({"cat": 0, "pet": [0, 2]}, n_topics=4)
    expected = [[True, False, True, False], [False] * 4, [True, False, False, False], [True, False, True, False]]
    assert labels.membership(["pet", "the", "cat", "pet"]).tolist() == expected
    assert labels.membership([]).shape == (0, 4)


@pytest.mark.parametrize("ids", [[5, 3, 8], (5, 3, 8), np.array([5, 3, 8]), [np.int64(5), np.int64(3), np.int64(8)]])
def test_membership_takes_ids_however_they_come(ids):
    labels = TopicLabels.from_dict({5: 1, 8: 0})
    assert labels.membership(ids).tolist() == [[False, True], [False, False], [True, False]]


def test_membership_that_is_written_to_does_not_change_the_labels():
    labels = TopicLabels.from_dict({"cat": 0})
    labels.membership(["cat", "dog"])[:] = True
    assert labels.membership(["cat", "dog"]).tolist() == [[True], [False]]


def test_the_fingerprint_tells_labels_apart_and_ignores_order():
    labels = TopicLabels.from_dict({"cat": 0, "dog": [1, 0]})
    assert labels.fingerprint() == TopicLabels.from_dict({"dog": [0, 1], "cat": [0]}).fingerprint()
    others = [
        TopicLabels.from_dict({"cat": 0, "dog": 1}),
        TopicLabels.from_dict({"cat": 0, "dog": [0, 1]}, n_topics=3),
        TopicLabels.from_dict({"cat": 0, "dogs": [0, 1]}),
        TopicLabels.from_dict({1: 0, 2: [0, 1]}),
    ]
    assert len({labels.fingerprint(), *(other.fingerprint() for other in others)}) == 5


def test_equal_labels_label_the_same_words_in_the_same_way():
    first = TopicLabels({"cat": (0,)}, 2, topic_names=("a", "b"), coverage={"n_words": 5})
    assert first == TopicLabels({"cat": (0,)}, 2)
    assert first != TopicLabels({"cat": (1,)}, 2)
    assert first != TopicLabels({"cat": (0,)}, 3)


def test_the_frame_has_a_row_per_word_and_topic():
    named = TopicLabels({"cat": (0,), "pet": (0, 1)}, 2, topic_names=("animals", "homes"))
    assert named.to_frame().to_dict("list") == {
        "word": ["cat", "pet", "pet"],
        "topic": [0, 0, 1],
        "topic_name": ["animals", "animals", "homes"],
    }
    assert TopicLabels.from_dict({4: 1}).to_frame().to_dict("list") == {"token_id": [4], "topic": [1]}


def test_the_repr_says_how_much_is_covered():
    coverage = {"n_words": 5000, "n_tokens": 1000, "n_labelled_tokens": 310}
    labels = TopicLabels({"cat": (0,), "dog": (2,)}, 100, coverage=coverage)
    assert repr(labels) == "TopicLabels(2 of 5000 words, 31 % of the corpus' words, 2 of 100 topics)"
    assert repr(TopicLabels.from_dict({"cat": 1})) == "TopicLabels(1 words, 1 of 2 topics)"
    assert repr(TopicLabels.from_dict({3: 1})) == "TopicLabels(1 token ids, 1 of 2 topics)"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, ValueError, "at least one word"),
        ({"cat": []}, ValueError, "at least one word"),
        ({"ice cream": 0}, ValueError, "'ice cream'"),
        ({"covid19": 0}, ValueError, "'covid19'"),
        ({"": 0}, ValueError, "one word"),
        ({"cat": -1}, ValueError, "leave a word without topic out"),
        ({"cat": [0, -1]}, ValueError, "at least 0"),
        ({-3: 0}, ValueError, "token id"),
        ({"cat": 0, 3: 1}, TypeError, "all of words"),
        ({1.5: 0}, TypeError, "1.5"),
        ({True: 0}, TypeError, "True"),
        ({"cat": 0.5}, TypeError, "0.5"),
        ({"cat": "3"}, TypeError, "'3'"),
        ({"cat": [True]}, TypeError, "True"),
        ({"cat": np.array(0.5)}, TypeError, "0.5"),
        ({"cat": 10**9}, ValueError, "below 10,000, got 1,000,000,000"),
    ],
)
def test_what_is_no_label_is_refused(given, error, says):
    """The message names what came."""
    with pytest.raises(error, match=says):
        TopicLabels.from_dict(given)


def test_topics_beyond_the_number_of_topics_are_refused():
    with pytest.raises(ValueError, match=r"0 \.\. 2 .* got 3"):
        TopicLabels.from_dict({"cat": 3}, n_topics=3)


@pytest.mark.parametrize(
    ("topics_of", "n_topics", "names"),
    [({}, 1, ()), ({"cat": ()}, 1, ()), ({"cat": (1, 0)}, 2, ()), ({"cat": (2,)}, 2, ()), ({"cat": (0,)}, 2, ("a",))],
)
def test_the_constructor_takes_only_what_is_in_order(topics_of, n_topics, names):
    with pytest.raises(ValueError, match="must"):
        TopicLabels(topics_of, n_topics, topic_names=names)


def test_equal_labels_are_in_one_order() -> None:
    """Permutations are drawn by rows, so the order in which words were given would change p-values."""
    one, other = ({word: number % 2 for number, word in order} for order in (WORDS, WORDS[::-1]))
    labels = TopicLabels.from_dict(one)
    assert list(labels.topics_of) == list(TopicLabels.from_dict(other).topics_of) == sorted(one)
    assert labels == TopicLabels.from_dict(other)


WORDS = list(enumerate(("dog", "cat", "apple", "zebra")))
