"""A long stream of short documents, good and bad ones mixed, whose counts are known from how they were made.

Counted as documents: good ones; ones without a word that has a topic; ones of words that the tokenizer has never seen;
ones with odd characters. Counted as skipped: too long ones. Counted as empty: ones of nothing, or of spaces. No
document of text is an error; what is one (an id outside the vocabulary, a line that is no JSON, a document that is
neither text nor ids) ends the run with a sentence, and is tried in test_soak.py.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import helpers
from topic_probes import TopicLabels, probe
from topic_probes.corpora import Corpus, jsonl

MAX_LENGTH = helpers.SIZES["n_ctx"]
LABELLED = helpers.WORDS[:12]
UNLABELLED = helpers.WORDS[12:]
LABELS = TopicLabels.from_dict({word: number // 4 for number, word in enumerate(LABELLED)})
UNSEEN = ("xyzzy", "\u043a\u043e\u0448\u043a\u0430", "plugh", "\u732b")
ODD = ("\U0001f408", "\u2603", "\u200d", "\ud83d", "\u0000", "\u202e", "42", "!")
KINDS = {"good": 80, "unlabelled": 4, "unseen": 4, "odd": 4, "long": 4, "empty": 4}


@dataclass
class Expected:
    """What the tally must say, counted while the documents were made."""

    kinds: Counter[str] = field(default_factory=Counter)
    n_words_taking_part: int = 0

    @property
    def tally(self) -> dict[str, int]:
        """The counts that are known on paper."""
        n_counted = sum(self.kinds[kind] for kind in KINDS if kind not in ("long", "empty"))
        return {
            "n_documents": n_counted,
            "n_windows": n_counted,
            "n_skipped": self.kinds["long"],
            "n_empty": self.kinds["empty"],
            "n_windowed": 0,
            "n_truncated": 0,
            "n_words_taking_part": self.n_words_taking_part,
        }


def make_document(kind: str, numbers: random.Random) -> tuple[str, int]:
    """Return a text of that kind, and how many of its words are one token of the tiny tokenizer."""
    if kind == "empty":
        return numbers.choice(["", " ", "\n\t \u00a0", "\u2003"]), 0
    n_words = numbers.randint(2, 6)
    if kind == "long":
        n_words = MAX_LENGTH + numbers.randint(-1, 30)  # with [CLS] and [SEP] at least one too many
    words = {"unlabelled": UNLABELLED, "unseen": UNSEEN}.get(kind, LABELLED + UNLABELLED)
    chosen = [numbers.choice(words) for _ in range(n_words)]
    n_taking_part = 0 if kind == "unseen" else n_words
    if kind == "odd":
        chosen = [part for word in chosen for part in (word, numbers.choice(ODD))]
    return " ".join(chosen), n_taking_part


def write_corpus(path: Path, n_documents: int, seed: int) -> Expected:
    """Write JSON lines, and return what must be counted of them."""
    numbers, expected = random.Random(seed), Expected()
    with path.open("w", encoding="ascii") as file:
        for _ in range(n_documents):
            (kind,) = numbers.choices(list(KINDS), list(KINDS.values()))
            text, n_taking_part = make_document(kind, numbers)
            expected.kinds[kind] += 1
            expected.n_words_taking_part += 0 if kind == "long" else n_taking_part
            file.write(json.dumps({"text": text}) + "\n")
    return expected


class Broken(BaseException):
    """Stands for a process that is killed: nothing in the library catches it."""


def breaking(path: Path, after: int | None) -> Corpus:
    """Return the corpus, which breaks the run after so many documents; None for never."""

    def documents() -> Iterator[Any]:
        for number, document in enumerate(jsonl(path)):
            if number == after:
                raise Broken
            yield document

    return Corpus(documents, name=path.name)


def open_model() -> tuple[Any, Any]:
    """Return a tiny encoder of any kind that the installed TransformerLens has, and its tokenizer."""
    tokenizer = helpers.tiny_tokenizer()
    return helpers.build("BERT bridge" if helpers.HAS_BRIDGE else "HookedEncoder", tokenizer=tokenizer), tokenizer


def soak(model: Any, tokenizer: Any, corpus: Any, **options: Any) -> Any:
    """Return the attention of one layer over the corpus; too long documents are skipped."""
    report = probe(
        model,
        corpus,
        LABELS,
        tokenizer=tokenizer,
        batch_size=256,
        layers=[0],
        baseline=None,
        n_permutations=0,
        long_documents="skip",
        progress=False,
        **options,
    )
    return report.attention


def soak_broken(
    model: Any, tokenizer: Any, path: Path, folder: Path, breaks: list[int], checkpoint_every: int
) -> tuple[Any, int]:
    """Return the result of a run that is broken off after so many documents, again and again, and how often it was."""
    n_broken = 0
    for after in [*breaks, None]:
        try:
            return (
                soak(
                    model,
                    tokenizer,
                    breaking(path, after),
                    checkpoint=folder,
                    resume=True,
                    checkpoint_every=checkpoint_every,
                ),
                n_broken,
            )
        except Broken:
            n_broken += 1
    raise AssertionError("the last run is not broken off")
