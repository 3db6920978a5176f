"""Two results on the same corpus, document group by document group: checkpoints, or trained against untrained.

Both models read the same documents, so what a document does to both is taken away: groups of documents
are resampled together. Of every head: the difference of the differences, and the ratio of the ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._html import html_table
from .._validation import require_count, require_level, require_one_of
from ._attention_result import AttentionResult
from ._by_group import ByGroup, divide, in_use
from ._intervals import DEFAULT_METHOD, METHODS, MIN_GROUPS, N_RESAMPLES, ConfidenceInterval, Statistic, interval
from ._strata import ESTIMATORS
from ._tables import site_columns

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("difference", "ratio")


@dataclass(frozen=True, eq=False)
class AttentionComparison:
    """What ``a - b`` gives for two results: :meth:`to_frame` and :meth:`headline`."""

    one: AttentionResult
    other: AttentionResult

    def to_frame(
        self,
        estimator: str = "pooled",
        *,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
        n_resamples: int = N_RESAMPLES,
    ) -> pd.DataFrame:
        """Return one row per layer and head.

        Columns: ``layer head difference difference_low difference_high ratio ratio_low ratio_high``.
        ``difference`` is that of ``same_topic - cross_topic`` in the one less that in the other, in units of uniform
        attention; ``ratio`` is the ratio of the one divided by that of the other. Intervals are paired.
        """
        import pandas as pd

        one, other = self._paired(estimator, level, method, n_resamples)
        n_sites, n_heads, n_groups = one.same.shape
        columns = {}
        for measure in MEASURES:
            with np.errstate(divide="ignore", invalid="ignore"):
                centre = _compare(one.means, other.means, measure)(np.ones((1, n_groups)))[0]
            low, high = np.full((2, n_sites, n_heads), np.nan)
            for part in one.parts(n_resamples):
                of_one, of_other = _both_in_use(one.heads(part), other.heads(part))
                low[part], high[part] = self._interval(
                    of_one,
                    of_other,
                    _compare(of_one.means, of_other.means, measure),
                    of_ratio=measure == "ratio",
                    level=level,
                    method=method,
                    n_resamples=n_resamples,
                )
            columns |= {measure: centre, f"{measure}_low": low, f"{measure}_high": high}
        site, head = (axis.ravel() for axis in np.mgrid[:n_sites, :n_heads])
        return pd.DataFrame(
            {
                **site_columns(self.one.totals.sites, site),
                "head": head,
                **{name: values.ravel() for name, values in columns.items()},
            }
        )

    def headline(
        self,
        estimator: str = "pooled",
        *,
        level: float = 0.95,
        method: str = DEFAULT_METHOD,
        n_resamples: int = N_RESAMPLES,
    ) -> dict[str, float]:
        """Return the same of the models' means over layers and heads."""
        one, other = self._paired(estimator, level, method, n_resamples)
        found: dict[str, float] = {}
        for measure in MEASURES:
            statistic = _compare(one.model_means, other.model_means, measure)
            found[measure] = float(statistic(np.ones((1, one.n_groups)))[0])
            ends = self._interval(
                one,
                other,
                statistic,
                of_ratio=measure == "ratio",
                level=level,
                method=method,
                n_resamples=n_resamples,
            )
            found[f"{measure}_low"], found[f"{measure}_high"] = float(ends.low), float(ends.high)
        return found

    def _interval(
        self,
        one: ByGroup,
        other: ByGroup,
        statistic: Statistic,
        *,
        of_ratio: bool,
        level: float,
        method: str,
        n_resamples: int,
    ) -> ConfidenceInterval:
        """Return the interval of a statistic of both; NaN, for all of it, where either has too few groups."""
        if min(in_use(each).n_informative_groups for each in (one, other)) < MIN_GROUPS:
            return ConfidenceInterval(np.nan, np.nan)
        return interval(
            statistic,
            one.n_groups,
            level=level,
            method=method,
            n_resamples=n_resamples,
            seed=self.one.seed,
            of_ratio=of_ratio,
            shares=one.shares,
        )

    def _paired(self, estimator: str, level: float, method: str, n_resamples: int) -> tuple[ByGroup, ByGroup]:
        require_one_of("estimator", estimator, ESTIMATORS)
        require_level(level)
        require_one_of("method", method, METHODS)
        require_count("n_resamples", n_resamples)
        for result in (self.one, self.other):
            result._require(estimator)
        one, other = (ByGroup.of(result.totals, estimator) for result in (self.one, self.other))
        return _both_in_use(one, other)

    def _repr_html_(self) -> str:
        """Return the headline by every estimator that both have, for a notebook."""
        import pandas as pd

        common = [name for name in self.one.estimators if name in self.other.estimators]
        return html_table(pd.DataFrame([{"estimator": name, **self.headline(name)} for name in common]), repr(self))

    def __repr__(self) -> str:
        found = self.headline()
        names = [result.options.get("model", name) for result, name in ((self.one, "one"), (self.other, "other"))]
        if names[0] == names[1]:  # of one architecture: weights tell them apart
            weights = [result.options.get("weights", "") for result in (self.one, self.other)]
            names = [f"{name}, {which}" for name, which in zip(names, weights, strict=True)]
        return (
            f"AttentionComparison({names[0]} - {names[1]}: "
            f"difference {found['difference']:.3f} [{found['difference_low']:.3f}, {found['difference_high']:.3f}])"
        )


def compare(one: AttentionResult, other: Any) -> AttentionComparison:
    """Return the comparison of two results.

    Raises:
        TypeError: if ``other`` is not a result.
        ValueError: if they are of different layers, heads, labels, words or documents, or read these otherwise.
    """
    if not isinstance(other, AttentionResult):
        raise TypeError(f"only another AttentionResult can be compared with one, got {type(other).__name__}")
    if one.totals.sites != other.totals.sites or one.totals.sums.shape != other.totals.sums.shape:
        raise ValueError(
            f"only models of the same layers and heads can be compared head by head, got {one!r} and {other!r}"
        )
    for name in ("labels", "words"):
        if one.options.get(name) != other.options.get(name):
            raise ValueError(
                f"only results with the same {name} can be compared, got {one.options.get(name)!r} and "
                f"{other.options.get(name)!r}"
            )
    # Where both say it: `attach` reads what the caller's model is given, however long.
    for name in ("max_length", "long_documents", "word_counts"):
        ours, theirs = (result.options.get(name) for result in (one, other))
        if None not in (ours, theirs) and ours != theirs:
            raise ValueError(
                f"only results of documents read alike can be compared, got {name} {ours!r} and {theirs!r}: probe both "
                "with the same"
            )
    if not np.array_equal(one.totals.n_rows, other.totals.n_rows):
        raise ValueError(
            "only results on the same corpus can be compared, document by document: these two read other documents, "
            "cut them otherwise, or one read texts and the other token ids (as attach does): probe both in one way"
        )
    return AttentionComparison(one, other)


def _both_in_use(one: ByGroup, other: ByGroup) -> tuple[ByGroup, ByGroup]:
    """Return the groups that have a pair in either."""
    weights = one.same_weights + one.cross_weights + other.same_weights + other.cross_weights
    used = np.flatnonzero((weights > 0).any(axis=0))
    return one.only(used), other.only(used)


def _compare(one: Any, other: Any, measure: str) -> Statistic:
    def statistic(weights: np.ndarray) -> np.ndarray:
        (same, cross), (other_same, other_cross) = one(weights), other(weights)
        if measure == "ratio":
            return divide(divide(same, cross), divide(other_same, other_cross))
        return (same - cross) - (other_same - other_cross)

    return statistic
