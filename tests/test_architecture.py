"""The shape of the package, read from its imports: who may import whom, one door for each outside library.

The rules are data at the head of this file. The reader of imports below them is small enough to be tested on
sources of a line or two, so each rule is seen to refuse what it should.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jaxtyping import TypeCheckError

from heavy import HEAVY

PACKAGE = "topic_probes"
ROOT = Path(__file__).resolve().parents[1]

ANYTHING = frozenset({"*"})
SHARED, FRONT = "shared files", "front"
"""Names of the two parts that are no folder: files like _axes.py at the root, and __init__.py itself."""

MAY_IMPORT: dict[str, frozenset[str]] = {
    SHARED: frozenset(),
    "corpora": frozenset(),
    "statistics": frozenset(),
    # Only where the dual meets models: _heads, _attach, _by_topic (and what it counts), _modifications, _trace.
    "dual": frozenset({"probes", "topics", "statistics", "tokens", "corpora"}),
    "tokens": frozenset(),
    "report": frozenset(),
    "architectures": frozenset(),
    "models": frozenset({"architectures"}),
    "topics": frozenset({"corpora"}),
    "toy": frozenset({"corpora"}),
    "probes": frozenset({"topics", "statistics", "tokens", "corpora"}),
    "demo": ANYTHING,
    "cli": ANYTHING,
    FRONT: ANYTHING,
}
"""Part -> the parts it may import besides itself and the shared files; type-only imports count."""

BACK_DOORS: dict[str, frozenset[str]] = {
    # A report offers its pictures and its page as methods; it hands over data frames, inside those methods.
    "probes/_report.py": frozenset({"report"}),
}
"""File -> the parts that it may import beyond MAY_IMPORT, inside functions."""

DOORS: dict[str, tuple[str, ...]] = {
    "gensim": ("topics/_gensim.py", "corpora/_wikipedia.py"),
    "datasets": ("corpora/_huggingface.py",),
    "transformer_lens": (
        "probes/_twin.py",
        "architectures/",
        "models/",
        "toy/_model.py",
        "toy/_transformer_lens.py",
        "demo/",
    ),
    "jinja2": ("report/",),
    "seaborn": ("report/",),
    "matplotlib": ("report/",),
    "typer": ("cli/",),
    "rich": ("cli/", "demo/", "_progress.py"),
}
"""Outside library -> the files or folders through which it comes in."""

LAZY = frozenset({"probes", "report", "tokens", "models", "demo", "dual", "toy"})
"""Parts that ``import topic_probes`` does not load until they are asked for."""

HEAVY_BUT_FINE_IN_LAZY_PARTS = frozenset({"torch", "pandas"})

BASE_CLASSES: dict[str, frozenset[str]] = {
    # The toy model is a HookedRootModule; its folder loads the file when the class is first asked for.
    "toy/_model.py": frozenset({"transformer_lens"}),
}
"""File of a lazy part -> the heavy library whose class it derives from, which must be there when the file is read."""


@dataclass(frozen=True)
class Import:
    """One imported name and where it stands."""

    file: str
    """Path below the package, with slashes."""
    line: int
    module: str
    """Absolute dotted name; for ``from a import b`` it is ``a.b``."""
    at_import: bool
    """Whether it runs when the file is imported (outside functions)."""
    types_only: bool
    """Whether it stands under ``if TYPE_CHECKING:``."""

    @property
    def library(self) -> str:
        """The name that is installed: ``matplotlib`` of ``matplotlib.pyplot``."""
        return self.module.split(".")[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(folder: Path) -> list[Import]:
    """Return all imports of all Python files below ``folder``, the root of a package called topic_probes."""
    return [found for file in sorted(folder.rglob("*.py")) for found in _imports_of_file(file, folder)]


def _imports_of_file(path: Path, folder: Path) -> Iterator[Import]:
    file = path.relative_to(folder)
    # The package that relative imports start from: the folder of the file, also for an __init__.py.
    package = [PACKAGE, *file.parent.parts]

    def walk(node: ast.AST, at_import: bool, types_only: bool) -> Iterator[Import]:
        for module in _modules(node, package):
            yield Import(file.as_posix(), getattr(node, "lineno", 0), module, at_import, types_only)
        if isinstance(node, ast.If) and _names_type_checking(node.test):
            for child in node.body:
                yield from walk(child, at_import, True)
            for child in node.orelse:
                yield from walk(child, at_import, types_only)
            return
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_import and not inside, types_only)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), True, False)


def _modules(node: ast.AST, package: list[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = package[: len(package) - node.level + 1] if node.level else []
        origin = ".".join([*parents, *([node.module] if node.module else [])])
        yield from (f"{origin}.{name.name}" for name in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name = node.args[0].value
        if called in {"import_module", "__import__", "find_spec"} and isinstance(name, str):
            level = len(name) - len(name.lstrip("."))
            yield ".".join([*package[: len(package) - level + 1], name[level:]]) if level else name


def _names_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def part_of_file(file: str) -> str:
    """Return the part of the package that a file belongs to."""
    first, slash, _ = file.partition("/")
    if slash:
        return first
    stem = first.removesuffix(".py")
    if stem in {"__init__", "__main__"}:
        return FRONT if stem == "__init__" else "cli"
    return SHARED if stem.startswith("_") else stem


def part_of_module(module: str) -> str:
    """Return the part that a dotted name of the package belongs to; names of its front door are FRONT."""
    names = module.split(".")
    if len(names) == 1:
        return FRONT
    if names[1].startswith("_"):  # also __version__, which results are stamped with
        return SHARED
    return names[1] if names[1] in MAY_IMPORT else FRONT


def layer_faults(imports: list[Import]) -> list[str]:
    """Imports that go against MAY_IMPORT, and parts that have no line in it."""
    faults = []
    for found in imports:
        source = part_of_file(found.file)
        if source not in MAY_IMPORT:
            faults.append(f"{found.file}: say in MAY_IMPORT what {source!r} may import")
        elif found.library == PACKAGE:
            target = part_of_module(found.module)
            allowed = MAY_IMPORT[source]
            if not found.at_import:
                allowed |= BACK_DOORS.get(found.file, frozenset())
            if "*" not in allowed and target not in {source, SHARED} | allowed:
                faults.append(f"{found}, but {source} must not see the {target}")
    return faults


def door_faults(imports: list[Import]) -> list[str]:
    """Outside libraries that come in elsewhere than through their door; type-only imports are free."""
    return [
        f"{found}, whose door is {' or '.join(DOORS[found.library])}"
        for found in imports
        if found.library in DOORS and not found.types_only and not found.file.startswith(DOORS[found.library])
    ]


def weight_faults(imports: list[Import]) -> list[str]:
    """Heavy libraries, and lazy parts of the package, that an import would load at once."""
    faults = []
    for found in imports:
        if not found.at_import or found.types_only:
            continue
        lazy = part_of_file(found.file) in LAZY
        fine = HEAVY_BUT_FINE_IN_LAZY_PARTS | BASE_CLASSES.get(found.file, frozenset()) if lazy else frozenset()
        if found.library in HEAVY - fine:
            faults.append(f"{found} when it is imported: move it into the function that needs it")
        if found.library == PACKAGE and not lazy and part_of_module(found.module) in LAZY:
            faults.append(f"{found} when it is imported, but {part_of_module(found.module)} is loaded on first use")
    return faults


def class_faults(imports: list[Import]) -> list[str]:
    """Hooked* classes imported by name outside functions: they come and go between releases of transformer-lens."""
    kept = {"HookedRootModule"}  # in every release from 2.16 to 4.x
    return [
        f"{found}: recognise models by what they can do"
        for found in imports
        if found.at_import and (name := found.module.split(".")[-1]).startswith("Hooked") and name not in kept
    ]


# A path from the root of somebody's disk. Split, so that this line is no such path itself.
_MACHINE_PATH = re.compile(r"(?<![\w.:/~}])/(?:home|root|Users|tmp|work|opt|mnt|usr|var)" + r"/[\w.]|\b[A-Z]:\\\\?\w")


def path_faults(text: str, name: str) -> list[str]:
    """Absolute paths of one machine in a text: strings and comments alike."""
    return [
        f"{name}:{number} names a path of one machine: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if _MACHINE_PATH.search(line)
    ]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """All imports of the package as it stands."""
    found = imports_of(ROOT / PACKAGE)
    assert len(found) > 20, "the package was not found"
    return found


def test_parts_import_only_the_parts_below_them(imports: list[Import]) -> None:
    """Who may import whom holds for every file, for types as well."""
    assert layer_faults(imports) == []


def test_each_outside_library_comes_in_through_its_door(imports: list[Import]) -> None:
    """A library that may change is met in one place."""
    assert door_faults(imports) == []


def test_heavy_libraries_are_imported_where_they_are_used(imports: list[Import]) -> None:
    """Importing a light part of the package loads no heavy library and no lazy part."""
    assert weight_faults(imports) == []


def test_no_model_class_is_imported_at_module_level(imports: list[Import]) -> None:
    """The package can be imported whatever classes the installed transformer-lens has."""
    assert class_faults(imports) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    """Code, tests, settings and documents speak of no one's disk."""
    folders = [ROOT / name for name in (PACKAGE, "tests", "benchmarks", "demos", "constraints")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in {".py", ".ipynb", ".txt"}]
    files += [file for file in ROOT.iterdir() if file.suffix in {".md", ".toml", ".py", ".txt", ".yaml"}]
    files = [file for file in [*files, ROOT / "Makefile"] if file != Path(__file__).resolve()]
    assert [
        fault
        for file in files
        for fault in path_faults(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix())
    ] == []


def test_annotations_are_checked_while_the_suite_runs() -> None:
    """A call that breaks an annotation of the package is an error in every test."""
    from topic_probes._words import find_words

    with pytest.raises(TypeCheckError):
        find_words(3)


# The rules refuse what they should, and leave alone what they should: file, source, number of faults.


def faults_in(tmp_path: Path, file: str, source: str) -> dict[str, int]:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    found = imports_of(tmp_path)
    rules = {"layer": layer_faults, "door": door_faults, "weight": weight_faults, "class": class_faults}
    return {name: len(faults) for name, rule in rules.items() if (faults := rule(found))}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("topics/_a.py", "from ..probes import attach"),
        ("topics/_a.py", "def f():\n    from ..statistics._sums import Sums"),
        ("corpora/_a.py", "from .. import topics"),
        ("corpora/_a.py", "from .. import fit_lda"),
        ("corpora/_a.py", "import topic_probes"),
        ("tokens/_a.py", "if TYPE_CHECKING:\n    from ..topics._labels import TopicLabels"),
        ("report/_a.py", "from topic_probes.probes._results import AttentionResult"),
        ("probes/_a.py", "from ..report import plot_heads"),
        ("probes/_report.py", "from ..report import plot_heads"),
        ("probes/_report.py", "def f():\n    from ..demo import run"),
        ("probes/deep/_a.py", "from ...report import plot_heads"),
        ("_shared.py", "from .corpora import Document"),
        ("statistics/_a.py", "import importlib\ndef f():\n    importlib.import_module('topic_probes.topics')"),
        ("statistics/_a.py", "import importlib\ndef f():\n    importlib.import_module('..topics', __package__)"),
        ("newcomer/_a.py", "import json"),
        ("newcomer.py", "import json"),
    ],
)
def test_an_import_upwards_is_refused(tmp_path: Path, file: str, source: str) -> None:
    """Each way to write it is seen."""
    assert faults_in(tmp_path, file, source).get("layer") == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("topics/_model.py", "def f():\n    from gensim.models import LdaModel"),
        ("corpora/_jsonl.py", "def f():\n    import datasets"),
        ("probes/_attach.py", "def f():\n    import transformer_lens.utils as utils"),
        ("toy/_training.py", "def f():\n    from transformer_lens import HookedTransformer"),
        ("probes/_plots.py", "def f():\n    import matplotlib.pyplot as plt"),
        ("probes/_plots.py", "def f():\n    __import__('seaborn')"),
        ("report/_text.py", "from rich.table import Table"),
    ],
)
def test_a_library_beside_its_door_is_refused(tmp_path: Path, file: str, source: str) -> None:
    """Also inside a function, also by name."""
    assert faults_in(tmp_path, file, source) == {"door": 1}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("__init__.py", "from .probes import attach"),
        ("__init__.py", "from . import report"),
        ("cli.py", "from .demo import run"),
        ("cli.py", "import torch"),
        ("statistics/_sums.py", "import scipy.stats"),
        ("topics/_model.py", "class A:\n    import pandas as pd"),
        ("topics/_model.py", "try:\n    import torch\nexcept ImportError:\n    pass"),
        ("topics/_gensim.py", "from gensim.models import LdaModel"),
        ("topics/_model.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import torch"),
        ("probes/_attach.py", "import transformers"),
        ("report/_plots.py", "import seaborn as sns"),
    ],
)
def test_a_heavy_import_at_module_level_is_refused(tmp_path: Path, file: str, source: str) -> None:
    """In classes, in try blocks and through lazy parts as well."""
    assert faults_in(tmp_path, file, source) == {"weight": 1}


def test_a_model_class_at_module_level_is_refused(tmp_path: Path) -> None:
    """Even for types: pyright would fail where the class is gone."""
    source = "if TYPE_CHECKING:\n    from transformer_lens import HookedTransformer"
    assert faults_in(tmp_path, "probes/_hooks.py", source) == {"class": 1}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "topics/_model.py",
            "from ..corpora import as_corpus\nfrom .._axes import PAIR_CLASSES\nfrom . import _labels",
        ),
        ("probes/_probe.py", "import torch\nimport pandas as pd\nfrom ..tokens import read\nfrom ..topics import x"),
        ("probes/_twin.py", "def f():\n    from transformer_lens import HookedTransformer"),
        ("toy/_model.py", "from transformer_lens.hook_points import HookedRootModule"),
        ("probes/_report.py", "def f():\n    from ..report import plot_heads"),
        ("topics/_gensim.py", "def f():\n    import gensim"),
        ("topics/_gensim.py", "def f():\n    from .. import __version__"),
        ("demo/_run.py", "from rich import print\nfrom ..report import plot_heads\nfrom .. import probe"),
        ("cli/_main.py", "import typer\ndef f():\n    from .demo import run\n    from . import probe"),
        ("__init__.py", "from .corpora import jsonl\nif TYPE_CHECKING:\n    from .probes import probe"),
        ("statistics/_sums.py", "if TYPE_CHECKING:\n    import torch\n    from gensim.models import LdaModel"),
    ],
)
def test_what_the_rules_allow_is_left_alone(tmp_path: Path, file: str, source: str) -> None:
    """No rule refuses the imports that the package is made of."""
    assert faults_in(tmp_path, file, source) == {}


@pytest.mark.parametrize(
    ("text", "n_faults"),
    [
        ("folder = '/" + "home/someone/data'", 1),
        ("# see /" + "tmp/notes.txt", 1),
        ("drive = 'C:" + "\\\\Users'", 1),
        ("url = 'https://example.org/" + "home/page'", 0),
        ("path = folder / 'var' / name", 0),
        ("ratio = a/" + "tmp/b", 0),
    ],
)
def test_a_machine_path_is_told_from_a_url(text: str, n_faults: int) -> None:
    """Strings and comments are read, addresses and divisions are not meant."""
    assert len(path_faults(text, "file")) == n_faults
