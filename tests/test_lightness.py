"""Importing the package and asking for help cost little: heavy libraries wait until they are used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from heavy import HEAVY

IMPORT = "import topic_probes"
HELP = "from topic_probes.cli import main; assert main(['--help']) == 0"
COMMAND_HELP = "from topic_probes.cli import main; assert main(['demo', '--help']) == 0"


def loaded_by(statement: str, *, folder: Path) -> set[str]:
    """Return the top-level names in sys.modules after ``statement``, in a fresh interpreter."""
    code = f"{statement}\nimport sys, json\nprint('\\n' + json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    finished = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout.splitlines()[-1]))


@pytest.mark.parametrize("statement", [IMPORT, HELP, COMMAND_HELP], ids=["import", "help", "help-of-demo"])
def test_heavy_libraries_wait_until_they_are_used(statement: str, repository: Path) -> None:
    """After an import, or a call for help, none of the heavy libraries is in sys.modules."""
    loaded = loaded_by(statement, folder=repository)
    assert "topic_probes" in loaded
    assert not loaded & HEAVY


def test_a_heavy_import_would_be_seen(repository: Path) -> None:
    """The check above can fail: what a statement imports does show."""
    assert "scipy" in loaded_by("import scipy.special", folder=repository) & HEAVY


def test_the_installed_command_is_the_same_as_main(repository: Path) -> None:
    """``python -m topic_probes.cli --help`` prints the help, which names the demo, and exits with 0."""
    finished = subprocess.run(
        [sys.executable, "-m", "topic_probes.cli", "--help"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "demo" in finished.stdout
