"""The report as one HTML file that loads nothing: for a reader without Python.

Everything that comes from outside (topic words, names of models and documents, passages) is text: jinja2 escapes
what stands in the page, the script puts its strings in as text nodes, and data is embedded with ``<`` written as an
escape. A content policy lets one script run, by its hash, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ._frames import too_few_permutations
from ._page_colours import N_SHADES, TOPIC_COLOURS, shades_css
from ._page_data import page_data
from ._page_map import head_maps
from ._page_shown import (
    claim,
    contextual_table,
    embedding_table,
    headline_table,
    settings_tables,
    shown_table,
    summary,
)

_TEMPLATES = Path(__file__).parent / "templates"
_NAMES = {
    "headline": "headline",
    "heads": "heads",
    "distance": "distances",
    "contextual": "layers",
    "settings": "settings",
}


def write_page(
    path: str | os.PathLike, *, subject: str, title: str | None = None, version: str = "", **tables: Any
) -> Path:
    """Write the page to a file, whole or not at all, and return its path; an earlier file there is replaced.

    Args:
        path: where; its folder is made if it is missing.
        subject: what was probed, such as the model's name.
        title: of the page.
        version: of the package, for the last line.
        **tables: as for ``page_data``.

    Raises:
        IsADirectoryError: if ``path`` is a folder.
        FileExistsError: if it is a device, or something else that is no file.
        TypeError, ValueError: as ``page_data``.
    """
    # A link stays a link to the file that is written.
    target = Path(path).expanduser().resolve()
    if target.is_dir():
        raise IsADirectoryError(f"path must be a file, got the folder {path}: add a name such as report.html")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"path must be a file, got {path}, which is a device or a pipe: choose another name")
    html = render_page(subject=subject, title=title, version=version, **tables)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        new.write_text(html, encoding="utf-8", newline="\n")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return Path(path)


def render_page(*, subject: str, title: str | None = None, version: str = "", **tables: Any) -> str:
    """Return the page as text; arguments as for :func:`write_page`."""
    import jinja2
    from markupsafe import Markup

    data = page_data(**tables)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    headline, contextual = tables["headline"], tables.get("contextual")
    ends = f"{1 / data.limit:.3g} and below", f"{data.limit:g}"
    return environment.get_template("page.html.j2").render(
        title=title or f"Topics in the attention of {subject}",
        summary=summary(subject if title else "", headline),
        version=version,
        claim=claim(headline),
        has_twin=len(data.models) > 1,
        by_frequency="frequency_matched" in data.estimators,
        headline=headline_table(headline),
        too_few=too_few_permutations(headline),
        maps=head_maps(data),
        scale=[f"k{number}" for number in range(-N_SHADES, N_SHADES + 1)],
        scale_low=ends[0],
        scale_high=ends[1],
        topics=shown_table(data.tables["topics"]) if "topics" in data.tables else None,
        embedding=embedding_table(tables.get("embedding")),
        contextual=contextual_table(contextual),
        measures=list(dict.fromkeys(contextual["measure"])) if contextual is not None and len(contextual) else [],
        settings=settings_tables(tables.get("settings")),
        names=_NAMES,
        data=data,
        topic_colours=TOPIC_COLOURS,
        # These three are the package's own text, or made safe for where they stand.
        css=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),
        shades_css=Markup(shades_css()),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        data_json=Markup(_as_json(data.to_dict())),
    )


def _as_json(value: Any) -> str:
    """Return JSON that can stand between script tags: nothing in it can end them, or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
