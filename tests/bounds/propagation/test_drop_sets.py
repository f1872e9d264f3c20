"""Layers that depend on a node's own edges alone have their exact ranges, and an output that is such a layer its
minimum."""

import itertools

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import METHODS, ChangeProblem
from certgcl.bounds.propagation import drop_sets, limits
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.changes.changes import AdmissibleChanges
from certgcl.models import GraphNetwork, Layer, Local, Mean, Sum, SymmetricNorm, Term, TwoPieceLinear
from certgcl.models.aggregations import Aggregation

RELU = TwoPieceLinear(torch.zeros((), dtype=torch.float64))
BUDGET = 2


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(
    aggregation: Aggregation, readout: tuple[int, ...] = (2,), above: Aggregation | None = None
) -> GraphNetwork:
    """A convolution with a root weight, another linear layer, and perhaps one more convolution."""
    terms = Term(0, random(3, 4, seed=1), aggregation), Term(0, random(3, 4, seed=2))
    layers = [Layer(terms, random(4, seed=3), RELU), Layer((Term(1, random(4, 4, seed=4)),), random(4, seed=5), RELU)]
    if above is not None:
        layers.append(Layer((Term(2, random(4, 4, seed=6), above),), random(4, seed=7), RELU))
    return GraphNetwork(tuple(layers), readout)


@pytest.fixture
def on() -> Graph:
    """With a node that has no edge, and degrees of up to five."""
    edges = torch.tensor([[0, 0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 2, 3, 4, 6]])
    return Graph.cleaned((random(8, 3, seed=0), edges))


def values(model: GraphNetwork, on: Graph, node: int) -> dict[int, list[Tensor]]:
    """The pre-activations of the second layer at a node for every set of edges that it may lose, by their number, from
    the definition."""
    neighbours = on.col[on.rowptr[node] : on.rowptr[node + 1]].tolist()
    x, (first, second) = on.x.double(), model.layers[:2]
    found: dict[int, list[Tensor]] = {}
    for lost in range(min(BUDGET, len(neighbours)) + 1):
        for kept in itertools.combinations(neighbours, len(neighbours) - lost):
            summed = x[list(kept)].sum(dim=0) if kept else torch.zeros(3, dtype=torch.float64)
            if isinstance(first.terms[0].aggregation, Mean) and kept:
                summed = summed / len(kept)
            p = summed @ first.terms[0].weight + x[node] @ first.terms[1].weight + first.bias
            found.setdefault(lost, []).append(p.relu() @ second.terms[0].weight + second.bias)
    return found


@pytest.mark.parametrize("aggregation", [Sum(), Mean()])
def test_ranges_and_output_are_exact(on: Graph, aggregation: Aggregation) -> None:
    model, everyone = network(aggregation), torch.arange(on.num_nodes)
    drops = EdgeDropBudget(BUDGET).on(on)
    settings = Settings(("adaptive",), "by-count", 6, None, functional=True)
    ranges = NetworkRanges(model, on, AdmissibleChanges(drops), everyone, settings)
    NetworkBound(ranges)
    lower, upper = ranges.bounds[2]
    directions = random(on.num_nodes, 3, 4, seed=8)
    bound = METHODS["degree"](model, ChangeProblem(on, drops, everyone), directions)
    for node in range(on.num_nodes):
        by_count = values(model, on, node)
        for cell in (ranges.balls[0].cells.row == node).nonzero()[:, 0]:
            p = torch.stack(by_count[int(ranges.balls[0].cells.first[cell])])
            torch.testing.assert_close(lower[cell], p.amin(dim=0))
            torch.testing.assert_close(upper[cell], p.amax(dim=0))
        every = torch.cat([torch.stack(each) for each in by_count.values()])
        torch.testing.assert_close(bound[node], (every.relu() @ directions[node].T).amin(dim=0))


def test_nodes_with_more_sets_are_left_to_lines(on: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model, everyone = network(Sum()), torch.arange(on.num_nodes)
    problem = ChangeProblem(on, EdgeDropBudget(BUDGET).on(on), everyone)
    directions = random(on.num_nodes, 1, 4, seed=8)
    exact = METHODS["degree"](model, problem, directions)
    monkeypatch.setattr(limits, "MOST_SETS", 4)  # three edges, of which two may go, have seven
    fewer = METHODS["degree"](model, problem, directions)
    assert (fewer <= exact + 1e-12).all()
    few = on.degree <= 2
    torch.testing.assert_close(fewer[few], exact[few])
    assert (fewer[~few] < exact[~few] - 1e-6).any()


def test_several_rows_at_a_time_change_nothing(on: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model, everyone = network(Mean(), above=Sum(), readout=(3,)), torch.arange(on.num_nodes)
    problem = ChangeProblem(on, EdgeDropBudget(BUDGET).on(on), everyone)
    directions = random(on.num_nodes, 2, 4, seed=8)
    at_once = METHODS["degree"](model, problem, directions)
    monkeypatch.setattr(limits, "MAX_ELEMENTS", 1)
    torch.testing.assert_close(METHODS["degree"](model, problem, directions), at_once)


@pytest.mark.parametrize(
    ("model", "near"),
    [
        (network(Sum()), {1, 2}),
        (network(Mean(), (3,), Sum()), {1, 2}),
        (network(Local(), (3,), Local()), {1, 2, 3}),
        (network(SymmetricNorm()), set()),
    ],
    ids=["sum", "mean, then another", "no edges", "GCN"],
)
def test_layers_are_near_up_to_the_second_convolution(model: GraphNetwork, near: set[int]) -> None:
    assert drop_sets.near_layers(model) == near


def test_gradients_are_those_of_the_values(on: Graph) -> None:
    everyone = torch.arange(on.num_nodes)
    problem = ChangeProblem(on, EdgeDropBudget(BUDGET).on(on), everyone)
    directions, plain = random(on.num_nodes, 1, 4, seed=8), network(Sum())

    def bound(weight: Tensor, other: Tensor) -> Tensor:
        first, second = plain.layers
        model = GraphNetwork(
            (
                Layer((Term(0, weight, Sum()), first.terms[1]), first.bias, RELU),
                Layer((Term(1, other),), second.bias, RELU),
            )
        )
        return METHODS["degree"](model, problem, directions)

    weights = plain.layers[0].terms[0].weight.clone(), plain.layers[1].terms[0].weight.clone()
    assert torch.autograd.gradcheck(bound, tuple(weight.requires_grad_() for weight in weights))
