"""Passages as bags of words, in memory or, when they are many, in a temporary file.

A fit reads its passages many times, and those of a full Wikipedia have some ten gigabytes. So only 8 bytes a passage
stay in memory, where each begins; the bags themselves are read a block at a time, and a temporary file takes them
when they grow large (``TMPDIR`` says where). The file is gone when the bags are, or the process.
"""

from __future__ import annotations

import itertools
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import Int

IN_MEMORY = 2**24
"""Bytes of bags beyond which they go to a file."""
BLOCK = 2**17
"""Entries that are read, or written, together: a megabyte."""

_ENTRY_BYTES = 8


class Block(NamedTuple):
    """Some whole passages, one after the other."""

    words: Int[np.ndarray, " entry"]
    """[entry] word index."""
    counts: Int[np.ndarray, " entry"]
    """[entry] how often it stands in its passage."""
    starts: Int[np.ndarray, " passage_and_end"]
    """[passage + 1] first entry of each passage, and the end."""


class Bag(Sequence[tuple[int, int]]):
    """One passage, as gensim reads it: a sequence of (word, count), which takes little more than its numbers do."""

    __slots__ = ("_counts", "_words")

    def __init__(self, words: Int[np.ndarray, " entry"], counts: Int[np.ndarray, " entry"]) -> None:
        self._words, self._counts = words, counts

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return int(self._words[index]), int(self._counts[index])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._words.tolist(), self._counts.tolist(), strict=True)


class Bags:
    """Passages as bags of words; iterated, each is a :class:`Bag`.

    Made by :meth:`of`; every method reads them a block at a time.

    Args:
        entries: pairs of word index and count, passage by passage.
        starts: [passage + 1] first entry of each passage, and the end.
        on_passage: called whenever a passage is handed out (a progress bar).
    """

    def __init__(
        self,
        entries: _Entries,
        starts: Int[np.ndarray, " passage_and_end"],
        on_passage: Callable[[], object] | None = None,
    ) -> None:
        self._entries = entries
        self.starts = starts
        self.on_passage = on_passage

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[Bag]:
        for block in self.blocks():
            for start, stop in itertools.pairwise(block.starts.tolist()):
                yield Bag(block.words[start:stop], block.counts[start:stop])
                if self.on_passage is not None:
                    self.on_passage()

    def watched(self, on_passage: Callable[[], object] | None) -> Bags:
        """Return the same bags, with something that is called whenever one is handed out."""
        return Bags(self._entries, self.starts, on_passage)

    def blocks(self) -> Iterator[Block]:
        """Yield all passages in order, about a megabyte of them at a time (one passage may be longer)."""
        first = 0
        while first < len(self):
            # As many passages as fit, and one at least.
            fit = int(np.searchsorted(self.starts, self.starts[first] + BLOCK, side="right")) - 1
            stop = min(max(first + 1, fit), len(self))
            yield self._block(first, stop)
            first = stop

    def n_words(self) -> Int[np.ndarray, " passage"]:
        """Return [passage] the number of words, repeated ones counted as often as they stand there."""
        totals = [
            np.diff(np.concatenate([[0], np.cumsum(block.counts, dtype=np.int64)])[block.starts])
            for block in self.blocks()
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *totals])

    def passage_frequencies(self, n_words: int) -> Int[np.ndarray, " word"]:
        """Return [word] in how many passages each of ``n_words`` words stands."""
        found = np.zeros(n_words, dtype=np.int64)
        for block in self.blocks():
            found += np.bincount(block.words, minlength=n_words)
        return found

    def word_frequencies(self, n_words: int) -> Int[np.ndarray, " word"]:
        """Return [word] how often each of ``n_words`` words stands in all passages."""
        totals = np.zeros(n_words, dtype=np.int64)
        for block in self.blocks():
            np.add.at(totals, block.words, block.counts)
        return totals

    def take(self, passages: Int[np.ndarray, " chosen"]) -> Bags:
        """Return the chosen passages, in that order."""
        writer = _Writer()
        for start in range(0, len(passages), BLOCK):
            for first, stop in _runs(passages[start : start + BLOCK].tolist()):  # neighbours are read together
                for block in Bags(self._entries, self.starts[first : stop + 1]).blocks():
                    writer.add(block)
        return writer.bags()

    def rename(self, new_index: Int[np.ndarray, " word"]) -> Bags:
        """Return the bags with word ``w`` called ``new_index[w]``; entries of words that become -1 are dropped."""
        writer = _Writer()
        for block in self.blocks():
            words = new_index[block.words]
            kept = words >= 0
            starts = np.concatenate([[0], np.cumsum(kept)])[block.starts]
            writer.add(Block(words[kept], block.counts[kept], starts))
        return writer.bags()

    @classmethod
    def of(cls, passages: Iterable[Sequence[int]]) -> Bags:
        """Return the bags of passages that are sequences of word indices."""
        writer = _Writer()
        for passage in passages:
            words, counts = np.unique(np.asarray(passage, dtype=np.int32), return_counts=True)
            writer.add(Block(words, counts, np.array([0, len(words)])))
        return writer.bags()

    def _block(self, first: int, stop: int) -> Block:
        start, end = int(self.starts[first]), int(self.starts[stop])
        entries = self._entries.read(start, end)
        return Block(entries[:, 0], entries[:, 1], self.starts[first : stop + 1] - start)


class _Entries:
    """Pairs of 32-bit integers, in memory or in a file; whoever holds this holds the file."""

    def __init__(self) -> None:
        file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, prefix="topic_probes-bags-")  # noqa: SIM115
        self._file: IO[bytes] = file
        weakref.finalize(self, file.close)

    def append(self, entries: Int[np.ndarray, "entry 2"]) -> None:
        self._file.write(entries.astype(np.int32).tobytes())

    def read(self, start: int, stop: int) -> Int[np.ndarray, "entry 2"]:
        self._file.seek(start * _ENTRY_BYTES)
        return np.frombuffer(self._file.read((stop - start) * _ENTRY_BYTES), dtype=np.int32).reshape(-1, 2)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, stop) of each run of numbers that follow each other."""
    first = stop = numbers[0]
    for number in numbers:
        if number != stop:
            yield first, stop
            first = number
        stop = number + 1
    yield first, stop


class _Writer:
    """Takes passages, and makes bags of them."""

    def __init__(self) -> None:
        self._entries = _Entries()
        self._starts = array("q", [0])

    def add(self, block: Block) -> None:
        end = self._starts[-1]
        self._entries.append(np.stack([block.words, block.counts], axis=1))
        self._starts.frombytes((block.starts[1:] + end).astype(np.int64).tobytes())

    def bags(self) -> Bags:
        return Bags(self._entries, np.frombuffer(self._starts, dtype=np.int64))
