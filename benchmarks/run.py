"""Run the benchmarks one after the other, print what they measured, and write it to ``benchmarks/output``.

Times are compared within one run, interleaved where the question is a few per cent: machines are shared
and noisy, and seconds from different days say nothing.

Without names: those of ``NAMES``, some ten minutes on two cores. The others are long, or no comparison, and run by name
only: ``power``, ``calibration``, ``wikipedia_table``, ``soak``, ``memory``, ``profile_all``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

NAMES = ("probe_cost", "alternatives", "per_pair_loop", "embedding", "toy_training", "lda_quality", "curves")


def main() -> None:
    """Run the benchmarks named on the command line, or those of ``NAMES``."""
    folder = Path(__file__).resolve().parent / "output"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        result = importlib.import_module(name).run()
        (folder / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(f"\n{name}")
        for key, value in result.items():
            print(f"  {key:<40}{value:.4g}" if isinstance(value, float) else f"  {key:<40}{value}", flush=True)


if __name__ == "__main__":
    main()
