"""Simple undirected graphs with node features, validated once and then trusted by every other module."""

import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx

GraphLike: TypeAlias = Union["Graph", Data, tuple[Tensor, Tensor], "nx.Graph"]

_CLEAN = "Graph.cleaned(...) makes a graph simple and undirected"


@dataclass(frozen=True, eq=False)
class Graph:
    """A simple undirected graph in compressed rows, with one feature row per node.

    A *slot* is a position in ``col``: one of the two directions of an edge. The neighbours of ``i`` are
    ``col[rowptr[i]:rowptr[i + 1]]``, in increasing order; self-loops are implied by the GCN, never stored.

    Args:
        x: node features, ``(N, F)``, floating point; dense or sparse (kept as CSR).
        rowptr: start of each node's slots, ``(N + 1,)``.
        col: neighbour of each slot, ``(2 |E|,)``.

    Build one with :meth:`of`, which validates; the constructor trusts its arguments.
    """

    x: Tensor
    rowptr: Tensor
    col: Tensor

    # -- construction ------------------------------------------------------------------------------

    @classmethod
    def of(cls, source: GraphLike) -> "Graph":
        """A validated graph from a ``Graph``, a PyG ``Data``, a pair ``(x, edge_index)`` or a networkx graph."""
        if isinstance(source, Graph):
            return source
        if _is_networkx(source):
            return cls.from_networkx(source)
        x, edge_index = _features_and_edges(source)
        return cls.from_edges(x, edge_index)

    @classmethod
    def from_edges(cls, x: Tensor, edge_index: Tensor) -> "Graph":
        """A graph from features and an ``edge_index`` that lists both directions of every edge once."""
        x, edge_index = check_features(x), check_edge_index(edge_index, x.shape[0])
        n = x.shape[0]
        loops = edge_index[0] == edge_index[1]
        if loops.any():
            raise GraphError(
                f"{int(loops.sum())} self-loop(s), the first at node {int(edge_index[0][loops][0])}",
                "the graph must have none, the GCN adds its own",
                f"{_CLEAN}, as does torch_geometric.utils.remove_self_loops for this alone",
            )
        key, order = torch.sort(edge_index[0] * n + edge_index[1])
        repeated = key[1:] == key[:-1]
        if repeated.any():
            first = int(key[1:][repeated][0])
            raise GraphError(
                f"{int(repeated.sum())} duplicate edge(s), the first ({first // n}, {first % n})",
                "every direction of an edge must be listed once",
                f"{_CLEAN}, as does torch_geometric.utils.coalesce for this alone",
            )
        one_way = ~torch.isin(edge_index[1] * n + edge_index[0], key, assume_unique=True)
        if one_way.any():
            i, j = edge_index[:, one_way][:, 0].tolist()
            raise GraphError(
                f"{int(one_way.sum())} edge(s) without their reverse, the first ({i}, {j})",
                "the graph must be undirected",
                f"{_CLEAN}, as does torch_geometric.utils.to_undirected for this alone",
            )
        row, col = edge_index[:, order]
        return cls(x, _row_pointer(row, n), col.contiguous())

    @classmethod
    def from_networkx(cls, graph: "nx.Graph", x: Tensor | None = None) -> "Graph":
        """A graph from networkx, nodes in ``graph.nodes`` order; features from ``x`` or the node attribute ``"x"``."""
        if graph.is_directed() or graph.is_multigraph():
            raise GraphError(f"a networkx {type(graph).__name__}", "the graph must be simple and undirected",
                             "Convert it with networkx.Graph(graph)")
        if x is None:
            missing = [node for node, data in graph.nodes(data=True) if "x" not in data]
            if missing:
                raise GraphError(f"networkx node {missing[0]!r} without attribute 'x'", "every node needs features",
                                 "Set the attribute, or pass them: Graph.from_networkx(graph, x=features)")
            x = torch.stack([torch.as_tensor(data["x"]) for _, data in graph.nodes(data=True)]) if len(graph) else (
                torch.empty(0, 0))
        position = {node: k for k, node in enumerate(graph.nodes)}
        pairs = [(position[u], position[v]) for u, v in graph.edges]
        edges = torch.tensor(pairs, dtype=torch.long, device=x.device).reshape(-1, 2).T
        if x.shape[:1] != (len(graph),):
            raise GraphError(f"features of shape {tuple(x.shape)} for {len(graph)} nodes",
                             "x needs one row per node", "Order the rows as in graph.nodes")
        return cls.from_edges(x, torch.cat([edges, edges.flip(0)], dim=1))

    @classmethod
    def cleaned(cls, source: "Data | tuple[Tensor, Tensor]") -> "Graph":
        """The simple undirected graph under ``source``: reverses added, duplicates and self-loops removed."""
        x, edge_index = _features_and_edges(source)
        x, edge_index = check_features(x), check_edge_index(edge_index, x.shape[0])
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        return cls.from_edges(x, torch.unique(both, dim=1))

    # -- what it says ------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return self.col.numel() // 2

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @cached_property
    def degree(self) -> Tensor:
        """``d_i``, without the self-loop, ``(N,)``."""
        return self.rowptr.diff()

    @cached_property
    def row(self) -> Tensor:
        """The node that owns each slot, ``(2 |E|,)``."""
        return torch.repeat_interleave(torch.arange(self.num_nodes, device=self.col.device), self.degree)

    @cached_property
    def reverse(self) -> Tensor:
        """The slot of ``(j, i)`` for every slot ``(i, j)``, ``(2 |E|,)``."""
        return torch.argsort(self.col * self.num_nodes + self.row)

    @property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, as PyG wants them, ``(2, 2 |E|)``."""
        return torch.stack([self.row, self.col])

    def gcn_matrix(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """``Â = D^(-1/2) (A + I) D^(-1/2)`` with ``D_i = d_i + 1``, as PyG's ``gcn_norm`` has it; sparse CSR."""
        n, device = self.num_nodes, self.col.device
        loop = torch.arange(n, device=device)
        row, col = torch.cat([self.row, loop]), torch.cat([self.col, loop])
        order = torch.argsort(row * n + col)
        row, col = row[order], col[order]
        scale = (self.degree + 1).to(dtype).pow(-0.5)
        return csr_matrix(_row_pointer(row, n), col, scale[row] * scale[col], (n, n))

    def features(self, nodes: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The feature rows of ``nodes`` (all by default) in ``dtype``, dense or CSR as the graph has them."""
        x = self.x if dtype is None else self.x.to(dtype)
        if nodes is None:
            return x
        if x.layout == torch.strided:
            return x[nodes]
        start, count = x.crow_indices()[nodes], x.crow_indices().diff()[nodes]
        pointer = torch.cat([count.new_zeros(1), count.cumsum(0)])
        place = torch.arange(int(pointer[-1]), device=count.device)
        place = place + torch.repeat_interleave(start - pointer[:-1], count)
        return csr_matrix(pointer, x.col_indices()[place], x.values()[place], (nodes.numel(), x.shape[1]))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Graph":
        """The same graph on another device, or with features of another dtype."""
        return Graph(self.x.to(device=device, dtype=dtype), self.rowptr.to(device), self.col.to(device))

    def with_features(self, x: Tensor) -> "Graph":
        """The same edges with other features."""
        x = check_features(x)
        if x.shape[0] != self.num_nodes:
            raise GraphError(f"features of shape {tuple(x.shape)} for {self.num_nodes} nodes",
                             "x needs one row per node", "Pass a row for every node")
        return replace(self, x=x)

    def __repr__(self) -> str:
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features)"


# -- validation ------------------------------------------------------------------------------------


def check_features(x: Any) -> Tensor:
    """``x`` as a finite floating-point matrix, dense or CSR; an error that says what is wrong otherwise."""
    if not isinstance(x, Tensor):
        raise GraphError(f"features of type {type(x).__name__}", "x must be a torch.Tensor",
                         "Convert with torch.as_tensor, or set data.x")
    if x.dim() != 2:
        raise GraphError(f"features of shape {tuple(x.shape)}", "x must be a matrix (nodes, features)",
                         "Reshape it; a graph without features can use an identity matrix")
    if x.shape[0] == 0:
        raise GraphError("a graph with 0 nodes", "there must be at least one node", "Check how it was built")
    if not x.dtype.is_floating_point:
        raise GraphError(f"features of dtype {x.dtype}", "x must be floating point", "Convert with x.float()")
    if x.layout != torch.strided:
        x = x.to_sparse_csr()
    values = x if x.layout == torch.strided else x.values()
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        raise GraphError(f"{bad} NaN or infinite feature value(s)", "x must be finite",
                         "Mend them, for example with torch.nan_to_num")
    return x


def check_edge_index(edge_index: Any, num_nodes: int) -> Tensor:
    """``edge_index`` as a ``(2, E)`` integer tensor with every index in range."""
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        shape = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise GraphError(f"edge_index of shape {shape}", "it must be a tensor of shape (2, number of edges)",
                         "Use PyG's edge_index")
    if edge_index.dtype.is_floating_point or edge_index.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise GraphError(f"edge_index of dtype {edge_index.dtype}", "node indices must be integers",
                         "Convert with edge_index.long()")
    outside = (edge_index < 0) | (edge_index >= num_nodes)
    if outside.any():
        raise GraphError(f"node index {int(edge_index[outside][0])} in edge_index",
                         f"indices must lie in 0..{num_nodes - 1}, as x has {num_nodes} rows",
                         "Relabel the nodes or add feature rows")
    return edge_index.long()


def _features_and_edges(source: Any) -> tuple[Any, Any]:
    if isinstance(source, Data):
        if source.get("edge_weight") is not None:
            raise GraphError("a Data object with edge_weight", "certgcl certifies unweighted graphs",
                             "Remove it (del data.edge_weight) if your encoder does not use it")
        if source.x is None or source.edge_index is None:
            raise GraphError(f"a Data object without {'x' if source.x is None else 'edge_index'}",
                             "both x and edge_index are needed", "Set data.x and data.edge_index")
        return source.x, source.edge_index
    if isinstance(source, (tuple, list)) and len(source) == 2:
        return source[0], source[1]
    raise GraphError(f"a {type(source).__name__} as graph",
                     "it must be a certgcl.Graph, a PyG Data, a pair (x, edge_index) or a networkx graph",
                     "Convert it to one of these")


def _is_networkx(source: Any) -> bool:
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(source, networkx.Graph)


def _row_pointer(row: Tensor, n: int) -> Tensor:
    return torch.cat([row.new_zeros(1), torch.bincount(row, minlength=n).cumsum(0)])


def csr_matrix(rowptr: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor from parts that are known to be consistent."""
    return torch.sparse_csr_tensor(rowptr, col, values, size=size, check_invariants=False)
