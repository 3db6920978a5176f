"""Memory is bounded: so many tokens in a batch, so many windows of the corpus at a time, halves after a shortage."""

from __future__ import annotations

import importlib
import random
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import TopicLabels, probe
from topic_probes.probes import _running
from topic_probes.tokens import DocumentReader

LABELS = TopicLabels.from_dict({token: token % 4 for token in range(40)})
_numbers = random.Random(4)
DOCUMENTS = [[_numbers.randrange(50) for _ in range(_numbers.randrange(2, 20))] for _ in range(14)]
RELATIVE = 1e-9
"""Float64 models: other batches mean other orders of sums inside the model."""


def run(model: Any, documents: Any = DOCUMENTS, **options: Any) -> Any:
    return probe(model, documents, LABELS, **{"baseline": None, "n_permutations": 2, "progress": False, **options})


def require_close(one: Any, other: Any) -> None:
    for name, array in one.totals.to_arrays().items():
        np.testing.assert_allclose(array, other.totals.to_arrays()[name], rtol=RELATIVE, atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(one.totals.n_rows, other.totals.n_rows)
    assert (one.tally, one.visibility) == (other.tally, other.visibility)


class Device:
    """Stands for a device with room for so many tokens: notes each batch, and refuses larger ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: float = float("inf"), error: Any = None) -> None:
        self.room = room
        self.shapes: list[tuple[int, ...]] = []
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        forward = _running.run_until_pattern

        def within_room(model: Any, token_ids: torch.Tensor, *rest: Any) -> None:
            # Halfway: the patterns have come and were counted when memory runs out.
            forward(model, token_ids, *rest)
            if token_ids.numel() > self.room:
                raise self.error
            self.shapes.append(tuple(token_ids.shape))

        monkeypatch.setattr(_running, "run_until_pattern", within_room)


@pytest.fixture(scope="module")
def model() -> Any:
    return helpers.build(helpers.KINDS[0])


@pytest.mark.parametrize(("rows", "tokens"), [(3, 40), (None, 40), (100, 1), (2, 10_000)])
def test_both_bounds_hold_and_change_nothing(
    rows: int | None, tokens: int, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is longer than the bound goes alone."""
    expected = run(model).attention
    device = Device(monkeypatch)
    found = run(model, batch_size=rows, tokens_per_batch=tokens).attention
    require_close(found, expected)
    assert sum(shape[0] for shape in device.shapes) == len(DOCUMENTS)
    assert all(shape[0] * shape[1] <= tokens or shape[0] == 1 for shape in device.shapes)
    assert all(rows is None or shape[0] <= rows for shape in device.shapes)


SHORTAGES = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("MPS backend out of memory (MPS allocated: 9.0 GB)"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
]


@pytest.mark.parametrize("error", SHORTAGES, ids=["CUDA", "MPS", "CPU"])
def test_after_a_shortage_batches_are_half_as_large_and_nothing_is_counted_twice(
    error: RuntimeError, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(model, baseline="random_init")
    room = 14 * 19 - 1
    device = Device(monkeypatch, room, error)
    with pytest.warns(
        UserWarning, match=r"out of memory on cpu with a batch of 14 rows of 19 tokens: .* at most 133 t"
    ):
        found = run(model, baseline="random_init")
    require_close(found.attention, expected.attention)
    require_close(found.baseline.attention, expected.baseline.attention)
    assert max(rows * length for rows, length in device.shapes) <= 133
    assert sum(rows for rows, _ in device.shapes) == 2 * len(DOCUMENTS)


def test_only_the_model_that_ran_short_is_tried_again(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trained model's batch was counted when the untrained one runs out of memory."""
    expected = run(model, baseline="random_init")
    device = Device(monkeypatch)
    forward, calls = _running.run_until_pattern, 0

    def short_once(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise device.error
        forward(*arguments)

    monkeypatch.setattr(_running, "run_until_pattern", short_once)
    with pytest.warns(UserWarning, match="out of memory"):
        found = run(model, baseline="random_init")
    require_close(found.attention, expected.attention)
    require_close(found.baseline.attention, expected.baseline.attention)
    assert device.shapes[0][0] == len(DOCUMENTS)


def test_a_second_shortage_is_an_error_that_says_what_to_do(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Device(monkeypatch, room=30)
    with (
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(torch.OutOfMemoryError, match=r"half of what there was before: pass a smaller tokens_per_batch"),
    ):
        run(model)


def test_a_shortage_with_one_row_is_an_error_at_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Device(monkeypatch, room=5)
    with pytest.raises(torch.OutOfMemoryError, match=r"with one row of 19 tokens: pass a smaller max_length"):
        run(model, batch_size=1)


def test_other_errors_are_not_taken_for_a_shortage(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, room=5, error=RuntimeError("expected scalar type Half but found Float"))
    with pytest.raises(RuntimeError, match="expected scalar type Half"):
        run(model)
    assert device.shapes == []


@pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
def test_a_model_without_pads_runs_short_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes its rows by length, and then fewer of them."""
    unheeding = helpers.hooked_transformer(attention_dir="bidirectional", dtype=torch.float64)
    documents = [[number % 50 for number in range(start, start + 9)] for start in range(12)] + DOCUMENTS
    expected = run(unheeding, documents, batch_size=30).attention
    device = Device(monkeypatch, room=100)
    with pytest.warns(UserWarning, match="out of memory"):
        found = run(unheeding, documents, batch_size=30).attention
    require_close(found, expected)
    assert sum(rows for rows, _ in device.shapes) == len(documents)


def test_no_more_of_a_corpus_is_held_than_a_stretch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 documents never more than the 32 batches that are sorted together, and those before them."""
    made: list[weakref.ref] = []
    most = 0
    windows_of = DocumentReader.windows

    def noted(self: DocumentReader, document: Any) -> Iterator[Any]:
        nonlocal most
        for window in windows_of(self, document):
            made.append(weakref.ref(window))
            most = max(most, sum(one() is not None for one in made))
            yield window

    monkeypatch.setattr(DocumentReader, "windows", noted)
    run(model, [[1, 2, number % 40] for number in range(200)], batch_size=1, layers=[0], n_permutations=0)
    assert 32 <= most <= 2 * 32 + 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["probe", "fit_lda"])
def test_peak_memory_does_not_grow_with_the_corpus(
    name: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times as many documents, each in a process of its own; `benchmarks/run.py memory` takes a hundred times."""
    pytest.importorskip("resource", reason="peak memory is asked of the operating system by a module of Unix")
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    memory = importlib.import_module("memory")
    few, many = (memory._measure(name, n) for n in (100, 1000))
    assert few > 50
    assert many - few < memory.TARGET_MEGABYTES
