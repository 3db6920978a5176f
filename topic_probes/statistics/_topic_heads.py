"""Heads that attend to the topic of their query, with the evidence."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._html import html_table
from .._validation import require_fraction
from ._attention_result import AttentionResult

if TYPE_CHECKING:
    import pandas as pd


_BY_CHANCE = 0.05
"""Above this probability, that heads without topics lie above all permutations is no reason to ask for more of them."""


class TopicHead(NamedTuple):
    """One head and the evidence that it follows topics."""

    layer: int
    head: int
    ratio: float
    ratio_low: float
    ratio_high: float
    p_value: float
    q_value: float
    stack: str = ""

    def _repr_html_(self) -> str:
        """Return the evidence as one row, for a notebook."""
        import pandas as pd

        place = f"{self.stack} layer {self.layer}".strip()
        columns = ["ratio", "ratio_low", "ratio_high", "p_value", "q_value"]
        return html_table(pd.DataFrame([self._asdict()])[columns], f"TopicHead({place}, head {self.head})")


def topic_heads(
    result: AttentionResult,
    *,
    q: float = 0.05,
    min_ratio: float = 1.0,
    estimator: str = "distance_matched",
    level: float = 0.95,
) -> list[TopicHead]:
    """Return the heads whose same-topic attention is larger than chance, largest ratio first.

    With R permutations no p-value is below 1 / (R + 1). Of H heads, k at that floor are found only if
    ``R + 1 >= H / (k q)``: with 200 permutations and 72 heads at q = 0.05, eight or more. Where heads are missed for
    that reason alone, a warning says how many permutations would find them.

    Args:
        result: of :func:`topic_probes.probe` or :func:`topic_probes.attach`, with permutations.
        q: false discovery rate: the expected share of wrong heads among those returned.
        min_ratio: heads with a smaller ratio are left out, however certain; 1.1 for one tenth above chance.
        estimator: ``"distance_matched"`` asks whether it is topics and not distance or the mix of documents.
        level: of the intervals given along.

    Raises:
        ValueError: if the result has no permutations, or an argument is outside its range.
    """
    require_fraction("q", q)
    if not min_ratio >= 0:
        raise ValueError(f"min_ratio must not be negative, got {min_ratio!r}")
    if result.n_permutations == 0:
        raise ValueError("topic heads are found by p-values, and this result has none: measure with n_permutations=200")
    frame: Any = result.to_frame(estimator, level=level)
    wanted = permutations_wanted(frame, result.n_permutations, q)
    if wanted is not None:
        warnings.warn(
            f"{result.n_permutations} permutations are too few at q = {q:g}: heads are left out that no permutation "
            f"reaches; measure with n_permutations={wanted} or more",
            stacklevel=2,
        )
    found = frame[(frame["q_value"] <= q) & (frame["ratio"] >= min_ratio)].sort_values("ratio", ascending=False)
    return [
        TopicHead(
            layer=int(row["layer"]),
            head=int(row["head"]),
            ratio=float(row["ratio"]),
            ratio_low=float(row["ratio_low"]),
            ratio_high=float(row["ratio_high"]),
            p_value=float(row["p_value"]),
            q_value=float(row["q_value"]),
            stack=str(row.get("stack", "")),
        )
        for row in found.to_dict("records")
    ]


def permutations_wanted(heads: pd.DataFrame, n_permutations: int, q: float = 0.05) -> int | None:
    """Return with how many permutations every head that none of them reached could be found; None if all these are.

    Also None where so many heads above all permutations are no more than chance makes of heads without topics.

    Args:
        heads: one row per head, with ``p_value`` and ``q_value``.
        n_permutations: behind these.
        q: false discovery rate.

    Examples:
        >>> import pandas as pd
        >>> heads = pd.DataFrame({"p_value": [1 / 61] * 2 + [0.5] * 6, "q_value": [4 / 61] * 2 + [0.5] * 6})
        >>> permutations_wanted(heads, 60, q=0.05)  # p = 1 / 80 is the largest with q = 8 p / 2 <= 0.05
        79
        >>> permutations_wanted(heads, 60, q=0.1) is None
        True
        >>> permutations_wanted(heads[1:], 60, q=0.05) is None  # one of seven is there by chance in 11 %
        True
    """
    if not n_permutations:
        return None
    p_values, q_values = (np.asarray(heads[name], dtype=np.float64) for name in ("p_value", "q_value"))
    smallest = p_values <= (1 + 1e-9) / (n_permutations + 1)
    if not smallest.any() or (q_values[smallest] <= q).all():
        return None
    from scipy.stats import binom

    n_heads, n_smallest = int(np.isfinite(p_values).sum()), int(smallest.sum())
    if binom.sf(n_smallest - 1, n_heads, 1 / (n_permutations + 1)) > _BY_CHANCE:
        return None
    return math.ceil(n_heads / (n_smallest * q)) - 1
