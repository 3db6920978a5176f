"""What a one-layer model without positions amounts to, read off its outputs: a matrix of logits, a matrix of scores.

With no residual stream, MLP, layer norm or positions, the logits at a query are a mean over the keys,
``sum over keys k of A[q, k] L[:, w_k]``, with A a softmax of scores that depend on the two words alone. A document of
one word therefore shows a column of L, and one document that holds every word once shows all scores, each row up to a
constant. So nothing need be known of how the model keeps its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

PATTERN = "blocks.0.attn.hook_pattern"
_AGREES = 1e-3
"""Greatest difference of logits, as part of their size, that float32 explains."""


def logits_and_scores(
    model: Any, n_words: int
) -> tuple[Float[np.ndarray, "word input_word"], Float[np.ndarray, "query_word input_word"]]:
    """Return the logits L [n_words, n_words + 1] of each key, and the scores [n_words + 1, n_words + 1].

    ``L[i, j]`` is the logit that word j, attended to alone, gives to word i: W_U W_V W_E and the bias. Scores, of
    queries (rows) and keys, are the logarithms of the attention in a document of every word once: those before the
    softmax, less a constant per row, which the softmax does not see. The model is left as it was.

    Args:
        model: one attention layer with TransformerLens' hooks (``run_with_hooks``, ``blocks.0.attn.hook_pattern``),
            in evaluation mode, such as :class:`TopicTransformer`.
        n_words: number of words; [MASK] is the token of that number.

    Raises:
        TypeError: if the model has no ``run_with_hooks``.
        ValueError: if it has several heads, or its logits are no attention-weighted mean over the keys.
    """
    import torch

    if not hasattr(model, "run_with_hooks"):
        raise TypeError(f"model must have TransformerLens' run_with_hooks, got a {type(model).__name__}")
    caught: list[Any] = []

    def catch(pattern: Any, hook: Any) -> None:
        caught.append(pattern.detach())

    parameter = next(iter(model.parameters()), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    everything = torch.arange(n_words + 1, device=device)
    with torch.no_grad():
        alone = model.run_with_hooks(everything[:, None], fwd_hooks=[])[:, 0]
        together = model.run_with_hooks(everything[None], fwd_hooks=[(PATTERN, catch)])[0]
    pattern = _float64(caught[0][0])
    if pattern.shape[0] != 1:
        raise ValueError(f"model must have one head, got {pattern.shape[0]}")
    logits, mixed = _float64(alone)[:, :n_words].T, _float64(together)[:, :n_words]
    difference = float(np.abs(mixed - pattern[0] @ logits.T).max())
    if not difference <= _AGREES * (float(np.abs(logits).max()) + 1e-30):
        raise ValueError(
            "model must have logits that are an attention-weighted mean over the words, without residual stream, MLP, "
            f"layer norm and positions; its logits differ from that by up to {difference:.3g}"
        )
    with np.errstate(divide="ignore"):
        return logits, np.log(pattern[0])


def as_logits_and_scores(
    model: Any, n_words: int
) -> tuple[Float[np.ndarray, "word input_word"], Float[np.ndarray, "query_word input_word"] | None]:
    """Return the two matrices of a model, a pair of matrices, or one matrix (uniform attention: scores are None)."""
    if hasattr(model, "run_with_hooks"):
        return logits_and_scores(model, n_words)
    is_pair = isinstance(model, tuple)
    if is_pair and len(model) != 2:
        raise ValueError(f"model must be a matrix, a pair (logits, scores) or a model, got a tuple of {len(model)}")
    logits = as_matrix("model", model[0] if is_pair else model)
    if logits.shape not in {(n_words, n_words + 1), (n_words + 1, n_words + 1)}:
        raise ValueError(
            f"model must be a matrix of shape {(n_words, n_words + 1)}, words by words and [MASK], got {logits.shape}"
        )
    if not is_pair:
        return logits[:n_words], None
    scores = as_matrix("scores", model[1])
    if scores.shape != (n_words + 1, n_words + 1):
        raise ValueError(f"scores must have the shape {(n_words + 1, n_words + 1)}, got {scores.shape}")
    return logits[:n_words], scores


def as_matrix(name: str, matrix: Any) -> Float[np.ndarray, "row column"]:
    """Return an array, a tensor or a table of numbers as a matrix of its own, in float64.

    Raises:
        TypeError: if it holds no numbers.
        ValueError: if it is no matrix, or NaN somewhere.
    """
    if hasattr(matrix, "detach"):
        matrix = _float64(matrix.detach())
    try:
        found = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a matrix of numbers, got a {type(matrix).__name__}") from error
    if found.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got an array of shape {found.shape}")
    if np.isnan(found).any():
        raise ValueError(f"{name} must hold numbers, got NaN somewhere: training may have diverged")
    return found


def _float64(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
