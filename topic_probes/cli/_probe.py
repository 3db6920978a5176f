"""``topic-probes probe``: a model, topics and a corpus in, a folder with a report out.

While it runs the folder holds ``run.toml`` and ``checkpoint/``; when all is counted the report takes the checkpoint's
place. A run that was stopped, or killed at any moment, leaves a folder that ``--resume`` goes on with.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, no_type_check

import typer

from ..topics import TopicModel
from ._config import run_file
from ._corpus import open_corpus
from ._options import (
    AsJson,
    Config,
    Device,
    DryRun,
    Dtype,
    Estimator,
    Limit,
    Part,
    RunFolder,
    Seed,
    Split,
    TextField,
    as_device,
    as_layers,
    one_of,
    required,
)
from ._probing import Beside, run_probe
from ._run_folder import open_run_folder
from ._screen import StoppedError, show, show_json, stdout_for_results, step

if TYPE_CHECKING:
    from ..probes import ProbeReport

_LABELLING = "Labels"
_READING = "Reading"
_RUNNING = "Running"


@no_type_check  # typer wants its annotation of ctx, and hands over an object of another class
def probe(
    ctx: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A name on the Hugging Face hub, a folder, or minilm or smollm2.", metavar="MODEL")
    ],
    topics: Annotated[
        Path | None, typer.Option(help="Folder with the topic model, from `topics`.", metavar="DIR")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="What to read, as CORPUS of `topics`; best not what topics were fitted on.", metavar="CORPUS"
        ),
    ] = None,
    output: RunFolder = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the stopped run in this folder.")] = False,
    min_share: Annotated[
        float,
        typer.Option(
            help="Least share of a topic in a word.", metavar="SHARE", min=0, max=1, rich_help_panel=_LABELLING
        ),
    ] = 0.5,
    top_k: Annotated[
        int, typer.Option(help="Most topics of a word.", metavar="N", min=1, rich_help_panel=_LABELLING)
    ] = 1,
    top_fraction: Annotated[
        float | None,
        typer.Option(
            help="Only words among this share of a topic's likeliest; all unless given.",
            metavar="SHARE",
            min=0,
            max=1,
            rich_help_panel=_LABELLING,
        ),
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            help="Of topics, in the shares: uniform, or as in the corpus.",
            rich_help_panel=_LABELLING,
            **one_of(("uniform", "corpus")),
        ),
    ] = "uniform",
    words: Annotated[
        str,
        typer.Option(
            help="whole: words of one token; merge: all words.",
            rich_help_panel=_READING,
            **one_of(("whole", "merge")),
        ),
    ] = "whole",
    long_documents: Annotated[
        str,
        typer.Option(
            help="Documents beyond the context: window, truncate, skip or error.",
            rich_help_panel=_READING,
            **one_of(("window", "truncate", "skip", "error")),
        ),
    ] = "window",
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Tokens read at once; at most 512 unless given.", metavar="N", min=1, rich_help_panel=_READING
        ),
    ] = None,
    limit: Limit = None,
    text_field: TextField = "text",
    split: Split = "train",
    part: Part = "all",
    layers: Annotated[
        str | None,
        typer.Option(help="Layers to probe, as 0,2-4,-1; all unless given.", metavar="LIST", rich_help_panel=_RUNNING),
    ] = None,
    baseline: Annotated[bool, typer.Option(help="Also probe the untrained twin.", rich_help_panel=_RUNNING)] = True,
    n_permutations: Annotated[
        int,
        typer.Option(
            help="Permutations of labels behind p-values; 0 for none.", metavar="N", min=0, rich_help_panel=_RUNNING
        ),
    ] = 200,
    match_frequency: Annotated[
        bool,
        typer.Option(
            "--match-frequency",
            help="Also compare words of equal frequency (reads the corpus once more).",
            rich_help_panel=_RUNNING,
        ),
    ] = False,
    contextual: Annotated[
        bool,
        typer.Option(
            "--contextual",
            help="Also compare words in context, layer by layer (as long again).",
            rich_help_panel=_RUNNING,
        ),
    ] = False,
    batch_size: Annotated[
        int, typer.Option(help="Rows in a forward pass.", metavar="N", min=1, rich_help_panel=_RUNNING)
    ] = 16,
    tokens_per_batch: Annotated[
        int, typer.Option(help="Tokens in a forward pass.", metavar="N", min=1, rich_help_panel=_RUNNING)
    ] = 8192,
    checkpoint_every: Annotated[
        int, typer.Option(help="Documents between two checkpoints.", metavar="N", min=1, rich_help_panel=_RUNNING)
    ] = 10_000,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(help="Most seconds between two checkpoints.", metavar="S", min=0, rich_help_panel=_RUNNING),
    ] = 300.0,
    examples: Annotated[
        int,
        typer.Option(
            help="Passages kept for the report page; 0 for none.", metavar="N", min=0, rich_help_panel=_RUNNING
        ),
    ] = 3,
    device: Device = None,
    dtype: Dtype = "float32",
    seed: Seed = 0,
    estimator: Estimator = "distance_matched",
    as_json: AsJson = False,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Probe a model: same-topic against cross-topic attention of every head, and of its untrained twin.

    Several GPUs: torchrun --nproc-per-node 2 -m topic_probes probe ...
    """
    at_layers = as_layers(layers)
    as_device(device)  # known before anything is read
    topic_model = TopicModel.load(required(topics, "--topics"))
    labels = topic_model.label_words(top_k=top_k, min_share=min_share, top_fraction=top_fraction, prior=prior)
    documents = open_corpus(required(corpus, "--corpus"), limit=limit, text_field=text_field, split=split, part=part)
    if documents.name == topic_model.options.get("corpus"):
        warnings.warn(
            f"the topics were fitted on this corpus ({documents.name}), which flatters them: let models read other "
            "documents, as with topics --part train and probe --part test",
            stacklevel=2,
        )
    reading: dict[str, Any] = {"words": words, "long_documents": long_documents, "max_length": max_length}
    if dry_run:
        from ._estimate import estimate_probe, show_estimate

        with stdout_for_results():
            estimate = estimate_probe(
                model,
                documents,
                labels,
                reading=reading,
                layers=at_layers,
                baseline=baseline,
                contextual=contextual,
                n_permutations=n_permutations,
                batch_size=batch_size,
                tokens_per_batch=tokens_per_batch,
                dtype=dtype,
                device=device,
            )
        show_estimate(estimate, as_json)
        return
    if estimator == "frequency_matched" and not match_frequency:
        raise typer.BadParameter("frequency_matched needs --match-frequency", param_hint="'--estimator'")

    from ..probes._distributed import torchrun_processes

    target = required(output, "-o")
    with (
        torchrun_processes() as processes,
        open_run_folder(target, run_file(ctx), resume=resume, processes=processes) as folder,
    ):
        is_first = processes is None or processes.rank == 0
        if folder.is_finished:
            if is_first:
                step(f"{target} is finished already")
                _show(folder.load(), target, estimator, as_json)
            return
        try:
            with stdout_for_results():
                report, passages = run_probe(
                    model,
                    documents,
                    labels,
                    folder,
                    is_first=is_first,
                    open_options={"device": device, "dtype": dtype},
                    beside=Beside(match_frequency, contextual, examples),
                    options={
                        **reading,
                        "layers": at_layers,
                        "baseline": "random_init" if baseline else None,
                        "n_permutations": n_permutations,
                        "batch_size": batch_size,
                        "tokens_per_batch": tokens_per_batch,
                        "seed": seed,
                        "distributed": processes is not None,
                        "resume": resume,
                        "checkpoint_every": checkpoint_every,
                        "checkpoint_seconds": checkpoint_seconds,
                    },
                )
            if is_first:
                folder.finish(report, topic_model, passages)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped before the end; {target} holds {folder.kept}") from None
        except BaseException:
            if is_first:
                folder.forget()
            raise
    if is_first:
        try:
            _show(report, target, estimator, as_json)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; the results are whole, in {target}") from None


def _show(report: ProbeReport, folder: Path, estimator: str, as_json: bool) -> None:
    from ._report import report_as_json
    from ._tables import report_tables

    if as_json:
        show_json({"folder": folder, **report_as_json(report, estimator)})
    else:
        show(*report_tables(report, estimator), f"Report: {folder} (topic-probes report {folder} --html page.html)")
