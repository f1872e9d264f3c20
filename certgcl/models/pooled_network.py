"""A network whose node embeddings are pooled into one vector for each graph, and a linear head after that."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

Pool: TypeAlias = Literal["mean", "sum", "max"]


@dataclass(frozen=True, eq=False)
class Head:
    """``p W + b`` of a pooled vector p: one linear layer, or several combined.

    Args:
        weight: ``(d, outputs)``.
        bias: ``(outputs,)``.
        size: at least ``|W|``, and the product of the absolute values of all combined layers.
        bias_size: the same for the bias.
        roundings: the most roundings from p to an output in a run of the model.
    """

    weight: Tensor
    bias: Tensor
    size: Tensor
    bias_size: Tensor
    roundings: int

    def to(self, dtype: torch.dtype) -> "Head":
        return replace(
            self,
            weight=self.weight.to(dtype),
            bias=self.bias.to(dtype),
            size=self.size.to(dtype),
            bias_size=self.bias_size.to(dtype),
        )


@dataclass(frozen=True, eq=False)
class PooledNetwork:
    """``pool_i z_i`` over the nodes of each graph, then the head."""

    network: GraphNetwork
    pool: Pool
    head: Head | None = None

    @property
    def width(self) -> int:
        return self.network.width if self.head is None else self.head.weight.shape[1]

    def to(self, dtype: torch.dtype) -> "PooledNetwork":
        return PooledNetwork(self.network.to(dtype), self.pool, None if self.head is None else self.head.to(dtype))

    def copied(self) -> "PooledNetwork":
        """A copy, which does not change when the model is trained on."""
        head = (
            None
            if self.head is None
            else replace(
                self.head,
                **{name: getattr(self.head, name).detach().clone() for name in ("weight", "bias", "size", "bias_size")},
            )
        )
        return PooledNetwork(self.network.copied(), self.pool, head)

    def embed(self, graph: Graph, batch: Tensor) -> Tensor:
        """One row for each graph, ``(G, width)``; ``batch`` has the graph of each node, in increasing order."""
        return self.after(self.network.embed(graph), batch)

    def after(self, z: Tensor, batch: Tensor) -> Tensor:
        """The same from the embeddings of the nodes."""
        pooled = pooled_rows(z, batch, self.pool)
        return pooled if self.head is None else pooled @ self.head.weight + self.head.bias


def pooled_rows(values: Tensor, batch: Tensor, pool: Pool) -> Tensor:
    """Pools rows of nodes to rows of graphs, each of which has at least one node."""
    graphs = int(batch[-1]) + 1
    empty = values.new_zeros(graphs, values.shape[1])
    if pool == "max":
        return empty.scatter_reduce(0, batch[:, None].expand_as(values), values, "amax", include_self=False)
    total = empty.index_add(0, batch, values)
    return total if pool == "sum" else total / torch.bincount(batch, minlength=graphs).to(values.dtype)[:, None]
