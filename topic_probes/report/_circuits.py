"""One head's attention in circuitsvis, the viewer that TransformerLens users know; only if it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def show_attention(matrix: DataFrame) -> Any:
    """Return a view of one head's attention between the words of a text, for a notebook.

    Args:
        matrix: [query_pos, key_pos] words as index and columns, of :func:`topic_probes.word_attention`. Colours are
            in its units: uniform = 1.

    Returns:
        What ``circuitsvis.attention.attention_pattern`` returns; a notebook shows it, ``str`` gives its HTML.

    Raises:
        ModuleNotFoundError: if circuitsvis is not installed; ``plot_attention_blocks`` needs nothing more.
        TypeError: if ``matrix`` is no table.
        ValueError: if queries and keys are not the same words (cross-attention).

    Examples:
        topic_probes.report.show_attention(topic_probes.word_attention(model, text, layer=2, head=5))
    """
    import numpy as np
    import pandas as pd

    if not isinstance(matrix, pd.DataFrame):
        raise TypeError(f"matrix must be the table of topic_probes.word_attention, got a {type(matrix).__name__}")
    words = [str(word) for word in matrix.columns]
    if words != [str(word) for word in matrix.index]:
        raise ValueError(
            "matrix must have the same words as queries and as keys, which cross-attention has not: use "
            "topic_probes.report.plot_attention_blocks"
        )
    try:
        from circuitsvis.attention import attention_pattern  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "circuitsvis":
            raise  # something that it needs itself
        raise ModuleNotFoundError(
            "show_attention needs circuitsvis, which is not installed: pip install circuitsvis, or use "
            "topic_probes.report.plot_attention_blocks"
        ) from error
    values = matrix.to_numpy(dtype=float)
    # Not "upper triangle hidden" for a causal head: cells that a query cannot see are 0, and hover says so.
    return attention_pattern(
        tokens=words, attention=np.nan_to_num(values), max_value=float(np.nanmax(values)), mask_upper_tri=False
    )
