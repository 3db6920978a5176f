"""Words in context inside a report: optional, saved, merged and drawn with the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

import helpers
from topic_probes import ProbeReport, TopicLabels, probe, probe_contextual, probe_embedding

KIND = "GPT-2 bridge" if helpers.HAS_BRIDGE else "HookedTransformer"
LABELS = TopicLabels.from_dict({token: token % 3 for token in range(1, 40)})
DOCUMENTS = [[int(token) for token in row] for row in np.random.default_rng(5).integers(1, helpers.N_WORDS, (12, 14))]


def reported(documents: Any = DOCUMENTS) -> ProbeReport:
    model = helpers.build(KIND)
    trained, untrained = (
        probe_contextual(model, documents, LABELS, weights=weights, progress=False)
        for weights in ("trained", "untrained")
    )
    return probe(model, documents, LABELS, progress=False).with_contextual(trained, untrained)


@pytest.fixture(scope="module")
def report() -> ProbeReport:
    return reported()


def test_a_report_has_none_unless_it_was_put_there(report: ProbeReport) -> None:
    plain = probe(helpers.build(KIND), DOCUMENTS, LABELS, progress=False)
    assert plain.contextual is None
    assert plain.contextual_frame().empty
    with pytest.raises(ValueError, match=r"plot_layers needs words in context, and this report has none: call"):
        plain.plot_layers()
    with_it = plain.with_contextual(report.contextual)
    assert plain.contextual is None
    assert with_it.contextual is report.contextual
    assert with_it.baseline is not None
    assert with_it.baseline.contextual is None
    assert with_it.to_frame().equals(plain.to_frame())


def test_words_in_context_of_another_model_or_other_labels_are_refused(report: ProbeReport) -> None:
    plain = probe(helpers.build(KIND), DOCUMENTS, LABELS, progress=False)
    others = TopicLabels.from_dict({token: token % 4 for token in range(1, 40)})
    of_others = probe_contextual(helpers.build(KIND), DOCUMENTS, others, progress=False)
    with pytest.raises(ValueError, match="trained must be of the labels and the model of this report, its labels is"):
        plain.with_contextual(of_others)
    changed = helpers.build(KIND)
    next(iter(changed.parameters())).data[0, 0] += 1
    with pytest.raises(ValueError, match="its weights_digest is"):
        plain.with_contextual(probe_contextual(changed, DOCUMENTS, LABELS, progress=False))
    twin = probe_contextual(helpers.build(KIND), DOCUMENTS, LABELS, weights="untrained", seed=7, progress=False)
    assert plain.with_contextual(report.contextual, twin).baseline is not None


def test_the_frame_names_the_models(report: ProbeReport) -> None:
    frame = report.contextual_frame()
    assert frame["model"].value_counts().to_dict() == {"trained": 18, "untrained": 18}
    expected = report.contextual.to_frame()
    assert frame.query("model == 'trained'").drop(columns="model").equals(expected)


def test_it_is_saved_and_loaded_with_the_report(report: ProbeReport, tmp_path: Path) -> None:
    report.save(tmp_path / "report")
    back = ProbeReport.load(tmp_path / "report")
    assert back.contextual_frame().equals(report.contextual_frame())
    assert repr(back) == repr(report)
    report.save(tmp_path / "report")  # its own earlier save is replaced
    probe(helpers.build(KIND), DOCUMENTS, LABELS, progress=False).save(tmp_path / "report")
    assert ProbeReport.load(tmp_path / "report").contextual is None


def test_merged_reports_merge_it(report: ProbeReport) -> None:
    merged = reported(DOCUMENTS[:5]).merge(reported(DOCUMENTS[5:]))
    one, other = (each.contextual_frame().select_dtypes("number").to_numpy(float) for each in (merged, report))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="one has words in context, the other has none"):
        report.merge(probe(helpers.build(KIND), DOCUMENTS, LABELS, progress=False))


def test_it_is_drawn_with_the_twin(report: ProbeReport) -> None:
    plt.close("all")
    ax = report.plot_layers()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(labels) == sorted(f"{name}, {m}" for name in ("same topic", "cross topic") for m in report.models)
    plt.close("all")


def test_other_results_are_refused(report: ProbeReport) -> None:
    trained = report.contextual
    untrained = report.baseline.contextual
    with pytest.raises(ValueError, match="trained must be a result of probe_contextual, got one without layers"):
        report.with_contextual(probe_embedding(helpers.build(KIND), LABELS))
    with pytest.raises(ValueError, match="trained must be a result of trained weights, got one of 'untrained'"):
        report.with_contextual(untrained)
    with pytest.raises(ValueError, match="untrained must be a result of untrained weights"):
        report.with_contextual(trained, trained)
    alone = probe(helpers.build(KIND), DOCUMENTS, LABELS, baseline=None, progress=False)
    with pytest.raises(ValueError, match="needs a report with a baseline"):
        alone.with_contextual(trained, untrained)
