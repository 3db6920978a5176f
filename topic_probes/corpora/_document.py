"""Documents, and collections of them that can be read more than once.

LDA makes several passes and the probe reads the held-out half again, so a corpus is not an
iterator: it is something that starts afresh each time it is asked.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from .._validation import require_count

_BEYOND_IDS = 2**63
"""Ids are put into arrays of 64 bits."""


@dataclass(frozen=True)
class Document:
    """One document: its text, or the token ids of a model that has no tokenizer.

    Exactly one of ``text`` and ``token_ids`` is given. Lone surrogates (halves of characters, left
    by broken JSON or HTML entities) cannot be encoded by any tokenizer: pairs are joined, and what
    has no partner becomes U+FFFD.

    Raises:
        ValueError: if both or none of ``text`` and ``token_ids`` are given, or an id has no room in 64 bits.

    Examples:
        >>> Document("7", text="A cat.")
        Document(id='7', title='', text='A cat.', token_ids=None)
    """

    id: str
    """Names the document. Resampling groups are made from it: documents of equal id are never drawn apart."""
    title: str = ""
    text: str | None = None
    token_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.token_ids is None):
            raise ValueError(f"document {self.id!r} must have either text or token_ids, got both or neither")
        if not isinstance(self.id, str) or not isinstance(self.title, str):
            raise TypeError(f"id and title of a document must be strings, got {self.id!r} and {self.title!r}")
        if self.text is not None and not isinstance(self.text, str):
            raise TypeError(f"text of document {self.id!r} must be a string, got {type(self.text).__name__}")
        if self.token_ids is not None:
            ids = as_token_ids(self.token_ids)
            if ids is None:
                raise TypeError(f"token_ids of document {self.id!r} must be whole numbers, got {self.token_ids!r:.80}")
            if ids and (min(ids) < -_BEYOND_IDS or max(ids) >= _BEYOND_IDS):
                worst = max(ids, key=abs)
                raise ValueError(f"token_ids of document {self.id!r} must be below 2**63, got {worst!r:.40}")
            object.__setattr__(self, "token_ids", ids)
        for name in ("id", "title", "text"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, _encodable(value))


class Corpus:
    """A re-iterable collection of documents.

    Each pass starts afresh, and two passes may run side by side. Ids are handed on as they come, and
    equal ids are allowed: such documents count one by one, and share a resampling group.

    Args:
        open_documents: called at the start of each pass; returns an iterator of documents.
        name: what the corpus is called in messages and results.
        limit: read at most this many documents.
        n_documents: how many there are before ``limit``, if known (for progress bars only).

    Raises:
        TypeError, ValueError: if ``limit`` is neither None nor a whole number of at least 1.
    """

    def __init__(
        self,
        open_documents: Callable[[], Iterator[Document]],
        *,
        name: str,
        limit: int | None = None,
        n_documents: int | None = None,
    ) -> None:
        if limit is not None:
            require_count("limit", limit)
        self._open_documents = open_documents
        self.name = name
        self.limit = limit
        known = [count for count in (n_documents, limit) if count is not None]
        self.expected = min(known) if n_documents is not None else limit
        """Number of documents to expect, or None; a progress bar's total, not a promise."""

    def __iter__(self) -> Iterator[Document]:
        return itertools.islice(self._open_documents(), self.limit)

    def __repr__(self) -> str:
        limit = "" if self.limit is None else f", limit={self.limit}"
        return f"Corpus({self.name!r}{limit})"


if TYPE_CHECKING:
    CorpusLike: TypeAlias = Corpus | Iterable[Document] | Iterable[str] | Iterable[Sequence[int]]
    """What every function that reads a corpus accepts."""
else:
    # At run time as_corpus judges, with a sentence; a checker of annotations would only say "not this union".
    CorpusLike = Any


def as_corpus(corpus: CorpusLike) -> Corpus:
    """Return ``corpus`` as a :class:`Corpus`.

    Strings and id sequences have no id of their own: it is made from their content, so that a document is the
    same in every corpus. Their title is their number, from 0.

    Raises:
        TypeError: for a single string, for an iterator that can be read only once, for a set or a
            dictionary, and (when they are read) for items of another kind.

    Examples:
        >>> [document.title for document in as_corpus(["A cat.", "A dog."])]
        ['item 0', 'item 1']
    """
    if isinstance(corpus, Corpus):
        return corpus
    if isinstance(corpus, (str, bytes)):
        raise TypeError("a corpus must be a collection of documents, got one string: wrap it in a list")
    if hasattr(corpus, "columns"):
        raise TypeError(
            "a corpus must be a collection of documents, got a table: pass one column, table['text'].tolist()"
        )
    if isinstance(corpus, (Mapping, AbstractSet)):
        raise TypeError(f"a corpus must be a collection in order, got {type(corpus).__name__}: pass a list")
    if isinstance(corpus, Iterator) or not isinstance(corpus, Iterable):
        raise TypeError(
            f"a corpus must be a collection that can be read more than once, got {type(corpus).__name__}: "
            "pass a list, or a corpus from topic_probes.corpora"
        )
    items: Iterable[Any] = corpus
    count = len(items) if isinstance(items, Sequence) else None
    return Corpus(
        lambda: (_as_document(item, number) for number, item in enumerate(items)),
        name=type(corpus).__name__,
        n_documents=count,
    )


def _as_document(item: Any, number: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(id=content_id(item), title=f"item {number}", text=item)
    ids = as_token_ids(item)
    if ids is None:
        raise TypeError(
            f"document {number} of the corpus must be a string or a sequence of token ids, got {item!r:.80}"
        )
    return Document(id=content_id(ids), title=f"item {number}", token_ids=ids)


def content_id(content: str | tuple[int, ...]) -> str:
    """Return an id for a document without one, made from its text or token ids: 16 hexadecimal digits."""
    text = content if isinstance(content, str) else " ".join(map(str, content))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def as_token_ids(value: Any) -> tuple[int, ...] | None:
    """Return a sequence, an array or a tensor of whole numbers as token ids, anything else as None."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return None
    if set(map(type, value)) <= {int}:  # the usual case, in a fraction of the time
        return tuple(value)
    if not all(isinstance(token, Integral) and not isinstance(token, bool) for token in value):
        return None
    return tuple(int(token) for token in value)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
