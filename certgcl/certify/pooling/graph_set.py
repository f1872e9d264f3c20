"""Several graphs as one, their disjoint union."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Batch, Dataset

from certgcl.arguments import shown
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph, GraphLike

GraphsLike: TypeAlias = Sequence[GraphLike] | Batch | Dataset


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs with the same features.

    Args:
        graphs: at least one, each with a node.
        union: their disjoint union, nodes in the order of the graphs.
        sizes: nodes of each, ``(G,)``.
    """

    graphs: tuple[Graph, ...]
    union: Graph
    sizes: Tensor

    @classmethod
    def of(cls, source: GraphsLike) -> "GraphSet":
        """From a list of graphs, a PyG ``Batch`` or a PyG dataset."""
        given: Any = source
        if isinstance(source, Batch):
            given = source.to_data_list()
        elif isinstance(source, Dataset):
            given = [source[place] for place in range(len(source))]
        if not isinstance(given, (list, tuple)) or not given:
            raise GraphError(
                f"graphs={shown(source)}",
                "they are a list of graphs or a PyG Batch, at least one",
                "Pass [data, other_data]",
            )
        graphs = []
        for number, each in enumerate(given):
            try:
                graphs.append(_dense(Graph.of(each)))
            except GraphError as error:
                raise GraphError(f"graph {number}: {error.found}", error.rule, error.remedy) from error
        first = graphs[0]
        for number, graph in enumerate(graphs):
            one, other = ((each.num_features, each.x.dtype, each.x.device) for each in (first, graph))
            if one != other or not graph.num_nodes:
                raise GraphError(
                    f"graph {number} with {graph.num_nodes} nodes and {other[0]} features in {other[1]} on {other[2]}, "
                    f"where the first has {one[0]} in {one[1]} on {one[2]}",
                    "all graphs have nodes, and the same number and kind of features",
                    "Leave it out, or convert it",
                )
        return cls.joined(graphs)

    @classmethod
    def joined(cls, graphs: Sequence[Graph]) -> "GraphSet":
        """Graphs that fit each other."""
        sizes = graphs[0].degree.new_tensor([graph.num_nodes for graph in graphs])
        return cls(tuple(graphs), _union(graphs), sizes)

    def __len__(self) -> int:
        return len(self.graphs)

    def at(self, places: Sequence[int]) -> "GraphSet":
        """Some of the graphs, in that order."""
        return GraphSet.joined([self.graphs[place] for place in places])

    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> "GraphSet":
        return GraphSet.joined([graph.to(device, dtype) for graph in self.graphs])

    @cached_property
    def batch(self) -> Tensor:
        """The graph of each node of the union, ``(N,)``."""
        return torch.repeat_interleave(torch.arange(len(self), device=self.sizes.device), self.sizes)

    @cached_property
    def starts(self) -> Tensor:
        """The first node of each graph in the union, ``(G,)``."""
        return self.sizes.cumsum(0) - self.sizes

    def total(self, values: Tensor) -> Tensor:
        """Sums over the nodes of each graph, ``(N, ...)`` to ``(G, ...)``."""
        return values.new_zeros(len(self), *values.shape[1:]).index_add(0, self.batch, values)

    def largest(self, values: Tensor) -> Tensor:
        """Maxima over the nodes of each graph, ``(N, d)`` to ``(G, d)``."""
        place = self.batch[:, None].expand_as(values)
        return values.new_zeros(len(self), values.shape[1]).scatter_reduce(0, place, values, "amax", include_self=False)


def _dense(graph: Graph) -> Graph:
    return graph if graph.x.layout == torch.strided else graph.with_features(graph.x.to_dense())


def _union(graphs: Sequence[Graph]) -> Graph:
    """The disjoint union of the graphs, from validated parts."""
    starts, pointers, columns = 0, [graphs[0].rowptr.new_zeros(1)], []
    slots = 0
    for graph in graphs:
        pointers.append(graph.rowptr[1:] + slots)
        columns.append(graph.col + starts)
        starts, slots = starts + graph.num_nodes, slots + graph.col.numel()
    return Graph.trusted(torch.cat([graph.x for graph in graphs]), torch.cat(pointers), torch.cat(columns))
