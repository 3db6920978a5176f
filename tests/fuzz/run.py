"""Drive the readers by atheris for a bounded time: ``python tests/fuzz/run.py [TARGET ...] [--seconds 60]``.

The seconds are shared by the targets. An input that breaks a promise is written to tests/fuzz/found, where the suite
replays it from then on, and the exit code is 1. Each target runs in a process of its own, because atheris ends it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LONGEST_INPUT = 2048
"""Bytes: longer ones are slower and find the same faults; what is long is tested in test_hostile_files.py."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="dump, jsonl, token_ids, texts, saved; all unless given")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        drive(given.one, given.seconds)
        return 0
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
    from fuzz_targets import TARGETS

    targets = given.targets or list(TARGETS)
    unknown = [name for name in targets if name not in TARGETS]
    if unknown:
        parser.error(f"targets must be among {', '.join(TARGETS)}, got {unknown[0]}")
    seconds = max(1, given.seconds // len(targets))
    failed = []
    for name in targets:
        print(f"=== {name}: {seconds} s", flush=True)
        done = subprocess.run([sys.executable, __file__, "--one", name, "--seconds", str(seconds)], check=False)
        failed += [name] if done.returncode else []
    if failed:
        print(f"inputs that break {', '.join(failed)} are in {HERE / 'found'}", file=sys.stderr)
    return 1 if failed else 0


def drive(name: str, seconds: int) -> None:
    """Run one target in this process; atheris does not return."""
    import atheris

    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
    with atheris.instrument_imports(include=["topic_probes"]):
        import fuzz_targets
    found = HERE / "found"
    with tempfile.TemporaryDirectory() as inputs:
        known = [path.read_bytes() for path in found.glob(f"{name}-*")]
        for number, content in enumerate([*fuzz_targets.SEEDS[name], *known]):
            Path(inputs, str(number)).write_bytes(content)
        options = [
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST_INPUT}",
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=1",
            f"-artifact_prefix={found / name}-",
        ]
        atheris.Setup([sys.argv[0], *options, inputs], fuzz_targets.TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
