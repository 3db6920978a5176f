"""What pyproject.toml declares is what is tried: the lowest versions are installed by `nox -s lowest`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

NOT_AT_ITS_LOWER_BOUND = {"torch"}  # old releases come as CUDA builds of gigabytes; see constraints/lowest.txt


def pins_of(file: Path) -> dict[str, Version]:
    """Return name -> version of a constraints file in which every line pins one version."""
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def declared_in(pyproject: Path, *extras: str) -> dict[str, Requirement]:
    """Return name -> requirement of the package and the given extras."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    requirements = [Requirement(line) for line in lines]
    return {name: found for found in requirements if (name := canonicalize_name(found.name)) != project["name"]}


def lower_bound(requirement: Requirement) -> str | None:
    """Return the version after ``>=``, or None for a requirement without one."""
    return next((bound.version for bound in requirement.specifier if bound.operator == ">="), None)


def test_the_lowest_environment_installs_the_lower_bounds(repository: Path) -> None:
    """Each bound is the pinned version, or the pinned one is a patch release of it."""
    pins = pins_of(repository / "constraints" / "lowest.txt")
    bounds = {
        name: lower_bound(found) for name, found in declared_in(repository / "pyproject.toml", "demo", "test").items()
    }
    wrong = {
        name: (bound, str(pins[name]))
        for name, bound in bounds.items()
        if bound is not None and name not in NOT_AT_ITS_LOWER_BOUND
        if pins[name].release[: len(Version(bound).release)] != Version(bound).release
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("constraints.txt", ("demo", "test", "dev")),
        ("constraints/newest.txt", ("demo", "test")),
        ("constraints/lowest.txt", ("demo", "test")),
    ],
)
def test_every_declared_package_is_pinned_within_its_range(
    repository: Path, file: str, extras: tuple[str, ...]
) -> None:
    """No environment leaves a version to the day on which it is built."""
    pins = pins_of(repository / file)
    declared = declared_in(repository / "pyproject.toml", *extras)
    assert len(declared) > 10
    assert [name for name, found in declared.items() if name not in pins or pins[name] not in found.specifier] == []


def test_the_ends_of_the_range_differ_in_transformer_lens(repository: Path) -> None:
    """The suite meets major releases 2, 3 and 4 of transformer-lens."""
    files = ["constraints/lowest.txt", "constraints.txt", "constraints/newest.txt"]
    assert [pins_of(repository / file)["transformer-lens"].major for file in files] == [2, 3, 4]
