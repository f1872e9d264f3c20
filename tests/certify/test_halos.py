"""Certificates of graphs on disk, halo by halo, are those of the graph in memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn.models import GIN, GraphSAGE

import certgcl
from certgcl.certify.certificate import Certificate
from certgcl.certify.halos import drops_on_disk
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BudgetError, GraphError, InputError, ShardError
from certgcl.executors import Piece, ThisProcess
from certgcl.executors.executor import Answers, Task
from certgcl.executors.parcel import Parcel
from certgcl.graphs.graph import Graph
from certgcl.graphs.stored import StoredGraph
from tests.toys import random_graph, toy_network


def certified(model: Any, stored: StoredGraph, budget: Any, folder: Path, **settings: Any) -> Certificate:
    certgcl.certify_shards(model, stored, budget, folder, **{"shards": 3, **settings})
    return certgcl.merge_shards(folder)


def agree(found: Certificate, expected: Certificate) -> None:
    assert found.evidence == expected.evidence
    assert found.total_budget == expected.total_budget
    for name in ("nodes", "local_budget", "requested_budget", "positive"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for name in ("lower", "nominal", "directions", "norms"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "budget",
    [
        1,
        0.4,
        EdgeDropBudget(local=2, total=3),
        EdgeDropBudget(total=2),
        EdgeDropBudget(local=[node % 3 for node in range(30)]),
    ],
)
@pytest.mark.parametrize("method", ["degree", "crown"])
def test_halos_give_the_certificate_of_the_whole_graph(budget: Any, method: str, tmp_path: Path) -> None:
    graph, network = random_graph(nodes=30, density=0.07), toy_network()
    found = certified(network, StoredGraph.save(tmp_path / "rows", graph), budget, tmp_path / "out", method=method)
    agree(found, certgcl.node_compactness(network, graph, budget, method=method))
    assert found.verify(network, graph).ok


@pytest.mark.parametrize("kind", [GraphSAGE, GIN])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_halo_reaches_as_far_as_the_network(kind: Any, layers: int, tmp_path: Path) -> None:
    graph = random_graph(nodes=40, density=0.05)
    torch.manual_seed(1)
    model = kind(graph.num_features, 4, layers, out_channels=3).double().eval()
    found = certified(model, StoredGraph.save(tmp_path / "rows", graph), 1, tmp_path / "out", shards=8)
    agree(found, certgcl.node_compactness(model, graph, 1))


def test_a_halo_of_fewer_hops_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, network, whole = random_graph(nodes=40, density=0.05), toy_network(), StoredGraph.halo
    expected = certgcl.node_compactness(network, graph, 1)
    monkeypatch.setattr(
        StoredGraph, "halo", lambda self, anchors, hops, limit=None: whole(self, anchors, hops - 1, limit)
    )
    found = certified(network, StoredGraph.save(tmp_path / "rows", graph), 1, tmp_path / "out", shards=8)
    assert not torch.allclose(found.lower, expected.lower, rtol=1e-6)


def test_searches_have_witnesses_by_the_numbers_of_the_whole_graph(tmp_path: Path) -> None:
    graph, network = random_graph(nodes=14, density=0.25), toy_network()
    found = certified(network, StoredGraph.save(tmp_path / "rows", graph), 1, tmp_path / "out", method="exact")
    expected = certgcl.node_compactness(network, graph, 1, method="exact")
    torch.testing.assert_close(found.upper, expected.upper)
    assert found.exact.all()
    assert found.verify(network, graph).ok


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(2, 25),
    density=st.floats(0, 0.4),
    total=st.none() | st.integers(0, 9),
    local=st.integers(0, 3) | st.floats(0.1, 0.9),
)
def test_drops_on_disk_are_those_in_memory(
    seed: int, nodes: int, density: float, total: int | None, local: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph = random_graph(nodes=nodes, density=density, seed=seed)
    stored = StoredGraph.save(tmp_path_factory.mktemp("rows"), graph)
    budget = (
        EdgeDropBudget(local, total) if isinstance(local, int) else EdgeDropBudget.from_drop_rate(local, total=total)
    )
    found, expected = drops_on_disk(budget, stored), budget.on(graph)
    assert found.same(expected)
    assert torch.equal(found.droppable_degree, expected.droppable_degree)


def ring(nodes: int, features: int) -> Graph:
    node = torch.arange(nodes)
    x = torch.randn(nodes, features, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Graph.cleaned((x, torch.stack([node, (node + 1) % nodes])))


def test_a_graph_that_does_not_fit_the_limit_is_certified_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, network = ring(8000, 3), toy_network()
    monkeypatch.setattr("certgcl.bounds.memory.BASE", 0)
    limit, loaded, halo = 60_000, [], StoredGraph.halo

    def noted(self: StoredGraph, anchors: torch.Tensor, hops: int, limit: int | None = None) -> Any:
        found = halo(self, anchors, hops, limit)
        if limit is not None:
            loaded.append(found.graph.num_nodes)
        return found

    monkeypatch.setattr(StoredGraph, "halo", noted)
    assert graph.x.numel() * 8 > 2 * limit
    found = certified(
        network,
        StoredGraph.save(tmp_path / "rows", graph),
        1,
        tmp_path / "out",
        nodes=range(600),
        method="degree-cheap",
        memory_limit=limit,
    )
    agree(found, certgcl.node_compactness(network, graph, 1, nodes=range(600), method="degree-cheap"))
    assert 0 < max(loaded) < 600


def test_any_executor_writes_the_same_bits(tmp_path: Path) -> None:
    graph, network = random_graph(nodes=60, density=0.05), toy_network()
    stored = StoredGraph.save(tmp_path / "rows", graph)
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    certified(network, stored, 1, alone, reproducible=True, method="interval")
    certified(network, stored, 1, shared, reproducible=True, method="interval", executor=certgcl.LocalProcesses(2))
    for path in alone.glob("*.npz"):
        assert path.read_bytes() == (shared / path.name).read_bytes(), path.name


@dataclass(frozen=True)
class Elsewhere(ThisProcess):
    """Something happens before the bounds, which see what they would see in a process of their own if ``sent``."""

    happens: Callable[[], object]
    sent: bool

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        parcel = Parcel.of(shared) if self.sent else None
        if not task.__name__.startswith("_"):
            self.happens()
        yield from super().stream(task, shared if parcel is None else parcel.open(), pieces)


@pytest.mark.parametrize("sent", [False, True])
def test_a_graph_that_is_replaced_during_a_run_leaves_no_certificate(tmp_path: Path, sent: bool) -> None:
    """Otherwise bounds of the other graph would be certified for the first one."""
    graph, network = random_graph(nodes=30, density=0.1), toy_network()
    other, rows, out = random_graph(nodes=30, density=0.1, seed=1), tmp_path / "rows", tmp_path / "out"
    stored = StoredGraph.save(rows, graph)
    place = Elsewhere(lambda: StoredGraph.save(rows, other), sent)
    with pytest.raises(GraphError, match=r"another graph than the one that was sent|replaced while they were in use"):
        certgcl.certify_shards(network, stored, 1, out, shards=3, executor=place)
    with pytest.raises(ShardError, match="3 missing"):
        certgcl.merge_shards(out)


def test_what_needs_the_whole_graph_is_refused(tmp_path: Path) -> None:
    graph, network = random_graph(nodes=8, density=0.4), toy_network()
    stored = StoredGraph.save(tmp_path / "rows", graph)
    with pytest.raises(InputError, match="view= with a graph on disk"):
        certgcl.certify_shards(network, stored, 1, tmp_path / "out", view=graph)
    with pytest.raises(BudgetError, match="on a graph that is not in memory"):
        certgcl.certify_shards(
            network, stored, EdgeDropBudget.from_drop_rate(0.3, coverage=0.9, jointly=True), tmp_path / "out"
        )
