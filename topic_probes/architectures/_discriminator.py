"""How a loader that chooses the class by the configuration is brought to ELECTRA's discriminator.

TransformerLens loads an architecture that it does not know by ``AutoModelForCausalLM``, which takes the
type of the configuration for the whole truth: for ELECTRA's it makes a causal model, whose head would be
random. A configuration of a type of its own, known to that loader as the discriminator's, and to nobody
else, gets the class that the checkpoint was saved from. Once it is loaded the type is put back.
"""

from __future__ import annotations

import copy
import functools
from typing import Any


@functools.cache
def _marked_type() -> Any:
    from transformers import AutoModelForCausalLM, ElectraConfig, ElectraForPreTraining

    # The loader compares the name of the type with that of the model's configuration.
    marked_type = type("ElectraConfig", (ElectraConfig,), {"__module__": __name__})
    AutoModelForCausalLM.register(marked_type, ElectraForPreTraining, exist_ok=True)
    return marked_type


def marked(config: Any) -> Any:
    """Return a copy of an ``ElectraConfig`` for which loaders make the discriminator."""
    twin = copy.copy(config)
    twin.__class__ = _marked_type()
    return twin


def unmark(config: Any) -> None:
    """Give a configuration back the type that transformers knows."""
    if isinstance(config, _marked_type()):
        config.__class__ = type(config).__mro__[1]
