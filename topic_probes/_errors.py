"""Exceptions that a caller may want to catch by name; everything else is ValueError or TypeError."""

from __future__ import annotations


class CorpusError(ValueError):
    """A corpus cannot be read, or nothing in it can be used. The message says where, and the way out."""


class PatternError(RuntimeError):
    """A model did not hand out the attention patterns that were asked for."""


class DistributedError(RuntimeError):
    """One of the processes of a run failed or was lost, so none has a result. The message says which."""
