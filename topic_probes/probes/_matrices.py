"""Matrices to look at: one head's attention within one document, and the likeness of words by topic.

These are for pictures. The statistics never hold such a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .._axes import WordPolicy
from .._errors import CorpusError
from .._validation import require_count
from ..corpora import Document
from ..tokens import DocumentReader
from ..topics import TopicLabels
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
from ._visibility import Visibility

if TYPE_CHECKING:
    import pandas as pd


def word_attention(
    model: Any,
    text: str,
    *,
    layer: int,
    head: int,
    tokenizer: Any = None,
    words: WordPolicy = "merge",
    max_length: int = 128,
) -> pd.DataFrame:
    """Return one head's attention between the words of one text, in units of uniform = 1.

    Args:
        model: any TransformerLens model in evaluation mode.
        text: the document; its first ``max_length`` tokens are read.
        layer: its layer, a negative one from the end.
        head: its number within the layer.
        tokenizer: the model's own (``model.tokenizer``) unless given.
        words: ``"whole"`` or ``"merge"``, as for :func:`probe`.
        max_length: tokens to read.

    Returns:
        [query_pos, key_pos] words as index and columns, in reading order; NaN where a query cannot see a key.
        The mean over a pair class of many such matrices is what :func:`probe` reports.

    Raises:
        CorpusError: if the text has no word that is a word of the model's tokens.
        TypeError, ValueError, PatternError: as for :func:`probe`, or if there is no such head.
    """
    import pandas as pd

    require_probeable(model)
    if not isinstance(text, str):
        raise TypeError(f"text must be one string, got a {type(text).__name__}: call word_attention for each text")
    require_count("max_length", max_length)
    names, _ = pattern_hooks(model, [layer])
    (layer,) = names
    tokenizer = tokenizer_of(model, tokenizer)
    reader = DocumentReader(tokenizer, words=words, max_length=max_length, long_documents="truncate")
    window = next(iter(reader.windows(Document(id="text", text=text))), None)
    if window is None or not window.words:
        raise CorpusError(f"text has no word that is a word of the model's tokens under words={words!r}: {text!r:.60}")
    seen: dict[int, Tensor] = {}

    def keep(tensor: Tensor, *, hook: Any) -> None:
        seen[layer] = tensor[0].detach().cpu().double()

    token_ids = torch.from_numpy(window.token_ids)[None].to(device_of(model))
    mask = torch.ones_like(token_ids) if mask_argument(model) is not None else None
    run_until_pattern(model, token_ids, mask, {layer: keep}, names)
    require_all_fired(model, names, set(seen))
    n_heads = len(seen[layer])
    if not 0 <= head < n_heads:
        raise ValueError(f"head must be in [0, {n_heads}), got {head}")

    visibility = Visibility()
    visibility.learn(layer, [seen[layer]])
    one_class = WordPairs(window, np.zeros((len(window.words), len(window.words)), dtype=np.int64))
    weights = pair_weights(one_class, *visibility.reach(len(window))).weights[0]
    positions = np.arange(len(window))[:, None]
    of_word = ((window.starts <= positions) & (positions < window.stops)).astype(np.float64)
    attention = of_word.T @ (seen[layer][head].numpy() * weights) @ of_word
    attention[of_word.T @ (weights > 0) @ of_word == 0] = np.nan
    return pd.DataFrame(attention, index=list(window.words), columns=list(window.words))


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
