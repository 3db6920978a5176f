"""The toy laboratory from nothing to pictures: documents, training, probing, theory, and the two-stage grid.

What must come out by Li et al. (2023), each as a run of seconds at its own sizes: 10 topics of 10 words,
Dirichlet documents. Attention is measured by :func:`topic_probes.probe` on documents that training did not see.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from .._folders import whole_folder
from .._validation import require_count
from ..corpora import LdaCorpus, lda
from ..probes import probe
from ..report import plot_document_attention, plot_stages, plot_topic_matrix, plot_training, save_plot
from ..topics import TopicLabels
from ._folder import finish, written_by
from ._show import Screen

if TYPE_CHECKING:
    from ..toy import Sweep, ToyRun

_KIND = "topic-probes toy"
_TOPICS, _WORDS = 10, 10
_ONE_DRAW = 0.01
"""Added to an untrained model's interval: that is over documents, and the weights are one random draw."""


@dataclass(frozen=True)
class ToyCase:
    """One run of the laboratory, and what must come out of it."""

    title: str
    model: dict[str, Any]
    """Options of ``TopicTransformer``; ``"topics"`` stands for those of the corpus."""
    training: dict[str, Any] = field(default_factory=dict)
    """Options of ``train``."""
    least: dict[str, float] = field(default_factory=dict)
    """Column of the table of cases -> how large it must be."""
    pictures: tuple[str, ...] = ()
    tau: int | None = None
    """Exactly so many topics in each document (long ones), instead of the Dirichlet."""


_UNIFORM = {"attention": "uniform"}
_EMBEDDING = {"embedding": "trained", "value": "identity", "attention": "uniform"}
_SQUARED = {"loss": "squared"}
# With squared loss the contrast of an optimum is 0.116 at these sizes; with cross-entropy it grows on, logarithmically.
CASES: dict[str, ToyCase] = {
    "embedding": ToyCase("embedding alone", _EMBEDDING, {}, {"embedding_contrast": 2.0}, ("gram",)),
    "embedding_squared": ToyCase(
        "embedding alone, squared loss", _EMBEDDING, _SQUARED, {"embedding_contrast": 0.09}, ("gram",)
    ),
    "value": ToyCase("value matrix alone", _UNIFORM, {}, {"value_contrast": 1.5}, ("value", "value_products")),
    "value_squared": ToyCase(
        "value matrix alone, squared loss", _UNIFORM, _SQUARED, {"value_contrast": 0.09}, ("value",)
    ),
    "value_sgd": ToyCase(
        "value matrix alone, SGD",
        _UNIFORM,
        {"optimizer": "sgd", "learning_rate": 30.0},
        {"value_contrast": 1.5},
    ),
    "value_closed_form": ToyCase(
        "value matrix alone, squared loss, long documents of 2 topics",
        {**_UNIFORM, "init_scale": 0.001},
        {**_SQUARED, "steps": 200},
        {"value_contrast": 0.1},
        ("value",),
        tau=2,
    ),
    "attention": ToyCase(
        "attention, value matrix fixed to blocks",
        {"value": "block", "topics": "topics"},
        {},
        {"ratio_low": 1.5},
        ("key_query", "document"),
    ),
    "attention_sgd": ToyCase(
        "attention, value matrix fixed to blocks, SGD",
        {"value": "block", "topics": "topics", "init_scale": 0.1},
        {"optimizer": "sgd", "learning_rate": 1000.0, "momentum": 0.9, "loss": "squared"},
        {"ratio_low": 1.5},
    ),
    "value_and_attention": ToyCase(
        "value matrix and attention together",
        {},
        {},
        {"value_contrast": 1.0, "ratio_low": 1.5},
        ("value", "key_query", "document"),
    ),
    "value_and_attention_squared": ToyCase(
        "value matrix and attention together, squared loss",
        {},
        _SQUARED,
        {"value_contrast": 0.07, "ratio_low": 1.5},
    ),
    "embedding_and_attention": ToyCase(
        "embedding and attention, value matrix frozen",
        {"embedding": "trained", "value": "identity"},
        {},
        {"embedding_contrast": 2.0, "ratio_low": 1.3},
        ("gram", "document"),
    ),
}
"""Name, which is a folder -> case."""

GRID: dict[str, Any] = {
    "optimizer": ["adamw", "sgd"],
    "learning_rate": {"adamw": [0.001, 0.003, 0.01], "sgd": [10.0, 30.0, 100.0]},
    "loss": ["cross_entropy", "squared"],
    "init_scale": [0.001, 0.02],
    "steps": 400,
    "n_documents": 500,
}
"""Settings of the grid that shows which matrix grows first, for ``sweep``."""


@dataclass(frozen=True)
class ToyOutcome:
    """What the laboratory found."""

    summary: dict[str, Any]
    """Plain JSON values: each case, the untrained model, the closed form, the two stages, the files."""
    doubts: tuple[str, ...]
    """Headline numbers that are not what they should be; empty when all is well."""


def run_toy(
    folder: Path,
    *,
    steps: int = 300,
    grid: bool = True,
    n_jobs: int = 2,
    seed: int = 0,
    show: bool = True,
    run_toml: str | None = None,
) -> ToyOutcome:
    """Generate, train, probe, compare with theory and draw; write all of it to ``folder``, or nothing.

    The folder gets a folder for each case with its ``history.csv`` and pictures, ``cases.csv``, ``stages.csv`` and
    ``stages.png`` (24 runs), and ``summary.json``. It takes about a minute on two idle cores.

    Args:
        folder: a new or empty one, or one that this function wrote; that is replaced.
        steps: updates of each case.
        grid: False leaves out the grid of the two stages, half of the time.
        n_jobs: processes for the grid.
        seed: of documents, weights, masks and intervals.
        show: print a table at the end.
        run_toml: the options of this run in TOML, written beside the results as ``run.toml``; None for no such file.

    Raises:
        TypeError, ValueError: if a number is out of its range.
        FileExistsError: if ``folder`` holds something else.
    """
    require_count("steps", steps)
    require_count("seed", seed, minimum=0)
    if n_jobs != -1:
        require_count("n_jobs", n_jobs)
    screen = Screen(show)
    with whole_folder(folder, kind="an earlier toy laboratory", replaceable=written_by(_KIND)) as new:
        outcome = _run(new, steps, grid, n_jobs, seed, screen, run_toml)
    screen.show(_table_of(outcome.summary))
    screen.written(folder)
    return outcome


def _run(
    folder: Path, steps: int, grid: bool, n_jobs: int, seed: int, screen: Screen, run_toml: str | None
) -> ToyOutcome:
    import pandas as pd

    started = time.monotonic()
    corpora: dict[int | None, LdaCorpus] = {None: lda(_TOPICS, _WORDS, n_documents=500, seed=seed)}
    unseen = lda(_TOPICS, _WORDS, n_documents=40, seed=seed + 1)
    corpora[2] = lda(_TOPICS, _WORDS, n_documents=300, lengths=1000, topics_per_document=2, seed=seed)
    rows: list[dict[str, Any]] = [_untrained(corpora[None], unseen, seed)]
    doubts = [
        f"untrained: ratio {rows[0]['ratio']:.3f}, and its interval should hold 1"
        for _ in range(not rows[0]["ratio_low"] - _ONE_DRAW <= 1 <= rows[0]["ratio_high"] + _ONE_DRAW)
    ]
    closed_form: dict[str, float] = {}
    for name, case in CASES.items():
        screen.step(f"training: {case.title}")
        run = _train(case, corpora[case.tau], steps, seed)
        row = _measure(name, case, run, unseen)
        rows.append(row)
        doubts += [
            f"{name}: {column} {row[column]:.3g}, and should be above {least:g}"
            for column, least in case.least.items()
            if not row[column] > least
        ]
        if case.tau is not None:
            closed_form = _against_theory(run)
            if not abs(closed_form["gap_ratio"] - 1) < 0.05:
                doubts.append(f"{name}: gap {closed_form['gap_ratio']:.3f} of the closed form, and should be 1")
        _write_case(folder / name, case, run, unseen)
    table = pd.DataFrame(rows)
    table.to_csv(folder / "cases.csv", index=False)
    summary: dict[str, Any] = {
        "kind": _KIND,
        "seed": seed,
        "steps": steps,
        "untrained_ratio": rows[0]["ratio"],
        "closed_form": closed_form,
        "cases": {row["case"]: {key: value for key, value in row.items() if key != "case"} for row in rows},
    }
    if grid:
        from ..toy import sweep

        screen.step("training 24 runs: when does each matrix grow")
        found = sweep(**GRID, seed=seed, n_jobs=n_jobs, progress=True)
        summary["two_stages"], more = _two_stages(folder, found)
        doubts += more
    summary["doubts"] = doubts
    summary["seconds"] = round(time.monotonic() - started, 1)
    summary = finish(folder, summary, run_toml)
    return ToyOutcome(summary, tuple(doubts))


def _model(case: ToyCase, corpus: LdaCorpus, seed: int) -> Any:
    from ..toy import TopicTransformer

    options = {**case.model, "topics": corpus.topics_of} if "topics" in case.model else case.model
    return TopicTransformer(corpus.n_words, seed=seed, **options)


def _train(case: ToyCase, corpus: LdaCorpus, steps: int, seed: int) -> ToyRun:
    from ..toy import train

    options = {"steps": steps, "batch_size": 64, "progress": True, "seed": seed, **case.training}
    # What has a number of steps of its own is not made longer than asked for.
    return train(_model(case, corpus, seed), corpus, **{**options, "steps": min(steps, options["steps"])})


def _attention(model: Any, unseen: LdaCorpus) -> dict[str, float]:
    labels = TopicLabels.from_dict(unseen.topics_of)
    head = probe(model, unseen, labels, baseline=None, n_permutations=0, progress=False).attention.headline()
    names = ("same_topic", "cross_topic", "ratio", "ratio_low", "ratio_high")
    return {name: float(getattr(head, name)) for name in names}


def _untrained(corpus: LdaCorpus, unseen: LdaCorpus, seed: int) -> dict[str, Any]:
    model = _model(ToyCase("untrained", {"embedding": "trained", "init_scale": 0.15}), corpus, seed)
    return {"case": "untrained", "title": "untrained", **_contrasts(model, unseen), **_attention(model, unseen)}


def _contrasts(model: Any, corpus: LdaCorpus) -> dict[str, float]:
    from ..toy import block_contrast

    embedding = model.W_E.detach()
    return {
        "embedding_contrast": block_contrast(embedding @ embedding.T, corpus.topics_of).contrast,
        "value_contrast": block_contrast(model.ov_circuit(), corpus.topics_of).contrast,
    }


def _measure(name: str, case: ToyCase, run: ToyRun, unseen: LdaCorpus) -> dict[str, Any]:
    first, last = run.history.iloc[0], run.history.iloc[-1]
    stages = {f"stage_{matrix}": float(step) for matrix, step in run.stages().items()}
    return {
        "case": name,
        "title": case.title,
        **_contrasts(run.model, unseen),
        **_attention(run.model, unseen),
        "first_loss": float(first["loss"]),
        "final_loss": float(last["loss"]),
        **stages,
        "loss": run.options["loss"],
        "optimizer": run.options["optimizer"],
        "learning_rate": run.options["learning_rate"],
    }


def _against_theory(run: ToyRun) -> dict[str, float]:
    from ..toy import distance_to_optimum, optimal_value_matrix

    distance = distance_to_optimum(run.model.W_V, optimal_value_matrix(_TOPICS, _WORDS))
    return {"gap": distance.gap, "optimal_gap": distance.optimal_gap, "gap_ratio": distance.gap_ratio}


def _write_case(folder: Path, case: ToyCase, run: ToyRun, unseen: LdaCorpus) -> None:
    folder.mkdir()
    run.history.to_csv(folder / "history.csv", index=False)
    stages = run.stages().dropna().to_dict()
    if len(stages) > 1:
        save_plot(plot_training(run.history, stages=stages, title=case.title), folder / "training.png")
    model = run.model
    matrices = {
        "gram": lambda: model.W_E @ model.W_E.T,
        "value": lambda: model.ov_circuit(),
        "value_products": lambda: model.W_V.T @ model.W_V,
        "key_query": lambda: model.W_K.T @ model.W_Q,
    }
    for kind in case.pictures:
        if kind == "document":
            ax = _draw_document(model, unseen)
        else:
            ax = plot_topic_matrix(matrices[kind](), unseen.topics_of, kind)
        save_plot(ax, folder / f"{kind}.png")


def _draw_document(model: Any, unseen: LdaCorpus) -> Any:
    import torch

    # The document with the most even mixture shows most of the blocks.
    batch = unseen.take(range(unseen.n_documents))
    chosen = int(batch.proportions.max(axis=1).argmin())
    ids = batch.token_ids[chosen, : batch.lengths[chosen]]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(ids)[None])
    return plot_document_attention(cache["blocks.0.attn.hook_pattern"][0, 0], ids, unseen.topics_of)


def _two_stages(folder: Path, found: Sweep) -> tuple[dict[str, Any], list[str]]:
    """Write the table and the picture of the grid; return its summary and what is doubtful about it."""
    norms, topics = found.two_stage(), found.two_stage("topics")
    first = found.to_frame()
    for column, two in (("value_first", norms), ("value_topics_first", topics)):
        said = {**dict.fromkeys(two.agree["run"], "yes"), **dict.fromkeys(two.disagree["run"], "no")}
        first[column] = [said.get(run, "undecided") for run in first["run"]]
    first.to_csv(folder / "stages.csv", index=False)
    save_plot(plot_stages(first), folder / "stages.png")
    settings = ["optimizer", "learning_rate", "loss", "init_scale", "order"]
    summary = {
        "n_runs": len(first),
        "by_norms": norms.to_frame().iloc[0].to_dict(),
        "by_topics": topics.to_frame().iloc[0].to_dict(),
        "disagree_by_norms": norms.disagree.loc[:, settings].to_dict(orient="records"),
        "disagree_by_topics": topics.disagree.loc[:, settings].to_dict(orient="records"),
    }
    if topics.fraction == 1:
        return summary, []
    return summary, [f"two stages: topics come into W_V first in {topics.fraction:.0%} of the runs, and should in all"]


def _table_of(summary: dict[str, Any]) -> Table:
    table = Table(title="The toy laboratory (attention: uniform = 1)", title_justify="left")
    table.add_column("case")
    for column in ("W_E blocks", "W_V blocks", "same topic", "cross topic", "ratio"):
        table.add_column(column, justify="right")
    for name, row in summary["cases"].items():
        numbers = ("embedding_contrast", "value_contrast", "same_topic", "cross_topic", "ratio")
        table.add_row(
            name.replace("_", " "),
            *("-" if row[one] is None else f"{row[one]:.3f}" for one in numbers),
        )
    caption = [
        f"gap of W_V against theory: {ratio:.3f}" for ratio in [summary["closed_form"].get("gap_ratio")] if ratio
    ]
    for by in ("by_norms", "by_topics"):
        if "two_stages" in summary:
            found = summary["two_stages"][by]
            decided = int(found["n_agree"] + found["n_disagree"])
            caption.append(f"W_V first, {by.replace('_', ' ')}: {int(found['n_agree'])} of {decided} decided runs")
    table.caption, table.caption_justify = "; ".join(caption), "left"
    return table
