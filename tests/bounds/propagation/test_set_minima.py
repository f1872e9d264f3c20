"""Near layers at neighbours of few sets of edges: their functionals have the least values of all sets that are left."""

import itertools

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import METHODS, ChangeProblem, Degree
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.bounds.propagation.set_minima import next_layers
from certgcl.changes.changes import AdmissibleChanges
from certgcl.models import GraphNetwork, Layer, Local, Mean, Sum, SymmetricNorm, Term, TwoPieceLinear
from certgcl.models.aggregations import Aggregation

RELU = TwoPieceLinear(torch.zeros((), dtype=torch.float64))
WIDE = Degree(slopes=("adaptive",), lines="mixed", patterns=4)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(source: int, inputs: int, aggregation: Aggregation, seed: int, root: bool = True) -> Layer:
    mixed = Term(source, random(inputs, 4, seed=seed), aggregation)
    own = Term(source, random(inputs, 4, seed=seed + 1))
    return Layer((mixed, own) if root else (mixed,), random(4, seed=seed + 2), RELU)


def sage(aggregation: Aggregation) -> GraphNetwork:
    return GraphNetwork((layer(0, 3, aggregation, 10), layer(1, 4, aggregation, 20)))


def gin() -> GraphNetwork:
    """Two convolutions, and an MLP of one more layer after each."""
    mlp = [layer(source, 4, Local(), 30 + source, root=False) for source in (1, 3)]
    return GraphNetwork((layer(0, 3, Sum(), 10), mlp[0], layer(2, 4, Sum(), 20), mlp[1]))


MODELS = {"mean": sage(Mean()), "sum": sage(Sum()), "GIN": gin()}


@pytest.fixture
def on() -> Graph:
    edges = torch.tensor([[0, 0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 2, 3, 4, 6]])
    return Graph.cleaned((random(8, 3, seed=0), edges))


def bound(model: GraphNetwork, on: Graph, method: Degree, total: int | None = None) -> Tensor:
    drops = EdgeDropBudget(local=(0.6 * on.degree).ceil().long(), total=total).on(on)
    directions = random(on.num_nodes, 2, 4, seed=8)
    return method(model, ChangeProblem(on, drops, torch.arange(on.num_nodes)), directions)


@pytest.mark.parametrize(
    ("model", "following"),
    [
        (sage(Mean()), {2}),
        (gin(), {3}),
        (GraphNetwork((layer(0, 3, Mean(), 1), layer(1, 4, SymmetricNorm(), 5))), set()),
        (GraphNetwork((layer(0, 3, SymmetricNorm(), 1), layer(1, 4, Mean(), 5))), set()),
        (GraphNetwork((layer(0, 3, Sum(), 1), layer(1, 4, Mean(), 5), layer(2, 4, Sum(), 9))), {2}),
    ],
    ids=["SAGE", "GIN", "GCN over means", "means over GCN", "three layers"],
)
def test_the_layer_that_takes_near_ones_from_neighbours(model: GraphNetwork, following: set[int]) -> None:
    assert next_layers(model) == following


def test_a_neighbour_is_at_its_least_over_the_sets_without_the_edge(on: Graph) -> None:
    model, drops = sage(Sum()), EdgeDropBudget(2).on(on)
    ranges = NetworkRanges(
        model,
        on,
        AdmissibleChanges(drops),
        torch.arange(on.num_nodes),
        Settings(("adaptive",), "by-count", 6, None, functional=True),
    )
    NetworkBound(ranges)
    by_sets = ranges.by_sets(1, model.layers[1].terms[0])
    assert by_sets is not None
    assert bool(by_sets.few.all())
    functionals = random(3, 4, seed=9)
    functionals = torch.cat([functionals, -functionals])
    slot, reach = torch.arange(len(on.col)), by_sets.ball.budget[by_sets.ball.row]
    found = by_sets.of_edges(slot, reach, 1, Functionals(functionals[None, None], paired=True), None).least
    torch.testing.assert_close(
        by_sets.of_edges(slot, reach, 1, Functionals(functionals[None, None]), None).least, found
    )
    x, first = on.x.double(), model.layers[0]
    for place in slot.tolist():
        node = int(by_sets.ball.nodes[by_sets.ball.row[place]])
        neighbours = on.col[on.rowptr[node] : on.rowptr[node + 1]].tolist()
        kept_always = int(on.col[place])
        values = []
        for lost in range(int(drops.local[node]) + 1):
            for gone in itertools.combinations([k for k in neighbours if k != kept_always], lost):
                summed = x[[k for k in neighbours if k not in gone]].sum(dim=0)
                p = summed @ first.terms[0].weight + x[node] @ first.terms[1].weight + first.bias
                values.append(functionals @ p.relu())
        torch.testing.assert_close(found[place], torch.stack(values).amin(dim=0))


@pytest.mark.parametrize("method", [Degree(), WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("total", [None, 2])
def test_sets_say_more_than_lines(
    kind: str, method: Degree, total: int | None, on: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_sets = bound(MODELS[kind], on, method, total)
    monkeypatch.setattr(limits, "MOST_SETS", 0)
    by_lines = bound(MODELS[kind], on, method, total)
    assert (by_sets >= by_lines - 1e-12).double().mean() > 0.8  # other ranges may have other lines
    assert by_sets.sum() > by_lines.sum() + 1e-6


@pytest.mark.parametrize("kind", MODELS)
def test_pieces_of_the_work_change_nothing(kind: str, on: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = bound(MODELS[kind], on, WIDE)
    for limit in ("CACHED_VALUES", "MAX_ELEMENTS", "MAX_VALUES"):
        monkeypatch.setattr(limits, limit, 1)
    torch.testing.assert_close(bound(MODELS[kind], on, WIDE), at_once)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", [METHODS["degree-fast"], WIDE], ids=["fast", "wide"])
def test_gradients_are_those_of_the_values(kind: str, method: Degree, on: Graph) -> None:
    model = MODELS[kind]

    def of_weights(*weights: Tensor) -> Tensor:
        given = iter(weights)
        layers = []
        for each in model.layers:
            terms = tuple(Term(term.source, next(given), term.aggregation) for term in each.terms)
            layers.append(Layer(terms, each.bias, each.activation))
        return bound(GraphNetwork(tuple(layers)), on, method)

    weights = tuple(term.weight.clone().requires_grad_() for each in model.layers for term in each.terms)
    assert torch.autograd.gradcheck(of_weights, weights)
