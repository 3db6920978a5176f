"""``topic-probes topics``: a corpus in, a folder with a topic model out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, no_type_check

import typer

from .._folders import files_below, kind_of, whole_folder
from .._run_file import RUN_FILE, write_run
from ._config import run_file
from ._corpus import open_corpus
from ._options import AsJson, Config, DryRun, Limit, NTopics, Part, Seed, Split, TextField, TopicsFolder, required
from ._screen import show, show_json, stdout_for_results

Corpus = Annotated[
    str,
    typer.Argument(
        help="A dump (.xml, .bz2, .gz), .jsonl, .txt, a folder of .txt, sample, or hf:NAME.", metavar="CORPUS"
    ),
]


@no_type_check  # typer wants its annotation of ctx, and hands over an object of another class
def topics(
    ctx: typer.Context,
    corpus: Corpus,
    n_topics: NTopics = 100,
    output: TopicsFolder = None,
    limit: Limit = None,
    text_field: TextField = "text",
    split: Split = "train",
    part: Part = "all",
    passes: Annotated[int, typer.Option(help="How often the fit reads all passages.", metavar="N", min=1)] = 30,
    workers: Annotated[
        int, typer.Option(help="Processes; more than 1 cannot be repeated exactly.", metavar="N", min=1)
    ] = 1,
    min_passages: Annotated[int, typer.Option(help="Leave out words of fewer passages.", metavar="N", min=1)] = 5,
    max_passage_share: Annotated[
        float, typer.Option(help="Leave out words of more passages than this share.", metavar="SHARE")
    ] = 0.3,
    max_vocabulary: Annotated[int, typer.Option(help="Keep the words of most passages.", metavar="N", min=1)] = 20_000,
    seed: Seed = 0,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Fit topics to a corpus (LDA), and write them to a folder that `probe --topics` reads."""
    documents = open_corpus(corpus, limit=limit, text_field=text_field, split=split, part=part)
    if dry_run:
        from ._estimate import estimate_topics, show_estimate

        show_estimate(
            estimate_topics(documents, n_topics=n_topics, passes=passes, max_vocabulary=max_vocabulary), as_json
        )
        return

    from ..topics import fit_lda

    target = required(output, "-o")
    with whole_folder(target, kind="a saved topic model", replaceable=_is_topics_alone) as new:
        with stdout_for_results():
            model = fit_lda(
                documents,
                n_topics=n_topics,
                seed=seed,
                workers=workers,
                passes=passes,
                min_passages=min_passages,
                max_passage_share=max_passage_share,
                max_vocabulary=max_vocabulary,
                progress=True,
            )
        model.save(new)
        write_run(new / RUN_FILE, run_file(ctx))
    labels, why_not = None, ""
    try:
        labels = model.label_words()
    except ValueError as error:  # no word is at home in one topic: the topics are there all the same
        why_not = f"No labels: {error}"
    if as_json:
        coverage = None if labels is None else dict(labels.coverage)
        found: dict[str, Any] = {"folder": target, "topics": model.to_frame(), "labels": coverage}
        show_json({**found, "n_documents": model.n_documents, "n_tokens": model.n_tokens, "options": model.options})
    else:
        from ._tables import topic_table

        show(
            topic_table(model),
            why_not or str(labels),
            f"Topics: {target} (topic-probes probe MODEL --topics {target} --corpus CORPUS -o DIR)",
        )


def _is_topics_alone(folder: Path) -> bool:
    """Whether a folder holds a topic model and nothing else."""
    return kind_of(folder) == "topic model" and files_below(folder) <= {
        "description.json",
        "arrays.safetensors",
        RUN_FILE,
    }
