"""A shard of a graph on disk loads its halo and not the graph: how halos grow, what hubs cost, and how much memory it
takes.

``python -m benchmarks.a_shard_loads_its_halo [--json FILE]``

Graphs are written to disk and certified at some nodes in a fresh process, with fewer and more anchors in a part, for a
network of two hops. *hubs* is the limit above which neighbours enter the last step by intervals alone. In the first
graphs, nodes are numbered at random and anchors are anywhere, so that every part meets the same hubs. The others are
partitioned, as a large graph should be before it is stored: clusters numbered one after the other, nine tenths of the
edges within them, as many edges for each node as ogbn-papers100M has; anchors are neighbours in that order. The rest of
the edges leads to any cluster, or to one of the next two.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.power_law import clustered_power_law_graph, power_law_graph
from benchmarks.setting import make_encoder
from certgcl.bounds import METHODS
from certgcl.certify.halos import HaloQuestion, UnitTotals

NAME = "a_shard_loads_its_halo"
FEATURES = 128
SCATTERED = {"hubs, 10,000": 10_000, "hubs, 100,000": 100_000}  # nodes, with three edges for each
CLUSTER, CLUSTERS, EDGES = 2_000, 40, 14.5
CLUSTERED = {"clusters, linked anywhere": CLUSTERS - 1, "clusters, linked nearby": 2}  # how far an edge leads
PARTS: dict[str, list[tuple[int, int | None]]] = {  # anchors, hubs
    "hubs, 10,000": [(16, None)],
    "hubs, 100,000": [(1, None), (16, None), (16, 100), (16, 20), (128, None)],
    "clusters, linked anywhere": [(16, None), (CLUSTER, None)],
    "clusters, linked nearby": [(16, None), (CLUSTER, None), (CLUSTER, 100)],
}


def write(folder: Path, name: str) -> dict[str, Any]:
    if name in CLUSTERED:
        nodes = CLUSTER * CLUSTERS
        graph = clustered_power_law_graph(nodes, round(EDGES * nodes), FEATURES, CLUSTER, CLUSTERED[name])
    else:
        graph = power_law_graph(SCATTERED[name], 3 * SCATTERED[name], FEATURES)
    make_encoder(graph).network().save(folder / "encoder.npz")
    stored = certgcl.StoredGraph.save(folder / "rows", graph)
    size = sum(path.stat().st_size for path in stored.folder.glob("*.npy")) / 1e9
    return {
        "name": name,
        "gb": size,
        "check_seconds": measure.timed(lambda: certgcl.StoredGraph.open(stored.folder))[1],
        "edges": graph.num_edges,
        "max_degree": int(graph.degree.max()),
    }


def halo(folder: Path, name: str, anchors: int, hubs: int | None) -> dict[str, Any]:
    """What one part takes: its halo, and the bounds, in a process that has done nothing else."""
    stored = certgcl.StoredGraph.open(folder / "rows", check=False)
    network = certgcl.GraphNetwork.load(folder / "encoder.npz")
    if name in CLUSTERED:
        chosen = torch.arange(anchors) + CLUSTERS // 2 * CLUSTER
    else:
        chosen = torch.randperm(stored.num_nodes, generator=torch.Generator().manual_seed(0))[:anchors].sort().values
    found, loading = measure.timed(lambda: stored.halo(chosen, 2))
    question = HaloQuestion.about(
        network, stored, 0.3, method=replace(METHODS["degree-fast"], hubs=hubs), dtype=torch.float64, reading="traced"
    )
    width = torch.zeros(network.width, dtype=torch.float64)  # the time does not depend on the sums over all nodes
    vars(question)["totals"] = UnitTotals(width, width)
    question.certify(chosen[:1])  # kernels are compiled, and loaded
    start = time.process_time()
    certificate, spent = measure.cost(lambda: question.certify(chosen))
    seconds = time.process_time() - start
    return {
        "graph": name,
        "anchors": anchors,
        "hubs": hubs,
        "nodes": found.graph.num_nodes,
        "slots": found.graph.col.numel(),
        "share": found.graph.num_nodes / stored.num_nodes,
        "load_seconds": loading,
        "cpu_seconds": seconds,
        "added_gb": spent["added_gb"],
        "kept": float(certificate.lower.mean() / certificate.nominal.mean()),
    }


def main() -> None:
    arguments = report.parser(__doc__, threads=1).parse_args()
    graphs, rows = [], []
    for name, parts in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            graphs.append(measure.in_fresh_process(write, Path(folder), name))
            for anchors, hubs in parts:
                rows.append(measure.in_fresh_process(halo, Path(folder), name, anchors, hubs))
                print(rows[-1], flush=True)
    report.publish(NAME, arguments.json, **summary(graphs, rows))


def summary(graphs: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    cluster = next(row for row in rows if row["graph"] == "clusters, linked nearby" and row["anchors"] == CLUSTER)
    return {
        "graphs": graphs,
        "rows": rows,
        "aims": [report.aim("share of the graph that a cluster loads, linked nearby", cluster["share"], at_most=0.5)],
    }


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            [
                "graph",
                "anchors in a part",
                "hubs",
                "nodes of the halo",
                "of the graph, %",
                "loading, s",
                "CPU s an anchor",
                "added, GB",
                "bound / clean",
            ],
            [
                [
                    row["graph"],
                    row["anchors"],
                    "all" if row["hubs"] is None else row["hubs"],
                    row["nodes"],
                    100 * row["share"],
                    row["load_seconds"],
                    row["cpu_seconds"] / row["anchors"],
                    row["added_gb"],
                    round(row["kept"], 4) + 0.0,  # no -0
                ]
                for row in result["rows"]
            ],
        ),
        report.markdown(
            ["graph", "edges", "largest degree", "on disk, GB", "checksums, s"],
            [
                [graph["name"], graph["edges"], graph["max_degree"], graph["gb"], graph["check_seconds"]]
                for graph in result["graphs"]
            ],
        ),
    ]


if __name__ == "__main__":
    main()
