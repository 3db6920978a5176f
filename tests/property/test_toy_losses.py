"""The quick loss of a toy model is the straightforward one, for any documents, and so is its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from topic_probes.toy import TopicTransformer
from topic_probes.toy._bags import make_loss
from topic_probes.toy._documents import Bag, read_documents
from topic_probes.toy._masking import MaskedBag, mask_documents
from topic_probes.toy._masking_rates import MaskingRates

N_WORDS = 4
DOCUMENTS = st.lists(st.lists(st.integers(0, N_WORDS - 1), min_size=1, max_size=8), min_size=1, max_size=5)
OPTIONS = st.fixed_dictionaries(
    {
        "embedding": st.sampled_from(["one_hot", "trained"]),
        "value": st.sampled_from(["trained", "identity"]),
        "attention": st.sampled_from(["trained", "uniform"]),
        "bias": st.just(True),
    }
)
LOSSES = st.sampled_from(["cross_entropy", "squared"])


def make(options: dict[str, Any], seed: int) -> TopicTransformer:
    model = TopicTransformer(N_WORDS, init_scale=1.0, seed=seed, **options).double()
    with torch.no_grad():
        model.b_U.copy_(torch.linspace(-1, 1, N_WORDS))
    return model


def masked(documents: list[list[int]], seed: int) -> MaskedBag:
    rates = MaskingRates(0.5, 0.2, 0.2)
    return mask_documents(read_documents(documents, N_WORDS), rates, N_WORDS, np.random.default_rng(seed))


def by_loops(model: TopicTransformer, batch: MaskedBag, loss: str) -> float:
    """The mean over masked positions, document by document and without pads."""
    shown = batch.shown
    terms = []
    for at, target in zip(batch.masked, batch.targets, strict=True):
        number = int(shown.document[at])
        start, length = int(shown.starts[number]), int(shown.lengths[number])
        row = torch.from_numpy(shown.tokens[start : start + length])
        logits = model(row[None])[0, at - start].detach().numpy()
        if loss == "cross_entropy":
            terms.append(float(np.log(np.exp(logits).sum()) - logits[target]))
        else:
            terms.append(float(((logits - np.eye(N_WORDS)[target]) ** 2).sum()))
    return sum(terms) / len(terms)


@given(DOCUMENTS, OPTIONS, LOSSES, st.integers(0, 99))
@settings(max_examples=60)
def test_both_ways_give_the_loss_of_the_loops(
    documents: list[list[int]], options: dict[str, Any], loss: str, seed: int
) -> None:
    """In float64 to rounding; gradients of all trained matrices agree as well."""
    batch = masked(documents, seed)
    quick, plain = make(options, seed), make(options, seed)
    values = [make_loss(model, loss, N_WORDS, fast=fast)(batch) for model, fast in ((quick, True), (plain, False))]
    assert values[0].item() == pytest.approx(by_loops(quick, batch, loss), rel=1e-9, abs=1e-9)
    assert values[0].item() == pytest.approx(values[1].item(), rel=1e-9, abs=1e-9)
    for value in values:
        value.backward()
    for (name, one), (_, other) in zip(quick.named_parameters(), plain.named_parameters(), strict=True):
        assert one.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-7, atol=1e-9, msg=name)


@given(DOCUMENTS, OPTIONS, LOSSES, st.integers(0, 99), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_order_of_documents_does_not_matter(
    documents: list[list[int]], options: dict[str, Any], loss: str, seed: int, shuffler: Any
) -> None:
    """The loss is a mean over masked positions, wherever they stand."""
    batch, model = masked(documents, seed), make(options, seed)
    order = list(range(len(documents)))
    shuffler.shuffle(order)
    chosen = np.zeros(len(batch.shown.tokens), dtype=np.int64)
    chosen[batch.masked] = batch.targets + 1
    marks = Bag(chosen, batch.shown.lengths).take(np.array(order)).tokens
    again = MaskedBag(batch.shown.take(np.array(order)), np.flatnonzero(marks), marks[marks > 0] - 1)
    loss_of = make_loss(model, loss, N_WORDS, fast=True)
    assert loss_of(again).item() == pytest.approx(loss_of(batch).item(), rel=1e-9, abs=1e-9)
