"""The updates of a training run, and the rows of the history between them.

A step draws its documents, its masks and (for models with dropout) torch's random numbers from the seed and its own
number: nothing else is carried from one step to the next but weights and the optimiser's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .._progress import progress_bar
from . import _checkpoint as checkpoints
from ._bags import LossFunction
from ._checkpoint import Progress
from ._documents import Bag, Order
from ._history import COLUMNS, Measures
from ._logging import RowLog
from ._masking import MaskedBag, mask_documents
from ._masking_rates import MaskingRates

_LEAST_FALL = 1e-4
"""A loss that falls by less than this share of itself has not fallen, for ``early_stop``."""


@dataclass
class Loop:
    """All that an update and a row of the history need; the names are those of :func:`topic_probes.toy.train`."""

    model: Any
    update: torch.optim.Optimizer
    loss_of: LossFunction
    rates: MaskingRates
    documents: Bag
    evaluation: MaskedBag
    """The documents on which the loss of every row is measured, masked once."""
    measures: Measures
    order: Order
    n_words: int
    seed: int
    on_record: Callable[[Any, int], Any] | None = None
    rows: list[dict[str, float]] = field(default_factory=list)
    """The history so far."""

    def run(
        self,
        steps: int,
        record_every: int,
        early_stop: int | None,
        checkpoint: Any,
        options: dict[str, Any],
        goes_on: bool,
        *,
        show: bool,
    ) -> bool:
        """Make the updates from where a checkpoint stands, or from the start; return whether they ended early."""
        step, best, n_since_best = 0, math.inf, 0
        if goes_on:
            found = checkpoints.load(checkpoint, self.model, self.update, options, steps)
            step, best, n_since_best = found.step, found.best, found.n_since_best
            self.rows = found.history.to_dict("records")
        losses: list[float] = []
        with progress_bar(description="Training", unit="steps", total=steps, enabled=show) as bar:
            bar.update(step)
            while True:
                if not self.rows or (step > self.rows[-1]["step"] and (step % record_every == 0 or step == steps)):
                    self._record(step, losses)
                    losses = []
                    now = self.rows[-1]["loss"]
                    fell = now < best - _LEAST_FALL * abs(best) if math.isfinite(best) else True
                    best, n_since_best = (now, 0) if fell else (best, n_since_best + 1)
                    if checkpoint is not None:
                        state = Progress(step, self.frame(), best, n_since_best)
                        checkpoints.save(checkpoint, self.model, self.update, state, options)
                if early_stop is not None and n_since_best >= early_stop:
                    return step < steps
                if step >= steps:
                    return False
                losses.append(self._step(step))
                step += 1
                bar.update(1)

    def _step(self, step: int) -> float:
        torch.default_generator.manual_seed(int(np.random.SeedSequence([self.seed, 4, step]).generate_state(1)[0]))
        documents = self.documents.take(self.order(step))
        batch = mask_documents(documents, self.rates, self.n_words, np.random.default_rng([self.seed, 2, step]))
        self.model.train()
        self.update.zero_grad(set_to_none=True)
        loss = self.loss_of(batch)
        loss.backward()
        value = loss.detach().item()
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the loss is {value} at step {step}: lower learning_rate (it is {self.update.param_groups[0]['lr']})"
            )
        self.update.step()
        return value

    def _record(self, step: int, losses: list[float]) -> None:
        self.model.eval()
        with torch.no_grad():
            loss = float(self.loss_of(self.evaluation))
        row: dict[str, Any] = {"step": step, "loss": loss}
        row["training_loss"] = math.fsum(losses) / len(losses) if losses else math.nan
        row |= self.measures(self.model)
        if self.on_record is not None:
            more = dict(self.on_record(self.model, step) or {})
            taken = sorted({*more} & {*COLUMNS})
            if taken:
                raise ValueError(f"on_record must not return columns that a history has already, got {taken}")
            row |= {name: float(value) for name, value in more.items()}
        self.rows.append(row)
        if isinstance(self.on_record, RowLog):
            self.on_record.write(row)

    def frame(self) -> Any:
        import pandas as pd

        others = sorted({name for row in self.rows for name in row} - {*COLUMNS})
        frame = pd.DataFrame(self.rows, columns=[*COLUMNS, *others])
        return frame.astype({"step": np.int64, **{name: np.float64 for name in frame.columns if name != "step"}})
