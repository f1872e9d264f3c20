"""How close ``degree`` is to the time that its arithmetic needs at the speed of a matrix product.

Cora, encoder 256, 128 at random weights, q = round(0.4 d), float64, all nodes. The multiply-adds are counted from the
formulas (``benchmarks/arithmetic.py``); the speed is that of a product of two 2048 × 2048 matrices, interleaved with
the bounds. A run under the profiler says where the time goes.

``CERTGCL_DATA=... python -m benchmarks.near_the_arithmetic_limit [--json FILE]``
"""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import certgcl
from benchmarks import measure, report
from benchmarks.arithmetic import multiply_adds
from benchmarks.operators import self_times
from benchmarks.real_graphs import load
from benchmarks.setting import WIDTHS, budget, make_encoder
from certgcl.bounds import METHODS, ChangeProblem, Degree

NAMES = ("degree", "degree-fast")
SIDE = 2048


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graph", default="Cora")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graph = certgcl.Graph.of(load(arguments.graph))
    weights, drops = make_encoder(graph).network().to(torch.float64), budget(graph).on(graph)
    anchors = torch.arange(graph.num_nodes)

    def bound(method: Degree) -> Callable[[], Tensor]:
        return torch.no_grad()(lambda: method(weights, ChangeProblem(graph, drops, anchors), directions))

    with torch.no_grad():
        directions = certgcl.compactness_directions(weights.embed(graph))[:, None]
    matrix = torch.rand(SIDE, SIDE, dtype=torch.float64)
    methods = {name: method for name in NAMES if isinstance(method := METHODS[name], Degree)}
    calls: dict[str, Callable[[], object]] = {name: bound(method) for name, method in methods.items()}
    times = measure.interleaved(calls | {"product": lambda: matrix @ matrix}, arguments.repeats)
    speed = SIDE**3 / statistics.median(times["product"])
    rows = []
    for name, method in methods.items():
        parts = multiply_adds(graph, drops, WIDTHS, method)
        seconds, least = statistics.median(times[name]), sum(parts.values()) / speed
        groups, unnamed = self_times(calls[name])
        rows.append(
            {
                "method": name,
                "setting": repr(method),
                "multiply_adds": parts,
                "seconds": seconds,
                "least_seconds": least,
                "ratio": seconds / least,
                "profile": groups,
                "other_operators": dict(unnamed.most_common(5)),
            }
        )
    report.publish(
        "near_the_arithmetic_limit",
        arguments.json,
        graph=arguments.graph,
        repeats=arguments.repeats,
        multiply_adds_a_second=speed,
        rows=rows,
        aims=[],
    )


def tables(result: dict[str, Any]) -> list[str]:
    rows, speed = result["rows"], result["multiply_adds_a_second"]
    names = [row["method"] for row in rows]
    parts = [[part, *(row["multiply_adds"].get(part, 0) / 1e9 for row in rows)] for part in rows[0]["multiply_adds"]]
    parts.append(["needed in all", *(sum(row["multiply_adds"].values()) / 1e9 for row in rows)])
    sums = [
        ["least seconds", *(row["least_seconds"] for row in rows)],
        ["seconds", *(row["seconds"] for row in rows)],
        ["ratio", *(row["ratio"] for row in rows)],
    ]
    groups = sorted(
        {group for row in rows for group in row["profile"]}, key=lambda group: -rows[0]["profile"].get(group, 0.0)
    )
    shares = [
        [group, *(100 * row["profile"].get(group, 0.0) / sum(row["profile"].values()) for row in rows)]
        for group in groups
    ]
    return [
        f"A matrix product makes {speed / 1e9:.1f} · 10⁹ multiply-adds a second here.",
        report.markdown(["multiply-adds, 10⁹", *names], parts),
        report.markdown(["", *names], sums),
        report.markdown(["share of the time, %", *names], shares),
    ]


if __name__ == "__main__":
    main()
