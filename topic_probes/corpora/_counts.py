"""How often each word, or token id, occurs in a corpus: to compare words of like frequency."""

from __future__ import annotations

from collections import Counter

from .._validation import require_count
from .._words import find_words, normalise
from ._document import CorpusLike, as_corpus


def word_counts(corpus: CorpusLike, limit: int | None = None) -> Counter[str | int]:
    """Return word -> occurrences in documents of text, token id -> occurrences in documents of ids.

    Words are those of the library's one rule (lower-case runs of letters). What :func:`topic_probes.probe` and
    :func:`topic_probes.probe_embedding` take as ``word_counts=``.

    Args:
        corpus: documents; a list will do.
        limit: documents to read, from the first; None for all.

    Examples:
        >>> word_counts(["A cat, a dog.", "The CAT"])["cat"]
        2
    """
    if limit is not None:
        require_count("limit", limit)
    counts: Counter[str | int] = Counter()
    for number, document in enumerate(as_corpus(corpus)):
        if limit is not None and number >= limit:
            break
        if document.text is not None:
            counts.update(word.word for word in find_words(normalise(document.text)))
        else:
            counts.update(document.token_ids or ())
    return counts
