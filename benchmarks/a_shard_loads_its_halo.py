"""A shard of a graph on disk loads its halo and not the graph: how halos grow, what hubs cost, what memory it takes.

``python -m benchmarks.a_shard_loads_its_halo [--nodes 30000] [--json FILE]``

A power-law graph is written to disk and certified at some nodes in a fresh process, with fewer and more anchors in a
part, for a network of two hops. *hubs* is the limit above which neighbours enter the last step by intervals alone.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.power_law import power_law_graph
from benchmarks.setting import make_encoder
from certgcl.bounds import METHODS
from certgcl.certify.halos import HaloQuestion, UnitTotals

NAME = "a_shard_loads_its_halo"
FEATURES, EDGES = 128, 3  # of a node, on average
ANCHORS = 1, 16, 128
HUBS = None, 100, 20


def write(folder: Path, nodes: int) -> dict[str, Any]:
    graph = power_law_graph(nodes, EDGES * nodes, FEATURES, 2.5)
    make_encoder(graph).network().save(folder / "encoder.npz")
    stored = certgcl.StoredGraph.save(folder / "rows", graph)
    size = sum(path.stat().st_size for path in stored.folder.glob("*.npy")) / 1e9
    return {
        "gb": size,
        "check_seconds": measure.timed(lambda: certgcl.StoredGraph.open(stored.folder))[1],
        "max_degree": int(graph.degree.max()),
    }


def halo(folder: Path, anchors: int, hubs: int | None) -> dict[str, Any]:
    """What one part takes: its halo, and the bounds, in a process that has done nothing else."""
    stored = certgcl.StoredGraph.open(folder / "rows", check=False)
    network = certgcl.GraphNetwork.load(folder / "encoder.npz")
    chosen = torch.randperm(stored.num_nodes, generator=torch.Generator().manual_seed(0))[:anchors].sort().values
    found, loading = measure.timed(lambda: stored.halo(chosen, 2))
    question = HaloQuestion.about(
        network, stored, 0.3, method=replace(METHODS["degree-fast"], hubs=hubs), dtype=torch.float64, reading="traced"
    )
    width = torch.zeros(network.width, dtype=torch.float64)  # the time does not depend on the sums over all nodes
    vars(question)["totals"] = UnitTotals(width, width)
    question.certify(chosen[:1])  # kernels are compiled, and loaded
    certificate, spent = measure.cost(lambda: question.certify(chosen))
    return {
        "anchors": anchors,
        "hubs": hubs,
        "nodes": found.graph.num_nodes,
        "slots": found.graph.col.numel(),
        "share": found.graph.num_nodes / stored.num_nodes,
        "load_seconds": loading,
        **spent,
        "kept": float(certificate.lower.mean() / certificate.nominal.mean()),
    }


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=30_000)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    graph = measure.in_fresh_process(write, folder, arguments.nodes)
    rows = []
    for anchors in ANCHORS:
        for hubs in HUBS if anchors == 16 else (None,):
            rows.append(measure.in_fresh_process(halo, folder, anchors, hubs))
            print(rows[-1], flush=True)
    report.publish(NAME, arguments.json, **summary(arguments.nodes, graph, rows))


def summary(nodes: int, graph: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    few = next(row for row in rows if row["anchors"] == 16)
    return {
        "nodes": nodes,
        "graph": graph,
        "rows": rows,
        "aims": [report.aim("share of the graph that 16 anchors load", few["share"], at_most=0.5)],
    }


def tables(result: dict[str, Any]) -> list[str]:
    graph = result["graph"]
    return [
        report.markdown(
            [
                "anchors in a part",
                "hubs",
                "nodes of the halo",
                "of the graph, %",
                "loading, s",
                "seconds an anchor",
                "peak, GB",
                "bound / clean",
            ],
            [
                [
                    row["anchors"],
                    "all" if row["hubs"] is None else row["hubs"],
                    row["nodes"],
                    100 * row["share"],
                    row["load_seconds"],
                    row["seconds"] / row["anchors"],
                    row["peak_gb"],
                    row["kept"],
                ]
                for row in result["rows"]
            ],
        ),
        f"{result['nodes']:,} nodes, {EDGES * result['nodes']:,} edges, the largest degree {graph['max_degree']:,}; "
        f"{graph['gb']:.2f} GB on disk, whose checksums take {graph['check_seconds']:.1f} s.",
    ]


if __name__ == "__main__":
    main()
