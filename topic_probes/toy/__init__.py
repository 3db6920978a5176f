"""The toy laboratory: one attention layer learns topics from nothing, and is watched while it does.

Li, Li and Risteski (ICML 2023, arXiv 2303.04245) train a transformer of one layer and one head on documents drawn
from a topic model, and prove where its matrices go. Here are that model, its training, and the same function as a model
of TransformerLens; what theory says of the optimum; measures of topic structure; and grids of runs.

Word ids are 0 .. n_words-1, and ``n_words`` is the id of [MASK]. Matrices keep the paper's letters and its convention
of column vectors: ``W_V[i, j]`` leads from coordinate j of the input to coordinate i of the output.

Names are loaded when they are first used: a formula needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._embedding_gram import EmbeddingGram, optimal_embedding_gram
    from ._history import ToyRun
    from ._logging import log_to
    from ._masking_rates import MaskingRates
    from ._matrices import logits_and_scores
    from ._measures import (
        BlockContrast,
        OptimumDistance,
        TopicAttention,
        block_contrast,
        distance_to_optimum,
        topic_attention,
    )
    from ._model import TopicTransformer
    from ._optimal_attention import OptimalAttention, optimal_attention
    from ._population_loss import PopulationLoss, population_loss
    from ._sweep import Sweep, TwoStages, sweep
    from ._train import train
    from ._transformer_lens import to_transformer_lens
    from ._value_matrix import ValueMatrix, numerical_value_matrix, optimal_value_matrix

_HOME = {
    "TopicTransformer": "_model",
    "to_transformer_lens": "_transformer_lens",
    "train": "_train",
    "log_to": "_logging",
    "ToyRun": "_history",
    "sweep": "_sweep",
    "Sweep": "_sweep",
    "TwoStages": "_sweep",
    "MaskingRates": "_masking_rates",
    "optimal_value_matrix": "_value_matrix",
    "numerical_value_matrix": "_value_matrix",
    "ValueMatrix": "_value_matrix",
    "optimal_embedding_gram": "_embedding_gram",
    "EmbeddingGram": "_embedding_gram",
    "optimal_attention": "_optimal_attention",
    "OptimalAttention": "_optimal_attention",
    "population_loss": "_population_loss",
    "PopulationLoss": "_population_loss",
    "block_contrast": "_measures",
    "BlockContrast": "_measures",
    "topic_attention": "_measures",
    "TopicAttention": "_measures",
    "distance_to_optimum": "_measures",
    "OptimumDistance": "_measures",
    "logits_and_scores": "_matrices",
}

__all__ = [
    "TopicTransformer",
    "to_transformer_lens",
    "train",
    "log_to",
    "ToyRun",
    "sweep",
    "Sweep",
    "TwoStages",
    "MaskingRates",
    "optimal_value_matrix",
    "numerical_value_matrix",
    "ValueMatrix",
    "optimal_embedding_gram",
    "EmbeddingGram",
    "optimal_attention",
    "OptimalAttention",
    "population_loss",
    "PopulationLoss",
    "block_contrast",
    "BlockContrast",
    "topic_attention",
    "TopicAttention",
    "distance_to_optimum",
    "OptimumDistance",
    "logits_and_scores",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
