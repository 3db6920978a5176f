"""Topics of words: which words carry which topics, and how much of a corpus that covers.

A word is labelled with a *set* of topics (Li et al. 2023 label with one topic when topics are
disjoint, with several when words are shared). A word without a label is simply absent:
"no topic" is a mask, never an integer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Int

from .._html import html_table
from .._validation import require_count
from .._words import find_words, normalise

if TYPE_CHECKING:
    import pandas as pd

_MAX_TOPICS = 10_000
"""More would make tables of words by topics, and of topics by topics, that fit into no memory."""


@dataclass(frozen=True)
class TopicLabels:
    """Words, or token ids, and the topics that each of them carries.

    Made by :meth:`TopicModel.label_words` or :meth:`from_dict`, which clean what they are given.
    Two are equal when they label the same words with the same topics.

    Raises:
        ValueError: if nothing is labelled, a topic is not in 0 .. n_topics-1, or there are more than 10,000 topics.
        TypeError: if keys are neither all words nor all token ids.
    """

    topics_of: Mapping[Any, tuple[int, ...]]
    """Word (lower-case) or token id -> its topics, sorted; only labelled ones are in it."""
    n_topics: int
    """Number of topics of the model, used by a word or not; topics are 0 .. n_topics-1."""
    topic_names: tuple[str, ...] = field(default=(), compare=False)
    """[topic] a short name for each topic (its top words), or empty."""
    coverage: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What remains after labelling, in numbers.

    Always ``n_labelled_words`` and ``n_topics_used``. Where known ``n_words`` (the vocabulary), ``n_tokens``
    (all words of the training corpus, one by one) and ``n_labelled_tokens`` (those of them that are labelled).
    """

    def __post_init__(self) -> None:
        if not self.topics_of:
            raise ValueError("labels must not be empty: at least one word or token id must carry a topic")
        require_count("n_topics", self.n_topics)
        if self.n_topics > _MAX_TOPICS:
            raise ValueError(
                f"topics must be numbered below {_MAX_TOPICS:,}, got {self.n_topics - 1:,} for the last one: "
                "number them 0, 1, 2, ..."
            )
        if self.topic_names and len(self.topic_names) != self.n_topics:
            raise ValueError(f"topic_names must be one per topic ({self.n_topics}), got {len(self.topic_names)}")
        kinds = {str if isinstance(key, str) else int if _is_whole(key) else None for key in self.topics_of}
        if None in kinds or len(kinds) != 1:
            raise TypeError("labels must be all of words (strings) or all of token ids (whole numbers)")
        for key, topics in self.topics_of.items():
            if not topics or list(topics) != sorted(set(topics)) or topics[0] < 0 or topics[-1] >= self.n_topics:
                raise ValueError(
                    f"topics of {key!r} must be distinct, sorted and in 0 .. {self.n_topics - 1}, got {topics!r}: "
                    "TopicLabels.from_dict puts them in order"
                )
        used = {topic for topics in self.topics_of.values() for topic in topics}
        counted = {"n_labelled_words": len(self.topics_of), "n_topics_used": len(used)}
        object.__setattr__(self, "coverage", {**self.coverage, **counted})
        # Equal labels are then permuted alike, in whatever order they were given.
        object.__setattr__(self, "topics_of", dict(sorted(self.topics_of.items())))

    @classmethod
    def from_dict(cls, topics_of: Mapping[Any, Any], *, n_topics: int | None = None) -> TopicLabels:
        """Return labels from ``{word: topic}``, ``{word: [topics]}`` or, for id corpora, ``{token_id: topic}``.

        Args:
            topics_of: word or token id -> topic or topics. Words are brought into the form in which they
                are found in a text; keys that become the same word pool their topics; a key with an empty
                list of topics is unlabelled.
            n_topics: number of topics, when the largest that occurs is not the last one.

        Raises:
            ValueError: if it is empty, if a key is not a word of the library's rule, if a topic is negative
                or not below ``n_topics``.
            TypeError: if it is no mapping, if keys are neither all words nor all token ids, or a topic is not a
                whole number.

        Examples:
            >>> TopicLabels.from_dict({"Cat": 3, "dog": [3, 5]}).topics_of
            {'cat': (3,), 'dog': (3, 5)}
        """
        if not isinstance(topics_of, Mapping):
            raise TypeError(
                "topics_of must be a dictionary {word: topic} or {token_id: topic}, got "
                f"{topics_of!r:.60}: of pairs make one by dict(pairs)"
            )
        pooled: dict[Any, set[int]] = {}
        for key, given in topics_of.items():
            topics = _as_topics(key, given)
            if topics:
                pooled.setdefault(_as_key(key), set()).update(topics)
        if not pooled:
            raise ValueError("topics_of must label at least one word or token id, got none")
        largest = max(max(topics) for topics in pooled.values())
        if n_topics is None:
            n_topics = largest + 1
        require_count("n_topics", n_topics)
        if largest >= n_topics:
            raise ValueError(f"topics must be in 0 .. {n_topics - 1} (n_topics is {n_topics}), got {largest}")
        return cls({key: tuple(sorted(topics)) for key, topics in pooled.items()}, int(n_topics))

    @property
    def of_words(self) -> bool:
        """Whether words are labelled (True) or token ids (False)."""
        return isinstance(next(iter(self.topics_of)), str)

    def membership(self, keys: Sequence[Any] | np.ndarray) -> Bool[np.ndarray, "pos topic"]:
        """Return, for each word or id in turn, the topics it carries; all False for an unlabelled one.

        Args:
            keys: words as :func:`find_words` gives them (lower-case), or token ids.

        Examples:
            >>> TopicLabels.from_dict({"cat": 1, "dog": [0, 1]}).membership(["dog", "the", "cat"])
            array([[ True,  True],
                   [False, False],
                   [False,  True]])
        """
        rows, table = self._table
        unlabelled = len(table) - 1
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        return table[np.fromiter((rows.get(key, unlabelled) for key in keys), dtype=np.intp, count=len(keys))]

    def rows(self, keys: Sequence[Any] | np.ndarray) -> Int[np.ndarray, " pos"]:
        """Return, for each word or id in turn, its place among the labelled ones; -1 for an unlabelled one.

        Args:
            keys: words as :func:`find_words` gives them (lower-case), or token ids.
        """
        rows, _ = self._table
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        return np.fromiter((rows.get(key, -1) for key in keys), dtype=np.intp, count=len(keys))

    @property
    def topic_table(self) -> Bool[np.ndarray, "row topic"]:
        """[row, topic] the topics of each labelled word, in the order of :meth:`rows`."""
        return self._table[1][:-1]

    @cached_property
    def _table(self) -> tuple[dict[Any, int], np.ndarray]:
        """The row of each key, and [key + 1, topic] its topics; the last row is that of an unlabelled one."""
        table = np.zeros((len(self.topics_of) + 1, self.n_topics), dtype=np.bool_)
        for row, topics in enumerate(self.topics_of.values()):
            table[row, list(topics)] = True
        return {key: row for row, key in enumerate(self.topics_of)}, table

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that tell these labels from others, whatever the order of their words.

        Results record it. Names and coverage take no part.
        """
        entries = sorted([key, list(topics)] for key, topics in self.topics_of.items())
        text = json.dumps([self.n_topics, entries], ensure_ascii=True, default=int)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per word (or token id) and topic: ``word`` or ``token_id``, ``topic``, ``topic_name``.

        ``topic_name`` is there only when the topics have names.
        """
        import pandas as pd

        pairs = [(key, topic) for key, topics in self.topics_of.items() for topic in topics]
        columns: dict[str, list[Any]] = {
            "word" if self.of_words else "token_id": [key for key, _ in pairs],
            "topic": [topic for _, topic in pairs],
        }
        if self.topic_names:
            columns["topic_name"] = [self.topic_names[topic] for _, topic in pairs]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """Return the topics that most words carry, with some of the words, for a notebook."""
        import pandas as pd

        words: dict[int, list[str]] = {}
        for key, topics in self.topics_of.items():
            for topic in topics:
                words.setdefault(topic, []).append(str(key))
        rows = [
            {"topic": topic, "n_words": len(of_topic), "some_words": " ".join(of_topic[:8])}
            for topic, of_topic in sorted(words.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        return html_table(pd.DataFrame(rows), repr(self))

    def __repr__(self) -> str:
        kind = "words" if self.of_words else "token ids"
        known = self.coverage
        counted = f"{len(self.topics_of)} of {known['n_words']}" if "n_words" in known else str(len(self.topics_of))
        parts = [f"{counted} {kind}"]
        if known.get("n_tokens") and known.get("n_labelled_tokens") is not None:
            parts.append(f"{100 * known['n_labelled_tokens'] / known['n_tokens']:.0f} % of the corpus' words")
        parts.append(f"{known['n_topics_used']} of {self.n_topics} topics")
        return f"TopicLabels({', '.join(parts)})"


def require_labels(labels: Any) -> None:
    """Raise TypeError unless ``labels`` are :class:`TopicLabels`, and say how to make them of what came."""
    if isinstance(labels, TopicLabels):
        return
    if hasattr(labels, "label_words"):
        way_out = "call its label_words()"
    elif isinstance(labels, Mapping):
        way_out = "pass TopicLabels.from_dict(labels)"
    else:
        way_out = "make them by TopicModel.label_words() or TopicLabels.from_dict()"
    raise TypeError(f"labels must be TopicLabels, got a {type(labels).__name__}: {way_out}")


def as_word(text: str) -> str | None:
    """Return the one word that ``text`` is, in the form in which it is found in documents; None if it is not one."""
    # The lower case of one letter, the dotted capital I, has a combining dot, which no word may hold: undo it first.
    text = normalise(text).replace("i\u0307", "\u0130")
    found = find_words(text)
    return found[0].word if len(found) == 1 and found[0].end - found[0].start == len(text) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def _as_key(key: Any) -> str | int:
    if isinstance(key, str):
        word = as_word(key)
        if word is None:
            raise ValueError(
                f"each key must be one word (letters only), got {key!r}: it would never be found in a document"
            )
        return word
    if not _is_whole(key):
        raise TypeError(f"each key must be a word or a token id, got {key!r}")
    if key < 0:
        raise ValueError(f"each token id must be at least 0, got {key!r}")
    return int(key)


def _as_topics(key: Any, given: Any) -> set[int]:
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    topics = [given] if _is_whole(given) else given
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise TypeError(f"topics of {key!r} must be a whole number or several, got {given!r}")
    topics = list(topics)
    if not all(map(_is_whole, topics)):
        words = " (labels are {word: topic}, not {topic: words})" if all(isinstance(one, str) for one in topics) else ""
        raise TypeError(f"topics of {key!r} must be whole numbers, got {given!r:.80}{words}")
    if any(topic < 0 for topic in topics):
        raise ValueError(f"topics of {key!r} must be at least 0, got {given!r}: leave a word without topic out")
    return {int(topic) for topic in topics}
