"""An extension of griffe: what docstrings write for Sphinx, as Markdown."""

import re
from typing import Any

import griffe

SEVERAL = re.compile(r"^(    )(\w+(?:, \w+)+): (.*(?:\n {8}.*)*)", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|data|mod):`([^`]+)`")


class Roles(griffe.Extension):
    """``:func:`name``` becomes a link if there is such a heading, and code otherwise; ``Example::`` loses a colon;
    arguments that share a line of ``Args`` get one each."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = SEVERAL.sub(_one_each, ROLE.sub(_link, obj.docstring.value))
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)


def _link(match: re.Match[str]) -> str:
    name = match[1]
    target = name if name.startswith("certgcl.") else f"certgcl.{name}"
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'


def _one_each(match: re.Match[str]) -> str:
    return "\n".join(f"{match[1]}{name}: {match[3]}" for name in match[2].split(", "))
