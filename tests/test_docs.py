"""The code of the documents runs as it stands, and every page is in the site."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import helpers
import topic_probes

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def blocks(page: Path) -> list[str]:
    """Return the Python of a page that this TransformerLens can run."""
    found = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [block for block in found if helpers.HAS_HOOKED or "import HookedTransformer" not in block]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All Python blocks of a page, in order, as one program."""
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(page)), page.name, "exec"), {"__name__": page.stem})


def test_every_page_is_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages == set(re.findall(r"[\w/]+\.md", navigation))


def test_every_command_has_its_options_on_the_page_of_the_command_line() -> None:
    """The site makes the tables from the commands; the page says where."""
    from topic_probes.cli import app

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    assert re.findall(r"^## (\w+)\n\n<!-- options: \1 -->$", page, flags=re.MULTILINE) == names


PARTS = ("corpora", "dual", "report", "toy")


@pytest.mark.parametrize("name", topic_probes.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """Those of a part are there with the part: all that its ``__all__`` names is rendered."""
    reference = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    assert re.search(rf"^::: topic_probes\.{name}$", reference, flags=re.MULTILINE)
    assert isinstance(getattr(topic_probes, name), type(importlib)) == (name in PARTS)
