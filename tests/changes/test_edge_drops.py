from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import binom

from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BudgetError, GraphError
from certgcl.graphs.graph import Graph
from tests.toys import admissible_sets, drops_at, edges_of, random_graph, random_tensor, toy_graph


def local_of(budget: Any, graph: Graph) -> list[int]:
    return EdgeDropBudget.of(budget).on(graph).local.tolist()


# -- what is asked for -----------------------------------------------------------------------------


def test_one_integer_is_for_every_node_and_no_more_than_its_degree(graph: Graph) -> None:
    assert local_of(EdgeDropBudget(local=2), graph) == [2, 2, 2, 2, 1, 0]


def test_no_limit_is_the_degree(graph: Graph) -> None:
    drops = EdgeDropBudget().on(graph)
    assert drops.local.tolist() == [2, 2, 3, 2, 1, 0]
    assert drops.total == 5
    assert drops.droppable.all()


@pytest.mark.parametrize("local", [[1, 1, 2, 1, 1, 1], np.array([1, 1, 2, 1, 1, 1]), torch.tensor([1, 1, 2, 1, 1, 1])])
def test_there_may_be_one_integer_per_node(graph: Graph, local: Any) -> None:
    assert local_of(EdgeDropBudget(local=local), graph) == [1, 1, 2, 1, 1, 0]


def test_a_budget_does_not_change_with_the_tensor_it_came_from(graph: Graph) -> None:
    local = torch.ones(6, dtype=torch.long)
    budget = EdgeDropBudget(local=local)
    local.zero_()
    assert local_of(budget, graph) == [1, 1, 1, 1, 1, 0]


def test_zero_forbids_every_drop(graph: Graph) -> None:
    for budget in (EdgeDropBudget(local=0), EdgeDropBudget(total=0)):
        drops = budget.on(graph)
        assert drops.local.tolist() == [0] * 6
        assert not drops.droppable.any()


def test_total_limits_every_node_too(graph: Graph) -> None:
    drops = EdgeDropBudget(total=2).on(graph)
    assert drops.local.tolist() == [2, 2, 2, 2, 1, 0]
    assert drops.total == 2
    assert EdgeDropBudget(total=99).on(graph).total == 5


def test_a_graph_without_edges_has_nothing_to_drop() -> None:
    graph = toy_graph(nx.empty_graph(3))
    for budget in (
        EdgeDropBudget(),
        EdgeDropBudget.of(2),
        EdgeDropBudget.of(0.4),
        EdgeDropBudget.from_drop_rate(0.4, coverage=0.9, jointly=True),
    ):
        drops = budget.on(graph)
        assert (drops.local.tolist(), drops.total, drops.droppable.tolist()) == ([0, 0, 0], 0, [])


def test_of_takes_what_users_write(graph: Graph) -> None:
    budget = EdgeDropBudget(local=1)
    assert EdgeDropBudget.of(budget) is budget
    assert local_of(2, graph) == local_of(np.int64(2), graph) == local_of(EdgeDropBudget(local=2), graph)
    assert local_of(0.4, graph) == local_of(EdgeDropBudget.from_drop_rate(0.4), graph)
    assert local_of(np.float32(0.4), graph) == local_of(0.4, graph)
    assert local_of([1, 1, 1, 1, 1, 1], graph) == local_of(1, graph)


def test_a_budget_says_what_it_is() -> None:
    assert repr(EdgeDropBudget(local=2, total=5)) == "EdgeDropBudget(local=2, total=5)"
    assert repr(EdgeDropBudget(local=[1, 2, 3])) == "EdgeDropBudget(local=<3 values>, total=None)"
    assert "rate=0.4, rule='coverage', coverage=0.9, jointly=True" in repr(
        EdgeDropBudget.from_drop_rate(0.4, coverage=0.9, jointly=True)
    )


# -- tightening ------------------------------------------------------------------------------------


def test_an_edge_needs_a_budget_at_both_ends(graph: Graph) -> None:
    # Node 2 may not lose anything: its edges stay, and so do the budgets that only they could use.
    drops = EdgeDropBudget(local=[2, 2, 0, 2, 1, 0]).on(graph)
    assert drops.local.tolist() == [1, 1, 0, 1, 1, 0]
    assert graph.edge_index[:, drops.droppable].T.tolist() == [[0, 1], [1, 0], [3, 4], [4, 3]]


def test_tightening_goes_on_until_nothing_changes() -> None:
    # A path whose end may not lose its edge; node by node the budgets fall to what is left.
    path = toy_graph(nx.path_graph(4))
    assert local_of(EdgeDropBudget(local=[0, 2, 2, 2]), path) == [0, 1, 2, 1]
    assert local_of(EdgeDropBudget(local=[0, 1, 0, 1]), path) == [0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(12))
def test_tightening_loses_no_admissible_set(seed: int) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=seed)
    asked = torch.randint(0, 4, (6,), generator=torch.Generator().manual_seed(seed))
    total = [None, 1, 2][seed % 3]
    drops = EdgeDropBudget(local=asked, total=total).on(graph)
    sets = list(admissible_sets(graph, asked, total))
    slot = {edge: k for k, edge in enumerate(map(tuple, graph.edge_index.T.tolist()))}
    for dropped in sets:
        assert (drops_at(dropped, 6) <= drops.local).all()
        assert len(dropped) <= drops.total
        assert all(drops.droppable[slot[i, j]] and drops.droppable[slot[j, i]] for i, j in dropped)
    # And it is tight where it can be seen: every droppable edge is dropped by some set, every node reaches its budget.
    used = {edge for dropped in sets for edge in dropped}
    assert used == {edge for edge in edges_of(graph) if drops.droppable[slot[edge]]}
    most = torch.stack([drops_at(dropped, 6) for dropped in sets]).amax(dim=0)
    assert torch.equal(most, drops.local)


def test_a_tightened_budget_stays_as_it_is() -> None:
    graph = random_graph(seed=3)
    once = EdgeDropBudget(local=[k % 3 for k in range(12)]).on(graph)
    again = EdgeDropBudget(local=once.local).on(graph)
    assert torch.equal(once.local, again.local)
    assert torch.equal(once.droppable, again.droppable)


# -- drop rates ------------------------------------------------------------------------------------

CATERPILLAR = nx.Graph([(0, k) for k in range(1, 9)] + [(1, 2), (2, 3), (3, 4), (9, 10)])


def raw(budget: EdgeDropBudget, graph: Graph) -> list[int]:
    """The budgets a rule asks for, before they are tightened."""
    return budget._requested(graph).tolist()


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.9])
def test_expected_rule_is_that_of_the_paper(rate: float) -> None:
    graph = toy_graph(CATERPILLAR)
    assert raw(EdgeDropBudget.from_drop_rate(rate), graph) == [
        max(0, min(d - 1, round(rate * d))) for d in graph.degree.tolist()
    ]


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_coverage_rule_is_the_binomial_quantile_at_each_node(rate: float, coverage: float) -> None:
    graph = toy_graph(CATERPILLAR)
    for d, q in zip(
        graph.degree.tolist(), raw(EdgeDropBudget.from_drop_rate(rate, coverage=coverage), graph), strict=True
    ):
        assert binom.cdf(q, d, rate) >= coverage
        assert q == 0 or binom.cdf(q - 1, d, rate) < coverage


def test_coverage_is_99_percent_unless_said_otherwise() -> None:
    graph = toy_graph(CATERPILLAR)
    assert (
        raw(EdgeDropBudget.from_drop_rate(0.4, rule="coverage"), graph)
        == raw(EdgeDropBudget.from_drop_rate(0.4, coverage=0.99), graph)
        != raw(EdgeDropBudget.from_drop_rate(0.4, coverage=0.9), graph)
    )


def probability_within(graph: Graph, rate: list[float], local: torch.Tensor) -> float:
    """P(no node loses more than its budget), over all 2^|E| views."""
    inside, edges = 0.0, edges_of(graph)
    for outcome in product([False, True], repeat=len(edges)):
        dropped = tuple(edge for edge, drop in zip(edges, outcome, strict=True) if drop)
        if bool((drops_at(dropped, graph.num_nodes) <= local).all()):
            inside += float(np.prod([p if drop else 1 - p for p, drop in zip(rate, outcome, strict=True)]))
    return inside


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("seed", range(3))
def test_joint_coverage_holds_for_whole_views(seed: int, coverage: float) -> None:
    graph = random_graph(nodes=6, density=0.6, seed=seed)
    rate = [0.3] * graph.num_edges
    jointly = torch.tensor(local_of(EdgeDropBudget.from_drop_rate(0.3, coverage=coverage, jointly=True), graph))
    assert probability_within(graph, rate, jointly) >= coverage
    each = torch.tensor(local_of(EdgeDropBudget.from_drop_rate(0.3, coverage=coverage), graph))
    assert (each <= jointly).all()


def test_node_by_node_coverage_is_less_than_joint_coverage() -> None:
    graph = random_graph(nodes=6, density=0.6, seed=0)
    each = torch.tensor(local_of(EdgeDropBudget.from_drop_rate(0.3, coverage=0.9), graph))
    assert probability_within(graph, [0.3] * graph.num_edges, each) < 0.9


def test_jointly_asks_for_coverage() -> None:
    graph = toy_graph(CATERPILLAR)
    assert raw(EdgeDropBudget.from_drop_rate(0.4, jointly=True), graph) == raw(
        EdgeDropBudget.from_drop_rate(0.4, "coverage", 0.99, jointly=True), graph
    )


# -- a probability for every edge ------------------------------------------------------------------


def edge_probabilities(graph: Graph, seed: int = 0) -> torch.Tensor:
    """One per slot, equal for both directions."""
    value = random_tensor(graph.col.numel(), seed=seed).sigmoid()
    return torch.minimum(value, value[graph.reverse])


def test_equal_probabilities_are_a_rate() -> None:
    graph = random_graph(seed=1)
    probability = torch.full((graph.col.numel(),), 0.4, dtype=torch.float64)
    for settings in ({}, {"coverage": 0.9}, {"coverage": 0.9, "jointly": True}):
        one = EdgeDropBudget.from_drop_probabilities(graph.edge_index, probability, **settings)
        assert raw(one, graph) == raw(EdgeDropBudget.from_drop_rate(0.4, **settings), graph)


def test_probabilities_follow_their_edges_in_any_order() -> None:
    graph = random_graph(seed=1)
    probability = edge_probabilities(graph)
    order = torch.randperm(graph.col.numel(), generator=torch.Generator().manual_seed(0))
    for settings in ({}, {"coverage": 0.9}):
        sorted_, shuffled = (
            EdgeDropBudget.from_drop_probabilities(edges, p, **settings)
            for edges, p in ((graph.edge_index, probability), (graph.edge_index[:, order], probability[order]))
        )
        assert raw(sorted_, graph) == raw(shuffled, graph)


def test_expected_rule_sums_the_probabilities_of_a_node() -> None:
    graph = random_graph(seed=1)
    probability = edge_probabilities(graph)
    expected = [
        max(0, min(int(d) - 1, round(float(probability[graph.row == i].sum())))) for i, d in enumerate(graph.degree)
    ]
    assert raw(EdgeDropBudget.from_drop_probabilities(graph.edge_index, probability), graph) == expected


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_joint_coverage_holds_with_a_probability_for_every_edge(coverage: float) -> None:
    graph = random_graph(nodes=6, density=0.6, seed=2)
    probability = edge_probabilities(graph)
    budget = EdgeDropBudget.from_drop_probabilities(graph.edge_index, probability, coverage=coverage, jointly=True)
    per_edge = probability[graph.row < graph.col].tolist()
    assert probability_within(graph, per_edge, budget.on(graph).local) >= coverage


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "the value -1.*negative"),
        ([1, -2, 0], "the value -2.*negative"),
        (1.5, "the value 1.5.*integers"),
        ([1, 2.5], "the value 2.5.*integers"),
        (2.0, "the value 2.0.*integers"),
        (float("nan"), "the value nan"),
        (True, "=True"),
        ([True, False], "dtype torch.bool"),
        ("2", "='2'"),
        (2j, "=2j"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ([], "integers"),
    ],
)
def test_a_budget_is_a_count(value: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=f"^local.*{message}"):
        EdgeDropBudget(local=value)
    with pytest.raises(BudgetError, match=r"^total"):
        EdgeDropBudget(total=value)


def test_total_is_one_integer() -> None:
    with pytest.raises(BudgetError, match=r"total=\[1, 2\].*one integer.*local="):
        EdgeDropBudget(total=[1, 2])


def test_there_must_be_a_budget_for_every_node(graph: Graph) -> None:
    with pytest.raises(BudgetError, match="3 local budgets for 6 nodes"):
        EdgeDropBudget(local=[1, 2, 3]).on(graph)


@pytest.mark.parametrize("rate", [-0.1, 0.0, 1.0, 1.2, 0, 1, True, float("nan"), "0.4", None])
def test_a_rate_lies_between_0_and_1(rate: Any) -> None:
    with pytest.raises(BudgetError, match=f"drop rate {rate!r}.*between 0 and 1"):
        EdgeDropBudget.from_drop_rate(rate)


@pytest.mark.parametrize("budget", [1.0, 2.0, -0.4, float("nan")])
def test_a_float_is_a_rate(budget: float) -> None:
    with pytest.raises(BudgetError, match=f"drop rate {budget!r}.*EdgeDropBudget\\(local="):
        EdgeDropBudget.of(budget)


@pytest.mark.parametrize("budget", [True, "2"])
def test_of_takes_nothing_else(budget: Any) -> None:
    with pytest.raises(BudgetError, match=f"local={budget!r}"):
        EdgeDropBudget.of(budget)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 99, -1, True, "0.9"])
def test_a_coverage_lies_between_0_and_1(coverage: Any) -> None:
    with pytest.raises(BudgetError, match=f"coverage={coverage!r}"):
        EdgeDropBudget.from_drop_rate(0.4, coverage=coverage)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "mean"}, "rule='mean'.*expected, coverage"),
        ({"rule": ""}, "rule=''"),
        ({"rule": []}, r"rule=\[\]"),
        ({"jointly": 1}, "jointly=1"),
        ({"jointly": "no"}, "'no'"),
        ({"rule": "expected", "coverage": 0.9}, "coverage=0.9 with rule='expected'"),
        ({"rule": "expected", "jointly": True}, "jointly=True with rule='expected'"),
    ],
)
def test_rules_and_settings_must_agree(graph: Graph, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        EdgeDropBudget.from_drop_rate(0.4, **settings)
    with pytest.raises(BudgetError, match=message):
        EdgeDropBudget.from_drop_probabilities(graph.edge_index, torch.full((10,), 0.4), **settings)


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (torch.ones(3), r"shape \(3,\) for an edge_index of shape \(2, 10\)"),
        (torch.full((10,), 1.5), "drop probability 1.5"),
        (torch.full((10,), -0.5), "drop probability -0.5"),
        (torch.full((10,), torch.nan), "drop probability nan"),
        ([0.4] * 10, "probability of type list"),
    ],
)
def test_bad_probabilities_are_refused(graph: Graph, probability: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        EdgeDropBudget.from_drop_probabilities(graph.edge_index, probability)


def test_both_directions_of_an_edge_have_one_probability(graph: Graph) -> None:
    probability = torch.full((10,), 0.25, dtype=torch.float64)
    probability[(graph.row == 3) & (graph.col == 2)] = 0.5
    budget = EdgeDropBudget.from_drop_probabilities(graph.edge_index, probability)
    with pytest.raises(BudgetError, match=r"edge \(2, 3\) with probability 0.25 and its reverse with 0.5.*Average"):
        budget.on(graph)


def test_probabilities_are_for_the_edges_of_the_graph(graph: Graph) -> None:
    with pytest.raises(BudgetError, match="edge_index of type list"):
        EdgeDropBudget.from_drop_probabilities([[0], [1]], torch.ones(1))
    fewer = EdgeDropBudget.from_drop_probabilities(graph.edge_index[:, :4], torch.full((4,), 0.4))
    with pytest.raises(BudgetError, match="for 4 directed edges that are not the 10 of the graph"):
        fewer.on(graph)
    moved = EdgeDropBudget.from_drop_probabilities((graph.edge_index + 1) % 6, torch.full((10,), 0.4))
    with pytest.raises(BudgetError, match="exactly the graph's edges"):
        moved.on(graph)
    outside = EdgeDropBudget.from_drop_probabilities(graph.edge_index + 3, torch.full((10,), 0.4))
    with pytest.raises(GraphError, match="node index 6"):
        outside.on(graph)


@pytest.mark.parametrize(
    "budget",
    [
        True,
        np.True_,
        [True] * 6,
        "1",
        b"1",
        "111111",
        {0: 1},
        None,
        -0.0,
        0.0,
        1.0,
        2.0,
        float(np.nextafter(1, 2)),
        float("nan"),
        np.float32("nan"),
        np.array(0.5),
        torch.tensor(2.0),
        np.array([1.0] * 6),
        2**70,
        np.array([2**64 - 1] * 6, dtype=np.uint64),
        torch.ones(6, dtype=torch.long, device="meta"),
        torch.ones(6, dtype=torch.long).to_sparse(),
        [[1] * 6],
        (number for number in range(6)),
    ],
)
def test_no_budget_is_read_as_something_else(budget: Any) -> None:
    with pytest.raises(BudgetError):
        EdgeDropBudget.of(budget) if budget is not None else EdgeDropBudget.from_drop_rate(budget)


@pytest.mark.parametrize(
    "budget",
    [
        1,
        np.int8(1),
        np.uint64(1),
        np.array(1),
        torch.tensor(1),
        [1] * 6,
        (1,) * 6,
        np.ones(6, dtype=np.uint64),
        torch.ones(6, dtype=torch.uint8),
    ],
)
def test_counts_of_any_integer_type_are_counts(graph: Graph, budget: Any) -> None:
    assert EdgeDropBudget.of(budget).on(graph).same(EdgeDropBudget(local=1).on(graph))
