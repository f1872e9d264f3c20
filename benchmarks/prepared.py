"""Small random graphs, and the bounds of certgcl and auto_LiRPA on them as calls on prepared inputs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BoundMethod, Degree
from certgcl.models import gcn_network

WIDTHS = (16, 16, 8)
COARSEST = "degree-cheap, one case"
FIRST = f"{COARSEST}, first call"
_ONE_CASE = Degree(preactivations="interval", slopes=("adaptive",), lines="shared", resolution=1)
CERTGCL: dict[str, BoundMethod] = {
    **{name: METHODS[name] for name in ("degree", "degree-fast", "degree-cheap", "crown")},
    COARSEST: _ONE_CASE,
    FIRST: _ONE_CASE,
}
PLAIN, OPTIMIZED = "LiRPA CROWN", "LiRPA CROWN-Optimized"
LIRPA: dict[str, dict[str, Any]] = {  # how ``LirpaGCN.lower`` is called
    PLAIN: {"method": "CROWN"},
    f"{OPTIMIZED}, 5 steps": {"method": "CROWN-Optimized", "iterations": 5},
    OPTIMIZED: {"method": "CROWN-Optimized", "iterations": 20},
}


class Inputs(NamedTuple):
    nodes: int
    graph: certgcl.Graph
    weights: certgcl.GraphNetwork
    local: list[int]  # q
    directions: Tensor


def make_inputs(nodes: int) -> Inputs:
    network = nx.gnm_random_graph(nodes, 2 * nodes, seed=nodes)
    random, (d0, d1, d2) = np.random.default_rng(nodes), WIDTHS

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return torch.from_numpy(random.normal(scale=scale, size=shape))

    graph = certgcl.Graph.from_networkx(network, normal(nodes, d0))
    weights = gcn_network(
        (normal(d0, d1, scale=d0**-0.5), normal(d1, scale=0.1), 0.0),
        (normal(d1, d2, scale=d1**-0.5), normal(d2, scale=0.1), 0.0),
    )
    local = [round(0.4 * degree) for degree in graph.degree.tolist()]
    return Inputs(nodes, graph, weights, local, certgcl.compactness_directions(weights.embed(graph)))


def bound(name: str, inputs: Inputs) -> Callable[[], Tensor]:
    """The call that is timed, on prepared inputs."""
    graph, weights = inputs.graph, inputs.weights
    if name in CERTGCL:
        budget = certgcl.EdgeDropBudget(local=inputs.local)
        prepared = certgcl.PreparedGraph(graph, budget)

        def call() -> Tensor:
            asked = (graph, budget) if name == FIRST else (prepared, None)
            return certgcl.linear_bounds(weights, *asked, inputs.directions, method=CERTGCL[name]).lower

        return call
    from verification import lirpa  # here, so that auto_LiRPA is only loaded where it is used

    network = nx.Graph(graph.edge_index.T.tolist())
    network.add_nodes_from(range(inputs.nodes))
    box = lirpa.box(network, inputs.local, graph.num_edges)
    layers = [tensor for _, tensor in weights.named_tensors()]
    return lambda: lirpa.LirpaGCN(box, graph.x, *layers, inputs.directions).lower(**LIRPA[name])
