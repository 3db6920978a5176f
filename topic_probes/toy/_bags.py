"""Losses of masked words: the straightforward way, and the way that knows a document is a bag of words.

*Straightforward*: rows padded to one length, all positions are queries, all logits are made, those of masked positions
are used. Any model with logits can be trained so.

*Bags*: only masked positions are queries, and of those only one for each document and word shown (to this model equal
queries of a document are one query; with uniform attention all are). Keys are the distinct words of the document with
their counts. The gradient goes through the two circuits of :mod:`topic_probes.toy._model`, which are small matrices.
The loss is the same number up to rounding.

Losses are means over masked positions. Squared error is summed over words: ``mean of |logits - one-hot of the true
word|^2``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._documents import Bag
from ._masking import MaskedBag
from ._model import TopicTransformer

_MOST_WORDS = 4096
"""Beyond this many words a table of all pairs of words costs more than attention between tokens."""

LossFunction = Callable[[MaskedBag], Tensor]


def make_loss(model: Any, loss: str, n_words: int, *, fast: bool) -> LossFunction:
    """Return the function that gives the loss of a batch as a scalar tensor with a gradient."""
    if fast and isinstance(model, TopicTransformer) and n_words <= _MOST_WORDS:
        return lambda batch: _bag_loss(model, batch, loss)
    return _FullLoss(model, loss, n_words)


def _bag_loss(model: TopicTransformer, batch: MaskedBag, loss: str) -> Tensor:
    document = batch.shown.document
    n_documents, n_words = len(batch.shown.lengths), model.n_words
    like = model.b_U
    counts = _counts(document * (n_words + 1) + batch.shown.tokens, (n_documents, n_words + 1), like)
    asking = document[batch.masked]
    if model.attention == "uniform":
        targets = _counts(asking * n_words + batch.targets, (n_documents, n_words), like)
        weights = counts / counts.sum(dim=1, keepdim=True)
    else:
        queries, of_query = np.unique(asking * (n_words + 1) + batch.shown.tokens[batch.masked], return_inverse=True)
        targets = _counts(of_query.reshape(-1) * n_words + batch.targets, (len(queries), n_words), like)
        in_document, word = (torch.from_numpy(part).to(like.device) for part in np.divmod(queries, n_words + 1))
        # A word that occurs c times has c times the weight of one that occurs once: log c is added to its score.
        scores = model.qk_circuit()[word] + counts.log()[in_document]
        weights = torch.softmax(scores, dim=1)
    logits = weights @ model.ov_circuit().T + model.b_U
    n_queries = len(batch.masked)
    if loss == "cross_entropy":
        return -(targets * torch.log_softmax(logits, dim=1)).sum() / n_queries
    squares = (targets.sum(dim=1) * logits.square().sum(dim=1)).sum()
    return (squares - 2 * (targets * logits).sum()) / n_queries + 1


def _counts(numbers: np.ndarray, shape: tuple[int, int], like: Tensor) -> Tensor:
    counted = np.bincount(numbers, minlength=shape[0] * shape[1]).reshape(shape)
    return torch.from_numpy(counted).to(device=like.device, dtype=like.dtype)


class _FullLoss:
    """The loss of any model that returns logits [batch, pos, word]."""

    def __init__(self, model: Any, loss: str, n_words: int) -> None:
        self._model, self._loss, self._n_words = model, loss, n_words
        self._mask_argument = _mask_argument(model)
        self._heeds_mask: bool | None = None

    def __call__(self, batch: MaskedBag) -> Tensor:
        lengths = batch.shown.lengths
        if len(np.unique(lengths)) == 1 or self._pads_are_hidden(batch.shown):
            groups = [np.arange(len(lengths))]
        else:  # rows of one length need no pads
            groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        document, place = batch.shown.document[batch.masked], batch.shown.place[batch.masked]
        total: Any = 0.0
        for group in groups:
            rows = np.full(len(lengths), -1)
            rows[group] = np.arange(len(group))
            mine = np.flatnonzero(rows[document] >= 0)
            logits = self._logits(batch.shown.take(group))
            at = torch.from_numpy(rows[document[mine]]).to(logits.device)
            chosen = logits[at, torch.from_numpy(place[mine]).to(logits.device)]
            total = total + self._sum(chosen, torch.from_numpy(batch.targets[mine]).to(logits.device))
        return total / len(batch.masked)

    def _logits(self, rows: Bag, *, mask: bool = True) -> Tensor:
        device = next(iter(self._model.parameters())).device
        ids = np.zeros((len(rows.lengths), int(rows.lengths.max())), dtype=np.int64)
        ids[rows.document, rows.place] = rows.tokens
        arguments = {}
        if self._mask_argument is not None and mask:
            real = np.arange(ids.shape[1]) < rows.lengths[:, None]
            arguments[self._mask_argument] = torch.from_numpy(real.astype(np.int64)).to(device)
        logits = self._model(torch.from_numpy(ids).to(device), **arguments)
        logits = getattr(logits, "logits", logits)
        if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[-1] < self._n_words:
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"model must return logits [batch, pos, word] over at least the {self._n_words} words of the corpus, "
                f"got {found}: give a model with d_vocab of at least {self._n_words + 1} and an unembedding"
            )
        return logits[..., : self._n_words]

    def _sum(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self._loss == "cross_entropy":
            return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return (logits - torch.nn.functional.one_hot(targets, self._n_words).to(logits.dtype)).square().sum()

    def _pads_are_hidden(self, shown: Bag) -> bool:
        """Return whether padding a row changes nothing; some models take a mask and do not heed it."""
        if self._heeds_mask is None:
            if self._mask_argument is None:
                self._heeds_mask = False
            else:
                short, long = int(shown.lengths.argmin()), int(shown.lengths.argmax())
                was_training = self._model.training
                self._model.eval()
                with torch.no_grad():
                    padded = self._logits(shown.take(np.array([short, long])))[0, : int(shown.lengths[short])]
                    alone = self._logits(shown.take(np.array([short])))[0]
                self._model.train(was_training)
                self._heeds_mask = bool(torch.allclose(padded, alone, rtol=1e-3, atol=1e-5))
        return self._heeds_mask


def _mask_argument(model: Any) -> str | None:
    parameters = inspect.signature(type(model).forward).parameters
    return next((name for name in ("attention_mask", "one_zero_attention_mask") if name in parameters), None)
