"""``topic-probes report``: a finished run again, as tables, a page, files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._folders import files_below, read_part, whole_folder
from .._run_file import RUN_FILE, read_run
from .._saved import require_inside
from ..topics import TopicModel
from ._options import AsJson, Config, Estimator
from ._run_folder import EXAMPLES, TOPICS
from ._screen import show, show_json

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..probes import ProbeReport


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `probe` wrote, or ProbeReport.save.", metavar="DIR")],
    html: Annotated[Path | None, typer.Option(help="Write the report page to this file.", metavar="FILE")] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Write all tables, as CSV and parquet, to this folder.", metavar="DIR")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print the headline table in LaTeX (booktabs).")] = False,
    estimator: Estimator = "distance_matched",
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show a finished run: tables here, or a page, tables in files, LaTeX."""
    from ..probes import ProbeReport

    if latex and as_json:
        raise typer.BadParameter("--latex and --json exclude each other: both are for stdout", param_hint="'--latex'")
    found = ProbeReport.load(folder)
    if estimator not in found.attention.estimators:
        raise ValueError(
            f"--estimator must be one of {', '.join(found.attention.estimators)} for this run, got {estimator}: "
            "probe --match-frequency measures the other"
        )
    written = []
    if html is not None:
        _write_page(found, folder, html)
        written.append(html)
    if tables is not None:
        write_tables(found, tables)
        written.append(tables)
    if as_json:
        show_json(report_as_json(found, estimator))
    elif latex:
        from ..report import latex_table

        print(latex_table(found.estimators_frame()), end="")
    else:
        from ._tables import report_tables

        show(*report_tables(found, estimator), *(f"Written: {path}" for path in written))


def report_as_json(report: ProbeReport, estimator: str) -> dict[str, Any]:
    """Return headline, heads and embedding, and how they were measured, for one JSON object."""
    attention = report.attention
    return {
        "headline": report.estimators_frame(),
        "estimator": estimator,
        "heads": report.to_frame(estimator),
        "embedding": report.embedding_frame(),
        "documents": dict(attention.tally),
        "pairs": attention.pair_counts,
        "options": {**attention.options, "seed": attention.seed},
    }


def write_tables(report: ProbeReport, folder: Path) -> None:
    """Write every table of a report to a folder, as CSV and as parquet, all or nothing.

    Raises:
        FileExistsError: if the folder holds something besides such tables.
    """
    frames = _frames(report)
    with whole_folder(folder, kind="tables of a report", replaceable=_is_tables_alone) as new:
        for name, frame in frames.items():
            frame.to_csv(new / f"{name}.csv", index=False)
            frame.to_parquet(new / f"{name}.parquet", index=False)


_TABLES = ("headline", "heads", "layers", "distance", "embedding", "topics", "contextual")


def _frames(report: ProbeReport) -> dict[str, DataFrame]:
    """Return name -> table; ``model`` and ``estimator`` are columns where there are several."""
    import pandas as pd

    def of_models(make: Any) -> DataFrame:
        return pd.concat([make(each).assign(model=name) for name, each in report.models.items()], ignore_index=True)

    def of_estimators(make: Any) -> DataFrame:
        parts = [make(estimator).assign(estimator=estimator) for estimator in report.attention.estimators]
        return pd.concat(parts, ignore_index=True)

    found = {
        "headline": report.estimators_frame(),
        "heads": of_estimators(report.to_frame),
        "layers": of_estimators(lambda estimator: of_models(lambda each: each.attention.layer_frame(estimator))),
        "distance": of_models(lambda each: each.attention.distance_frame()),
        "embedding": report.embedding_frame(),
    }
    if report.attention.n_topics:
        found["topics"] = of_models(lambda each: each.attention.topic_frame())
    if report.contextual is not None:
        found["contextual"] = report.contextual_frame("within_document")
    return {name: frame for name, frame in found.items() if len(frame)}


def _is_tables_alone(folder: Path) -> bool:
    return files_below(folder) <= {f"{name}{ending}" for name in _TABLES for ending in (".csv", ".parquet")}


def _write_page(report: ProbeReport, folder: Path, path: Path) -> None:
    """Write the page, with the topics and passages that a run has left beside its report.

    Raises:
        ValueError: if one of these is damaged, or a link that leads out of the folder.
    """
    topics, labels, examples = None, None, None
    source = folder.expanduser()
    if (source / TOPICS).is_dir():
        require_inside(source / TOPICS, source)
        topics = TopicModel.load(source / TOPICS)
        labels = topics.label_words(**_labelling(source))
        if labels.fingerprint() != report.attention.options.get("labels"):
            labels = None
    if (source / EXAMPLES).is_file():
        examples = _examples(report, source)
    report.to_html(path, labels=labels, topics=topics, examples=examples)


def _examples(report: ProbeReport, folder: Path) -> list[Any]:
    """Return the passages beside a report, which are as the page needs them.

    Raises:
        ValueError: if their file is damaged, or a link that leads out of the folder.
    """
    from ..report._page_passages import chosen_passages

    path = folder / EXAMPLES
    found = read_part(path, folder)
    heads = report.attention.to_frame("pooled")
    names = {name: heads[name].tolist() if name in heads else [""] * len(heads) for name in ("stack", "layer", "head")}
    try:
        chosen_passages(names, found)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, and the page has no passages") from error
    return found


def _labelling(folder: Path) -> dict[str, Any]:
    """Return how a run labelled words; nothing if its file of options is missing or damaged.

    Raises:
        ValueError: if that is a link that leads out of the folder.
    """
    import tomllib

    require_inside(folder / RUN_FILE, folder)
    try:
        options = tomllib.loads(read_run(folder / RUN_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    top_k: Any = options.get("top_k")
    if type(top_k) is int and top_k >= 1:
        found["top_k"] = top_k
    min_share: Any = options.get("min_share")
    if type(min_share) in (int, float) and 0 <= min_share <= 1:
        found["min_share"] = min_share
    top_fraction: Any = options.get("top_fraction")
    if type(top_fraction) in (int, float) and 0 < top_fraction <= 1:
        found["top_fraction"] = top_fraction
    if options.get("prior") in ("uniform", "corpus"):
        found["prior"] = options["prior"]
    return found
