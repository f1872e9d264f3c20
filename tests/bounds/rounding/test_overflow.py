"""Numbers in a bound that overflow where none of the model does: they are refused, and their slack is infinite."""

from contextlib import nullcontext

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv

from certgcl.bounds import Crown, Degree, Interval
from certgcl.bounds.compiled import switched_off
from certgcl.bounds.method import BoundMethod
from certgcl.bounds.rounding.slack import Sizes
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, Layer, Mean, SymmetricNorm, Term, gcn_network
from certgcl.models.two_piece import TwoPieceLinear
from tests.toys import drop_problem, random_graph, toy_network

LARGEST = torch.finfo(torch.float64).max


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def nothing(width: int = 1) -> Tensor:
    return torch.zeros(width, dtype=torch.float64)


def star(leaves: list[float], dtype: torch.dtype = torch.float64) -> Graph:
    """Of one feature, zero at the centre."""
    return Graph.from_networkx(nx.star_graph(len(leaves)), x=torch.tensor([[0.0], *([x] for x in leaves)], dtype=dtype))


RELU = TwoPieceLinear(torch.tensor(0.0, dtype=torch.float64))

# The centre has a tenth of a sum that is beyond the format.
LARGE_SUM = gcn_network((matrix([1]), 0.0, 0.0), (matrix([-1e-3]), 0.0, 1.0)), star([0.03 * LARGEST] * 99)

# A partial sum is below the format, and so is all that follows. The mean is positive.
LARGE_PARTIAL_SUM = (
    GraphNetwork(
        (Layer((Term(0, matrix([1]), Mean()),), nothing(), RELU), Layer((Term(1, matrix([1e-3])),), nothing()))
    ),
    star([-0.2 * LARGEST] * 12 + [0.25 * LARGEST] * 12),
)

# Node 1 is positive while it keeps the edge to node 2, else its slope is zero. Functionals of layer 1 are 1e400.
LARGE_FUNCTIONAL = (
    GraphNetwork(
        (
            Layer((Term(0, matrix([1e-200, 0], [0, 1e-200])),), nothing(2), RELU),
            Layer((Term(1, matrix([1e200], [-1e200]), SymmetricNorm()),), nothing(), RELU),
            Layer((Term(2, matrix([1e200]), SymmetricNorm()),), nothing()),
        )
    ),
    Graph.from_networkx(nx.path_graph(3), x=matrix([0, 1], [0, 1], [6, 0])),
)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("method", [Degree(), Degree(patterns=1), Degree("interval"), Crown(), Interval()], ids=repr)
@pytest.mark.parametrize(
    ("case", "budget", "anchor", "direction", "exact"),
    [
        (LARGE_SUM, [0] * 100, 1, 1.0, -4.017844e303),
        (LARGE_PARTIAL_SUM, [0] * 25, 0, -1.0, -4.494232e303),
        (LARGE_FUNCTIONAL, [0, 1, 1], 0, -1.0, -6.972505e199),
    ],
    ids=["sum", "partial sum", "functional"],
)
def test_no_bound_is_above_the_minimum_where_its_numbers_overflow(
    case: tuple[GraphNetwork, Graph],
    budget: list[int],
    anchor: int,
    direction: float,
    exact: float,
    method: BoundMethod,
    kernels: bool,
) -> None:
    network, graph = case
    problem = drop_problem(graph, EdgeDropBudget(local=budget), [anchor])
    directions = torch.full((graph.num_nodes, 1, 1), direction, dtype=torch.float64)
    with nullcontext() if kernels else switched_off():
        lower = float(method(network, problem, directions))
    slack = float(Sizes.of(network, problem, torch.float64).bound_slack(problem.at_anchors(directions)))
    assert not lower - slack > exact


@pytest.mark.parametrize(
    ("case", "budget", "anchor"),
    [(LARGE_SUM, [0] * 100, 1), (LARGE_PARTIAL_SUM, [0] * 25, 0), (LARGE_FUNCTIONAL, [0, 1, 1], 0)],
    ids=["sum", "partial sum", "functional"],
)
def test_their_slack_is_infinite(case: tuple[GraphNetwork, Graph], budget: list[int], anchor: int) -> None:
    network, graph = case
    sizes = Sizes.of(network, drop_problem(graph, EdgeDropBudget(local=budget), [anchor]), torch.float64)
    assert sizes.bound_slack(torch.ones(1, 1, 1, dtype=torch.float64)).isinf().all()


@pytest.mark.parametrize(
    ("case", "budget", "anchor"), [(LARGE_SUM, [0] * 100, 1), (LARGE_FUNCTIONAL, [0, 1, 1], 0)], ids=["range", "case"]
)
def test_kernels_do_not_pass_over_what_is_not_a_number(
    case: tuple[GraphNetwork, Graph], budget: list[int], anchor: int
) -> None:
    """A range of NaN was taken for zero; and of two cases, one was NaN and the other was taken."""
    network, graph = case
    directions = torch.ones(graph.num_nodes, 1, 1, dtype=torch.float64)
    assert Degree(patterns=1)(network, drop_problem(graph, EdgeDropBudget(local=budget), [anchor]), directions).isnan()


def test_a_direction_too_large_for_functionals_has_an_infinite_slack() -> None:
    network, graph = toy_network(), random_graph()
    sizes = Sizes.of(network, drop_problem(graph, 1), torch.float64)
    assert 1e290 < sizes.most < LARGEST
    directions = torch.ones(graph.num_nodes, 2, 3, dtype=torch.float64)
    directions[:, 1] *= 2 * sizes.most
    assert sizes.bound_slack(directions).isinf().tolist() == [[False, True]] * graph.num_nodes


def test_a_mean_is_summed_before_it_is_divided() -> None:
    convolution = SAGEConv(1, 1, root_weight=False, bias=False).half()
    convolution.lin_l.weight.data.fill_(1e-3)
    graph = star([2e4] * 10, torch.float16)
    assert convolution(graph.x, graph.edge_index)[0].isinf()
    weight = convolution.lin_l.weight.detach().T
    network = GraphNetwork((Layer((Term(0, weight, Mean()),), torch.zeros(1, dtype=torch.float16)),))
    assert Sizes.of(network, drop_problem(graph, 0), torch.float64).run[:, 0].isinf().tolist() == [True] + [False] * 10
