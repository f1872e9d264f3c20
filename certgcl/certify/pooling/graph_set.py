"""Several graphs as one, their disjoint union; and what may be dropped in each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Batch, Dataset

from certgcl.arguments import shown
from certgcl.changes.changes import BudgetLike, Changes
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph, GraphLike

GraphsLike: TypeAlias = Sequence[GraphLike] | Batch | Dataset


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs with the same features.

    Args:
        graphs: at least one, each with a node.
        union: all of them side by side, nodes in the order of the graphs.
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

    def drops(self, budgets: BudgetLike) -> "SetDrops":
        budget = Changes.of(budgets).drops_alone("a bound of whole graphs")
        return SetDrops(self, tuple(budget.on(graph) for graph in self.graphs))


@dataclass(frozen=True, eq=False)
class SetDrops:
    """What may be dropped in each of several graphs."""

    graphs: GraphSet
    each: tuple[AdmissibleDrops, ...]

    @cached_property
    def union(self) -> AdmissibleDrops:
        """Of all graphs side by side; that each has a total of its own is not in it."""
        local, requested, droppable, degree = (
            torch.cat([getattr(drops, name) for drops in self.each])
            for name in ("local", "requested", "droppable", "droppable_degree")
        )
        return AdmissibleDrops(local, requested, sum(drops.total for drops in self.each), droppable, degree)

    @cached_property
    def most(self) -> Tensor:
        """At least how many edges a graph can lose in all, ``(G,)``."""
        most = self.totals
        for counts in (self.union.local, self.union.droppable_degree):
            most = most.minimum(self.graphs.total(counts) // 2)
        return most

    @cached_property
    def totals(self) -> Tensor:
        """``Q`` of each graph, ``(G,)``."""
        return self.graphs.sizes.new_tensor([drops.total for drops in self.each])

    def at(self, graphs: GraphSet, places: Sequence[int]) -> "SetDrops":
        """What may be dropped in some of the graphs, ``self.graphs.at(places)``."""
        return SetDrops(graphs, tuple(self.each[place] for place in places))

    def limited_to(self, total: int) -> AdmissibleDrops:
        """On the union, with at most ``total`` edges in each graph, as far as any one node can tell.

        A total of the union is a limit in each of its graphs too, and a node sees the edges of its own graph alone: so
        bounds of single nodes with this total hold for this total in every graph.
        """
        return EdgeDropBudget(self.union.requested, total).on(self.graphs.union)


def _dense(graph: Graph) -> Graph:
    return graph if graph.x.layout == torch.strided else graph.with_features(graph.x.to_dense())


def _union(graphs: Sequence[Graph]) -> Graph:
    """The graphs side by side, of parts that were validated."""
    starts, pointers, columns = 0, [graphs[0].rowptr.new_zeros(1)], []
    slots = 0
    for graph in graphs:
        pointers.append(graph.rowptr[1:] + slots)
        columns.append(graph.col + starts)
        starts, slots = starts + graph.num_nodes, slots + graph.col.numel()
    return Graph.trusted(torch.cat([graph.x for graph in graphs]), torch.cat(pointers), torch.cat(columns))
