"""Topics of words: fit a topic model, or bring one, and label words with the topics that they speak of.

=====================  ==================================================================
:func:`fit_lda`        documents -> :class:`TopicModel`, with gensim underneath
:class:`TopicModel`    ``P(word | topic)``; shares ``P(topic | word)``; coherence; saved without pickle
:class:`TopicLabels`   words, or token ids, and the set of topics that each of them carries
=====================  ==================================================================
"""

from __future__ import annotations

from ._fitting import fit_lda
from ._labels import TopicLabels
from ._model import TopicModel

__all__ = ["TopicLabels", "TopicModel", "fit_lda"]
