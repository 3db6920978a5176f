"""p- and q-values, topic heads, comparisons and tables of an attention result, by hand and against scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from topic_probes import AttentionComparison, AttentionResult, TopicHead, topic_heads
from topic_probes._axes import Site
from topic_probes.statistics._p_values import q_values
from topic_probes.statistics._strata import DISTANCE_EDGES, ESTIMATORS
from topic_probes.statistics._sums import COLUMNS, N_NULL_GROUPS, AttentionSums, topical_columns

N_GROUPS_USED, N_PERMUTATIONS = 48, 99


def result(
    effects: tuple[float, ...] = (0.0, 0.0), *, seed: int = 0, stack: str = "", **options: object
) -> AttentionResult:
    """One layer, a head for each effect: groups of 50 same- and 70 cross-topic pairs, noise of 5 % a group."""
    numbers = np.random.default_rng(seed)
    sites = (Site(stack, 4),)
    totals = AttentionSums.empty(sites, len(effects), n_permutations=N_PERMUTATIONS, n_topics=3)
    for estimator in ESTIMATORS:
        same, cross = topical_columns(estimator)
        column = 2 * ESTIMATORS.index(estimator)
        for group in range(N_GROUPS_USED):
            totals.counts[0, group, [same, cross]] = 50, 70
            totals.sums[0, :, group, same] = 50 * (1 + np.array(effects) + numbers.normal(0, 0.05, len(effects)))
            totals.sums[0, :, group, cross] = 70 * (1 + numbers.normal(0, 0.05, len(effects)))
            for permutation in range(N_PERMUTATIONS):
                totals.null.weights[0, permutation, group % N_NULL_GROUPS, [column, column + 1]] += 50, 70
                noise = numbers.normal(0, 0.05, (len(effects), 2))
                totals.null.values[0, :, permutation, group % N_NULL_GROUPS, column] += 50 * (1 + noise[:, 0])
                totals.null.values[0, :, permutation, group % N_NULL_GROUPS, column + 1] += 70 * (1 + noise[:, 1])
    totals.n_rows[0, :N_GROUPS_USED] = 1
    known = {"words": "whole", "labels": "abc", "word_counts": "counts", **options}
    return AttentionResult(totals, {"n_documents": N_GROUPS_USED}, {4: "causal"}, (), known, seed=3)


def test_a_real_effect_has_the_smallest_p_value_and_an_opposite_one_the_largest() -> None:
    """One-sided: k of 99 permutations reach the observed statistic, p = (k + 1) / 100."""
    p = result((0.5, -0.5)).p_values()
    assert p[0, 0] == pytest.approx(1 / 100)
    assert p[0, 1] == 1.0


def test_p_values_are_counted_from_studentised_differences() -> None:
    """Loops: the difference over its jackknife error, of the 16 groups that permutations are kept in."""
    one = result((0.01, 0.02, -0.01))
    same, cross = topical_columns("pooled")

    def statistic(sums: np.ndarray, weights: np.ndarray) -> float:
        """``sums`` and ``weights`` are [group, 2]."""

        def difference(kept: list[int]) -> float:
            total, weight = sums[kept].sum(axis=0), weights[kept].sum(axis=0)
            return total[0] / weight[0] - total[1] / weight[1]

        everything = list(range(len(sums)))
        without = [difference([other for other in everything if other != left]) for left in everything]
        n = len(without)
        return difference(everything) / np.sqrt((n - 1) / n * sum((value - np.mean(without)) ** 2 for value in without))

    def regroup(by_group: np.ndarray) -> np.ndarray:
        return np.array([by_group[group::N_NULL_GROUPS].sum(axis=0) for group in range(N_NULL_GROUPS)])

    for head in range(3):
        observed = statistic(
            regroup(one.totals.sums[0, head][:, [same, cross]]), regroup(one.totals.counts[0][:, [same, cross]])
        )
        null = [
            statistic(one.totals.null.values[0, head, number, :, :2], one.totals.null.weights[0, number, :, :2])
            for number in range(N_PERMUTATIONS)
        ]
        expected = (sum(value >= observed for value in null) + 1) / (N_PERMUTATIONS + 1)
        assert one.p_values()[0, head] == pytest.approx(expected)


def test_q_values_are_those_of_benjamini_and_hochberg() -> None:
    """By hand: of p = 0.01, 0.02, 0.9 the q are 0.03, 0.03, 0.9; heads without a p-value take no part."""
    q = q_values(np.array([[0.02, np.nan], [0.9, 0.01]]))
    np.testing.assert_allclose(q, [[0.03, np.nan], [0.9, 0.03]])
    p = np.random.default_rng(0).uniform(size=(6, 7))
    np.testing.assert_allclose(q_values(p).ravel(), scipy.stats.false_discovery_control(p.ravel()))


def test_without_permutations_there_are_no_p_values() -> None:
    one = result()
    none = AttentionSums.empty(one.totals.sites, 2)
    bare = replace(one, totals=replace(one.totals, null=none.null))
    assert np.isnan(bare.p_values()).all()
    assert bare.to_frame()[["p_value", "q_value"]].isna().all(axis=None)
    with pytest.raises(ValueError, match="n_permutations=200"):
        topic_heads(bare)


def test_topic_heads_come_with_their_evidence_largest_ratio_first() -> None:
    found = topic_heads(result((0.0, 0.3, 0.6, 0.0, 0.02)), q=0.05, min_ratio=1.1)
    assert [(head.layer, head.head) for head in found] == [(4, 2), (4, 1)]
    assert all(isinstance(head, TopicHead) for head in found)
    assert found[0].ratio == pytest.approx(1.6, abs=0.06)
    assert found[0].ratio_low < found[0].ratio < found[0].ratio_high
    assert found[0].q_value <= 0.05


def test_a_small_ratio_is_left_out_however_certain() -> None:
    one = result((0.3, 0.6))
    assert len(topic_heads(one, min_ratio=1.0)) == 2
    assert len(topic_heads(one, min_ratio=1.5)) == 1
    with pytest.warns(UserWarning, match="n_permutations=999 or more"):
        assert topic_heads(one, q=0.001) == []
    with pytest.raises(ValueError, match="min_ratio must not be negative"):
        topic_heads(one, min_ratio=-1.0)
    with pytest.raises(ValueError, match="q must be in"):
        topic_heads(one, q=5.0)


def test_too_few_permutations_are_told_with_the_number_that_is_enough() -> None:
    """Of twelve heads two are real: 99 permutations give them p = 0.01 and q = 0.06. With 119 it could be 0.05."""
    one = result((0.6, 0.6, *[0.0] * 10), seed=5)
    assert one.to_frame("distance_matched")["p_value"].nsmallest(3).tolist()[2] > 0.02  # nothing else near the floor
    with pytest.warns(UserWarning, match="measure with n_permutations=119 or more"):
        assert topic_heads(one, q=0.05) == []
    assert len(topic_heads(one, q=0.06)) == 2  # and no warning, which would be an error here


def test_a_head_that_is_above_all_permutations_by_chance_asks_for_no_more() -> None:
    """One of twelve heads without topics is there in 11 % of cases."""
    one = result((0.6, *[0.0] * 11), seed=5)
    assert one.to_frame("distance_matched")["p_value"].min() == pytest.approx(0.01)
    assert topic_heads(one, q=0.05) == []


def test_topic_heads_of_stacks_say_which() -> None:
    (head,) = topic_heads(result((0.5,), stack="cross"))
    assert head.stack == "cross"


def test_frequency_matching_needs_counts() -> None:
    with pytest.raises(ValueError, match=r"word_counts=topic_probes\.corpora\.word_counts\(corpus\)"):
        result(word_counts=None).to_frame("frequency_matched")
    assert result(word_counts=None).estimators == ESTIMATORS[:-1]
    assert result().to_frame("frequency_matched")["ratio"].notna().all()


def test_a_minus_b_is_the_difference_of_the_differences_paired_by_group() -> None:
    """What both share by document leaves no trace in the interval."""
    a, b = result((0.4, 0.1), seed=1), result((0.0, 0.1), seed=2)
    shared = np.random.default_rng(3).normal(0, 0.5, N_GROUPS_USED)
    same = COLUMNS.index("same_topic")
    for one in (a, b):
        one.totals.sums[0, :, :N_GROUPS_USED, same] += 50 * shared
    comparison = a - b
    assert isinstance(comparison, AttentionComparison)
    frame = comparison.to_frame()
    expected = a.to_frame()["difference"] - b.to_frame()["difference"]
    np.testing.assert_allclose(frame["difference"], expected, rtol=1e-12)
    np.testing.assert_allclose(frame["ratio"], a.to_frame()["ratio"] / b.to_frame()["ratio"], rtol=1e-12)
    assert (frame["difference_low"] < frame["difference"]).all()
    assert (frame["difference"] < frame["difference_high"]).all()
    paired = frame["difference_high"] - frame["difference_low"]
    unpaired = a.to_frame()["difference_high"] - a.to_frame()["difference_low"]
    assert (paired < 0.5 * unpaired).all()
    assert frame.loc[0, "difference_low"] > 0.3
    headline = comparison.headline()
    assert headline["difference"] == pytest.approx(expected.mean(), rel=1e-9)
    assert headline["difference_low"] < headline["difference"] < headline["difference_high"]


def test_a_result_minus_itself_is_nothing() -> None:
    frame = (result((0.2, 0.3)) - result((0.2, 0.3))).to_frame()
    np.testing.assert_allclose(frame[["difference", "difference_low", "difference_high"]], 0, atol=1e-15)
    np.testing.assert_allclose(frame[["ratio", "ratio_low", "ratio_high"]], 1, rtol=1e-12)


def test_only_like_results_on_one_corpus_are_compared() -> None:
    one = result()
    with pytest.raises(ValueError, match="same labels"):
        one - result(labels="other")
    with pytest.raises(ValueError, match="same layers and heads"):
        one - result((0.0,))
    other = result()
    other.totals.n_rows[0, 0] = 2
    with pytest.raises(ValueError, match="same corpus"):
        one - other
    with pytest.raises(TypeError, match="another AttentionResult"):
        one - 3


def test_layers_are_the_means_of_their_heads() -> None:
    one = result((0.2, 0.4, -0.1))
    (row,) = one.layer_frame("within_document").to_dict("records")
    heads = one.to_frame("within_document")
    assert row["layer"] == 4
    assert row["same_topic"] == pytest.approx(heads["same_topic"].mean(), rel=1e-12)
    assert row["ratio"] == pytest.approx(heads["same_topic"].mean() / heads["cross_topic"].mean(), rel=1e-12)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]


def test_distances_have_their_bounds_and_only_buckets_with_pairs() -> None:
    one = result()
    one.totals.curve.weights[0, [3, 40, len(DISTANCE_EDGES) + 3]] = 2, 5, 4
    one.totals.curve.values[0, 1, [3, 40, len(DISTANCE_EDGES) + 3]] = 3, 5, 2
    frame = one.distance_frame().query("head == 1")
    assert frame[["pair_class", "distance", "n_pairs", "mean"]].to_numpy().tolist() == [
        ["cross_topic", 3, 4, 0.5],
        ["same_topic", 3, 2, 1.5],
        ["same_topic", int(DISTANCE_EDGES[40]), 5, 1.0],
    ]
    assert frame["distance_high"].tolist() == [3, 3, int(DISTANCE_EDGES[41]) - 1]


def test_the_matrix_of_topics_is_asked_for_by_layer_and_head() -> None:
    one = result()
    one.totals.topics.weights[0] = [[2, 4, 0], [1, 0, 0], [0, 0, 1]]
    one.totals.topics.values[0, 0] = [[6, 4, 0], [1, 0, 0], [0, 0, 5]]
    matrix = one.topic_matrix(4, 0)
    np.testing.assert_array_equal(matrix, [[3, 1, np.nan], [1, np.nan, np.nan], [np.nan, np.nan, 5]])
    frame = one.topic_frame().query("head == 0").set_index("topic")
    assert frame.loc[0, ["same_topic", "other_topics", "dominance", "n_pairs"]].tolist() == [3, 1, 3, 2]
    assert frame.index.tolist() == [0, 2]
    assert np.isnan(frame.loc[2, "other_topics"])
    for layer, head, message in ((3, 0, "layer 3 was not measured"), (4, 9, r"head must be in \[0, 2\)")):
        with pytest.raises(ValueError, match=message):
            one.topic_matrix(layer, head)


def test_topics_that_were_not_kept_are_said_to_be_missing() -> None:
    one = result()
    none = AttentionSums.empty(one.totals.sites, 2)
    bare = replace(one, totals=replace(one.totals, topics=none.topics))
    with pytest.raises(ValueError, match="topic_matrices=True"):
        bare.topic_matrix(4, 0)
    with pytest.raises(ValueError, match="topic_matrices=True"):
        bare.topic_frame()
