"""Run a few lines in a process of its own that may take so much memory and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_LIMIT = """
import resource
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {n_bytes}, taken + {n_bytes}))
"""


def run_limited(imports: str, lines: str, *, n_bytes: int, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    """Run ``imports`` freely, then ``lines`` with at most ``n_bytes`` more of address space.

    What goes beyond is a MemoryError there; the caller looks at what was printed.
    """
    code = f"{imports}\n{_LIMIT.format(n_bytes=n_bytes)}\n{lines}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, env=environment, check=False
    )
