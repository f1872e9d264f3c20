"""Facts that hold for every method; how tight and sound they are is the business of ``verification/``."""

from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.bounds import METHODS, BoundMethod, Crown, Degree, Interval, Paper, Released, get_method
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_layer import blocks
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import MethodError
from certgcl.graphs.graph import Graph
from certgcl.models import gcn_network
from tests.bounds.methods import (
    BUDGETS,
    CERTIFIED,
    VARIANTS,
    assert_same,
    every_budget,
    every_certified,
    every_method,
    nominal,
    values_of,
)
from tests.toys import (
    admissible_sets,
    drop_problem,
    like,
    random_graph,
    random_tensor,
    tensors_of,
    toy_graph,
    toy_network,
    without,
)

# -- the list of methods ---------------------------------------------------------------------------


def test_methods_have_names_and_say_what_they_prove() -> None:
    assert CERTIFIED == ["interval", "crown", "degree", "degree-fast", "degree-cheap"]
    assert set(METHODS) == {*CERTIFIED, "paper", "released"}
    assert METHODS["degree"] == Degree()
    assert METHODS["degree-fast"] == Degree(slopes=("adaptive",), lines="shared", resolution=1, hubs=256, patterns=1)
    assert METHODS["degree-cheap"] == Degree("interval", ("adaptive",), "by-count", hubs=256, patterns=1)


@pytest.mark.parametrize("method", [Interval(), Crown(slopes=("flat",)), Degree(resolution=3), Paper(), Released()])
def test_a_method_is_found_by_its_name_or_is_given(method: BoundMethod) -> None:
    assert get_method(method) is method
    assert get_method(method.name) is METHODS[method.name]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("alpha-crown", "method 'alpha-crown'.*interval, crown, degree"),
        ("Degree", "method 'Degree'"),
        (None, "method None.*Names are interval"),
        (3, "method 3"),
        (len, "method <built-in"),
    ],
)
def test_an_unknown_method_is_refused(method: Any, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        get_method(method)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (Crown, {"slopes": ("steep",)}),
        (Crown, {"slopes": ()}),
        (Degree, {"slopes": ("steep",)}),
        (Degree, {"slopes": ()}),
        (Degree, {"resolution": 0}),
        (Degree, {"resolution": 1.5}),
        (Degree, {"preactivations": "exact"}),
        (Degree, {"lines": "none"}),
        (Degree, {"hubs": 0}),
        (Degree, {"hubs": 2.5}),
        (Degree, {"patterns": 0}),
        (Degree, {"patterns": 3}),
        (Degree, {"patterns": 2.0}),
        (Degree, {"patterns": 1 << 11}),
    ],
)
def test_an_unknown_setting_is_refused(method: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(MethodError, match=next(iter(settings))):
        method(**settings)


def test_a_method_says_which_setting_it_is() -> None:
    assert {name: method.name for name, method in METHODS.items()} == {name: name for name in METHODS}


# -- what must not matter --------------------------------------------------------------------------


@every_method
def test_dense_and_sparse_features_give_the_same(method: str | BoundMethod) -> None:
    sparse = random_graph(sparse=True)
    dense = sparse.with_features(sparse.x.to_dense())
    weights, directions = toy_network(), random_tensor(12, 2, 3, seed=9)
    for anchors in (None, [7, 2]):
        one, other = (
            values_of(method, weights, graph, BUDGETS["mixed"], directions, anchors) for graph in (sparse, dense)
        )
        assert_same(one, other)


@every_method
def test_float32_differs_by_rounding_only(method: str | BoundMethod) -> None:
    graph, directions = random_graph(), random_tensor(12, 2, 3, seed=9).float()
    weights = toy_network().to(torch.float32)
    single = values_of(method, weights, graph, BUDGETS["mixed"], directions)
    double = values_of(method, weights.to(torch.float64), graph, BUDGETS["mixed"], directions.double())
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    slack = Sizes.of(weights, drop_problem(graph, BUDGETS["mixed"]), torch.float32).bound_slack(directions)
    assert ((single - double).abs() <= slack).all()
    assert (slack < 1e-1).all()


@every_method
@every_budget
def test_anchors_do_not_depend_on_each_other(method: str | BoundMethod, budget: EdgeDropBudget) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=9)
    everyone = values_of(method, weights, graph, budget, directions)
    assert everyone.shape == (12, 2)
    for anchors in ([4], [11, 0, 5]):
        assert_same(values_of(method, weights, graph, budget, directions, anchors), everyone[anchors])


@every_method
@every_budget
def test_names_of_nodes_do_not_matter(method: str | BoundMethod, budget: EdgeDropBudget) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=9)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))  # new node k is old node order[k]
    new = torch.argsort(order)
    renamed = Graph.from_edges(graph.x[order], new[graph.edge_index])
    drops = budget.on(graph)
    renamed_budget = EdgeDropBudget(local=drops.requested[order], total=drops.total)
    one = values_of(method, weights, graph, budget, directions)
    other = values_of(method, weights, renamed, renamed_budget, directions[order])
    assert_same(other, one[order])


@every_method
def test_directions_do_not_depend_on_each_other(method: str | BoundMethod) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 3, 3, seed=9)
    together = values_of(method, weights, graph, BUDGETS["mixed"], directions)
    for c in range(3):
        alone = values_of(method, weights, graph, BUDGETS["mixed"], directions[:, c : c + 1])
        assert_same(together[:, c : c + 1], alone)


@every_method
def test_size_of_the_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch, method: str | BoundMethod) -> None:
    graph, weights, directions = random_graph(density=0.5), toy_network(), random_tensor(12, 2, 3, seed=9)
    whole = values_of(method, weights, graph, BUDGETS["mixed"], directions)
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 1)
    assert_same(values_of(method, weights, graph, BUDGETS["mixed"], directions), whole)


@pytest.mark.parametrize("preactivations", ["functional", "interval"])
def test_whether_lines_are_shared_matters_where_there_are_several_cases_only(preactivations: Any) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=9)
    for resolution in (1, 6):
        by_count, shared = (
            values_of(
                Degree(preactivations, lines=lines, resolution=resolution), weights, graph, BUDGETS["mixed"], directions
            )
            for lines in ("by-count", "shared")
        )
        assert torch.allclose(by_count, shared, rtol=1e-11, atol=1e-11) == (resolution == 1)


@every_method
def test_a_larger_direction_gives_a_larger_value(method: str | BoundMethod) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=9)
    one = values_of(method, weights, graph, BUDGETS["mixed"], directions)
    assert_same(values_of(method, weights, graph, BUDGETS["mixed"], 8 * directions), 8 * one)
    assert_same(values_of(method, weights, graph, BUDGETS["mixed"], 0 * directions), 0 * one)


# -- where the value is known ----------------------------------------------------------------------


@every_certified
@pytest.mark.parametrize("budget", [EdgeDropBudget(local=0), EdgeDropBudget(total=0)])
def test_without_drops_the_bound_is_the_value(method: str | BoundMethod, budget: EdgeDropBudget) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=9)
    assert_same(values_of(method, weights, graph, budget, directions), nominal(weights, graph, directions))


@every_method
def test_without_edges_the_bound_is_the_value(method: str | BoundMethod) -> None:
    graph, weights = toy_graph(nx.empty_graph(4)), toy_network()
    directions = random_tensor(4, 2, 3, seed=9)
    assert_same(values_of(method, weights, graph, EdgeDropBudget(), directions), nominal(weights, graph, directions))
    assert_same(
        values_of(method, weights, graph, EdgeDropBudget(), directions, [2]), nominal(weights, graph, directions)[[2]]
    )


@every_method
def test_an_isolated_node_keeps_its_value(method: str | BoundMethod) -> None:
    graph = toy_graph(nx.disjoint_union(nx.complete_graph(4), nx.empty_graph(2)))
    weights, directions = toy_network(), random_tensor(6, 2, 3, seed=9)
    bound = values_of(method, weights, graph, EdgeDropBudget(), directions)
    assert_same(bound[4:], nominal(weights, graph, directions)[4:])
    assert not torch.isclose(bound[:4], nominal(weights, graph, directions)[:4]).any()


@every_certified
def test_without_activations_a_single_edge_is_bounded_exactly(method: str | BoundMethod) -> None:
    graph, directions = toy_graph(nx.path_graph(2)), random_tensor(2, 1, 3, seed=1)
    linear = gcn_network((random_tensor(3, 4, seed=1), 0.0, 1.0), (random_tensor(4, 3, seed=2), 0.0, 1.0))
    least = torch.minimum(nominal(linear, graph, directions), nominal(linear, without(graph, ((0, 1),)), directions))
    bound = values_of(method, linear, graph, EdgeDropBudget(), directions)
    if method in ("degree", *VARIANTS.values()):
        assert_same(bound, least)
    else:
        assert (bound <= least + 1e-12).all()


# -- what is proved --------------------------------------------------------------------------------

SETTINGS = [
    Interval(),
    Crown(),
    Crown(slopes=("flat",)),
    Degree(),
    Degree(preactivations="interval"),
    Degree(slopes=("parallel",)),
    Degree(resolution=1),
    Degree(resolution=2),
    *VARIANTS.values(),
    Degree(lines="shared", resolution=2),
    Degree(preactivations="interval", lines="shared"),
    Degree(lines="shared", resolution=1, hubs=1),
]


@pytest.mark.parametrize(
    "budget", [EdgeDropBudget(), EdgeDropBudget(local=[1, 3, 2, 0, 2, 1]), EdgeDropBudget(total=2)], ids=repr
)
def test_bounds_hold_in_every_admissible_view(budget: EdgeDropBudget) -> None:
    graph = random_graph(nodes=6, density=0.55, seed=6)
    weights, directions = toy_network(), random_tensor(6, 4, 3, seed=9)
    drops = budget.on(graph)
    least = torch.stack(
        [
            nominal(weights, without(graph, dropped), directions)
            for dropped in admissible_sets(graph, drops.local, drops.total)
        ]
    ).amin(dim=0)
    for method in SETTINGS:
        assert (values_of(method, weights, graph, budget, directions) <= least + 1e-12).all(), method


@every_budget
def test_lines_are_never_worse_than_intervals(budget: EdgeDropBudget) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 4, 3, seed=9)
    interval = values_of("interval", weights, graph, budget, directions)
    for method in SETTINGS[1:]:
        assert (values_of(method, weights, graph, budget, directions) >= interval - 1e-12).all(), method


@every_budget
def test_fewer_hubs_are_never_worse(budget: EdgeDropBudget) -> None:
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 4, 3, seed=9)
    least, *others = (values_of(Degree(hubs=hubs), weights, graph, budget, directions) for hubs in (1, 2, 4, 99, None))
    for lower in others:
        assert (least <= lower + 1e-12).all()
        least = lower
    assert_same(others[-1], others[-2])
    assert (others[0] < others[-1] - 1e-6).any()


@pytest.mark.parametrize(("hidden", "slopes"), [(64, ("parallel", "flat", "adaptive")), (65, ("adaptive",))])
def test_slopes_depend_on_the_width_unless_they_are_given(hidden: int, slopes: Any) -> None:
    graph, weights, directions = random_graph(), toy_network(hidden=hidden), random_tensor(12, 2, 3, seed=9)
    default, *given = (
        values_of(Degree(slopes=rules), weights, graph, BUDGETS["mixed"], directions)
        for rules in (None, slopes, ("flat",))
    )
    assert_same(default, given[0])
    assert not torch.allclose(default, given[1])


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [*METHODS, *VARIANTS.values(), Degree(resolution=2), Degree(lines="shared", resolution=2)],
    ids=[*METHODS, *VARIANTS, "groups", "shared lines, groups"],
)
def test_gradients_are_those_of_finite_differences(method: str | BoundMethod) -> None:
    graph = toy_graph(nx.Graph([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 4)]))
    problem = drop_problem(graph, EdgeDropBudget(local=[2, 1, 2, 1, 2]), [0, 2, 3, 4])
    weights = toy_network(outputs=2, seed=3)
    # A slope of zero is a tie: below it an activation has a valley. So is a slope of one.
    inputs = [
        torch.where(tensor == 0, 0.2, tensor).requires_grad_()
        for tensor in (*tensors_of(weights), random_tensor(5, 2, 2, seed=4))
    ]

    def bound(*tensors: Tensor) -> Tensor:
        return get_method(method)(like(weights, *tensors[:6]), problem, tensors[6])

    # Random projections of the Jacobian: the whole one takes a minute for the slowest method.
    assert torch.autograd.gradcheck(bound, inputs, fast_mode=True)
    gradients = torch.autograd.grad(bound(*inputs).sum(), inputs)
    assert all(bool(gradient.any()) for gradient in gradients)


@every_method
@pytest.mark.parametrize("source", [nx.empty_graph(3), nx.complete_graph(4), nx.star_graph(4)])
def test_gradients_are_finite_at_ties(method: str | BoundMethod, source: nx.Graph) -> None:
    graph = toy_graph(source)
    graph = graph.with_features(torch.ones_like(graph.x))
    weights = toy_network().mapped(lambda tensor: torch.zeros_like(tensor).requires_grad_())
    directions = torch.ones(len(source), 1, 3, dtype=torch.float64)
    bound = values_of(method, weights, graph, EdgeDropBudget(), directions)
    assert_same(bound, torch.zeros_like(bound))
    for _, tensor in weights.named_tensors():
        (gradient,) = torch.autograd.grad(bound.sum(), tensor, retain_graph=True)
        assert torch.isfinite(gradient).all()
