"""What a query may see, read off the patterns.

Configurations are not to be trusted here: some bridges call BERT causal. A masked key gets a weight
of exactly zero from every head, so the farthest key with any weight, behind and ahead, is the reach
of a layer. What was learned stays true: a row shows a lower bound, and no row that fits into that
bound can tell it from the full reach. Only a row longer than a window shows that there is one, so the
reach is learned again whenever a row comes that is longer than all before, and whenever a row's
attention is not all within it.

The limits of this. A head that is saturated gives all keys but one a weight of exactly zero; where every
head of a layer does, its reach cannot be read, and :class:`Visibility` warns: state it then
(``visibility="causal"`` or ``"bidirectional"``). In float16 a weight below 6e-8 is zero as well: where
all heads of a layer give such weights to the farthest keys of its longest row, the reach is found a
little too short.

Cross-attention has no order to read: every query of the decoder sees every token of the encoder.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._axes import Site
from .._errors import PatternError
from ._sides import EVERYTHING, Reach

_SPARSE = 0.9
"""Below this share of keys in reach with any weight a layer's mask is no band: blocks of any size have 1/2 to 2/3."""

_SATURATED = 0.5
"""Above this share of queries that give weight to one key only, the reach of a layer cannot be read."""

_LONG_ENOUGH = 6
"""In shorter rows, and in rows with holes, a query may well see one key only."""


@dataclass
class Visibility:
    """The reach of one layer: a query at i may see keys from i - back to i + ahead."""

    stated: str | None = None
    """``"causal"`` or ``"bidirectional"`` where the caller said so: then nothing is read, but checked."""

    longest: int = 0
    """Length of the longest row seen, holes included."""
    back: int = 0
    ahead: int = 0
    warned: bool = False
    """Whether it was said that the mask is no band, or that heads are saturated."""

    def learn(self, layer: Site | int, patterns: Sequence[Tensor], places: Sequence[Tensor] | None = None) -> None:
        """Widen the reach by patterns of rows without pads.

        Args:
            layer: named in the warning.
            patterns: [head, query_pos, key_pos] one a row.
            places: [pos] where the row's tokens stand, for masks with holes; 0, 1, 2, ... unless given.

        Raises:
            PatternError: if a query sees a key ahead and the reach was stated to be causal.
        """
        looks = []
        for number, pattern in enumerate(patterns):
            seen = _seen_by_any(pattern).cpu()
            place = torch.arange(len(seen)) if places is None else places[number]
            looks.append((seen, place))
            sees = seen.any(dim=1)
            if sees.any():
                of_queries, seen_by_them = place[sees], seen[sees].byte()
                nearest, farthest = place[seen_by_them.argmax(dim=1)], place[-1 - seen_by_them.flip(1).argmax(dim=1)]
                self.longest = max(self.longest, int(place[-1] - place[0]) + 1)
                self.back = max(self.back, int((of_queries - nearest).max()))
                self.ahead = max(self.ahead, int((farthest - of_queries).max()))
        if self.stated == "causal" and self.ahead > 0:
            raise PatternError(
                f"a query of layer {layer} sees {self.ahead} keys ahead, and visibility='causal' was stated: "
                "pass visibility='read' or 'bidirectional'"
            )
        if looks and not self.warned and self.stated is None:
            if self._saturated(looks):
                self.warned = True
                warnings.warn(
                    f"most queries of layer {layer} give weight to one key only, in all heads: what they may see "
                    f"cannot be read off such saturated attention, and {str(self)!r} is a guess; state it by "
                    'visibility="causal" or "bidirectional"',
                    stacklevel=2,
                )
                return
            self._doubt(layer, max(self._share(seen, place) for seen, place in looks))

    def _saturated(self, looks: Sequence[tuple[Tensor, Tensor]]) -> bool:
        """Return whether most queries give weight to one key only, in rows long enough to tell and without holes."""
        n_keys = [
            seen.sum(dim=1)
            for seen, place in looks
            if len(seen) >= _LONG_ENOUGH and int(place[-1] - place[0]) + 1 == len(seen)
        ]
        if not n_keys:
            return False
        seen = torch.cat(n_keys)
        return int((seen == 1).sum()) > _SATURATED * int((seen > 0).sum())

    def _share(self, seen: Tensor, place: Tensor) -> float:
        """Return the share of keys in reach that have any weight, over the queries that see anything."""
        at = place[seen.any(dim=1)]
        after_last = torch.searchsorted(place, at + self.ahead, right=True)
        in_reach = after_last - torch.searchsorted(place, at - self.back)
        return int(seen.sum()) / max(int(in_reach.sum()), 1)

    def _doubt(self, layer: Site | int, share: float) -> None:
        if 0 < share < _SPARSE:
            self.warned = True
            warnings.warn(
                f"the queries of layer {layer} reach {share:.0%} of the keys between the nearest and the farthest that "
                "they see: its mask is not a window, and means in units of uniform attention are too large there",
                stacklevel=2,
            )

    @property
    def reach(self) -> Reach:
        """How far a query sees, as far as is known: everything in a direction in which no row went beyond."""
        if self.stated is not None:
            return Reach(None, None if self.stated == "bidirectional" else 0)
        farthest = self.longest - 1
        return Reach(None if self.back >= farthest else self.back, None if 0 < farthest <= self.ahead else self.ahead)

    def __str__(self) -> str:
        if self.stated is not None:
            return self.stated
        if self.longest <= 1:
            return "unknown (rows of one token)"
        far_back, far_ahead = self.back >= self.longest - 1, self.ahead >= self.longest - 1
        if far_back and far_ahead:
            return "bidirectional"
        if self.ahead == 0:
            return "causal" if far_back else f"causal, window of {self.back + 1}"
        return f"window of {self.back} back and {self.ahead} ahead"


def _seen_by_any(pattern: Tensor) -> Tensor:
    """Return [query_pos, key_pos] whether any head gives a weight; head by head, which is much faster than at once."""
    seen = torch.zeros(pattern.shape[1:], dtype=torch.bool, device=pattern.device)
    for head in pattern:
        seen |= head > 0
    return seen


class EveryKey:
    """What the queries of cross-attention see: all tokens of the encoder, wherever they stand."""

    longest = sys.maxsize
    """There is nothing left to learn from a longer row."""

    def learn(self, layer: Site | int, patterns: Sequence[Tensor], places: Sequence[Tensor] | None = None) -> None:
        """Learn nothing."""

    @property
    def reach(self) -> Reach:
        """Everything."""
        return EVERYTHING

    def __str__(self) -> str:
        return "every token of the encoder"


def visibility_of(site: Site, stated: str) -> Visibility | EveryKey:
    """Return what is known of a site before its first pattern.

    Args:
        site: a layer, or a layer of a stack.
        stated: ``"read"``, or what the caller says: in an encoder-decoder either word says that it is built as usual,
            with an encoder that sees both ways and a decoder that sees what came before.
    """
    if site.stack == "cross":
        return EveryKey()
    if stated == "read":
        return Visibility()
    return Visibility({"encoder": "bidirectional", "decoder": "causal"}.get(site.stack, stated))
