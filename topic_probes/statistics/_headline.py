"""A row like those of Li et al. (2023): a model in a few numbers, its means over layers and heads, and their ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._html import html_table
from ._by_group import ByGroup, contrast, in_use, interval_of_means

HEADLINE_COLUMNS = ("estimator", "same_topic", "cross_topic", "ratio", "ratio_low", "ratio_high", "n_documents")
"""What a notebook shows of a headline."""


@dataclass(frozen=True)
class Headline:
    """A row like those of Li et al. (2023): a model's mean over its layers and heads, those of all its stacks."""

    same_topic: float
    """Mean over heads of same-topic attention, uniform = 1."""
    cross_topic: float
    """Mean over heads of cross-topic attention, uniform = 1."""
    ratio: float
    """``same_topic / cross_topic``."""
    ratio_low: float
    ratio_high: float
    """Interval of the ratio over documents (not over heads)."""
    difference: float
    """``same_topic - cross_topic``."""
    difference_low: float
    difference_high: float
    """Its interval."""
    same_topic_low: float
    same_topic_high: float
    cross_topic_low: float
    cross_topic_high: float
    """Intervals of the two means."""
    level: float
    """Confidence level of the intervals."""
    method: str
    """How they were made."""
    n_documents: int
    n_groups: int
    """Groups of documents behind the intervals, of the class that fewer have; below 8 there are no intervals (NaN)."""
    n_same_topic: int
    n_cross_topic: int
    """Numbers of ordered pairs, as in :attr:`AttentionResult.pair_counts`."""
    estimator: str

    @classmethod
    def of(
        cls,
        sums: ByGroup,
        *,
        estimator: str,
        n_documents: int,
        pair_counts: Mapping[str, int],
        level: float,
        method: str,
        n_resamples: int,
        seed: int,
    ) -> Headline:
        """Return the headline of a model's sums.

        Args:
            sums: by group of documents, of one estimator.
            estimator: which one.
            n_documents: documents behind them.
            pair_counts: pair class -> number of pairs.
            level: of the intervals.
            method: of the intervals.
            n_resamples: draws of the bootstrap.
            seed: of the draws.
        """
        used = in_use(sums)
        found: dict[str, float] = {}
        for measure in ("same_topic", "cross_topic", "ratio", "difference"):
            ends = interval_of_means(
                used,
                used.model_means,
                measure,
                level=level,
                method=method,
                n_resamples=n_resamples,
                seed=seed,
                of_ratio=measure != "difference",  # means are positive: theirs are of the logarithm, too
            )
            found[measure] = float(contrast(used.model_means, measure)(np.ones((1, used.n_groups)))[0])
            found[f"{measure}_low"], found[f"{measure}_high"] = float(ends.low), float(ends.high)
        return cls(
            **found,
            level=level,
            method=method,
            n_documents=n_documents,
            n_groups=used.n_informative_groups,
            n_same_topic=pair_counts["same_topic"],
            n_cross_topic=pair_counts["cross_topic"],
            estimator=estimator,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return the numbers of the row, for a notebook."""
        import pandas as pd

        row = pd.DataFrame([self.to_dict()])[list(HEADLINE_COLUMNS)]
        return html_table(row, f"Headline: means over layers and heads, uniform = 1, {100 * self.level:g} % interval")
