"""Means, intervals, tables and files of an attention result, from sums written down by hand."""

from __future__ import annotations

import inspect
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from topic_probes import AttentionResult
from topic_probes.probes import ProbeReport
from topic_probes.statistics._sums import COLUMNS, N_GROUPS, AttentionSums, group_of

FRAME_COLUMNS = [
    *("layer", "head", "n_documents", "n_same_topic", "n_cross_topic", "same_topic", "cross_topic", "same_token"),
    *("no_topic", "difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high"),
    *("p_value", "q_value", "sink_mass"),
]
GENERATOR = "rng" if "rng" in inspect.signature(scipy.stats.bootstrap).parameters else "random_state"
"""scipy renamed the argument in 1.15."""
SAME, CROSS = COLUMNS.index("same_topic"), COLUMNS.index("cross_topic")


def result(n_groups_used: int = 40, *, seed: int = 0, layers: tuple[int, ...] = (0, 3), n_heads: int = 2, **options):
    """Random sums in the first groups; every class has pairs there."""
    numbers = np.random.default_rng(seed)
    totals = AttentionSums.empty(layers, n_heads)
    for group in range(n_groups_used):
        counts = numbers.integers(1, 30, len(COLUMNS)).astype(float)
        for index in range(len(layers)):
            totals.sums[index, :, group] = counts * numbers.gamma(4, 0.3, (n_heads, len(COLUMNS)))
            totals.counts[index, group] = counts
            totals.n_rows[index, group] = 1
    return AttentionResult(
        totals=totals,
        tally={"n_documents": n_groups_used, "n_words": 100},
        visibility=dict.fromkeys(layers, "bidirectional"),
        unavailable_layers=(1, 2),
        options={"words": "whole", "labels": "abc", "corpus": "list", **options},
        seed=3,
    )


def loop_means(totals: AttentionSums, column: int) -> np.ndarray:
    return np.array(
        [
            [sum(head[group][column] for group in range(N_GROUPS)) / layer_counts[:, column].sum() for head in layer]
            for layer, layer_counts in zip(totals.sums, totals.counts, strict=True)
        ]
    )


def test_the_frame_has_the_columns_that_are_promised() -> None:
    frame = result().to_frame()
    assert list(frame.columns) == FRAME_COLUMNS
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1], [3, 0], [3, 1]]


def test_means_are_sums_over_counts() -> None:
    one = result()
    frame = one.to_frame()
    for name in ("same_token", "same_topic", "cross_topic", "no_topic"):
        np.testing.assert_allclose(frame[name], loop_means(one.totals, COLUMNS.index(name)).ravel(), rtol=1e-12)
    np.testing.assert_allclose(frame["sink_mass"], loop_means(one.totals, COLUMNS.index("special")).ravel(), rtol=1e-12)
    np.testing.assert_allclose(frame["ratio"], frame["same_topic"] / frame["cross_topic"])
    np.testing.assert_allclose(frame["difference"], frame["same_topic"] - frame["cross_topic"])
    assert (frame["n_same_topic"] == one.totals.counts[0, :, SAME].sum()).all()
    assert (frame["n_documents"] == 40).all()


def test_the_headline_is_the_mean_over_heads_and_the_ratio_of_the_means() -> None:
    one = result()
    headline = one.headline()
    same, cross = loop_means(one.totals, SAME).mean(), loop_means(one.totals, CROSS).mean()
    assert headline.same_topic == pytest.approx(same, rel=1e-12)
    assert headline.cross_topic == pytest.approx(cross, rel=1e-12)
    assert headline.ratio == pytest.approx(same / cross, rel=1e-12)
    assert headline.ratio_low < headline.ratio < headline.ratio_high
    assert headline.n_same_topic == one.pair_counts["same_topic"]


def test_pair_counts_are_exact_and_of_the_layer_that_sees_most() -> None:
    one = result()
    totals = one.totals
    totals.counts[1, :, :4] //= 2  # a layer with a window
    expected = totals.counts[0].sum(axis=0)[:4].tolist()
    assert list(one.pair_counts.items()) == list(
        zip(("same_token", "same_topic", "cross_topic", "no_topic"), expected, strict=True)
    )


def test_an_empty_class_is_nan_with_count_zero() -> None:
    one = result()
    one.totals.sums[..., CROSS] = 0
    one.totals.counts[..., CROSS] = 0
    frame = one.to_frame()
    assert frame[["cross_topic", "difference", "ratio", "ratio_low", "ratio_high"]].isna().all(axis=None)
    assert (frame["n_cross_topic"] == 0).all()
    assert frame["same_topic"].notna().all()
    assert np.isnan(one.headline().cross_topic)
    assert np.isnan(one.headline().ratio)
    assert one.pair_counts["cross_topic"] == 0
    assert "nan" in repr(one)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_agree_with_scipy(method: str) -> None:
    """The bootstrap of scipy over the groups' sums, drawn with another generator."""
    one = result(60, n_heads=1, layers=(0,))
    used = slice(0, 60)
    sums, counts = one.totals.sums[0, 0, used], one.totals.counts[0, used]

    def ratio(same, n_same, cross, n_cross, axis=-1):
        return (same.sum(axis) / n_same.sum(axis)) / (cross.sum(axis) / n_cross.sum(axis))

    def mean(values, n, axis=-1):
        return values.sum(axis) / n.sum(axis)

    def by_scipy(statistic, *data):
        return scipy.stats.bootstrap(
            data,
            statistic,
            paired=True,
            vectorized=True,
            method={"percentile": "percentile", "bca": "BCa"}[method],
            n_resamples=20_000,
            confidence_level=0.9,
            **{GENERATOR: np.random.default_rng(1)},
        ).confidence_interval

    head = one.confidence_interval(0.9, method=method, n_resamples=20_000)
    headline = one.headline(level=0.9, method=method, n_resamples=20_000)
    of_ratio = by_scipy(ratio, sums[:, SAME], counts[:, SAME], sums[:, CROSS], counts[:, CROSS])
    of_same, of_cross = (by_scipy(mean, sums[:, column], counts[:, column]) for column in (SAME, CROSS))
    for low, high, expected in (
        (head.low[0, 0], head.high[0, 0], of_ratio),
        (headline.ratio_low, headline.ratio_high, of_ratio),
        (headline.same_topic_low, headline.same_topic_high, of_same),
        (headline.cross_topic_low, headline.cross_topic_high, of_cross),
    ):
        # the ends of 20,000 resamples are known to about 1.5 % of the interval's width
        assert low == pytest.approx(expected.low, abs=0.06 * (expected.high - expected.low))
        assert high == pytest.approx(expected.high, abs=0.06 * (expected.high - expected.low))


def test_the_level_and_the_seed_matter() -> None:
    one = result()
    narrow, wide = one.confidence_interval(0.5), one.confidence_interval(0.99)
    assert (wide.low < narrow.low).all()
    assert (narrow.high < wide.high).all()
    assert (one.confidence_interval().low == one.confidence_interval().low).all()
    drawn = one.confidence_interval(method="percentile").low
    assert (replace(one, seed=4).confidence_interval(method="percentile").low != drawn).any()
    assert (one.confidence_interval(method="percentile").low == drawn).all()


def test_one_group_alone_has_no_interval() -> None:
    frame = result(1).to_frame()
    assert frame[["ratio_low", "ratio_high"]].isna().all(axis=None)
    assert frame["ratio"].notna().all()
    assert np.isnan(result(1).headline().ratio_low)


def test_merging_adds_sums_counts_and_tallies() -> None:
    a, b = result(40, seed=1), result(30, seed=2, corpus="other")
    both = a.merge(b)
    np.testing.assert_array_equal(both.totals.sums, a.totals.sums + b.totals.sums)
    np.testing.assert_array_equal(both.totals.counts, a.totals.counts + b.totals.counts)
    np.testing.assert_array_equal(both.totals.n_rows, a.totals.n_rows + b.totals.n_rows)
    assert both.n_documents == 70
    assert both.options["corpus"] == "list + other"
    np.testing.assert_array_equal(b.merge(a).totals.sums, both.totals.sums)


def test_merging_leaves_both_as_they_were() -> None:
    a, b = result(40, seed=1), result(30, seed=2)
    before = a.totals.sums.copy(), b.totals.sums.copy()
    both = a.merge(b)
    both.totals.sums += 1
    np.testing.assert_array_equal(a.totals.sums, before[0])
    np.testing.assert_array_equal(b.totals.sums, before[1])


@pytest.mark.parametrize(("name", "value"), [("labels", "abd"), ("words", "merge"), ("max_length", 64)])
def test_results_measured_differently_do_not_merge(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"measured alike can be merged: {name} is"):
        result().merge(result(**{name: value}))


def test_results_of_other_layers_or_heads_do_not_merge() -> None:
    for other in (result(layers=(0, 4)), result(n_heads=3)):
        with pytest.raises(ValueError, match="same layers and heads"):
            result().merge(other)


def test_a_saved_result_comes_back_exactly(tmp_path: Path) -> None:
    one = result()
    one.save(tmp_path / "saved")
    back = AttentionResult.load(tmp_path / "saved")
    arrays, written = back.totals.to_arrays(), one.totals.to_arrays()
    assert len(written) == 11
    for name, array in written.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    for name in ("tally", "visibility", "unavailable_layers", "options", "seed"):
        assert getattr(back, name) == getattr(one, name)
    assert back.to_frame().equals(one.to_frame())
    back.merge(one)


def test_an_interrupted_save_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half of the new report is on disk when the second fails."""
    folder = tmp_path / "report"
    ProbeReport(result(seed=1), None).save(folder)
    new = ProbeReport(result(seed=2), None, baseline=ProbeReport(result(seed=3), None))

    def full_disk(self: ProbeReport, folder: Path) -> None:
        new.attention.save(folder / "attention")
        raise OSError("no space left on device")

    monkeypatch.setattr(ProbeReport, "_write", full_disk)
    with pytest.raises(OSError, match="no space"):
        new.save(folder)
    monkeypatch.undo()
    np.testing.assert_array_equal(ProbeReport.load(folder).attention.totals.sums, result(seed=1).totals.sums)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_save_that_cannot_be_put_in_place_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "report"
    ProbeReport(result(seed=1), None).save(folder)
    move = Path.replace

    def fail_for_new(self: Path, target: Path) -> Path:
        if (self / "attention").exists() and self.name not in ("report", "old"):
            raise OSError("interrupted")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", fail_for_new)
    monkeypatch.setattr(ProbeReport, "_write", lambda self, folder: (folder / "attention").mkdir())
    with pytest.raises(OSError, match="interrupted"):
        ProbeReport(result(seed=2), None).save(folder)
    monkeypatch.undo()
    np.testing.assert_array_equal(ProbeReport.load(folder).attention.totals.sums, result(seed=1).totals.sums)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_report_replaces_an_earlier_one_whole(tmp_path: Path) -> None:
    with_twin = ProbeReport(result(seed=1), None, baseline=ProbeReport(result(seed=2), None))
    with_twin.save(tmp_path / "report")
    ProbeReport(result(seed=3), None).save(tmp_path / "report")
    back = ProbeReport.load(tmp_path / "report")
    assert back.baseline is None
    np.testing.assert_array_equal(back.attention.totals.sums, result(seed=3).totals.sums)


@pytest.mark.parametrize("stranger", ["notes.txt", "attention/picture.png"])
def test_a_folder_that_is_no_report_is_not_replaced(tmp_path: Path, stranger: str) -> None:
    """Not even one that holds a report and something else."""
    if stranger == "notes.txt":
        ProbeReport(result(), None).save(tmp_path / "work")
    (tmp_path / "work" / stranger).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "work" / stranger).write_text("mine")
    with pytest.raises(FileExistsError, match="is not a saved report"):
        ProbeReport(result(), None).save(tmp_path / "work")
    assert (tmp_path / "work" / stranger).read_text() == "mine"


def test_what_is_no_report_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a saved report"):
        ProbeReport.load(tmp_path / "nowhere")


def test_another_estimator_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match="estimator must be one of"):
        result().to_frame("median")
    with pytest.raises(ValueError, match=r"level must be in \[0, 1\]"):
        result().headline(level=95.0)
    with pytest.raises(ValueError, match="column must be one of"):
        result().means("sameness")


def test_the_group_of_a_document_is_the_same_everywhere() -> None:
    """Written down once: saved results must stay mergeable."""
    assert [group_of(name) for name in ("0", "1", "Łódź")] == [117, 118, 143]
    counts = np.bincount([group_of(str(number)) for number in range(20_000)], minlength=N_GROUPS)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_too_few_groups_have_no_interval() -> None:
    """Seven groups with pairs of both classes say too little, eight say something; the means stand all the same."""
    few, enough = result(7).headline(), result(8).headline()
    assert (few.n_groups, enough.n_groups) == (7, 8)
    assert np.isnan([few.ratio_low, few.ratio_high, few.same_topic_low]).all()
    assert np.isfinite([few.ratio, enough.ratio_low, enough.ratio_high]).all()


def test_a_class_that_lives_in_one_group_has_no_interval() -> None:
    one = result(40)
    one.totals.counts[:, 1:, SAME] = 0
    one.totals.sums[:, :, 1:, SAME] = 0
    assert one.headline().n_groups == 1
    assert np.isnan(one.headline().ratio_low)
    assert np.isfinite(one.headline().ratio)


@pytest.mark.parametrize("damage", ["cut arrays", "no tally", "other layers", "not json"])
def test_a_damaged_folder_is_one_sentence(tmp_path: Path, damage: str) -> None:
    result().save(tmp_path / "saved")
    description = tmp_path / "saved" / "description.json"
    arrays = tmp_path / "saved" / "arrays.safetensors"
    known = json.loads(description.read_text())
    if damage == "cut arrays":
        arrays.write_bytes(arrays.read_bytes()[:100])
    elif damage == "no tally":
        description.write_text(json.dumps({name: known[name] for name in known if name != "tally"}))
    elif damage == "other layers":
        description.write_text(json.dumps({**known, "layers": [0]}))
    else:
        description.write_text("{")
    with pytest.raises(ValueError, match=r"damaged|must have shape"):
        AttentionResult.load(tmp_path / "saved")


def test_a_missing_part_of_a_report_is_noticed(tmp_path: Path) -> None:
    ProbeReport(result(), None, ProbeReport(result(), None)).save(tmp_path / "report")
    shutil.rmtree(tmp_path / "report" / "baseline")
    with pytest.raises(FileNotFoundError, match=r"report\.json"):
        ProbeReport.load(tmp_path / "report")


@pytest.mark.parametrize("place", ["figure.png", "attention/figure.png", "baseline/embedding/notes.md"])
def test_a_file_of_the_user_in_a_saved_report_is_never_deleted(tmp_path: Path, place: str) -> None:
    report = ProbeReport(result(), None, ProbeReport(result(), None))
    report.save(tmp_path / "report")
    report.save(tmp_path / "report")
    precious = tmp_path / "report" / place
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("precious")
    with pytest.raises(FileExistsError, match="is not a saved report alone"):
        report.save(tmp_path / "report")
    assert precious.read_text() == "precious"


def test_reports_merge_with_their_baselines() -> None:
    one, other = (ProbeReport(result(seed=seed), None, ProbeReport(result(seed=9), None)) for seed in (1, 2))
    both = one.merge(other)
    assert both.attention.pair_counts == one.attention.merge(other.attention).pair_counts
    assert both.baseline is not None
    assert both.baseline.attention.n_documents == 80
    with pytest.raises(ValueError, match="one has a baseline"):
        one.merge(ProbeReport(result(), None))


def test_the_current_folder_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileExistsError, match="is the current folder"):
        result().save(".")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link_and_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    result().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "description.json").is_file()
    result().save("~/saved")
    assert AttentionResult.load("~/saved").n_documents == 40
    assert (tmp_path / "home" / "saved").is_dir()


def test_a_layer_with_pairs_in_too_few_groups_has_no_interval_beside_one_with_many() -> None:
    """A layer with a short window has pairs in fewer documents; the other layer's numbers do not lend it any."""
    both = result(layers=(0, 3))
    of_one = {name: value[1:] for name, value in {"sums": both.totals.sums, "counts": both.totals.counts}.items()}
    alone = result(layers=(3,))
    alone.totals.sums[:], alone.totals.counts[:] = of_one["sums"], of_one["counts"]
    both.totals.sums[0, :, 3:], both.totals.counts[0, 3:] = 0, 0
    for frame, expected in ((both.to_frame(), alone.to_frame()), (both.layer_frame(), alone.layer_frame())):
        ends = ["difference_low", "difference_high", "ratio_low", "ratio_high"]
        assert frame.loc[frame["layer"] == 0, ends].isna().all(axis=None)
        assert frame.loc[frame["layer"] == 0, "ratio"].notna().all()
        np.testing.assert_array_equal(frame.loc[frame["layer"] == 3, ends], expected[ends])
    other = result(layers=(0, 3), seed=1)
    other.totals.sums[0, :, 3:], other.totals.counts[0, 3:] = 0, 0
    compared = (both - other).to_frame()
    assert compared.loc[compared["layer"] == 0, "difference_low"].isna().all()
    assert compared.loc[compared["layer"] == 3, "difference_low"].notna().all()


def test_the_headline_compares_means_of_the_same_heads() -> None:
    """A layer without cross-topic pairs is in neither mean: there is nothing to compare with."""
    one = result(layers=(0, 3))
    one.totals.sums[1, ..., SAME] *= 9
    one.totals.sums[1, ..., CROSS], one.totals.counts[1, :, CROSS] = 0, 0
    first = result(layers=(0,))
    first.totals.sums[:], first.totals.counts[:] = one.totals.sums[:1], one.totals.counts[:1]
    assert one.headline().same_topic == pytest.approx(first.headline().same_topic, rel=1e-12)
    assert one.headline().ratio == pytest.approx(first.headline().ratio, rel=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_an_interval_of_level_0_or_1_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level must be above 0 and below 1"):
        result().to_frame(level=level)


@pytest.mark.parametrize("name", ["max_length", "long_documents", "word_counts"])
def test_results_of_documents_that_were_read_otherwise_are_not_compared(name: str) -> None:
    """Where both say how; a result of attach does not."""
    with pytest.raises(ValueError, match=f"read alike can be compared, got {name} 'this' and 'that'"):
        result(**{name: "this"}) - result(seed=1, **{name: "that"})
    assert (result(**{name: "this"}) - result(seed=1)).headline()["difference"] == pytest.approx(
        result().headline().same_topic
        - result().headline().cross_topic
        - result(seed=1).headline().same_topic
        + result(seed=1).headline().cross_topic
    )
