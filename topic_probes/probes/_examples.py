"""Example passages: what a head attends to, word by word, as plain data for the report page.

A passage is short (60 words unless told otherwise), because what is kept of it is a square matrix for
each head. These are for looking; the statistics never hold such a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._axes import Site, WordPolicy
from .._errors import CorpusError
from .._validation import require_count
from .._words import find_words, normalise
from ..corpora import CorpusLike, as_corpus
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._corpus_for_model import DEFAULT_MAX_LENGTH
from ._matrices import _site, word_attention

_DIGITS = 3
"""Significant digits of the attention that is kept: these numbers are for colours."""


def example_passages(
    model: Any,
    texts: CorpusLike,
    labels: TopicLabels,
    *,
    heads: Any,
    tokenizer: Any = None,
    words: WordPolicy = "merge",
    max_words: int = 60,
    limit: int = 4,
) -> list[dict[str, Any]]:
    """Return the attention of some heads within some short passages, for ``ProbeReport.to_html(examples=...)``.

    Args:
        model: any TransformerLens model in evaluation mode.
        texts: documents of text; the first ``limit`` that have words are used, and of each the beginning.
        labels: topics of words.
        heads: ``(layer, head)`` of each head to show, of an encoder-decoder ``(stack, layer, head)``; or a table with
            these columns, such as ``report.attention.to_frame("distance_matched").nlargest(4, "ratio_low")``.
        tokenizer: the model's own (``model.tokenizer``) unless given.
        words: ``"whole"`` or ``"merge"``, as for :func:`word_attention`.
        max_words: words of each passage, counted by the library's rule; fewer where they are more than
            ``DEFAULT_MAX_LENGTH`` = 512 tokens, or than the model takes.
        limit: passages.

    Returns:
        One dictionary a passage, of plain JSON values: ``title``; ``words`` [word] as they are written, ``gaps``
        [word + 1] the text before, between and behind them; ``topics`` [word] the topics of each, a list; and
        ``heads``, each with ``stack``, ``layer``, ``head`` and ``attention`` [query, key] in units of uniform = 1, to
        three digits, None where a query cannot see a key.

    Raises:
        CorpusError: if no text has a word that is a word of the model's tokens, or ``texts`` are ids.
        TypeError: if ``labels`` are not TopicLabels, or ``heads`` neither pairs nor a table.
        ValueError: if labels are of token ids, there are no heads, or no such layer or head.
    """
    require_labels(labels)
    if not labels.of_words:
        raise ValueError("labels must be of words, got labels of token ids: passages are read as text")
    require_count("max_words", max_words)
    require_count("limit", limit)
    chosen = _chosen_heads(heads)
    passages: list[dict[str, Any]] = []
    for document in as_corpus(texts):
        if len(passages) == limit:
            break
        if document.text is None:
            raise CorpusError("texts must be documents of text, got one of token ids: pass strings")
        text = _beginning(document.text, max_words)
        try:
            passages.append(_passage(model, text, document.title or document.id, labels, chosen, tokenizer, words))
        except CorpusError:  # a text without words says nothing; the others may
            continue
    if not passages:
        raise CorpusError(f"texts must have words of the model's tokens under words={words!r}, got none that has")
    return passages


def _passage(
    model: Any,
    text: str,
    title: str,
    labels: TopicLabels,
    heads: Sequence[tuple[Any, int, int]],
    tokenizer: Any,
    words: WordPolicy,
) -> dict[str, Any]:
    frames = [
        word_attention(
            model,
            text,
            layer=layer,
            head=head,
            stack=stack,
            tokenizer=tokenizer,
            words=words,
            max_length=DEFAULT_MAX_LENGTH,
        )
        for stack, layer, head in heads
    ]
    # In cross-attention a last word may be a key and no query, and in the decoder neither: the longest list has all.
    names = max(([str(word) for word in frame.columns] for frame in frames), key=len)
    written, gaps = _as_written(text, names)
    return {
        "title": str(title),
        "words": written,
        "gaps": gaps,
        "topics": [np.flatnonzero(row).tolist() for row in labels.membership(names)],
        "heads": [
            {
                "stack": stack,
                "layer": Site.of(_site(model, stack, layer)[0]).layer,
                "head": head,
                "attention": _plain(frame.to_numpy(dtype=float), len(names)),
            }
            for (stack, layer, head), frame in zip(heads, frames, strict=True)
        ],
    }


def _chosen_heads(heads: Any) -> list[tuple[Any, int, int]]:
    """Return (stack, layer, head) of each head."""
    if hasattr(heads, "columns"):
        missing = [name for name in ("layer", "head") if name not in heads.columns]
        if missing:
            raise ValueError(f"heads must have the columns layer and head, it lacks {', '.join(missing)}")
        names = [name for name in ("stack", "layer", "head") if name in heads.columns]
        heads = [tuple(row[name] for name in names) for row in heads[names].to_dict("records")]
    if isinstance(heads, (str, bytes)) or not isinstance(heads, Iterable):
        raise TypeError(f"heads must be (layer, head) of each head, or a table with these columns, got {heads!r:.60}")
    chosen = []
    for head in heads:
        parts = tuple(head) if isinstance(head, Iterable) and not isinstance(head, str) else ()
        stack, numbers = (parts[0], parts[1:]) if len(parts) == 3 else ("", parts)
        if len(numbers) != 2 or not isinstance(stack, str):
            raise TypeError(f"each of heads must be (layer, head) or (stack, layer, head), got {head!r:.60}")
        for number in numbers:
            require_count("layer and head", number, minimum=-(10**6))
        chosen.append((stack, int(numbers[0]), int(numbers[1])))
    if not chosen:
        raise ValueError("heads must name at least one head, got none: pass the first rows of a to_frame()")
    return list(dict.fromkeys(chosen))


def _beginning(text: str, max_words: int) -> str:
    """Return the text as far as its ``max_words``-th word, on one line."""
    text = " ".join(normalise(text).split())
    found = find_words(text)
    return text if len(found) <= max_words else text[: found[max_words - 1].end]


def _as_written(text: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return each word as it stands in the text, and the text before, between and behind them.

    Words that do not take part are passed over; they are in the gaps.
    """
    written, gaps, place = [], [], 0
    found = iter(find_words(text))
    for name in names:
        word = next((word for word in found if word.word == name), None)
        if word is None:  # not the words of this text in order: they are shown as they are
            return list(names), ["", *[" "] * (len(names) - 1), ""]
        gaps.append(text[place : word.start])
        written.append(text[word.start : word.end])
        place = word.end
    return written, [*gaps, text[place:]]


def _plain(attention: np.ndarray, n_words: int) -> list[list[float | None]]:
    """Return [query, key] as lists with None where nothing is seen, filled up to ``n_words`` each way."""
    rows: list[list[float | None]] = [[None] * n_words for _ in range(n_words)]
    for query, row in enumerate(attention.tolist()):
        for key, value in enumerate(row):
            if math.isfinite(value):
                rows[query][key] = float(f"{value:.{_DIGITS}g}")
    return rows
