"""Branch and bound through the public calls: brackets, witnesses, limits, files."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from certgcl.bounds import BranchAndBound, Degree
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import linear_bounds, node_compactness
from certgcl.errors import BoundError, CertificateError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import admissible_sets, drop_problem, random_graph, random_tensor, scaled, toy_network, without


@pytest.fixture(scope="module")
def setting() -> tuple[GCNEncoder, Graph]:
    torch.manual_seed(0)
    return GCNEncoder(3, 8, 4).double(), random_graph(nodes=7, density=0.45)


@pytest.fixture(scope="module")
def exact(setting: tuple[GCNEncoder, Graph]) -> Certificate:
    return node_compactness(*setting, 1, method="exact")


def values(setting: tuple[GCNEncoder, Graph], certificate: Certificate, view: Graph) -> torch.Tensor:
    return (setting[0](view.x, view.edge_index) * certificate.directions).sum(dim=1).detach()


def test_exact_is_the_enumerated_minimum(setting, exact: Certificate) -> None:
    graph = setting[1]
    least = torch.stack(
        [values(setting, exact, without(graph, dropped)) for dropped in admissible_sets(graph, torch.ones(7))]
    ).amin(dim=0)
    torch.testing.assert_close(exact.lower, least, rtol=0, atol=1e-9)
    assert exact.exact.all()
    assert exact.method == "exact"


def test_a_witness_gives_its_value_in_the_users_own_model(setting, exact: Certificate) -> None:
    graph = setting[1]
    for node in range(7):
        dropped = tuple(tuple(sorted(edge)) for edge in exact.witness(node).T.tolist())
        value = values(setting, exact, without(graph, dropped))[node]
        torch.testing.assert_close(value, exact.upper[node], rtol=0, atol=1e-12)


def test_optimized_lies_between_degree_and_the_truth(setting, exact: Certificate) -> None:
    degree, optimized = (node_compactness(*setting, 1, method=method) for method in ("degree", "optimized"))
    assert (degree.lower <= optimized.lower + 1e-12).all()
    assert (optimized.lower <= exact.lower + 1e-12).all()
    assert (optimized.upper >= exact.lower - 1e-12).all()


def test_without_time_the_bracket_is_the_bound_and_a_value(setting) -> None:
    certificate = node_compactness(*setting, 1, method="exact", time_limit=0.0)
    torch.testing.assert_close(certificate.lower, node_compactness(*setting, 1).lower)
    assert (certificate.upper >= certificate.lower).all()
    assert (certificate.upper <= certificate.nominal + 1e-12).all()


def test_every_node_has_a_status(setting, exact: Certificate) -> None:
    assert exact.status == ["exact"] * 7
    stopped = node_compactness(*setting, 1, method="exact", time_limit=0.0)
    assert [status == "exact" for status in stopped.status] == stopped.exact.tolist()
    assert set(stopped.status) <= {"exact", "bracketed"}
    assert node_compactness(*setting, 1, nodes=[3]).status == ["bounded"]
    assert node_compactness(*setting, 1, method="paper", nodes=[3]).status == ["uncertified"]


def test_anchors_and_files_keep_their_brackets(setting, exact: Certificate, tmp_path: Path) -> None:
    some = node_compactness(*setting, 1, method="exact", nodes=[5, 2])
    torch.testing.assert_close(some.upper, exact.upper[[5, 2]])
    loaded = Certificate.load(exact.save(tmp_path / "certificate.npz"))
    assert torch.equal(loaded.upper, exact.upper)
    assert all(torch.equal(loaded.witness(node), exact.witness(node)) for node in range(7))
    part = Certificate.joined([loaded.at(torch.tensor([3])), loaded.at(torch.tensor([0, 6]))])
    assert part.nodes.tolist() == [3, 0, 6]
    assert torch.equal(part.witness(6), exact.witness(6))
    assert "7 exact" in str(exact)
    assert exact.to_dict()["upper"] == exact.upper.tolist()


def test_several_directions_are_bounded_without_uppers(setting, exact: Certificate) -> None:
    directions = torch.stack([exact.directions, random_tensor(7, 4, seed=1)], dim=1)
    certificate = linear_bounds(*setting, 1, directions, method="exact")
    torch.testing.assert_close(certificate.lower[:, 0], exact.lower)
    assert certificate.upper is None


def test_a_known_fall_below_zero_is_told(setting, exact: Certificate) -> None:
    against = linear_bounds(*setting, 1, -exact.directions, method="exact")
    assert against.negative.any()
    assert not (against.negative & against.positive).any()


def test_certificates_of_bounds_have_no_witnesses(setting) -> None:
    certificate = node_compactness(*setting, 1)
    assert not certificate.exact.any()
    assert not certificate.negative.any()
    with pytest.raises(CertificateError, match="a witness of node 0"):
        certificate.witness(0)


def test_limits_are_for_searches_and_not_negative(setting) -> None:
    with pytest.raises(MethodError, match=r"time_limit=1\.0 with method 'degree'"):
        node_compactness(*setting, 1, time_limit=1.0)
    with pytest.raises(MethodError, match="branch_limit=-1"):
        BranchAndBound(branch_limit=-1)


def test_progress_counts_closed_anchors(setting) -> None:
    seen: list[tuple[int, int]] = []
    node_compactness(*setting, 1, method=BranchAndBound(Degree(resolution=1), progress=lambda *p: seen.append(p)))
    assert seen[-1] == (7, 7)


@pytest.mark.parametrize("scale", [1e160, 1e300])
@pytest.mark.parametrize("method", ["degree", "exact", "optimized", BranchAndBound(workers=2)])
def test_overflow_is_the_error_of_the_closed_forms(method: Any, scale: float) -> None:
    small, graph = toy_network(), random_graph(nodes=9, density=0.4)
    large = scaled(small, scale)
    with pytest.raises(BoundError, match="a non-finite value at node"):
        node_compactness(large, graph, 1, method=method)
    with pytest.raises(BoundError, match="a non-finite value at node"):
        BranchAndBound().brackets(large, drop_problem(graph, 1), random_tensor(9, 3, seed=0))


@pytest.mark.parametrize("exponent", [151, 152, 152.5, 153, 153.25, 153.5, 153.75, 154, 154.25])
def test_close_to_overflow_a_search_has_a_bracket_or_says_so(exponent: float) -> None:
    small, graph = toy_network(), random_graph(nodes=9, density=0.4)
    large = scaled(small, 10.0**exponent)
    with suppress(BoundError):
        certificate = node_compactness(large, graph, 2, method="exact")
        assert torch.isfinite(certificate.lower).all()
        assert (certificate.lower <= certificate.upper + certificate.rounding).all()
