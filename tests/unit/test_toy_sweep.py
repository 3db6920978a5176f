"""Grids of toy runs: which runs are made, what their rows say, and in which of them the value matrix comes first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from topic_probes import corpora
from topic_probes.toy import Sweep, TopicTransformer, sweep, train

SMALL = {
    "n_topics": 3,
    "words_per_topic": 4,
    "lengths": (10, 20),
    "n_documents": 60,
    "steps": 12,
    "batch_size": 16,
    "progress": False,
}


def row(**changes: Any) -> dict[str, Any]:
    """A run that was trained, in which W_V is first."""
    plain = {
        **{"run": 0, "embedding": "one_hot", "value": "trained", "attention": "trained", "optimizer": "adamw"},
        **{"stage_W_V": 10.0, "stage_W_Q": 20.0, "stage_W_K": 30.0},
        **{"stage_value_contrast": 10.0, "stage_attention_contrast": 40.0},
        **{"growth_W_V": 9.0, "growth_W_Q": 9.0, "growth_W_K": 9.0, "norm_W_V": 1.0, "norm_W_Q": 1.0, "norm_W_K": 1.0},
        **{"same_topic": 1.5, "cross_topic": 0.5, "diverged": False},
    }
    return {**plain, **changes}


def swept(*rows: dict[str, Any]) -> Sweep:
    return Sweep(pd.DataFrame([{**one, "run": number} for number, one in enumerate(rows)]), ())


def test_a_grid_has_a_run_for_each_combination_once() -> None:
    """Rates belong to their optimiser, alpha counts only without a number of topics, the last argument runs fastest."""
    found = sweep(
        **{**SMALL, "steps": 1},
        optimizer=["adamw", "sgd"],
        learning_rate={"adamw": [0.001, 0.01], "sgd": 1.0},
        momentum=[0.0, 0.9],
        alpha=[0.1, 1.0],
        topics_per_document=[None, 2],
        seed=range(2),
    ).to_frame()
    keys = ["optimizer", "learning_rate", "momentum", "alpha", "topics_per_document", "seed"]
    assert not found.duplicated(keys).any()
    # 3 document models and 2 seeds; AdamW has 2 rates and no momentum, SGD 1 rate and 2 momenta.
    assert len(found) == 3 * 2 * (2 + 2)
    assert set(found.loc[found["optimizer"] == "sgd", "learning_rate"]) == {1.0}
    assert found["alpha"].isna().tolist() == found["topics_per_document"].notna().tolist()
    assert found["run"].tolist() == list(range(len(found)))


def test_a_row_is_that_of_the_run_made_by_hand() -> None:
    """The same model, documents and training, one by one: stages, norms, contrasts, attention and loss."""
    found = sweep(**SMALL, seed=[3, 4], loss="squared", init_scale=0.1, mask_rate=0.3, topics_per_document=2)
    documents = corpora.lda(3, 4, lengths=(10, 20), n_documents=60, topics_per_document=2, seed=4)
    run = train(
        TopicTransformer(12, init_scale=0.1, seed=4),
        documents,
        loss="squared",
        mask_rate=0.3,
        steps=12,
        batch_size=16,
        seed=4,
        progress=False,
    )
    last, first = run.history.iloc[-1], run.history.iloc[0]
    mine = found.to_frame().iloc[1]
    for name in ("W_V", "W_Q", "W_K"):
        assert mine[f"stage_{name}"] == pytest.approx(run.stages()[name], rel=1e-6)
        assert mine[f"norm_{name}"] == pytest.approx(last[f"norm_{name}"], rel=1e-6)
        assert mine[f"growth_{name}"] == pytest.approx(last[f"norm_{name}"] / first[f"norm_{name}"], rel=1e-6)
    assert math.isnan(mine["stage_W_E"])
    assert mine["growth_W_E"] == 1
    for name in ("same_topic", "cross_topic", "value_contrast", "embedding_contrast"):
        assert mine[name] == pytest.approx(last[name], rel=1e-6)
    assert (mine["first_loss"], mine["final_loss"]) == pytest.approx((first["loss"], last["loss"]), rel=1e-6)
    assert mine["order"].split() == run.stages().dropna().sort_values().index.tolist()
    assert mine["learning_rate"] == 0.01
    pd.testing.assert_frame_equal(found.histories[1], run.history, rtol=1e-6)


@pytest.mark.slow  # new processes load torch and transformer-lens
def test_the_number_of_processes_changes_nothing() -> None:
    """Rows and histories are equal to the last bit, and in the same order."""
    options = {**SMALL, "steps": 6, "seed": [0, 1], "loss": ["cross_entropy", "squared"]}
    threads = torch.get_num_threads()
    one, two = sweep(**options), sweep(**options, n_jobs=2)
    pd.testing.assert_frame_equal(one.runs, two.runs, check_exact=True)
    for mine, other in zip(one.histories, two.histories, strict=True):
        pd.testing.assert_frame_equal(mine, other, check_exact=True)
    assert one.runs["value_contrast"].nunique() == 4
    assert torch.get_num_threads() == threads


def test_combinations_that_make_no_run_are_told() -> None:
    """A block of words needs words as they are, and something must be trained; the others are made."""
    found = sweep(
        **{**SMALL, "steps": 1},
        embedding=["one_hot", "trained"],
        value=["trained", "identity", "block"],
        attention=["trained", "uniform"],
    )
    assert len(found.runs) == 12 - 2 - 2
    assert len(found.left_out) == 4
    assert any("nothing is trained" in one for one in found.left_out)
    assert any('needs embedding="one_hot"' in one for one in found.left_out)
    frozen = found.runs[found.runs["attention"] == "uniform"]
    assert frozen[["stage_W_Q", "stage_W_K"]].isna().all(axis=None)


def test_a_run_that_diverges_is_a_row_and_stops_no_other() -> None:
    """Its numbers are NaN, its history has no rows."""
    found = sweep(**SMALL, optimizer="sgd", loss="squared", learning_rate=[1e30, 0.1])
    assert found.runs["diverged"].tolist() == [True, False]
    assert math.isnan(found.runs.loc[0, "final_loss"])
    assert [len(history) > 0 for history in found.histories] == [False, True]
    assert found.two_stage().undecided.loc[0, "why"] == "the loss diverged"


def test_runs_are_sorted_by_whether_the_value_matrix_is_first() -> None:
    """Strictly first, before both others; what is frozen, has not grown or has diverged does not speak."""
    found = swept(
        row(),
        row(stage_W_V=20.0),
        row(stage_W_V=25.0, optimizer="sgd"),
        row(stage_W_Q=5.0),
        row(growth_W_Q=1.9),
        row(growth_W_V=1.5, growth_W_K=1.0),
        row(attention="uniform", stage_W_Q=math.nan, stage_W_K=math.nan),
        row(value="block", stage_W_V=math.nan),
        row(diverged=True),
        row(growth_W_K=math.nan),
    )
    two = found.two_stage()
    assert two.agree["run"].tolist() == [0, 9]
    assert two.disagree["run"].tolist() == [1, 2, 3]
    assert two.undecided.set_index("run")["why"].to_dict() == {
        4: "W_Q did not grow 2-fold",
        5: "W_V and W_K did not grow 2-fold",
        6: "attention is frozen",
        7: "W_V is frozen",
        8: "the loss diverged",
    }
    assert (two.n_decided, two.fraction) == (5, 0.4)
    assert found.two_stage(least_growth=1.2).agree["run"].tolist() == [0, 4, 9]


def test_topics_may_come_in_another_order_than_norms() -> None:
    """By topics it is the contrasts that count, and attention must tell topics apart at all."""
    found = swept(
        row(stage_W_Q=5.0),
        row(stage_attention_contrast=10.0),
        row(same_topic=1.01, cross_topic=0.99),
        row(value="block"),
        row(value="identity", embedding="trained"),
    )
    two = found.two_stage("topics")
    assert (two.agree["run"].tolist(), two.disagree["run"].tolist()) == ([0, 4], [1])
    assert two.undecided["why"].tolist() == [
        "attention does not tell topics apart",
        "embedding and value matrix are frozen",
    ]


def test_counts_may_be_split_by_settings() -> None:
    """One row for each value, NaN where no run speaks."""
    two = swept(
        row(), row(), row(stage_W_Q=5.0), row(optimizer="sgd", diverged=True), row(optimizer="sgd", diverged=True)
    ).two_stage()
    table = two.to_frame("optimizer")
    assert table[["n_agree", "n_disagree", "n_undecided"]].to_numpy().tolist() == [[2, 1, 0], [0, 0, 2]]
    np.testing.assert_array_equal(table["fraction"], [2 / 3, math.nan])
    assert two.to_frame().iloc[0].to_dict() == {
        "n_agree": 2, "n_disagree": 1, "n_undecided": 2, "fraction": pytest.approx(2 / 3)
    }  # fmt: skip
    assert math.isnan(swept(row(diverged=True)).two_stage().fraction)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"optimizer": ["adamw", "adam"]}, "optimizer must be one of 'adamw', 'sgd', got 'adam'"),
        ({"loss": "l2"}, "loss must be one of"),
        ({"learning_rate": [0.1, 0.0]}, "learning_rate must be above 0"),
        ({"learning_rate": {"sgd": 1.0}}, "learning_rate must have rates for each optimizer, got none for 'adamw'"),
        ({"optimizer": "sgd", "momentum": -1.0}, "momentum must be at least 0"),
        ({"seed": []}, "seed must be a value, or a list of at least one"),
        ({"seed": [0, -1]}, "seed must be at least 0"),
        ({"mask_rate": [0.15, 0.0]}, "mask_rate must be above 0"),
        ({"topics_per_document": 4}, "topics_per_document must be at most n_topics"),
        ({"value": "identity", "attention": "uniform"}, "the grid must hold at least one run, got none: .*nothing is"),
        ({"value": "blocks"}, "value must be one of"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"n_jobs": 0}, "n_jobs must be at least 1"),
        ({"record_every": 0}, "record_every must be at least 1"),
    ],
)
def test_a_wrong_grid_is_refused_before_the_first_run(
    options: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the argument and the rule."""

    def no_run(*_: Any) -> None:
        raise AssertionError("a run was made")

    monkeypatch.setattr("topic_probes.toy._sweep._run_all", no_run)
    with pytest.raises(ValueError, match=sentence):
        sweep(**{**SMALL, **options})


def test_the_question_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="by must be one of 'norms', 'topics'"):
        swept(row()).two_stage("losses")
