"""Opening a pretrained model as a TransformerLens model, in the form that probes need."""

from ._loading import load_model

__all__ = ["load_model"]
