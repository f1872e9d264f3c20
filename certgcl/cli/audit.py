"""``certgcl audit``: tests the bounds on your own model and graph."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from certgcl.arguments import LARGEST
from certgcl.bounds import METHODS
from certgcl.certify import audit as audits
from certgcl.certify.evidence import weights_part
from certgcl.cli.options import (
    BudgetOption,
    DataRootOption,
    DatasetOption,
    DeviceOption,
    GraphOption,
    JsonFlag,
    RunOption,
    TotalOption,
    WeightsOption,
    choose_encoder,
    moved,
    one_of,
    read_budget,
    read_nodes,
)
from certgcl.cli.progress import Bar
from certgcl.cli.results import FOUND, reported_errors, show
from certgcl.cli.run_folders import ENCODER, METHOD, method_of
from certgcl.errors import CheckpointError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods import ContrastiveMethod
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike

MOST_NODES = 1000  # unless the user names nodes


def audit(
    budget: BudgetOption,
    run: RunOption = None,
    graph: GraphOption = None,
    dataset: DatasetOption = None,
    weights: WeightsOption = None,
    total: TotalOption = None,
    method: Annotated[
        str,
        typer.Option(
            **one_of(METHODS),
            help="The bound: degree, degree-fast, degree-cheap, "
            "crown, interval. paper and released are not bounds, and show what a violation looks like.",
        ),
    ] = "degree",
    nodes: Annotated[
        str | None,
        typer.Option(
            help="The nodes to check: 0:1000, or a file of numbers (.npy or text); "
            f"at most {MOST_NODES:,} drawn at random by default."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="The number of random views.")] = 200,
    searches: Annotated[
        int, typer.Option(min=0, help="The number of nodes for which to search for the worst drops.")
    ] = 16,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST, help="The seed of the nodes, the views and the search.")] = 0,
    device: DeviceOption = None,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Look for admissible views in which a node falls below its bound.

    Nodes are certified; then the model is run on random views inside the budget, and on views that a greedy search
    finds for single nodes: the trained module itself with --run, or the weights with --weights, whose file contains
    nothing else. Exit code 3 if any value is below its bound by more than rounding explains.

    **Examples**

        certgcl audit --run runs/digits-grace-degree-fast-0 --budget 0.3

        certgcl audit --graph cora --weights encoder.npz --budget 2 --nodes 0:500 --searches 100

        certgcl audit --run runs/digits-grace-none-0 --budget 0.3 --method released
    """
    drops, chosen = read_budget(budget, total), read_nodes(nodes)
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        encoder, source = choose_encoder(run, weights, dataset, graph, data_root)
        with Bar("auditing", words="certifying") as bar:
            loaded = moved(Graph.of(source.load(data_root)), device)
            report = audits.audit(
                _model(run, encoder, device),
                loaded,
                drops,
                method=method,
                samples=samples,
                searches=searches,
                seed=seed,
                nodes=_drawn(loaded, seed) if chosen is None else chosen,
                progress=lambda done, whole: bar.show(done, whole, f"{done:,}/{whole:,} views"),
            )
        show(as_json, report.to_dict(), str(report))
    if len(report.violations):
        raise typer.Exit(FOUND)


def _model(run: Path | None, encoder: Path, device: str | None) -> ModelLike:
    """The model that is run: the module of a run, which must have the weights that ``certgcl certify`` reads."""
    network = GraphNetwork.load(encoder)
    if run is None:
        return moved(network, device)
    method = ContrastiveMethod.load(method_of(run))
    here, there = weights_part(network), weights_part(method.network())
    if here.identity != there.identity:
        raise CheckpointError(
            f"{run} with other weights in {ENCODER} ({here.shown}) than in {METHOD} ({there.shown})",
            "both files hold the trained encoder",
            "Restore both from one copy of the run",
        )
    method.encoder_ = moved(method.fitted_encoder(), device)
    return method


def _drawn(graph: Graph, seed: int) -> Tensor:
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    return order[:MOST_NODES].sort().values
