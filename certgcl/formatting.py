"""Numbers as text, the same wherever they are printed."""

from collections.abc import Iterable, Sequence
from html import escape

from torch import Tensor


def percent(share: float) -> str:
    """One decimal, and never 100.0 % or 0.0 % for a share that only nearly is."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def spread(counts: Tensor) -> str:
    """The range of integers as text."""
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} … {high} (mean {float(counts.double().mean()):.2f})"


def lines(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A summary as text: a title, and a line for each name with its value."""
    return "\n".join([title, *(f"  {name:<10}{text}" for name, text in rows)])


def html_columns(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as HTML, for notebooks; the first row has the names of the columns."""
    marked = [
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for tag, part in (("th", rows[:1]), ("td", rows[1:]))
        for row in part
    ]
    return f"{_caption(title)}{''.join(f'<tr>{row}</tr>' for row in marked)}</table>"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """The same as HTML, for notebooks."""
    body = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"{_caption(title)}<tbody>{body}</tbody></table>"


def _caption(title: str) -> str:
    return f'<table><caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
