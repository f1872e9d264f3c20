"""``certgcl verify``: checks a certificate against its encoder and graph."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from certgcl.certify.certificate import Certificate
from certgcl.certify.checker import prove
from certgcl.certify.pooling import GraphCertificate
from certgcl.certify.sharding import MERGED
from certgcl.certify.verify import Verification
from certgcl.cli.graph_sets import PoolOption, pooling_model, refuse_options
from certgcl.cli.options import (
    DataRootOption,
    DatasetOption,
    GraphOption,
    JsonFlag,
    RunOption,
    WeightsOption,
    choose_encoder,
    read_nodes,
)
from certgcl.cli.results import FOUND, reported_errors, show
from certgcl.graphs.graph import Graph
from certgcl.graphs.storage import load_graph
from certgcl.models.network import GraphNetwork


def verify(
    certificate: Annotated[
        Path, typer.Argument(exists=True, help="A certificate file, or a folder of certgcl certify.")
    ],
    run: RunOption = None,
    graph: GraphOption = None,
    dataset: DatasetOption = None,
    weights: WeightsOption = None,
    view: Annotated[
        Path | None, typer.Option(exists=True, help="The fixed second view, for a certificate that was made with one.")
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="The nodes whose values to check: 0:1000, or a file of numbers "
            "(.npy or text); all of the certificate by default."
        ),
    ] = None,
    proof: Annotated[
        bool,
        typer.Option(
            "--proof",
            help="Prove the bounds again with the checker, a separate program that does not import this library.",
        ),
    ] = False,
    branches: Annotated[
        int,
        typer.Option(min=0, help="Edges of each node to decide, kept or lost, if a bound is not proved at once."),
    ] = 64,
    pool: PoolOption = None,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that a certificate belongs to this encoder and graph, and that its values are right.

    Weights, edges and features are compared by their digests; budgets, directions, clean values and the values of
    witnesses are recomputed. The bounds themselves are proved again only with --proof. Exit code 3 if anything is
    wrong, or not proved.

    **Examples**

        certgcl verify result --graph cora --weights encoder.npz

        certgcl verify result --graph cora --weights encoder.npz --nodes 0:100 --proof

        certgcl verify runs/Cora-grace-none-0/certificates/degree-0.4 --run runs/Cora-grace-none-0
    """
    chosen = read_nodes(nodes)
    with reported_errors(as_json, "Nothing is lost; run the same command again"):
        encoder, source = choose_encoder(run, weights, dataset, graph, data_root, several=True)
        file = certificate / MERGED if certificate.is_dir() else certificate
        if source.several:
            refuse_options({"--view": view, "--nodes": nodes, "--proof": proof or None})
            found = GraphCertificate.load(file).verify(
                pooling_model(run, encoder, pool, None), source.load_several(data_root)
            )
        else:
            data, second = source.load(data_root), None if view is None else load_graph(view)
            found = Certificate.load(file).verify(GraphNetwork.load(encoder), data, nodes=chosen, view=second)
            if proof:
                found = Verification(
                    (
                        *found.checks,
                        prove(
                            file,
                            encoder,
                            Graph.of(data),
                            view=second,
                            branches=branches,
                            nodes=None if chosen is None else torch.as_tensor(chosen).tolist(),
                        ),
                    )
                )
        show(as_json, found.to_dict(), str(found))
    if not found.ok:
        raise typer.Exit(FOUND)
