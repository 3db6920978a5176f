"""Halves that are merged are the whole: sums, groups of documents and intervals, by probe and by attach."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import helpers
from topic_probes import TopicLabels, attach, probe

KIND = "GPT-2 bridge" if helpers.HAS_BRIDGE else "HookedTransformer"
LABELS = TopicLabels.from_dict({token: token % 3 for token in range(1, 40)})
DOCUMENTS = [[int(token) for token in row] for row in np.random.default_rng(5).integers(1, helpers.N_WORDS, (12, 14))]


def by_probe(model, documents):
    return probe(model, documents, LABELS, baseline=None, progress=False).attention


def by_attach(model, documents):
    with attach(model, LABELS) as attached:
        for document in documents:
            model(torch.tensor([document]))
    return attached.result()


@pytest.mark.parametrize("way", [by_probe, by_attach])
def test_merged_halves_have_the_groups_and_intervals_of_the_whole(way) -> None:
    """Documents without an id are told apart by their content, not by their place in a list."""
    model = helpers.build(KIND)
    whole = way(model, DOCUMENTS)
    halves = way(model, DOCUMENTS[:5]).merge(way(model, DOCUMENTS[5:]))
    assert whole.headline().n_groups >= 8
    np.testing.assert_array_equal(halves.totals.n_rows, whole.totals.n_rows)
    np.testing.assert_array_equal(halves.totals.counts, whole.totals.counts)
    np.testing.assert_allclose(halves.to_frame(), whole.to_frame(), rtol=1e-9)


def test_results_of_other_weights_do_not_merge() -> None:
    """Two checkpoints of one name are two models."""
    one, other = (by_probe(helpers.build(KIND, seed=seed), DOCUMENTS) for seed in (0, 9))
    with pytest.raises(ValueError, match="weights_digest"):
        one.merge(other)


def test_one_document_many_times_is_one_group() -> None:
    """Copies say nothing new: they give no interval instead of one of width zero."""
    result = by_probe(helpers.build(KIND), [DOCUMENTS[0]] * 30)
    assert result.headline().n_groups == 1
    assert np.isnan(result.headline().ratio_low)
