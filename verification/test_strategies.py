"""The strategies reach the hard corners, and shrink to something a person can read."""

from collections.abc import Callable
from random import Random

import networkx as nx
import pytest
from hypothesis import Phase, find, given, settings

from verification.case import Case
from verification.strategies import MAX_EDGES, MAX_NODES, cases, graphs

pytestmark = pytest.mark.thorough

THOROUGH = settings(max_examples=3000, database=None)
REACH = settings(THOROUGH, phases=[Phase.generate])


@given(graphs())
def test_graphs_are_simple_small_and_named_from_zero(graph: nx.Graph) -> None:
    assert list(graph) == list(range(graph.number_of_nodes()))
    assert 2 <= graph.number_of_nodes() <= MAX_NODES
    assert graph.number_of_edges() <= MAX_EDGES
    assert nx.number_of_selfloops(graph) == 0


GRAPH_CORNERS: dict[str, Callable[[nx.Graph], bool]] = {
    "no edge at all": lambda g: g.number_of_edges() == 0,
    "an isolated node beside edges": lambda g: g.number_of_edges() > 0 and any(d == 0 for _, d in g.degree),
    "a star": lambda g: g.number_of_edges() >= 4 and max(d for _, d in g.degree) == g.number_of_edges(),
    "a long path": lambda g: nx.is_connected(g) and nx.diameter(g) >= 5,
    "a cycle": lambda g: all(d == 2 for _, d in g.degree) and g.number_of_nodes() >= 5,
    "a complete graph": lambda g: g.number_of_nodes() >= 4 and nx.density(g) == 1,
    "bipartite, with cycles": lambda g: nx.is_bipartite(g) and bool(nx.cycle_basis(g)),
    "two components with edges": lambda g: sum(len(c) > 1 for c in nx.connected_components(g)) >= 2,
    "a triangle with a tail": lambda g: nx.is_connected(g) and sum(nx.triangles(g).values()) == 3 and len(g) >= 4,
}


@pytest.mark.parametrize("corner", GRAPH_CORNERS)
def test_graphs_reach(corner: str) -> None:
    find(graphs(), GRAPH_CORNERS[corner], settings=REACH, random=Random(0))


def _degrees(case: Case) -> list[int]:
    return [case.graph.degree[i] for i in range(case.nodes)]


CASE_CORNERS: dict[str, Callable[[Case], bool]] = {
    "no drops": lambda c: c.graph.number_of_edges() > 0 and (c.local == 0 or c.total == 0),
    "every edge droppable": lambda c: c.graph.number_of_edges() > 2 and c.local is None and c.total is None,
    "a mixed budget": lambda c: isinstance(c.local, list) and 0 in c.local and max(c.local) >= 2,
    "a global budget alone": lambda c: c.local is None and c.total == 1 and c.graph.number_of_edges() > 2,
    "both budgets": lambda c: isinstance(c.local, list) and c.total == 2 and sum(c.local) > 4,
    "a budget that isolates a node": lambda c: any(
        q >= d > 1 for q, d in zip(c.node_budgets(), _degrees(c), strict=True)
    ),
    "zero weights": lambda c: not c.w1.any() and c.w2.any(),
    "zero biases": lambda c: not c.b1.any() and not c.b2.any() and bool(c.w1.any()),
    "zero features at a node": lambda c: bool((c.x == 0).all(dim=1).any()) and bool(c.x.any()),
    "large weights": lambda c: float(c.w1.abs().max()) >= 1e3,
    "small weights": lambda c: 0 < float(c.w1.abs().max()) <= 1e-2,
    "a slope below 0": lambda c: bool((c.slope1 < 0).any()),
    "a slope between 0 and 1": lambda c: bool(((c.slope1 > 0) & (c.slope1 < 1)).any()),
    "a slope above 1": lambda c: bool((c.slope1 > 1).any()),
    "different slopes in one layer": lambda c: len(set(c.slope1.tolist())) > 1,
    "no last activation": lambda c: bool((c.slope2 == 1).all()) and bool((c.slope1 == 0).all()),
    "zero directions": lambda c: not c.directions.any() and bool(c.w1.any()),
}


@pytest.mark.parametrize("corner", CASE_CORNERS)
def test_cases_reach(corner: str) -> None:
    find(cases(), CASE_CORNERS[corner], settings=REACH, random=Random(0))


def test_a_graph_shrinks_to_the_edges_that_matter() -> None:
    graph = find(graphs(), lambda g: any(d >= 3 for _, d in g.degree), settings=THOROUGH, random=Random(1))
    assert graph.number_of_edges() == 3


def test_a_case_shrinks_to_small_numbers() -> None:
    case = find(
        cases(),
        lambda c: float((c.x @ c.w1).abs().max()) > 1 and c.graph.number_of_edges() >= 1,
        settings=THOROUGH,
        random=Random(1),
    )
    assert case.graph.number_of_edges() == 1
    assert case.w1.shape == (1, 1)
    assert not case.w2.any()
    assert float(case.x.abs().max()) <= 2
