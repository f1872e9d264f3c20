"""What rounding can do to a bound, to W^CL and to the model as it runs. The audit checks it in ball arithmetic."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.forward_error import smallest_size
from certgcl.bounds.rounding.slack import Sizes
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import (
    admissible_sets,
    changed,
    drop_problem,
    random_graph,
    random_tensor,
    run_in,
    scaled,
    tensors_of,
    toy_graph,
    toy_network,
    without,
)


def slack(weights: GraphNetwork, graph: Graph, directions: Tensor) -> Tensor:
    return Sizes.of(weights, drop_problem(graph, 1), torch.float64).bound_slack(directions)


# -- collapse: nothing is left of W^CL but noise --------------------------------------------------------


def test_a_collapsed_encoder_is_nowhere_positive() -> None:
    data = certgcl.load_dataset("digits")
    torch.manual_seed(1)
    encoder = GCNEncoder(data.num_features, 16, 8).double()
    with torch.no_grad():
        encoder.conv1.bias.fill_(-1e3)
        encoder.conv2.bias.uniform_(0.1, 1)  # every embedding is relu(b2)
    certificate = certgcl.node_compactness(encoder, (data.x.double(), data.edge_index), 2)
    assert not certificate.positive.any()
    assert not certificate.positive_in_exact_arithmetic.any()


def test_nor_is_one_on_features_of_rank_one() -> None:
    graph = toy_graph(nx.gnp_random_graph(240, 0.02, seed=0))
    graph = graph.with_features((1 + torch.arange(240.0)).double()[:, None] * torch.tensor([[0.3, 0.7, 0.2]]).double())
    certificate = certgcl.node_compactness(
        gcn_network((random_tensor(3, 8, seed=0), 0.0, 0.0), (random_tensor(8, 4, seed=1), 0.0, 0.0)), graph, 1
    )
    assert not certificate.positive_in_exact_arithmetic.any()


def test_nor_is_one_that_sees_the_same_features_everywhere_on_a_cycle() -> None:
    graph = toy_graph(nx.cycle_graph(30)).with_features(torch.full((30, 3), 0.1, dtype=torch.float64))
    certificate = certgcl.node_compactness(toy_network(), graph, 0)
    assert not certificate.positive_in_exact_arithmetic.any()


def test_dead_nodes_do_not_blur_the_directions_of_the_others() -> None:
    """A unit that a ReLU keeps at zero has no rounding error, so a zero embedding stays where it is."""
    weights = gcn_network((random_tensor(3, 4, seed=0), 0.0, 0.0), (random_tensor(4, 3, seed=2), -0.5, 0.0))
    graph = random_graph(40, 0.1)
    found = CompactnessDirections.of(weights, graph)
    dead = (found.embeddings == 0).all(dim=1)
    assert dead.any()
    assert float(found.shared.max()) < 1e-9  # 2 / 39 if a zero could point anywhere


@pytest.mark.parametrize("seed", range(5))
def test_the_directions_are_as_close_to_those_of_more_digits_as_they_say(seed: int) -> None:
    """numpy's long double carries eleven more bits."""
    graph, weights = random_graph(25, 0.2, seed=seed), toy_network(seed=seed)
    found = CompactnessDirections.of(weights, graph)
    matrix = np.zeros((25, 25))
    matrix[graph.row.numpy(), graph.col.numpy()] = 1
    matrix = matrix.astype(np.longdouble) + np.eye(25, dtype=np.longdouble)
    scale = 1 / np.sqrt(matrix.sum(axis=1))
    matrix = scale[:, None] * matrix * scale

    def layer(values: np.ndarray, weight: Tensor, bias: Tensor, slope: Tensor) -> np.ndarray:
        p = matrix @ (values @ weight.numpy().astype(np.longdouble)) + bias.numpy()
        return np.where(p >= 0, p, slope.numpy() * p)

    tensors = tensors_of(weights)
    z = layer(layer(graph.x.numpy().astype(np.longdouble), *tensors[:3]), *tensors[3:])
    unit = z / np.maximum(np.sqrt((z * z).sum(axis=1, keepdims=True)), np.longdouble(1e-12))
    exact = unit - (unit.sum(axis=0) - unit) / 24
    error = np.abs(found.values.numpy() - exact)
    assert (error <= found.own.numpy()[:, None] + found.shared.numpy()).all()


# -- sizes ---------------------------------------------------------------------------------------------


def test_what_underflows_is_covered() -> None:
    """Weights and features near 1e-200: every product is lost, and the slack is at least what a product can be."""
    weights, graph = toy_network(), random_graph()
    tiny = scaled(changed(weights, b1=torch.zeros(4).double(), b2=torch.zeros(3).double()), 1e-200)
    assert (slack(tiny, graph, random_tensor(12, 1, 3, seed=0)) >= torch.finfo(torch.float64).tiny).all()


def test_the_smallest_size_is_what_one_rounding_changes_by_the_smallest_normal_number() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        info = torch.finfo(dtype)
        assert smallest_size(dtype) * info.eps / 2 == pytest.approx(info.tiny)


def test_a_model_in_float32_hardly_changes_the_slack_of_the_bound() -> None:
    """Its sizes are computed in float32, with room for that."""
    directions, weights = random_tensor(12, 1, 3, seed=0), run_in(toy_network(), torch.float32)
    fine, coarse = (
        slack(run_in(weights, precision), random_graph(), directions) for precision in (torch.float64, torch.float32)
    )
    assert (coarse >= fine).all()
    torch.testing.assert_close(fine, coarse, rtol=1e-3, atol=0)


# -- the model as it runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@torch.no_grad()
def test_a_model_stays_above_its_bound_as_it_is_run(precision: torch.dtype) -> None:
    """In half precision and in float32, its own forward pass fell below ``lower - rounding`` at half of the nodes."""
    graph = toy_graph(nx.gnp_random_graph(400, 0.02, seed=0), features=20)
    torch.manual_seed(0)
    encoder = GCNEncoder(20, 16, 8).to(precision)
    certificate = certgcl.node_compactness(encoder, graph, 0)
    assert certificate.precision == str(precision).removeprefix("torch.")
    value = (encoder(graph.x.to(precision), graph.edge_index).double() * certificate.directions).sum(dim=1)
    assert (value < certificate.lower - certificate.rounding).any()
    assert (value >= certificate.lower - certificate.rounding - certificate.run_error).all()
    assert (value[certificate.positive] > 0).all()


def test_float32_keeps_most_of_what_exact_arithmetic_proves() -> None:
    graph = toy_graph(nx.gnp_random_graph(400, 0.02, seed=0), features=20)
    torch.manual_seed(0)
    certificate = certgcl.node_compactness(GCNEncoder(20, 16, 8), graph, 1)
    exact, run = (int(kept.sum()) for kept in (certificate.positive_in_exact_arithmetic, certificate.positive))
    assert 0.99 * exact <= run <= exact


def test_a_run_that_may_overflow_is_not_certified() -> None:
    """Hidden units near 1e5 do not fit into float16, though the embeddings would."""
    graph = toy_graph(nx.path_graph(4), features=2).with_features(torch.ones(4, 2, dtype=torch.float16))
    weights = gcn_network((torch.full((2, 2), 6e4), 0.0, 0.0), (torch.full((2, 2), 1e-5), 0.0, 0.0))
    certificate = certgcl.node_compactness(run_in(weights, torch.float16), graph, 1)
    assert certificate.run_error.isinf().all()
    assert not certificate.positive.any()


def test_degrees_that_a_format_cannot_count_are_not_certified() -> None:
    """bfloat16 counts to 256: the hub of a star with 300 leaves has no degree there."""
    graph = toy_graph(nx.star_graph(300))
    certificate = certgcl.node_compactness(run_in(toy_network(), torch.bfloat16), graph, 0)
    assert certificate.run_error.isinf().all()


def test_only_features_that_are_not_zero_are_counted() -> None:
    dense = random_graph(12)
    sparse = dense.with_features(torch.eye(12, 100, dtype=torch.float64))
    assert sparse.features.terms(torch.arange(3)).tolist() == [1, 1, 1]
    assert dense.features.terms(torch.arange(3)).tolist() == [3, 3, 3]


def test_no_embedding_is_larger_than_its_size() -> None:
    graph, weights = random_graph(8), toy_network()
    sizes = Sizes.of(weights, drop_problem(graph, 1), torch.float64).output
    for dropped in admissible_sets(graph, local=1):
        assert (weights.embed(without(graph, dropped)).abs() <= sizes).all()


def test_the_centre_of_a_star_grows_with_every_edge_it_loses_and_its_size_covers_that() -> None:
    star = toy_graph(nx.star_graph(3)).with_features(torch.tensor([[1.0], [0.0], [0.0], [0.0]], dtype=torch.float64))
    weights = gcn_network((torch.ones(1, 1).double(), 0.0, 0.0), (torch.ones(1, 1).double(), 0.0, 1.0))
    sizes = Sizes.of(weights, drop_problem(star, 3), torch.float64).output
    for dropped in admissible_sets(star):
        assert (weights.embed(without(star, dropped)) <= sizes).all()


def test_a_search_has_room_for_branches_in_which_a_node_loses_all_that_is_left() -> None:
    """A node of a cycle may lose one edge of two here: the only one, once the other was decided to stay."""
    cycle = toy_graph(nx.cycle_graph(5))
    whole, branches = (
        Sizes.of(toy_network(), drop_problem(cycle, 1), torch.float64, branches=each).bound for each in (False, True)
    )
    assert (branches >= 1.49 * whole).all()  # sqrt(3 / 2) a layer
    found = [
        certgcl.linear_bounds(toy_network(), cycle, 1, torch.ones(5, whole.shape[1]), method=method).rounding
        for method in ("degree", "exact")
    ]
    assert (found[1] >= 1.49 * found[0]).all()


def test_sizes_that_overflow_leave_an_infinite_error_and_a_certificate_that_can_be_kept(tmp_path: Path) -> None:
    w1, _, _, w2, *_ = tensors_of(toy_network())
    huge = gcn_network((w1, w1.new_full((w1.shape[1],), -1e300), 0.0), (w2 * 1e10, 1.0, 0.0))  # hidden units are off
    certificate = certgcl.node_compactness(huge, random_graph(), 1)
    assert certificate.rounding.isinf().all()
    assert not certificate.positive_in_exact_arithmetic.any()
    assert certgcl.Certificate.load(certificate.save(tmp_path / "huge.npz")).rounding.isinf().all()
