"""Documents in, windows of tokens out, and a count of everything that was left behind on the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from .._axes import LongDocuments, WordPolicy
from .._errors import CorpusError
from .._words import find_words, normalise
from ._alignment import align_words
from ._text import TokenizedText
from ._tokenizer import TokenizerView
from ._windows import Window, Words, chosen, cut_windows, of_one_document

_SPELLS_BACK = 0.5
"""Below this share of a document's words found again in its tokens' spelling, the tokenizer is doubted aloud."""


@runtime_checkable
class ReadableDocument(Protocol):
    """What is needed of a document: see :class:`topic_probes.corpora.Document`."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    @property
    def token_ids(self) -> Sequence[int] | None: ...


@dataclass
class ReadingTally:
    """What became of the documents; part of every result."""

    n_documents: int = 0
    """Documents with at least one window."""
    n_windows: int = 0
    n_tokens: int = 0
    n_words: int = 0
    """Words in these documents, of truncated ones also what was not read (for labels of token ids: ordinary tokens)."""
    n_words_taking_part: int = 0
    """Those of them that are words of the windows' tokens under the policy."""
    n_windowed: int = 0
    """Documents longer than a window, read in several."""
    n_truncated: int = 0
    """Documents of which only the first window was read."""
    n_skipped: int = 0
    """Documents left out because they were too long."""
    n_empty: int = 0
    """Documents without a token of their own."""

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class DocumentReader:
    """Turns documents into windows of tokens with their words.

    Args:
        tokenizer: a Hugging Face tokenizer, or None for documents of token ids.
        words: ``"whole"``: only words of exactly one token take part. ``"merge"``: words of several tokens too.
        of_words: whether words are wanted (True) or token ids, each position being its own word (False).
        max_length: tokens in a window, special tokens included.
        long_documents: what to do with longer ones.
        n_vocabulary: ids must be below it.
    """

    def __init__(
        self,
        tokenizer: Any | None,
        *,
        words: WordPolicy = "whole",
        of_words: bool = True,
        max_length: int = 512,
        long_documents: LongDocuments = "window",
        n_vocabulary: int | None = None,
    ) -> None:
        if of_words and tokenizer is None:
            raise ValueError(
                "labels of words need a tokenizer, and the model has none: pass tokenizer=, "
                "or labels of token ids (TopicLabels.from_dict({token_id: topic}))"
            )
        self.tokenizer = tokenizer
        self.words = words
        self.of_words = of_words
        self.max_length = max_length
        self.long_documents = long_documents
        self.n_vocabulary = n_vocabulary
        self.tally = ReadingTally()
        self._view = TokenizerView(tokenizer) if tokenizer is not None else None
        self._doubted = False

    def windows(self, document: ReadableDocument) -> Iterator[Window]:
        """Yield the windows of a document; none if it is empty or was skipped.

        Raises:
            CorpusError: if it is too long and ``long_documents`` is ``"error"``; if an id is outside the
                vocabulary; if it has text and there is no tokenizer.
            ValueError: if a document is too long and its special tokens alone fill a window.
        """
        whole, n_words = self._read(document)
        if whole.is_special.all():
            self.tally.n_empty += 1
            return
        too_long = len(whole) > self.max_length
        if too_long and self.long_documents == "error":
            raise CorpusError(
                f"document {document.id!r} has {len(whole)} tokens, more than max_length={self.max_length}: "
                'pass long_documents="window", "truncate" or "skip"'
            )
        if too_long and self.long_documents == "skip":
            self.tally.n_skipped += 1
            return
        truncate = self.long_documents == "truncate"
        self.tally.n_documents += 1
        self.tally.n_words += n_words
        self.tally.n_truncated += too_long and truncate
        self.tally.n_windowed += too_long and not truncate
        n_before, n_after = self._frame(whole, document.text is not None) if too_long else (0, 0)
        windows: list[Window] = []
        for window in cut_windows(whole, self.max_length, n_before, n_after):
            windows.append(self._with_policy(window))
            self._count(windows[-1])
            if truncate:
                break
        yield from of_one_document(windows)

    def read(self, document: ReadableDocument) -> Window:
        """Return a document as one row, however long, under the ``merge`` policy, and count nothing.

        Raises:
            CorpusError: as :meth:`windows`, except for length.
        """
        return self._read(document)[0]

    def row(self, document_id: str, token_ids: Int[np.ndarray, " pos"]) -> Window:
        """Return ids that a model was given as they are: one row, uncut, with the words that take part."""
        whole, n_words = self._whole(document_id, self._from_ids(token_ids))
        window = self._with_policy(whole)
        self.tally.n_documents += 1
        self.tally.n_words += n_words
        self._count(window)
        return window

    def _read(self, document: ReadableDocument) -> tuple[Window, int]:
        """Return a document as one row, and how many words there are in it."""
        if document.text is not None:
            if self._view is None:
                raise CorpusError(
                    f"document {document.id!r} is text, and there is no tokenizer: pass tokenizer=, or token ids"
                )
            tokenized = self._view.tokenize(document.text)
            self._doubt_spelling(document.text, tokenized)
            self._require_in_vocabulary(document.id, tokenized.token_ids)
        else:
            token_ids = np.asarray(document.token_ids, dtype=np.int64)
            self._require_in_vocabulary(document.id, token_ids)
            if self._view is not None:
                token_ids = token_ids[self._view.real_positions(token_ids)]
            tokenized = self._from_ids(token_ids)
        return self._whole(document.id, tokenized)

    def _whole(self, document_id: str, tokenized: TokenizedText) -> tuple[Window, int]:
        if self.of_words:
            aligned = align_words(tokenized)
            words: Words = aligned.words
            starts, stops, n_words = aligned.starts, aligned.stops, aligned.n_found
        else:
            starts = np.flatnonzero(~tokenized.is_special)
            stops, n_words = starts + 1, len(starts)
            words = tuple(tokenized.token_ids[starts].tolist())
        return Window(document_id, tokenized.token_ids, tokenized.is_special, words, starts, stops), n_words

    def _from_ids(self, token_ids: Int[np.ndarray, " pos"]) -> TokenizedText:
        if self._view is not None and self.of_words:
            return self._view.spell_out(token_ids)
        special = np.isin(token_ids, self._view.special_ids if self._view is not None else [])
        return TokenizedText("", token_ids, np.zeros((len(token_ids), 2), dtype=np.int64), special, ~special)

    def _frame(self, whole: Window, from_text: bool) -> tuple[int, int]:
        """Return how many tokens at either end of a document are repeated in each of its windows.

        Those that the tokenizer puts there. A text may spell special tokens, and ids may come with any number
        of them: such are repeated only as far as the tokenizer would have put them, or one at each end.
        """
        frame = self._view.frame if self._view is not None else None
        if from_text and frame is not None:
            return frame
        ordinary = np.flatnonzero(~whole.is_special)
        runs = int(ordinary[0]), len(whole) - 1 - int(ordinary[-1])
        most = (1, 1) if frame is None else (max(frame[0], 1), max(frame[1], 1))
        return min(runs[0], most[0]), min(runs[1], most[1])

    def _count(self, window: Window) -> None:
        self.tally.n_windows += 1
        self.tally.n_tokens += len(window)
        self.tally.n_words_taking_part += len(window.words)

    def _with_policy(self, window: Window) -> Window:
        if self.words == "merge":
            return window
        single = np.flatnonzero(window.stops - window.starts == 1)
        return replace(
            window, words=chosen(window.words, single), starts=window.starts[single], stops=window.stops[single]
        )

    def _require_in_vocabulary(self, document_id: str, token_ids: np.ndarray) -> None:
        if self.n_vocabulary is None or len(token_ids) == 0:
            return
        lowest, highest = int(token_ids.min()), int(token_ids.max())
        if lowest < 0 or highest >= self.n_vocabulary:
            wrong = lowest if lowest < 0 else highest
            raise CorpusError(
                f"document {document_id!r} has token id {wrong}, outside the model's vocabulary of "
                f"{self.n_vocabulary}: use the model's own tokenizer, or ids in [0, {self.n_vocabulary})"
            )

    def _doubt_spelling(self, text: str, tokenized: TokenizedText) -> None:
        """Warn once if the tokens of a text, spelled out, do not give its words back."""
        text = normalise(text)
        if self._doubted or tokenized.text == text:
            return
        wanted = {word.word for word in find_words(text)}
        found = {word.word for word in find_words(tokenized.text)}
        if wanted and len(wanted & found) < _SPELLS_BACK * len(wanted):
            self._doubted = True
            warnings.warn(
                f"{type(self.tokenizer).__name__} gives no usable offsets, and its tokens spell only "
                f"{len(wanted & found)} of {len(wanted)} words of a document again: the others take part in no pair",
                stacklevel=2,
            )
