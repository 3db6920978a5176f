"""Every family that the installed TransformerLens opens, measured; and what is declared of the other releases.

See :mod:`matrix`, which has the data and the measuring.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import helpers
import matrix
import tiny_models
from topic_probes import architectures
from topic_probes.models import _loading

SINGLE, DOUBLE = 1e-5, 1e-12
"""What rounding may make of a pattern: where a library computes rotations or norms in float32, and elsewhere."""


def close(name: str, way: str) -> float:
    in_float32 = (way == matrix.TRANSFORMER and name != "GPT-2") or (name, way) == ("GPT-NeoX", matrix.BRIDGE)
    return SINGLE if in_float32 else DOUBLE


@pytest.mark.parametrize(("name", "way"), matrix.cases())
def test_a_family_is_probed_as_transformers_computes_it(name: str, way: str) -> None:
    """Patterns of a padded batch, sums of attach and of probe, what layers see, and the number of heads."""
    found = matrix.measure(name, way)
    assert found.pattern_difference <= close(name, way)
    assert found.sum_difference <= 10 * close(name, way)
    assert found.counts_agree
    assert found.sees == matrix.ROWS[name].sees
    assert found.n_heads == matrix.ROWS[name].n_heads


@pytest.mark.parametrize("name", [name for name, row in matrix.ROWS.items() if not row.here])
def test_what_is_declared_not_to_open_does_not(name: str) -> None:
    """Only where there are no bridges: a later release opens all of them."""
    assert not helpers.HAS_BRIDGE
    with pytest.raises(NotImplementedError, match="is not currently supported"):
        matrix.convert(tiny_models.MODELS[name]())


@pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x has no bridges")
@pytest.mark.parametrize("name", matrix.ROWS)
def test_whose_adapter_opens_a_family_is_as_declared(name: str) -> None:
    """TransformerLens' own, where it has one."""
    from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory

    architectures.register()
    row = matrix.ROWS[name]
    adapter = ArchitectureAdapterFactory._adapters[row.architecture]
    assert (matrix.OURS in row.here) == adapter.__module__.startswith("topic_probes.")
    assert {matrix.TRANSFORMER, matrix.ENCODER}.isdisjoint(row.here) or helpers.HAS_HOOKED


def test_declared_are_the_models_there_are() -> None:
    """A family of tiny models has a row, of its own class, and the list that load_model's errors go by is the same."""
    assert list(matrix.ROWS) == list(tiny_models.MODELS)
    for name, build in tiny_models.MODELS.items():
        assert type(build()).__name__ == matrix.ROWS[name].architecture
        assert len(matrix.ROWS[name].ways) == len(matrix.COLUMNS)
    assert {row.architecture for row in matrix.ROWS.values()} == _loading.OPENED_BY_BRIDGES
    first_with_bridges = matrix.COLUMNS.index(_loading._WITH_BRIDGES)
    assert all(all(row.ways[first_with_bridges:]) for row in matrix.ROWS.values())


def test_windows_are_shorter_than_the_rows_that_show_them() -> None:
    """Else a window could not be told from none, and the tests above would see no difference."""
    rules = {rule for row in matrix.ROWS.values() for rule in row.sees if "window" in rule}
    assert len(rules) >= 2
    for rule in rules:
        assert not all(matrix.may_see(rule)(max(matrix.LENGTHS) - 1, key) for key in range(max(matrix.LENGTHS)))


def test_the_table_of_the_readme_is_made_of_the_matrix(repository: Path) -> None:
    """`python tests/matrix.py --readme` prints what has to stand there."""
    readme = (repository / "README.md").read_text(encoding="utf-8")
    begin, end = readme.find(matrix.BEGIN), readme.find(matrix.END)
    assert 0 <= begin < end
    assert readme[begin : end + len(matrix.END)] == matrix.readme_table()


def test_the_columns_are_the_releases_that_are_tried(repository: Path) -> None:
    """The pinned versions of the three environments."""
    files = ["constraints/lowest.txt", "constraints.txt", "constraints/newest.txt"]
    pinned = []
    for file in files:
        lines = (repository / file).read_text(encoding="utf-8").splitlines()
        (release,) = (line.partition("==")[2] for line in lines if line.startswith("transformer-lens=="))
        pinned.append(".".join(release.split(".")[:2]))
    assert tuple(pinned) == matrix.COLUMNS
