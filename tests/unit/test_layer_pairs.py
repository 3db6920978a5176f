"""Sums of similarities by layer: by hand, and against all values at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from topic_probes import EmbeddingResult, TopicLabels, probe_embedding
from topic_probes.statistics._contextual import LayerPairs
from topic_probes.statistics._vector_pairs import MEASURES


def one_row(same: list[float], cross: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, sums and squared deviations of a row whose measures all have these values."""
    numbers = [
        (len(values), sum(values), sum((value - sum(values) / len(values)) ** 2 for value in values))
        for values in (same, cross)
    ]
    counts, sums, squares = (np.tile(np.array(part, dtype=float), (3, 1)) for part in zip(*numbers, strict=True))
    return counts.astype(np.int64), sums, squares


def filled(rows: list[tuple[int, list[float], list[float]]], layers: tuple[int, ...] = (0,)) -> LayerPairs:
    """Sums of rows (group, same-topic values, cross-topic values), alike at every layer."""
    pairs = LayerPairs.empty(layers)
    for group, same, cross in rows:
        for layer in layers:
            pairs.update(layer, group, *one_row(same, cross))
        pairs.add_row(group, 4)
    return pairs


def result_of(pairs: LayerPairs, **options: str) -> EmbeddingResult:
    return EmbeddingResult(pairs, None, "made by hand", 4, options, {"n_documents": int(pairs.n_rows.sum())})


def test_by_hand() -> None:
    """Two rows; the pooled difference mixes what the rows differ in, the one within rows does not."""
    pairs = filled([(0, [1.0, 3.0], [1.0]), (1, [10.0], [9.0, 9.0, 9.0])])
    assert pairs.n_pairs[0, 0].tolist() == [3, 4]
    assert pairs.mean[0, 0].tolist() == pytest.approx([14 / 3, 7.0])
    assert pairs.std[0, 0].tolist() == pytest.approx([np.std([1, 3, 10]), np.std([1, 9, 9, 9])])
    assert result_of(pairs).difference("dot")[0] == pytest.approx(14 / 3 - 7)
    # Weights 2*1/3 and 1*3/4; means 2 and 1, 10 and 9.
    weights = 2 / 3, 3 / 4
    expected = [(weights[0] * one + weights[1] * other) / sum(weights) for one, other in ((2, 10), (1, 9))]
    assert pairs.means("within_document")[0, 0].tolist() == pytest.approx(expected)
    assert result_of(pairs).difference("dot", "within_document")[0] == pytest.approx(1.0)
    assert result_of(pairs).to_frame("within_document")["mean"].tolist() == pytest.approx(expected * 3)


def test_a_row_of_one_class_has_no_say_within_documents() -> None:
    pairs = filled([(0, [1.0], [0.5]), (1, [100.0, 50.0], [])])
    assert pairs.means("within_document")[0].tolist() == [[1.0, 0.5]] * 3
    assert np.isnan(filled([(0, [1.0], [])]).means("within_document")).all()


def test_an_empty_class_is_nan_and_its_count_says_zero() -> None:
    frame = result_of(filled([(0, [1.0], [])])).to_frame().query("pair_class == 'cross_topic'")
    assert frame["mean"].isna().all()
    assert frame["std"].isna().all()
    assert (frame["n_pairs"] == 0).all()


def test_a_class_that_does_not_vary_has_no_spread() -> None:
    """Exactly, however large the values and however many the rows."""
    pairs = filled([(group, [1e8 + 0.5] * 3, [0.25]) for group in range(20)])
    assert pairs.std[0, 0].tolist() == [0.0, 0.0]


def test_intervals_hold_the_mean_and_need_eight_groups() -> None:
    generator = np.random.default_rng(0)
    rows = [
        (group, (0.4 + 0.1 * generator.normal(size=6)).tolist(), (0.1 * generator.normal(size=9)).tolist())
        for group in range(40)
    ]
    result = result_of(filled(rows, layers=(-1, 0)))
    for estimator in ("pooled", "within_document"):
        frame = result.to_frame(estimator)
        assert ((frame["low"] < frame["mean"]) & (frame["mean"] < frame["high"])).all()
        wide = result.to_frame(estimator, level=0.99)
        assert ((wide["low"] < frame["low"]) & (frame["high"] < wide["high"])).all()
    table = result.difference_frame()
    for name in ("difference", "within_document"):
        assert (table[f"{name}_low"] < table[name]).all()
        assert (table[name] < table[f"{name}_high"]).all()
    for rows_used, known in ((rows[:8], True), (rows[:7], False)):
        few = result_of(filled(rows_used)).to_frame()[["low", "high"]]
        assert few.notna().all(axis=None) == known
        assert few.isna().all(axis=None) == (not known)


def test_intervals_are_students_where_every_group_counts_alike() -> None:
    """Groups of one row with as many pairs: scipy's interval of a mean, and of paired means for the difference."""
    from scipy.stats import t, ttest_rel

    generator = np.random.default_rng(1)
    same, cross = generator.normal(size=(12, 5)), generator.normal(size=(12, 3))
    rows = [(group, one.tolist(), other.tolist()) for group, (one, other) in enumerate(zip(same, cross, strict=True))]
    result = result_of(filled(rows))
    for estimator in ("pooled", "within_document"):
        frame = result.to_frame(estimator, level=0.9)
        for row, values in zip(frame.head(2).itertuples(), (same.mean(axis=1), cross.mean(axis=1)), strict=True):
            error = values.std(ddof=1) / np.sqrt(12)
            assert (row.low, row.high) == pytest.approx(t.interval(0.9, 11, values.mean(), error))
    paired = ttest_rel(same.mean(axis=1), cross.mean(axis=1)).confidence_interval(0.9)
    table = result.difference_frame(level=0.9).iloc[0]
    for name in ("difference", "within_document"):
        assert (table[f"{name}_low"], table[f"{name}_high"]) == pytest.approx(tuple(paired))


@pytest.mark.parametrize("estimator", ["pooled", "within_document"])
def test_intervals_hold_the_truth_as_often_as_they_say(estimator: str) -> None:
    """Of 400 results over 15 documents of unequal size, none but the odd one in twenty misses it (binomial test)."""
    from scipy.stats import binomtest

    generator = np.random.default_rng(2)
    n_held, sizes = 0, np.arange(15) % 4 + 2
    for _ in range(400):
        pairs = LayerPairs.empty((0,), n_groups=len(sizes))
        for group, (n, effect) in enumerate(zip(sizes, generator.normal(size=len(sizes)), strict=True)):
            pairs.update(0, group, *one_row([effect + 1.0] * int(n), [0.0] * int(n)))
            pairs.add_row(group, 4)
        _, ends = pairs.intervals(estimator, 0.95, seed=0)
        n_held += bool(ends.low[0, 0] < 1.0 < ends.high[0, 0])
    assert binomtest(n_held, 400, 0.95).pvalue > 0.001


def test_groups_without_both_classes_make_no_interval_within_documents() -> None:
    """Eight groups have pairs of either class, and only seven a row with both."""
    rows: list[tuple[int, list[float], list[float]]] = [(group, [1.0 + group], [0.5]) for group in range(7)]
    rows += [(7, [1.0], []), (7, [], [0.5])]
    result = result_of(filled(rows))
    assert result.to_frame()["low"].notna().all()
    assert result.to_frame("within_document")["low"].isna().all()


def test_the_method_of_intervals_can_be_chosen() -> None:
    """Percentiles of draws are narrower with few documents, and depend on the seed."""
    rows: list[tuple[int, list[float], list[float]]] = [(group, [float(group**2)], [0.5]) for group in range(9)]
    by_t, drawn = (result_of(filled(rows)).to_frame(method=method) for method in ("t", "percentile"))
    assert (drawn["high"] - drawn["low"])[0] < (by_t["high"] - by_t["low"])[0]
    table = result_of(filled(rows)).difference_frame(method="percentile")
    assert table["difference_low"].tolist() == pytest.approx((drawn["low"][::2] - 0.5).tolist())
    with pytest.raises(ValueError, match="method must be one of"):
        result_of(filled(rows)).to_frame(method="guess")


def test_frames_have_these_columns_and_rows() -> None:
    result = result_of(filled([(0, [1.0], [0.5])], layers=(-1, 0, 1)))
    frame, table = result.to_frame(), result.difference_frame()
    assert list(frame) == ["layer", "measure", "pair_class", "mean", "std", "n_pairs", "low", "high"]
    assert frame["layer"].tolist() == [-1] * 6 + [0] * 6 + [1] * 6
    assert table["layer"].tolist() == [-1] * 3 + [0] * 3 + [1] * 3
    assert table["measure"].tolist() == list(MEASURES) * 3
    assert result.difference("dot").tolist() == [0.5] * 3
    assert result.layers == (-1, 0, 1)
    assert "3 layers, 1 rows" in repr(result)


def test_sums_of_other_layers_do_not_merge() -> None:
    with pytest.raises(ValueError, match=r"same layers .* got layers \(0,\) and layers \(1,\)"):
        filled([(0, [1.0], [2.0])]).merge(filled([(0, [1.0], [2.0])], layers=(1,)))


# --------------------------------------------------------------- the result of a plain matrix


def plain(seed: int = 0) -> EmbeddingResult:
    matrix = np.random.default_rng(seed).normal(size=(9, 4))
    return probe_embedding(matrix, TopicLabels.from_dict({token: token % 2 for token in range(9)}))


def test_a_matrix_has_no_layers_and_stays_as_it_was(tmp_path: Path) -> None:
    result = plain()
    assert result.layers is None
    assert list(result.to_frame()) == ["measure", "pair_class", "mean", "std", "n_pairs"]
    assert isinstance(result.difference(), float)
    with pytest.raises(ValueError, match="needs a result with layers"):
        result.difference_frame()
    with pytest.raises(ValueError, match="estimator='within_document' needs documents"):
        result.to_frame("within_document")
    result.save(tmp_path / "result")
    back = EmbeddingResult.load(tmp_path / "result")
    assert back.to_frame().equals(result.to_frame())
    np.testing.assert_array_equal(back.topic_similarity, result.topic_similarity)


def test_a_matrix_merges_with_itself_alone() -> None:
    """It does not depend on a corpus."""
    assert plain().merge(plain()).to_frame().equals(plain().to_frame())
    with pytest.raises(ValueError, match="same matrix can be merged"):
        plain().merge(plain(1))
    with pytest.raises(ValueError, match="measured alike can be merged"):
        plain().merge(result_of(filled([(0, [1.0], [2.0])])))
