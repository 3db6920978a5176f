"""One head's contributions to the output of one query, by the pair class of their tokens.

Pair classes are those of :func:`topic_probes.probe`, from the query's word to the word of each token. A token of no
word (punctuation, numbers, under ``whole`` the pieces of a split word) counts as ``no_topic``, as does every ordinary
token where the query itself is no word. Over many queries: :func:`topic_probes.dual.contributions_by_topic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .._axes import PAIR_CLASSES, WordPolicy
from .._validation import require_one_of
from ..probes._pairs import classify
from ..tokens import DocumentReader, Window
from ..topics import TopicLabels
from ..topics._labels import require_labels

if TYPE_CHECKING:
    import pandas as pd

    from ._attach import HeadDual

CLASSES = (*PAIR_CLASSES, "special")
"""Classes of demonstration tokens; ``special`` are tokens like [CLS] and BOS."""


def head_by_topic(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy = "whole") -> pd.DataFrame:
    """Return a head's contributions summed by pair class; see :meth:`HeadDual.by_topic`."""
    import pandas as pd

    kinds = _kinds_of(head, labels, tokenizer, words)
    ours = head.is_demonstration.numpy()
    at = {position: index for index, position in enumerate(head.contributions["position"])}
    log_weights = head.log_factors - (head.scale * head.keys @ head.query + head.log_factors).logsumexp(0)
    rows = []
    for number, name in enumerate(CLASSES):
        members = np.flatnonzero(ours & (kinds == number))
        terms = head.contributions.iloc[[at[head.positions[index]] for index in members]]
        keys, values = head.keys[members], head.values[members]
        rows.append(
            {
                "pair_class": name,
                "n_tokens": len(members),
                "attention": float(terms["attention"].sum()),
                "loss_term": float(terms["loss_term"].sum()),
                "update_norm": _norm_of_sum(keys, values, log_weights[members], head.scale),
                "output_norm": float((head.attention[members] @ values).norm()),
                "share": float(terms["share"].sum()),
            }
        )
    return pd.DataFrame(rows)


def head_classified(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy = "whole") -> pd.DataFrame:
    """Return a head's contributions with the pair class of each token; see :meth:`HeadDual.classified`."""
    import pandas as pd

    kinds = _kinds_of(head, labels, tokenizer, words)[head.is_demonstration.numpy()]
    classes = pd.Series([CLASSES[kind] for kind in kinds], dtype=object)
    return head.contributions.assign(pair_class=classes)


def _kinds_of(head: HeadDual, labels: TopicLabels, tokenizer: Any, words: WordPolicy) -> np.ndarray:
    """Return [seen] the class, as an index into CLASSES, of each token that the query sees."""
    require_labels(labels)
    require_one_of("words", words, ("whole", "merge"))
    reader = DocumentReader(tokenizer, words=words, of_words=labels.of_words)
    window = reader.row("tokens", np.array(head.token_ids, dtype=np.int64))
    return np.array(_kinds_for(window, labels, head.query_position))[list(head.positions)]


def _norm_of_sum(keys: Tensor, values: Tensor, log_weights: Tensor, scale: float) -> float:
    """Return ``|sum_i w_i v_i phi(k_i)^T|`` (Frobenius): its square is ``sum_ij w_i w_j v_i.v_j K(k_i, k_j)``."""
    if len(keys) == 0:
        return 0.0
    exponents = log_weights[:, None] + log_weights[None, :] + scale * keys @ keys.T
    top = exponents.max()
    square = ((exponents - top).exp() * (values @ values.T)).sum().clamp(min=0)
    return float(square.sqrt() * (top / 2).exp())


def _kinds_for(window: Window, labels: TopicLabels, query: int) -> list[int]:
    """Return [pos] the class, as an index into CLASSES, of each token for a query at one position."""
    pairs = classify(window, labels)
    word_at = np.full(len(window), -1)
    for number, (start, stop) in enumerate(zip(window.starts.tolist(), window.stops.tolist(), strict=True)):
        word_at[start:stop] = number
    kinds = np.full(len(window), PAIR_CLASSES.index("no_topic"))
    if word_at[query] >= 0:
        of_word = word_at >= 0
        kinds[of_word] = pairs.classes[word_at[query], word_at[of_word]]
    kinds[window.is_special] = CLASSES.index("special")
    return kinds.tolist()
