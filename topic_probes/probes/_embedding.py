"""The embedding probe: are the vectors of same-topic words more alike?

For vectors of words in context, layer by layer, see :mod:`topic_probes.probes._contextual`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ..statistics import EmbeddingResult
from ..statistics._frequency_pairs import frequency_pairs
from ..statistics._vector_pairs import pair_moments, topic_gram
from ..tokens import whole_word_tokens
from ..topics import TopicLabels
from ..topics._labels import require_labels
from ._hooks import embedding_matrix, tokenizer_of
from ._provenance import fingerprint_of_counts
from ._rows import labelled_frequency_classes, require_word_counts


def probe_embedding(
    model: Any, labels: TopicLabels, tokenizer: Any = None, *, word_counts: Mapping[Any, int] | None = None
) -> EmbeddingResult:
    """Compare the token embeddings of same-topic and cross-topic words, over all pairs, exactly.

    **Which matrix it is.** TransformerLens may rewrite weights when it opens a model, and two ways to open one
    checkpoint then give two embeddings. The model computes the same either way; dot products and cosines of its
    embedding do not stay the same. So the result says in ``matrix`` what it found, and compare only results that
    say the same:

    ``centred``            ``center_writing_weights`` (``HookedTransformer.from_pretrained`` does it unless told
                           otherwise, and so does ``enable_compatibility_mode`` of a bridge) takes from every row
                           e_i its own mean over d_model, m_i. A dot product becomes ``e_i . e_j - d_model m_i m_j``,
                           and norms and cosines change with it. That is not the mean *vector* which
                           ``centred_cosine`` takes off: all three measures change.
    ``layer norm folded``  ``fold_ln`` moves the scales of the norms into the weights that read from the stream. The
                           token embedding itself stays as it was; where its rows were not centred as well,
                           nothing here changes.
    ``compatibility mode`` the bridge was put into it. What that does to weights depends on its arguments; ``centred``
                           beside it says that the embedding was changed.
    ``raw``                none of these: the weights as they were trained.

    ``from_pretrained_no_processing`` and a bridge left as it was booted give the raw matrix, and so does
    :func:`topic_probes.load_model`. The probe reads weights; it rewrites none, and never puts a bridge into
    compatibility mode: that cannot be undone, and is the caller's decision.

    **Frequency.** Vectors carry how often their words occur, and words of one topic are often of one frequency. With
    ``word_counts``, ``to_frame(estimator="frequency_matched")`` compares same- and cross-topic pairs whose words are
    of the same two frequency classes (tenths of all occurrences of labelled words, as in :func:`probe`).

    Args:
        model: any TransformerLens model (its ``W_E``), or a matrix [d_vocab, d_model] of numpy or torch.
        labels: topics of words (those that are one token inside a sentence are measured) or of token ids.
        tokenizer: the model's own (``model.tokenizer``) unless given; not needed for labels of token ids.
        word_counts: word (or token id) -> occurrences, as of :func:`topic_probes.corpora.word_counts`; a labelled word
            that is not in it counts as rare. None for no matching by frequency.

    Returns:
        Mean and standard deviation of ``dot``, ``cosine`` and ``centred_cosine`` by pair class.

    Raises:
        TypeError: if the matrix is complex, or an argument is of another kind.
        ValueError: if fewer than two labelled words have a vector; if an id is outside the vocabulary; if
            words are labelled and there is no tokenizer; if ``word_counts`` count no labelled word.

    Examples:
        >>> import numpy as np
        >>> labels = TopicLabels.from_dict({0: 0, 1: 0, 2: 1})
        >>> result = probe_embedding(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), labels)
        >>> result.to_frame().query("measure == 'dot'")["mean"].tolist()
        [2.0, 0.0]
    """
    require_labels(labels)
    require_word_counts(word_counts, labels)
    result = measure_embedding(model, labels, tokenizer, word_counts)
    if result is None:
        raise ValueError(
            f"fewer than two of the {len(labels.topics_of)} labelled words are one token of the vocabulary: "
            "check that labels and tokenizer are of one language, or label more words"
        )
    return result


def measure_embedding(
    model: Any, labels: TopicLabels, tokenizer: Any, word_counts: Mapping[Any, int] | None = None
) -> EmbeddingResult | None:
    """Return what :func:`probe_embedding` does, or None if fewer than two labelled words have a vector."""
    words, vectors, matrix = word_vectors(model, labels, tokenizer)
    if len(words) < 2:
        return None
    membership = labels.membership(words)
    options: dict[str, Any] = {"labels": labels.fingerprint()}
    matched = None
    if word_counts is not None:
        options["word_counts"] = fingerprint_of_counts(word_counts)
        tenths = labelled_frequency_classes(labels, word_counts)
        matched = frequency_pairs(vectors, membership, np.array([tenths[word] for word in words]))
    return EmbeddingResult(
        pairs=pair_moments(vectors, membership),
        topic_similarity=topic_gram(vectors, membership, "centred_cosine"),
        matrix=matrix,
        n_labelled=len(labels.topics_of),
        options=options,
        frequency_pairs=matched,
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
