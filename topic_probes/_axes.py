"""Words that several parts share: the classes of word pairs, and the columns of tables.

A pair is an ordered pair of positions (query, key). Its class is the first that fits
(docs/concepts.md, *Pairs*):

``same_token``   the two words are the same word, the diagonal included
``no_topic``     else, if either word is unlabelled
``same_topic``   else, if their topic sets meet
``cross_topic``  else

A *site* is where a model has attention: a layer, and in an encoder-decoder also the stack that it is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

PairClass = Literal["same_token", "same_topic", "cross_topic", "no_topic"]
PAIR_CLASSES: tuple[PairClass, ...] = ("same_token", "same_topic", "cross_topic", "no_topic")

WordPolicy = Literal["whole", "merge"]
LongDocuments = Literal["window", "truncate", "skip", "error"]

Stack = Literal["", "encoder", "decoder", "cross"]
STACKS: tuple[Stack, ...] = ("", "encoder", "decoder", "cross")
"""``""`` is the only stack of an ordinary model. In an encoder-decoder the decoder attends to itself and, in
``cross``, to the encoder: its queries are positions of the decoder, its keys positions of the encoder."""


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a model has attention.

    A site of an ordinary model equals its layer's number, so that a layer may stand wherever a site does.

    Examples:
        >>> Site("", 3) == 3, Site("decoder", 3) == 3, str(Site("decoder", 3))
        (True, False, '3 of the decoder')
    """

    stack: Stack
    layer: int
    """Counted within the stack; ``decoder`` and ``cross`` share the layers of the decoder."""

    @classmethod
    def of(cls, place: Site | int) -> Site:
        """Return the site of a layer of an ordinary model; a site as it is."""
        return place if isinstance(place, Site) else cls("", int(place))

    @classmethod
    def from_name(cls, name: str) -> Site:
        """Return the site of that :attr:`name`.

        Raises:
            ValueError: if there is none.
        """
        stack, _, layer = name.rpartition(".")
        if stack not in STACKS or not layer.isdigit():
            raise ValueError(f"a site must be named like '3' or 'decoder.3', got {name!r}")
        return cls(cast("Stack", stack), int(layer))

    @property
    def name(self) -> str:
        """``"3"`` in an ordinary model, else ``"decoder.3"``: what is written to files."""
        return f"{self.stack}.{self.layer}" if self.stack else str(self.layer)

    @property
    def key(self) -> Site | int:
        """What results call it: the layer's number in an ordinary model, else the site itself."""
        return self if self.stack else self.layer

    @property
    def when(self) -> tuple[bool, int, bool]:
        """What sorts sites by the order in which a model comes to them."""
        return self.stack in ("decoder", "cross"), self.layer, self.stack == "cross"

    def __str__(self) -> str:
        of = {"": "", "cross": " of cross-attention"}.get(self.stack, f" of the {self.stack}")
        return f"{self.layer}{of}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Site):
            return (self.stack, self.layer) == (other.stack, other.layer)
        return NotImplemented if self.stack else self.layer == other

    def __hash__(self) -> int:
        return hash((self.stack, self.layer)) if self.stack else hash(self.layer)
