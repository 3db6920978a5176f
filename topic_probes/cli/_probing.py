"""What ``topic-probes probe`` does with a model, between reading its options and putting the results in place."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._errors import CorpusError
from ._named_models import open_named_model
from ._run_folder import RunFolderState
from ._screen import step

if TYPE_CHECKING:
    from ..probes import ProbeReport
    from ..topics import TopicLabels

_HEADS_IN_EXAMPLES = 4


@dataclass(frozen=True)
class Beside:
    """What is wanted beside attention and embedding."""

    match_frequency: bool
    """Words of equal frequency are compared as well."""
    contextual: bool
    """Words in context are compared, layer by layer."""
    n_examples: int
    """Passages for the page."""


def run_probe(
    name: str,
    documents: Any,
    labels: TopicLabels,
    folder: RunFolderState,
    *,
    is_first: bool,
    open_options: dict[str, Any],
    beside: Beside,
    options: dict[str, Any],
) -> tuple[ProbeReport, list[dict[str, Any]]]:
    """Return the report, and passages for its page; of several processes only the first makes what is beside it.

    Args:
        name: of the model.
        documents: the corpus.
        labels: of its words.
        folder: of the run; its checkpoint is kept there.
        is_first: whether this is the first process, or the only one.
        open_options: of :func:`open_named_model`.
        beside: what else is wanted.
        options: of ``probe``.
    """
    from ..corpora import word_counts
    from ..probes import probe
    from ..probes._contextual import stream_hooks

    if is_first:
        step(f"opening {name}")
    model, tokenizer = open_named_model(name, **open_options)
    if beside.contextual:
        stream_hooks(model)  # a model without is refused before anything is counted
    counts = word_counts(documents) if beside.match_frequency else None
    report = probe(
        model,
        documents,
        labels,
        tokenizer=tokenizer,
        word_counts=counts,
        checkpoint=folder.checkpoint,
        progress=True,
        **options,
    )
    if not is_first:
        return report, []
    if beside.contextual:
        report = _with_contextual(report, model, tokenizer, documents, labels, options)
    return report, _passages(report, model, tokenizer, documents, labels, options["words"], beside.n_examples)


def _with_contextual(
    report: ProbeReport, model: Any, tokenizer: Any, documents: Any, labels: TopicLabels, options: dict[str, Any]
) -> ProbeReport:
    """Return the report with words in context, of the twin as well if it has one."""
    from ..probes import probe_contextual

    reading = {name: options[name] for name in ("words", "long_documents", "max_length", "batch_size", "seed")}
    weights: tuple[Any, ...] = tuple(report.models)
    try:
        found = [
            probe_contextual(model, documents, labels, tokenizer=tokenizer, weights=name, **reading) for name in weights
        ]
    except CorpusError as error:
        warnings.warn(f"words in context were left out: {error}", stacklevel=2)
        return report
    return report.with_contextual(*found)


def _passages(
    report: ProbeReport, model: Any, tokenizer: Any, documents: Any, labels: TopicLabels, words: Any, n_examples: int
) -> list[dict[str, Any]]:
    """Return the first passages that have words, with the attention of the heads that follow topics most surely."""
    if not n_examples:
        return []
    from ..probes import example_passages
    from ..report._frames import surest_first

    heads = surest_first(report.attention.to_frame("distance_matched"))[0].head(_HEADS_IN_EXAMPLES)
    if not len(heads):  # no head has a ratio
        return []
    try:
        return example_passages(
            model, documents, labels, heads=heads, tokenizer=tokenizer, words=words, limit=n_examples
        )
    except CorpusError:
        return []
    except Exception as error:  # of a model with an oddity: what was counted through the night is not given up for it
        warnings.warn(f"the page will have no passages ({type(error).__name__}: {error})", stacklevel=2)
        return []
