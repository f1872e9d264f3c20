"""``certgcl report``: a certificate or a run as one HTML page."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certgcl.certify.certificate import Certificate
from certgcl.cli.certify import summary
from certgcl.cli.options import DataRootOption, DatasetOption, GraphOption, JsonFlag, WeightsOption, choose_source
from certgcl.cli.progress import Bar
from certgcl.cli.results import reported_errors, show
from certgcl.cli.text_tables import aligned
from certgcl.files.atomic import write_atomically
from certgcl.formatting import percent
from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    from certgcl.report import Comparison, Report


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            metavar="RUN...",
            help="A folder of certgcl train or of certgcl certify, or the file of a "
            "certificate; several are compared on one page.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="The page; report.html in the folder, or next to the "
            "certificate, by default; comparison.html here for several.",
        ),
    ] = None,
    dataset: DatasetOption = None,
    graph: GraphOption = None,
    weights: WeightsOption = None,
    sample: Annotated[
        int,
        typer.Option(
            min=0,
            help="At how many random nodes to compute the budget curve and "
            "certified accuracy; 0 shows only what the files contain.",
        ),
    ] = 200,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a certificate or a run as one HTML page, which needs no network.

    It says what was certified and under which budget, and shows bounds, degrees, the budget curve, certified accuracy,
    the most fragile nodes with the edges that hurt them, the training, and how to reproduce it all. From a run it takes
    certificate.npz, or the one in certificates/. A certificate outside a run needs --weights, and --dataset or --graph;
    without them, some sections only say what is missing.

    Several runs are compared on one page: their numbers, budget curves and nodes side by side, and paired tests of
    each against the first.

    **Examples**

        certgcl report runs/digits-grace-degree-fast-0

        certgcl report runs/Cora-grace-none-0/certificates/degree-0.4 --sample 500 --out cora.html

        certgcl report result/certificate.npz --graph cora --weights encoder.npz

        certgcl report runs/digits-grace-none-0 runs/digits-grace-degree-fast-0 --out comparison.html
    """
    if len(runs) > 1 and weights is not None:
        raise typer.BadParameter("each of several runs has its own encoder", param_hint="--weights")
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        with needing("report", "a report"):
            from certgcl.cli.report_files import RunFiles, read_report_source
            from certgcl.report import build_report, compare_reports
            from certgcl.report.page import render, render_comparison

        every = [RunFiles.at(run) for run in runs]
        with Bar("reporting") as bar:
            source = choose_source(dataset, graph, data_root) if dataset or graph else None
            about = [read_report_source(found, source, weights, data_root) for found in every]
            content = [build_report(each, sample=sample, progress=bar.show) for each in about]
            bar.show(0, 1, "drawing")
            comparison = compare_reports(about, content) if len(content) > 1 else None
            text = render(content[0]) if comparison is None else render_comparison(comparison)
        page = out or (every[0].page if comparison is None else Path("comparison.html"))
        write_page(page, text)
        if comparison is None:
            certificate = about[0].certificate
            show(
                as_json,
                _result(page, every[0].certificate, certificate, content[0]),
                _text(page, certificate, content[0]),
            )
        else:
            show(as_json, _compared(page, comparison), _compared_text(page, comparison))


def write_page(page: Path, text: str) -> None:
    write_atomically(page, lambda stream: stream.write(text.encode(errors="backslashreplace")))


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


def _compared(page: Path, comparison: "Comparison") -> dict[str, Any]:
    return {
        "out": str(page),
        "runs": [asdict(run) for run in comparison.runs],
        "differences": [asdict(each) for each in comparison.differences],
        "warnings": comparison.warnings,
    }


def _compared_text(page: Path, comparison: "Comparison") -> str:
    rows = [
        {
            "run": run.name,
            "proved": percent(run.proved),
            "kept": "–" if run.kept is None else percent(run.kept),
            "per norm": "–" if run.over_norm is None else f"{run.over_norm:.4g}",
            "half lost at": run.half_rate,
            "Micro-F1": "–" if run.evaluated is None else percent(run.evaluated),
        }
        for run in comparison.runs
    ]
    tests = [
        f"{each.run} - {each.against}, {each.measure}: {each.words}, p = {each.p:.3g}, {each.pairs} pairs"
        for each in comparison.differences
    ]
    return "\n".join([*comparison.warnings, aligned(rows), *tests, f"written to {page}"])
