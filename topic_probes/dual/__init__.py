"""Softmax attention as a dual model of in-context learning: attending to demonstrations is one gradient step."""

from ._arrays import demonstration_mask
from ._attach import HeadDual, attach_head
from ._bound import BoundSimulation, GeneralisationBound, generalisation_bound, simulate_bound
from ._by_topic import ContributionsByTopic, contributions_by_topic
from ._features import ExactFeatures, FeatureMap, KernelFeatures, PositiveFeatures, TrigonometricFeatures
from ._fit import Dual, DualModel, DualTraining, fit
from ._modifications import augmented, negative_samples, regularised
from ._modified import (
    augmented_attention,
    negative_sample_attention,
    negative_sample_weights,
    regularised_attention,
    regularised_weights,
)
from ._regression import (
    AUGMENTATIONS,
    REGRESSION_TASKS,
    InContextRegressor,
    RegressionBench,
    regression_bench,
    regression_prompts,
)
from ._trace import trace

__all__ = [
    "Dual",
    "DualModel",
    "DualTraining",
    "fit",
    "HeadDual",
    "attach_head",
    "ContributionsByTopic",
    "contributions_by_topic",
    "trace",
    "augmented",
    "negative_samples",
    "regularised",
    "ExactFeatures",
    "FeatureMap",
    "KernelFeatures",
    "PositiveFeatures",
    "TrigonometricFeatures",
    "demonstration_mask",
    "augmented_attention",
    "negative_sample_attention",
    "negative_sample_weights",
    "regularised_attention",
    "regularised_weights",
    "BoundSimulation",
    "GeneralisationBound",
    "generalisation_bound",
    "simulate_bound",
    "AUGMENTATIONS",
    "REGRESSION_TASKS",
    "InContextRegressor",
    "RegressionBench",
    "regression_bench",
    "regression_prompts",
]
