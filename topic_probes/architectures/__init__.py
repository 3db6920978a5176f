"""Encoders that TransformerLens does not open yet: ELECTRA, ALBERT, DistilBERT, and RoBERTa in 3.x.

An adapter tells a TransformerBridge where a Hugging Face model keeps its embeddings, layers and head
(:mod:`topic_probes.architectures._layouts` has the table). With it ``blocks.{i}.attn.hook_pattern``
is what transformers returns as ``attentions[i]``, and ``blocks.{i}.hook_in``, ``hook_embed`` and the
other names are those of TransformerLens' own bridge of BERT.

The adapters are entry points of the group ``transformer_lens.architectures``. TransformerLens loads
those when the first bridge of a process is built. ``TransformerBridge.boot_transformers`` looks up the
architecture in a table of its own before that, so its first call does not know them; :func:`register`
fills both tables. An architecture that TransformerLens has an adapter for is left to it.

transformer-lens 2.x has no bridges: there :func:`register` does nothing.
"""

from __future__ import annotations

from typing import Any

from ._adapter import adapter_class
from ._layouts import LAYOUTS
from ._registration import register, tell_tables

__all__ = ["ADAPTERS", "register"]

ADAPTERS = {f"{architecture}Adapter": architecture for architecture in LAYOUTS}
"""Name of the adapter class in this module -> the Hugging Face class that it is for."""


def __getattr__(name: str) -> Any:
    """Return an adapter class, made when it is first asked for: it needs TransformerLens.

    This is what an entry point loads, so the tables that no entry point fills are filled here.
    """
    if name not in ADAPTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    adapter = adapter_class(ADAPTERS[name])
    tell_tables()
    return adapter


def __dir__() -> list[str]:
    return sorted([*globals(), *ADAPTERS])
