"""Sampled neighbourhoods: edges of the graph, few at each node, and all where there are few."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric import typing as pyg
from torch_geometric.nn.models import GraphSAGE

import certgcl
from certgcl.graphs.graph import Graph
from certgcl.learning.methods import sampling
from certgcl.learning.methods.sampling import ALL, CompiledSampler, NeighbourSampler, Sample, TorchSampler, sampler_of
from certgcl.runtime.randomness import generator_on
from tests.learning.methods.neighbour_loader import StandIn
from tests.toys import random_graph

COMPILED = pyg.WITH_PYG_LIB or pyg.WITH_TORCH_SPARSE
KINDS = [
    TorchSampler,
    pytest.param(CompiledSampler, id="stand-in"),
    pytest.param(CompiledSampler, marks=pytest.mark.skipif(not COMPILED, reason="no compiled sampler"), id="compiled"),
]


def distinct(edges: Tensor) -> set[tuple[int, ...]]:
    return set(map(tuple, edges.T.tolist()))


@pytest.fixture
def graph() -> Graph:
    return random_graph(nodes=60, density=0.15)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if "stand-in" in request.node.callspec.id:
        monkeypatch.setattr("torch_geometric.loader.NeighborLoader", StandIn)
    return request.param


def test_no_hops_see_no_edges(kind: type[NeighbourSampler], graph: Graph) -> None:
    assert kind(graph, 0, 3).edges(torch.arange(5), generator_on("cpu", 0)).shape == (2, 0)


def test_all_neighbours_are_all_edges_within_reach(kind: type[NeighbourSampler], graph: Graph) -> None:
    nodes = torch.tensor([3, 17])
    near = set(nodes.tolist()) | set(graph.col[torch.isin(graph.row, nodes)].tolist())
    expected = {pair for pair in distinct(graph.edge_index) if pair[0] in near}
    found = distinct(kind(graph, 2, ALL).edges(nodes, generator_on("cpu", 0)))
    assert {tuple(sorted(pair)) for pair in found} == {tuple(sorted(pair)) for pair in expected}


def test_a_node_has_few_neighbours_at_each_hop(kind: type[NeighbourSampler], graph: Graph) -> None:
    edges = kind(graph, 1, 4).edges(torch.arange(60), generator_on("cpu", 0))
    assert distinct(edges) <= distinct(graph.edge_index)
    counts = torch.bincount(torch.tensor(sorted(distinct(edges)))[:, 0 if kind is TorchSampler else 1], minlength=60)
    assert int(counts.max()) == 4
    few = graph.degree <= 4
    assert bool(few.any())
    assert torch.equal(counts[few], graph.degree[few])


def test_neighbours_are_drawn_alike() -> None:
    """Of ours; that of torch-sparse draws the last neighbours of a node less often."""
    star = Graph.from_edges(
        torch.ones(11, 1), torch.tensor([[0] * 10 + list(range(1, 11)), list(range(1, 11)) + [0] * 10])
    )
    sampler, generator = TorchSampler(star, 1, 3), generator_on("cpu", 0)
    counts = torch.zeros(11)
    for _ in range(2000):
        counts[torch.tensor(sorted({max(pair) for pair in distinct(sampler.edges(torch.tensor([0]), generator))}))] += 1
    assert float(counts[1:].max() / counts[1:].min()) < 1.3


def test_a_generator_decides_what_is_drawn(kind: type[NeighbourSampler], graph: Graph) -> None:
    sampler, before = kind(graph, 2, 2), torch.get_rng_state()
    one, same, other = (sampler.edges(torch.arange(5), generator_on("cpu", seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert distinct(one) != distinct(other)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_compiled_sampler_is_taken_where_it_is_installed(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for installed, expected in ((True, CompiledSampler), (False, TorchSampler)):
        monkeypatch.setattr(sampling.pyg, "WITH_PYG_LIB", installed)
        monkeypatch.setattr(sampling.pyg, "WITH_TORCH_SPARSE", False)
        with caplog.at_level("INFO", "certgcl"):
            assert type(sampler_of(graph, 2, 5)) is expected
    assert "PyG's NeighborLoader" in caplog.messages[0]
    assert "plain torch" in caplog.messages[1]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sample_of_all_neighbours_has_the_embeddings_of_the_graph(graph: Graph, sparse: bool) -> None:
    """A GraphSAGE asks for the degrees of nodes that it aggregates at alone, and all of these are complete."""
    torch.manual_seed(0)
    network = certgcl.read_network(GraphSAGE(graph.num_features, 5, 2).double().eval(), graph)
    nodes = torch.tensor([40, 2, 7])
    given = Graph.trusted(graph.x.to_sparse_csr(), graph.rowptr, graph.col) if sparse else graph
    sample = Sample.of(given, nodes, TorchSampler(given, 2, ALL).edges(nodes, generator_on("cpu", 0)))
    torch.testing.assert_close(network.embed(sample.graph)[sample.places], network.embed(graph)[nodes])


def test_a_sample_knows_its_edges_in_the_whole_graph(graph: Graph) -> None:
    nodes = torch.tensor([40, 2, 7])
    sample = Sample.of(graph, nodes, TorchSampler(graph, 2, 3).edges(nodes, generator_on("cpu", 0)))
    local = sample.graph
    forward = local.edge_index[:, local.row < local.col]
    assert torch.equal(graph.x[sample.ends[0]], local.x[forward[0]])
    assert torch.equal(graph.x[sample.ends[1]], local.x[forward[1]])
    assert bool(graph.has_edge(*sample.ends).all())
    assert torch.equal(local.x[sample.places], graph.x[nodes])


def test_nodes_without_neighbours_are_a_sample_too() -> None:
    lonely = Graph.from_edges(torch.ones(4, 2), torch.empty(2, 0, dtype=torch.long))
    nodes = torch.tensor([1, 3])
    sample = Sample.of(lonely, nodes, TorchSampler(lonely, 2, 3).edges(nodes, generator_on("cpu", 0)))
    assert sample.graph.num_nodes == 2
    assert sample.places.tolist() == [0, 1]
