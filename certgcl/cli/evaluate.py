"""``certgcl evaluate``: the accuracy of a linear probe on embeddings, and whether one run is better than another."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from certgcl.cli.options import DataRootOption, DeviceOption, JsonFlag, moved, one_of, read_seeds
from certgcl.cli.progress import Bar
from certgcl.cli.results import reported_errors, show
from certgcl.cli.run_folders import GraphSource, labels_of, method_of
from certgcl.errors import EvaluationError
from certgcl.files.atomic import refusing
from certgcl.files.untrusted import mapped_array
from certgcl.learning import evaluation
from certgcl.learning.evaluation import PROTOCOLS, Evaluation, PairedTest, compare
from certgcl.learning.methods import ContrastiveMethod


def evaluate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True, file_okay=False, help="Run folders of certgcl train; the values of several runs are pooled."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True, file_okay=False, help="A run to compare with, in the same order of seeds; can be repeated."
        ),
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file with one row per node.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file with one class per node.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            **one_of(PROTOCOLS),
            help=f"{', '.join(PROTOCOLS)}; the graph's own by default.",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="The seeds of the random splits: how many (5), or which (0,1,2).")] = "5",
    device: DeviceOption = None,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate trained runs, or embeddings of any origin, by logistic regression on frozen embeddings.

    With --against, the Micro-F1 of the two groups of runs is compared by a paired t-test.

    **Examples**

        certgcl evaluate runs/Cora-grace-degree-fast-0 --protocol public

        certgcl evaluate runs/digits-grace-degree-fast-0 --against runs/digits-grace-none-0 --seeds 10

        certgcl evaluate --embeddings z.npy --labels y.npy --protocol grace --seeds 20
    """
    if bool(runs) == (embeddings is not None):
        raise typer.BadParameter("pass runs, or --embeddings with --labels", param_hint="RUNS, --embeddings")
    if (embeddings is None) != (labels is None) or (against and embeddings is not None):
        raise typer.BadParameter("--embeddings, --labels and nothing else", param_hint="--embeddings")
    chosen = read_seeds(seeds)
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        with Bar("evaluating", words="splits") as bar:
            if embeddings is not None and labels is not None:
                every = [
                    evaluation.evaluate(_array(embeddings), _array(labels), protocol or "random-10-10-80", seeds=chosen)
                ]
            else:
                folders = [*(runs or []), *(against or [])]
                every = []
                for done, run in enumerate(folders):
                    bar.show(done, len(folders), f"{done}/{len(folders)} runs")
                    every.append(_evaluated(run, protocol, chosen, data_root, device))
        first = len(every) - len(against or [])
        found, other = Evaluation.pooled(every[:first]), Evaluation.pooled(every[first:]) if against else None
        test = None if other is None else compare(found, other)
        show(as_json, _result(found, other, test), "\n".join(str(part) for part in (found, other, test) if part))


def _evaluated(
    run: Path, protocol: str | None, seeds: int | list[int], root: Path | None, device: str | None
) -> Evaluation:
    source, method = GraphSource.of_run(run), ContrastiveMethod.load(method_of(run))
    method.encoder_ = moved(method.fitted_encoder(), device)
    if source.several:
        graphs = source.load_several(root)
        return evaluation.evaluate(
            method.transform(graphs), labels_of(graphs), protocol or source.protocol(graphs), seeds=seeds
        )
    data = source.load(root)
    if data.y is None:
        raise EvaluationError(
            f"{run} on a graph without labels",
            "an evaluation needs one class per node",
            "Add y to the graph file",
        )
    return evaluation.evaluate(
        method.transform(data), data.y, protocol or source.protocol(data), masks=data, seeds=seeds
    )


def _array(path: Path) -> np.ndarray:
    with refusing(path, EvaluationError, "it must be an array of numbers", "Write one with numpy.save"):
        return mapped_array(path)


def _result(found: Evaluation, other: Evaluation | None, test: PairedTest | None) -> dict[str, Any]:
    finite = (
        {} if test is None else {name: value if math.isfinite(value) else None for name, value in asdict(test).items()}
    )
    return found.to_dict() | ({} if other is None else {"against": other.to_dict(), "test": finite})
