"""What the decoder of an encoder-decoder reads when it reads the encoder's document.

The decoder gets the document shifted right by one: first the token with which it starts
(``decoder_start_token_id``), then all tokens of the document but the last. Position t holds token t - 1, and the
word at that position is the word of the token that it holds: in cross-attention a query has the same word as the
key one position before it.

What this is not: the decoder in the middle of writing something else, such as a summary. To measure that, give the
model both texts in a block of :func:`topic_probes.attach`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..tokens import Window
from ..tokens._windows import chosen


def has_decoder(names: Any) -> bool:
    """Return whether any of these sites has queries in a decoder."""
    return any(site.stack in ("decoder", "cross") for site in names)


def start_of_decoder(model: Any) -> int:
    """Return the id with which the decoder of a model starts.

    Raises:
        ValueError: if the model's configuration has none.
    """
    start = config_of(model, "decoder_start_token_id")
    if start is None:
        raise ValueError(
            "model must have a decoder_start_token_id in its configuration, got none: set "
            "model.original_model.config.decoder_start_token_id to the id with which its decoder starts"
        )
    return int(start)


def config_of(model: Any, name: str) -> Any:
    """Return a setting of the model that a bridge wraps, else of the model itself; None if there is none."""
    wrapped = getattr(model.__dict__.get("original_model"), "config", None)
    return getattr(model.cfg if wrapped is None else wrapped, name, None)


def shifted_ids(token_ids: Tensor, start: int) -> Tensor:
    """Return ids [..., pos] shifted right: ``start``, then all but the last."""
    return torch.cat([torch.full_like(token_ids[..., :1], start), token_ids[..., :-1]], dim=-1)


def shifted_window(window: Window, start: int) -> Window:
    """Return the row of the decoder that reads a row of the encoder.

    The first token is special. A word whose last token falls off the end is cut, and takes part in nothing.
    """
    whole = np.flatnonzero(window.stops < len(window))
    return Window(
        document_id=window.document_id,
        token_ids=np.concatenate([[start], window.token_ids[:-1]]).astype(window.token_ids.dtype),
        is_special=np.concatenate([[True], window.is_special[:-1]]),
        words=chosen(window.words, whole),
        starts=window.starts[whole] + 1,
        stops=window.stops[whole] + 1,
    )


def starting(window: Window) -> Window:
    """Return a row of the decoder whose first token, its start, is special and in no word."""
    is_special = window.is_special.copy()
    is_special[0] = True
    kept = np.flatnonzero(window.starts > 0)
    return replace(
        window,
        is_special=is_special,
        words=chosen(window.words, kept),
        starts=window.starts[kept],
        stops=window.stops[kept],
    )
