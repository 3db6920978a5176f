"""A corpus as a model takes it: the options of reading, checked once for every probe, and the windows they make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .._axes import LongDocuments, WordPolicy
from .._errors import CorpusError
from .._progress import progress_bar
from .._validation import require_count, require_one_of
from ..corpora import CorpusLike, as_corpus
from ..corpora._document import Corpus
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._hooks import tokenizer_of

DEFAULT_MAX_LENGTH = 512
"""Tokens in a window unless told otherwise: a pattern's memory grows with the square of it."""


@dataclass(frozen=True)
class CorpusForModel:
    """Documents, and the reader that makes windows of a model's tokens of them."""

    documents: Corpus
    reader: DocumentReader
    """Keeps the tally of what became of the documents."""
    labels: TopicLabels
    pad_id: int
    """Id that fills shorter rows of a batch."""

    @property
    def options(self) -> dict[str, Any]:
        """How documents are read, as results say it."""
        reader = self.reader
        return {"words": reader.words, "max_length": reader.max_length, "long_documents": reader.long_documents}

    @contextmanager
    def windows(self, description: str, *, progress: bool) -> Iterator[Iterator[Window]]:
        """Give the windows of all documents to a block, under a progress bar of this description."""
        total = self.documents.expected
        with progress_bar(
            self.documents, description=description, unit="documents", total=total, enabled=progress
        ) as documents:
            yield (window for document in documents for window in self.reader.windows(document))

    def require_pairs(self, found: bool, *, of: str = "labelled") -> None:
        """Raise unless there was something to compare.

        Args:
            found: whether there were pairs of words.
            of: what words they are of.

        Raises:
            CorpusError: if there was no window, or no pair in them.
        """
        name, reader = self.documents.name, self.reader
        tally = reader.tally
        if not tally.n_windows:
            raise CorpusError(
                f"nothing in the corpus {name!r} could be probed: {tally.n_empty} documents are empty and "
                f"{tally.n_skipped} were skipped as too long"
            )
        if not found:
            kind = "words" if self.labels.of_words else "token ids"
            raise CorpusError(
                f"no two {of} {kind} met in the corpus {name!r}: {len(self.labels.topics_of)} {kind} have labels, "
                f"{tally.n_words_taking_part} words read are words of the model's tokens (words={reader.words!r}); "
                "check that labels and corpus are of one language, read more of long documents, or "
                'pass words="merge"'
            )


def corpus_for_model(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    tokenizer: Any,
    *,
    words: WordPolicy,
    max_length: int | None,
    long_documents: LongDocuments,
) -> CorpusForModel:
    """Return a corpus as a model takes it; arguments as of :func:`topic_probes.probe`.

    Raises:
        TypeError, ValueError: for labels, a tokenizer, a corpus or an option that cannot be used.
    """
    require_labels(labels)
    require_one_of("words", words, ("whole", "merge"))
    require_one_of("long_documents", long_documents, ("window", "truncate", "skip", "error"))
    documents = as_corpus(corpus)
    tokenizer = tokenizer_of(model, tokenizer)
    _doubt_tokenizer(model, tokenizer)
    reader = DocumentReader(
        tokenizer,
        words=words,
        of_words=labels.of_words,
        max_length=_max_length(model, tokenizer, max_length),
        long_documents=long_documents,
        n_vocabulary=getattr(model.cfg, "d_vocab", None),
    )
    return CorpusForModel(documents, reader, labels, _pad_id(model, tokenizer))


def _doubt_tokenizer(model: Any, tokenizer: Any) -> None:
    """Warn of a tokenizer that knows few of the model's tokens: its ids fit, and mean something else."""
    n_known, n_tokens = getattr(model.cfg, "d_vocab", None), len(tokenizer) if hasattr(tokenizer, "__len__") else None
    if n_known and n_tokens and n_tokens < n_known / 10:
        warnings.warn(
            f"the tokenizer has {n_tokens:,} tokens, and the model {n_known:,}: if it is another model's, its ids mean "
            "other words; pass the model's own as tokenizer=",
            stacklevel=4,
        )


def _max_length(model: Any, tokenizer: Any, wanted: int | None) -> int:
    context = getattr(model.cfg, "n_ctx", None) or DEFAULT_MAX_LENGTH
    if wanted is not None:
        require_count("max_length", wanted)
        if wanted > context:
            raise ValueError(f"max_length must be at most the model's context of {context} tokens, got {wanted}")
        return int(wanted)
    return min(context, getattr(tokenizer, "model_max_length", context), DEFAULT_MAX_LENGTH)


def _pad_id(model: Any, tokenizer: Any) -> int:
    """Return the tokenizer's pad id if the model has it (some count positions by it), else 0; pads are masked."""
    pad_id = getattr(tokenizer, "pad_token_id", None) or 0
    return pad_id if pad_id < getattr(model.cfg, "d_vocab", 0) else 0
