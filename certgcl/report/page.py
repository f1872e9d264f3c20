"""The page itself: a template with style and script inside, so that one file is all there is."""

from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from certgcl._version import __version__
from certgcl.formatting import percent
from certgcl.report.content import Missing, NodePicture, Report
from certgcl.report.figures import draw_all


def render(report: Report) -> str:
    """The report as HTML: nothing in it is fetched from elsewhere, and all text is escaped."""
    environment = Environment(loader=PackageLoader("certgcl.report"), autoescape=True, trim_blocks=True,
                              lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"number": number, "percent": percent, "drop": drop, "moment": moment}
    environment.tests["missing"] = lambda section: isinstance(section, Missing)
    figures = {name: [Markup(svg) for svg in drawn] for name, drawn in draw_all(report).items()}
    return environment.get_template("page.html.j2").render(
        report=report, numbers=report.to_dict(), figures=figures, version=__version__, untold=_untold(report))


def _untold(report: Report) -> set[str]:
    """The sections that lack what the summary lacks: it says so once for all."""
    absent = report.missing()
    return {name for name, reason in absent.items() if name != "summary" and reason == absent.get("summary")}


def number(value: float | None, digits: int = 4) -> str:
    """So many significant digits, with a real minus sign; a dash for nothing."""
    return "–" if value is None else f"{value:#.{digits}g}".rstrip(".").replace("-", "−")


def moment(text: str) -> str:
    """A time as ISO 8601 has it, for readers: 3 May 2025, 14:05 UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is not None:
        found = found.astimezone(UTC)
    return f"{found.day} {found:%B %Y, %H:%M}{'' if found.tzinfo is None else ' UTC'}"


def drop(drawing: NodePicture) -> str:
    """What the dashed edges of a drawing do, in a sentence."""
    if not drawing.witness:
        return f"No admissible drop was found that brings it below its clean value, {number(drawing.nominal)}."
    count = len(drawing.witness)
    what = "the dashed edge" if count == 1 else f"the {count} dashed edges"
    return f"Without {what} its value falls from {number(drawing.nominal)} to {number(drawing.upper)}."
