"""Do p-values and intervals say what they claim? Over many simulated corpora of 20 to 500 words a document.

Seeds are fixed, so the outcome is always the same; ``LEVEL`` says how rarely a right method would have been refused at
the first try. Heads of one corpus share its documents, so they are few and corpora many.
"""

from __future__ import annotations

import pytest
from scipy.stats import binomtest, kstest

from calibrations import CASES, ESTIMATORS, N_CORPORA, N_NULL_HEADS, N_PERMUTATIONS, TRUTH, coverage, null
from topic_probes.statistics._p_values import q_values

pytestmark = pytest.mark.slow

LEVEL = 1e-3


@pytest.mark.parametrize(("kind", "estimator"), CASES)
def test_p_values_of_heads_without_topics_are_uniform(kind: str, estimator: str) -> None:
    p = null(kind).p[estimator].ravel()
    assert p.size == N_CORPORA * N_NULL_HEADS
    assert kstest(p, "uniform").pvalue > LEVEL
    assert binomtest(int((p <= 0.05).sum()), p.size, 0.05).pvalue > LEVEL


@pytest.mark.parametrize(("kind", "estimator"), CASES)
def test_no_head_is_found_where_there_is_none(kind: str, estimator: str) -> None:
    """Benjamini-Hochberg at 5 %: nothing is rejected in at least 95 % of the corpora, up to chance."""
    found = [bool((q_values(p[None]) <= 0.05).any()) for p in null(kind).p[estimator]]
    assert N_NULL_HEADS / (N_PERMUTATIONS + 1) <= 0.05, "else nothing can ever be rejected"
    assert binomtest(sum(found), N_CORPORA, 0.05, alternative="greater").pvalue > LEVEL


def test_differences_without_their_error_would_find_heads_where_there_are_none() -> None:
    """Why the statistic is studentised: plain, it is wrong both ways, far beyond chance."""
    too_many = null("documents and key words differ").plain["pooled"].ravel() <= 0.05
    too_few = null("independent noise").plain["pooled"].ravel() <= 0.05
    assert too_many.mean() > 0.15
    assert too_few.mean() < 0.03
    for found in (too_many, too_few):
        assert binomtest(int(found.sum()), found.size, 0.05).pvalue < LEVEL


def test_distance_alone_is_found_by_those_who_do_not_match_it() -> None:
    """The third kind of head: clustered topics make it significant, rightly for what pooled asks, unless matched."""
    p = null("near words over clustered topics").p
    for estimator in ("pooled", "within_document"):
        assert (p[estimator] <= 0.05).mean() > 0.8


# Intervals.

FEW, MANY = (30, 60, 12, ("t", "percentile", "bca")), (1000, 6, 60, ("t",))
"""Documents, corpora, heads in each, methods."""


@pytest.mark.parametrize("measure", list(TRUTH))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_intervals_cover_the_truth_with_many_documents(estimator: str, measure: str) -> None:
    """1000 documents: 95 % of the intervals, up to chance on either side."""
    covered = coverage(*MANY)[estimator, measure, "t"]
    assert binomtest(covered, MANY[1] * MANY[2], 0.95).pvalue > LEVEL


@pytest.mark.parametrize("measure", list(TRUTH))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_intervals_nearly_cover_the_truth_with_few_documents(estimator: str, measure: str) -> None:
    """30 documents: 95 % up to chance, and never fewer than 92 %, of the intervals of 720 heads."""
    covered, n = coverage(*FEW)[estimator, measure, "t"], FEW[1] * FEW[2]
    assert binomtest(covered, n, 0.95).pvalue > LEVEL
    assert 0.92 <= covered / n <= 0.985


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_bootstrap_falls_short_with_few_documents(method: str) -> None:
    """Why ``t`` is the default: with 720 heads, both bootstraps hold the ratio less often than 95 %, beyond chance."""
    for estimator in ESTIMATORS:
        covered, n = coverage(*FEW)[estimator, "ratio", method], FEW[1] * FEW[2]
        assert binomtest(covered, n, 0.95, alternative="less").pvalue < LEVEL
