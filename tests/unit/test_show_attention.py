"""The circuitsvis view of a head, with a stand-in for that package where it is not installed."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest

from topic_probes.report import show_attention

MATRIX = pd.DataFrame([[1.0, np.nan], [0.5, 1.5]], index=["cat", "dog"], columns=["cat", "dog"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    package, module = types.ModuleType("circuitsvis"), types.ModuleType("circuitsvis.attention")
    module.attention_pattern = lambda **options: found.append(options) or "a view"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "circuitsvis", package)
    monkeypatch.setitem(sys.modules, "circuitsvis.attention", module)
    return found


def test_the_view_gets_words_and_attention(asked: list[dict[str, Any]]) -> None:
    """What a query cannot see is 0; nothing is masked beyond that."""
    assert show_attention(MATRIX) == "a view"
    (options,) = asked
    assert options["tokens"] == ["cat", "dog"]
    np.testing.assert_array_equal(options["attention"], [[1.0, 0.0], [0.5, 1.5]])
    assert options["max_value"] == 1.5
    assert options["mask_upper_tri"] is False


def test_cross_attention_has_no_such_view(asked: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="the same words as queries and as keys"):
        show_attention(MATRIX.head(1))
    with pytest.raises(TypeError, match="word_attention, got a ndarray"):
        show_attention(MATRIX.to_numpy())  # type: ignore[arg-type]
    assert asked == []


def test_without_circuitsvis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "circuitsvis", None)
    monkeypatch.setitem(sys.modules, "circuitsvis.attention", None)
    with pytest.raises(ModuleNotFoundError, match="pip install circuitsvis, or use"):
        show_attention(MATRIX)
