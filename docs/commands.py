"""Tables of the command line's options, made from the commands themselves when the site is built."""

from __future__ import annotations

import re
from typing import Any

_PLACE = re.compile(r"<!-- options: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put a table of its options where a page says ``<!-- options: COMMAND -->`` (a hook of mkdocs)."""
    return _PLACE.sub(lambda place: options_table(place[1]), markdown)


def options_table(name: str) -> str:
    """Return the arguments and options of a command as a Markdown table."""
    rows = ["| | | unless given |", "|---|---|---|"]
    for parameter in _command(name).params:
        if parameter.name == "help":
            continue
        flags = [*parameter.opts, *parameter.secondary_opts]
        shown = ", ".join(f"`{flag}`" for flag in flags) if flags[0].startswith("-") else f"`{parameter.metavar}`"
        rows.append(f"| {shown} | {_cell(getattr(parameter, 'help', '') or '')} | {_default(parameter)} |")
    return "\n".join(rows)


def command_names() -> list[str]:
    """Return the commands in their order."""
    return list(_program().commands)


def _command(name: str) -> Any:
    return _program().commands[name]


def _program() -> Any:
    import typer.main

    from topic_probes.cli import app

    return typer.main.get_command(app)


def _default(parameter: Any) -> str:
    if parameter.default is None or parameter.required or isinstance(parameter.default, bool):
        return {True: "yes", False: ""}.get(parameter.default if isinstance(parameter.default, bool) else None, "")
    return f"`{parameter.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
