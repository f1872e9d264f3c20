"""The formulas that prove nothing are computed as they are printed."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds import Paper, Released
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph
from tests.bounds.methods import BUDGETS, assert_same, values_of
from tests.toys import (
    gcn_weights,
    like,
    random_graph,
    random_tensor,
    toy_network,
    without,
)


def printed(
    formula: str, weights: GCNWeights, graph: Graph, rate: float, direction: Tensor, view: Graph
) -> list[float]:
    """``paper`` and ``released`` entry by entry, for one direction per node; needs slopes of at most 1."""
    n, nodes = graph.num_nodes, range(graph.num_nodes)
    adjacent = torch.eye(n, dtype=torch.bool)
    adjacent[graph.row, graph.col] = True
    d = graph.degree.tolist()
    q = [max(0, min(d[i] - 1, round(rate * d[i]))) for i in nodes]
    upper = [[((d[i] + 1 - q[i]) * (d[j] + 1 - q[j])) ** -0.5 if adjacent[i, j] else 0.0 for j in nodes] for i in nodes]
    lower = [[1 / (d[i] + 1) if i == j else 0.0 for j in nodes] for i in nodes]

    def box(values: Tensor, bias: Tensor, i: int, m: int) -> tuple[float, float]:
        low, high = float(bias[m]), float(bias[m])
        for j in nodes:
            v = float(values[j, m])
            low += lower[i][j] * v if v > 0 else upper[i][j] * v
            high += upper[i][j] * v if v > 0 else lower[i][j] * v
        return low, high

    def line(weight: float, low: float, high: float, gamma: float) -> tuple[float, float]:
        """Slope and intercept of ``weight σ(p)`` from below, both lines of Table 1 with the slope of the chord."""
        if low >= 0:
            return weight, 0.0
        if high <= 0:
            return weight * gamma, 0.0
        chord = (high - gamma * low) / (high - low)
        return weight * chord, 0.0 if weight >= 0 else weight * (high - chord * high)

    y = graph.x @ weights.w1
    v = weights.activation1(graph.gcn_matrix() @ y + weights.b1) @ weights.w2
    slopes1: list[list[float]] = []
    constants1, constants2 = [], []
    for i in nodes:
        lines2 = [
            line(float(direction[i, m]), *box(v, weights.b2, i, m), float(weights.slope2[m])) for m in range(v.shape[1])
        ]
        constants2.append(sum(a * float(weights.b2[m]) + c for m, (a, c) in enumerate(lines2)))
        omega = [sum(float(weights.w2[m, c]) * a for c, (a, _) in enumerate(lines2)) for m in range(y.shape[1])]
        lines1 = [line(omega[m], *box(y, weights.b1, i, m), float(weights.slope1[m])) for m in range(y.shape[1])]
        constants1.append(sum(a * float(weights.b1[m]) + c for m, (a, c) in enumerate(lines1)))
        slopes1.append([a for a, _ in lines1])
    a_hat = view.gcn_matrix().to_dense().tolist()
    scores = []
    for i in nodes:
        score = constants2[i]
        for j in nodes:
            inner = constants1[i if formula == "paper" else j]
            for k in nodes:
                slopes = slopes1[i if formula == "paper" else k]
                inner += a_hat[j][k] * sum(float(y[k, m]) * slopes[m] for m in range(y.shape[1]))
            score += a_hat[i][j] * inner
        scores.append(score)
    return scores


@pytest.mark.parametrize(("formula", "kind"), [("paper", Paper), ("released", Released)])
@pytest.mark.parametrize("seed", range(3))
def test_printed_formulas_are_computed_as_printed(formula: str, kind: type[Paper | Released], seed: int) -> None:
    graph = random_graph(nodes=7, density=0.7, seed=seed)
    view = without(graph, ((0, int(graph.col[0])),))
    weights = toy_network(seed=seed)
    weights = like(
        weights,
        *(tensor.clamp(max=1) if name.endswith("slope") else tensor for name, tensor in weights.named_tensors()),
    )
    directions = random_tensor(7, 2, 3, seed=9)
    budget = EdgeDropBudget.from_drop_rate(0.4)
    assert torch.equal(budget.on(graph).local, budget._requested(graph))  # nothing to tighten here
    for at in (None, view):
        scores = values_of(kind(at=at), weights, graph, budget, directions)
        for c in range(2):
            expected = printed(formula, gcn_weights(weights), graph, 0.4, directions[:, c], at or graph)
            assert_same(scores[:, c], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("kind", [Paper, Released])
def test_a_view_has_the_nodes_of_its_graph(kind: type[Paper | Released]) -> None:
    with pytest.raises(GraphError, match="a view with 5 nodes of a graph with 12"):
        values_of(
            kind(at=random_graph(nodes=5)),
            toy_network(),
            random_graph(),
            BUDGETS["total"],
            torch.ones(12, 1, 3, dtype=torch.float64),
        )
