"""Words that several parts share: the classes of word pairs, and the columns of tables.

A pair is an ordered pair of positions (query, key). Its class is the first that fits
(science: P1, section 3):

``same_token``   the two words are the same word, the diagonal included
``no_topic``     else, if either word is unlabelled
``same_topic``   else, if their topic sets meet
``cross_topic``  else
"""

from __future__ import annotations

from typing import Literal

PairClass = Literal["same_token", "same_topic", "cross_topic", "no_topic"]
PAIR_CLASSES: tuple[PairClass, ...] = ("same_token", "same_topic", "cross_topic", "no_topic")

WordPolicy = Literal["whole", "merge"]
LongDocuments = Literal["window", "truncate", "skip", "error"]
