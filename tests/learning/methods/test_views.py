import math
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import BudgetError, InputError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods.views import EdgeDropper, feature_mask
from tests.toys import edges_of, hubs_and_others, random_graph, toy_graph


def valid(view: Graph) -> Graph:
    """The view, after the checks that a graph from outside goes through."""
    checked = Graph.from_edges(view.x, view.edge_index)
    assert torch.equal(checked.rowptr, view.rowptr)
    assert torch.equal(checked.col, view.col)
    return view


def is_dropped(graph: Graph, view: Graph) -> Tensor:
    """Per slot of the graph, whether the view lacks it; the view must have nothing else."""
    n = graph.num_nodes
    there = torch.isin(graph.row * n + graph.col, view.row * n + view.col)
    assert int(there.sum()) == view.col.numel()
    return ~there


def is_inside(graph: Graph, view: Graph, drops: AdmissibleDrops) -> bool:
    lost, gone = graph.degree - view.degree, is_dropped(graph, view)
    return (
        bool((lost <= drops.local).all())
        and int(gone.sum()) // 2 <= drops.total
        and bool((drops.droppable | ~gone).all())
    )


def shares(dropper: EdgeDropper, views: int) -> Tensor:
    """How often each slot's edge is dropped."""
    return torch.stack([is_dropped(dropper.graph, dropper.sample()) for _ in range(views)]).double().mean(dim=0)


# -- independent drops -----------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_a_view_is_an_undirected_part_of_the_graph_with_its_very_features(
    probability: float, either_graph: Graph
) -> None:
    dropper = EdgeDropper(either_graph, probability)
    for _ in range(5):
        view = valid(dropper.sample())
        is_dropped(either_graph, view)
        assert view.x is either_graph.x
        assert view.features is either_graph.features


def test_nothing_and_everything_can_be_dropped(graph: Graph) -> None:
    assert torch.equal(EdgeDropper(graph, 0.0).sample().col, graph.col)
    assert EdgeDropper(graph, 1.0).sample().degree.tolist() == [0] * 6
    # One probability per edge, in the order of the edges with i < j: 0-1, 0-2, 1-2, 2-3, 3-4.
    some = EdgeDropper(graph, torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0])).sample()
    assert edges_of(some) == [(0, 1), (1, 2), (3, 4)]


def test_a_graph_without_edges_is_its_only_view() -> None:
    empty = toy_graph(nx.empty_graph(3))
    for probability in (0.5, torch.empty(0)):
        for inside in (None, EdgeDropBudget(local=1).on(empty)):
            assert valid(EdgeDropper(empty, probability, inside).sample()).num_edges == 0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_of_dropped_edges_is_the_rate(rate: float) -> None:
    graph = random_graph(nodes=200, density=0.2)
    share = 1 - EdgeDropper(graph, rate).sample().num_edges / graph.num_edges
    assert abs(share - rate) < 4 * math.sqrt(rate * (1 - rate) / graph.num_edges)


def test_every_edge_is_dropped_at_its_own_rate_and_by_itself() -> None:
    graph, views = random_graph(nodes=10, density=0.4), 800
    rate = torch.linspace(0.05, 0.9, graph.num_edges, dtype=torch.float64)
    dropper = EdgeDropper(graph, rate)
    gone = torch.stack([is_dropped(graph, dropper.sample()) for _ in range(views)])[:, graph.row < graph.col].double()
    error = (rate * (1 - rate) / views).sqrt()
    assert ((gone.mean(dim=0) - rate).abs() < 4.5 * error).all()
    correlation = torch.corrcoef(gone.T) - torch.eye(graph.num_edges, dtype=torch.float64)
    assert float(correlation.abs().max()) < 5 / math.sqrt(views)


def test_the_seed_of_torch_decides_on_the_views() -> None:
    graph, budget = hubs_and_others()
    for inside in (None, budget.on(graph)):
        dropper = EdgeDropper(graph, 0.5, inside)
        torch.manual_seed(7)
        first, second = dropper.sample(), dropper.sample()
        torch.manual_seed(7)
        assert torch.equal(EdgeDropper(graph, 0.5, inside).sample().col, first.col)
        state = torch.get_rng_state()
        assert torch.equal(dropper.sample().col, second.col)
        torch.set_rng_state(state)
        assert torch.equal(dropper.sample().col, second.col)
        assert not torch.equal(first.col, second.col)


# -- inside a set ----------------------------------------------------------------------------------


@st.composite
def graphs_and_budgets(draw: st.DrawFn) -> tuple[Graph, EdgeDropBudget]:
    nodes = draw(st.integers(1, 14))
    graph = random_graph(nodes=nodes, density=draw(st.floats(0, 1)), seed=draw(st.integers(0, 10**6)))
    local: Any = draw(
        st.one_of(st.none(), st.integers(0, 4), st.lists(st.integers(0, 5), min_size=nodes, max_size=nodes))
    )
    return graph, EdgeDropBudget(local=local, total=draw(st.one_of(st.none(), st.integers(0, 20))))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(graphs_and_budgets(), st.sampled_from([0.1, 0.5, 0.9, 1.0]), st.booleans(), st.integers(0, 2**32 - 1))
def test_views_stay_inside_the_set(drawn: tuple[Graph, EdgeDropBudget], rate: float, each: bool, seed: int) -> None:
    graph, budget = drawn
    inside = budget.on(graph)
    torch.manual_seed(seed)
    dropper = EdgeDropper(graph, rate * torch.rand(graph.num_edges) if each else rate, inside)
    for _ in range(2):
        assert is_inside(graph, valid(dropper.sample()), inside)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_views_of_a_larger_graph_stay_inside_the_set_of_the_papers_rule(rate: float) -> None:
    graph = random_graph(nodes=300, density=0.03)
    inside = EdgeDropBudget.from_drop_rate(0.3).on(graph)
    assert not is_inside(graph, EdgeDropper(graph, rate).sample(), inside)
    dropper = EdgeDropper(graph, rate, inside)
    assert all(is_inside(graph, dropper.sample(), inside) for _ in range(5))


def test_edges_outside_the_set_are_never_dropped() -> None:
    graph, budget = hubs_and_others()
    inside = budget.on(graph)
    assert inside.droppable.any()
    assert not inside.droppable.all()
    seen = shares(EdgeDropper(graph, 0.5, inside), 60)
    assert torch.equal(seen > 0, inside.droppable)


def test_a_zero_budget_leaves_the_graph_as_it_is(graph: Graph) -> None:
    for budget in (EdgeDropBudget(local=0), EdgeDropBudget(total=0)):
        assert torch.equal(EdgeDropper(graph, 1.0, budget.on(graph)).sample().col, graph.col)


def test_a_total_is_used_up(graph: Graph) -> None:
    for total in range(graph.num_edges + 1):
        view = EdgeDropper(graph, 1.0, EdgeDropBudget(total=total).on(graph)).sample()
        assert graph.num_edges - view.num_edges == total


def test_a_total_falls_on_all_edges_alike() -> None:
    graph = random_graph(nodes=10, density=0.4)
    dropper = EdgeDropper(graph, 1.0, EdgeDropBudget(total=3).on(graph))
    views, expected = 400, 3 / graph.num_edges
    share = shares(dropper, views)
    assert ((share - expected).abs() < 4.5 * math.sqrt(expected * (1 - expected) / views)).all()


def test_a_hub_loses_its_whole_budget_each_edge_as_often() -> None:
    star, views = toy_graph(nx.star_graph(12)), 400
    dropper = EdgeDropper(star, 1.0, EdgeDropBudget(local=[5] + [1] * 12).on(star))
    assert dropper.sample().num_edges == 12 - 5
    assert ((shares(dropper, views) - 5 / 12).abs() < 4.5 * math.sqrt(5 * 7 / 144 / views)).all()


def test_a_budget_nobody_exceeds_changes_nothing() -> None:
    graph = random_graph(nodes=30, density=0.2)
    torch.manual_seed(3)
    free = EdgeDropper(graph, 0.4).sample()
    torch.manual_seed(3)
    assert torch.equal(EdgeDropper(graph, 0.4, EdgeDropBudget().on(graph)).sample().col, free.col)


# -- features --------------------------------------------------------------------------------------


def test_a_feature_mask_is_zero_or_one_per_column() -> None:
    like = torch.empty(0, dtype=torch.float64)
    mask = feature_mask(0.3, 20_000, like)
    assert mask is not None
    assert (mask.shape, mask.dtype) == ((20_000,), torch.float64)
    assert ((mask == 0) | (mask == 1)).all()
    assert abs(float(mask.mean()) - 0.7) < 4 * math.sqrt(0.21 / 20_000)


def test_every_column_has_its_own_probability() -> None:
    mask = feature_mask(torch.tensor([0.0, 1.0, 0.0]), 3, torch.empty(0))
    assert mask is not None
    assert mask.tolist() == [1, 0, 1]


@pytest.mark.parametrize("nothing", [0, 0.0, torch.zeros(3)])
def test_without_a_probability_there_is_no_mask(nothing: float | Tensor) -> None:
    assert feature_mask(nothing, 3, torch.empty(0)) is None


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (1.5, r"probability 1\.5"),
        (-0.1, r"probability -0\.1"),
        (math.nan, "probability nan"),
        (torch.tensor([0.1, 0.2, 2.0, 0.1, 0.1]), "probability 2: "),
        (torch.full((10,), 0.4), r"shape \(10,\) for 5 "),
    ],
)
def test_probabilities_that_are_none_are_refused(graph: Graph, probability: float | Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EdgeDropper(graph, probability)
    with pytest.raises(InputError, match=message):
        feature_mask(probability, 5, torch.empty(0))


def test_a_set_of_another_graph_is_refused(graph: Graph) -> None:
    with pytest.raises(BudgetError, match=r"for 12 nodes.*must be one of this graph"):
        EdgeDropper(graph, 0.4, EdgeDropBudget(local=1).on(random_graph()))
