"""What holds for every test: no network, no screen, and annotations that are checked when the code runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Read by the libraries when they are imported, so they are set before anything else is.
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", MPLBACKEND="Agg")

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

if "topic_probes" in sys.modules:
    raise RuntimeError("topic_probes was imported before tests/conftest.py: its annotations would go unchecked")
# Shapes and types of every call into the package, in the whole suite and in the doctests.
install_import_hook("topic_probes", "beartype.beartype")

# A machine that is busy must not turn a slow example into a failure; in CI the examples are always the same.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds the package, its tests and pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Articles that are not part of the repository; a test that needs them is skipped where they are absent.

    They are in the folder that the variable TOPIC_PROBES_ARTICLES names, else in shared/data beside the repository.
    """
    given = os.environ.get("TOPIC_PROBES_ARTICLES")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "data"
    if not (folder / "wiki_a.jsonl").is_file():
        if given:
            raise FileNotFoundError(f"TOPIC_PROBES_ARTICLES must name a folder with wiki_a.jsonl, got {given!r}")
        pytest.skip("no folder shared/data beside this repository, and TOPIC_PROBES_ARTICLES names no other")
    return folder
