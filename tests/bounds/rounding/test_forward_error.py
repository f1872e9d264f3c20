"""Sizes and errors of networks of any kind. The audit checks them in ball arithmetic."""

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import pytest
import torch

import certgcl
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.forward_error import longest_paths, longest_sums, room_for, steps_after
from certgcl.bounds.rounding.largest_mixing import LargestMixing
from certgcl.bounds.rounding.slack import Sizes, bound_factor
from certgcl.graphs.graph import Graph
from certgcl.models import (
    Aggregation,
    Diffusion,
    GraphNetwork,
    Layer,
    Local,
    Mean,
    Sum,
    SymmetricNorm,
    Term,
    gcn_network,
)
from certgcl.models.smooth import ELU, Sigmoid, Softplus
from tests.toys import admissible_sets, drop_problem, random_graph, random_tensor, run_in, toy_graph, without

WIDTH = 3
BIAS = random_tensor(WIDTH, seed=9)


def matrix(seed: int) -> torch.Tensor:
    return random_tensor(3, WIDTH, seed=seed)


def of(*layers: Layer, readout: tuple[int, ...] = ()) -> GraphNetwork:
    return GraphNetwork(layers, readout)


def sgc(aggregation: Aggregation) -> GraphNetwork:
    ones, none = torch.ones(WIDTH).double(), torch.zeros(WIDTH).double()
    return of(
        Layer((Term(0, matrix(0), aggregation),), none),
        Layer((Term(1, ones, aggregation),), none),
        Layer((Term(2, ones, aggregation),), BIAS),
    )


NETWORKS: dict[str, Callable[[], GraphNetwork]] = {
    "SAGE, mean": lambda: of(
        Layer((Term(0, matrix(0), Mean()), Term(0, matrix(1))), BIAS, ELU()),
        Layer((Term(1, matrix(2), Mean()), Term(1, matrix(3))), BIAS),
    ),
    "GIN": lambda: of(
        Layer((Term(0, matrix(0), Sum()), Term(0, 1.3 * matrix(0))), BIAS, Sigmoid()),
        Layer((Term(1, matrix(1)),), BIAS),
        Layer((Term(2, matrix(2), Sum()),), BIAS, Softplus(threshold=50.0)),
    ),
    "SGC": lambda: sgc(Diffusion()),
    "no self-loops": lambda: sgc(SymmetricNorm(0.0)),
    "three layers, all read out": lambda: replace(
        gcn_network(*((matrix(k), BIAS, 0.2) for k in range(3))), readout=(1, 3, 2)
    ),
    "residual": lambda: of(
        Layer((Term(0, matrix(0), SymmetricNorm()),), BIAS, ELU(2.0)),
        Layer((Term(1, matrix(1), SymmetricNorm(2.0)), Term(0, torch.ones(3).double())), BIAS),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_no_embedding_is_larger_than_its_size_nor_further_off_than_its_error(name: str) -> None:
    network, graph = NETWORKS[name](), random_graph(7)
    sizes = Sizes.of(network, drop_problem(graph, 2), torch.float64)
    coarse = Sizes.of(run_in(network, torch.float32), drop_problem(graph, 2), torch.float64).run
    fine = run_in(network, torch.float32).to(torch.float64)
    for dropped in admissible_sets(graph, local=2):
        view = without(graph, dropped)
        assert (network.embed(view).abs() <= sizes.output).all()
        run = run_in(network, torch.float32).embed(view.with_features(view.x.float())).double()
        assert ((run - fine.embed(view)).abs() <= coarse).all()
    assert (sizes.run <= 1e-12 * sizes.output).all()
    assert (coarse <= 1e-3 * sizes.output).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_some_anchors_have_the_sizes_that_all_have(name: str) -> None:
    network, graph, some = NETWORKS[name](), random_graph(30, 0.05), [17, 3, 11]
    everywhere, here = (Sizes.of(network, drop_problem(graph, 1, anchors), torch.float64) for anchors in (None, some))
    for table in ("output", "bound", "run"):
        torch.testing.assert_close(getattr(here, table), getattr(everywhere, table)[some], rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_directions_are_as_near_to_those_of_another_order_as_they_say(name: str) -> None:
    """Nodes and channels in another order are summed in another order."""
    network, graph = NETWORKS[name](), random_graph(25, 0.2)
    order = torch.randperm(25, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    one = CompactnessDirections.of(network, graph)
    other = CompactnessDirections.of(network, Graph.of((graph.x[order], place[graph.edge_index])))
    allowed = one.own[:, None] + one.shared + other.own[place][:, None] + other.shared
    assert ((one.values - other.values[place]).abs() <= allowed).all()
    assert float(allowed.max()) < 1e-7


def test_embeddings_whose_squares_overflow_have_no_known_direction() -> None:
    network = gcn_network((matrix(0) * 1e150, 0.0, 0.0), (matrix(1) * 1e150, 0.0, 1.0))
    found = CompactnessDirections.of(network, random_graph())
    assert (found.own >= 1).all()
    certificate = certgcl.node_compactness(network, random_graph(), 0)
    assert not certificate.positive_in_exact_arithmetic.any()


# -- what is counted ---------------------------------------------------------------------------------


def test_the_factor_of_a_bound_counts_layers_with_lines() -> None:
    relu, none = (matrix(0), BIAS, 0.0), (matrix(0), BIAS, 1.0)
    networks = [none], [relu, none], [relu, relu], [relu, none, relu]
    assert [bound_factor(gcn_network(*layers)) for layers in networks] == [6, 18, 54, 54]


def test_a_matrix_that_is_applied_after_several_steps_is_known() -> None:
    assert [steps_after(sgc(Diffusion()), number) for number in (1, 2, 3)] == [2, 1, 0]
    assert steps_after(gcn_network((matrix(0), 0.0, 1.0), (matrix(1), 0.0, 1.0)), 1) == 0


def test_rows_that_are_mixed_before_they_are_multiplied_have_larger_errors() -> None:
    graph = random_graph(12)
    first, later = (
        Sizes.of(run_in(sgc(kind), torch.float32), drop_problem(graph, 1), torch.float64).run
        for kind in (SymmetricNorm(), Diffusion())
    )
    assert float((later / first).mean()) > 1.5


def test_longest_sums_grow_with_every_layer() -> None:
    sums = [longest_sums(gcn_network(*((matrix(0), 0.0, 0.0),) * depth), 5) for depth in (1, 2, 3)]
    assert sums[1] - sums[0] == sums[2] - sums[1] == 3 + 6 + 20 + 6 + 3


def test_weights_that_were_computed_have_errors_of_their_own() -> None:
    network, problem = NETWORKS["GIN"](), drop_problem(random_graph(), 1)
    own = Sizes.of(run_in(network, torch.float32), problem, torch.float64).run
    assert (Sizes.of(replace(network, precision=torch.float32), problem, torch.float64).run > own).all()


# -- overflow ----------------------------------------------------------------------------------------


def test_features_that_a_format_does_not_hold_leave_an_infinite_error() -> None:
    graph = random_graph(6)
    network = run_in(gcn_network((matrix(0) * 1e-3, 0.0, 1.0), (matrix(1), 0.0, 1.0)), torch.float16)
    assert Sizes.of(network, drop_problem(graph, 1), torch.float64).run.isfinite().all()
    graph.x[2, 1] = 1e6
    assert Sizes.of(network, drop_problem(graph, 1), torch.float64).run.isinf().all()


def test_so_do_sums_of_features_that_are_multiplied_later() -> None:
    graph = random_graph(6).with_features(torch.full((6, 3), 2e4, dtype=torch.float64))
    tiny = run_in(of(Layer((Term(0, matrix(0) * 1e-4, Sum()),), BIAS)), torch.float16)
    error = Sizes.of(tiny, drop_problem(graph, 1), torch.float64).run.isinf().all(dim=1)
    assert torch.equal(error, graph.degree >= 2)


def test_a_layer_that_nothing_depends_on_does_no_harm() -> None:
    layer = Layer((Term(0, matrix(0), SymmetricNorm()),), BIAS)
    found = Sizes.of(of(layer, layer, readout=(1,)), drop_problem(random_graph(), 1), torch.float64)
    expected = Sizes.of(of(layer), drop_problem(random_graph(), 1), torch.float64)
    torch.testing.assert_close(found.run, expected.run)


def test_a_node_without_neighbours_has_no_mean() -> None:
    graph = Graph.of((torch.full((2, 3), 1e30).double(), torch.zeros(2, 0, dtype=torch.long)))
    network = of(Layer((Term(0, matrix(0) * 1e300, Mean()), Term(0, matrix(0), Local())), BIAS))
    assert network.embed(graph).isfinite().all()


def test_a_jump_is_as_large_in_every_precision() -> None:
    network = of(Layer((Term(0, matrix(0), Mean()),), BIAS, Softplus(threshold=1.0)))
    for dtype in (torch.float32, torch.float64):
        found = Sizes.of(run_in(network, torch.float32), drop_problem(random_graph(), 1), dtype)
        assert (found.run >= 0.3).all()
        assert (found.bound >= 0.3).all()


# -- room, and what is larger inside a bound -----------------------------------------------------------


def test_room_is_at_least_what_roundings_can_take_away() -> None:
    for dtype in (torch.float32, torch.float64):
        unit = torch.finfo(dtype).eps / 2
        for roundings in (0, 1, 1000, 10**6):
            assert room_for(roundings, dtype) * (1 - roundings * unit) >= 1
    assert room_for(2**23, torch.float32) == torch.inf


def test_sums_that_are_too_long_for_the_format_of_a_bound_leave_no_slack() -> None:
    wide = gcn_network((torch.ones(2**18, 1), 0.0, 1.0))
    graph = random_graph(4).with_features(torch.zeros(4, 2**18))
    assert Sizes.of(wide, drop_problem(graph, 0), torch.float32).bound.isinf().all()
    assert Sizes.of(wide, drop_problem(graph, 0), torch.float64).bound.isfinite().all()


@pytest.mark.parametrize(
    ("kinds", "budget", "spread"),
    [
        ((SymmetricNorm(),), 0, 1.0),
        ((SymmetricNorm(),), 4, 2**0.5),  # in(0) / in(1), once
        ((SymmetricNorm(), SymmetricNorm()), 4, 2.0),
        ((Mean(),), 4, 1.0),
        ((Sum(), Sum()), 4, 1.0),
        ((SymmetricNorm(0.01),), 4, 101 / 2**0.5),  # ten times each, and out in units of √2
        ((Mean(), Sum()), 0, 1.0),
        ((Mean(), Sum()), 2, 9.0),  # of three neighbours one is left, in both layers
    ],
)
def test_scales_spread_where_nodes_can_lose_all_edges_or_aggregations_differ(
    kinds: tuple[Aggregation, ...], budget: int, spread: float
) -> None:
    network = of(*(Layer((Term(number, matrix(0), kind),), BIAS) for number, kind in enumerate(kinds)))
    complete = toy_graph(nx.complete_graph(4))
    found = LargestMixing(network, drop_problem(complete, budget), torch.float64).spread(network)
    assert spread <= found <= 1.001 * spread


def test_functionals_of_changed_features_add_up_all_nodes_within_their_hops() -> None:
    graph = toy_graph(nx.path_graph(6))
    network = of(*(Layer((Term(number, matrix(0), Sum()),), BIAS) for number in range(2)))
    changes = certgcl.Changes(features=certgcl.FeatureBudget(masked=1)).on(graph)
    assert changes.features is not None
    field = LargestMixing(network, drop_problem(graph, 0), torch.float64)
    found = longest_paths(network, field, changes.features) - 1 - changes.features.total
    assert (found >= torch.tensor([3, 4, 5, 5, 4, 3])).all()
    assert (found <= 6).all()
