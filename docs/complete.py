"""Whether the built site has every public name: ``python docs/complete.py SITE``.

A name without a docstring is left out by the reference, so this also says which lack one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from readable import public_places


def main(site: Path) -> None:
    """Print what is missing, and leave with 1 if anything is."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").rglob("*.html"))
    missing = [place for place in public_places().values() if f'id="{place}"' not in pages]
    if missing:
        sys.exit(f"not in the reference: {', '.join(missing)}")
    print(f"{len(public_places())} public names in the reference")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
