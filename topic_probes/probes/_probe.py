"""``probe``: a corpus through a model and its untrained twin, in one pass over the documents.

Both models see the same batches, tokenised once. Each forward pass goes as far as the last
pattern that is wanted and no further. At most one layer's pattern is alive at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from .._axes import LongDocuments, WordPolicy
from .._errors import CorpusError
from .._progress import progress_bar
from .._validation import require_count, require_one_of
from ..corpora import CorpusLike, as_corpus
from ..corpora._document import Corpus
from ..statistics import AttentionResult
from ..statistics._sums import COLUMNS
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._batches import Batch, batches
from ._counting import MaskIgnoredError, PatternCounter
from ._embedding import measure_embedding
from ._hooks import (
    device_of,
    mask_argument,
    pattern_hooks,
    require_all_fired,
    require_probeable,
    run_until_pattern,
    tokenizer_of,
)
from ._provenance import provenance
from ._report import ProbeReport
from ._twin import untrained_twin

DEFAULT_MAX_LENGTH = 512
"""Tokens in a window unless told otherwise: a pattern's memory grows with the square of it."""


def probe(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    *,
    tokenizer: Any = None,
    batch_size: int = 16,
    max_length: int | None = None,
    long_documents: LongDocuments = "window",
    words: WordPolicy = "whole",
    layers: Sequence[int] | None = None,
    visibility: Literal["read", "causal", "bidirectional"] = "read",
    baseline: Literal["random_init"] | None = "random_init",
    seed: int = 0,
    progress: bool = True,
) -> ProbeReport:
    """Measure same-topic and cross-topic attention of every head, and the same of the token embeddings.

    Hooks that the caller left on the model act on it as in any forward pass, and what they make of a pattern
    is what is measured. The untrained twin has none of them: to compare like with like, take them off first.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        corpus: documents of text or of token ids; see :mod:`topic_probes.corpora`. A list will do.
        labels: topics of words (``TopicModel.label_words``) or of token ids (``TopicLabels.from_dict``).
        tokenizer: the model's own (``model.tokenizer``) unless given.
        batch_size: rows in a forward pass.
        max_length: tokens in a row, special tokens included; the model's context, at most 512, unless given.
        long_documents: ``"window"`` reads longer documents in several rows (pairs never cross them),
            ``"truncate"`` reads the first row only, ``"skip"`` leaves them out, ``"error"`` refuses them.
        words: ``"whole"``: only words of exactly one token take part (P1). ``"merge"``: words of several
            tokens are one position; attention to it is summed, attention from it averaged over its tokens.
        layers: layers to probe, negative ones from the end; None for all that have attention.
        visibility: which keys a query may see. ``"read"``: those within the reach of a layer's patterns, where a
            weight of exactly zero means hidden. That fails for saturated attention, where every head of a layer gives
            weight to one key only (a warning says so): state ``"causal"`` or ``"bidirectional"`` then.
        baseline: ``"random_init"`` also runs the same architecture with freshly initialised weights
            over the same documents; None does not.
        seed: of the untrained weights and of the intervals' resamples.
        progress: show a progress bar on stderr.

    Returns:
        The report: ``attention``, ``embedding`` (None if no labelled word is one token), ``baseline``.

    Raises:
        CorpusError: if the corpus is empty, has an id outside the vocabulary, or no labelled word of it is
            a word of the model's tokens.
        PatternError: if the model does not hand out attention patterns.
        TypeError, ValueError: for a model that cannot be probed, or an option outside its range.
    """
    require_labels(labels)
    require_count("batch_size", batch_size)
    require_one_of("words", words, ("whole", "merge"))
    require_one_of("long_documents", long_documents, ("window", "truncate", "skip", "error"))
    require_one_of("visibility", visibility, ("read", "causal", "bidirectional"))
    require_one_of("baseline", baseline, ("random_init", None))
    require_count("seed", seed, minimum=0)
    require_probeable(model)
    names, unavailable = pattern_hooks(model, layers)
    documents = as_corpus(corpus)
    tokenizer = tokenizer_of(model, tokenizer)
    reader = DocumentReader(
        tokenizer,
        words=words,
        of_words=labels.of_words,
        max_length=_max_length(model, tokenizer, max_length),
        long_documents=long_documents,
        n_vocabulary=getattr(model.cfg, "d_vocab", None),
    )
    models = {"trained": model}
    if baseline is not None:
        models["untrained"] = untrained_twin(model, seed)
    counters = {name: PatternCounter(tuple(names), labels, visibility) for name in models}

    ignore_mask: set[str] = set()
    windows = _windows(documents, reader, progress)
    for batch in batches(
        windows, batch_size, _pad_id(model, tokenizer), allow_padding=mask_argument(model) is not None
    ):
        for name, counter in counters.items():
            if name not in ignore_mask:
                try:
                    _run(models[name], batch, counter, names)
                    continue
                except MaskIgnoredError:  # some models take a mask and do not heed it: no pads for them
                    counter.drop_batch()
                    ignore_mask.add(name)
            for part in batch.by_length():
                _run(models[name], part, counter, names)
    _require_pairs(documents, reader, counters["trained"], labels)

    options = {"words": words, "max_length": reader.max_length, "long_documents": long_documents}
    reports = {}
    for name, counter in counters.items():
        assert counter.totals is not None
        origin = provenance(models[name], labels, corpus=documents.name, **options)
        reports[name] = ProbeReport(
            attention=AttentionResult(
                totals=counter.totals,
                tally=reader.tally.as_dict(),
                visibility={layer: str(seen) for layer, seen in counter.visibility.items()},
                unavailable_layers=unavailable,
                options={**origin, "weights": name},
                seed=seed,
            ),
            embedding=measure_embedding(models[name], labels, tokenizer),
        )
    return ProbeReport(reports["trained"].attention, reports["trained"].embedding, reports.get("untrained"))


def _max_length(model: Any, tokenizer: Any, wanted: int | None) -> int:
    context = getattr(model.cfg, "n_ctx", None) or DEFAULT_MAX_LENGTH
    if wanted is not None:
        require_count("max_length", wanted)
        if wanted > context:
            raise ValueError(f"max_length must be at most the model's context of {context} tokens, got {wanted}")
        return wanted
    return min(context, getattr(tokenizer, "model_max_length", context), DEFAULT_MAX_LENGTH)


def _pad_id(model: Any, tokenizer: Any) -> int:
    """Return the tokenizer's pad id if the model has it (some count positions by it), else 0; pads are masked."""
    pad_id = getattr(tokenizer, "pad_token_id", None) or 0
    return pad_id if pad_id < getattr(model.cfg, "d_vocab", 0) else 0


def _windows(documents: Corpus, reader: DocumentReader, progress: bool) -> Iterator[Window]:
    for document in progress_bar(
        documents, description="probing", unit="documents", total=documents.expected, enabled=progress
    ):
        yield from reader.windows(document)


def _run(model: Any, batch: Batch, counter: PatternCounter, names: dict[int, str]) -> None:
    device = device_of(model)
    counter.begin_batch(batch.windows, [slice(0, len(window)) for window in batch.windows])
    mask = batch.mask.to(device) if mask_argument(model) is not None else None
    hooks = {layer: counter.hook(layer) for layer in names}
    run_until_pattern(model, batch.token_ids.to(device), mask, hooks, names)
    require_all_fired(model, names, counter.fired)
    counter.end_batch()


def _require_pairs(documents: Corpus, reader: DocumentReader, counter: PatternCounter, labels: TopicLabels) -> None:
    tally = reader.tally
    if counter.totals is None:
        raise CorpusError(
            f"nothing in the corpus {documents.name!r} could be probed: {tally.n_empty} documents are empty and "
            f"{tally.n_skipped} were skipped as too long"
        )
    if not any(counter.totals.counts[..., COLUMNS.index(name)].any() for name in ("same_topic", "cross_topic")):
        kind = "words" if labels.of_words else "token ids"
        raise CorpusError(
            f"no two labelled {kind} met in the corpus {documents.name!r}: {len(labels.topics_of)} {kind} have labels, "
            f"{tally.n_words_taking_part} words read are words of the model's tokens (words={reader.words!r}); "
            "check that labels and corpus are of one language, read more of long documents, or "
            'pass words="merge"'
        )
