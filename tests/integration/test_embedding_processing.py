"""What loaders do to the weights, and that every result says which of them it measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import TopicLabels, probe, probe_contextual, probe_embedding

needs_hooked = pytest.mark.skipif(not helpers.HAS_HOOKED, reason="this TransformerLens has no HookedTransformer")
needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="this TransformerLens has no bridge")

LABELS = TopicLabels.from_dict({token: token % 3 for token in range(1, 40)})
DOCUMENTS = [[int(token) for token in row] for row in np.random.default_rng(5).integers(1, helpers.N_WORDS, (9, 14))]


def processed(**steps: bool) -> Any:
    """A HookedTransformer, processed as from_pretrained does it, as far as ``steps`` say."""
    every = ("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases")
    weights = {
        name: value.clone() for name, value in helpers.hooked_gpt2(helpers.tiny_gpt2().double()).state_dict().items()
    }
    model = helpers.hooked_transformer(
        normalization_type="LNPre" if steps.get("fold_ln") else "LN", act_fn="gelu_new", eps=1e-5, dtype=torch.float64
    )
    model.load_and_process_state_dict(weights, **{step: steps.get(step, False) for step in every})
    return model.eval()


@needs_hooked
def test_centred_weights_change_dot_products_as_the_docstring_says() -> None:
    """e_i . e_j - d_model m_i m_j, with m_i the mean of e_i over d_model; and ``matrix`` says that they are centred."""
    raw, centred = processed(), processed(fold_ln=True, center_writing_weights=True)
    one, other = probe_embedding(raw, LABELS), probe_embedding(centred, LABELS)
    assert one.matrix.endswith("(raw)")
    assert other.matrix.endswith("(layer norm folded, centred)")
    vectors = raw.W_E.detach().numpy()[1:40]
    means = vectors.mean(axis=1)
    gram = vectors @ vectors.T - vectors.shape[1] * np.outer(means, means)
    topics = np.arange(1, 40) % 3
    same = (topics[:, None] == topics) & ~np.eye(39, dtype=bool)
    expected = [gram[same].mean(), gram[topics[:, None] != topics].mean()]
    np.testing.assert_allclose(other.pairs.mean[0], expected, rtol=1e-5)  # processed in float32
    for row in range(3):
        assert not np.allclose(one.pairs.mean[row], other.pairs.mean[row], rtol=1e-3)


@needs_hooked
def test_folded_norms_alone_leave_the_embedding_as_it_was() -> None:
    raw, folded = probe_embedding(processed(), LABELS), probe_embedding(processed(fold_ln=True), LABELS)
    assert folded.matrix.endswith("(layer norm folded)")
    np.testing.assert_array_equal(folded.pairs.mean, raw.pairs.mean)


@needs_hooked
def test_attention_is_the_same_whatever_was_done_to_the_weights() -> None:
    """The model computes the same: only its vectors differ, in context as well."""
    raw, centred = processed(), processed(fold_ln=True, center_writing_weights=True)
    one, other = (probe(model, DOCUMENTS, LABELS, baseline=None, progress=False) for model in (raw, centred))
    np.testing.assert_allclose(one.attention.means("same_topic"), other.attention.means("same_topic"), rtol=1e-6)


@needs_hooked
def test_words_in_context_say_so_too_and_do_not_merge_with_raw_ones() -> None:
    """Every vector of the stream loses its own mean over d_model; the result names what was done."""
    raw, centred = processed(), processed(fold_ln=True, center_writing_weights=True)
    name = "blocks.0.hook_resid_post"
    (_, cache), (_, other_cache) = (model.run_with_cache(torch.tensor(DOCUMENTS)) for model in (raw, centred))
    expected = cache[name] - cache[name].mean(dim=-1, keepdim=True)
    np.testing.assert_allclose(other_cache[name].numpy(), expected.numpy(), atol=1e-4)
    one, other = (probe_contextual(model, DOCUMENTS, LABELS, progress=False) for model in (raw, centred))
    assert one.matrix.endswith("(raw)")
    assert other.matrix.endswith("(layer norm folded, centred)")
    assert not np.allclose(one.pairs.mean[:, 0], other.pairs.mean[:, 0], rtol=1e-3)
    with pytest.raises(ValueError, match="measured alike"):
        one.merge(other)


@needs_bridge
def test_the_probes_never_put_a_bridge_into_compatibility_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be undone. What a caller has done is said in the result, and what it does to dot products is seen."""
    model = helpers.bridge(helpers.tiny_gpt2().double())
    called: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("enable_compatibility_mode", "process_weights", "process_compatibility_weights"):
            if hasattr(type(model), name):
                patch.setattr(type(model), name, lambda *args, name=name, **kwargs: called.append(name))
        raw = probe_embedding(model, LABELS)
        probe(model, DOCUMENTS, LABELS, progress=False)
        in_context = probe_contextual(model, DOCUMENTS, LABELS, progress=False)
    assert called == []
    assert not model.compatibility_mode
    assert raw.matrix.endswith("(raw)")
    assert in_context.matrix.endswith("(raw)")
    model.enable_compatibility_mode(disable_warnings=True)
    other = probe_embedding(model, LABELS)
    assert "compatibility mode" in other.matrix
    changed = not np.allclose(raw.pairs.mean[0], other.pairs.mean[0], rtol=1e-3)
    assert changed == ("centred" in other.matrix)
    assert changed
