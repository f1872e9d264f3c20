"""Branch and bound for networks of any kind, against enumeration."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.bounds import SEARCHES, BranchAndBound, ChangeProblem, Degree
from certgcl.bounds.exact import Brackets
from certgcl.bounds.exact.networks.branches import Branch, Branches, Copies
from certgcl.bounds.exact.networks.rows import FieldRows
from certgcl.bounds.exact.networks.search import NetworkSearch
from certgcl.bounds.exact.networks.tree import EdgeTree
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.certify.compactness import linear_bounds, node_compactness
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import BoundError
from certgcl.graphs.graph import Graph
from certgcl.models import (
    ACTIVATIONS,
    Activation,
    Aggregation,
    GraphNetwork,
    Layer,
    Local,
    Mean,
    Sum,
    SymmetricNorm,
    Term,
    TwoPieceLinear,
)
from tests.toys import admissible_sets, drop_problem, random_graph, random_tensor, scaled, toy_graph, without

RELU, ELU, TANH = TwoPieceLinear(torch.zeros((), dtype=torch.float64)), ACTIVATIONS["elu"](), ACTIVATIONS["tanh"]()
WIDTH = 3


def layer(
    number: int, *terms: tuple[int, Aggregation], activation: Activation | None = RELU, diagonal: bool = False
) -> Layer:
    def weight(source: int, place: int) -> Tensor:
        shape = (WIDTH,) if diagonal else (WIDTH, WIDTH)
        return random_tensor(*shape, seed=100 * number + 10 * source + place)

    return Layer(
        tuple(Term(source, weight(source, place), mixing) for place, (source, mixing) in enumerate(terms)),
        random_tensor(WIDTH, seed=number) / 3,
        activation,
    )


def plain(*mixings: Aggregation, activation: Activation = RELU) -> Callable[[int], GraphNetwork]:
    """Every layer has the same terms, all of the layer before."""

    def build(depth: int) -> GraphNetwork:
        return GraphNetwork(
            tuple(
                layer(number, *((number - 1, mixing) for mixing in mixings), activation=activation)
                for number in range(1, depth + 1)
            )
        )

    return build


def gin(depth: int) -> GraphNetwork:
    layers: list[Layer] = []
    for _ in range(depth):
        layers.append(layer(len(layers) + 1, (len(layers), Sum()), (len(layers), Local())))
        layers.append(layer(len(layers) + 1, (len(layers), Local())))
    return GraphNetwork(tuple(layers))


def sgc(depth: int) -> GraphNetwork:
    return GraphNetwork(
        tuple(
            layer(number, (number - 1, SymmetricNorm()), activation=None, diagonal=number > 1)
            for number in range(1, depth + 1)
        )
    )


def jumping(depth: int) -> GraphNetwork:
    return GraphNetwork(plain(SymmetricNorm())(depth).layers, tuple(range(1, depth + 1)))


def residual(depth: int) -> GraphNetwork:
    first = layer(1, (0, SymmetricNorm()))
    return GraphNetwork(
        (
            first,
            *(layer(number, (number - 1, SymmetricNorm()), (number - 1, Local())) for number in range(2, depth + 1)),
        )
    )


def unread(depth: int) -> GraphNetwork:
    """The last layer is read by no one, and reaches further than the others."""
    return GraphNetwork(plain(Mean(), Local())(depth + 1).layers, (depth,))


KINDS: dict[str, Callable[[int], GraphNetwork]] = {
    "GCN": plain(SymmetricNorm()),
    "GCN without loops": plain(SymmetricNorm(0.0)),
    "improved": plain(SymmetricNorm(2.0)),
    "SAGE": plain(Mean(), Local()),
    "mean": plain(Mean()),
    "GraphConv": plain(Sum(), Local()),
    "sum": plain(Sum()),
    "GIN": gin,
    "SGC": sgc,
    "jumping knowledge": jumping,
    "residual": residual,
    "unread": unread,
    "GCN, ELU": plain(SymmetricNorm(), activation=ELU),
    "SAGE, tanh": plain(Mean(), Local(), activation=TANH),
    "mean and sum": plain(Mean(), Sum()),
    "of each node alone": plain(Local()),
}

TAIL = nx.Graph([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])  # a triangle with a tail, and a node alone
TAIL.add_node(5)
GRAPH, DENSE = toy_graph(TAIL, seed=1), toy_graph(nx.gnm_random_graph(5, 8, seed=2), seed=2)
BUDGETS = {
    "one": EdgeDropBudget(1),
    "two": EdgeDropBudget(2),
    "all": EdgeDropBudget(),
    "total": EdgeDropBudget(None, 2),
    "both": EdgeDropBudget(2, 3),
    "some": EdgeDropBudget([0, 2, 2, 1, 1, 0]),
    "none": EdgeDropBudget(0),
}


def directions_of(network: GraphNetwork, graph: Graph) -> Tensor:
    return random_tensor(graph.num_nodes, network.width, seed=7)


def values(network: GraphNetwork, graph: Graph) -> Tensor:
    return (network.embed(graph) * directions_of(network, graph)).sum(dim=1)


def minimum(network: GraphNetwork, graph: Graph, budget: EdgeDropBudget) -> Tensor:
    drops = budget.on(graph)
    return torch.stack(
        [values(network, without(graph, dropped)) for dropped in admissible_sets(graph, drops.local, drops.total)]
    ).amin(dim=0)


def brackets(
    network: GraphNetwork, graph: Graph, budget: EdgeDropBudget, anchors: list[int] | None = None, **settings: Any
) -> Brackets:
    problem = drop_problem(graph, budget, anchors)
    return BranchAndBound(**settings).brackets(network, problem, directions_of(network, graph))


def check_exact(found: Brackets, network: GraphNetwork, graph: Graph, budget: EdgeDropBudget) -> None:
    truth = minimum(network, graph, budget)
    assert found.exact.all()
    torch.testing.assert_close(found.lower, truth, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.upper, truth, rtol=0, atol=1e-12)
    drops = budget.on(graph)
    for node, witness in enumerate(found.witnesses):
        dropped = tuple(tuple(sorted(edge)) for edge in witness.T.tolist())
        assert (torch.bincount(witness.flatten(), minlength=graph.num_nodes) <= drops.local).all()
        assert len(dropped) <= drops.total
        torch.testing.assert_close(values(network, without(graph, dropped))[node], found.upper[node])


@pytest.fixture
def no_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches are cut until one set of drops is left."""
    monkeypatch.setattr("certgcl.bounds.exact.networks.tree.FEW_SETS", 1)


# -- the minimum -----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_is_the_enumerated_minimum(kind: str, depth: int, no_enumeration: None) -> None:
    network = KINDS[kind](depth)
    for graph, budgets in ((GRAPH, ("one", "total", "some", "none")), (DENSE, ("one", "both"))):
        for name in budgets:
            check_exact(brackets(network, graph, BUDGETS[name]), network, graph, BUDGETS[name])


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", ["SAGE", "GIN", "GCN, ELU", "residual"])
def test_small_branches_are_enumerated(kind: str, budget: str) -> None:
    network = KINDS[kind](2)
    check_exact(brackets(network, GRAPH, BUDGETS[budget]), network, GRAPH, BUDGETS[budget])


@pytest.mark.parametrize("kind", ["GCN", "SGC", "GraphConv"])
def test_edges_that_lead_out_of_sight_are_decided_by_their_number(kind: str, no_enumeration: None) -> None:
    """A path to hubs: of their far edges only the number matters at one end of the path."""
    graph = toy_graph(nx.Graph([(0, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6)]))
    network, budget = KINDS[kind](1), EdgeDropBudget(3)
    check_exact(brackets(network, graph, budget), network, graph, budget)
    space = search(network, graph, budget).space
    rows = FieldRows.around(space, 0)
    assert rows is not None
    assert int((rows.alike >= 0).sum()) == (0 if kind == "GraphConv" else 4)


@pytest.mark.parametrize("kind", ["GCN", "SAGE", "GIN"])
@pytest.mark.parametrize("depth", [1, 3])
def test_without_drops_to_begin_with_branches_find_the_minimum(
    kind: str, depth: int, no_enumeration: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "certgcl.bounds.exact.networks.search.Search.__call__",
        lambda _, space, fields, *__: [space.drops.local[:0] for _ in fields],
    )
    network, budget = KINDS[kind](depth), EdgeDropBudget(2)
    check_exact(brackets(network, GRAPH, budget), network, GRAPH, budget)


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GCN", "SAGE", "GIN", "SGC", "jumping knowledge"])
@pytest.mark.parametrize("depth", [2, 3])
def test_more_branches_never_lower_the_bound(
    kind: str, depth: int, no_enumeration: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certgcl.bounds.exact.networks.tree.BREADTH", 2)
    monkeypatch.setattr("certgcl.bounds.exact.anchors.FIRST_LIMIT", 2)
    network, graph, budget = KINDS[kind](depth), random_graph(nodes=6, density=0.6, seed=3), EdgeDropBudget(2)
    truth = minimum(network, graph, budget)
    lower = brackets(network, graph, budget, branch_limit=0).lower
    degree = Degree()(network, drop_problem(graph, budget), directions_of(network, graph)[:, None])[:, 0]
    torch.testing.assert_close(lower, degree)
    for limit in (1, 4, 8, 16, 64, 256):
        found = brackets(network, graph, budget, branch_limit=limit)
        assert (found.lower >= lower - 1e-12).all()
        assert (found.lower <= truth + 1e-12).all()
        assert (found.upper >= truth - 1e-12).all()
        lower = found.lower


def test_a_tolerance_ends_the_search_and_never_lifts_the_bound(no_enumeration: None) -> None:
    network, budget = KINDS["SAGE"](3), EdgeDropBudget(2)
    truth, clean = minimum(network, DENSE, budget), values(network, DENSE)
    for tolerance in (0.02, 0.5):
        found = brackets(network, DENSE, budget, tolerance=tolerance)
        assert found.exact.all()
        assert (found.lower <= truth + 1e-12).all()
        assert (found.upper - found.lower <= tolerance * clean.abs().maximum(found.upper.abs()) + 1e-12).all()


def test_without_time_the_bracket_is_the_bound_and_the_clean_value() -> None:
    network, budget = KINDS["GIN"](2), EdgeDropBudget(2)
    found = brackets(network, DENSE, budget, time_limit=0.0)
    degree = Degree()(network, drop_problem(DENSE, budget), directions_of(network, DENSE)[:, None])[:, 0]
    torch.testing.assert_close(found.lower, degree)
    torch.testing.assert_close(found.upper, values(network, DENSE))
    assert not found.branches.any()


@pytest.mark.parametrize("limit", ["bounds.exact.networks.search", "attacks.field"])
def test_an_anchor_that_sees_too_much_keeps_its_bound(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, budget = KINDS["SAGE"](2), EdgeDropBudget(2)
    exact = brackets(network, GRAPH, budget)
    monkeypatch.setattr(f"certgcl.{limit}.LARGEST_FIELD", 0)
    found = brackets(network, GRAPH, budget)
    degree = Degree()(network, drop_problem(GRAPH, budget), directions_of(network, GRAPH)[:, None])[:, 0]
    torch.testing.assert_close(found.lower, degree)
    # No branch is bounded; drops are searched for as long as the field is not too large for that as well.
    torch.testing.assert_close(found.upper, exact.upper if "networks" in limit else values(network, GRAPH))
    assert not found.branches.any()


# -- many anchors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 100, 1 << 16])
def test_anchors_do_not_depend_on_each_other(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("branches", "tree", "search"):
        monkeypatch.setattr(f"certgcl.bounds.exact.networks.{module}.UNION_SLOTS", slots)
    network, budget = KINDS["SAGE"](2), EdgeDropBudget(2)
    everyone = brackets(network, DENSE, budget, branch_limit=16)
    some = brackets(network, DENSE, budget, [3, 0], branch_limit=16)
    torch.testing.assert_close(some.lower, everyone.lower[[3, 0]])
    torch.testing.assert_close(some.upper, everyone.upper[[3, 0]])


def test_workers_give_the_same_as_one_process() -> None:
    network, budget = KINDS["GIN"](2), EdgeDropBudget(2)
    alone, shared = (brackets(network, DENSE, budget, workers=workers) for workers in (1, 2))
    torch.testing.assert_close(shared.lower, alone.lower)
    assert all(map(torch.equal, shared.witnesses, alone.witnesses))


# -- its parts -------------------------------------------------------------------------------------


def search(network: GraphNetwork, graph: Graph, budget: EdgeDropBudget) -> NetworkSearch:
    return NetworkSearch.of(
        network, drop_problem(graph, budget), directions_of(network, graph), Degree(), None, None, 1e-9
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_fields_have_the_bounds_and_values_of_the_graph(kind: str, depth: int) -> None:
    network, graph = KINDS[kind](depth), random_graph(nodes=9, density=0.3, seed=1)
    for budget in (EdgeDropBudget(2), EdgeDropBudget(2, 3)):
        whole = search(network, graph, budget)
        around = [FieldRows.around(whole.space, node) for node in range(9)]
        branches = Branches(whole.space, Degree())
        parts = [Branch(rows, rows.undecided, whole.directions[node]) for node, rows in enumerate(around) if rows]
        problem = ChangeProblem(graph, budget.on(graph), torch.arange(9))
        torch.testing.assert_close(torch.cat([branches.values(part) for part in parts]), values(network, graph))
        if kind != "GCN" or depth != 2:  # which has an engine of its own
            torch.testing.assert_close(
                torch.cat(branches.bounds(parts)), Degree()(network, problem, whole.directions[:, None])[:, 0]
            )


def test_budgets_follow_from_what_is_decided() -> None:
    graph = toy_graph(nx.star_graph(3))
    space = search(KINDS["SAGE"](1), graph, EdgeDropBudget([2, 1, 1, 1])).space
    rows = FieldRows.around(space, 0)
    assert rows is not None
    state = torch.tensor(
        [[FREE, FREE, FREE], [DROPPED, FREE, KEPT], [DROPPED, DROPPED, FREE], [DROPPED] * 3], dtype=torch.int8
    )
    settled = rows.settled(state)
    assert settled.state[:3].tolist() == [[FREE] * 3, [DROPPED, FREE, KEPT], [DROPPED, DROPPED, KEPT]]
    assert settled.left[:3].tolist() == [[2, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert settled.possible.tolist() == [True, True, True, False]


def test_each_copy_has_its_own_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """The anchor and a neighbour can both lose edges only where the total allows."""
    network = KINDS["SAGE"](2)
    whole = search(network, DENSE, EdgeDropBudget(None, 2))
    rows = FieldRows.around(whole.space, 0)
    assert rows is not None
    one_dropped = rows.undecided.repeat(rows.edges, 1).fill_diagonal_(DROPPED)
    both = Branch(rows, torch.cat([rows.undecided, one_dropped]), whole.directions[0])
    branches = Branches(whole.space, Degree())
    together, alone = branches.bounds([both])[0], [branches.bounds([part])[0] for part in both.split(1)]
    torch.testing.assert_close(together, torch.cat(alone))
    monkeypatch.setattr(Copies, "total_at", AdmissibleDrops.total_at)
    shared = branches.bounds([both])[0]
    assert (shared <= together + 1e-12).all()
    assert (shared < together - 1e-3).any()


def test_bounds_that_are_no_numbers_say_nothing() -> None:
    whole = search(KINDS["SAGE"](3), DENSE, EdgeDropBudget(2))
    rows = FieldRows.around(whole.space, 0)
    assert rows is not None
    nothing = torch.zeros(0, dtype=torch.long)
    tree = EdgeTree(whole.branches, rows, whole.directions[0], nothing, -5.0, nothing, 1e-9)
    cut = tree.cut()
    tree.take(cut, torch.tensor([torch.nan, torch.inf], dtype=torch.float64))
    assert (tree.lower, tree.done, len(tree.open)) == (-5.0, False, 2)


@pytest.mark.parametrize("method", ["optimized", "exact"])
def test_overflow_is_the_error_of_the_closed_forms(method: str) -> None:
    with pytest.raises(BoundError, match="a non-finite value at node"):
        node_compactness(scaled(KINDS["SAGE"](2), 1e160), GRAPH, 1, method=method)


def test_the_public_calls_give_brackets_and_witnesses() -> None:
    network = KINDS["jumping knowledge"](2)
    directions = directions_of(network, GRAPH)
    for method in SEARCHES:
        certificate = linear_bounds(network, GRAPH, 1, directions, method=method)
        assert certificate.status == ["exact"] * 6
        torch.testing.assert_close(certificate.lower, minimum(network, GRAPH, EdgeDropBudget(1)), rtol=0, atol=1e-9)
        assert certificate.witness(0).shape[0] == 2
