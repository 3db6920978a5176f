"""``topic-probes probe``: a model, topics and a corpus in, a folder with a report out.

While it runs the folder holds ``run.toml`` and ``checkpoint/``; when all is counted the report takes the checkpoint's
place. A run that was stopped, or killed at any moment, leaves a folder that ``--resume`` goes on with.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, no_type_check

import typer

from .._errors import CorpusError
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
    as_dtype,
    as_layers,
    one_of,
    required,
)
from ._run_folder import RunFolderState, open_run_folder
from ._screen import StoppedError, show, show_json, stdout_for_results, step

if TYPE_CHECKING:
    from ..probes import ProbeReport
    from ..topics import TopicLabels

_LABELLING = "Labels"
_READING = "Reading"
_RUNNING = "Running"
_BUILT_IN = {"minilm": "open_minilm", "smollm2": "open_smollm2"}
"""Models that come in Python packages."""
_HEADS_IN_EXAMPLES = 4


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
    _require_device(model, device, dtype)
    topic_model = TopicModel.load(required(topics, "--topics"))
    labels = topic_model.label_words(top_k=top_k, min_share=min_share)
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
                report, passages = _run(
                    model,
                    documents,
                    labels,
                    folder,
                    processes,
                    open_options={"device": device, "dtype": dtype},
                    n_examples=examples if is_first else 0,
                    match_frequency=match_frequency,
                    options={
                        **reading,
                        "layers": at_layers,
                        "baseline": "random_init" if baseline else None,
                        "n_permutations": n_permutations,
                        "batch_size": batch_size,
                        "tokens_per_batch": tokens_per_batch,
                        "seed": seed,
                        "distributed": processes is not None,
                        "checkpoint": folder.checkpoint,
                        "resume": resume,
                        "checkpoint_every": checkpoint_every,
                        "checkpoint_seconds": checkpoint_seconds,
                        "progress": True,
                    },
                )
        except KeyboardInterrupt:
            kept = (
                "what was counted up to the last checkpoint: call again with --resume to go on from there"
                if folder.has_state
                else "nothing yet: call again with --resume to begin anew in it"
            )
            raise StoppedError(f"stopped before the end; {target} holds {kept}") from None
        except BaseException:
            if is_first:
                folder.forget()
            raise
        if is_first:
            folder.finish(report, topic_model, passages)
            _show(report, target, estimator, as_json)


def _run(
    name: str,
    documents: Any,
    labels: TopicLabels,
    folder: RunFolderState,
    processes: Any,
    *,
    open_options: dict[str, Any],
    n_examples: int,
    match_frequency: bool,
    options: dict[str, Any],
) -> tuple[ProbeReport, list[dict[str, Any]]]:
    """Return the report, and passages for its page."""
    from ..corpora import word_counts
    from ..probes import probe as run_probe

    if processes is None or processes.rank == 0:
        step(f"opening {name}")
    opened, tokenizer = open_named_model(name, **open_options)
    counts = word_counts(documents) if match_frequency else None
    report = run_probe(opened, documents, labels, tokenizer=tokenizer, word_counts=counts, **options)
    return report, _passages(opened, tokenizer, documents, labels, report, options["words"], n_examples)


def open_named_model(name: str, *, device: str | None, dtype: str) -> tuple[Any, Any]:
    """Return a model that is named on the command line, and its tokenizer.

    Raises:
        ValueError: if it cannot be opened: whatever the reason, it is the name that has to be mended.
        ModuleNotFoundError: if it needs a package that is not installed.
    """
    from .. import demo
    from ..models import load_model

    _require_device(name, device, dtype)
    if name in _BUILT_IN:
        return getattr(demo, _BUILT_IN[name])()
    try:
        model = load_model(name, device=as_device(device), dtype=as_dtype(dtype))
    except OSError as error:
        raise ValueError(str(error)) from error
    return model, model.tokenizer


def _require_device(name: str, device: str | None, dtype: str) -> None:
    """Raise ValueError unless a model can be opened on a device, in a precision: known before anything is read."""
    as_device(device)
    if name in _BUILT_IN and (device not in (None, "cpu") or dtype != "float32"):
        raise ValueError(f"{name} is opened on the CPU in float32: leave --device and --dtype out")


def _passages(
    model: Any, tokenizer: Any, documents: Any, labels: TopicLabels, report: ProbeReport, words: str, n_examples: int
) -> list[dict[str, Any]]:
    """Return the first passages that have words, with the attention of the heads that follow topics most."""
    if not n_examples:
        return []
    from ..probes._examples import example_passages
    from ..report._frames import surest_first

    heads = surest_first(report.attention.to_frame("distance_matched"))[0].head(_HEADS_IN_EXAMPLES)
    if not len(heads):  # no head has a ratio
        return []
    with suppress(CorpusError):
        return example_passages(
            model,
            documents,
            labels,
            heads=heads,
            tokenizer=tokenizer,
            words=words,  # type: ignore[arg-type]
            limit=n_examples,
        )
    return []


def _show(report: ProbeReport, folder: Path, estimator: str, as_json: bool) -> None:
    from ._report import report_as_json
    from ._tables import report_tables

    if as_json:
        show_json({"folder": folder, **report_as_json(report, estimator)})
    else:
        show(*report_tables(report, estimator), f"Report: {folder} (topic-probes report {folder} --html page.html)")
