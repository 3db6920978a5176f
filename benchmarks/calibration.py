"""Calibration: do intervals of 95 % hold the truth 95 times in a hundred, and are p-values uniform where nothing is?

By simulation, with the heads of tests/simulated_heads.py: not a time but a probability, so it is the same on any
machine. It makes the tables and the picture of docs/statistics.md (some ten minutes); the slow tests run fewer corpora
of the same kind. The picture is written to ``benchmarks/output/calibration.png``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from topic_probes.statistics._p_values import q_values

CORPORA = {30: (200, 12), 100: (40, 12), 1000: (8, 60)}
"""Documents -> corpora, and heads in each."""
METHODS = ("t", "percentile", "bca")
OUTPUT = Path(__file__).resolve().parent / "output"


def run() -> dict[str, Any]:
    """Return the coverage of intervals, and how often p <= 0.05 and q <= 0.05 without topics; draw both."""
    simulations = _simulations()
    found: dict[str, Any] = {}
    covered: dict[tuple[int, str, str], float] = {}
    for n_documents, (n_corpora, n_heads) in CORPORA.items():
        counts = simulations.coverage(n_documents, n_corpora, n_heads, METHODS)
        for method in METHODS:
            for estimator in simulations.ESTIMATORS:
                shares = [counts[estimator, measure, method] / (n_corpora * n_heads) for measure in simulations.TRUTH]
                found[f"covered_{n_documents}_{method}_{estimator}"] = [round(share, 3) for share in shares]
                covered[n_documents, method, estimator] = shares[0]
    for kind, estimator in simulations.CASES:
        null, name = simulations.null(kind), f"{kind.replace(' ', '_')}_{estimator}"
        for way, p in (("plain", null.plain[estimator]), ("studentised", null.p[estimator])):
            found[f"{way}_{name}"] = round(float((p <= 0.05).mean()), 3)
            found[f"{way}_corpora_{name}"] = sum(bool((q_values(one[None]) <= 0.05).any()) for one in p)
    _draw(covered, simulations)
    return found


def _draw(covered: dict[tuple[int, str, str], float], simulations: Any) -> None:
    """Draw coverage by number of documents, and the distribution of p-values of heads without topics."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    colours = dict(zip(METHODS, ("#0072B2", "#E69F00", "#CC79A7"), strict=True))
    styles = dict(zip(simulations.ESTIMATORS, ("-", "--", ":"), strict=True))
    for method in METHODS:
        for estimator, line in styles.items():
            left.plot(
                list(CORPORA),
                [covered[n, method, estimator] for n in CORPORA],
                color=colours[method],
                linestyle=line,
                marker="o",
                markersize=4,
                label=f"{method}, {estimator.replace('_', ' ')}",
            )
    left.axhline(0.95, color="0.3", linewidth=1)
    left.set(xscale="log", xlabel="documents", ylabel="intervals of 95 % that hold the true ratio", ylim=(0.8, 1.0))
    left.set_xticks(list(CORPORA), [f"{n:,}" for n in CORPORA])
    left.minorticks_off()
    left.legend(frameon=False, fontsize=7, ncols=1, loc="lower right")
    for kind, estimator in simulations.CASES:
        null = simulations.null(kind)
        for p, colour, name in (
            (null.plain[estimator], "#D55E00", "plain difference"),
            (null.p[estimator], "#0072B2", "studentised"),
        ):
            values = np.sort(p.ravel())
            first = (kind, estimator) == simulations.CASES[0]
            right.step(
                values, np.arange(1, len(values) + 1) / len(values), color=colour, linewidth=1, alpha=0.8,
                label=name if first else None,
            )  # fmt: skip
    right.plot([0, 1], [0, 1], color="0.3", linewidth=1)
    right.set(xlabel="p-value of heads without topics", ylabel="share of p-values up to that", xlim=(0, 1), ylim=(0, 1))
    right.legend(frameon=False, fontsize=8, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    OUTPUT.mkdir(exist_ok=True)
    figure.savefig(OUTPUT / "calibration.png", dpi=150)
    plt.close(figure)


def _simulations() -> Any:
    tests = str(Path(__file__).resolve().parents[1] / "tests")
    if tests not in sys.path:
        sys.path.insert(0, tests)
    return importlib.import_module("calibrations")
