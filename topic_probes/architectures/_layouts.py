"""Where each encoder keeps its parts: dotted paths in the module tree of its Hugging Face class.

All five are BERT's design: word, position and (but for DistilBERT) token type embeddings, summed and
normalised; layers of attention, layer norm, feed-forward, layer norm, the norms after the residual
sums; a head that transforms, normalises and reads out the vocabulary. They differ in names, in three
points of structure that have fields here, and in one that has a file of its own:

- ELECTRA and ALBERT have embeddings of another width than the layers, and a projection in between.
- ELECTRA's discriminator has no vocabulary at its output.
- RoBERTa counts positions from behind the padding index.
- ALBERT has one set of weights for all layers (:mod:`topic_probes.architectures._unrolled`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LayerLayout:
    """Paths inside one layer. Queries, keys, values and output are paths inside ``attention``."""

    attention: str
    """Returns the pair (output, pattern [batch, head_index, query_pos, key_pos]): the pattern hook is on its second."""
    q: str
    k: str
    v: str
    o: str
    ln1: str
    """Normalises the sum of the layer's input and the attention's output."""
    mlp: str | None
    """None where the two feed-forward matrices stand in the layer itself."""
    mlp_in: str
    """Inside ``mlp``, or inside the layer where that is None."""
    mlp_out: str
    ln2: str
    """Normalises the sum that the layer ends with."""


BERT_LAYER = LayerLayout(
    attention="attention",
    q="self.query",
    k="self.key",
    v="self.value",
    o="output.dense",
    ln1="attention.output.LayerNorm",
    mlp=None,
    mlp_in="intermediate.dense",
    mlp_out="output.dense",
    ln2="output.LayerNorm",
)
"""BERT's layer, which ELECTRA and RoBERTa have unchanged."""

ALBERT_LAYER = LayerLayout(
    attention="attention",
    q="query",
    k="key",
    v="value",
    o="dense",
    ln1="attention.LayerNorm",
    mlp=None,
    mlp_in="ffn",
    mlp_out="ffn_output",
    ln2="full_layer_layer_norm",
)
"""Attention is one flat module here, its layer norm inside it; the feed-forward matrices stand in the layer."""

DISTILBERT_LAYER = LayerLayout(
    attention="attention",
    q="q_lin",
    k="k_lin",
    v="v_lin",
    o="out_lin",
    ln1="sa_layer_norm",
    mlp="ffn",
    mlp_in="lin1",
    mlp_out="lin2",
    ln2="output_layer_norm",
)
"""Layer norms stand in the layer, so ``hook_attn_out`` is before the residual sum (after ``ln1`` in the others)."""


@dataclass(frozen=True)
class EncoderLayout:
    """Paths of one Hugging Face class, and what a configuration does not say about it."""

    trunk: str
    """The attribute that holds the headless model."""
    layers: str
    """The list of layers, inside the trunk."""
    layer: LayerLayout
    head: dict[str, str]
    """Name of the component -> path from the root, for the head on top of the layers."""
    token_types: bool = True
    """Whether there is ``embeddings.token_type_embeddings``."""
    projection: str | None = None
    """Path inside the trunk of the linear map from embedding width to layer width, where a model has it."""
    shared_layers: bool = False
    """Whether the layers have to be unrolled first."""
    positions_after_padding: bool = False
    """Whether the first ``padding_idx + 1`` rows of the position table stand for no position."""
    settings: dict[str, str | float] = field(default_factory=dict)
    """Field of TransformerLens' cfg -> its value, or the name of the Hugging Face field that holds it."""


_ELECTRA = {"trunk": "electra", "layers": "encoder.layer", "layer": BERT_LAYER, "projection": "embeddings_project"}

LAYOUTS: dict[str, EncoderLayout] = {
    # The generator. Its transform and norm are one module, the read-out another, at the root.
    "ElectraForMaskedLM": EncoderLayout(
        **_ELECTRA,
        head={
            "mlm_head": "generator_predictions.dense",
            "ln_final": "generator_predictions.LayerNorm",
            "unembed": "generator_lm_head",
        },
    ),
    # The discriminator says for each token whether it was replaced: one number a token, and no unembedding.
    "ElectraForPreTraining": EncoderLayout(
        **_ELECTRA,
        head={
            "discriminator_head": "discriminator_predictions.dense",
            "discriminator_out": "discriminator_predictions.dense_prediction",
        },
    ),
    # ``encoder.layers`` is made by unrolling; Hugging Face's ``encoder.albert_layer_groups`` holds each weight once.
    "AlbertForMaskedLM": EncoderLayout(
        trunk="albert",
        layers="encoder.layers",
        layer=ALBERT_LAYER,
        projection="encoder.embedding_hidden_mapping_in",
        shared_layers=True,
        head={"mlm_head": "predictions.dense", "ln_final": "predictions.LayerNorm", "unembed": "predictions.decoder"},
    ),
    # The three parts of the head stand at the root. Its configuration has names of its own for width and activation
    # of the feed-forward part, and none for the epsilon of the norms, which is written into the class.
    "DistilBertForMaskedLM": EncoderLayout(
        trunk="distilbert",
        layers="transformer.layer",
        layer=DISTILBERT_LAYER,
        token_types=False,
        head={"mlm_head": "vocab_transform", "ln_final": "vocab_layer_norm", "unembed": "vocab_projector"},
        settings={"d_mlp": "hidden_dim", "act_fn": "activation", "eps": 1e-12},
    ),
    # Only for transformer-lens 3.x: 4.x has its own.
    "RobertaForMaskedLM": EncoderLayout(
        trunk="roberta",
        layers="encoder.layer",
        layer=BERT_LAYER,
        positions_after_padding=True,
        head={"mlm_head": "lm_head.dense", "ln_final": "lm_head.layer_norm", "unembed": "lm_head.decoder"},
    ),
}
"""Hugging Face class -> its layout."""
