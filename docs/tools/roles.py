"""An extension of griffe: what docstrings write for Sphinx, as Markdown."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|data|mod):`([^`]+)`")


class Roles(griffe.Extension):
    """``:func:`name``` becomes a link if there is such a heading, and code otherwise; ``Example::`` loses a colon."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"::$", ":", ROLE.sub(_link, obj.docstring.value), flags=re.MULTILINE)


def _link(match: re.Match[str]) -> str:
    name = match[1]
    target = name if name.startswith("certgcl.") else f"certgcl.{name}"
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'
