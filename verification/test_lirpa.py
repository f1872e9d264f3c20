"""The bridge to auto_LiRPA: the right network, the right box, sound bounds."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from verification.lirpa_bridge import lirpa_bridge
from verification.network_case import NetworkCase, PlainActivation
from verification.network_oracle import activate
from verification.networks import Builder, network_case

lirpa = lirpa_bridge()

METHODS = ("IBP", "CROWN", "CROWN-Optimized")
GRAPHS = {
    "path": nx.path_graph(4),
    "star": nx.star_graph(4),
    "complete": nx.complete_graph(4),
    "isolated": nx.Graph([(0, 1), (1, 2), (0, 2)]),
    "edgeless": nx.empty_graph(3),
    "single": nx.empty_graph(1),
}
GRAPHS["isolated"].add_node(3)
SLOPES = {"relu": (0.0, 0.0), "leaky": (0.25, 0.6), "logits": (0.1, None), "linear": (1.0, 1.0), "mixed": (0.0, 1.0)}
ODD_SLOPES = {
    "falling": (-0.5, -0.1),
    "steep": (1.5, 3.0),
    "per channel": (torch.tensor([-0.5, 0.0, 0.3, 1.0, 2.0]), 0.1),
}
ROUNDING = 1e-9


class Case:
    """A random GCN on a graph, half of whose edges may be dropped at each node."""

    def __init__(self, graph: nx.Graph, slopes=(0.0, 0.0), seed: int = 0, widths=(3, 5, 3)) -> None:
        generator = torch.Generator().manual_seed(seed)
        n, (d0, self.d1, self.d2) = graph.number_of_nodes(), widths
        x, w1, b1, w2, b2, w = (
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in ((n, d0), (d0, self.d1), self.d1, (self.d1, self.d2), self.d2, (n, self.d2))
        )
        b2 = b2.abs()  # few of the last activations are dead, and few of the bounds a trivial 0
        self.generator = generator
        self.box = lirpa.box(graph, [-(-graph.degree[i] // 2) for i in range(n)], total=100)
        self.arguments = [x, w1, b1, slopes[0], w2, b2, slopes[1], w]

    def gcn(self, box=None):
        return lirpa.LirpaGCN(box or self.box, *self.arguments)

    def value(self, point: Tensor) -> Tensor:
        """``w_i · z_i`` by dense products."""
        x, w1, b1, slope1, w2, b2, slope2, w = self.arguments
        a = self.box.matrix(point)
        return (w * sigma(a @ sigma(a @ x @ w1 + b1, slope1) @ w2 + b2, slope2)).sum(1)

    def points(self, count: int) -> Iterator[Tensor]:
        """Points of the box, corners and inner ones."""
        for index in range(count):
            share = torch.rand(self.box.lower.shape, generator=self.generator, dtype=torch.float64)
            share = share.round() if index % 2 else share
            yield self.box.lower + share * (self.box.upper - self.box.lower)


def sigma(p: Tensor, slope: float | Tensor | None) -> Tensor:
    return p if slope is None else torch.where(p >= 0, p, slope * p)


def interval_reference(case: Case) -> tuple[Tensor, ...]:
    """The interval formulas on dense matrices: ``[L, U]`` times an interval, for ``L >= 0``."""
    x, w1, b1, slope1, w2, b2, slope2, w = case.arguments
    low, up = case.box.matrix(case.box.lower), case.box.matrix(case.box.upper)
    y = x @ w1
    l1, u1 = low @ y.relu() - up @ (-y).relu() + b1, up @ y.relu() - low @ (-y).relu() + b1
    h_l, h_u = sigma(l1, slope1), sigma(u1, slope1)
    v_l, v_u = h_l @ w2.relu() - h_u @ (-w2).relu(), h_u @ w2.relu() - h_l @ (-w2).relu()
    l2, u2 = low @ v_l.relu() - up @ (-v_l).relu() + b2, up @ v_u.relu() - low @ (-v_u).relu() + b2
    return l1, u1, l2, u2, (w.relu() * sigma(l2, slope2) - (-w).relu() * sigma(u2, slope2)).sum(1)


def admissible_matrices(graph: nx.Graph, q: list[int], total: int) -> Iterator[Tensor]:
    """Â of every graph that the budgets allow."""
    for size in range(min(total, graph.number_of_edges()) + 1):
        for dropped in itertools.combinations(graph.edges, size):
            if all(sum(i in edge for edge in dropped) <= q[i] for i in graph):
                kept = graph.copy()
                kept.remove_edges_from(dropped)
                a = torch.tensor(nx.to_numpy_array(kept, nodelist=range(len(graph)))) + torch.eye(len(graph))
                scale = a.sum(1).rsqrt()
                yield scale[:, None] * a * scale


graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
slopes = pytest.mark.parametrize("slopes", SLOPES.values(), ids=SLOPES.keys())
odd_slopes = pytest.mark.parametrize("slopes", ODD_SLOPES.values(), ids=ODD_SLOPES.keys())


@graphs
@pytest.mark.parametrize("total", [0, 1, 2, 100])
def test_box_holds_every_admissible_matrix(graph, total):
    q = [(i + 1) % 3 for i in graph]
    box = lirpa.box(graph, q, total)
    matrices = torch.stack(list(admissible_matrices(graph, q, total)))
    assert (box.matrix(box.lower) <= matrices + ROUNDING).all()
    assert (matrices <= box.matrix(box.upper) + ROUNDING).all()


@graphs
def test_box_without_budget_is_the_matrix_of_the_graph(graph):
    box = lirpa.box(graph, [3] * len(graph), total=0)
    (matrix,) = admissible_matrices(graph, [0] * len(graph), 0)
    torch.testing.assert_close(box.matrix(box.lower), matrix)
    torch.testing.assert_close(box.matrix(box.upper), matrix)


def test_box_of_a_path_whose_end_has_no_budget():
    # Tightening: 0-1 cannot go since q_0 = 0, so 1 can lose one edge only, and 2 and 3 at most what they have.
    box = lirpa.box(nx.path_graph(4), [0, 2, 5, 1], total=9)
    assert box.edges == [(0, 1), (1, 2), (2, 3)]
    lower = [6**-0.5, 0, 0, 1 / 2, 1 / 3, 1 / 3, 1 / 2]
    upper = [(2 * 2) ** -0.5, (3 * 2) ** -0.5, (2 * 2) ** -0.5, 1 / 2, 1 / 2, 1, 1]
    torch.testing.assert_close(box.lower, torch.tensor(lower, dtype=torch.float64))
    torch.testing.assert_close(box.upper, torch.tensor(upper, dtype=torch.float64))


@graphs
@slopes
def test_network_is_the_gcn(graph, slopes):
    case = Case(graph, slopes)
    gcn = case.gcn()
    for point in case.points(3):
        torch.testing.assert_close(gcn(point), case.value(point))


@graphs
@slopes
def test_ibp_is_the_interval_formula_at_every_layer(graph, slopes):
    case = Case(graph, slopes)
    for found, expected in zip(case.gcn().layers(), interval_reference(case), strict=True):
        torch.testing.assert_close(found, expected)


@graphs
@slopes
def test_no_point_of_the_box_goes_below_a_bound(graph, slopes):
    case = Case(graph, slopes)
    gcn = case.gcn()
    least = torch.stack([case.value(point) for point in case.points(300)]).amin(0)
    for method in METHODS:
        assert (gcn.lower(method, iterations=4) <= least + ROUNDING).all(), method


@odd_slopes
@pytest.mark.parametrize("seed", range(3))
def test_crown_is_sound_for_slopes_outside_the_unit_interval(slopes, seed):
    case = Case(GRAPHS["star"], slopes, seed)
    gcn = case.gcn()
    least = torch.stack([case.value(point) for point in case.points(300)]).amin(0)
    for method in METHODS[1:]:
        assert (gcn.lower(method, iterations=4) <= least + ROUNDING).all(), method


@odd_slopes
def test_ibp_refuses_slopes_outside_the_unit_interval(slopes):
    with pytest.raises(ValueError, match="outside"):
        Case(GRAPHS["path"], slopes).gcn().lower("IBP")


@graphs
@slopes
@pytest.mark.parametrize("method", METHODS)
def test_box_of_one_point_gives_the_value(graph, slopes, method):
    case = Case(graph, slopes)
    point = next(case.points(1))
    bound = case.gcn(lirpa.Box(case.box.edges, point, point)).lower(method, iterations=2)
    torch.testing.assert_close(bound, case.value(point), rtol=0, atol=1e-7)


@slopes
def test_optimising_never_loosens_crown(slopes):
    gcn = Case(GRAPHS["complete"], slopes).gcn()
    assert (gcn.lower("CROWN-Optimized", iterations=4) >= gcn.lower("CROWN") - ROUNDING).all()


def test_optimising_moves_the_slope_of_a_leaky_activation():
    gcn = Case(GRAPHS["complete"], (0.25, 0.25)).gcn()
    assert (gcn.lower("CROWN-Optimized", iterations=4) > gcn.lower("CROWN") + 1e-3).any()


@pytest.mark.parametrize(
    ("bias1", "bias2"), [(-100.0, 0.0), (100.0, 0.0), (0.0, -100.0), (0.0, 100.0), (-100.0, -100.0)]
)
def test_stable_activations_leave_nothing_to_optimise(bias1, bias2):
    case = Case(GRAPHS["path"])
    case.arguments[2] = torch.full_like(case.arguments[2], bias1)
    case.arguments[5] = torch.full_like(case.arguments[5], bias2)
    least = torch.stack([case.value(point) for point in case.points(300)]).amin(0)
    assert (case.gcn().lower("CROWN-Optimized", iterations=4) <= least + ROUNDING).all()


def test_layer_unstable_in_all_but_one_channel_can_be_optimised():
    case = Case(GRAPHS["single"], widths=(2, 20, 1))
    case.box = lirpa.Box([], torch.tensor([-1.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64))
    case.arguments[2] = torch.eye(20, dtype=torch.float64)[0] * 100
    least = torch.stack([case.value(point) for point in case.points(50)]).amin(0)
    assert (case.gcn().lower("CROWN-Optimized", iterations=4) <= least + ROUNDING).all()


def test_bounds_do_not_depend_on_what_was_computed_before():
    case = Case(GRAPHS["complete"], SLOPES["leaky"])
    gcn = case.gcn()
    for method in (*METHODS, *reversed(METHODS)):
        fresh = lirpa.LirpaGCN(case.box, *case.arguments).lower(method, iterations=3)
        torch.testing.assert_close(gcn.lower(method, iterations=3), fresh, rtol=0, atol=0)


def test_float32_arguments_are_bounded_in_float64_and_the_default_dtype_is_left_alone():
    case = Case(GRAPHS["path"])
    case.arguments = [part.float() if isinstance(part, Tensor) else part for part in case.arguments]
    before = torch.get_default_dtype()
    bound = case.gcn().lower("CROWN")
    assert torch.get_default_dtype() == before
    case.arguments = [part.double() if isinstance(part, Tensor) else part for part in case.arguments]
    torch.testing.assert_close(bound, case.gcn().lower("CROWN"), rtol=0, atol=0)


def test_optimisation_does_not_mind_a_caller_without_gradients():
    gcn = Case(GRAPHS["complete"]).gcn()
    with torch.no_grad():
        bound = gcn.lower("CROWN-Optimized", iterations=4)
    torch.testing.assert_close(bound, gcn.lower("CROWN-Optimized", iterations=4), rtol=0, atol=0)
    assert (bound > gcn.lower("CROWN")).any()


def test_bounding_prints_and_warns_nothing(capsys, recwarn):
    for slopes in SLOPES.values():
        gcn = Case(GRAPHS["complete"], slopes).gcn()
        for method in METHODS:
            gcn.lower(method, iterations=3)
    assert capsys.readouterr() == ("", "")
    assert not recwarn.list


def test_features_of_another_graph_are_refused():
    case = Case(GRAPHS["path"])
    with pytest.raises(ValueError, match="one row per node"):
        case.gcn(lirpa.box(GRAPHS["star"], [0] * 5, 0))


def test_unknown_method_and_empty_optimisation_are_refused():
    gcn = Case(GRAPHS["single"]).gcn()
    with pytest.raises(ValueError, match="crown"):
        gcn.lower("crown")
    with pytest.raises(ValueError, match="at least 1"):
        gcn.lower("CROWN-Optimized", iterations=0)


def test_bound_that_is_not_finite_is_an_error():
    case = Case(GRAPHS["path"])
    case.arguments[1] = case.arguments[1] * float("inf")
    with pytest.raises(ArithmeticError, match="finite"):
        case.gcn().lower("CROWN")


def test_empty_box_is_refused():
    one = torch.ones(1, dtype=torch.float64)
    for lower in (2 * one, one * float("nan")):
        with pytest.raises(ValueError, match="lower <= upper"):
            lirpa.Box([], lower, one)


# -- networks of any depth -------------------------------------------------------------------------

NETWORKS = {
    "GCN": (1, 2, 3),
    "SAGE sum": (1, 2),
    "GIN": (1, 2),
    "GCN + residual": (3,),
    "GCN, jumping knowledge (cat)": (2,),
    "GCN + BatchNorm after activations": (2,),
}


def network(kind: str, depth: int, graph: nx.Graph | None = None, seed: int = 0) -> NetworkCase:
    """Half of the edges may be dropped at each node."""
    graph = nx.lollipop_graph(3, 2) if graph is None else graph
    builder = Builder(np.random.default_rng(seed), PlainActivation("two-piece linear", 0.1), width=3, features=2)
    return network_case(graph, kind, depth, builder).with_budget([-(-d // 2) for _, d in graph.degree])


def network_box(case: NetworkCase) -> "lirpa.Box":
    mixed = {term.mixing for layer in case.layers for term in layer.terms} - {"local"}
    make = lirpa.adjacency_box if mixed == {"sum"} else lirpa.box
    return make(case.graph, case.node_budgets(), case.graph_budget())


def network_value(case: NetworkCase, matrix: np.ndarray) -> np.ndarray:
    """``w_i · z_i`` by dense products with a given mixing matrix."""
    outputs = [case.x]
    for layer in case.layers:
        p = (
            sum(
                (outputs[term.source] if term.mixing == "local" else matrix @ outputs[term.source]) @ term.matrix()
                for term in layer.terms
            )
            + layer.bias
        )
        outputs.append(activate(p, layer.activation))
    return (np.concatenate([outputs[number] for number in case.readout], axis=1) * case.directions).sum(axis=1)


networks = pytest.mark.parametrize(
    ("kind", "depth"), [(kind, depth) for kind, depths in NETWORKS.items() for depth in depths]
)


@networks
def test_bounds_of_a_network_hold_on_its_box(kind: str, depth: int) -> None:
    case = network(kind, depth)
    box = network_box(case)
    bounded = lirpa.LirpaNetwork(
        box, torch.from_numpy(case.x), case.layers, case.readout, torch.from_numpy(case.directions)
    )
    generator, least = torch.Generator().manual_seed(0), np.full(case.nodes, np.inf)
    for number in range(200):
        share = torch.rand(box.lower.shape, generator=generator, dtype=torch.float64)
        point = box.lower + (share.round() if number % 2 else share) * (box.upper - box.lower)
        value = network_value(case, box.matrix(point).numpy())
        if number < 3:
            np.testing.assert_allclose(bounded(point).numpy(), value, rtol=1e-10, atol=1e-10)
        least = np.minimum(least, value)
    for method in METHODS:
        assert (bounded.lower(method, iterations=4).numpy() <= least + ROUNDING).all(), method


def test_the_box_of_adjacency_matrices_holds_every_admissible_one() -> None:
    graph = nx.path_graph(4)
    box = lirpa.adjacency_box(graph, [0, 2, 5, 1], total=9)
    assert box.edges == [(0, 1), (1, 2), (2, 3)]
    assert box.lower.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert box.upper.tolist() == [1, 1, 1, 0, 0, 0, 0]


def test_other_activations_are_refused() -> None:
    case = network("GCN", 2)
    layers = [replace(layer, activation=PlainActivation("tanh")) for layer in case.layers]
    with pytest.raises(ValueError, match="two-piece"):
        lirpa.LirpaNetwork(network_box(case), torch.from_numpy(case.x), layers, (2,), torch.from_numpy(case.directions))
