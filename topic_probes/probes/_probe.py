"""``probe``: a corpus through a model and its untrained twin, in one pass over the documents.

Both models see the same batches, tokenised once. Each forward pass goes as far as the last
pattern that is wanted and no further. At most one layer's pattern is alive at a time, and of the
corpus one stretch (:mod:`._batches`): memory does not depend on the number of documents.

A long run may be spread over processes (:mod:`._distributed`), and may be taken up again after it was
killed (:mod:`._resuming`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from numbers import Real
from os import PathLike
from typing import Any, Literal

from .._axes import LongDocuments, WordPolicy
from .._validation import require_count, require_one_of
from ..corpora import CorpusLike
from ..statistics import AttentionResult
from ..statistics._sums import COLUMNS
from ..topics import TopicLabels
from ._batches import BATCH_SIZE, TOKENS_PER_BATCH, BatchLimits
from ._corpus_for_model import corpus_for_model
from ._counting import PatternCounter
from ._decoder import has_decoder, start_of_decoder
from ._distributed import Processes
from ._embedding import measure_embedding
from ._hooks import mask_argument, pattern_hooks, require_probeable
from ._provenance import fingerprint_of_counts, provenance
from ._reading import CorpusReading
from ._report import ProbeReport
from ._resuming import EVERY_DOCUMENTS, EVERY_SECONDS, checkpoint_folder
from ._rows import N_PERMUTATIONS, PairMeasures, keeps_topics, require_word_counts
from ._running import Run
from ._settings import fingerprint_of_tokenizer
from ._twin import untrained_twin


def probe(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    *,
    tokenizer: Any = None,
    batch_size: int | None = BATCH_SIZE,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    max_length: int | None = None,
    long_documents: LongDocuments = "window",
    words: WordPolicy = "whole",
    layers: Sequence[int] | None = None,
    visibility: Literal["read", "causal", "bidirectional"] = "read",
    baseline: Literal["random_init"] | None = "random_init",
    n_permutations: int = N_PERMUTATIONS,
    word_counts: Mapping[Any, int] | None = None,
    topic_matrices: bool | None = None,
    seed: int = 0,
    distributed: bool = False,
    checkpoint: str | PathLike | None = None,
    resume: bool = False,
    checkpoint_every: int = EVERY_DOCUMENTS,
    checkpoint_seconds: float = EVERY_SECONDS,
    progress: bool = True,
) -> ProbeReport:
    """Measure same-topic and cross-topic attention of every head, and the same of the token embeddings.

    Hooks that the caller left on the model act on it as in any forward pass, and what they make of a pattern
    is what is measured. The untrained twin has none of them: to compare like with like, take them off first.

    An encoder-decoder (BART, opened as a TransformerBridge) is measured in three stacks, which the frame tells apart
    by its column ``stack``: the encoder, the decoder, and the decoder's cross-attention to the encoder. The decoder
    reads the same document, shifted right by the model's own rule: see :func:`attach` for other texts.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        corpus: documents of text or of token ids; see :mod:`topic_probes.corpora`. A list will do.
        labels: topics of words (``TopicModel.label_words``) or of token ids (``TopicLabels.from_dict``).
        tokenizer: the model's own (``model.tokenizer``) unless given.
        batch_size: rows in a forward pass, at most; None for as many as ``tokens_per_batch`` allows.
        tokens_per_batch: tokens in a forward pass, pads included, at most; a row that is longer goes alone. Should a
            device run out of memory, the batch at hand is taken in halves, and from there on all are that small: a
            warning says so. It happens once; the second time is an error.
        max_length: tokens in a row, special tokens included; the model's context, at most 512, unless given.
        long_documents: ``"window"`` reads longer documents in several rows (pairs never cross them),
            ``"truncate"`` reads the first row only, ``"skip"`` leaves them out, ``"error"`` refuses them.
        words: ``"whole"``: only words of exactly one token take part (Li et al. 2023). ``"merge"``: words of several
            tokens are one position; attention to it is summed, attention from it averaged over its tokens.
        layers: layers to probe, negative ones from the end, in every stack; None for all that have attention.
        visibility: which keys a query may see. ``"read"``: those within the reach of a layer's patterns, where a
            weight of exactly zero means hidden. That fails for saturated attention, where every head of a layer gives
            weight to one key only (a warning says so): state ``"causal"`` or ``"bidirectional"`` then. Of an
            encoder-decoder either word says that its encoder is bidirectional and its decoder causal.
        baseline: ``"random_init"`` also runs the same architecture with freshly initialised weights
            over the same documents; None does not.
        n_permutations: permutations of the labels behind p- and q-values, all in the same pass; 0 for none.
        word_counts: word (or token id) -> occurrences, as of :func:`topic_probes.corpora.word_counts`: then there is
            the estimator ``"frequency_matched"``, too, of attention and of the embedding.
        topic_matrices: whether to keep attention by topic of query and key; None for only if that takes little memory.
        seed: of the untrained weights, of the permutations and of the intervals' resamples.
        distributed: share the documents among the processes of ``torch.distributed``'s default group. All of them
            call ``probe`` with the same arguments, and all get the whole result, that of one process up to rounding
            (:mod:`topic_probes.probes._distributed` says why, and its limits); let one of them save it. It is not
            done unasked: a script may well probe in its first process only.
        checkpoint: a folder of its own, for the state of this run, so that it can be taken up again.
        resume: take up the run whose state is in ``checkpoint``; begin anew if there is none. A run of one process
            that was killed then ends bit for bit like one that was not. It stays there until you remove it. The
            corpus may have another ``limit`` now: of one with a damaged end, what can be read is kept.
        checkpoint_every: write the state after so many documents,
        checkpoint_seconds: or after so many seconds, whichever comes first, when the batches at hand are counted (some
            hundred documents are read together).
        progress: show a progress bar on stderr.

    Returns:
        The report: ``attention``, ``embedding`` (None if no labelled word is one token), ``baseline``.

    Raises:
        CorpusError: if the corpus is empty, has an id outside the vocabulary, or no labelled word of it is
            a word of the model's tokens.
        PatternError: if the model does not hand out attention patterns.
        FileExistsError: if ``checkpoint`` holds something else, an earlier state without ``resume``, or is in use.
        RuntimeError: if a device runs out of memory again; if another process failed, or there is no process group.
        TypeError, ValueError: for a model that cannot be probed, or an option outside its range; if the state to be
            resumed is damaged, or was made with another model, labels, corpus or options (the message names them).
    """
    require_probeable(model)
    read = corpus_for_model(
        model, corpus, labels, tokenizer, words=words, max_length=max_length, long_documents=long_documents
    )
    if batch_size is not None:
        require_count("batch_size", batch_size)
    require_count("tokens_per_batch", tokens_per_batch)
    require_count("checkpoint_every", checkpoint_every)
    _require_seconds(checkpoint_seconds)
    if resume and checkpoint is None:
        raise ValueError("resume=True needs the folder of the run to be taken up: pass checkpoint=")
    require_one_of("visibility", visibility, ("read", "causal", "bidirectional"))
    require_one_of("baseline", baseline, ("random_init", None))
    require_count("n_permutations", n_permutations, minimum=0)
    require_word_counts(word_counts, labels)
    require_count("seed", seed, minimum=0)
    # A number of numpy's could not be written to a file of JSON.
    n_permutations, seed = int(n_permutations), int(seed)
    names, unavailable = pattern_hooks(model, layers)
    start = start_of_decoder(model) if has_decoder(names) else None
    documents, reader, tokenizer = read.documents, read.reader, read.reader.tokenizer
    models = {"trained": model}
    if baseline is not None:
        models["untrained"] = untrained_twin(model, seed)
    measures = PairMeasures(
        labels,
        n_permutations=n_permutations,
        seed=seed,
        topic_matrices=keeps_topics(topic_matrices, model, len(names), labels),
        word_counts=word_counts,
    )
    limits = BatchLimits(batch_size, tokens_per_batch, read.pad_id, allow_padding=mask_argument(model) is not None)
    run = Run(models, names, measures, visibility, start, limits)
    options = {
        **read.options,
        "visibility": visibility,
        "n_permutations": n_permutations,
        "word_counts": fingerprint_of_counts(word_counts),
    }
    # Once: it reads every weight.
    origins = {name: provenance(each, labels, corpus=documents.name, **options) for name, each in models.items()}
    processes = Processes() if distributed else None
    settings: dict[str, Any] = {}
    if processes is not None or checkpoint is not None:
        settings = {
            **origins["trained"],
            "tokenizer": fingerprint_of_tokenizer(tokenizer),
            "layers": [site.name for site in names],
            "baseline": baseline,
            "topic_matrices": measures.n_topics > 0,
            "seed": seed,
            "batch_size": None if batch_size is None else int(batch_size),
            "tokens_per_batch": int(tokens_per_batch),
        }
    corpus_reading = CorpusReading(documents, reader, processes, progress)
    if processes is not None:
        # In a checkpoint the digest of the documents says more: what was read is kept also under another limit.
        processes.require_alike(
            {**settings, "limit": documents.limit, "checkpoint": checkpoint is not None, "resume": resume}
        )

    def count() -> None:
        folder = nullcontext()
        if checkpoint is not None:
            folder = checkpoint_folder(
                checkpoint,
                settings,
                resume=resume,
                share=corpus_reading.share,
                every_documents=checkpoint_every,
                every_seconds=float(checkpoint_seconds),
            )
        with folder as states:
            corpus_reading.count(run, states)

    if processes is None:
        count()
    else:
        processes.all_or_none(count)
        processes.require_one_corpus(corpus_reading.place.n_documents, corpus_reading.place.digest)
        for counter in run.counters.values():
            processes.reduce(counter)
        reader.tally = processes.reduce_tally(reader.tally)
    read.require_pairs(_has_pairs(run.counters["trained"]))

    reports = {}
    for name, counter in run.counters.items():
        assert counter.totals is not None
        reports[name] = ProbeReport(
            attention=AttentionResult(
                totals=counter.totals,
                tally=reader.tally.as_dict(),
                visibility={site.key: str(seen) for site, seen in counter.visibility.items()},
                unavailable_layers=tuple(site.key for site in unavailable),
                options={**origins[name], "weights": name},
                seed=seed,
            ),
            embedding=measure_embedding(models[name], labels, tokenizer, word_counts),
        )
    return ProbeReport(reports["trained"].attention, reports["trained"].embedding, reports.get("untrained"))


def _require_seconds(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"checkpoint_seconds must be a number of seconds, got {value!r}")
    if not float(value) >= 0:
        raise ValueError(f"checkpoint_seconds must be at least 0, got {value!r}")


def _has_pairs(counter: PatternCounter) -> bool:
    return counter.totals is not None and any(
        bool(counter.totals.counts[..., COLUMNS.index(name)].any()) for name in ("same_topic", "cross_topic")
    )
