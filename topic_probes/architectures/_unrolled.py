"""ALBERT's loop over shared weights, unrolled: one module for each layer, and still one set of weights.

ALBERT applies the same layer again and again. A hook on that one module cannot tell the passes apart,
and a bridge needs a list with one entry a layer. The unrolled encoder has such a list; its entries are
modules of their own that hold *the same* parameter objects. Training, moving or replacing a weight in
one of them does so in all; ``parameters()`` gives each once.

With ``inner_group_num`` above 1, a pass goes through several layers with weights of their own, and
transformers returns attention for each; each is a layer here.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any


def unroll(encoder: Any) -> Any:
    """Return an encoder that computes what ``encoder`` does and has a list ``layers``.

    Args:
        encoder: transformers' ``AlbertTransformer``. One that is unrolled already is returned as it is.
    """
    from torch import nn
    from transformers.modeling_outputs import BaseModelOutput

    if hasattr(encoder, "layers"):
        return encoder

    class UnrolledEncoder(nn.Module):
        """The projection and the list of layers, called one after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.config = encoder.config
            self.embedding_hidden_mapping_in = encoder.embedding_hidden_mapping_in
            self.layers = nn.ModuleList(_twin(layer) for layer in _in_order(encoder))

        def forward(self, hidden_states: Any, attention_mask: Any = None, **options: Any) -> Any:
            hidden_states = self.embedding_hidden_mapping_in(hidden_states)
            for layer in self.layers:
                hidden_states = layer(hidden_states, attention_mask, **options)
            return BaseModelOutput(last_hidden_state=hidden_states)

    return UnrolledEncoder().train(encoder.training)


def _in_order(encoder: Any) -> list[Any]:
    """Return the layers in the order of their passes; a layer comes as often as it is passed."""
    config = encoder.config
    # The passes are dealt out evenly: the first n_passes / n_groups to the first group, and so on.
    passes_a_group = config.num_hidden_layers / config.num_hidden_groups
    groups = [encoder.albert_layer_groups[int(number / passes_a_group)] for number in range(config.num_hidden_layers)]
    return [layer for group in groups for layer in group.albert_layers]


def _twin(layer: Any) -> Any:
    """Return a copy of the module tree around the very same parameters and buffers."""
    shared = itertools.chain(layer.parameters(), layer.buffers())
    return copy.deepcopy(layer, {id(tensor): tensor for tensor in shared} | {id(layer.config): layer.config})
