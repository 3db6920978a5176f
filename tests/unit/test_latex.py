"""P1's table in LaTeX: nothing in it is a command that was not meant."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topic_probes.report import latex_table
from topic_probes.report._latex import escape_latex

ROW: dict[str, Any] = {
    "model": "trained",
    "same_topic": 1.5,
    "cross_topic": 1.0,
    "ratio": 1.5,
    "ratio_low": 1.23456,
    "ratio_high": 1.9,
}


def cells(table: str) -> list[list[str]]:
    """Rows between the rules, header first."""
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    return [row.removesuffix(r"\\").strip().split(" & ") for row in rows]


def test_each_row_has_its_numbers_and_interval() -> None:
    frame = pd.DataFrame([ROW, {**ROW, "model": "untrained", "ratio": float("nan")}])
    header, *rows = cells(latex_table(frame))
    assert header == ["Weights", "Same topic", "Cross topic", "Ratio", r"95\,\% interval"]
    assert rows[0] == ["trained", "1.500", "1.000", "1.500", "[1.235, 1.900]"]
    assert rows[1][3] == "--", "what is missing is a dash, not nan"


def test_estimators_are_a_column_of_their_own() -> None:
    frame = pd.DataFrame([{**ROW, "estimator": "distance_matched", "level": 0.9}])
    header, row = cells(latex_table(frame, digits=1))
    assert header[1] == "Pairs compared"
    assert header[-1] == r"90\,\% interval"
    assert row[:3] == ["trained", "distance matched", "1.5"]
    assert r"\begin{tabular}{llrrrl}" in latex_table(frame)


def test_a_caption_makes_it_a_table() -> None:
    table = latex_table(pd.DataFrame([ROW]), caption="Ratios $r$.", label="tab:r")
    assert table.startswith("\\begin{table}\n\\centering\n\\caption{Ratios $r$.}\n\\label{tab:r}\n\\begin{tabular}")
    assert table.endswith("\\end{table}\n")
    with pytest.raises(ValueError, match="label needs a caption"):
        latex_table(pd.DataFrame([ROW]), label="tab:r")


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_escaped_text_has_no_command_of_its_own(text: str) -> None:
    r"""What is left when the known escapes are taken out has none of LaTeX's ten special characters."""
    escaped = escape_latex(text)
    names = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}
    names |= {r"\textless{}": "<", r"\textgreater{}": ">"} | {"\\" + one: one for one in "{}&%$#_"}
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    assert not set(re.sub(pattern, "", escaped)) & set("\\{}&%$#_~^<>")
    assert re.sub(pattern, lambda found: names[found[0]], escaped) == text


def test_names_of_models_are_escaped() -> None:
    assert cells(latex_table(pd.DataFrame([{**ROW, "model": r"a_b \input{x}"}])))[1][0] == (
        r"a\_b \textbackslash{}input\{x\}"
    )


def test_what_is_no_such_table_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a pandas DataFrame"):
        latex_table([ROW])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="it lacks ratio_low"):
        latex_table(pd.DataFrame([ROW]).drop(columns="ratio_low"))
    with pytest.raises(ValueError, match="at least one row"):
        latex_table(pd.DataFrame([ROW]).head(0))
