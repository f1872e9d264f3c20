"""The slack for rounding costs no node of Cora for bounds in float64, and following errors keeps it small.

Random GCNs of two and three layers, all nodes, drop rate 0.4, ``degree-fast``. Medians over the nodes of slack over
``|lower|``, for errors followed layer by layer at each node (what the library does) and for one constant from the
shapes alone: the roundings of the longest sums of all layers together, times the size of what is summed. *Lost* are
nodes with a positive ``lower`` that are not positive after the slack.

``CERTGCL_DATA=... python -m benchmarks.the_slack_costs_no_node [--layers 2,3] [--json FILE]``
"""

from dataclasses import replace
from typing import Any

import torch

import certgcl
from benchmarks import report
from benchmarks.real_graphs import load
from benchmarks.setting import DROP_RATE
from certgcl.bounds import ChangeProblem
from certgcl.bounds.rounding.forward_error import Growth, longest_sums
from certgcl.bounds.rounding.slack import Sizes, bound_factor
from certgcl.models import GraphNetwork, gcn_network

WIDTHS = {2: (256, 128), 3: (256, 256, 128)}
FORMATS = (torch.float64, torch.float32)


def network_of(graph: certgcl.Graph, depth: int, precision: torch.dtype) -> GraphNetwork:
    """ReLU in all layers but the last; weights drawn as by Glorot."""
    random, before, layers = torch.Generator().manual_seed(0), graph.num_features, []
    for number, width in enumerate(WIDTHS[depth], 1):
        reach = (6 / (before + width)) ** 0.5
        weight = reach * (2 * torch.rand(before, width, generator=random) - 1)
        layers.append((weight.to(precision), 0.0, float(number == depth)))
        before = width
    return replace(gcn_network(*layers), precision=precision)


def measured(graph: certgcl.Graph, depth: int, precision: torch.dtype, dtype: torch.dtype) -> dict[str, Any]:
    """For a model in some precision, and bounds in some dtype."""
    network = network_of(graph, depth, precision)
    found = certgcl.node_compactness(network, graph, DROP_RATE, method="degree-fast", dtype=dtype)
    budget = certgcl.Changes.of(DROP_RATE).on(graph)
    sizes = Sizes.of(network, ChangeProblem(graph, budget, found.nodes), dtype)
    # W^CL has its own error, the same for both ways of counting: only that of the bound is compared.
    followed = sizes.bound_slack(found.directions[:, None])[:, 0]
    most_edges = int(graph.degree.max())
    roundings = Growth(dtype, most_edges).of(longest_sums(network, most_edges) + network.width + 8)
    shapes = bound_factor(network) * roundings * (found.directions.abs() * sizes.output).sum(dim=1)
    proved = found.lower > 0
    return {
        "layers": depth,
        "model": str(precision).removeprefix("torch."),
        "bounds": str(dtype).removeprefix("torch."),
        "followed": float((followed / found.lower.abs()).median()),
        "shapes": float((shapes / found.lower.abs()).median()),
        "nodes": graph.num_nodes,
        "proved": int(proved.sum()),
        "lost": int((proved & ~found.positive_in_exact_arithmetic).sum()),
        "lost_by_shapes": int((proved & ~(found.lower > found.rounding - followed + shapes)).sum()),
        "lost_as_run": int((proved & ~found.positive).sum()),
    }


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--layers", default="2,3")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graph = certgcl.Graph.of(load("Cora"))
    rows = [
        measured(graph, int(depth), precision, dtype)
        for depth in arguments.layers.split(",")
        for precision in FORMATS
        for dtype in FORMATS
    ]
    wide = [row["lost"] for row in rows if row["bounds"] == "float64"]
    report.publish(
        "the_slack_costs_no_node",
        arguments.json,
        rows=rows,
        aims=[
            report.aim("nodes lost to the slack of bounds in float64", max(wide), at_most=0),
            report.aim(
                "errors followed, over a constant of the shapes",
                max(row["followed"] / row["shapes"] for row in rows),
                at_most=1,
            ),
        ],
    )


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            [
                "layers",
                "model",
                "bounds",
                "slack / \\|lower\\|, errors followed",
                "from shapes alone",
                "lower > 0",
                "lost",
                "lost, from shapes",
                "lost as run",
            ],
            [
                [
                    row[part]
                    for part in (
                        "layers",
                        "model",
                        "bounds",
                        "followed",
                        "shapes",
                        "proved",
                        "lost",
                        "lost_by_shapes",
                        "lost_as_run",
                    )
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
