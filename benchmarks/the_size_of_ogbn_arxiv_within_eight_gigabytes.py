"""``degree-fast`` certifies all nodes of a power-law graph of the size of ogbn-arxiv within eight gigabytes.

Power-law graphs (exponent 2.5, no largest degree imposed), 128 features, encoder 256, 128, q = round(0.4 d), all nodes;
each size in a fresh process. 169,343 nodes and 1,166,243 edges are the size of ogbn-arxiv. The time is that of
``node_compactness`` on a graph already built. For comparison there are the multiply-adds of the formulas
(``benchmarks/arithmetic.py``). Neighbours of more than 256 edges enter the output by intervals alone. A million nodes
take 22 GB, which ``--memory-limit 20`` allows (graph and libraries come on top) but three quarters of 24 GB would not.

``python -m benchmarks.the_size_of_ogbn_arxiv_within_eight_gigabytes [--largest 169343] [--json FILE [--keep]]``
"""

import contextlib
from typing import Any

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.arithmetic import multiply_adds
from benchmarks.power_law import power_law_graph
from benchmarks.setting import WIDTHS, budget, make_encoder, ring_lattice
from certgcl.bounds import METHODS, Degree

NAME = "the_size_of_ogbn_arxiv_within_eight_gigabytes"
SIZES = {
    10_000: 100_000,
    30_000: 300_000,
    100_000: 1_000_000,
    169_343: 1_166_243,
    300_000: 3_000_000,
    1_000_000: 10_000_000,
}
ARXIV = 169_343
FEATURES = 128


def certify(
    nodes: int, edges: int, exponent: float, method: str, dtype: str, options: dict[str, Any]
) -> dict[str, Any]:
    graph, built = measure.timed(lambda: power_law_graph(nodes, edges, FEATURES, exponent))
    weights, drops, precision = make_encoder(graph).network(), budget(graph), getattr(torch, dtype)
    certgcl.node_compactness(weights, ring_lattice(100, FEATURES), 1, method=method, dtype=precision)  # warm-up
    certificate, spent = measure.cost(
        lambda: certgcl.node_compactness(weights, graph, drops, method=method, dtype=precision, **options)
    )
    degree, bound = graph.degree.double(), METHODS[method]
    needed = multiply_adds(graph, drops.on(graph), WIDTHS, bound) if isinstance(bound, Degree) else {}
    return {
        "nodes": nodes,
        "edges": edges,
        "dtype": dtype,
        "max_degree": int(degree.max()),
        "build_seconds": built,
        "mean_neighbour_degree": float(degree.square().sum() / degree.sum()),
        **spent,
        "multiply_adds": sum(needed.values()) or None,
        "lower_of_clean": float(certificate.lower.mean() / certificate.nominal.mean()),
        "share_positive": certificate.share_positive,
    }


def main() -> None:
    parser = report.parser(__doc__)
    report.add_sizes(parser, SIZES)
    parser.add_argument("--method", default="degree-fast")
    parser.add_argument("--exponent", type=float, default=2.5)
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--memory-limit", type=float, help="GB that node_compactness may use")
    arguments, sizes, rows = report.chosen(parser, SIZES)
    torch.set_num_threads(arguments.threads)
    options = report.memory_limit(arguments.memory_limit)
    settings = {"method": arguments.method, "exponent": arguments.exponent}
    for nodes in sizes:
        row = {"nodes": nodes, "edges": SIZES[nodes], "dtype": arguments.dtype}
        with contextlib.suppress(MemoryError):
            row = measure.in_fresh_process(
                certify, nodes, SIZES[nodes], arguments.exponent, arguments.method, arguments.dtype, options
            )
        rows.append(row)
        print(row, flush=True)
        report.save(NAME, arguments.json, **settings, **summary(rows))
    report.publish(NAME, arguments.json, **settings, **summary(rows))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row["nodes"])
    done = [row for row in rows if "seconds" in row]
    arxiv = next((row for row in rows if row["nodes"] == ARXIV), {})
    failed = bool(arxiv) and arxiv not in done
    return {
        "rows": rows,
        "growth": {key: fitted(done, key) for key in ("seconds", "multiply_adds")},
        "aims": [
            report.aim("the size of ogbn-arxiv, seconds", arxiv.get("seconds"), at_most=900, failed=failed),
            report.aim("the size of ogbn-arxiv, peak GB", arxiv.get("peak_gb"), at_most=8, failed=failed),
        ],
    }


def fitted(rows: list[dict[str, Any]], key: str) -> float | None:
    """The exponent of the time in the number of edges, for computations in float64."""
    rows = [row for row in rows if row[key] and row["dtype"] == "float64"]
    return measure.growth([row["edges"] for row in rows], [row[key] for row in rows])


def tables(result: dict[str, Any]) -> list[str]:
    def cells(row: dict[str, Any]) -> list[Any]:
        each = 1e6 * row["seconds"] / row["edges"] if "seconds" in row else "out of memory"
        needed = row["multiply_adds"] / 1e9 if row.get("multiply_adds") else None
        return [
            *map(row.get, ("nodes", "edges", "dtype", "max_degree", "mean_neighbour_degree")),
            needed,
            row.get("seconds"),
            each,
            row.get("peak_gb"),
        ]

    table = report.markdown(
        [
            "nodes",
            "edges",
            "precision",
            "max degree",
            "mean degree of a neighbour",
            "multiply-adds, 10⁹",
            "seconds",
            "µs an edge",
            "peak, GB",
        ],
        [cells(row) for row in result["rows"]],
    )
    powers = [
        f"{name} ~ edges^{result['growth'][key]:.2f}"
        for name, key in (("time", "seconds"), ("multiply-adds", "multiply_adds"))
        if result["growth"][key] is not None
    ]
    return [table, f"`{result['method']}`; {', '.join(powers) or 'no growth fitted'} (float64)."]


if __name__ == "__main__":
    main()
