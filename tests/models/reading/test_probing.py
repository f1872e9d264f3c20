"""Measuring what cannot be traced: only on request, harder to fool than a look at the clean graph, and it says so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN, GCNConv
from torch_geometric.utils import degree

import certgcl
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import EncoderError, InputError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.reading import read_network
from certgcl.models.reading.probed_views import probed_views, random_view
from tests.encoders import Layers, Net, assert_reads, prepared, refusal


class Counting(Net):
    """Honest for a few calls."""

    def __init__(self, honest: int) -> None:
        super().__init__()
        self.calls, self.honest = 0, honest

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        self.calls += 1
        return super().forward(x, edge_index) * (1 if self.calls < self.honest else -1)


def two_layers(forward: Callable[..., Any]) -> nn.Module:
    return prepared(Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 3)))


@pytest.mark.parametrize(
    "model",
    [
        Net(between=lambda p: p.where(p > 0, 0.2 * p)),
        Net(between=lambda p: torch.where(p > 0, p, 0.5 * p)),
        Net(before=lambda x: x.clone()),
        GCNEncoder(5, 4, 3, "prelu"),
        GCN(5, 4, num_layers=2, out_channels=3),
    ],
)
def test_what_cannot_be_traced_can_be_probed(model: nn.Module, either_graph: Graph) -> None:
    if type(model) is Net:
        refusal(prepared(model), either_graph)
    assert_reads(prepared(model), either_graph, reading="probed")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_probes_reach_as_far_as_the_dtype(dtype: torch.dtype, graph: Graph) -> None:
    assert read_network(GCNEncoder(5, 4, 3, "prelu").to(dtype), graph, "probed").dtype == dtype


def test_probing_leaves_the_random_state_alone(graph: Graph) -> None:
    model, before = prepared(Net()), torch.get_rng_state()
    read_network(model, graph, "probed")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("reading", ["measured", None, 1])
def test_refuses_other_readings(reading: Any, graph: Graph) -> None:
    with pytest.raises(InputError, match=r"reading=.*'traced' or 'probed'"):
        read_network(prepared(Net()), graph, reading)


# -- what it notices -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation",
    [
        F.elu,
        torch.tanh,
        F.relu6,
        lambda p: p.relu().clamp(max=65504),
        lambda p: torch.where((p > 10) & (p < 60), 10.0, p.relu()),
        lambda p: p.relu().clamp(max=1e20),
        lambda p: torch.where(p.abs() < 1e-12, -p, p.relu()),
        lambda p: p.flip(0),
        lambda p: p + 1,
    ],
)
@pytest.mark.parametrize("place", ["between", "after"])
def test_notices_other_activations(place: str, activation: Callable[[Tensor], Tensor], graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: activation})), graph, "probed")
    assert ("between first and second" if place == "between" else "after second") in message


def test_notices_a_narrow_gap_inside_the_range_that_occurs(graph: Graph) -> None:
    model = prepared(Net())
    reach = float(model.first(graph.x, graph.edge_index).detach().max())
    model.between = lambda p: torch.where((p > 0.6 * reach) & (p < 0.65 * reach), 0.0, p.relu())
    assert "between first and second" in refusal(model, graph, "probed")


@pytest.mark.parametrize(
    "forward",
    [
        lambda net, x, e: net.b(net.a(x, e).relu(), e) * (degree(e[0], len(x)) > 0)[:, None],
        lambda net, x, e: net.b(net.a(x, e).relu(), e) * (1 if e.size(1) > 9 else -1),
        lambda net, x, e: net.b(net.a(x, e).relu(), e if e.size(1) % 4 == 2 else e[:, 1:]),
        lambda net, x, e: net.b(net.a(x, e).relu(), e) if e.numel() else x[:, :3],
    ],
    ids=["isolated nodes", "fewer edges", "some numbers of edges", "no edges"],
)
def test_notices_what_only_dropped_edges_show(forward: Callable[..., Any], graph: Graph) -> None:
    refusal(two_layers(forward), graph, "probed")


@pytest.mark.parametrize("honest", [2, 5, 20])
def test_notices_a_counter(honest: int, graph: Graph) -> None:
    refusal(prepared(Counting(honest)), graph, "probed")


def test_notices_chance(graph: Graph) -> None:
    assert "must not be random" in refusal(prepared(Net(between=lambda p: F.dropout(p, 0.5))), graph, "probed")


def test_a_model_that_calls_fewer_layers_elsewhere_is_refused_in_words(graph: Graph) -> None:
    model = two_layers(lambda net, x, e: net.b(net.a(x, e).relu(), e) if len(x) == 6 else net.b(x[:, :4], e))
    assert "1 GCNConv call(s)" in refusal(model, graph, "probed")


# -- the views -------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [EdgeDropBudget(1), EdgeDropBudget(2, total=2), EdgeDropBudget(), EdgeDropBudget(0)])
def test_random_views_are_admissible_and_undirected(budget: EdgeDropBudget, graph: Graph) -> None:
    drops, chance, seen = budget.on(graph), torch.Generator().manual_seed(0), set()
    for _ in range(50):
        view = Graph.from_edges(graph.x, random_view(graph, drops, chance).edge_index)  # validates
        assert bool((graph.degree - view.degree <= drops.local).all())
        assert graph.num_edges - view.num_edges <= drops.total
        seen.add(tuple(view.col.tolist()))
    assert len(seen) > 1 or drops.total == 0 or not drops.droppable.any()


def test_the_views_include_the_graph_its_nodes_alone_and_searched_drops(graph: Graph) -> None:
    network = read_network(prepared(Net()), graph)
    views = list(probed_views(network, graph, EdgeDropBudget(1).on(graph), torch.Generator().manual_seed(0)))
    sizes = [view.num_edges for view in views]
    assert sizes.count(graph.num_edges) >= 4
    assert 0 in sizes
    assert len(views) > 30


# -- it says so ------------------------------------------------------------------------------------


def test_every_public_call_takes_a_reading(graph: Graph, tmp_path: Any) -> None:
    model = prepared(Net(between=lambda p: torch.where(p > 0, p, 0.5 * p)))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    calls: list[Callable[[Any], Any]] = [
        lambda reading: certgcl.node_compactness(model, graph, 1, reading=reading),
        lambda reading: certgcl.linear_bounds(model, graph, 1, torch.ones(6, 3).double(), reading=reading),
        lambda reading: certgcl.certified_accuracy(model, torch.eye(3).double(), graph, labels, 1, reading=reading),
        lambda reading: certgcl.certified_accuracy_curve(
            model, torch.eye(3).double(), graph, labels, (1, 2), reading=reading
        ),
        lambda reading: certgcl.certify_shards(model, graph, 1, tmp_path / "shards", reading=reading),
    ]
    for call in calls:
        call("probed")
        with pytest.raises(EncoderError):
            call("traced")
