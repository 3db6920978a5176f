"""What a run over a corpus has counted so far: of each model, batch by batch, and how it goes on.

A batch counts whole or not at all, for each model on its own. That is what makes it safe to try one again in smaller
pieces: with rows of one length each where a model does not heed its mask, or half as large where a device ran out of
memory. The state of a run, between two stretches of the corpus, is all that is needed to go on from there.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch

from .._axes import Site
from ..statistics._sums import AttentionSums
from ..tokens import Window
from ._batches import Batch, BatchLimits
from ._counting import MaskIgnoredError, PatternCounter
from ._decoder import shifted_ids, shifted_window
from ._hooks import device_of, mask_argument, require_all_fired, run_until_pattern
from ._rows import BatchRows, PairMeasures
from ._visibility import Visibility

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What the messages of torch have in common, whatever the device."""


@dataclass
class RunState:
    """All that a run has to remember between two stretches of a corpus."""

    facts: dict[str, Any]
    """Plain JSON values: the reach of every site, which models ignore their mask, how large batches may be."""
    arrays: dict[str, np.ndarray]
    """The sums of every model, float64 and int64."""


class Run:
    """Models, and what has been counted of their patterns.

    Args:
        models: name -> model; all see the same batches.
        names: site -> name of its pattern hook, the same in all of them.
        measures: what is measured of pairs.
        visibility: ``"read"``, or stated.
        start: the id with which the decoder starts; None if there is none.
        limits: how large a batch may be.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        names: dict[Site, str],
        measures: PairMeasures,
        visibility: str,
        start: int | None,
        limits: BatchLimits,
    ) -> None:
        self.models = dict(models)
        self.names = names
        self.measures = measures
        self.start = start
        self.limits = limits
        self.counters = {name: PatternCounter(tuple(names), measures, visibility) for name in models}
        self.ignoring_mask: set[str] = set()
        """Models that take a mask and do not heed it: no pads for them."""
        self.halved = False
        """Whether a device ran out of memory, and batches are half as large since."""

    def count(self, windows: list[Window]) -> None:
        """Count a stretch of the corpus.

        Raises:
            PatternError: if a model does not hand out its patterns.
            RuntimeError: if a device runs out of memory again, or with one row.
        """
        for batch in self.limits.batches(windows):
            self._run_all(batch, keep=True)

    def learn(self, windows: list[Window]) -> None:
        """Learn what queries may see from the batch with which a stretch begins, and count nothing."""
        for batch in self.limits.batches(windows):
            self._run_all(batch, keep=False)
            return

    def _run_all(self, batch: Batch, *, keep: bool) -> None:
        rows = self._rows(batch)
        for name in self.models:
            todo = deque(self._pieces(name, batch))
            while todo:
                piece = todo.popleft()
                try_again = self._try(name, piece, rows if piece is batch else self._rows(piece), keep=keep)
                if try_again is not None:
                    self.counters[name].drop_batch()
                    if try_again == "smaller":
                        self._halve(name, piece)
                        rows = self._rows(batch)  # the old ones keep arrays on the device that has no room
                    else:
                        self.ignoring_mask.add(name)
                    todo.extendleft(reversed(list(self._pieces(name, piece))))

    def _pieces(self, name: str, batch: Batch) -> Iterator[Batch]:
        """Yield a batch as it is, or in the pieces in which this model takes it now."""
        for part in batch.by_length() if name in self.ignoring_mask else (batch,):
            if len(part.windows) == 1 or self.limits.tokens is None or part.n_tokens <= self.limits.tokens:
                yield part
            else:
                yield from self.limits.batches(part.windows)

    def _try(self, name: str, batch: Batch, rows: BatchRows, *, keep: bool) -> Literal["smaller", "no pads"] | None:
        """Run a batch through a model; return how to try it again, or None if it went through."""
        try:
            self._run(name, batch, rows, keep=keep)
        except MaskIgnoredError:
            if name in self.ignoring_mask:
                raise
            return "no pads"
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if self.halved or len(batch.windows) == 1:
                n_rows, n_tokens = batch.token_ids.shape
                size = f"{n_rows} rows of {n_tokens} tokens" if n_rows > 1 else f"one row of {n_tokens} tokens"
                raise type(error)(
                    f"out of memory on {device_of(self.models[name])} with {size}"
                    f"{', half of what there was before' if self.halved and n_rows > 1 else ''}: "
                    f"pass a smaller {'tokens_per_batch or max_length' if n_rows > 1 else 'max_length'}"
                ) from error
            return "smaller"  # and not from within here, where the error holds on to what filled the memory
        return None

    def _run(self, name: str, batch: Batch, rows: BatchRows, *, keep: bool) -> None:
        model, counter = self.models[name], self.counters[name]
        device = device_of(model)
        token_ids = batch.token_ids.to(device)
        mask = batch.mask.to(device) if mask_argument(model) is not None else None
        counter.begin_batch(rows)
        decoder_ids = None if self.start is None else shifted_ids(token_ids, self.start)
        hooks = {site: counter.hook(site) for site in self.names}
        run_until_pattern(model, token_ids, mask, hooks, self.names, decoder_ids)
        require_all_fired(model, self.names, counter.fired)
        if counter.nan_beside_pads and name not in self.ignoring_mask:
            raise MaskIgnoredError("a padded row has no finite attention")
        if keep:
            counter.end_batch()
        else:
            counter.drop_batch()

    def _halve(self, name: str, batch: Batch) -> None:
        self.halved = True
        self.limits.tokens = batch.n_tokens // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        warnings.warn(
            f"out of memory on {device_of(self.models[name])} with a batch of {len(batch.windows)} rows of "
            f"{batch.token_ids.shape[1]} tokens: from here on at most {self.limits.tokens} tokens are in a batch; "
            "nothing was counted twice (tokens_per_batch= sets it from the beginning)",
            stacklevel=2,
        )

    def _rows(self, batch: Batch) -> BatchRows:
        positions = [slice(0, len(window)) for window in batch.windows]
        rows = BatchRows(batch.windows, positions, self.measures)
        if self.start is not None:
            rows.add_decoder([shifted_window(window, self.start) for window in batch.windows], positions, self.start)
        return rows

    @property
    def state(self) -> RunState:
        """What is to be remembered between two stretches."""
        facts: dict[str, Any] = {
            "tokens_per_batch": self.limits.tokens,
            "halved": self.halved,
            "ignoring_mask": sorted(self.ignoring_mask),
            "counters": {},
        }
        arrays = {}
        for name, counter in self.counters.items():
            facts["counters"][name] = {
                "has_totals": counter.totals is not None,
                "visibility": visibility_facts(counter),
            }
            if counter.totals is not None:
                for part, array in counter.totals.to_arrays().items():
                    arrays[f"{name}/{part}"] = array
        return RunState(facts, arrays)

    @state.setter
    def state(self, state: RunState) -> None:
        facts = state.facts
        self.limits.tokens = facts["tokens_per_batch"]
        self.halved = facts["halved"]
        self.ignoring_mask = set(facts["ignoring_mask"])
        for name, counter in self.counters.items():
            counted = facts["counters"][name]
            seen = {Site.from_name(site): Visibility(**known) for site, known in counted["visibility"].items()}
            counter.visibility.update(seen)
            counter.totals = None
            if counted["has_totals"]:
                prefix = f"{name}/"
                # Copied: an array that was read from a file may not be written to.
                own = {
                    key.removeprefix(prefix): np.array(array)
                    for key, array in state.arrays.items()
                    if key.startswith(prefix)
                }
                counter.totals = AttentionSums.from_arrays(counter.sites, own)


def visibility_facts(counter: PatternCounter) -> dict[str, dict[str, Any]]:
    """Return what a counter has learned of its sites, as plain JSON values, where there was something to learn."""
    return {site.name: asdict(seen) for site, seen in counter.visibility.items() if isinstance(seen, Visibility)}


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that a device, or the machine, has no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)
