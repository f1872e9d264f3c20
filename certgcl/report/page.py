"""The page itself: a template with style and script inside, so that it is a single file."""

from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from certgcl._version import __version__
from certgcl.certify.budget_curve import first_budget
from certgcl.formatting import percent
from certgcl.report.comparison import Comparison
from certgcl.report.content import Missing, NodePicture, Report
from certgcl.report.figures import compared_curves, draw_all


def render(report: Report) -> str:
    """The report as HTML: nothing is fetched from elsewhere, and all text is escaped."""
    return _filled("page.html.j2", report, draw_all(report), untold=_untold(report))


def render_comparison(comparison: Comparison) -> str:
    """Several runs on one page, likewise."""
    return _filled("comparison.html.j2", comparison, {"curves": compared_curves(comparison)})


def _filled(template: str, report: Report | Comparison, figures: dict[str, list[str]], **others: object) -> str:
    # White space around blocks is kept: the text of an {% if %} must not run into the word before it.
    environment = Environment(loader=PackageLoader("certgcl.report"), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "number": number,
        "percent": lambda share: percent(share).replace("-", "−"),
        "drop": drop,
        "moment": moment,
        "first_budget": first_budget,
    }
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # keep the order of columns
    environment.tests["missing"] = lambda section: isinstance(section, Missing)
    drawn = {name: [Markup(svg) for svg in svgs] for name, svgs in figures.items()}
    return environment.get_template(template).render(
        report=report, numbers=report.to_dict(), figures=drawn, version=__version__, **others
    )


def _untold(report: Report) -> set[str]:
    """The sections that lack the same as the summary, which says so once for all of them."""
    absent = report.missing()
    return {name for name, reason in absent.items() if name != "summary" and reason == absent.get("summary")}


def number(value: float | None, digits: int = 4) -> str:
    """A number with some significant digits and a real minus sign; a dash for None."""
    return "–" if value is None else f"{value:#.{digits}g}".rstrip(".").replace("-", "−")


def moment(text: str) -> str:
    """An ISO 8601 time in readable form: 3 May 2025, 14:05 UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is not None:
        found = found.astimezone(UTC)
    return f"{found.day} {found:%B %Y, %H:%M}{'' if found.tzinfo is None else ' UTC'}"


def drop(drawing: NodePicture) -> str:
    """The effect of the edges of a drawing and of changed features, in a sentence."""
    dropped, added = len(drawing.witness), len(drawing.added)
    if not dropped and not added and not drawing.features:
        return f"No admissible change was found that brings it below its clean value, {number(drawing.nominal)}."
    what = []
    if dropped:
        what.append("without the dashed edge" if dropped == 1 else f"without the {dropped} dashed edges")
    if added:
        what.append("with the new edge in green" if added == 1 else f"with the {added} new edges in green")
    words = ""
    if what:
        first = " and ".join(what)
        words = (
            f"{first[0].upper()}{first[1:]} its value falls from {number(drawing.nominal)} to {number(drawing.reached)}"
        )
    if drawing.features:
        listed = ", ".join(drawing.features)
        words += (
            f"; and it is {number(drawing.upper)} where {listed}"
            if words
            else (f"Its value falls from {number(drawing.nominal)} to {number(drawing.upper)} where {listed}")
        )
    elif drawing.whole > dropped + added:
        words += f"; without all {drawing.whole} edges of the witness it is {number(drawing.upper)}"
    return f"{words}."
