"""``certgcl report``: a certificate or a run as one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certgcl.certify.certificate import Certificate
from certgcl.cli.certify import summary
from certgcl.cli.options import DataRootOption, DatasetOption, GraphOption, JsonFlag, WeightsOption, choose_source
from certgcl.cli.progress import Bar
from certgcl.cli.results import outcome, show
from certgcl.files.atomic import write_atomically
from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    from certgcl.report import Report


def report(
    subject: Annotated[Path, typer.Argument(
        exists=True, metavar="RUN", help="A folder of certgcl train or of certgcl certify, or the file of a "
                                         "certificate.")],
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="The page; report.html in the folder, or beside the "
                                             "certificate, by default.")] = None,
    dataset: DatasetOption = None,
    graph: GraphOption = None,
    weights: WeightsOption = None,
    sample: Annotated[int, typer.Option(min=0, help="At how many random nodes to compute the budget curve and "
                                        "certified accuracy; 0 to compute nothing that the files do not say.")] = 200,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a certificate or a run as one HTML page, which needs no network.

    It says what was certified and under which budget, and shows bounds, degrees, the budget curve, certified accuracy,
    the most fragile nodes with the edges that hurt them, the training, and how to do it all again. Of a run it takes
    certificate.npz, or the one in certificates/. A certificate outside a run needs --dataset or --graph, and --weights,
    for all of that; without them, the sections they are needed for say so.

    **Examples**

        certgcl report runs/digits-grace-degree-fast-0

        certgcl report runs/Cora-grace-none-0/certificates/degree-0.4 --sample 500 --out cora.html

        certgcl report result/certificate.npz --graph cora --weights encoder.npz
    """
    with outcome(as_json, "Nothing is lost; run the same command again"):
        with needing("report", "a report"):
            from certgcl.cli.report_files import Found, read_subject
            from certgcl.report import gather
            from certgcl.report.page import render

        found = Found.at(subject)
        with Bar("reporting") as bar:
            source = choose_source(dataset, graph, data_root) if dataset or graph else None
            about = read_subject(found, source, weights, data_root)
            content = gather(about, sample=sample, progress=bar.show)
            bar.show(0, 1, "drawing")
            text = render(content)
        page = out or found.page
        write_atomically(page, lambda stream: stream.write(text.encode(errors="backslashreplace")))
        show(as_json, _result(page, found.certificate, about.certificate, content),
             _text(page, about.certificate, content))


def _result(page: Path, path: Path | None, certificate: Certificate | None, content: "Report") -> dict[str, Any]:
    short = None if certificate is None or path is None else summary(path.parent, certificate) | {"path": str(path)}
    return {"out": str(page), "certificate": short, "missing": content.missing()}


def _text(page: Path, certificate: Certificate | None, content: "Report") -> str:
    lines = [] if certificate is None else [str(certificate)]
    sections: dict[str, list[str]] = {}
    for section, reason in content.missing().items():
        sections.setdefault(reason, []).append(section)
    lines += [f"without {', '.join(names)}: {reason}" for reason, names in sections.items()]
    return "\n".join([*lines, f"written to {page}"])
