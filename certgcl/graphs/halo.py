"""The neighbourhood that a network sees from some nodes of a graph: a graph with everything that their embeddings
depend on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.arguments import whole
from certgcl.errors import GraphError, OutOfMemoryError
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import csr_rows, slots_of_rows
from certgcl.runtime.free_memory import gigabytes

BYTES_OF_SLOT = 64  # bytes a slot while a halo is assembled


@dataclass(frozen=True, eq=False)
class Halo:
    """Everything that a network of K hops can see from some anchors: the edges of all nodes within K hops.

    An embedding of K hops depends on the features and on the degrees of the nodes within K hops of it. So their rows
    are complete; the nodes one hop beyond have only the edges to these, and no anchor sees their features.

    Args:
        graph: nodes in the order of their numbers in the whole graph.
        nodes: these numbers.
        anchors: the places of the anchors among the nodes.
        degree: of the nodes in the whole graph.
    """

    graph: Graph
    nodes: Tensor
    anchors: Tensor
    degree: Tensor


def halo_of(graph: Graph, anchors: Tensor, hops: int, limit: int | None = None) -> Halo:
    """Everything that a network of ``hops`` hops sees from some anchors of a graph, which may be on disk.

    Args:
        limit: the most bytes that it may take.

    Raises:
        OutOfMemoryError: it would take more than ``limit`` bytes, by its degrees, before it is read.
    """
    anchors = graph.checked_nodes(anchors, "anchors")
    if anchors.dim() != 1 or not anchors.numel():
        raise GraphError(f"anchors of shape {tuple(anchors.shape)}", "they are a list of node numbers", "Pass a vector")
    hops = whole(hops, "hops", 0, "it is a number of hops", "A network of K layers sees K", error=GraphError)
    if limit is not None:
        limit = whole(limit, "limit", 1, "it is a number of bytes", "Leave it out for none", error=GraphError)
    inner, ends = _reach(graph, anchors, hops, limit)
    nodes = torch.cat([inner, ends]).unique()
    own, other = torch.searchsorted(nodes, inner), torch.searchsorted(nodes, ends)
    row = own.repeat_interleave(_degrees(graph, inner))
    inside = torch.zeros(len(nodes), dtype=torch.bool, device=nodes.device)
    inside[own] = True
    beyond = ~inside[other]
    edges = torch.cat([torch.stack([row, other]), torch.stack([other[beyond], row[beyond]])], dim=1)
    return Halo(
        Graph.from_edges(_features(graph.x, nodes, own, inner), edges),
        nodes,
        torch.searchsorted(nodes, anchors),
        _degrees(graph, nodes),
    )


def rows_of(x: Tensor, nodes: Tensor) -> Tensor:
    """The features of some nodes, dense or CSR as they are."""
    return x[nodes] if x.layout == torch.strided else csr_rows(x, nodes)


def _features(x: Tensor, nodes: Tensor, own: Tensor, inner: Tensor) -> Tensor:
    """The features of all nodes of a halo; those that no anchor sees are not read, unless they are sparse and cost
    nothing."""
    if x.layout != torch.strided:
        return csr_rows(x, nodes)
    found = x.new_zeros(len(nodes), x.shape[1])
    found[own] = x[inner]
    return found


def _degrees(graph: Graph, nodes: Tensor) -> Tensor:
    return graph.rowptr[nodes + 1] - graph.rowptr[nodes]


def _reach(graph: Graph, anchors: Tensor, hops: int, limit: int | None) -> tuple[Tensor, Tensor]:
    """The numbers of the nodes within ``hops`` hops, in order, and the ends of all their edges."""
    inner, ends = anchors.unique(), anchors.new_empty(0)
    for hop in range(hops + 1):  # the last round reads the edges of the farthest nodes
        needed = _bytes(graph, inner)
        if limit is not None and needed > limit:
            raise OutOfMemoryError(
                f"a halo of {hop} hops around {len(anchors)} nodes that takes about {gigabytes(needed)}",
                f"it may take {gigabytes(limit)}",
                "Take fewer anchors at a time, or allow more (memory_limit=); hubs in the halo are what costs",
            )
        ends = graph.col[slots_of_rows(graph.rowptr, inner)]
        if hop < hops:
            inner = torch.cat([inner, ends]).unique()
    return inner, ends


def _bytes(graph: Graph, inner: Tensor) -> int:
    x = graph.x
    return int(_degrees(graph, inner).sum()) * BYTES_OF_SLOT + len(inner) * x.shape[1] * x.element_size()
