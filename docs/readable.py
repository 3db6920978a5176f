"""What makes docstrings and signatures readable on the site.

The Sphinx role ``:func:`fit``` of a docstring becomes a link to the public object of that name, where there is one, and
a private module its name in code. A default that is a constant is shown by its value.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):`(?P<short>~?)\.?(?P<target>[\w.]+)`")
_PACKAGE = "topic_probes"


class Readable(griffe.Extension):
    """Rewrites docstrings and defaults when griffe has read them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_as_markdown, obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Show the values of constants in one signature."""
        for parameter in func.parameters:
            if isinstance(parameter.default, griffe.ExprName) and parameter.default.name.isupper():
                home = importlib.import_module(func.module.path)
                parameter.default = repr(getattr(home, parameter.default.name))


def _as_markdown(role: re.Match[str]) -> str:
    path = role["target"]
    *before, last = path.split(".")
    shown = last if role["short"] else path
    places = public_places()
    if last in places:
        return f"[`{shown}`][{places[last]}]"
    if before and before[-1] in places and not last.startswith("_"):  # a method of a class, or a name in a part
        return f"[`{shown}`][{places[before[-1]]}.{last}]"
    return f"`{shown}`"


@cache
def public_places() -> dict[str, str]:
    """Return public name -> where the reference has it."""
    package = importlib.import_module(_PACKAGE)
    places = {}
    for name in package.__all__:
        value = getattr(package, name)
        places[name] = f"{_PACKAGE}.{name}"
        places |= {inner: f"{_PACKAGE}.{name}.{inner}" for inner in getattr(value, "__all__", ())}
    return places
