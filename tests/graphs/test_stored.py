"""Graphs on disk: what is loaded around some nodes, and what is refused."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from certgcl.errors import GraphError, OutOfMemoryError
from certgcl.graphs.graph import Graph
from certgcl.graphs.stored import StoredGraph
from tests.toys import random_graph

GRAPH = random_graph(nodes=50, density=0.04)


@pytest.fixture
def stored(tmp_path: Path) -> StoredGraph:
    return StoredGraph.save(tmp_path / "rows", GRAPH)


def test_a_graph_on_disk_is_the_one_that_was_saved(stored: StoredGraph) -> None:
    assert (stored.num_nodes, stored.num_edges) == (GRAPH.num_nodes, GRAPH.num_edges)
    for name in ("x", "rowptr", "col"):
        assert torch.equal(getattr(stored.mapped, name), getattr(GRAPH, name))


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_a_halo_has_the_whole_rows_of_all_nodes_within_its_hops(stored: StoredGraph, hops: int) -> None:
    anchors = torch.tensor([7, 3])
    halo, near = stored.halo(anchors, hops), {7, 3}
    for _ in range(hops):
        near |= {int(other) for node in near for other in GRAPH.col[GRAPH.row == node]}
    assert halo.nodes[halo.anchors].tolist() == [7, 3]
    assert torch.equal(halo.degree, GRAPH.degree[halo.nodes])
    for place, node in enumerate(halo.nodes.tolist()):
        neighbours = halo.nodes[halo.graph.col[halo.graph.row == place]].tolist()
        expected = GRAPH.col[GRAPH.row == node].tolist()
        assert neighbours == (expected if node in near else [other for other in expected if other in near])
        assert torch.equal(halo.graph.x[place], GRAPH.x[node] if node in near else torch.zeros_like(GRAPH.x[node]))


def test_a_halo_beyond_its_limit_is_refused_before_it_is_read(stored: StoredGraph) -> None:
    with pytest.raises(OutOfMemoryError, match=r"a halo of \d hops around 50 nodes.*hubs in the halo"):
        stored.halo(torch.arange(50), 2, limit=1000)


@pytest.mark.parametrize("name", ["x", "rowptr", "col"])
def test_a_changed_byte_is_refused_here_and_in_workers(stored: StoredGraph, name: str) -> None:
    sent, file = pickle.dumps(stored), stored.folder / f"{name}.npy"
    assert pickle.loads(sent).num_edges == GRAPH.num_edges
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    for again in (lambda: StoredGraph.open(stored.folder), lambda: pickle.loads(sent)):
        with pytest.raises(GraphError, match=f"{name}.npy has changed"):
            again()


def test_a_worker_that_finds_another_graph_refuses_it(stored: StoredGraph) -> None:
    """As on a machine where the same path holds other files: complete, with checksums of their own."""
    sent = pickle.dumps(stored)
    StoredGraph.save(stored.folder, random_graph(nodes=50, density=0.04, seed=1))
    with pytest.raises(GraphError, match="with another graph than the one that was sent"):
        pickle.loads(sent)


@pytest.mark.parametrize("change", ["replaced", "modified", "removed"])
def test_files_that_change_while_they_are_in_use_are_noticed(stored: StoredGraph, change: str) -> None:
    if change == "replaced":
        StoredGraph.save(stored.folder, random_graph(nodes=50, density=0.04, seed=1))
    elif change == "modified":
        x = np.lib.format.open_memmap(stored.folder / "x.npy", mode="r+")
        x += 1
        x.flush()
    else:
        (stored.folder / "x.npy").unlink()
    with pytest.raises(GraphError, match="modified or replaced while they were in use"):
        stored.halo(torch.tensor([3]), 1)


def test_rows_that_are_no_graph_are_refused_where_they_are_loaded(stored: StoredGraph) -> None:
    col = np.load(stored.folder / "col.npy")
    col[0] = 49 if col[0] != 49 else 48
    np.save(stored.folder / "col.npy", col)
    first = int((GRAPH.degree > 0).nonzero()[0, 0])
    with pytest.raises(GraphError):
        StoredGraph.open(stored.folder, check=False).halo(torch.tensor([first]), 2)


def test_a_folder_needs_its_checksums(stored: StoredGraph, tmp_path: Path) -> None:
    (stored.folder / "rows.json").unlink()
    with pytest.raises(GraphError, match=r"without rows\.json"):
        StoredGraph.open(stored.folder)
    with pytest.raises(GraphError, match="dense x"):
        StoredGraph.save(tmp_path / "sparse", Graph.trusted(GRAPH.x.to_sparse_csr(), GRAPH.rowptr, GRAPH.col))
