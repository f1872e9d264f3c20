"""``certgcl certify``: lower bounds of node compactness, shard by shard."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from certgcl.certificate import Certificate
from certgcl.cli.arguments import JsonFlag, check_method, read_budget, read_nodes, read_worker
from certgcl.cli.outcome import outcome, show
from certgcl.cli.progress import ShardBar
from certgcl.encoder import GCNWeights
from certgcl.sharding import MERGED, ShardRun, certify_shards, merge_shards
from certgcl.storage import load_graph

_GRAPH = "a folder with x.npy and edge_index.npy (features stay on disk), an .npz or a .pt file"


def certify(
    graph: Annotated[Path, typer.Option(exists=True, help=f"The graph: {_GRAPH}.")],
    weights: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The encoder, as written by "
                                          "certgcl.read_encoder(model, graph).save(path).")],
    budget: Annotated[str, typer.Option(help="Edges that may be dropped at each node (2), or a drop rate (0.4): "
                                        "round(0.4 degree), at most degree - 1.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="The folder of the shards; made if needed.")],
    total: Annotated[int | None, typer.Option(min=0, help="Edges that may be dropped in all.")] = None,
    method: Annotated[str, typer.Option(callback=check_method, help="degree, degree-fast, degree-cheap, crown, "
                                        "interval; paper and released are not bounds.")] = "degree",
    view: Annotated[Path | None, typer.Option(exists=True, help="The fixed second view: a graph with the same nodes; "
                                              "the graph itself by default.")] = None,
    nodes: Annotated[str | None, typer.Option(help="The nodes to certify: 0:1000, or a file of numbers (.npy or text); "
                                              "all by default.")] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="The number of shards; about 2,000 nodes in each by "
                                               "default.")] = None,
    shard: Annotated[str | None, typer.Option("--shard", metavar="K/N", help="Do only the shards i with i % N == K, "
                                              "K counted from 0; torchrun's RANK/WORLD_SIZE by default.")] = None,
    order: Annotated[Literal["near", "given"], typer.Option(help="Bring neighbours to the same shard, or keep the "
                                                            "nodes as given.")] = "near",
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="The precision of the computation.")] = "float64",
    memory_limit: Annotated[float | None, typer.Option(min=0.01, metavar="GB", help="About how much memory to use; "
                                                       "half of what is free by default.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Certify the nodes of a graph, shard by shard.

    Finished shards in the folder are kept: after a kill or Ctrl-C, run the same command again. Without --shard all
    shards are done and merged into certificate.npz; with it, run `certgcl merge` when all workers are through.

    **Examples**

        certgcl certify --graph cora --weights encoder.npz --budget 2 --out result

        certgcl certify --graph cora --weights encoder.npz --budget 0.4 --shard 0/2 --out result

        torchrun --nproc-per-node 2 -m certgcl certify --graph cora --weights encoder.npz --budget 0.4 --out result
    """
    edges, chosen, worker = read_budget(budget, total), read_nodes(nodes), read_worker(shard)
    start = time.monotonic()
    with outcome(as_json, f"Finished shards are kept in {out}; run the same command again to go on"):
        # Workers that torchrun starts share a terminal: one of them shows how far it is.
        with ShardBar(shown=shard is not None or worker is None or worker[0] == 0) as bar:
            run = certify_shards(
                GCNWeights.load(weights), load_graph(graph), edges, out, method=method, dtype=getattr(torch, dtype),
                view=None if view is None else load_graph(view), nodes=chosen, shards=shards, order=order,
                worker=worker, progress=bar,
                memory_limit=None if memory_limit is None else int(memory_limit * 1024**3),
            )
        alone = worker is None or worker[1] == 1
        certificate = merge_shards(out) if alone else None
        show(as_json, _result(run, certificate, time.monotonic() - start), _text(run, certificate))


def _result(run: ShardRun, certificate: Certificate | None, seconds: float) -> dict[str, Any]:
    return {
        "out": str(run.folder), "fingerprint": run.manifest.fingerprint, "shards": run.manifest.shards,
        "computed": run.computed, "kept": run.kept, "missing": run.missing, "seconds": round(seconds, 3),
        "certificate": None if certificate is None else summary(run.folder, certificate),
    }


def summary(folder: Path, certificate: Certificate) -> dict[str, Any]:
    """A certificate in a few numbers."""
    lower = certificate.lower.double()
    return {
        "path": str(folder / MERGED), "method": certificate.method, "certified": certificate.certified,
        "nodes": len(certificate.nodes), "positive": int(certificate.positive.sum()),
        "nominal_mean": float(certificate.nominal.double().mean()), "lower_mean": float(lower.mean()),
        "lower_min": float(lower.min()), "lower_max": float(lower.max()),
    }


def _text(run: ShardRun, certificate: Certificate | None) -> str:
    if certificate is not None:
        return f"{certificate}\nwritten to {run.folder / MERGED}"
    done = f"{len(run.computed)} shards computed, {len(run.kept)} were there"
    if run.missing:
        return f"{done}; {len(run.missing)} of {run.manifest.shards} left to other workers"
    return f"{done}; all {run.manifest.shards} are there: certgcl merge {run.folder}"
