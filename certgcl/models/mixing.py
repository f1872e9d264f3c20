"""What a layer computes on rows of a graph: features times a weight, and sums over neighbours."""

from functools import cached_property

import torch
from torch import Tensor

from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix
from certgcl.models.aggregations import Aggregation, SymmetricNorm


def features_times(graph: Graph, weight: Tensor, nodes: Tensor | None = None, *, absolute: bool = False) -> Tensor:
    """``X W`` (or ``|X| W``) for a matrix, or for the diagonal of one."""
    if weight.dim() == 2:
        return graph.project(weight, nodes, absolute=absolute)
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    x = (x if nodes is None else x[nodes]).to(weight.dtype)
    return (x.abs() if absolute else x) * weight


class Mixing:
    """Aggregations on one graph; whatever depends on the graph alone is computed once."""

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph, self.count = graph, graph.degree.to(dtype)

    @cached_property
    def adjacency(self) -> ConstantMatrix:
        graph, ones = self.graph, torch.ones_like(self.graph.col, dtype=self.count.dtype)
        return ConstantMatrix(csr_matrix(graph.rowptr, graph.col, ones, (graph.num_nodes,) * 2), symmetric=True)

    def __call__(self, aggregation: Aggregation, values: Tensor) -> Tensor:
        """``own(n_i) v_i + out(n_i) Σ_j in(n_j) v_j``."""
        if not aggregation.mixes:
            return values
        if isinstance(aggregation, SymmetricNorm) and aggregation.loop == 1:
            return self.graph.propagate(values)  # cached with the graph
        own, out, into = (scale(self.count)[:, None] for scale in (aggregation.own, aggregation.out, aggregation.into))
        mixed = out * (self.adjacency @ (into * values))
        return own * values + mixed if bool(own.any()) else mixed  # 0 · inf is NaN
