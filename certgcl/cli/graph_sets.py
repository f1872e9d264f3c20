"""Sets of graphs on the command line: the model with its pooling, and certificates of whole graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

import torch
import typer
from torch_geometric.data import Data

from certgcl.certify.pooling import graph_compactness
from certgcl.certify.sharding import MERGED
from certgcl.changes.changes import BudgetLike
from certgcl.cli.options import moved
from certgcl.cli.progress import Bar
from certgcl.cli.results import show
from certgcl.cli.run_folders import method_of
from certgcl.learning.methods import GraphCL
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import Pool

PoolOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="For --weights on a set of graphs: mean, sum or max over the nodes of each. A run has its own."),
]


@dataclass(frozen=True)
class PoolingModel:
    """An encoder of nodes, and how its embeddings are pooled."""

    network: GraphNetwork
    pool: Pool

    def fitted_encoder(self) -> GraphNetwork:
        return self.network


def pooling_model(run: Path | None, encoder: Path, pool: str | None, device: str | None) -> PoolingModel:
    """The model of a run, or weights with ``--pool``."""
    if run is not None:
        if pool is not None:
            raise typer.BadParameter("a run has its own", param_hint="--pool")
        return PoolingModel(moved(GraphNetwork.load(encoder), device), GraphCL.load(method_of(run)).pool)
    found = next((known for known in get_args(Pool) if known == pool), None)
    if found is None:
        raise typer.BadParameter(
            f"pass {', '.join(get_args(Pool))} with --weights on a set of graphs", param_hint="--pool"
        )
    return PoolingModel(moved(GraphNetwork.load(encoder), device), found)


def refuse_options(given: Mapping[str, Any]) -> None:
    """Raise an error for options that have no meaning for whole graphs."""
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter(
                "it is about the nodes of a single graph, and this is a set of graphs", param_hint=name
            )


def certify_graphs(
    model: PoolingModel,
    graphs: list[Data],
    budget: BudgetLike,
    out: Path,
    *,
    method: str,
    dtype: torch.dtype,
    time_limit: float | None,
    device: str | None,
    as_json: bool,
    nodes_alone: Mapping[str, Any],
) -> None:
    """Certify all graphs of a set, and write the certificate to the folder."""
    refuse_options(nodes_alone)
    with Bar("certifying", words=f"{len(graphs):,} graphs"):
        certificate = graph_compactness(
            model, [moved(graph, device) for graph in graphs], budget, method=method, dtype=dtype, time_limit=time_limit
        )
    out.mkdir(parents=True, exist_ok=True)
    path = certificate.save(out / MERGED)
    show(
        as_json,
        {"out": str(out), "certificate": {"path": str(path)} | certificate.summary()},
        f"{certificate}\nwritten to {path}",
    )
