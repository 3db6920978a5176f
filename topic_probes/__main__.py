"""``python -m topic_probes``: the command line, also under ``torchrun -m topic_probes``."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
