"""A run that is taken up again, from wherever reading stopped, ends bit for bit like one that never did."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

import helpers
from topic_probes import CorpusError, ProbeReport, TopicLabels, probe

LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})
CERTAIN = [[1, 2, 3, 5]]
"""A document with pairs of both classes, so that no corpus is without."""


@functools.cache
def model() -> Any:
    return helpers.build(helpers.KINDS[0])


class Stopping(list):
    """Documents, the reading of which fails at one of them."""

    stops_at: int | None = None

    def __iter__(self) -> Iterator[Any]:
        for number, document in enumerate(super().__iter__()):
            if number == self.stops_at:
                raise CorpusError("stopped")
            yield document


LENGTHS = st.lists(st.one_of(st.just(0), st.integers(1, 12), st.integers(30, 45)), min_size=20, max_size=40)
"""Of documents; the longest are read in windows."""
ROWS = st.one_of(st.none(), st.integers(1, 2))
STOPS = st.lists(st.floats(0, 1), min_size=1, max_size=2).map(sorted)
"""Where reading stops, once or twice, as a share of the documents."""


# An example takes a second, so a failing one is not shrunk: that would take minutes.
@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(LENGTHS, ROWS, st.integers(1, 6), STOPS, st.integers(0, 99))
def test_a_run_may_stop_at_any_document(lengths, rows, tokens, stops, seed) -> None:
    numbers = np.random.default_rng(seed)
    documents = Stopping(CERTAIN + [numbers.integers(0, helpers.N_WORDS, length).tolist() for length in lengths])
    options = {"batch_size": rows, "tokens_per_batch": tokens, "layers": [1], "n_permutations": 2}
    with tempfile.TemporaryDirectory() as folder:
        kept = {"checkpoint": Path(folder) / "states", "checkpoint_every": 1, "resume": True}
        for stop in stops:
            documents.stops_at = round(stop * (len(documents) - 1))
            with pytest.raises(CorpusError, match="stopped"):
                run(documents, **options, **kept)
            n_states = len(list(kept["checkpoint"].glob("state-*")))
            assert n_states <= 1
            event(f"{n_states} states were kept")
        documents.stops_at = None
        require_equal(run(documents, **options, **kept), run(documents, **options))


def run(documents: Any, **options: Any) -> ProbeReport:
    return probe(model(), documents, LABELS, baseline=None, progress=False, **options)


def require_equal(one: ProbeReport, other: ProbeReport) -> None:
    for name, array in one.attention.totals.to_arrays().items():
        np.testing.assert_array_equal(array, other.attention.totals.to_arrays()[name], err_msg=name)
    assert one.attention.tally == other.attention.tally
    assert one.attention.visibility == other.attention.visibility
