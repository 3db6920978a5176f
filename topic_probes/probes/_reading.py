"""A corpus on its way through the models: a process's share of the documents, from where it was left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._folders import reading
from .._progress import progress_bar
from ..corpora._document import Corpus, Document
from ..tokens import DocumentReader, Window
from ..tokens._reader import ReadingTally
from ._batches import stretches
from ._distributed import Processes
from ._resuming import CheckpointFolder, Place
from ._running import Run


class CorpusReading:
    """Documents in, a run that has counted them out.

    Args:
        corpus: all documents.
        reader: turns them into windows, and keeps the tally.
        processes: those that share the documents; None for one alone.
        progress: show a bar (in the first process).
    """

    def __init__(self, corpus: Corpus, reader: DocumentReader, processes: Processes | None, progress: bool) -> None:
        self.corpus = corpus
        self.reader = reader
        self.share = (0, 1) if processes is None else (processes.rank, processes.n)
        """Rank and number of processes."""
        self.progress = progress and self.share[0] == 0
        self.place = Place()
        """How far the corpus has been read; with a digest of its documents where another run must read the same."""

    def count(self, run: Run, states: CheckpointFolder | None) -> None:
        """Count all documents of this share, writing states on the way.

        Args:
            run: has counted nothing yet.
            states: where states are kept, and one to go on from may be; None to keep none.

        Raises:
            ValueError: if the state to go on from is damaged, or of another run or corpus.
        """
        found = None if states is None else states.read()
        if states is not None and found is not None:
            self.place, self.reader.tally, state = found
            with reading(states.shown, "checkpoint"):
                run.state = state
        elif self.share[1] > 1:
            # What one process knows after its first batch, all of several know before theirs.
            first = stretches((self.reader.windows(document) for document in self.corpus), run.limits)
            run.learn(next(first))
            self.reader.tally = ReadingTally()
        with progress_bar(
            self.corpus, description="Probing", unit="documents", total=self.corpus.expected, enabled=self.progress
        ) as documents:
            for windows in stretches(self._windows(documents, states), run.limits):
                run.count(windows)
                if states is not None and states.is_due(self.place):
                    states.write(self.place, self.reader.tally, run.state)
        if states is not None:
            states.write(self.place, self.reader.tally, run.state)

    def _windows(self, documents: Iterable[Document], states: CheckpointFolder | None) -> Iterator[Iterable[Window]]:
        """Yield the windows of each document, none for those of others, and move the place along."""
        (rank, n_processes), place = self.share, self.place
        before = Place()
        n_before, digest = place.n_documents, place.digest
        for document in documents:
            if before.n_documents < n_before:
                # Documents are counted here one by one; no stream is trusted to find a place in itself again.
                before.take(document)
                if before.n_documents == n_before and before.digest != digest:
                    break
                continue
            is_ours = place.n_documents % n_processes == rank
            if states is None and n_processes == 1:
                place.n_documents += 1
            else:
                place.take(document)
            yield self.reader.windows(document) if is_ours else ()
        if before.digest != digest:
            assert states is not None
            if before.n_documents < n_before:
                why = f"it has {before.n_documents} documents, and {n_before} were counted"
            else:
                why = f"its first {n_before} documents are not those that were counted"
            raise ValueError(
                f"checkpoint {states.shown} is of another corpus than {self.corpus.name!r}: {why}; pass the same "
                "corpus, or choose another folder"
            )
