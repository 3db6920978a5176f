"""One adapter class for each layout, made when TransformerLens is there to derive it from."""

from __future__ import annotations

import functools
from typing import Any

from ._layouts import LAYOUTS, EncoderLayout, LayerLayout


@functools.cache
def adapter_class(architecture: str) -> Any:
    """Return the adapter class (a subclass of TransformerLens' ``ArchitectureAdapter``) of a Hugging Face class.

    Args:
        architecture: a key of :data:`topic_probes.architectures._layouts.LAYOUTS`.

    Raises:
        ImportError: if the installed transformer-lens has no bridges.
    """
    try:
        from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter
    except ImportError as error:
        raise ImportError(
            f"an adapter for {architecture} needs a transformer-lens with TransformerBridge: "
            'pip install "transformer-lens>=3"'
        ) from error

    layout = LAYOUTS[architecture]

    class EncoderAdapter(ArchitectureAdapter):
        """Wires a Hugging Face encoder to TransformerLens' names."""

        supports_generation = False
        # A masked model sees the token it would have to predict, and a discriminator predicts none.
        supports_causal_loss = False
        # Folding takes a norm to come before what it is folded into; here the norms come after the sums.
        supports_fold_ln = False

        def __init__(self, cfg: Any) -> None:
            super().__init__(cfg)
            cfg.normalization_type = "LN"
            cfg.positional_embedding_type = "standard"
            cfg.attention_dir = "bidirectional"
            cfg.final_rms = cfg.gated_mlp = cfg.attn_only = False
            self.weight_processing_conversions = dict(self._qkvo_weight_conversions(include_biases=True))
            self.component_mapping = components(cfg, layout)

        def prepare_loading(self, model_name: str, model_kwargs: dict[str, Any]) -> None:
            """Make the loader take the class that this adapter is for."""
            if architecture == "ElectraForPreTraining":
                from ._discriminator import marked

                model_kwargs["config"] = marked(model_kwargs["config"])

        def prepare_model(self, hf_model: Any) -> None:
            """Fit model, components and configuration to each other."""
            trunk = getattr(hf_model, layout.trunk)
            if layout.shared_layers:
                from ._unrolled import unroll

                trunk.encoder = unroll(trunk.encoder)
                self.cfg.n_layers = len(trunk.encoder.layers)
            if architecture == "ElectraForPreTraining":
                from ._discriminator import unmark

                unmark(hf_model.config)
            if layout.projection is not None and _has(trunk, layout.projection):
                from transformer_lens.model_bridge.generalized_components import LinearBridge

                self.components["embed_project"] = LinearBridge(name=f"{layout.trunk}.{layout.projection}")
            if layout.positions_after_padding:
                table = trunk.embeddings.position_embeddings
                self.cfg.n_ctx = table.num_embeddings - (table.padding_idx or 0) - 1
            for name, value in layout.settings.items():
                setattr(self.cfg, name, getattr(hf_model.config, value) if isinstance(value, str) else value)

    EncoderAdapter.__name__ = EncoderAdapter.__qualname__ = f"{architecture}Adapter"
    return EncoderAdapter


def components(cfg: Any, layout: EncoderLayout) -> dict[str, Any]:
    """Return TransformerLens' components by name, for all parts that every model of the layout has.

    Args:
        cfg: the bridge's configuration.
        layout: where the parts are.
    """
    from transformer_lens.model_bridge import generalized_components as parts

    def norm(path: str) -> Any:
        # The native norm's own arithmetic, so that values equal those of transformers to the last bit.
        return parts.NormalizationBridge(name=path, config=cfg, use_native_layernorm_autograd=True)

    embeddings = f"{layout.trunk}.embeddings"
    mapping: dict[str, Any] = {
        "embed": parts.EmbeddingBridge(name=f"{embeddings}.word_embeddings"),
        "pos_embed": parts.PosEmbedBridge(name=f"{embeddings}.position_embeddings"),
        "embed_ln": norm(f"{embeddings}.LayerNorm"),
        "blocks": _block(cfg, f"{layout.trunk}.{layout.layers}", layout.layer, norm),
    }
    if layout.token_types:
        mapping["token_type_embed"] = parts.EmbeddingBridge(name=f"{embeddings}.token_type_embeddings")
    for name, path in layout.head.items():
        if name == "unembed":
            mapping[name] = parts.UnembeddingBridge(name=path)
        else:
            mapping[name] = norm(path) if name == "ln_final" else parts.LinearBridge(name=path)
    return mapping


def _block(cfg: Any, path: str, layer: LayerLayout, norm: Any) -> Any:
    from transformer_lens.model_bridge import generalized_components as parts

    linear = parts.LinearBridge
    attention = parts.AttentionBridge(
        name=layer.attention,
        config=cfg,
        submodules={name: linear(name=getattr(layer, name)) for name in ("q", "k", "v", "o")},
    )
    mlp = parts.MLPBridge(
        name=layer.mlp, config=cfg, submodules={"in": linear(name=layer.mlp_in), "out": linear(name=layer.mlp_out)}
    )
    # Where no module is around the two matrices, nothing calls the MLP component and its own hooks stay silent.
    aliases = {"hook_mlp_in": "mlp.in.hook_in", "hook_mlp_out": "mlp.out.hook_out"}
    return parts.BlockBridge(
        name=path,
        hook_alias_overrides=aliases,
        submodules={"ln1": norm(layer.ln1), "ln2": norm(layer.ln2), "attn": attention, "mlp": mlp},
    )


def _has(module: Any, path: str) -> bool:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module is not None
