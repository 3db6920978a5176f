"""Grids of toy runs: when does each matrix grow, under every optimiser, rate, loss, start and document model?

Li et al. (2023) see two stages from a start near zero: ``|W_V|`` grows first, ``|W_Q|`` and ``|W_K|``
later, and say so for the optimisers and rates that they tried. A sweep makes such runs by the dozen and tells in which
of them it is so, with the others listed.

A stage is half of the way from the first to the last norm (:meth:`ToyRun.stages`), so it depends on where the run ends,
and it says nothing of *what* a matrix has learned: AdamW moves entries without signal as fast as those with it. The
stages of the topic structure itself are there too: ``stage_value_contrast`` and ``stage_attention_contrast``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._html import html_table
from .._progress import progress_bar
from .._validation import require_count, require_one_of
from ..corpora import lda
from ._history import COLUMNS, MATRICES, half_way

if TYPE_CHECKING:
    import pandas as pd

AXES = (
    *("embedding", "value", "attention", "optimizer", "learning_rate", "momentum", "loss", "init_scale", "seed"),
    *("mask_rate", "keep_rate", "random_rate", "n_topics", "words_per_topic", "alpha", "topics_per_document"),
)
"""The settings over which a grid goes, and columns of its table."""

_CHOICES = {
    "embedding": ("one_hot", "trained"),
    "value": ("trained", "identity", "block"),
    "attention": ("trained", "uniform"),
    "optimizer": ("adamw", "sgd"),
    "loss": ("cross_entropy", "squared"),
}
_MODEL = ("embedding", "value", "attention", "init_scale")
_TRAINING = ("optimizer", "learning_rate", "momentum", "loss", "mask_rate", "keep_rate", "random_rate")
_MEASURED = ("same_topic", "cross_topic", "embedding_contrast", "value_contrast")
_LEAST_DIFFERENCE = 0.05
"""Attention that tells topics apart by less than this, in units of uniform = 1, has learned none."""
_DEFAULT_STEPS = 600


@dataclass(frozen=True, eq=False)
class TwoStages:
    """In how many runs of a sweep the value matrix comes before keys and queries, and which runs say otherwise."""

    by: str
    """``"norms"``: halves of the growth of norms. ``"topics"``: halves of the growth of topic structure."""
    agree: pd.DataFrame = field(repr=False)
    """Rows of the runs in which the value matrix is strictly first."""
    disagree: pd.DataFrame = field(repr=False)
    """Rows of the runs in which it is not."""
    undecided: pd.DataFrame = field(repr=False)
    """Rows of the runs that do not speak, with a column ``why``: diverged, a part frozen, or a part that has not grown.

    A run in which the value matrix has grown and keys and queries have not yet is here, and not under ``agree``.
    """

    @property
    def n_decided(self) -> int:
        """Number of runs that speak."""
        return len(self.agree) + len(self.disagree)

    @property
    def fraction(self) -> float:
        """Share of the runs that speak in which the value matrix is first; NaN if there are none."""
        return len(self.agree) / self.n_decided if self.n_decided else math.nan

    def to_frame(self, *by: str) -> pd.DataFrame:
        """Return ``n_agree n_disagree n_undecided fraction``: one row, or one for each value of the columns ``by``.

        Example: ``two_stages.to_frame("optimizer", "learning_rate")``.
        """
        import pandas as pd

        names = ("agree", "disagree", "undecided")
        if not by:
            table = pd.DataFrame({f"n_{name}": [len(getattr(self, name))] for name in names})
        else:
            parts = [getattr(self, name).groupby([*by], dropna=False).size().rename(f"n_{name}") for name in names]
            table = pd.concat(parts, axis=1).fillna(0).astype(np.int64).sort_index().reset_index()
        decided = (table["n_agree"] + table["n_disagree"]).to_numpy(dtype=np.float64)
        share = np.full(len(table), np.nan)
        np.divide(table["n_agree"].to_numpy(dtype=np.float64), decided, out=share, where=decided > 0)
        return table.assign(fraction=share)

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), f"TwoStages by {self.by}")


@dataclass(frozen=True, eq=False)
class Sweep:
    """The runs of a grid."""

    runs: pd.DataFrame = field(repr=False)
    """One row for each run.

    ``run``: its number. The settings: ``embedding value attention optimizer learning_rate momentum loss init_scale
    seed mask_rate keep_rate random_rate n_topics words_per_topic alpha topics_per_document`` (alpha is NaN where the
    number of topics is fixed, and the other way round). ``stage_W_E`` and so on: the step at which a matrix had made
    half of its growth, NaN for a frozen one; ``stage_value_contrast``, ``stage_attention_contrast``: the same of the
    topic structure. ``norm_W_E`` and so on: last norms; ``growth_W_E``: last norm over first. ``same_topic cross_topic
    embedding_contrast value_contrast``: at the end, as in :attr:`ToyRun.history`; ``first_loss``, ``final_loss``.
    ``order``: matrices by their stages, earliest first. ``diverged``: the loss became infinite or no number; then all
    that was measured is NaN.
    """
    histories: tuple[pd.DataFrame, ...] = field(repr=False)
    """The history of each run, in the order of ``runs``; without rows where it diverged."""
    left_out: tuple[str, ...] = ()
    """Combinations of the grid that make no model, or leave nothing to train, and why."""
    steps: int = _DEFAULT_STEPS
    """Updates of each run."""

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of :attr:`runs`."""
        return self.runs.copy()

    def _repr_html_(self) -> str:
        """Return the settings in which runs differ, and how they ended, for a notebook."""
        differing = [name for name in AXES if len(self.runs[[name]].drop_duplicates()) > 1]
        table = self.runs[["run", *differing, "order", *_MEASURED, "final_loss"]]
        return html_table(table, f"Sweep of {len(self.runs)} runs, {self.steps} steps each")

    def two_stage(self, by: str = "norms", *, least_growth: float = 2.0) -> TwoStages:
        """Return in which runs the value matrix comes before keys and queries.

        Args:
            by: ``"norms"``: W_V makes half of its growth strictly before both W_K and W_Q (their claim). ``"topics"``:
                value contrast makes half of its growth strictly before the difference of same- and cross-topic
                attention does.
            least_growth: for ``"norms"``, a matrix has grown when its norm is at least this many times what it was;
                where one has not, the run is undecided.

        Raises:
            ValueError: if ``by`` is neither.
        """
        require_one_of("by", by, ("norms", "topics"))
        whys = [_why_undecided(row, by, least_growth) for row in self.runs.to_dict("records")]
        undecided = np.array([why is not None for why in whys], dtype=np.bool_)
        if by == "norms":
            first, later = self.runs["stage_W_V"], self.runs[["stage_W_Q", "stage_W_K"]].min(axis=1)
        else:
            first, later = self.runs["stage_value_contrast"], self.runs["stage_attention_contrast"]
        value_first = first.to_numpy(dtype=np.float64) < later.to_numpy(dtype=np.float64)
        return TwoStages(
            by,
            agree=self.runs.loc[~undecided & value_first],
            disagree=self.runs.loc[~undecided & ~value_first],
            undecided=self.runs.loc[undecided].assign(why=[why for why in whys if why is not None]),
        )


def sweep(
    *,
    embedding: Any = "one_hot",
    value: Any = "trained",
    attention: Any = "trained",
    optimizer: Any = "adamw",
    learning_rate: Any = None,
    momentum: Any = 0.0,
    loss: Any = "cross_entropy",
    init_scale: Any = 0.02,
    seed: Any = 0,
    mask_rate: Any = 0.15,
    keep_rate: Any = 0.1,
    random_rate: Any = 0.1,
    n_topics: Any = 10,
    words_per_topic: Any = 10,
    alpha: Any = 0.1,
    topics_per_document: Any = None,
    lengths: int | tuple[int, int] = (100, 150),
    n_documents: int = 1000,
    steps: int = _DEFAULT_STEPS,
    batch_size: int = 64,
    record_every: int | None = None,
    n_jobs: int = 1,
    progress: bool = True,
) -> Sweep:
    """Train a toy model for every combination of settings, and tell when each matrix grew.

    Every argument down to ``topics_per_document`` takes one value, or a list of values to go through. The results are
    those of :class:`TopicTransformer`, :func:`topic_probes.corpora.lda` and :func:`train` one by one, on one thread
    each; they do not depend on ``n_jobs``. Memory: the histories.

    Args:
        embedding: ``"one_hot"``, ``"trained"``.
        value: ``"trained"``, ``"identity"``, ``"block"`` (that of the true topics).
        attention: ``"trained"``, ``"uniform"``.
        optimizer: ``"adamw"``, ``"sgd"``.
        learning_rate: numbers, None for the usual one of :func:`train`, or ``{"adamw": [...], "sgd": [...]}``, because
            rates of one are no rates of the other.
        momentum: of SGD; AdamW has none.
        loss: ``"cross_entropy"``, ``"squared"``.
        init_scale: standard deviation of the weights at the start; the two stages are from a small one.
        seed: of weights, documents, their order and masks alike.
        mask_rate: share of positions whose word is to be told.
        keep_rate: share of these that show their own word.
        random_rate: share of these that show a random word.
        n_topics: T.
        words_per_topic: v.
        alpha: of the Dirichlet; of no effect where ``topics_per_document`` is a number.
        topics_per_document: exactly so many topics in a document; None for the Dirichlet.
        lengths: the shortest and the longest document, or one number.
        n_documents: documents of each run.
        steps: updates of each run.
        batch_size: documents in each update.
        record_every: steps between rows of the histories; a hundredth of ``steps`` unless given.
        n_jobs: processes (joblib); -1 for one a core.
        progress: show a progress bar on stderr.

    Returns:
        The runs, in the order of the grid, the last argument changing fastest.

    Raises:
        TypeError, ValueError: if a value is out of its range; before the first run.

    Examples:
        >>> found = sweep(optimizer=["adamw", "sgd"], n_topics=3, words_per_topic=4, lengths=20, n_documents=50,
        ...               steps=20, progress=False)
        >>> found.to_frame()[["optimizer", "learning_rate"]].values.tolist()
        [['adamw', 0.01], ['sgd', 10.0]]
    """
    given = dict(locals())
    require_count("steps", steps)
    require_count("batch_size", batch_size)
    require_count("n_documents", n_documents)
    if n_jobs != -1:
        require_count("n_jobs", n_jobs)
    fixed = {
        "lengths": lengths,
        "n_documents": n_documents,
        "steps": steps,
        "batch_size": batch_size,
        "record_every": record_every,
    }
    axes = {name: _values(name, given[name]) for name in AXES if name != "learning_rate"}
    combinations, left_out = _combinations(axes, learning_rate)
    if not combinations:
        raise ValueError(f"the grid must hold at least one run, got none: {left_out[0]}")
    for settings in combinations:
        _require_possible(settings, fixed)
    results = _run_all([{**settings, **fixed} for settings in combinations], n_jobs, progress)
    return Sweep(_table([row for row, _ in results]), tuple(history for _, history in results), left_out, steps)


def _values(name: str, given: Any) -> list[Any]:
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    # Numpy's numbers become Python's, so that tables and JSON read alike.
    values = [value.item() if isinstance(value, np.generic) else value for value in (given if several else [given])]
    if not values:
        raise ValueError(f"{name} must be a value, or a list of at least one, got an empty one")
    return values


def _combinations(axes: Mapping[str, list[Any]], learning_rate: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the settings of all runs, each once, and sentences about combinations that make none."""
    rates = learning_rate if isinstance(learning_rate, Mapping) else dict.fromkeys(axes["optimizer"], learning_rate)
    missing = [name for name in axes["optimizer"] if name not in rates]
    if missing:
        raise ValueError(f"learning_rate must have rates for each optimizer, got none for {missing[0]!r}")
    found: dict[tuple, dict[str, Any]] = {}
    left_out: dict[str, None] = {}
    for chosen in itertools.product(*axes.values()):
        settings = dict(zip(axes, chosen, strict=True))
        if settings["topics_per_document"] is not None:
            settings["alpha"] = None
        if settings["optimizer"] != "sgd":
            settings["momentum"] = 0.0
        why = _why_no_run(settings)
        if why is not None:
            left_out[why] = None
            continue
        for rate in _values("learning_rate", rates[settings["optimizer"]]):
            complete = {name: rate if name == "learning_rate" else settings[name] for name in AXES}
            found.setdefault(tuple(complete.values()), complete)
    return list(found.values()), tuple(left_out)


def _why_no_run(settings: Mapping[str, Any]) -> str | None:
    parts = {name: settings[name] for name in ("embedding", "value", "attention")}
    named = ", ".join(f"{name}={value!r}" for name, value in parts.items())
    if parts["value"] == "block" and parts["embedding"] == "trained":
        return f'{named}: a block is a matrix over words and needs embedding="one_hot"'
    if "trained" not in parts.values():
        return f"{named}: nothing is trained"
    return None


def _require_possible(settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Raise for what would stop a run, by making all but its updates: a wrong value costs no hour of other runs."""
    from ._masking_rates import MaskingRates
    from ._train import _positive

    for name, allowed in _CHOICES.items():
        require_one_of(name, settings[name], allowed)
    if settings["learning_rate"] is not None:
        _positive("learning_rate", settings["learning_rate"])
    _positive("momentum", settings["momentum"], or_zero=True)
    MaskingRates(settings["mask_rate"], settings["keep_rate"], settings["random_rate"])
    if fixed["record_every"] is not None:
        require_count("record_every", fixed["record_every"])
    _model(settings, _corpus({**settings, **fixed}))


def _corpus(settings: Mapping[str, Any]) -> Any:
    fixed_number = settings["topics_per_document"] is not None
    return lda(
        settings["n_topics"],
        settings["words_per_topic"],
        lengths=settings["lengths"],
        n_documents=settings["n_documents"],
        seed=settings["seed"],
        topics_per_document=settings["topics_per_document"],
        **({} if fixed_number else {"alpha": settings["alpha"]}),
    )


def _model(settings: Mapping[str, Any], corpus: Any) -> Any:
    from ._model import TopicTransformer

    topics = corpus.topics_of if settings["value"] == "block" else None
    options = {name: settings[name] for name in _MODEL}
    return TopicTransformer(corpus.n_words, topics=topics, seed=settings["seed"], **options)


def _run_all(runs: list[dict[str, Any]], n_jobs: int, progress: bool) -> list[tuple[dict[str, Any], Any]]:
    from joblib import Parallel, delayed

    # As a generator the results come in the order of the runs, each as soon as it is there: the bar moves.
    found = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_run)(settings) for settings in runs)
    return list(progress_bar(found, description="Sweep", unit="runs", total=len(runs), enabled=progress))


def _run(settings: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Make one run; return its row and its history."""
    import torch

    from ._train import _usual_rate, train

    corpus = _corpus(settings)
    model = _model(settings, corpus)
    options: dict[str, Any] = {name: settings[name] for name in _TRAINING}
    options |= {name: settings[name] for name in ("seed", "steps", "batch_size", "record_every")}
    if options["learning_rate"] is None:
        options["learning_rate"] = _usual_rate(model, options["optimizer"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in the same order in any process, and processes that do not crowd each other
    try:
        history = train(model, corpus, progress=False, **options).history
    except FloatingPointError:
        history = None
    finally:
        torch.set_num_threads(threads)
    row = {name: settings[name] for name in AXES} | {"learning_rate": options["learning_rate"]}
    return {**row, **_measure(history)}, _empty_history() if history is None else history


def _measure(history: pd.DataFrame | None) -> dict[str, Any]:
    """Return what a row of the table says beyond the settings."""
    norms = [f"norm_{name}" for name in MATRICES]
    numbers = [
        *(f"stage_{name}" for name in (*MATRICES, "value_contrast", "attention_contrast")),
        *(*norms, *(f"growth_{name}" for name in MATRICES), *_MEASURED, "first_loss", "final_loss"),
    ]
    if history is None:
        return {**dict.fromkeys(numbers, math.nan), "order": "", "diverged": True}
    steps = history["step"].to_numpy(dtype=np.float64)
    first, last = history.iloc[0], history.iloc[-1]
    stages = {name: half_way(steps, history[f"norm_{name}"].to_numpy(dtype=np.float64)) for name in MATRICES}
    contrasts = {
        "value_contrast": history["value_contrast"].to_numpy(dtype=np.float64),
        "attention_contrast": (history["same_topic"] - history["cross_topic"]).to_numpy(dtype=np.float64),
    }
    row: dict[str, Any] = {f"stage_{name}": stage for name, stage in stages.items()}
    row |= {f"stage_{name}": half_way(steps, values) for name, values in contrasts.items()}
    row |= {name: float(last[name]) for name in norms}
    row |= {
        f"growth_{name}": float(last[f"norm_{name}"] / first[f"norm_{name}"]) if first[f"norm_{name}"] else math.nan
        for name in MATRICES
    }
    row |= {name: float(last[name]) for name in _MEASURED}
    grown = sorted((stage, name) for name, stage in stages.items() if math.isfinite(stage))
    return {
        **row,
        "first_loss": float(first["loss"]),
        "final_loss": float(last["loss"]),
        "order": " ".join(name for _, name in grown),
        "diverged": False,
    }


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame(rows)
    words = {"embedding", "value", "attention", "optimizer", "loss", "order"}
    whole = {"seed", "n_topics", "words_per_topic"}
    # alpha and topics_per_document are None where the other one holds: NaN, so that they stay numbers.
    kinds = {name: np.int64 if name in whole else np.float64 for name in table.columns if name not in words}
    table = table.astype({**kinds, "diverged": np.bool_})
    table.insert(0, "run", np.arange(len(table), dtype=np.int64))
    return table


def _empty_history() -> pd.DataFrame:
    import pandas as pd

    empty = pd.DataFrame({name: np.zeros(0) for name in COLUMNS})
    return empty.astype({"step": np.int64})


def _why_undecided(row: Mapping[Any, Any], by: str, least_growth: float) -> str | None:
    if row["diverged"]:
        return "the loss diverged"
    if row["attention"] != "trained":
        return "attention is frozen"
    if by == "topics":
        if row["embedding"] != "trained" and row["value"] != "trained":
            return "embedding and value matrix are frozen"
        if not abs(row["same_topic"] - row["cross_topic"]) >= _LEAST_DIFFERENCE:
            return "attention does not tell topics apart"
        return None
    if row["value"] != "trained":
        return "W_V is frozen"
    # A start at zero has no ratio: what has left it has grown.
    small = [
        name
        for name in ("W_V", "W_Q", "W_K")
        if not (row[f"growth_{name}"] >= least_growth or (math.isnan(row[f"growth_{name}"]) and row[f"norm_{name}"]))
    ]
    return f"{' and '.join(small)} did not grow {least_growth:g}-fold" if small else None
