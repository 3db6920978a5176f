"""What notebooks show of results: one short table each, and nothing but text in it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import helpers
import topic_probes as tp

ATTACK = "<script>alert(1)</script> & \"b\" <i>'c'</i>"
TAGS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "small"}
LABELS = tp.TopicLabels.from_dict({token: token % 4 for token in range(40)})
DOCUMENTS = [[int(token) for token in row] for row in np.random.default_rng(0).integers(0, 40, (24, 9))]


@functools.cache
def model() -> Any:
    return helpers.build(helpers.KINDS[0])


@functools.cache
def report() -> tp.ProbeReport:
    return tp.probe(model(), DOCUMENTS, LABELS, baseline="random_init", progress=False)


def named(result: tp.AttentionResult) -> tp.AttentionResult:
    return replace(result, options={**result.options, "model": ATTACK})


def toy_run() -> tp.toy.ToyRun:
    toy, corpus = tp.toy.TopicTransformer(6), tp.corpora.lda(2, 3, lengths=8, n_documents=8)
    run = tp.toy.train(toy, corpus, steps=4, record_every=2, progress=False)
    return replace(run, history=run.history.assign(**{ATTACK: 1.0}))


def sweep() -> tp.toy.Sweep:
    grid = {"optimizer": ["adamw", "sgd"], "n_topics": 2, "words_per_topic": 3, "lengths": 8, "n_documents": 8}
    found = tp.toy.sweep(**grid, steps=4, progress=False)
    return replace(found, runs=found.runs.assign(optimizer=[ATTACK, "sgd"]))


def head_dual() -> tp.dual.HeadDual:
    head = tp.dual.attach_head(model(), DOCUMENTS[0], layer=0, head=1)
    return replace(head, model=ATTACK, contributions=head.contributions.assign(token=ATTACK))


def contributions() -> tp.dual.ContributionsByTopic:
    found = tp.dual.contributions_by_topic(model(), DOCUMENTS, LABELS, progress=False)
    return replace(found, options={**found.options, "model": ATTACK})


def dual_training() -> tp.dual.DualTraining:
    numbers = np.random.default_rng(0)
    keys, values = numbers.normal(size=(2, 5, 3))
    return tp.dual.fit(keys, values, slice(0, 4)).at(keys[:1]).train(n_steps=4, learning_rate=0.25)


SHOWN: dict[str, Callable[[], Any]] = {
    "AttentionComparison": lambda: named(report().attention) - named(report().attention),
    "AttentionResult": lambda: named(report().attention),
    "EmbeddingResult": lambda: replace(tp.probe_embedding(model(), LABELS), matrix=ATTACK),
    "Headline": lambda: replace(report().attention.headline(), estimator=ATTACK),
    "ProbeReport": lambda: replace(report(), attention=named(report().attention)),
    "TopicHead": lambda: tp.TopicHead(1, 2, 1.5, 1.2, 1.8, 0.01, 0.02, ATTACK),
    "TopicLabels": lambda: tp.TopicLabels.from_dict({"cat": 0, "dog": 1}),
    "TopicModel": lambda: tp.TopicModel.from_matrix(np.eye(3) * 0.85 + 0.05, [ATTACK, "b", "c"]),
    "BoundSimulation": lambda: tp.dual.simulate_bound((4, 8), 5, n_population=20),
    "ContributionsByTopic": contributions,
    "DualTraining": dual_training,
    "HeadDual": head_dual,
    "RegressionBench": lambda: tp.dual.RegressionBench(
        pd.DataFrame(
            {
                **{name: [ATTACK] for name in ("task", "variant", "setting")},
                **{name: [0.5] for name in ("seed", "test_error", "plain_error", "train_error")},
            }
        ),
        {},
    ),
    "BlockContrast": lambda: tp.toy.block_contrast(np.eye(4), [0, 0, 1, 1]),
    "OptimalAttention": lambda: tp.toy.optimal_attention(3, 2),
    "OptimumDistance": lambda: tp.toy.distance_to_optimum(np.ones((6, 7)), tp.toy.optimal_value_matrix(3, 2)),
    "Sweep": sweep,
    "TopicAttention": lambda: tp.toy.topic_attention(
        tp.toy.TopicTransformer(50), DOCUMENTS, {token: token % 4 for token in range(50)}
    ),
    "ToyRun": toy_run,
    "TwoStages": lambda: sweep().two_stage(),
    "ValueMatrix": lambda: tp.toy.optimal_value_matrix(3, 2),
}
NAMELESS = {
    *(
        "AttentionResult",
        "TopicLabels",
        "BoundSimulation",
        "DualTraining",
        "BlockContrast",
        "OptimalAttention",
        "OptimumDistance",
    ),
    *("TopicAttention", "TwoStages", "ValueMatrix"),
}
"""Classes whose tables hold no text from outside."""


def result_classes() -> Iterator[str]:
    """Public classes that make a table or hold one, and the two that are a row of one."""
    for package in (tp, tp.dual, tp.toy):
        for name in package.__all__:
            one = getattr(package, name)
            if not inspect.isclass(one):
                continue
            holds = any("DataFrame" in str(kind) for kind in getattr(one, "__annotations__", {}).values())
            if hasattr(one, "to_frame") or holds or one in (tp.Headline, tp.TopicHead):
                yield name


def test_every_result_is_among_them() -> None:
    assert sorted(result_classes()) == sorted(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_result_is_shown_as_one_short_table_of_text(name: str) -> None:
    """Well-formed HTML with a caption and full rows; a name with markup in it is text."""
    shown = SHOWN[name]()
    assert type(shown).__name__ == name
    tree = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    assert {element.tag for element in tree.iter()} <= TAGS
    assert len(tree.findall("table")) == len(tree.findall("table/caption")) == 1
    rows = tree.findall("table/tbody/tr")
    assert 1 <= len(rows) <= 12
    assert {len(row) for row in rows} == {len(tree.findall("table/thead/tr/th"))}
    assert (ATTACK not in "".join(tree.itertext())) == (name in NAMELESS)


def numbers_of(shown: Any) -> list[list[str]]:
    tree = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    return [[cell.text or "" for cell in row] for row in tree.findall("table/tbody/tr")]


def test_a_toy_run_is_shown_from_its_first_to_its_last_row() -> None:
    run = toy_run()
    rows = {name: cells for name, *cells in numbers_of(run)}
    first, last = run.history.iloc[0], run.history.iloc[-1]
    assert rows["loss"] == [f"{first['loss']:.4g}", f"{last['loss']:.4g}", ""]
    assert rows["norm_W_V"][2] == f"{run.stages()['W_V']:.4g}"
    assert rows["norm_W_E"][2] == "", "a frozen matrix has no stage"


def test_of_a_head_the_largest_shares_come_first() -> None:
    shares = [abs(float(row[-1])) for row in numbers_of(head_dual())]
    assert len(shares) == 8
    assert shares == sorted(shares, reverse=True)


def test_a_sweep_is_shown_by_the_settings_in_which_its_runs_differ() -> None:
    tree = ElementTree.fromstring(f"<div>{sweep()._repr_html_()}</div>")
    heads = [cell.text for cell in tree.findall("table/thead/tr/th")]
    assert heads[:4] == ["run", "optimizer", "learning rate", "order"]


def test_a_comparison_is_shown_by_every_estimator_that_both_have() -> None:
    one = report().attention
    counted = replace(one, options={**one.options, "word_counts": "some"})
    for left, right in ((one, one), (counted, one), (one, counted)):
        shown = tp.AttentionComparison(left, right)
        assert [row[0] for row in numbers_of(shown)] == list(one.estimators)
    assert numbers_of(one - one)[0][1] == "0", "nothing differs from itself"
