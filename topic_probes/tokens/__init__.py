"""Words and model tokens: where each word of a document stands among the tokens that a model reads."""

from ._reader import DocumentReader
from ._vocabulary import whole_word_tokens
from ._windows import Window

__all__ = ["DocumentReader", "Window", "whole_word_tokens"]
