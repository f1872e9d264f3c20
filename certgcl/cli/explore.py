"""``certgcl explore``: trains on a bundled graph and opens the report in the browser."""

import tempfile
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certgcl.arguments import LARGEST
from certgcl.certify.budget_curve import BudgetCurve
from certgcl.certify.compactness import node_compactness
from certgcl.cli.options import BudgetOption, JsonFlag, one_of, read_drops
from certgcl.cli.progress import Bar, TrainingBar
from certgcl.cli.report import write_page
from certgcl.cli.results import reported_errors, show
from certgcl.graphs.datasets import find_dataset, load_single_graph
from certgcl.graphs.datasets.embedded import EMBEDDED
from certgcl.learning import presets
from certgcl.learning.methods import GRACE
from certgcl.learning.training.run_config import versions
from certgcl.runtime.arithmetic import one_thread
from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    from certgcl.report import ReportSource

GRAPHS = sorted(EMBEDDED)


def explore(
    graph: Annotated[
        str,
        typer.Argument(**one_of(GRAPHS), help=f"A bundled graph: {', '.join(GRAPHS)}."),
    ] = "les-miserables",
    budget: BudgetOption = "4",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the training run.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST, help="The seed of the training run.")] = 0,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The page; report.html in a new temporary folder by default.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, or only print where it is.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Train GRACE on a small bundled graph, certify it, and open the report in the browser: less than a minute.

    Nothing is downloaded, and only the page is kept.

    **Examples**

        certgcl explore

        certgcl explore karate --budget 1 --no-browser

        certgcl explore les-miserables --out characters.html
    """
    drops = read_drops(budget)
    # On small graphs threads wait for each other longer than they work, particularly on a busy machine.
    with reported_errors(as_json, "Nothing is lost; run the same command again"), one_thread():
        with needing("report", "a report"):
            from certgcl.report import build_report
            from certgcl.report.page import render

        source = _trained(graph, drops, epochs, seed)
        with Bar("reporting") as bar:
            report = build_report(source, progress=bar.show)
        certificate = source.certificate
        if certificate is not None and isinstance(report.curve, BudgetCurve):
            certificate = replace(certificate, curve=report.curve)
        page = (out or Path(tempfile.mkdtemp(prefix="certgcl-"), "report.html")).resolve()
        write_page(page, render(report))
        opened = browser and webbrowser.open(page.as_uri())
        show(
            as_json,
            {
                "out": str(page),
                "opened": opened,
                "certificate": None if certificate is None else certificate.measures.to_dict(),
            },
            f"{certificate}\nwritten to {page}",
        )


def _trained(graph: str, budget: int | float, epochs: int, seed: int) -> "ReportSource":
    """A short training without the certified term, whose kernels take longer to compile than everything else here."""
    from certgcl.report import ReportSource

    data, settings = load_single_graph(graph), presets.get("grace", graph).settings()
    settings = settings | {"epochs": epochs, "seed": seed}
    method = GRACE(**settings)
    with TrainingBar() as bar:
        method.fit(data, progress=bar)
    with Bar("certifying", words=f"{data.num_nodes:,} nodes"):
        certificate = node_compactness(method, data, budget)
    command = f"certgcl explore {graph} --budget {budget} --epochs {epochs} --seed {seed}"
    return ReportSource(
        f"GRACE on {graph}",
        certificate,
        graph,
        data,
        method.network(),
        find_dataset(graph).protocol,
        method.history_,
        {"config": {"settings": settings}, "versions": versions()},
        commands=[command],
        hints=[budget],
    )
