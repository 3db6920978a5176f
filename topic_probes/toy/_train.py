"""``train``: masked language modelling of a toy model, or of any TransformerLens model, with a history.

Li et al. (2023) train by AdamW or SGD on cross-entropy or squared loss over masked positions, with fresh masks at every
step. The same here, and each step is a function of the seed and its number, so that an interrupted run goes on bit for
bit (on the same machine).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
import torch

from .._validation import require_count, require_one_of
from ..corpora import CorpusLike
from . import _checkpoint as checkpoints
from ._bags import make_loss
from ._documents import Order, fingerprint, read_documents
from ._history import Measures, ToyRun, plain
from ._loop import Loop
from ._masking import mask_documents
from ._masking_rates import MaskingRates
from ._model import TopicTransformer
from ._topics import word_topics

_EVALUATION_DOCUMENTS = 256


def train(
    model: Any,
    corpus: CorpusLike,
    *,
    loss: Literal["cross_entropy", "squared"] = "cross_entropy",
    optimizer: Literal["adamw", "sgd"] = "adamw",
    learning_rate: float | None = None,
    steps: int = 2000,
    batch_size: int = 256,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    seed: int = 0,
    labels: Any = None,
    evaluation: CorpusLike | None = None,
    n_words: int | None = None,
    record_every: int | None = None,
    on_record: Callable[[Any, int], Mapping[str, float] | None] | None = None,
    early_stop: int | None = None,
    checkpoint: str | PathLike | None = None,
    resume: bool = False,
    fast: bool = True,
    progress: bool = True,
) -> ToyRun:
    """Train a model, in place, to tell the masked words of documents.

    A :class:`TopicTransformer` is trained by its bags of words (see :mod:`topic_probes.toy._bags`): its own forward,
    and so hooks on it, do not run. Any other model is trained through its forward: a ``HookedTransformer``, a
    ``HookedEncoder`` or a ``TransformerBridge`` with logits over the words, whose vocabulary holds [MASK] as the id
    ``n_words``. A model that does not heed an attention mask (a bidirectional ``HookedTransformer``) gets rows of one
    length.

    The model is in training mode during updates and in evaluation mode whenever control is handed out: to
    ``on_record``, which may probe it, and at the end, also after an exception. torch's global generator comes back as
    it was.

    Args:
        model: what to train; it is changed.
        corpus: documents of word ids 0 .. n_words-1, read once into memory, 4 bytes a token. A list of id sequences
            will do.
        loss: over masked positions, meaned: ``"cross_entropy"`` in nats, or ``"squared"``: the squared distance between
            the logits and the one-hot vector of the true word (both are in Li et al. 2023).
        optimizer: ``"adamw"`` or ``"sgd"``.
        learning_rate: unless given, of a toy model 0.01 for AdamW, and for SGD 10 (1 with a trained embedding):
            gradients are small where each word is a small part of a document. Of other models 0.001 and 0.1.
        steps: updates.
        batch_size: documents in each.
        mask_rate: share of positions whose word is to be told; at least one in each document.
        keep_rate: share of these that show their own word.
        random_rate: share of these that show a random word; the others show [MASK].
        weight_decay: of the optimiser.
        momentum: of SGD.
        seed: of the order of documents and of the masks.
        labels: topics of words for the history: ``TopicLabels`` of ids, ``{word: topics}``, or one for each word. Those
            that the corpus brings along as ``topics_of`` unless given.
        evaluation: documents on which the history is measured; the first 256 of ``corpus`` unless given.
        n_words: words of the vocabulary; the toy model's own, else the corpus' (its ``n_words``), else d_vocab - 1.
        record_every: steps between rows of the history; a hundredth of ``steps`` unless given.
        on_record: called with the model and the step for each row; the numbers it returns become columns.
        early_stop: end when the evaluation loss has not fallen for this many rows; None to make all steps.
        checkpoint: folder that holds the state of the last row; made, and replaced whole.
        resume: go on from ``checkpoint`` where there is one; else begin. ``steps`` may be larger than before; all else
            must be as it was.
        fast: False trains a toy model through its forward too, every position a query: the same loss, slowly.
        progress: show a progress bar on stderr.

    Returns:
        The run: ``model``, ``history``, ``stages()``.

    Raises:
        TypeError, ValueError: for an option outside its range, a model with nothing to train or without logits over the
            words.
        CorpusError: if a document is text, an id is outside the vocabulary, or there is no document.
        FileExistsError: if ``checkpoint`` holds a checkpoint and ``resume`` is False, or something else.
        FloatingPointError: if the loss is no longer a finite number.

    Examples:
        >>> from topic_probes.toy import TopicTransformer
        >>> documents = [[0, 1, 1, 0, 1, 0], [2, 3, 3, 2, 2, 3]] * 8
        >>> model = TopicTransformer(4, attention="uniform")
        >>> run = train(model, documents, steps=50, batch_size=16, labels=[0, 0, 1, 1], progress=False)
        >>> bool(run.history["value_contrast"].iloc[-1] > 0.3)
        True
    """
    require_one_of("loss", loss, ("cross_entropy", "squared"))
    require_one_of("optimizer", optimizer, ("adamw", "sgd"))
    require_count("steps", steps)
    require_count("batch_size", batch_size)
    require_count("seed", seed, minimum=0)
    for name, value in (("record_every", record_every), ("early_stop", early_stop)):
        if value is not None:
            require_count(name, value)
    rate = _usual_rate(model, optimizer) if learning_rate is None else _positive("learning_rate", learning_rate)
    decay = _positive("weight_decay", weight_decay, or_zero=True)
    inertia = _positive("momentum", momentum, or_zero=True)
    if inertia and optimizer != "sgd":
        raise ValueError(f'momentum is of optimizer="sgd" only, got {momentum!r} with "{optimizer}": leave it out')
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    if resume and checkpoint is None:
        raise ValueError("resume=True needs the folder of a checkpoint: pass checkpoint=")
    weights = _trainable(model)
    n_words = _vocabulary(model, corpus, n_words)
    documents = read_documents(corpus, n_words)
    measured = documents if evaluation is None else read_documents(evaluation, n_words)
    if evaluation is None:
        measured = measured.take(np.arange(min(len(measured.lengths), _EVALUATION_DOCUMENTS)))
    topics = _topics(labels, corpus, n_words)

    goes_on = checkpoint is not None and resume and checkpoints.exists(checkpoint)
    if checkpoint is not None and not resume and checkpoints.exists(checkpoint):
        raise FileExistsError(
            f"checkpoint {checkpoint} holds the checkpoint of an earlier run: pass resume=True to go on with it, "
            "choose another folder, or remove it"
        )
    if record_every is None:
        begun = checkpoints.options_of(checkpoint) if goes_on and checkpoint is not None else {}
        record_every = int(begun.get("record_every", max(1, steps // 100)))
    options = plain(
        {
            "model": model.options if isinstance(model, TopicTransformer) else type(model).__name__,
            "n_words": n_words,
            "loss": loss,
            "optimizer": optimizer,
            "learning_rate": rate,
            "batch_size": int(batch_size),
            "mask_rate": mask_rate,
            "keep_rate": keep_rate,
            "random_rate": random_rate,
            "weight_decay": decay,
            "momentum": inertia,
            "seed": int(seed),
            "record_every": int(record_every),
            "early_stop": None if early_stop is None else int(early_stop),
            "fast": bool(fast),
            "documents": fingerprint(documents),
            "evaluation": fingerprint(measured),
        }
    )
    if optimizer == "adamw":
        update: torch.optim.Optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=decay)
    else:
        update = torch.optim.SGD(weights, lr=rate, weight_decay=decay, momentum=inertia)

    loop = Loop(
        model=model,
        update=update,
        loss_of=make_loss(model, loss, n_words, fast=fast),
        rates=rates,
        documents=documents,
        evaluation=mask_documents(measured, rates, n_words, np.random.default_rng([seed, 3])),
        measures=Measures(measured, topics, n_words),
        order=Order(len(documents.lengths), batch_size, seed),
        n_words=n_words,
        seed=seed,
        on_record=on_record,
    )
    was_gradient = [weight.grad for weight in weights]
    # Dropout of other models draws from the global generator: it is seeded step by step, and put back.
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            stopped = loop.run(steps, record_every, early_stop, checkpoint, options, goes_on, show=progress)
    finally:
        model.eval()
        for weight, gradient in zip(weights, was_gradient, strict=True):
            weight.grad = gradient
    return ToyRun(model, loop.frame(), {**options, "steps": int(steps)}, stopped)


def _usual_rate(model: Any, optimizer: str) -> float:
    """Return a rate at which a model of 100 words in 10 topics learns them within the default steps."""
    if not isinstance(model, TopicTransformer):
        return {"adamw": 0.001, "sgd": 0.1}[optimizer]
    if optimizer == "adamw":
        return 0.01
    return 1.0 if model.embedding == "trained" else 10.0


def _positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number) or number < 0 or (number == 0 and not or_zero):
        raise ValueError(f"{name} must be {'at least' if or_zero else 'above'} 0, got {value!r}")
    return number


def _trainable(model: Any) -> list[torch.nn.Parameter]:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a TopicTransformer or a TransformerLens model, got a {type(model).__name__}")
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not weights:
        way_out = (
            'make it with embedding="trained", value="trained" or attention="trained"'
            if isinstance(model, TopicTransformer)
            else "set requires_grad on what is to be trained"
        )
        raise ValueError(f"model has nothing to train, all of its weights are frozen: {way_out}")
    return weights


def _vocabulary(model: Any, corpus: Any, n_words: int | None) -> int:
    if n_words is not None:
        require_count("n_words", n_words)
    own = getattr(model, "n_words", None) if isinstance(model, TopicTransformer) else None
    if own is not None:
        if n_words not in (None, own):
            raise ValueError(f"n_words must be the model's own, {own}, got {n_words}: leave it out")
        return own
    d_vocab = int(getattr(getattr(model, "cfg", None), "d_vocab", 0) or 0)
    if n_words is None:
        n_words = int(getattr(corpus, "n_words", None) or d_vocab - 1)
    if d_vocab and d_vocab < n_words + 1:
        raise ValueError(
            f"model must have a vocabulary of the {n_words} words and [MASK], got d_vocab={d_vocab}: pass "
            f"n_words=, or a model with d_vocab of at least {n_words + 1}"
        )
    if n_words < 1:
        raise ValueError(
            f"model must have a vocabulary (cfg.d_vocab), got {type(model).__name__} without: pass n_words="
        )
    return n_words


def _topics(labels: Any, corpus: Any, n_words: int) -> np.ndarray | None:
    if labels is None:
        labels = getattr(corpus, "topics_of", None)
    return None if labels is None else word_topics(labels, n_words)
