"""Simple undirected graphs with node features, validated once and then trusted by every other module."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.arguments import INTEGERS, flag, floating, shown, usable_device
from certgcl.errors import GraphError
from certgcl.formatting import html_table
from certgcl.graphs.features import Features
from certgcl.graphs.names import NodeNames, names_among
from certgcl.graphs.sources import is_networkx, networkx_parts, parts_of
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix
from certgcl.graphs.validation import CLEAN, check_features, check_parts, check_rows
from certgcl.runtime.tensor_cache import PRIVATE, kept, stamp

if TYPE_CHECKING:
    import networkx as nx

_COPY = "_copy"  # the private copy, in the ``__dict__`` of its graph

GraphLike: TypeAlias = Union["Graph", Data, tuple[Any, Any], "nx.Graph"]
"""What :meth:`Graph.of` takes."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A simple undirected graph in compressed rows, with one feature row per node.

    A *slot* is a position in ``col``: one of the two directions of an edge. The neighbours of ``i`` are
    ``col[rowptr[i]:rowptr[i + 1]]``, in increasing order; self-loops are implied by the GCN, never stored.

    Args:
        x: node features, ``(N, F)``, floating point; dense or sparse (kept as CSR).
        rowptr: start of each node's slots, ``(N + 1,)``.
        col: neighbour of each slot, ``(2 |E|,)``.
        names: of the nodes, as the user knows them; None if they are the numbers 0 to N - 1.

    Build one with :meth:`of`, which explains what is wrong with edges; the constructor only checks that its rows form a
    graph.
    """

    x: Tensor
    rowptr: Tensor
    col: Tensor
    names: NodeNames | None = None

    def __post_init__(self) -> None:
        check_rows(self.x, self.rowptr, self.col)
        x, start, slots = check_features(self.x), self.rowptr.cpu(), self.col.numel()
        if int(start[0]) or int(start[-1]) != slots or bool((start.diff() < 0).any()):
            raise GraphError(
                f"rowptr {shown(self.rowptr)} for {slots} slots",
                "it must grow from 0 to the number of slots",
                "Build graphs with Graph.of or Graph.from_edges",
            )
        again = Graph.from_edges(x, self.edge_index)
        if not torch.equal(again.col, self.col):
            raise GraphError(
                "neighbours that are not sorted",
                "the neighbours of a node must be in increasing order",
                "Build graphs with Graph.of or Graph.from_edges",
            )
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "names", NodeNames.of(self.names, self.num_nodes))

    @classmethod
    def trusted(cls, x: Tensor, rowptr: Tensor, col: Tensor, names: NodeNames | None = None) -> "Graph":
        """A graph from parts of a validated one: only types and shapes are checked."""
        check_rows(x, rowptr, col)
        graph = object.__new__(cls)
        for name, part in (("x", x), ("rowptr", rowptr), ("col", col), ("names", names)):
            object.__setattr__(graph, name, part)
        return graph

    # -- construction ------------------------------------------------------------------------------

    @classmethod
    def of(cls, source: GraphLike) -> "Graph":
        """A validated graph from a ``Graph``, a PyG ``Data`` (with ``edge_index`` or ``adj_t``), a networkx graph, or a
        pair of features and edges.

        Features are a tensor, a numpy array, a scipy sparse matrix, or a pandas frame, whose index has the names of the
        nodes. Edges are an ``edge_index`` that lists both directions of every edge once, a sparse adjacency matrix
        (scipy, torch) of ones, or a pandas frame with an edge in each row: ``source`` and ``target``, or the first two
        columns, by name if the features have names and by number otherwise.
        """
        if isinstance(source, Graph):
            return source
        if is_networkx(source):
            return cls.from_networkx(source)
        x, edge_index, names = parts_of(source)
        return cls.from_edges(x, edge_index, names)

    @classmethod
    def from_edges(cls, x: Tensor, edge_index: Tensor, names: Any = None) -> "Graph":
        """A graph from features and an ``edge_index`` that lists both directions of every edge once; ``names`` of the
        nodes, if they have any, are a list."""
        x, edge_index = check_parts(x, edge_index)
        n = x.shape[0]
        named = NodeNames.of(names, n)
        loops = edge_index[0] == edge_index[1]
        if loops.any():
            raise GraphError(
                f"{int(loops.sum())} self-loop(s), the first at node {int(edge_index[0][loops][0])}",
                "the graph must have none, because the GCN adds its own",
                f"{CLEAN}, as does torch_geometric.utils.remove_self_loops for this alone",
            )
        key, order = torch.sort(edge_index[0] * n + edge_index[1])
        repeated = key[1:] == key[:-1]
        if repeated.any():
            first = int(key[1:][repeated][0])
            raise GraphError(
                f"{int(repeated.sum())} duplicate edge(s), the first ({first // n}, {first % n})",
                "every direction of an edge must be listed once",
                f"{CLEAN}, as does torch_geometric.utils.coalesce for this alone",
            )
        one_way = ~torch.isin(edge_index[1] * n + edge_index[0], key, assume_unique=True)
        if one_way.any():
            i, j = edge_index[:, one_way][:, 0].tolist()
            raise GraphError(
                f"{int(one_way.sum())} edge(s) without their reverse, the first ({i}, {j})",
                "the graph must be undirected",
                f"{CLEAN}, as does torch_geometric.utils.to_undirected for this alone. A view of dropout_edge needs "
                "force_undirected=True: made undirected afterwards, it drops fewer edges than its rate says",
            )
        row, col = edge_index[:, order]
        graph = cls.trusted(x, _row_pointer(row, n), col.contiguous(), named)
        graph._take_copy()
        return graph

    @classmethod
    def from_networkx(cls, graph: "nx.Graph", x: Any = None) -> "Graph":
        """A graph from networkx, nodes in ``graph.nodes`` order; features from ``x`` or the node attribute ``"x"``.

        Features may be tensors, arrays or lists, or a pandas frame with the nodes as its index, in any order. Nodes
        that are not 0, 1, … keep their names. An edge attribute ``weight`` must be 1.
        """
        if not is_networkx(graph):
            raise GraphError(f"a {type(graph).__name__} as graph", "it must be a networkx graph", "Use Graph.of")
        if graph.is_directed() or graph.is_multigraph():
            raise GraphError(
                f"a networkx {type(graph).__name__}",
                "the graph must be simple and undirected",
                f"Convert it with networkx.Graph(graph); {CLEAN}",
            )
        loops = [u for u, v in graph.edges if u == v]
        if loops:
            raise GraphError(
                f"{len(loops)} self-loop(s), the first at networkx node {loops[0]!r}",
                "the graph must have none, because the GCN adds its own",
                CLEAN,
            )
        features, edges, names = networkx_parts(graph, x)
        return cls.from_edges(features, torch.cat([edges, edges.flip(0)], dim=1), names)

    @classmethod
    def cleaned(cls, source: GraphLike) -> "Graph":
        """The simple undirected graph under ``source``: reverses added, duplicates and self-loops removed.

        Accepts whatever :meth:`of` accepts, and directed and multigraphs of networkx.
        """
        if isinstance(source, Graph):
            return source
        given, edges, names = networkx_parts(source) if is_networkx(source) else parts_of(source)
        x, edge_index = check_parts(given, edges)
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        n = max(1, x.shape[0])
        key = torch.unique(torch.cat([edge_index[0] * n + edge_index[1], edge_index[1] * n + edge_index[0]]))
        return cls.from_edges(x, torch.stack([key // n, key % n]), names)

    # -- contents ------------------------------------------------------------------------------

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

    def numbers_of(self, nodes: Any) -> Any:
        """Node numbers for a list with names in it; anything else, which has numbers already, is returned unchanged."""
        named = names_among(nodes)
        if named is None or (self.names is None and not any(isinstance(node, str) for node in named)):
            return nodes
        if self.names is None:
            raise GraphError(
                f"nodes {shown(nodes)}",
                f"the nodes of this graph have no names, only numbers from 0 to {self.num_nodes - 1}",
                "Build it from networkx or a frame of features, or set data.node_names",
            )
        return self.names.find(named)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @kept("rowptr")
    def degree(self) -> Tensor:
        """``d_i``, without the self-loop, ``(N,)``."""
        return self.rowptr.diff()

    @kept("rowptr")
    def row(self) -> Tensor:
        """The node that owns each slot, ``(2 |E|,)``."""
        return torch.repeat_interleave(torch.arange(self.num_nodes, device=self.col.device), self.degree)

    @kept("rowptr", "col")
    def reverse(self) -> Tensor:
        """The slot of ``(j, i)`` for every slot ``(i, j)``, ``(2 |E|,)``."""
        return torch.argsort(self.col * self.num_nodes + self.row)

    def has_edge(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether nodes are joined, pair by pair."""
        i, j = self.checked_nodes(i, "i"), self.checked_nodes(j, "j")
        if i.shape != j.shape and 0 not in (i.dim(), j.dim()):
            raise GraphError(
                f"nodes of shapes {tuple(i.shape)} and {tuple(j.shape)}",
                "they are compared pair by pair",
                "Pass the same number of both, or one for all",
            )
        if not self.col.numel():
            return torch.zeros_like(i + j, dtype=torch.bool)
        slots, wanted = self.row * self.num_nodes + self.col, i * self.num_nodes + j
        return slots[torch.searchsorted(slots, wanted).clamp(max=len(slots) - 1)] == wanted

    def checked_nodes(self, nodes: Any, name: str) -> Tensor:
        """Node numbers as int64, each of them that of a node."""
        if (
            not isinstance(nodes, Tensor)
            or nodes.is_nested
            or nodes.is_meta
            or nodes.layout != torch.strided
            or (nodes.dtype not in INTEGERS)
        ):
            raise GraphError(f"{name} {shown(nodes)}", "it is a tensor of node numbers", "Pass torch.tensor([...])")
        nodes = nodes.long()
        if nodes.numel() and (int(nodes.min()) < 0 or int(nodes.max()) >= self.num_nodes):
            raise GraphError(
                f"{name} with nodes from {int(nodes.min())} to {int(nodes.max())}",
                f"nodes are numbered 0 to {self.num_nodes - 1}",
                "Leave the others out",
            )
        return nodes

    def _matrix(self, values: Any, name: str, rows: int) -> None:
        """Raise an error for values that cannot be multiplied: torch has sparse products in float32 and float64
        only."""
        if (
            not isinstance(values, Tensor)
            or values.is_nested
            or values.is_meta
            or values.layout != torch.strided
            or (values.dim() != 2 or values.shape[0] != rows or values.dtype not in (torch.float32, torch.float64))
        ):
            raise GraphError(
                f"{name} {shown(values)}",
                f"it is a dense matrix of {rows} rows in float32 or float64",
                "Convert it, for example with .to(torch.float32)",
            )
        if values.device != self.col.device:
            raise GraphError(
                f"{name} on {values.device} for a graph on {self.col.device}",
                "both must be on one device",
                f"Move it with .to({str(self.col.device)!r})",
            )

    @property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, as PyG wants them, ``(2, 2 |E|)``."""
        return torch.stack([self.row, self.col])

    def gcn_matrix(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """``Â = D^(-1/2) (A + I) D^(-1/2)`` with ``D_i = d_i + 1``, as in PyG's ``gcn_norm``; sparse CSR."""
        if floating(dtype, "dtype", GraphError) is None:
            raise GraphError("dtype=None", "a matrix has a dtype", "Leave it out for torch.float64")
        n, device = self.num_nodes, self.col.device
        loop = torch.arange(n, device=device)
        row, col = torch.cat([self.row, loop]), torch.cat([self.col, loop])
        order = torch.argsort(row * n + col)
        row, col = row[order], col[order]
        scale = (self.degree + 1).to(dtype).pow(-0.5)
        return csr_matrix(_row_pointer(row, n), col, scale[row] * scale[col], (n, n))

    @cached_property
    def features(self) -> Features:
        """The features, ready for products; the views of a graph share them."""
        return Features(self.x)

    def project(self, weight: Tensor, nodes: Tensor | None = None, *, absolute: bool = False) -> Tensor:
        """``X W`` (or ``|X| W``) in the dtype of ``weight``, for ``nodes`` or all, ``(nodes, outputs)``."""
        self._matrix(weight, "weight", self.num_features)
        nodes = None if nodes is None else self.checked_nodes(nodes, "nodes")
        if nodes is not None and nodes.dim() != 1:
            raise GraphError(f"nodes {shown(nodes)}", "they are a list of node numbers", "Pass a vector")
        return self.features.project(weight, nodes, absolute=flag(absolute, "absolute", GraphError))

    def propagate(self, values: Tensor) -> Tensor:
        """``Â V`` with the matrix of :meth:`gcn_matrix`, ``(N, C)``; its gradient uses that Â is symmetric."""
        self._matrix(values, "values", self.num_nodes)
        dtype = values.dtype
        if dtype not in self._neighbour_weights:
            scale = (self.degree + 1).to(dtype).rsqrt()
            matrix = csr_matrix(self.rowptr, self.col, scale[self.row] * scale[self.col], (self.num_nodes,) * 2)
            self._neighbour_weights[dtype] = ConstantMatrix(matrix, symmetric=True), scale.square()[:, None]
        neighbours, own = self._neighbour_weights[dtype]
        mixed = neighbours @ values
        if torch.is_grad_enabled() and values.requires_grad:
            return torch.addcmul(mixed, own, values)
        return mixed.addcmul_(own, values)  # allocating memory would take as long as the sum

    @kept("rowptr", "col")
    def _neighbour_weights(self) -> dict[torch.dtype, tuple[ConstantMatrix, Tensor]]:
        return {}

    # -- copies ------------------------------------------------------------------------------------

    def private(self) -> "Graph":
        """This graph in its present state, checked, in a copy that nobody else holds; the same copy until this graph
        changes.

        Anyone who holds a graph may write to its tensors, through torch or bypassing it (``.data``, numpy, a mapped
        file). So whatever is cached from one certificate to the next belongs to the copy, and edges and sparse features
        are compared with it, bit by bit, before it is used again. Dense features are not copied: nothing is cached
        about them.

        Raises:
            GraphError: what was written is not a graph.
        """
        if PRIVATE in vars(self):
            return self
        copy: Graph | None = vars(self).get(_COPY)
        if copy is None or not copy._is_of(self):
            for name in [name for name in vars(self) if name not in {field.name for field in fields(self)}]:
                del vars(self)[name]
            Graph(self.x, self.rowptr, self.col, self.names)  # says what is wrong
            copy = self._take_copy()
        return copy

    def owned(self) -> "Graph":
        """This graph as its own private copy: for a graph that came from another process, so that nobody else holds
        it."""
        vars(self)[PRIVATE] = stamp(self.x)
        return self

    def _take_copy(self) -> "Graph":
        copy = Graph.trusted(self.x, self.rowptr.clone(), self.col.clone(), self.names)
        vars(copy).update({PRIVATE: stamp(self.x), "features": self.features})
        vars(self)[_COPY] = copy
        return copy

    def _is_of(self, graph: "Graph") -> bool:
        """Whether this private copy equals ``graph`` in its present state."""
        return (
            torch.equal(self.rowptr, graph.rowptr)
            and torch.equal(self.col, graph.col)
            and len(graph.x) == self.num_nodes
            and vars(self)[PRIVATE] == stamp(graph.x)
            and graph.features.unchanged()
        )

    def with_edges(self, rowptr: Tensor, col: Tensor) -> "Graph":
        """The same nodes and features with other edges, which are trusted; views are made this way."""
        view = Graph.trusted(self.x, rowptr, col, self.names)
        view.__dict__["features"] = self.features
        return view

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Graph":
        """The same graph on another device, or with features of another dtype."""
        place, dtype = usable_device(device, error=GraphError), floating(dtype, "dtype", GraphError)
        x = self.x.to(device=place, dtype=dtype)
        if dtype is not None and dtype != self.x.dtype:
            x = check_features(x)  # a number may overflow a smaller type
        return Graph.trusted(x, self.rowptr.to(place), self.col.to(place), self.names)

    def with_features(self, x: Tensor) -> "Graph":
        """The same edges with other features."""
        x = check_features(x)
        if x.shape[0] != self.num_nodes:
            raise GraphError(
                f"features of shape {tuple(x.shape)} for {self.num_nodes} nodes",
                "x needs one row per node",
                "Pass a row for every node",
            )
        if x.device != self.col.device:
            raise GraphError(
                f"features on {x.device} for a graph on {self.col.device}",
                "both must be on one device",
                f"Move them with x.to({str(self.col.device)!r})",
            )
        return Graph.trusted(x, self.rowptr, self.col, self.names)

    def view(self, source: "GraphLike | Tensor") -> "Graph":
        """A validated graph with the same nodes and features; an ``edge_index`` alone gets the features of this one."""
        view = Graph.from_edges(self.x, source, self.names) if isinstance(source, Tensor) else Graph.of(source)
        if view.num_nodes != self.num_nodes or view.num_features != self.num_features:
            raise GraphError(
                f"a view with {view.num_nodes} nodes and {view.num_features} features for a graph with "
                f"{self.num_nodes} and {self.num_features}",
                "both views have the same nodes and features",
                "Drop edges, or set features to zero; keep the shape of x",
            )
        if view.x.device != self.x.device:
            raise GraphError(
                f"a view on {view.x.device} for a graph on {self.x.device}",
                "both must be on one device",
                f"Move it with view.to({str(self.x.device)!r})",
            )
        return view

    def __repr__(self) -> str:
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features)"

    def _repr_html_(self) -> str:
        named = [] if self.names is None else [("names", ", ".join(map(shown, self.names.all[:3])) + ", …")]
        return html_table(
            "Graph",
            [
                ("nodes", f"{self.num_nodes:,}"),
                ("edges", f"{self.num_edges:,}"),
                ("features", f"{self.num_features:,} per node, {str(self.x.dtype).removeprefix('torch.')}"),
                *named,
            ],
        )


def _row_pointer(row: Tensor, n: int) -> Tensor:
    return torch.cat([row.new_zeros(1), torch.bincount(row, minlength=n).cumsum(0)])
