"""Figures as SVG that take their colours from the page, so that one drawing is readable in light mode, dark mode and
print."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

_NAMESPACE = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "certgcl",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
}


class Svg:
    """Colours by meaning. Each is a distinct colour, and represents a variable of the page's style."""

    INK = "#1a1f26"
    MUTED = "#6b7683"
    FAINT = "#d5dbe1"
    PAPER = "#fdfdfe"
    MAIN = "#1d5fa8"
    TINT = "#c3d9f0"
    SECOND = "#b7791f"
    GOOD = "#1f7a4d"
    BAD = "#b3362b"


_VARIABLES = {value: f"var(--{name.lower()})" for name, value in vars(Svg).items() if name.isupper()}


@contextmanager
def settings() -> Iterator[None]:
    """matplotlib with the settings of all figures of a report, whatever the user has set."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            _SETTINGS
            | {
                "text.color": Svg.INK,
                "axes.labelcolor": Svg.INK,
                "axes.edgecolor": Svg.MUTED,
                "grid.color": Svg.FAINT,
                "xtick.color": Svg.MUTED,
                "ytick.color": Svg.MUTED,
                "xtick.labelcolor": Svg.INK,
                "ytick.labelcolor": Svg.INK,
            }
        )
        yield


def figure(width: float = 4.2, height: float = 2.7) -> Figure:
    """An empty figure of a size in inches: small, so that its type is readable on a phone. Use it within settings()."""
    sheet = Figure(figsize=(width, height), layout="constrained")
    sheet.patch.set_alpha(0)
    return sheet


def to_svg(sheet: Figure, name: str, description: str) -> str:
    """The figure as an ``<svg>`` element to embed in a page with others: with its own ids and a description in
    words."""
    for axes in sheet.axes:
        axes.patch.set_alpha(0)
    stream = io.StringIO()
    sheet.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(stream.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_NAMESPACE}}}metadata", f"{{{_NAMESPACE}}}style"):
                parent.remove(child)
    for element in root.iter():
        attributes = {key: _adapted(key, value, name) for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({"href" if key == _LINK else key: value for key, value in attributes.items()})
    for size in ("width", "height"):  # the page sets the size
        root.attrib.pop(size)
    root.set("role", "img")
    root.set("aria-label", description)
    ElementTree.register_namespace("", _NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _adapted(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == _LINK:
        return value.replace("#", f"#{name}-")
    value = value.replace("url(#", f"url(#{name}-")
    for colour, variable in _VARIABLES.items():
        value = value.replace(colour, variable)
    return value
