"""Matrices to look at: one head's attention within one document, and the likeness of words by topic.

These are for pictures. The statistics never hold such a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .._axes import STACKS, Site, Stack, WordPolicy
from .._errors import CorpusError
from .._validation import require_count, require_one_of
from ..corpora import Document
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ._decoder import shifted_ids, shifted_window, start_of_decoder
from ._embedding import word_vectors
from ._hooks import (
    device_of,
    mask_argument,
    pattern_hooks,
    require_all_fired,
    require_probeable,
    run_until_pattern,
    tokenizer_of,
)
from ._pairs import WordPairs, pair_weights
from ._sides import Side
from ._visibility import visibility_of

if TYPE_CHECKING:
    import pandas as pd


def word_attention(
    model: Any,
    text: str,
    *,
    layer: int,
    head: int,
    stack: Stack = "",
    tokenizer: Any = None,
    words: WordPolicy = "merge",
    max_length: int = 128,
) -> pd.DataFrame:
    """Return one head's attention between the words of one text, in units of uniform = 1.

    Args:
        model: any TransformerLens model in evaluation mode.
        text: the document; its first ``max_length`` tokens are read, or as many as the model takes.
        layer: its layer, a negative one from the end.
        head: its number within the layer.
        stack: of an encoder-decoder ``"encoder"``, ``"decoder"`` or ``"cross"``, where queries are words of the
            decoder and keys words of the encoder; the decoder reads the text shifted right, as in :func:`probe`.
            An ordinary model has the stack ``""`` alone.
        tokenizer: the model's own (``model.tokenizer``) unless given.
        words: ``"whole"`` or ``"merge"``, as for :func:`probe`.
        max_length: tokens to read.

    Returns:
        [query_pos, key_pos] words as index and columns, in reading order; NaN where a query cannot see a key. In
        ``"cross"`` a last word that has no special token behind it is a key and no query. The mean over a pair
        class of many such matrices is what :func:`probe` reports.

    Raises:
        CorpusError: if the text has no word that is a word of the model's tokens.
        TypeError, ValueError, PatternError: as for :func:`probe`, or if there is no such stack, layer or head.
    """
    import pandas as pd

    require_probeable(model)
    if not isinstance(text, str):
        raise TypeError(f"text must be one string, got a {type(text).__name__}: call word_attention for each text")
    require_count("max_length", max_length)
    site, name = _site(model, stack, layer)
    tokenizer = tokenizer_of(model, tokenizer)
    max_length = min(max_length, getattr(model.cfg, "n_ctx", None) or max_length)
    reader = DocumentReader(tokenizer, words=words, max_length=max_length, long_documents="truncate")
    window = next(iter(reader.windows(Document(id="text", text=text))), None)
    if window is None or not window.words:
        raise CorpusError(f"text has no word that is a word of the model's tokens under words={words!r}: {text!r:.60}")
    seen: dict[Site, Tensor] = {}

    def keep(tensor: Tensor, *, hook: Any) -> None:
        seen[site] = tensor[0].detach().cpu().double()

    queries, decoder_ids = window, None
    token_ids = torch.from_numpy(window.token_ids)[None].to(device_of(model))
    mask = torch.ones_like(token_ids) if mask_argument(model) is not None else None
    if site.stack in ("decoder", "cross"):
        start = start_of_decoder(model)
        queries, decoder_ids = shifted_window(window, start), shifted_ids(token_ids, start)
    keys = window if site.stack == "cross" else queries
    run_until_pattern(model, token_ids, mask, {site: keep}, {site: name}, decoder_ids)
    require_all_fired(model, {site: name}, set(seen))
    n_heads = len(seen[site])
    if not 0 <= head < n_heads:
        raise ValueError(f"head must be in [0, {n_heads}), got {head}")

    visibility = visibility_of(site, "read")
    visibility.learn(site, [seen[site]])
    asking, asked = _unlabelled(queries), _unlabelled(keys)
    one_class = WordPairs(asking, asked, np.zeros((len(queries.words), len(keys.words)), dtype=np.int64))
    weights = pair_weights(one_class, visibility.reach).weights[0]
    of_query, of_key = _words_by_position(queries), _words_by_position(keys)
    attention = of_query.T @ (seen[site][head].numpy() * weights) @ of_key
    attention[of_query.T @ (weights > 0) @ of_key == 0] = np.nan
    return pd.DataFrame(attention, index=list(queries.words), columns=list(keys.words))


def _site(model: Any, stack: Stack, layer: int) -> tuple[Site, str]:
    """Return the site of that layer in a stack, and the name of its hook."""
    require_one_of("stack", stack, STACKS)
    names, _ = pattern_hooks(model, [layer])
    if all(site.stack == "" for site in names) != (stack == ""):
        has = "one stack alone" if stack else "several stacks"
        way_out = "leave stack out" if stack else 'pass stack="encoder", "decoder" or "cross"'
        raise ValueError(f"stack must be one that the model has, got {stack!r} for a model of {has}: {way_out}")
    found = [(site, name) for site, name in names.items() if site.stack == stack]
    if not found:
        raise ValueError(f"layer must be one of stack={stack!r}, got {layer}, which only another stack has")
    return found[0]


def _unlabelled(window: Window) -> Side:
    return Side(window, np.arange(len(window)), np.full(len(window.words), -1))


def _words_by_position(window: Window) -> Float[np.ndarray, "pos word"]:
    """Return [pos, word] 1 where a token is a piece of a word, else 0."""
    positions = np.arange(len(window))[:, None]
    return ((window.starts <= positions) & (positions < window.stops)).astype(np.float64)


def word_similarity(
    model: Any, labels: TopicLabels, tokenizer: Any = None, *, n_topics: int = 10, words_per_topic: int = 20
) -> tuple[pd.DataFrame, list[str]]:
    """Return the centred cosines of labelled words, sorted by topic, and the topic of each: a picture's data.

    The mean vector is that of *all* labelled words that have one; shown are the topics with the most
    words, and of each the alphabetically first ones. A word of several topics stands with its first.

    Args:
        model: any TransformerLens model, or an embedding matrix [d_vocab, d_model].
        labels: topics of words or of token ids.
        tokenizer: as for :func:`probe_embedding`.
        n_topics: topics to show.
        words_per_topic: words of each.

    Raises:
        TypeError, ValueError: as for :func:`probe_embedding`.
    """
    import pandas as pd

    require_count("n_topics", n_topics)
    require_count("words_per_topic", words_per_topic)
    words, vectors, _ = word_vectors(model, labels, tokenizer)
    if len(words) < 2:
        raise ValueError(
            f"fewer than two of the {len(labels.topics_of)} labelled words are one token of the vocabulary"
        )
    centred = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = np.divide(centred, lengths, out=np.full_like(centred, np.nan), where=lengths > 0)
    topics = np.argmax(labels.membership(words), axis=1)
    largest = np.argsort(-np.bincount(topics, minlength=labels.n_topics), kind="stable")[:n_topics]
    chosen = [number for topic in largest for number in np.flatnonzero(topics == topic)[:words_per_topic]]
    shown = [words[number] for number in chosen]
    names = labels.topic_names or tuple(str(topic) for topic in range(labels.n_topics))
    frame = pd.DataFrame(centred[chosen] @ centred[chosen].T, index=shown, columns=shown)
    return frame, [names[topics[number]] for number in chosen]
