"""One anchor of a small graph, every admissible set of drops around it, and what a dense GCN makes of each."""

from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from certgcl.attacks import SearchSpace
from certgcl.bounds.exact.two_layer.case import Case, Incumbent
from certgcl.bounds.exact.two_layer.cells import ABSENT, DROPPED, FREE, KEPT, RowCells
from certgcl.bounds.exact.two_layer.decisions import Decisions, EdgeSite
from certgcl.bounds.exact.two_layer.field import ReceptiveField
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.changes import BudgetLike
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.toys import gcn_weights, random_tensor, toy_graph, toy_network

WEIGHTS = gcn_weights(toy_network())
ANYTHING = Incumbent(torch.inf, torch.zeros(3, dtype=torch.float64), 0.0)  # leaves nothing out


def field_of(
    graph: Graph, anchor: int, budget: BudgetLike = 2, weights: GCNWeights = WEIGHTS
) -> tuple[ReceptiveField, AdmissibleDrops]:
    drops = EdgeDropBudget.of(budget).on(graph)
    field = ReceptiveField.around(graph, drops, weights, anchor)
    assert field is not None
    return field, drops


@dataclass(frozen=True, eq=False)
class Surroundings:
    """S admissible sets, n nodes of the field by their numbers in it.

    Args:
        sets: which edges of the field are dropped, ``(S, E)``.
        lost: how many edges every node of the field loses, ``(S, n)``.
        before: the first pre-activation, ``(S, n, d1)``.
        before2: the second at the anchor, ``(S, d2)``.
        values: ``w · z`` of the anchor, ``(S,)``.
    """

    space: SearchSpace
    field: ReceptiveField
    direction: Tensor
    sets: Tensor
    lost: Tensor
    before: Tensor
    before2: Tensor
    values: Tensor

    @classmethod
    def of(cls, graph: Graph, anchor: int, budget: BudgetLike, seed: int = 0) -> "Surroundings":
        network = toy_network(seed=seed)
        weights = gcn_weights(network)
        field, drops = field_of(graph, anchor, budget, weights)
        edges, nodes = field.edges.shape[1], len(field.nodes)
        incidence = torch.nn.functional.one_hot(field.edges, nodes).sum(dim=0)
        sets = (torch.arange(1 << edges)[:, None] >> torch.arange(edges)) & 1
        lost = sets @ incidence
        allowed = (lost <= drops.local[field.nodes]).all(dim=1) & (sets.sum(dim=1) <= drops.total)
        sets, lost = sets[allowed], lost[allowed]
        matrix = torch.zeros(len(sets), graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        matrix[:, graph.row, graph.col] = 1
        one, other = field.nodes[field.edges]
        matrix[:, one, other] = matrix[:, other, one] = 1 - sets.double()
        matrix += torch.eye(graph.num_nodes, dtype=torch.float64)
        scale = matrix.sum(dim=2).rsqrt()
        matrix = scale[:, :, None] * matrix * scale[:, None]
        before = matrix @ (graph.x @ weights.w1) + weights.b1
        before2 = (matrix @ (weights.activation1(before) @ weights.w2))[:, anchor] + weights.b2
        direction = random_tensor(3, seed=seed + 10)
        return cls(
            SearchSpace(network, graph, drops),
            field,
            direction,
            sets.bool(),
            lost,
            before[:, field.nodes],
            before2,
            weights.activation2(before2) @ direction,
        )

    @property
    def drops(self) -> AdmissibleDrops:
        return self.space.drops

    @property
    def site(self) -> EdgeSite:
        return EdgeSite(self.field, self.drops, self.direction)

    @property
    def minimum(self) -> float:
        return float(self.values.min())

    def drops_of(self, number: int) -> Tensor:
        """One of the sets by the positions of its edges in the field."""
        return self.sets[number].nonzero()[:, 0]


def deep_tree() -> Graph:
    """Node 0, two neighbours, three nodes further on, and two leaves at each of two of these: alike, out of sight."""
    return toy_graph(nx.Graph([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (3, 6), (3, 7), (4, 8), (4, 9)]))


def common_leaf() -> Graph:
    """The same, but one of the leaves is common to both: where it can lose only one edge, it is not like the others."""
    return toy_graph(nx.Graph([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (3, 6), (3, 7), (4, 7), (4, 8)]))


def neighbours_in_touch() -> Graph:
    """Node 0 and four neighbours, some of them neighbours of each other, with a cycle through nodes further on."""
    return toy_graph(nx.Graph([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (1, 5), (5, 6), (6, 4), (4, 3)]))


SURROUNDINGS = {
    "tree": (deep_tree, EdgeDropBudget(local=1)),
    "tree, two edges": (deep_tree, EdgeDropBudget(local=2)),
    "tree, total": (deep_tree, EdgeDropBudget(total=3)),
    "common leaf": (common_leaf, EdgeDropBudget(local=[2, 2, 2, 2, 2, 2, 1, 1, 1])),
    "common leaf, two edges": (common_leaf, EdgeDropBudget(local=2)),
    "in touch": (neighbours_in_touch, EdgeDropBudget(local=1)),
    "in touch, two edges": (neighbours_in_touch, EdgeDropBudget(local=2)),
    "in touch, mixed": (neighbours_in_touch, EdgeDropBudget(local=[2, 0, 3, 1, 2, 2, 1])),
    "in touch, total": (neighbours_in_touch, EdgeDropBudget(local=3, total=3)),
    "no limit": (neighbours_in_touch, EdgeDropBudget()),
}


def surroundings(name: str, seed: int = 0) -> Surroundings:
    make, budget = SURROUNDINGS[name]
    return Surroundings.of(make(), 0, budget, seed)


def agreeing(around: Surroundings, known: Decisions) -> Tensor:
    """Which sets agree with what is decided, ``(S,)``."""
    gone, lost = around.sets, around.lost
    return ((gone | (known.state != DROPPED)) & (~gone | (known.state != KEPT))).all(dim=1) & (
        (known.fewest <= lost) & (lost <= known.most)
    ).all(dim=1)


def agreement(around: Surroundings, case: Case, cells: RowCells) -> Tensor:
    """Which sets agree with which cells as their docstring has it, ``(S, C)``."""
    site, row = case.site, cells.row
    all_kept = torch.cat([~around.sets, torch.ones(len(around.sets), 1, dtype=torch.bool)], dim=1)  # so is edge -1
    lost, kept, beside = around.lost[:, row + 1], all_kept[:, site.edge[row]], around.lost[:, site.node[row]]
    fits = (cells.leaf_fewest <= beside) & (beside <= cells.leaf_most)
    places = (
        (cells.state == ABSENT)
        | ((cells.state == DROPPED) & ~kept)
        | ((cells.state == KEPT) & kept & fits)
        | ((cells.state == FREE) & (~kept | fits))
    )
    return (
        places.all(dim=2)
        & (cells.fewest <= lost)
        & (lost <= cells.most)
        & all_kept[:, site.own_edge[row]]
        & (around.lost[:, :1] == case.lost)
    )


def cases_of(around: Surroundings, rounds: int) -> list[Case]:
    """A case for every number of edges that the anchor can lose, some splits on."""
    cases = []
    for lost in range(int(around.lost[:, 0].max()) + 1):
        case = Case(around.site, lost, -torch.inf)
        case.lift(ANYTHING)
        for _ in range(rounds):
            case._split()
            case.lift(ANYTHING)
        cases.append(case)
    return cases
