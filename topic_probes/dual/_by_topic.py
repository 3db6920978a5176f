"""Do heads learn in context from words of the query's topic? Contributions to the output, by pair class.

A head's output is the sum of ``A_i v_i`` over the tokens it sees, and each term is one rank-one update of the dual
(docs/science.md, *The dual*). Token i's *share* of the output along its own direction is ``A_i v_i . z / |z|^2``;
shares of a query add up to one. So a share is debiased as attention is (docs/science.md, *Debiased attention*): times
the number of keys that the query sees, over the pieces of the word. A head whose tokens all contribute alike is
exactly 1 in every class, for any length and any mask. That answers the question per token; summed over the tokens of a
class, shares and the length of the class's part ``|sum A_i v_i| / |z|`` answer it per query word.

Pair classes are those of :func:`topic_probes.probe`.

What this does *not* show: same-topic words stand nearer to each other, and documents differ in their mix of topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._axes import LongDocuments, Site, WordPolicy
from .._validation import require_count
from ..corpora import CorpusLike
from ..probes._batches import Batch, batches
from ..probes._corpus_for_model import corpus_for_model
from ..probes._counting import MaskIgnoredError
from ..probes._hooks import describe, device_of, mask_argument, require_probeable, run_until_pattern
from ..topics import TopicLabels
from ._contribution_sums import ContributionCounter
from ._contributions import ContributionsByTopic
from ._heads import attention_layers, part_names, require_heads, require_patterns


def contributions_by_topic(
    model: Any,
    corpus: CorpusLike,
    labels: TopicLabels,
    *,
    tokenizer: Any = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    batch_size: int = 16,
    max_length: int | None = None,
    long_documents: LongDocuments = "window",
    words: WordPolicy = "whole",
    seed: int = 0,
    progress: bool = True,
) -> ContributionsByTopic:
    """Measure how much same- and cross-topic tokens contribute to each head's output, over a corpus.

    One pass, reduced inside the hooks: at most one layer's pattern and values are alive. Demonstrations of a
    query are all tokens that it sees but itself; the query's own token is ``same_token`` and so in neither class.

    Args:
        model: any TransformerLens model in evaluation mode. It comes back as it was.
        corpus: documents of text or of token ids, as for :func:`topic_probes.probe`.
        labels: topics of words or of token ids.
        tokenizer: the model's own (``model.tokenizer``) unless given.
        layers: layers to measure, negative ones from the end; None for all that have attention.
        heads: heads to measure in each of them; None for all.
        batch_size: rows in a forward pass.
        max_length: tokens in a row; the model's context, at most 512, unless given.
        long_documents: ``"window"``, ``"truncate"``, ``"skip"`` or ``"error"``, as for :func:`topic_probes.probe`.
        words: ``"whole"`` or ``"merge"``, as for :func:`topic_probes.probe`.
        seed: of the intervals' resamples.
        progress: show a progress bar on stderr.

    Returns:
        Sums by head and group of documents, with ``to_frame()`` and ``headline()``.

    Raises:
        CorpusError: if no two labelled words of different spelling met.
        PatternError: if the model hands out no pattern or no values, or attends to masked pads.
        TypeError, ValueError: for a model that cannot be hooked, or an option outside its range.
    """
    require_probeable(model)
    read = corpus_for_model(
        model, corpus, labels, tokenizer, words=words, max_length=max_length, long_documents=long_documents
    )
    require_count("batch_size", batch_size)
    require_count("seed", seed, minimum=0)
    names = attention_layers(model, layers)
    chosen = require_heads(heads, int(model.cfg.n_heads))
    counter = ContributionCounter(tuple(names), chosen, labels)
    heeds_mask = True
    with read.windows("Contributions", progress=progress) as windows:
        for batch in batches(windows, batch_size, read.pad_id, allow_padding=mask_argument(model) is not None):
            if heeds_mask:
                try:
                    _run(model, batch, counter, names)
                    continue
                except MaskIgnoredError:  # some models take a mask and do not heed it: no pads for them
                    heeds_mask = False
            for part in batch.by_length():
                _run(model, part, counter, names)
    read.require_pairs(bool(counter.pairs.any()))
    return ContributionsByTopic(
        layers=counter.layers,
        heads=tuple(chosen),
        **counter.sums(),
        tally=read.reader.tally.as_dict(),
        options={
            "model": describe(model),
            "labels": labels.fingerprint(),
            "corpus": read.documents.name,
            **read.options,
        },
        seed=seed,
    )


def _run(model: Any, batch: Batch, counter: ContributionCounter, names: dict[int, str]) -> None:
    """Run a batch through a model and count it, whole or not at all."""
    device = device_of(model)
    counter.begin(batch)
    hooks: dict[Site, Any] = {}
    all_names: dict[Site, str] = {}
    for layer, name in names.items():
        keep, count = counter.hooks(layer)
        # Values under negative numbers: the pass stops at the last site, which is then the last pattern.
        values, pattern = Site("", -1 - layer), Site("", layer)
        all_names |= {values: part_names(model, layer)["v"], pattern: name}
        hooks |= {values: keep, pattern: count}
    mask = batch.mask.to(device) if mask_argument(model) is not None else None
    run_until_pattern(model, batch.token_ids.to(device), mask, hooks, all_names)
    require_patterns(model, names, counter.fired)
    counter.end()
