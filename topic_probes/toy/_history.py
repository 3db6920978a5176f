"""What a training run leaves behind: the model, its history, and when each matrix grew.

All of the history is measured on the same documents with the same masks, so that its lines can be compared; only
``training_loss`` is of the batches.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._folders import read_description, read_folder, reading, write_folder
from .._html import html_table
from .._saved import Stored
from .._validation import require_count
from ._documents import Bag
from ._model import TopicTransformer
from ._topics import pairs_of_words

if TYPE_CHECKING:
    import pandas as pd

MATRICES = ("W_E", "W_V", "W_Q", "W_K")
"""The matrices whose norms are recorded, in the paper's letters."""

COLUMNS = (
    "step",
    "loss",
    "training_loss",
    *(f"norm_{name}" for name in MATRICES),
    "same_topic",
    "cross_topic",
    "embedding_contrast",
    "value_contrast",
)
"""Columns of every history; those of ``on_record`` come after them."""

_KIND = "toy run"
_FACTS = {"model": "an object?", "options": "an object", "stopped_early": "true or false", "columns": "texts"}
"""What a saved run must say of itself."""
_WIDEST_SCORES = 300.0
"""Scores of one query that differ by more than this are taken document by document: exp(-700) is next to 0."""
_DOCUMENTS_OF_OTHERS = 64
"""Documents over which the attention of another model than a toy model is measured: patterns are made for it."""


@dataclass(frozen=True, eq=False)
class ToyRun:
    """A trained model and how it got there."""

    model: Any
    """The model that was given, in evaluation mode."""
    history: pd.DataFrame = field(repr=False)
    """One row for each recorded step, the untrained model (step 0) and the last step included.

    ``step``: updates made. ``loss``: on the fixed evaluation documents. ``training_loss``: mean over the batches since
    the row before (NaN at step 0). ``norm_W_E norm_W_V norm_W_Q norm_W_K``: Frobenius norms over all layers and heads.
    ``same_topic cross_topic``: attention without masks in units of uniform = 1, pooled over pairs of different words,
    as :func:`topic_probes.probe` counts them. ``embedding_contrast value_contrast``: mean over same-topic pairs of
    different words minus mean over cross-topic pairs, of ``W_E W_E^T`` and of ``W_U W_V W_E^T``. NaN where a model has
    no such thing, no topics are known, or a class is empty; value contrast is
    of the toy model only, and attention of models that attend both ways (mean over layers and heads, 64 documents).
    """
    options: Mapping[str, Any] = field(repr=False)
    """What the run was made with, as plain JSON values."""
    stopped_early: bool = False
    """Whether ``early_stop`` ended it."""

    def stages(self) -> pd.Series:
        """Return the step at which each matrix had made half of its way, by matrix name.

        The way is the change of its norm from the first to the last row; between rows it is interpolated linearly; what
        counts is the first time. NaN for a matrix whose norm does not change (a frozen one), or is unknown. The time
        depends on where the run ends: compare matrices of one run, and runs of one length.
        """
        import pandas as pd

        steps = self.history["step"].to_numpy(dtype=np.float64)
        times = [half_way(steps, self.history[f"norm_{name}"].to_numpy(dtype=np.float64)) for name in MATRICES]
        return pd.Series(times, index=list(MATRICES), name="step", dtype=np.float64)

    def _repr_html_(self) -> str:
        """Return what was measured, before and after training, for a notebook."""
        import pandas as pd

        known = self.history.drop(columns="step").dropna(axis="columns", how="all")
        stages = self.stages()
        table = pd.DataFrame(
            {
                "measure": pd.Series(list(known.columns), dtype=object),
                "start": known.iloc[0].to_numpy(dtype=np.float64),
                "end": known.iloc[-1].to_numpy(dtype=np.float64),
                "half_way_at_step": [stages.get(str(name).removeprefix("norm_"), math.nan) for name in known.columns],
            }
        )
        ended = ", stopped early" if self.stopped_early else ""
        return html_table(table, f"ToyRun of {type(self.model).__name__}, {self.history['step'].iloc[-1]} steps{ended}")

    def save(self, folder: str | PathLike) -> None:
        """Write weights, history and options as a folder of JSON and safetensors, replacing an earlier one.

        Raises:
            FileExistsError: if ``folder`` holds something else.
        """
        toy = self.model.options if isinstance(self.model, TopicTransformer) else None
        write_folder(
            folder,
            kind=_KIND,
            description={
                "model": toy,
                "options": dict(self.options),
                "stopped_early": self.stopped_early,
                "columns": list(self.history.columns),
            },
            arrays={**weights_of(self.model), **arrays_of_history(self.history)},
        )

    @classmethod
    def load(cls, folder: str | PathLike, *, model: Any = None) -> ToyRun:
        """Return a saved run; nothing in the folder is executed.

        Args:
            folder: what :meth:`save` wrote.
            model: for a run of another model than a :class:`TopicTransformer`: one of the same architecture, which gets
                the weights.

        Raises:
            FileNotFoundError, ValueError: if there is no such run, or it is damaged, or does not fit ``model``.
        """
        if model is None and read_description(folder, kind=_KIND, facts=_FACTS).get("model") is None:
            raise ValueError(f"{folder} holds a run of another model than TopicTransformer: pass one by model=")
        description, arrays = read_folder(
            folder,
            kind=_KIND,
            facts=_FACTS,
            arrays=lambda said: {
                **stored_history(said["columns"]),
                **(_stored_toy(said["model"]) if model is None else stored_weights(model)),
            },
        )
        with reading(folder, _KIND):
            if model is None:
                model = _rebuild(description["model"], arrays)
            fill_weights(model, arrays, str(folder))
            history = history_of_arrays(description["columns"], arrays)
            return cls(model.eval(), history, description["options"], bool(description["stopped_early"]))


def stored_history(columns: list[str]) -> dict[str, Stored]:
    """Return what the arrays of a saved history must be."""
    if "step" not in columns or len(set(columns)) < len(columns):
        raise ValueError("its columns must be different, and one of them must be 'step'")
    return {f"history/{name}": Stored("row", finite=name == "step") for name in columns}


def stored_weights(model: Any) -> dict[str, Stored]:
    """Return what the arrays of saved weights must be to fit into a model."""
    return {f"weights/{name}": Stored(axes_of(tensor.shape)) for name, tensor in _weights(model).items()}


def axes_of(shape: Sequence[int]) -> str:
    """Return a shape as a rule says it; a number alone is saved as a row of one."""
    return " ".join(map(str, shape)) or "1"


def _stored_toy(options: Mapping[str, Any]) -> dict[str, Stored]:
    """Return what the weights of a toy model must be, from its options: before one of that size is made."""
    n_words, width = options["n_words"], options["d_model"]
    require_count("n_words", n_words)
    if options["embedding"] == "trained":
        require_count("d_model", width)
    else:
        width = n_words + 1
    square = Stored(f"{width} {width}")
    return {
        "weights/embed.W_E": Stored(f"{n_words + 1} {width}"),
        "weights/b_U": Stored(f"{n_words}"),
        **{f"weights/blocks.0.attn.{name}": square for name in ("W_V", "W_Q", "W_K")},
    }


def _rebuild(options: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> TopicTransformer:
    # A frozen block is in the saved W_V; whatever else the constructor draws is overwritten as well.
    matrix = arrays["weights/blocks.0.attn.W_V"] if options["value"] == "block" else None
    model = TopicTransformer(**options, value_matrix=matrix)
    return model.to(torch.from_numpy(arrays["weights/b_U"]).dtype)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return a model's parameters, and the frozen matrices of a toy model, as arrays by name."""
    return {f"weights/{name}": tensor.detach().cpu().numpy().copy() for name, tensor in _weights(model).items()}


def _weights(model: Any) -> dict[str, torch.Tensor]:
    named = dict(model.named_parameters())
    return named | dict(model.named_buffers()) if isinstance(model, TopicTransformer) else named


def fill_weights(model: Any, arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Copy saved weights into a model.

    Raises:
        ValueError: if a weight is missing, or has another shape.
    """
    with torch.no_grad():
        for name, tensor in _weights(model).items():
            saved = arrays.get(f"weights/{name}")
            if saved is None or saved.shape != tuple(tensor.shape):
                found = "none" if saved is None else list(saved.shape)
                raise ValueError(
                    f"{where} does not fit the model: its {name} has shape {list(tensor.shape)}, the saved one {found}"
                )
            tensor.copy_(torch.from_numpy(saved))


def arrays_of_history(history: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return each column as an array in float64."""
    return {f"history/{name}": history[name].to_numpy(dtype=np.float64) for name in history.columns}


def history_of_arrays(columns: list[str], arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return what :func:`arrays_of_history` took apart."""
    import pandas as pd

    frame = pd.DataFrame({name: arrays[f"history/{name}"].copy() for name in columns})
    return frame.astype({"step": np.int64})


def half_way(steps: np.ndarray, norms: np.ndarray) -> float:
    """Return when ``norms`` first stood half way between its first and its last value, or NaN.

    Examples:
        >>> half_way(np.array([0.0, 10.0, 20.0]), np.array([1.0, 1.0, 5.0]))
        15.0
    """
    if not np.isfinite(norms).all():
        return math.nan
    change = norms[-1] - norms[0]
    if abs(change) <= 1e-9 * np.abs(norms).max():  # rounding of a frozen matrix
        return math.nan
    made = (norms - norms[0]) / change
    after = int(np.flatnonzero(made >= 0.5)[0])
    share = (0.5 - made[after - 1]) / (made[after] - made[after - 1])
    return float(steps[after - 1] + share * (steps[after] - steps[after - 1]))


class Measures:
    """The columns of a history that are read off a model.

    Args:
        documents: whose attention is measured, without masks.
        topics: [word, topic] topics of words, or None.
        n_words: words of the vocabulary.
    """

    def __init__(self, documents: Bag, topics: np.ndarray | None, n_words: int) -> None:
        self._documents, self._n_words = documents, n_words
        self._pairs = None if topics is None else pairs_of_words(topics)
        self._topics = topics
        self._counts: np.ndarray | None = None

    def __call__(self, model: Any) -> dict[str, float]:
        """Return norms, contrasts and attention of the model as it stands."""
        matrices = {name: _matrix(model, name) for name in MATRICES}
        found = {
            f"norm_{name}": math.nan if matrix is None else float(np.linalg.norm(matrix))
            for name, matrix in matrices.items()
        }
        found |= dict.fromkeys(("same_topic", "cross_topic", "embedding_contrast", "value_contrast"), math.nan)
        if self._pairs is None:
            return found
        embedding = matrices["W_E"]
        if embedding is not None and embedding.ndim == 2:
            rows = embedding[: self._n_words]
            found["embedding_contrast"] = self._contrast(rows @ rows.T)
        if isinstance(model, TopicTransformer):
            with torch.no_grad():
                values, scores = model.ov_circuit(), model.qk_circuit()
            found["value_contrast"] = self._contrast(_as_numpy(values)[:, : self._n_words])
            found["same_topic"], found["cross_topic"] = self._attention(_as_numpy(scores)[:-1, :-1])
        else:
            found["same_topic"], found["cross_topic"] = self._attention_of_other(model)
        return found

    def _contrast(self, matrix: np.ndarray) -> float:
        assert self._pairs is not None
        same, cross = (float(matrix[pairs].mean()) if pairs.any() else math.nan for pairs in self._pairs)
        return same - cross

    def _attention(self, scores: np.ndarray) -> tuple[float, float]:
        """Return mean attention of same- and of cross-topic pairs, times the length of the document.

        With c the words' counts in document d of length n, a token of word u gives a token of word w the weight
        E[u, w] / Z[d, u], E = exp(score), Z = c E^T. So the sum over documents of n c[u] c[w] E[u, w] / Z[d, u] is E
        times a product of two tables of documents by words: no table of documents by words by words is made.
        """
        assert self._pairs is not None
        if self._counts is None:
            document = self._documents.document
            numbers = document * self._n_words + self._documents.tokens
            shape = len(self._documents.lengths), self._n_words
            self._counts = np.bincount(numbers, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        counts = self._counts
        if not np.isfinite(scores).all():  # beyond the reach of float32: training is about to end
            return math.nan, math.nan
        if np.ptp(scores, axis=1).max(initial=0.0) > _WIDEST_SCORES:
            return self._attention_one_by_one(scores)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        totals = counts @ weights.T
        asked = np.divide(
            counts * self._documents.lengths[:, None], totals, out=np.zeros_like(counts), where=counts * totals > 0
        )
        paid, pairs = weights * (asked.T @ counts), counts.T @ counts
        same, cross = (
            float(paid[chosen].sum() / pairs[chosen].sum()) if pairs[chosen].any() else math.nan
            for chosen in self._pairs
        )
        return same, cross

    def _attention_one_by_one(self, scores: np.ndarray) -> tuple[float, float]:
        """Return the same where a weight may underflow against a word that a document does not have."""
        assert self._pairs is not None
        assert self._counts is not None
        paid, pairs = np.zeros(2), np.zeros(2)
        for count, length in zip(self._counts, self._documents.lengths.tolist(), strict=True):
            words = np.flatnonzero(count)
            here = scores[np.ix_(words, words)]
            weights = count[words] * np.exp(here - here.max(axis=1, keepdims=True))
            weights *= count[words, None] * (length / weights.sum(axis=1, keepdims=True))
            for number, chosen in enumerate(self._pairs):
                inside = chosen[np.ix_(words, words)]
                paid[number] += weights[inside].sum()
                pairs[number] += np.outer(count[words], count[words])[inside].sum()
        same, cross = (float(one / n) if n else math.nan for one, n in zip(paid, pairs, strict=True))
        return same, cross

    def _attention_of_other(self, model: Any) -> tuple[float, float]:
        """Return the same of any model with patterns that attends both ways, over all layers and heads, else NaN."""
        from ._measures import topic_attention

        assert self._topics is not None
        sets = [np.flatnonzero(row).tolist() for row in self._topics]
        some = self._documents.take(np.arange(min(len(self._documents.lengths), _DOCUMENTS_OF_OTHERS)))
        corpus = [row.tolist() for row in np.split(some.tokens, some.starts[1:])]
        try:
            found = topic_attention(model, corpus, sets)
        except (TypeError, ValueError):  # a causal model, or one without patterns
            return math.nan, math.nan
        return found.same_topic, found.cross_topic


def _matrix(model: Any, name: str) -> np.ndarray | None:
    """Return a weight that a TransformerLens model offers under this name, all layers and heads, or None."""
    try:
        matrix = getattr(model, name)
    except Exception:  # a bridge offers names that not every architecture behind it can serve
        return None
    return _as_numpy(matrix) if isinstance(matrix, torch.Tensor) else None


def _as_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def plain(value: Any) -> Any:
    """Return a value as it comes back from JSON, so that options can be compared with saved ones."""
    return json.loads(json.dumps(value))
