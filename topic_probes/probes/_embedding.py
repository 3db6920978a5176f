"""The embedding probe: are the vectors of same-topic words more alike?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ..statistics import EmbeddingResult
from ..statistics._vector_pairs import pair_moments, topic_gram
from ..tokens import whole_word_tokens
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._hooks import embedding_matrix, tokenizer_of


def probe_embedding(model: Any, labels: TopicLabels, tokenizer: Any = None) -> EmbeddingResult:
    """Compare the token embeddings of same-topic and cross-topic words, over all pairs, exactly.

    Args:
        model: any TransformerLens model (its ``W_E``), or a matrix [d_vocab, d_model] of numpy or torch.
        labels: topics of words (those that are one token inside a sentence are measured) or of token ids.
        tokenizer: the model's own (``model.tokenizer``) unless given; not needed for labels of token ids.

    Returns:
        Mean and standard deviation of ``dot``, ``cosine`` and ``centred_cosine`` by pair class.

    Raises:
        TypeError: if the matrix is complex, or an argument is of another kind.
        ValueError: if fewer than two labelled words have a vector; if an id is outside the vocabulary; if
            words are labelled and there is no tokenizer.

    Example:
        >>> import numpy as np
        >>> labels = TopicLabels.from_dict({0: 0, 1: 0, 2: 1})
        >>> result = probe_embedding(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), labels)
        >>> result.to_frame().query("measure == 'dot'")["mean"].tolist()
        [2.0, 0.0]
    """
    result = measure_embedding(model, labels, tokenizer)
    if result is None:
        raise ValueError(
            f"fewer than two of the {len(labels.topics_of)} labelled words are one token of the vocabulary: "
            "check that labels and tokenizer are of one language, or label more words"
        )
    return result


def measure_embedding(model: Any, labels: TopicLabels, tokenizer: Any) -> EmbeddingResult | None:
    """Return what :func:`probe_embedding` does, or None if fewer than two labelled words have a vector."""
    words, vectors, matrix = word_vectors(model, labels, tokenizer)
    if len(words) < 2:
        return None
    membership = labels.membership(words)
    return EmbeddingResult(
        pairs=pair_moments(vectors, membership),
        topic_similarity=topic_gram(vectors, membership, "centred_cosine"),
        matrix=matrix,
        n_labelled=len(labels.topics_of),
        options={"labels": labels.fingerprint()},
    )


def word_vectors(
    model: Any, labels: TopicLabels, tokenizer: Any = None
) -> tuple[tuple[str, ...] | tuple[int, ...], Float[np.ndarray, "word d_model"], str]:
    """Return the labelled words that have a vector, their vectors in float64, and the matrix these are from.

    Arguments and errors as :func:`probe_embedding`. Words come sorted.
    """
    require_labels(labels)
    tokenizer = tokenizer_of(model, tokenizer)
    if isinstance(model, np.ndarray | torch.Tensor):
        weights, name = model, "the matrix that was given"
    else:
        weights, name = embedding_matrix(model)
    if "complex" in str(weights.dtype):
        raise TypeError(f"an embedding must be a matrix of real numbers, got {weights.dtype}: pass its real part")
    if weights.ndim != 2:
        raise ValueError(f"an embedding must be a matrix [d_vocab, d_model], got shape {tuple(weights.shape)}")
    if labels.of_words:
        if tokenizer is None:
            raise ValueError("labels of words need a tokenizer to find their tokens: pass tokenizer=")
        token_of = whole_word_tokens(tokenizer, sorted(labels.topics_of))
    else:
        token_of = {token_id: int(token_id) for token_id in sorted(labels.topics_of)}
    outside = [token_id for token_id in token_of.values() if not 0 <= token_id < len(weights)]
    if outside:
        raise ValueError(
            f"token id {outside[0]} is outside the vocabulary of {len(weights)} rows: use the model's own ids"
        )
    words = tuple(word for word in sorted(labels.topics_of) if word in token_of)
    vectors = weights[[token_of[word] for word in words]]
    if isinstance(vectors, torch.Tensor):
        vectors = vectors.detach().cpu().double().numpy()
    return words, np.asarray(vectors, dtype=np.float64).reshape(len(words), weights.shape[1]), name
