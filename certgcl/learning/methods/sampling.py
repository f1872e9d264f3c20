"""Random neighbours of some nodes: the part of a graph that a training step sees if a full pass does not fit."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric import typing as pyg
from torch_geometric.data import Data

from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import rows_of
from certgcl.graphs.sparse import slots_of_rows
from certgcl.runtime.logs import LOG

ALL = -1  # neighbours


@dataclass(frozen=True, eq=False)
class NeighbourSampler(ABC):
    """Draws neighbours of nodes, hop by hop.

    Args:
        graph: the whole graph.
        hops: that the encoder sees.
        fanout: the most neighbours of a node at every hop; ``ALL`` for all of them.
    """

    graph: Graph
    hops: int
    fanout: int
    name: ClassVar[str]

    @abstractmethod
    def edges(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """Pairs of a node and a neighbour, within ``hops`` hops of some nodes, ``(2, k)``; a pair may come twice."""


class TorchSampler(NeighbourSampler):
    """In plain torch: ``fanout`` draws for a node with more neighbours than that; equal draws count once."""

    name = "torch"

    def edges(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        seen = frontier = nodes.unique()
        found = [nodes.new_empty(2, 0)]
        for _ in range(self.hops):
            found.append(self._one_hop(frontier, generator))
            reached = found[-1][1].unique()
            frontier = reached[~torch.isin(reached, seen, assume_unique=True)]
            seen = torch.cat([seen, frontier])
        return torch.cat(found, dim=1)

    def _one_hop(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        rowptr, most = self.graph.rowptr, self.graph.num_nodes if self.fanout == ALL else self.fanout
        degree = rowptr[nodes + 1] - rowptr[nodes]
        few = degree <= most
        draws = torch.rand(
            int((~few).sum()), most, dtype=torch.float64, device=nodes.device, generator=generator
        )  # float32 could not tell the neighbours of a large hub apart
        drawn = rowptr[nodes[~few], None] + (draws * degree[~few, None]).long()
        slots = torch.cat([slots_of_rows(rowptr, nodes[few]), drawn.flatten()])
        owner = torch.cat([nodes[few].repeat_interleave(degree[few]), nodes[~few].repeat_interleave(most)])
        return torch.stack([owner, self.graph.col[slots]])


class CompiledSampler(NeighbourSampler):
    """By PyG's ``NeighborLoader``, whose sampler is compiled: without replacement, and faster."""

    name = "NeighborLoader"

    @cached_property
    def _loader(self) -> Any:
        from torch_geometric.loader import NeighborLoader

        whole = Data(edge_index=self.graph.edge_index.flip(0).cpu(), num_nodes=self.graph.num_nodes)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*without a 'pyg-lib' installation", UserWarning)  # torch-sparse will do
            return NeighborLoader(whole, [self.fanout] * self.hops, batch_size=1, is_sorted=True)  # by the second end

    def edges(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        if not self.hops:
            return nodes.new_empty(2, 0)
        with torch.random.fork_rng(devices=[]):  # it uses torch's global generator
            torch.manual_seed(int(torch.randint(1 << 62, (), device=generator.device, generator=generator)))
            sampled = self._loader(nodes.cpu())
        found: Tensor = sampled.n_id[sampled.edge_index].to(nodes.device)
        return found


def sampler_of(graph: Graph, hops: int, fanout: int) -> NeighbourSampler:
    """PyG's compiled sampler if it is installed, otherwise the one in torch; the log says which."""
    compiled = pyg.WITH_PYG_LIB or pyg.WITH_TORCH_SPARSE
    sampler = (CompiledSampler if compiled else TorchSampler)(graph, hops, fanout)
    LOG.info(
        "neighbours are sampled by %s",
        "PyG's NeighborLoader" if compiled else "plain torch, because neither pyg-lib nor torch-sparse is installed",
    )
    return sampler


@dataclass(frozen=True, eq=False)
class Sample:
    """The part of a graph that one step sees.

    Args:
        graph: the sampled edges, both directions of each, among the nodes that they reach.
        places: the positions of the step's nodes among those of ``graph``.
        ends: the numbers that the two nodes of every edge have in the whole graph, the smaller one first, in the order
            of ``graph.edge_index[:, row < col]``.
    """

    graph: Graph
    places: Tensor
    ends: Tensor

    @classmethod
    def of(cls, graph: Graph, nodes: Tensor, edges: Tensor) -> "Sample":
        """From pairs of neighbours in the whole graph, in any order."""
        n = graph.num_nodes
        low, high = edges.min(dim=0).values, edges.max(dim=0).values
        key = (low * n + high).unique()
        ends = torch.stack([key // n, key % n])
        seen = torch.cat([nodes, ends.flatten()]).unique()
        near = torch.searchsorted(seen, ends)  # seen is sorted, so that the smaller end stays the smaller one
        local = Graph.from_edges(rows_of(graph.x, seen), torch.cat([near, near.flip(0)], dim=1))
        return cls(local.owned(), torch.searchsorted(seen, nodes), ends)
