"""Run the benchmarks one after the other, print what they measured, and write it to ``benchmarks/output``.

Times are compared within one run, interleaved where the question is a few per cent: machines are shared
and noisy, and seconds from different days say nothing.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

NAMES = ("probe_cost", "against_cache", "toy_training", "wikipedia_table", "power")


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    folder = Path(__file__).resolve().parent / "output"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        result = importlib.import_module(name).run()
        (folder / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(f"\n{name}")
        for key, value in result.items():
            print(f"  {key:<24}{value:.4g}" if isinstance(value, float) else f"  {key:<24}{value}")


if __name__ == "__main__":
    main()
