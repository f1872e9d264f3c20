"""``certgcl certify``: lower bounds of node compactness, shard by shard."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from certgcl.bounds import METHODS, SEARCHES, get_method
from certgcl.certify.certificate import Certificate
from certgcl.certify.other_budgets import QUICK, SAMPLE
from certgcl.certify.pooling import GraphCertificate
from certgcl.certify.sharding import MERGED, ShardRun, certify_shards, merge_shards
from certgcl.cli.changes import (
    AddedOption,
    BoxOption,
    ColumnsOption,
    FlippedOption,
    MaskedOption,
    folder_suffix,
    read_changes,
)
from certgcl.cli.graph_sets import PoolOption, certify_graphs, pooling_model
from certgcl.cli.options import (
    AddressOption,
    BudgetOption,
    DataRootOption,
    DatasetOption,
    DeviceOption,
    ExecutorOption,
    GraphOption,
    JsonFlag,
    RunOption,
    TotalOption,
    WeightsOption,
    WorkersOption,
    choose_encoder,
    moved,
    one_of,
    read_executor,
    read_nodes,
    read_worker,
)
from certgcl.cli.progress import ShardBar
from certgcl.cli.results import reported_errors, show
from certgcl.cli.run_folders import CERTIFICATES
from certgcl.graphs.graph import Graph
from certgcl.graphs.storage import load_graph
from certgcl.models.network import GraphNetwork

MOST_MEMORY = 1e9  # gigabytes


def certify(
    budget: BudgetOption,
    run: RunOption = None,
    graph: GraphOption = None,
    dataset: DatasetOption = None,
    weights: WeightsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="The folder of the shards; created if needed. With "
            "--run, certificates/METHOD-BUDGET in the run by default.",
        ),
    ] = None,
    total: TotalOption = None,
    added: AddedOption = None,
    flipped: FlippedOption = None,
    masked: MaskedOption = None,
    columns: ColumnsOption = None,
    box: BoxOption = None,
    method: Annotated[
        str,
        typer.Option(
            **one_of(METHODS | SEARCHES),
            help="degree, degree-fast, degree-cheap, "
            "crown, interval; optimized and exact search, and give brackets; paper and "
            "released are not bounds.",
        ),
    ] = "degree",
    time_limit: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="The time limit of a search, for all nodes together.")
    ] = None,
    branch_limit: Annotated[
        int | None, typer.Option(min=0, help="The most branches of a search at each node; 128 for optimized.")
    ] = None,
    view: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="The fixed second view: a graph with the same nodes; the graph itself by default."
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="The nodes to certify: 0:1000, or a file of numbers (.npy or text); all by default."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="The number of shards; about 2,000 nodes in each by default.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="K/N",
            help="Do only the shards i with i % N == K, K counted from 0; torchrun's RANK/WORLD_SIZE by default.",
        ),
    ] = None,
    order: Annotated[
        Literal["near", "given"],
        typer.Option(help="Put neighbours into the same shard, or keep the order of the nodes."),
    ] = "near",
    pool: PoolOption = None,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="The precision of the computation.")] = "float64",
    memory_limit: Annotated[
        float | None,
        typer.Option(
            min=0.01, metavar="GB", help="About how much memory to use; three quarters of what is free by default."
        ),
    ] = None,
    reproducible: Annotated[
        bool | None,
        typer.Option(
            "--reproducible/--not-reproducible",
            help="Compute every shard separately and by one thread: its file is the same to "
            "the last bit in every process. By default off, or as it was when the folder was created.",
        ),
    ] = None,
    executor: ExecutorOption = "here",
    workers: WorkersOption = None,
    address: AddressOption = None,
    proof: Annotated[bool, typer.Option("--proof", help="Store the choices that certgcl verify --proof needs.")] = (
        False
    ),
    sample: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"At how many random nodes to find the budget at which half of the nodes are lost; {SAMPLE} by "
            f"default, 0 (leave it out) on graphs of more than {QUICK // 2:,} edges.",
        ),
    ] = None,
    device: DeviceOption = None,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Certify the nodes of a graph, shard by shard; or whole graphs of a set, such as MUTAG.

    Finished shards in the folder are kept: after a kill or Ctrl-C, run the same command again. Without --shard all
    shards are done and merged into certificate.npz; with it, run `certgcl merge` when all workers have finished.

    **Examples**

        certgcl certify --run runs/Cora-grace-degree-fast-0 --budget 0.4

        certgcl certify --graph cora --weights encoder.npz --budget 2 --out result

        certgcl certify --run runs/Cora-grace-degree-fast-0 --budget 0.4 --method exact --time-limit 600

        certgcl certify --graph cora --weights encoder.npz --budget 0 --masked 2 --out masked

        certgcl certify --graph cora --weights encoder.npz --budget 0.4 --executor processes --workers 4 --out result

        certgcl certify --graph cora --weights encoder.npz --budget 0.4 --executor ray --address auto --out result

        certgcl certify --graph cora --weights encoder.npz --budget 0.4 --shard 0/2 --out result

        certgcl certify --run runs/MUTAG-graphcl-degree-fast-0 --budget 3 --total 2

        torchrun --nproc-per-node 2 -m certgcl certify --graph cora --weights encoder.npz --budget 0.4 --out result
    """
    changes = read_changes(budget, total, added, flipped, masked, columns, box)
    chosen, worker = read_nodes(nodes), read_worker(shard)
    place = read_executor(executor, workers, address)
    if run is None and out is None:
        raise typer.BadParameter("pass a folder", param_hint="--out")
    out = out or Path(
        str(run),
        CERTIFICATES,
        f"{method}-{budget}" + folder_suffix(added=added, flipped=flipped, masked=masked, columns=columns, box=box),
    )
    start = time.monotonic()
    with reported_errors(as_json, f"Finished shards are kept in {out}; run the same command again to continue"):
        encoder, source = choose_encoder(run, weights, dataset, graph, data_root, several=True)
        if source.several:
            nodes_alone = {
                "--view": view,
                "--nodes": nodes,
                "--shards": shards,
                "--shard": shard,
                "--branch-limit": branch_limit,
                "--memory-limit": memory_limit,
                "--reproducible": reproducible,
            }
            certify_graphs(
                pooling_model(run, encoder, pool, device),
                source.load_several(data_root),
                changes,
                out,
                method=method,
                dtype=getattr(torch, dtype),
                time_limit=time_limit,
                device=device,
                as_json=as_json,
                nodes_alone=nodes_alone,
            )
            return
        # Workers started by torchrun share a terminal: only one of them shows its progress.
        with ShardBar(shown=shard is not None or worker is None or worker[0] == 0) as bar:
            bound = get_method(
                method,
                time_limit=time_limit,
                branch_limit=branch_limit,
                progress=bar.searched if method in SEARCHES else None,
            )
            network, whole_graph = moved(GraphNetwork.load(encoder), device), moved(source.load(data_root), device)
            done = certify_shards(
                network,
                whole_graph,
                changes,
                out,
                method=bound,
                view=None if view is None else moved(load_graph(view), device),
                nodes=chosen,
                dtype=getattr(torch, dtype),
                shards=shards,
                order=order,
                worker=worker,
                reproducible=reproducible,
                executor=place,
                proof=proof,
                progress=bar,
                memory_limit=None if memory_limit is None else bytes_of(memory_limit),
            )
        alone = worker is None or worker[1] == 1
        certificate = merge_shards(out) if alone else None
        if certificate is not None and certificate.certified and sample != 0:
            found = Graph.of(whole_graph)  # the curve is printed; the file stays the one that `merge` writes
            if sample or found.col.numel() <= QUICK:
                certificate = certificate.with_curve(network, found, sample=sample or SAMPLE)
        show(as_json, _result(done, certificate, time.monotonic() - start), _text(done, certificate))


def bytes_of(gigabytes: float) -> int:
    if not gigabytes < MOST_MEMORY:
        raise typer.BadParameter(
            f"{gigabytes} is not a number of gigabytes below {MOST_MEMORY:g}", param_hint="--memory-limit"
        )
    return int(gigabytes * 1024**3)


def _result(run: ShardRun, certificate: Certificate | None, seconds: float) -> dict[str, Any]:
    return {
        "out": str(run.folder),
        "fingerprint": run.manifest.fingerprint,
        "shards": run.manifest.shards,
        "computed": run.computed,
        "kept": run.kept,
        "missing": run.missing,
        "seconds": round(seconds, 3),
        "certificate": None if certificate is None else summary(run.folder, certificate),
    }


def summary(folder: Path, certificate: Certificate | GraphCertificate) -> dict[str, Any]:
    """A certificate in a few numbers."""
    if isinstance(certificate, GraphCertificate):
        return {"path": str(folder / MERGED)} | certificate.summary()
    lower, measures, curve = certificate.lower.double(), certificate.measures, certificate.curve
    bracket = (
        {}
        if certificate.upper is None
        else {
            "upper_mean": float(certificate.upper.double().mean()),
            "exact": int(certificate.exact.sum()),
            "negative": int(certificate.negative.sum()),
        }
    )
    return {
        "path": str(folder / MERGED),
        "method": certificate.method,
        "settings": certificate.evidence.method.shown,
        "certified": certificate.certified,
        "precision": certificate.precision,
        "reading": certificate.reading,
        "nodes": len(certificate.nodes),
        "positive": int(certificate.positive.sum()),
        "positive_in_exact_arithmetic": int(certificate.positive_in_exact_arithmetic.sum()),
        "share_positive": measures.positive,
        "kept": measures.kept,
        "over_norm": measures.over_norm,
        "nominal_over_norm": measures.nominal_over_norm,
        "nominal_mean": float(certificate.nominal.double().mean()),
        "lower_mean": float(lower.mean()),
        "lower_min": float(lower.min()),
        "lower_max": float(lower.max()),
        "half_lost": None if curve is None else {"rate": curve.half_rate, "count": curve.half_count},
        **bracket,
    }


def _text(run: ShardRun, certificate: Certificate | None) -> str:
    if certificate is not None:
        return f"{certificate}\nwritten to {run.folder / MERGED}"
    done = f"{len(run.computed)} shards computed, {len(run.kept)} were finished before"
    if run.missing:
        return f"{done}; {len(run.missing)} of {run.manifest.shards} left to other workers"
    return f"{done}; all {run.manifest.shards} are finished: certgcl merge {run.folder}"
