from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import certgcl
from certgcl.bounds import METHODS, BoundMethod, Degree
from certgcl.certify.compactness import compactness_directions, linear_bounds, node_compactness
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BoundError, DirectionError, EncoderError, GraphError, InputError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import admissible_sets, changed, random_graph, random_tensor, tensors_of, toy_network, without

NOWHERE = torch.empty(2, 0, dtype=torch.long)


@pytest.fixture
def encoder() -> GCNEncoder:
    encoder = GCNEncoder(5, 4, 3, "prelu").double()
    for conv in (encoder.conv1, encoder.conv2):
        torch.nn.init.normal_(conv.bias)
    return encoder


# -- directions ------------------------------------------------------------------------------------


def test_direction_is_the_own_unit_vector_less_the_mean_of_the_others() -> None:
    z = random_tensor(5, 3, seed=0)
    unit = [row / float((row**2).sum()) ** 0.5 for row in z]
    for i, direction in enumerate(compactness_directions(z)):
        others = sum(unit[j] for j in range(5) if j != i) / 4
        torch.testing.assert_close(direction, unit[i] - others, rtol=1e-13, atol=1e-14)


def test_a_zero_embedding_stays_zero() -> None:
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]], dtype=torch.float64)
    expected = torch.tensor([[-0.3, -0.9], [0.6, 0.3], [-0.3, 0.6]], dtype=torch.float64)
    torch.testing.assert_close(compactness_directions(z), expected, rtol=1e-14, atol=1e-14)
    assert torch.equal(compactness_directions(torch.zeros(3, 2)), torch.zeros(3, 2))


def test_embeddings_that_are_all_zero_are_certified_at_zero(graph: Graph) -> None:
    dead = gcn_network((random_tensor(5, 4, seed=0), 0.0, 0.0), (torch.zeros(4, 3, dtype=torch.float64), -1.0, 0.0))
    certificate = node_compactness(dead, graph, 1)
    assert certificate.lower.tolist() == certificate.nominal.tolist() == [0.0] * 6
    assert not certificate.positive.any()


def test_compactness_needs_another_node() -> None:
    with pytest.raises(GraphError, match=r"a graph with 1 node.*two nodes or more"):
        compactness_directions(torch.ones(1, 3))


# -- what comes back -------------------------------------------------------------------------------


def test_nominal_is_the_compactness_of_the_encoder(encoder: GCNEncoder, either_graph: Graph) -> None:
    certificate = node_compactness(encoder, either_graph, 1)
    z = encoder(either_graph.x, either_graph.edge_index).detach()
    directions = compactness_directions(z)
    torch.testing.assert_close(certificate.directions, directions, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(certificate.nominal, (directions * z).sum(dim=1), rtol=1e-12, atol=1e-12)
    assert (certificate.lower <= certificate.nominal + certificate.rounding).all()
    assert (certificate.rounding < 1e-10).all()
    assert certificate.nodes.tolist() == list(range(6))
    assert certificate.local_budget.tolist() == [1, 1, 1, 1, 1, 0]
    assert certificate.total_budget == 5


@pytest.mark.parametrize("method", METHODS)
def test_a_certificate_says_where_it_comes_from(encoder: GCNEncoder, graph: Graph, method: str) -> None:
    certificate = node_compactness(encoder, graph, 1, method=method)
    assert certificate.method == METHODS[method].name
    assert certificate.certified == METHODS[method].certified
    assert certificate.lower.shape == certificate.nominal.shape == certificate.rounding.shape == (6,)
    assert not certificate.lower.requires_grad


def test_a_method_may_be_given_with_settings_of_its_own(encoder: GCNEncoder, graph: Graph) -> None:
    cheap = node_compactness(encoder, graph, 1, method=METHODS["degree-cheap"])
    same = node_compactness(encoder, graph, 1, method=Degree("interval", ("adaptive",), "by-count"))
    assert torch.equal(cheap.lower, same.lower)


def test_compactness_is_a_linear_bound_in_its_own_directions(encoder: GCNEncoder, graph: Graph) -> None:
    view = without(graph, ((0, 1), (2, 3)))
    certificate = node_compactness(encoder, graph, 1, view=view)
    directions = compactness_directions(encoder(view.x, view.edge_index).detach())
    other = linear_bounds(encoder, graph, 1, directions)
    torch.testing.assert_close(certificate.lower, other.lower, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(certificate.directions, other.directions, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(certificate.lower, node_compactness(encoder, graph, 1).lower)


def test_a_view_may_have_features_of_its_own(encoder: GCNEncoder, graph: Graph) -> None:
    masked = graph.with_features(graph.x * torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0]))
    certificate = node_compactness(encoder, graph, 1, view=masked)
    expected = compactness_directions(encoder(masked.x, masked.edge_index).detach())
    torch.testing.assert_close(certificate.directions, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["interval", "crown", "degree", "degree-cheap"])
def test_no_admissible_view_is_below(encoder: GCNEncoder, graph: Graph, method: str) -> None:
    budget = EdgeDropBudget(local=[1, 2, 2, 1, 1, 1], total=3)
    certificate = node_compactness(encoder, graph, budget, method=method)
    with torch.no_grad():
        for dropped in admissible_sets(graph, torch.tensor([1, 2, 2, 1, 1, 1]), 3):
            z = encoder(graph.x, without(graph, dropped).edge_index)
            assert (certificate.lower <= (certificate.directions * z).sum(dim=1) + certificate.rounding).all()


def test_every_way_to_give_a_graph_is_the_same(encoder: GCNEncoder, graph: Graph) -> None:
    expected = node_compactness(encoder, graph, 1, method="crown").lower
    source = nx.Graph(graph.edge_index.T.tolist())
    source.add_node(5)
    nx.set_node_attributes(source, {node: graph.x[node] for node in range(6)}, "x")
    for other in (Data(x=graph.x, edge_index=graph.edge_index), (graph.x, graph.edge_index), source):
        assert torch.equal(node_compactness(encoder, other, 1, method="crown").lower, expected)


def test_every_way_to_give_a_budget_is_the_same(encoder: GCNEncoder, graph: Graph) -> None:
    expected = node_compactness(encoder, graph, EdgeDropBudget(local=1), method="crown").lower
    for budget in (1, np.int64(1), [1] * 6, torch.ones(6, dtype=torch.long)):
        assert torch.equal(node_compactness(encoder, graph, budget, method="crown").lower, expected)
    by_rate = node_compactness(encoder, graph, EdgeDropBudget.from_drop_rate(0.5), method="crown")
    assert torch.equal(node_compactness(encoder, graph, 0.5, method="crown").lower, by_rate.lower)


@pytest.mark.parametrize("nodes", [[4, 0], torch.tensor([4, 0], dtype=torch.int32), np.array([4, 0])])
def test_anchors_come_back_in_the_order_given(encoder: GCNEncoder, graph: Graph, nodes: Any) -> None:
    everyone = node_compactness(encoder, graph, 1)
    some = node_compactness(encoder, graph, 1, nodes=nodes)
    assert some.nodes.tolist() == [4, 0]
    assert some.directions.shape == (2, 3)
    for name in ("lower", "nominal", "directions"):
        torch.testing.assert_close(getattr(some, name), getattr(everyone, name)[[4, 0]], rtol=1e-12, atol=1e-12)


def test_anchors_may_be_a_mask(encoder: GCNEncoder, graph: Graph) -> None:
    mask = torch.tensor([True, False, False, True, False, True])
    assert node_compactness(encoder, graph, 1, nodes=mask).nodes.tolist() == [0, 3, 5]


def test_a_float32_encoder_is_certified_in_float64(graph: Graph) -> None:
    encoder = GCNEncoder(5, 4, 3).eval()
    single = graph.to(dtype=torch.float32)
    certificate = node_compactness(encoder, single, 1)
    assert certificate.lower.dtype == torch.float64
    in_float32 = node_compactness(encoder, single, 1, dtype=torch.float32)
    assert in_float32.lower.dtype == torch.float32
    assert ((in_float32.lower - certificate.lower).abs() <= in_float32.rounding).all()
    assert next(encoder.parameters()).dtype == torch.float32


def test_the_model_stays_as_it_was(encoder: GCNEncoder, graph: Graph) -> None:
    encoder.train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    node_compactness(encoder, graph, 1)
    assert encoder.training
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in encoder.parameters())


# -- directions of one's own -----------------------------------------------------------------------


def test_margins_of_a_classifier(graph: Graph) -> None:
    logits = GCNEncoder(5, 4, 3, "relu", None).double()
    with torch.no_grad():
        scores = logits(graph.x, graph.edge_index)
    predicted = scores.argmax(dim=1)
    eye = torch.eye(3, dtype=torch.float64)
    margins = eye[predicted][:, None] - eye  # (6, 3, 3), zero for the predicted class itself
    certificate = linear_bounds(logits, graph, 1, margins)
    assert certificate.lower.shape == (6, 3)
    expected = scores.gather(1, predicted[:, None]) - scores
    torch.testing.assert_close(certificate.nominal, expected, rtol=1e-12, atol=1e-12)
    for dropped in admissible_sets(graph, 1):
        with torch.no_grad():
            z = logits(graph.x, without(graph, dropped).edge_index)
        assert (certificate.lower <= (margins @ z[..., None])[..., 0] + certificate.rounding).all()


@pytest.mark.parametrize("method", METHODS)
def test_many_directions_are_as_good_as_one_at_a_time(encoder: GCNEncoder, graph: Graph, method: str) -> None:
    directions = random_tensor(6, 3, 3, seed=1)
    together = linear_bounds(encoder, graph, 1, directions, method=method, nodes=[3, 2])
    assert together.directions.shape == (2, 3, 3)
    for c in range(3):
        alone = linear_bounds(encoder, graph, 1, directions[:, c], method=method, nodes=[3, 2])
        assert alone.lower.shape == (2,)
        torch.testing.assert_close(together.lower[:, c], alone.lower, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [lambda d: d.numpy(), lambda d: d.tolist(), lambda d: d.float()])
def test_directions_may_be_arrays_and_lists(encoder: GCNEncoder, graph: Graph, kind: Any) -> None:
    directions = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0, 1, 2]]
    expected = linear_bounds(encoder, graph, 1, directions)
    assert torch.equal(linear_bounds(encoder, graph, 1, kind(directions)).lower, expected.lower)


def test_one_node_is_enough_for_a_linear_bound(encoder: GCNEncoder) -> None:
    certificate = linear_bounds(encoder, (torch.ones(1, 5, dtype=torch.float64), NOWHERE), 1, torch.ones(1, 3))
    torch.testing.assert_close(certificate.lower, certificate.nominal)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        (torch.ones(5, 3), r"shape \(5, 3\).*\(6, 3\) or \(6, C, 3\)"),
        (torch.ones(6, 2), r"shape \(6, 2\)"),
        (torch.ones(6, 2, 4), r"shape \(6, 2, 4\)"),
        (torch.ones(6, 0, 3), r"shape \(6, 0, 3\)"),
        (torch.ones(3), r"shape \(3,\)"),
        (torch.ones(6, 1, 1, 3), r"shape \(6, 1, 1, 3\)"),
        (torch.tensor([[1.0] * 3] * 4 + [[torch.nan] * 3] * 2), "NaN or infinite direction at node 4"),
        (torch.full((6, 2, 3), torch.inf), "NaN or infinite direction at node 0"),
        (torch.ones(6, 3, dtype=torch.complex64), "dtype torch.complex64"),
        ("up", "directions='up'"),
        (None, "directions=None"),
    ],
)
def test_directions_must_fit(encoder: GCNEncoder, graph: Graph, directions: Any, message: str) -> None:
    with pytest.raises(DirectionError, match=message):
        linear_bounds(encoder, graph, 1, directions)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], r"shape \(0,\).*non-empty"),
        ([0, 6], "node 6.*0 to 5"),
        ([-1], "node -1.*0 to 5"),
        ([2, 1, 2], "node 2 listed 2 times"),
        ([0.5], "dtype torch.float32"),
        ([1j], "dtype torch.complex64"),
        ([True, False], r"dtype torch.bool and shape \(2,\)"),
        (torch.zeros(6, dtype=torch.bool), r"shape \(0,\)"),
        (3, r"shape \(\)"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ("all", "nodes='all'"),
    ],
)
def test_anchors_must_be_nodes(encoder: GCNEncoder, graph: Graph, nodes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        node_compactness(encoder, graph, 1, nodes=nodes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, "float32", None])
def test_bounds_are_computed_in_single_or_double_precision(encoder: GCNEncoder, graph: Graph, dtype: Any) -> None:
    with pytest.raises(InputError, match=f"dtype={dtype!r}.*torch.float32 or torch.float64"):
        node_compactness(encoder, graph, 1, dtype=dtype)
    with pytest.raises(InputError, match=f"dtype={dtype!r}"):
        linear_bounds(encoder, graph, 1, torch.ones(6, 3), dtype=dtype)


def test_views_have_the_same_nodes_and_features(encoder: GCNEncoder, graph: Graph) -> None:
    with pytest.raises(GraphError, match="a view with 4 nodes and 5 features for a graph with 6 and 5"):
        node_compactness(encoder, graph, 1, view=(graph.x[:4], NOWHERE))
    with pytest.raises(GraphError, match="a view with 6 nodes and 2 features"):
        node_compactness(encoder, graph, 1, view=(graph.x[:, :2], NOWHERE))


@pytest.mark.parametrize("method", METHODS)
def test_a_bound_that_overflows_is_never_returned(graph: Graph, method: str) -> None:
    huge = gcn_network(
        (torch.full((5, 4), 1e200, dtype=torch.float64), 0.0, 0.5),
        (torch.full((4, 3), 1e200, dtype=torch.float64), 0.0, 0.5),
    )
    with pytest.raises(BoundError, match="non-finite value at node 0"):
        linear_bounds(huge, graph, 1, torch.ones(6, 3), method=method)
    with pytest.raises(BoundError, match="non-finite value at node 0"):
        node_compactness(huge, graph, 1, method=method)


def test_only_an_anchor_that_overflows_is_named(graph: Graph) -> None:
    x = graph.x.clone()
    x[5] = 1e200
    weights = toy_network(features=5)
    far = graph.with_features(x)
    huge = changed(weights, w2=tensors_of(weights)[3] * 1e150)
    with pytest.raises(BoundError, match="node 5"):
        linear_bounds(huge, far, 1, torch.ones(6, 3))
    assert torch.isfinite(linear_bounds(huge, far, 1, torch.ones(6, 3), nodes=[0, 1, 2, 3, 4]).lower).all()


class CleanValuePlus(BoundMethod):
    """A broken method."""

    name, certified = "broken", True

    def __init__(self, excess: float, certified: bool) -> None:
        self.excess, self.certified = excess, certified

    def __call__(self, network: GraphNetwork, problem: Any, directions: Tensor) -> Tensor:
        return (directions @ network.embed(problem.graph)[..., None])[..., 0][problem.anchors] + self.excess


def test_a_bound_above_the_clean_value_is_never_returned(encoder: GCNEncoder, graph: Graph) -> None:
    with pytest.raises(BoundError, match="above the clean value at node 3"):
        node_compactness(encoder, graph, 1, method=CleanValuePlus(1e-6, certified=True), nodes=[3, 4])
    assert node_compactness(encoder, graph, 1, method=CleanValuePlus(1e-6, certified=False)).lower.shape == (6,)


@pytest.mark.parametrize("certified", [True, False])
@pytest.mark.parametrize("excess", [torch.nan, -torch.inf, torch.inf])
def test_a_bound_that_is_not_finite_is_never_returned(
    encoder: GCNEncoder, graph: Graph, excess: float, certified: bool
) -> None:
    with pytest.raises(BoundError, match="non-finite value at node 3"):
        node_compactness(encoder, graph, 1, method=CleanValuePlus(excess, certified), nodes=[3, 4])


def test_an_unknown_method_is_refused(encoder: GCNEncoder, graph: Graph) -> None:
    with pytest.raises(MethodError, match=r"method 'best'.*degree"):
        certgcl.node_compactness(encoder, graph, 1, method="best")


def test_weights_must_fit_the_features() -> None:
    with pytest.raises(EncoderError, match=r"3 features per node.*take 7"):
        node_compactness(toy_network(features=7), random_graph(), 1)


# -- while it runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["degree", "exact"])
def test_a_bar_counts_the_nodes(
    method: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "certgcl.runtime.progress_bar.Bar.show", lambda bar, done, whole, words: shown.append((done, whole))
    )
    monkeypatch.setattr("certgcl.certify.certification.parts_that_fit", lambda *_: list(torch.arange(12).split(5)))
    graph, network = random_graph(), toy_network()
    found = certgcl.node_compactness(network, graph, 1, method=method, progress=True)
    assert shown[-1] == (12, 12)
    assert [done for done, _ in shown] == sorted(done for done, _ in shown)
    assert torch.equal(found.lower, certgcl.node_compactness(network, graph, 1, method=method).lower)
    assert capfd.readouterr().out == ""
    with pytest.raises(InputError, match="progress="):
        certgcl.node_compactness(network, graph, 1, progress="yes")


def test_one_logger_says_what_was_done(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="certgcl"):
        certgcl.node_compactness(toy_network(), random_graph(), 1)
        certgcl.GRACE(hidden=2, epochs=1).fit(random_graph())
    assert {record.name for record in caplog.records} == {"certgcl"}
    assert "12 nodes certified by degree" in caplog.text
    assert "trained" in caplog.text
