"""Tables as plain text: no boxes, nothing cut, the same in a terminal, in a pipe and in a file."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest

_GAP = "  "
_WIDTH = 9  # width at which a column's name is wrapped; its cells are not
_NUMBER = re.compile(r"([<>] )?[−+-]?[\d.,]+(e[+-]\d+)?( ± [\d.]+)?( (%|s))?|[–?]")


def aligned(rows: Sequence[Mapping[str, str]], title: str = "") -> str:
    """The rows under the names of their columns, numbers aligned right and words left."""
    columns = [_column(name, [row[name] for row in rows]) for name in rows[0]]
    lines = (_GAP.join(cells).rstrip() for cells in zip(*_bottom(columns), strict=True))
    return "\n".join([*([title] if title else []), *lines])


def _column(name: str, cells: list[str]) -> list[str]:
    """The lines of one column, all of one width."""
    widest = max(map(len, cells))
    lines = [*textwrap.wrap(name, max(_WIDTH, widest), break_long_words=False), *cells]
    width = max(map(len, lines))
    right = all(_NUMBER.fullmatch(cell) for cell in cells)
    return [line.rjust(width) if right else line.ljust(width) for line in lines]


def _bottom(columns: Sequence[list[str]]) -> list[list[str]]:
    """Column names padded to one height: shorter ones begin further down."""
    upside_down = zip_longest(*(column[::-1] for column in columns))
    padded = [
        [cell if cell is not None else " " * len(column[0]) for cell, column in zip(line, columns, strict=True)]
        for line in upside_down
    ]
    return [list(column) for column in zip(*padded[::-1], strict=True)]
