"""The tables of TransformerLens in which an architecture has to stand to be opened.

``ArchitectureAdapterFactory._adapters`` makes adapters; ``register_adapter`` and entry points fill it, and an
entry point for a name that stands there already is refused with a warning. ``SUPPORTED_ARCHITECTURES`` is
what ``boot_transformers`` reads off a checkpoint's configuration, before any entry point is loaded;
nothing but the library itself fills it. A native adapter is never replaced in either.
"""

from __future__ import annotations

from typing import Any

from ._adapter import adapter_class
from ._layouts import LAYOUTS

NATIVE_IN_SOME = frozenset({"RobertaForMaskedLM"})
"""Architectures that some supported release has an adapter for: no entry points, which would warn there."""


def register() -> tuple[str, ...]:
    """Let TransformerLens open the architectures of this package that it does not open itself.

    Safe to call at any time and again. Adapters that somebody else has registered stay.

    Returns:
        The architectures that are opened by an adapter of this package; none in transformer-lens 2.x.

    Examples:
        >>> import topic_probes.architectures
        >>> mine = topic_probes.architectures.register()
        >>> set(mine) <= set(topic_probes.architectures.ADAPTERS.values())
        True
    """
    factory = _factory()
    if factory is None:
        return ()
    # First the entry points: one whose name stood there already would be warned about.
    factory.ArchitectureAdapterFactory.discover_entry_points()
    known = factory.ArchitectureAdapterFactory._adapters
    for name in LAYOUTS.keys() - known.keys():
        factory.ArchitectureAdapterFactory.register_adapter(name, adapter_class(name))
    tell_tables()
    return tuple(name for name in LAYOUTS if known[name] is adapter_class(name))


def tell_tables() -> None:
    """Fill what an entry point does not: called when the first of them is loaded."""
    factory = _factory()
    if factory is None:
        return
    known = factory.ArchitectureAdapterFactory._adapters
    for name in NATIVE_IN_SOME - known.keys():
        factory.ArchitectureAdapterFactory.register_adapter(name, adapter_class(name))
    for name in LAYOUTS:
        factory.SUPPORTED_ARCHITECTURES.setdefault(name, known.get(name, adapter_class(name)))


def _factory() -> Any:
    """Return TransformerLens' module of adapters, or None where there are no bridges."""
    try:
        from transformer_lens.factories import architecture_adapter_factory
    except ImportError:
        return None
    return architecture_adapter_factory
