"""A certificate in a few lines, for terminals and notebooks."""

from typing import TYPE_CHECKING

from certgcl.formatting import percent, spread

if TYPE_CHECKING:
    from certgcl.certify.certificate import Certificate

_HALF = ("float16", "bfloat16")
READ = {"given": "weights as given", "traced": "read from its program", "probed": "read by trying inputs"}


def summary(certificate: "Certificate") -> tuple[str, list[tuple[str, str]]]:
    """A title, and the lines of a summary by name: first the values that do not grow with the embeddings."""
    what = "certified lower bounds" if certificate.certified else "scores that are NOT bounds"
    nodes = f"{len(certificate.nodes)} of {len(certificate.local_budget)} nodes"
    rows = [*_question(certificate), *(_positive(certificate) if certificate.certified else [])]
    if certificate.upper is not None:
        exact, negative = (int(mask[certificate.asked].sum()) for mask in (certificate.exact, certificate.negative))
        rows.append(("searched", f"{exact} exact, {negative} known to fall below zero"))
    rows += certificate.measures.rows() + ([] if certificate.curve is None else certificate.curve.rows())
    return f"{what} at {nodes}, method {certificate.method}", rows + _values(certificate)


def _question(certificate: "Certificate") -> list[tuple[str, str]]:
    """The lines about the model and the budget."""
    settings = certificate.evidence.special_settings
    others = [changes.words() for changes in (certificate.features, certificate.additions) if changes is not None]
    return [
        *([] if settings is None else [("settings", settings)]),
        ("model", f"{certificate.precision}, {READ[certificate.reading]}"),
        ("budget", f"local {spread(certificate.local_budget)}, total {certificate.total_budget} edges"),
        *(("", words) for words in others),
    ]


def _positive(certificate: "Certificate") -> list[tuple[str, str]]:
    """What is proved for the model as it runs; and for its weights in exact arithmetic if that is more, or if the
    precision is so low that the two must not be confused."""
    asked, proved = certificate.asked, f"({percent(certificate.share_positive)}) proved to stay above zero"
    whole, run = int(asked.sum()), f"as run in {certificate.precision}"
    count, exactly = (
        int(mask[asked].sum()) for mask in (certificate.positive, certificate.positive_in_exact_arithmetic)
    )
    rows = [("positive", f"{count} of {whole} {proved}, {run}")]
    if exactly != count or certificate.precision in _HALF:
        rows.append(("", f"{exactly} of {whole} in exact arithmetic, which does not cover the model {run}"))
    return rows


def _values(certificate: "Certificate") -> list[tuple[str, str]]:
    """Clean values, attained values and bounds, which grow with the embeddings."""
    asked = certificate.asked
    named = [("nominal", certificate.nominal), ("upper", certificate.upper)]
    lower = certificate.lower[asked].double()
    return [
        *((name, f"mean {float(values[asked].double().mean()):.4g}") for name, values in named if values is not None),
        (
            "lower" if certificate.certified else "score",
            f"mean {float(lower.mean()):.4g}, min {float(lower.min()):.4g}, median {float(lower.median()):.4g}, "
            f"max {float(lower.max()):.4g}",
        ),
    ]
