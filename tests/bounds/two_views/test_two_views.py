from pathlib import Path
from typing import Any

import pytest
import torch

from certgcl.bounds import METHODS
from certgcl.bounds.two_views.embedding_ranges import Span, unit_span
from certgcl.bounds.two_views.second_view import line_below
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import compactness_directions, node_compactness
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BoundError, GraphError, InputError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from tests.toys import admissible_sets, changed, random_graph, random_tensor, toy_network, without
from tests.zoo import FACTORIES, network_of

CERTIFIED = [name for name, method in METHODS.items() if method.certified]


@pytest.fixture
def weights() -> GraphNetwork:
    return toy_network(features=5)


@pytest.mark.parametrize("kind", ["GCN", *FACTORIES])
@pytest.mark.parametrize("method", CERTIFIED)
def test_no_pair_of_admissible_views_is_below(graph: Graph, method: str, kind: str) -> None:
    weights = toy_network(features=5) if kind == "GCN" else network_of(kind, graph)
    local, total = torch.tensor([1, 2, 2, 1, 1, 1]), 3
    certificate = node_compactness(weights, graph, EdgeDropBudget(local, total), method=method, views="both")
    z = torch.stack([weights.embed(without(graph, dropped)) for dropped in admissible_sets(graph, local, total)])
    for second in z:
        values = (compactness_directions(second) * z).sum(dim=2)
        assert (certificate.lower <= values + certificate.rounding).all()
    assert certificate.certified
    assert certificate.method == f"{method}, both views"


def test_the_clean_value_and_directions_are_those_of_one_view(weights: GraphNetwork, graph: Graph) -> None:
    one, both = (node_compactness(weights, graph, 1, views=views) for views in ("one", "both"))
    assert torch.equal(both.nominal, one.nominal)
    assert torch.equal(both.directions, one.directions)
    assert (both.lower <= one.lower + both.rounding).all()


@pytest.mark.parametrize("method", CERTIFIED)
def test_without_a_budget_it_is_the_clean_value(weights: GraphNetwork, method: str) -> None:
    certificate = node_compactness(weights, random_graph(features=5), 0, method=method, views="both")
    torch.testing.assert_close(certificate.lower, certificate.nominal, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["GCN", *FACTORIES])
@pytest.mark.parametrize("total", [1, None])
def test_anchors_and_parts_change_nothing(kind: str, total: int | None) -> None:
    graph, budget = random_graph(features=5), EdgeDropBudget(1, total)
    weights = toy_network(features=5) if kind == "GCN" else network_of(kind, graph)
    everyone = node_compactness(weights, graph, budget, views="both")
    for settings in ({"nodes": [4, 0, 7]}, {"nodes": [4, 0, 7], "memory_limit": 1}):
        some = node_compactness(weights, graph, budget, views="both", **settings)
        assert some.nodes.tolist() == [4, 0, 7]
        for one, other in ((some.lower, everyone.lower), (some.rounding, everyone.rounding)):
            torch.testing.assert_close(one, other[[4, 0, 7]], rtol=1e-10, atol=1e-10)


def test_single_precision_is_right_to_its_rounding(weights: GraphNetwork, graph: Graph) -> None:
    double = node_compactness(weights, graph, 1, views="both")
    single = node_compactness(weights, graph, 1, views="both", dtype=torch.float32)
    assert single.lower.dtype == single.rounding.dtype == torch.float32
    assert (single.lower <= double.lower + single.rounding).all()
    assert (single.rounding > double.rounding).all()


def test_nearly_parallel_embeddings_do_not_cancel_in_single_precision(weights: GraphNetwork, graph: Graph) -> None:
    parallel = changed(weights, b2=torch.tensor([3e3, 1e3, 2e3], dtype=torch.float64))
    double, single = (
        node_compactness(parallel, graph, 0, views="both", dtype=dtype) for dtype in (torch.float64, torch.float32)
    )
    torch.testing.assert_close(single.nominal.double(), double.nominal, rtol=0.01, atol=0)


def test_a_file_holds_all_of_it(weights: GraphNetwork, graph: Graph, tmp_path: Path) -> None:
    certificate = node_compactness(weights, graph, 1, views="both")
    read = Certificate.load(certificate.save(tmp_path / "both.npz"))
    assert read.method == "degree, both views"
    assert read.certified
    assert torch.equal(read.lower, certificate.lower)
    assert "method degree, both views" in str(read)


def test_embeddings_that_are_always_zero_do_not_turn(graph: Graph) -> None:
    dead = gcn_network((random_tensor(5, 4, seed=0), 0.0, 0.0), (torch.zeros(4, 3, dtype=torch.float64), -1.0, 0.0))
    certificate = node_compactness(dead, graph, 2, views="both")
    assert ((certificate.lower <= 0) & (certificate.lower > -1e-300)).all()  # spans are rounded outwards
    assert not certificate.positive.any()


# -- parts -----------------------------------------------------------------------------------------


def test_a_line_is_below_all_products_and_meets_the_least() -> None:
    for seed in range(20):
        ends = [random_tensor(1, 4, seed=4 * seed + k) for k in range(4)]
        factor, values = (Span(torch.minimum(*pair), torch.maximum(*pair)) for pair in (ends[:2], ends[2:]))
        line = line_below(factor, values)
        share = torch.rand(500, 4, dtype=torch.float64)
        z = values.low + share.round(decimals=1) * (values.high - values.low)
        least = torch.minimum(factor.low * z, factor.high * z).sum(dim=1)
        assert (z @ line.slope[0] + line.constant <= least + 1e-12).all()
        for z in values:  # at both ends of the range the chord is exact
            least = torch.minimum(factor.low * z, factor.high * z).sum(dim=1)
            torch.testing.assert_close(z @ line.slope[0] + line.constant, least)


def test_unit_vectors_stay_in_their_span_and_reach_its_ends() -> None:
    torch.manual_seed(0)
    for shift in (0.0, 0.5, 2.0):
        low = random_tensor(1, 3, seed=1) + shift
        box = Span(low, low + torch.rand(1, 3, dtype=torch.float64))
        span = unit_span(box, torch.full((1,), 1e-12, dtype=torch.float64))
        share = torch.linspace(0, 1, 41, dtype=torch.float64)
        z = low + torch.cartesian_prod(share, share, share) * (box.high - box.low)
        unit = torch.nn.functional.normalize(z, dim=1)
        assert (unit >= span.low - 1e-12).all()
        assert (unit <= span.high + 1e-12).all()
        torch.testing.assert_close(unit.amin(dim=0), span.low[0], rtol=0, atol=0.02)
        torch.testing.assert_close(unit.amax(dim=0), span.high[0], rtol=0, atol=0.02)


def test_a_vector_that_may_vanish_may_point_anywhere_in_its_box() -> None:
    box = Span(torch.tensor([[0.0, -1.0]], dtype=torch.float64), torch.tensor([[1.0, 1.0]], dtype=torch.float64))
    span = unit_span(box, torch.full((1,), 1e-12, dtype=torch.float64))
    assert span.low.tolist() == [[pytest.approx(0, abs=1e-300), -1]]
    assert span.high.tolist() == [[1, 1]]


# -- bad input -------------------------------------------------------------------------------------


def test_a_fixed_view_is_refused_with_free_ones(weights: GraphNetwork, graph: Graph) -> None:
    with pytest.raises(InputError, match=r"views='both' with view=.*Leave one out"):
        node_compactness(weights, graph, 1, view=graph, views="both")


@pytest.mark.parametrize("views", ["two", None, 2])
def test_views_are_one_or_both(weights: GraphNetwork, graph: Graph, views: Any) -> None:
    with pytest.raises(InputError, match=f"views={views!r}.*one, both"):
        node_compactness(weights, graph, 1, views=views)


@pytest.mark.parametrize("method", ["paper", "released", "optimized", "exact"])
def test_methods_without_a_closed_form_bound_are_refused(weights: GraphNetwork, graph: Graph, method: str) -> None:
    with pytest.raises(MethodError, match=f"views='both' with method '{method}'.*'degree'"):
        node_compactness(weights, graph, 1, method=method, views="both")


def test_one_node_has_no_others(weights: GraphNetwork) -> None:
    alone = torch.ones(1, 5, dtype=torch.float64), torch.empty(2, 0, dtype=torch.long)
    with pytest.raises(GraphError, match="a graph with 1 node"):
        node_compactness(weights, alone, 1, views="both")


@pytest.mark.parametrize("method", CERTIFIED)
def test_a_bound_that_overflows_is_never_returned(graph: Graph, method: str) -> None:
    huge = gcn_network(
        (torch.full((5, 4), 1e200, dtype=torch.float64), 0.0, 0.5),
        (torch.full((4, 3), 1e200, dtype=torch.float64), 0.0, 0.5),
    )
    with pytest.raises(BoundError, match="non-finite value at node 0"):
        node_compactness(huge, graph, 1, method=method, views="both")
