"""Facts that hold for every method; how tight and sound they are is the business of ``verification/``."""

from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from certgcl.bounds import METHODS, BoundMethod, Crown, Degree, Interval, Paper, Released, get_method
from certgcl.bounds.compiled import degree as compiled_degree
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_layer import blocks
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import GraphError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from tests.toys import (
    admissible_sets,
    drop_problem,
    gcn_weights,
    like,
    random_graph,
    random_tensor,
    tensors_of,
    toy_graph,
    toy_network,
    without,
)

CERTIFIED = [name for name, method in METHODS.items() if method.certified]
BUDGETS = {
    "mixed": EdgeDropBudget(local=[k % 4 for k in range(12)]),
    "total": EdgeDropBudget(total=2),
    "none": EdgeDropBudget(),
}
VARIANTS = {"shared lines": Degree(lines="shared"), "hubs": Degree(hubs=2), "no patterns": Degree(patterns=1)}
every_method = pytest.mark.parametrize("method", [*METHODS, *VARIANTS.values()], ids=[*METHODS, *VARIANTS])
every_certified = pytest.mark.parametrize("method", [*CERTIFIED, *VARIANTS.values()], ids=[*CERTIFIED, *VARIANTS])
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


def values_of(
    method: str | BoundMethod,
    weights: GraphNetwork,
    graph: Graph,
    budget: EdgeDropBudget,
    directions: Tensor,
    anchors: list[int] | None = None,
) -> Tensor:
    return get_method(method)(weights, drop_problem(graph, budget, anchors), directions)


def nominal(weights: GraphNetwork, graph: Graph, directions: Tensor) -> Tensor:
    return (directions @ weights.embed(graph)[..., None])[..., 0]


def assert_same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


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


# -- the printed formulas --------------------------------------------------------------------------


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


# -- size ------------------------------------------------------------------------------------------


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest dense tensor that any operation gives."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self.elements = max(self.elements, tensor.numel())
        return result


def largest_tensor(method: str | BoundMethod, graph: Graph, budget: EdgeDropBudget) -> int:
    directions = random_tensor(graph.num_nodes, 1, 3, seed=9)
    with torch.no_grad(), LargestTensor() as seen:
        values_of(method, toy_network(), graph, budget, directions)
    return seen.elements


def test_a_dense_square_would_be_noticed() -> None:
    with LargestTensor() as seen:
        mask = torch.ones(300, 1, dtype=torch.bool) & torch.ones(1, 300, dtype=torch.bool)
    assert seen.elements == mask.numel()


def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 1 << 14)
    monkeypatch.setattr(compiled_degree, "MAX_NUMBERS", 1 << 14)


@every_method
def test_nothing_is_as_large_as_the_square_of_the_nodes(
    monkeypatch: pytest.MonkeyPatch, method: str | BoundMethod
) -> None:
    # A block fills what it is allowed, whatever the graph. Of the rest some hundred values a node are to be expected,
    # where a square matrix has two thousand.
    small_tables(monkeypatch)
    graph = toy_graph(nx.gnm_random_graph(2000, 3000, seed=0))
    assert largest_tensor(method, graph, EdgeDropBudget(local=2)) < 250 * 2000


@every_certified
def test_nothing_is_as_large_as_the_square_of_a_hub(monkeypatch: pytest.MonkeyPatch, method: str | BoundMethod) -> None:
    # A block may be a few times larger than it should, and holds the lines of three slope rules.
    small_tables(monkeypatch)
    assert 3 * blocks.TOLERANCE * blocks.MAX_ELEMENTS < 600**2
    assert largest_tensor(method, toy_graph(nx.star_graph(600)), EdgeDropBudget(local=2)) < 600**2
