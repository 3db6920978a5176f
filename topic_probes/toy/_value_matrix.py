r"""The optimal value matrix: what training of the value matrix alone must come to (Li et al. 2023).

*Uniform attention, squared loss.* The output is W x, and the loss per masked position (squared error against the
one-hot true word, summed over words) is ``|W x - P|^2 + 1 - 1 / (tau v)``, in the notation of
:mod:`topic_probes.toy._infinite_documents`. The second part no model can avoid. Write D for
``a^2 T v + (1 - a)^2``. For every tau < T:

- a W of excess 0 exists; among all of them the one of smallest Frobenius norm has three values,
  :func:`optimal_value_matrix`, and does not depend on tau. Gradient descent from zero leads to it.
- *any* W of excess 0 has, in each row, the same gap 1 / (c v) between the mean of the word's own topic and the mean of
  any other topic.

Both are proved: differences between topic sets fix the gaps, and the rest is a quadratic in one unknown.
:func:`numerical_value_matrix` is only computed: the check of the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._html import html_table
from ._infinite_documents import all_documents
from ._masking_rates import MaskingRates, require_topics
from ._topic_blocks import TopicBlocks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ValueMatrix(TopicBlocks):
    """The value matrix of smallest norm among those without excess loss: one value per class of word pair.

    Values are weights of an input word (column) for an output word (row).
    """

    def matrix(self, *, mask_row: bool = False) -> Float[np.ndarray, "output_word input_word"]:
        """Return W [T v, T v + 1], the last column for [MASK] as input.

        Args:
            mask_row: add a last row, for [MASK] as an output; it is 0, because [MASK] is never the answer.
        """
        return self._blocks(mask_row=mask_row)

    def to_frame(self) -> pd.DataFrame:
        """Return one row: ``n_topics words_per_topic same cross mask gap``."""
        import pandas as pd

        names = ("n_topics", "words_per_topic", "same", "cross", "mask", "gap")
        return pd.DataFrame({name: [getattr(self, name)] for name in names})

    def _repr_html_(self) -> str:
        """Return :meth:`to_frame`, for a notebook."""
        return html_table(self.to_frame(), "ValueMatrix")


def optimal_value_matrix(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
) -> ValueMatrix:
    """Return the optimal value matrix: one-hot embedding, uniform attention, squared loss (Li et al. 2023).

    *Proved*: of all matrices without excess loss it is the one of smallest Frobenius norm, for documents of any number
    of topics below ``n_topics``, infinitely long::

        cross = -( a^2 / c + (1 - a) q / c ) / D,    same = cross + 1 / (c v),    mask = a / D

    with a, c, q of :class:`MaskingRates` and ``D = a^2 T v + (1 - a)^2``. There is no bias. Nothing is proved here of
    cross-entropy, whose optimum has the same shape and other values.

    Args:
        n_topics: T, at least 2.
        words_per_topic: v.
        mask_rate: p_m, in (0, 1].
        keep_rate: p_c.
        random_rate: p_r.

    Raises:
        TypeError, ValueError: if an argument is out of its range.

    Examples:
        >>> optimum = optimal_value_matrix(2, 1, mask_rate=0.5, keep_rate=0.0, random_rate=0.0)
        >>> round(optimum.gap, 12), optimum.matrix().round(3).tolist()
        (2.0, [[1.333, -0.667, 0.667], [-0.667, 1.333, 0.667]])
    """
    require_topics(n_topics, words_per_topic)
    rates = MaskingRates(mask_rate, keep_rate, random_rate)
    n_words = n_topics * words_per_topic
    a, c, q = rates.mask_share, rates.word_share, rates.noise_share(n_words)
    determinant = a**2 * n_words + (1 - a) ** 2
    cross = -(a**2 + (1 - a) * q) / (c * determinant)
    return ValueMatrix(
        n_topics, words_per_topic, same=cross + 1 / (c * words_per_topic), cross=cross, mask=a / determinant
    )


def numerical_value_matrix(
    n_topics: int,
    words_per_topic: int,
    mask_rate: float = 0.15,
    keep_rate: float = 0.1,
    random_rate: float = 0.1,
    *,
    topics_per_document: int = 1,
) -> Float[np.ndarray, "output_word input_word"]:
    """Return the same optimum, W [T v, T v + 1], without the closed form: least squares over all topic sets.

    *Computed*: the least-norm solution by pseudo-inverse, one equation per topic set, in expectation over masking in
    the limit of infinite documents.

    Args:
        n_topics: T.
        words_per_topic: v.
        mask_rate: p_m.
        keep_rate: p_c.
        random_rate: p_r.
        topics_per_document: tau, in 1 .. T - 1.

    Raises:
        ValueError: if an argument is out of its range, or there are more than 5,000 topic sets.
    """
    require_topics(n_topics, words_per_topic)
    shown, targets = all_documents(
        n_topics, words_per_topic, MaskingRates(mask_rate, keep_rate, random_rate), topics_per_document
    )
    return (np.linalg.pinv(shown) @ targets).T
