"""Every setting by kernels on graphs of many kinds, with gradients; run where numba checks the bounds of arrays."""

import networkx as nx
import torch

from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.bounds.compiled.test_compiled import SETTINGS, SMOOTH, bounds_and_gradients
from tests.toys import drop_problem, hubs_and_others, random_graph, toy_graph


def problems() -> list[tuple[Graph, EdgeDropBudget, list[int] | None]]:
    """Hubs, nodes alone, no edges, edges that cannot be dropped, one or some anchors."""
    dense, wide = random_graph(14, 0.6, seed=1), toy_graph(nx.star_graph(40))
    return [
        (*hubs_and_others(), None),
        (toy_graph(nx.empty_graph(2)), EdgeDropBudget(), None),
        (dense, EdgeDropBudget(), None),
        (dense, EdgeDropBudget(local=[k % 3 for k in range(14)]), [3, 1]),
        (wide, EdgeDropBudget(local=[20] + 40 * [1]), None),
        (wide, EdgeDropBudget(local=[9] + 10 * [1] + 30 * [0]), [0]),
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for graph, budget, anchors in problems():
        for method in SETTINGS.values():
            bounds_and_gradients(method, SMOOTH, drop_problem(graph, budget, anchors))
