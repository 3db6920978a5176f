"""The steps of the demo, in the order of the data: articles, topics, labels, models, numbers, pictures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._folders import whole_folder
from .._validation import require_one_of
from ..corpora import Document, sample_wikipedia
from ..corpora._held_out import is_held_out
from ..probes import ProbeReport, probe
from ..topics import TopicLabels, TopicModel, fit_lda
from ._folder import finish, written_by
from ._models import open_minilm, open_smollm2
from ._pictures import draw_pictures
from ._show import Screen

_KIND = "topic-probes demo"

_ONE_DRAW = 0.01
"""Added to an untrained twin's interval: that is over documents, and the weights are one random draw."""


@dataclass(frozen=True)
class DemoModel:
    """One model of the demo, and how much of the held-out articles it reads."""

    title: str
    open: Callable[[], tuple[Any, Any]]
    reading: dict[str, Any]
    """Options of ``probe``: how much of each article is read, so that the whole takes minutes on a laptop."""


MODELS = {
    "minilm": DemoModel("MiniLM-L6, an encoder", open_minilm, {"max_length": 512, "batch_size": 8}),
    "smollm2": DemoModel("SmolLM2-135M, a decoder", open_smollm2, {"max_length": 256, "batch_size": 4}),
}


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo found."""

    summary: dict[str, Any]
    """Plain JSON values: topics, labels, and per model the headline of trained and untrained weights."""
    doubts: tuple[str, ...]
    """Headline numbers that are not what they should be; empty when all is well."""


def run_demo(
    folder: Path,
    *,
    models: Sequence[str],
    n_topics: int,
    articles: int | None,
    seed: int,
    show: bool = True,
    run_toml: str | None = None,
) -> DemoOutcome:
    """Run the whole demo and write its tables, pictures and results to ``folder``, all or nothing.

    Args:
        folder: a new or empty one, or one that this function wrote; that is replaced.
        models: names of the models to probe, of :data:`MODELS`.
        n_topics: topics to fit.
        articles: read only so many of gensim's 106.
        seed: of topics and untrained weights.
        show: print tables.
        run_toml: the options of this run in TOML, written beside the results as ``run.toml``; None for no such file.

    Raises:
        FileExistsError: if ``folder`` holds something other than an earlier demo.
        ValueError: for a model that the demo does not know.
        ModuleNotFoundError: if the package that carries a model is not installed.
    """
    models = known_models(models)
    with whole_folder(folder, kind="an earlier demo", replaceable=written_by(_KIND)) as new:
        outcome = _run(new, models, n_topics, articles, seed, Screen(show), run_toml)
    Screen(show).written(folder)
    return outcome


def known_models(models: Sequence[str]) -> tuple[str, ...]:
    """Return names of the demo's models, each once.

    Raises:
        ValueError: for one that the demo does not know.
    """
    names = tuple(dict.fromkeys(name.strip() for name in models))
    for name in names:
        require_one_of("models", name, MODELS)
    return names


def _run(
    folder: Path,
    models: Sequence[str],
    n_topics: int,
    articles: int | None,
    seed: int,
    screen: Screen,
    run_toml: str | None,
) -> DemoOutcome:
    started = time.monotonic()
    documents = list(sample_wikipedia(limit=articles))
    fitted_on, held_out = split_articles(documents)
    screen.step(f"fitting {n_topics} topics on {len(fitted_on)} Wikipedia articles")
    topics = fit_lda(fitted_on, n_topics=n_topics, seed=seed)
    labels = topics.label_words()
    topics.save(folder / "topics")
    screen.topics(topics, labels)

    reports = {}
    for name in models:
        chosen = MODELS[name]
        screen.step(f"probing {chosen.title}, on {len(held_out)} held-out articles, trained and untrained")
        model, tokenizer = chosen.open()
        report = probe(
            model, held_out, labels, tokenizer=tokenizer, long_documents="truncate", seed=seed, **chosen.reading
        )
        reports[chosen.title] = report
        _write_tables(report, folder / name)
        draw_pictures(folder / name, report, model, tokenizer, labels, _example(held_out, labels))
        screen.report(chosen.title, report)

    doubts = tuple(doubt for title, report in reports.items() for doubt in _doubts(title, report))
    summary = _summary(topics, labels, reports, time.monotonic() - started)
    summary = finish(folder, summary, run_toml)
    screen.meaning(reports)
    return DemoOutcome(summary, doubts)


def split_articles(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Return the articles that topics are fitted on, and those that are held out for models to read."""
    parts: tuple[list[Document], list[Document]] = ([], [])
    for number, document in enumerate(documents):
        parts[is_held_out(number)].append(document)
    return parts


def _write_tables(report: ProbeReport, folder: Path) -> None:
    folder.mkdir()
    report.save(folder / "report")
    for estimator in report.attention.estimators:
        report.to_frame(estimator).to_csv(folder / f"heads_{estimator}.csv", index=False)
    report.estimators_frame().to_csv(folder / "headline.csv", index=False)
    report.attention.distance_frame().to_csv(folder / "distance.csv", index=False)
    report.embedding_frame().to_csv(folder / "embedding.csv", index=False)


def _example(held_out: Sequence[Document], labels: TopicLabels) -> str:
    """Return a short stretch of the held-out article whose beginning has the largest share of labelled words."""
    stretches = [" ".join((document.text or "").split()[:70]) for document in held_out]
    return max(stretches, key=lambda text: sum(word.lower() in labels.topics_of for word in text.split()))


def _doubts(title: str, report: ProbeReport) -> list[str]:
    """Return what is wrong with a headline: trained clearly above uniform, untrained at 1 within its interval.

    Inside documents: one article in four dozen may hold a third of all same-topic pairs, and the pooled ratio with it.
    """
    assert report.baseline is not None
    trained, untrained = (
        result.headline("within_document") for result in (report.attention, report.baseline.attention)
    )
    if math.isnan(trained.ratio_low) or math.isnan(untrained.ratio_low):
        return [f"{title}: too few documents for an interval ({trained.n_groups} with pairs of both classes)"]
    doubts = []
    if not trained.ratio_low > 1:
        doubts.append(f"{title}: the trained ratio {trained.ratio:.3f} is not clearly above 1")
    if not untrained.ratio_low - _ONE_DRAW <= 1 <= untrained.ratio_high + _ONE_DRAW:
        doubts.append(f"{title}: the untrained ratio {untrained.ratio:.3f} is not 1 within its interval")
    if not untrained.ratio_high < trained.ratio_low:
        doubts.append(f"{title}: trained and untrained overlap")
    return doubts


def _summary(
    topics: TopicModel, labels: TopicLabels, reports: dict[str, ProbeReport], seconds: float
) -> dict[str, Any]:
    return {
        "kind": _KIND,
        "topics": topics.top_words(8),
        "labels": {name: value for name, value in labels.coverage.items()},
        "models": {
            title: {
                "attention": {name: each.attention.headline().to_dict() for name, each in report.models.items()},
                "estimators": report.estimators_frame().to_dict(orient="records"),
                "embedding": report.embedding_frame().to_dict(orient="records"),
                "documents": dict(report.attention.tally),
                "options": dict(report.attention.options),
            }
            for title, report in reports.items()
        },
        "seconds": round(seconds, 1),
    }
