"""Converts the forms in which people have graphs: PyG's ``Data``, pairs, networkx, pandas, numpy and scipy.

Other libraries are recognised by their modules and never imported: an object of a library that is not loaded cannot
have been passed.
"""

import sys
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from certgcl.arguments import LARGEST, first_line, is_whole, shown
from certgcl.errors import GraphError
from certgcl.graphs.names import NodeNames

if TYPE_CHECKING:
    import networkx as nx

UNWEIGHTED = "certgcl certifies unweighted graphs"
ENDS = ("source", "target")  # the columns of an edge list; the first two if it does not have these


class Parts(NamedTuple):
    """Features, both directions of all edges, and names if there are any; not yet checked."""

    x: Any
    edge_index: Any
    names: Any = None


def parts_of(source: Any) -> Parts:
    """The parts of a ``Data``, or of a pair of features and edges."""
    if isinstance(source, Data):
        return _data_parts(source)
    if isinstance(source, (tuple, list)) and len(source) == 2:
        x, edges = source
        names = row_names(x)
        x = features(x)
        return Parts(x, _edges(edges, x, names), names)
    raise GraphError(
        f"a {type(source).__name__} as graph",
        "it must be a certgcl.Graph, a PyG Data, a networkx graph, or a pair of features and edges "
        "(edge_index, a scipy adjacency or a pandas edge list)",
        "Convert it to one of these",
    )


def _data_parts(data: Data) -> Parts:
    if data.get("edge_weight") is not None:
        raise GraphError(
            "a Data object with edge_weight",
            UNWEIGHTED,
            "Remove it (del data.edge_weight) if your encoder does not use it",
        )
    edges = data.get("adj_t") if data.edge_index is None else data.edge_index
    if data.x is None or edges is None:
        raise GraphError(
            f"a Data object without {'x' if data.x is None else 'edge_index'}",
            "both x and edge_index (or adj_t) are needed",
            "Set data.x and data.edge_index",
        )
    x = features(data.x)
    return Parts(x, _edges(edges, x, None), data.get("node_names"))


# -- features --------------------------------------------------------------------------------------


def features(x: Any) -> Any:
    """Features as a tensor: numpy, scipy and pandas are converted, integers to floats that hold them; others stay."""
    if is_frame(x):
        words = [str(name) for name, dtype in x.dtypes.items() if getattr(dtype, "kind", "O") not in "fiub"]
        if words:
            raise GraphError(
                f"feature columns {shown(words)} that are not numbers",
                "features are numbers",
                "Leave them out, or encode them, for example with pandas.get_dummies",
            )
        x = x.to_numpy()
    if _is_scipy(x):
        rows = x.tocsr().copy()
        rows.sum_duplicates()  # which sorts, too
        pointer, columns = (torch.from_numpy(index.astype(np.int64)) for index in (rows.indptr, rows.indices))
        return torch.sparse_csr_tensor(pointer, columns, _floats(rows.data), size=rows.shape, check_invariants=True)
    return _floats(x) if isinstance(x, np.ndarray) else x


def _floats(values: np.ndarray) -> Tensor:
    if values.dtype.kind in "iub":
        short = values.astype(np.float32)
        values = short if np.array_equal(short, values) else values.astype(np.float64)
    # A copy, as torch warns of arrays that it may not write to.
    copy = np.array(values, dtype=values.dtype.newbyteorder("="))
    return as_tensor(copy, f"features of type {type(values).__name__}")


def as_tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise GraphError(
            f"{name} ({first_line(error)})",
            "features must be numbers, in rows of one length",
            "Pass a tensor, an array or lists of floats",
        ) from error


def row_names(x: Any) -> NodeNames | None:
    """The index of a frame of features."""
    return NodeNames.of(x.index, len(x)) if is_frame(x) else None


# -- edges -----------------------------------------------------------------------------------------


def _edges(edges: Any, x: Any, names: NodeNames | None) -> Any:
    """``edge_index`` of edges in any accepted form."""
    if is_frame(edges):
        return listed_edges(edges, names).to(x.device if isinstance(x, Tensor) else None)
    if _is_scipy(edges):
        matrix = edges.tocoo()
        keep = matrix.data != 0
        return _unweighted(
            torch.from_numpy(np.stack([matrix.row[keep], matrix.col[keep]]).astype(np.int64)),
            matrix.data[keep],
            matrix.shape,
            x,
        )
    if isinstance(edges, np.ndarray) and edges.dtype.kind in "iufb" and edges.ndim == 2:
        if edges.shape[0] == edges.shape[1] != 2:  # two rows are always taken as an edge_index
            row, col = edges.nonzero()
            return _unweighted(torch.from_numpy(np.stack([row, col])), edges[row, col], edges.shape, x)
        if edges.dtype.kind in "iu":
            return as_tensor(np.array(edges, dtype=np.int64), "edge_index")
    if _is_adjacency(edges):
        index, values = to_edge_index(edges)
        shape = tuple(edges.sizes()) if hasattr(edges, "sizes") else tuple(edges.shape)
        return _unweighted(index, values.cpu().numpy(), shape, x)
    return edges


def _is_adjacency(edges: Any) -> bool:
    """Whether it is a sparse matrix of torch, or of torch_sparse."""
    nested = isinstance(edges, Tensor) and (edges.is_nested or edges.is_meta)
    return not nested and is_torch_sparse_tensor(edges) and (not isinstance(edges, Tensor) or edges.dim() == 2)


def _unweighted(edge_index: Tensor, values: np.ndarray, shape: tuple[int, ...], x: Any) -> Tensor:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] != len(x):
        raise GraphError(
            f"an adjacency matrix of shape {shape} for {len(x)} rows of features",
            "it has a row and a column for each node",
            "Pass features and adjacency of the same nodes",
        )
    other = values[values != 1]
    if len(other):
        raise GraphError(
            f"an adjacency matrix with the entry {other[0]}",
            UNWEIGHTED,
            "If your encoder does not use weights, pass (matrix != 0)",
        )
    return edge_index.to(x.device if isinstance(x, Tensor) else None)


def listed_edges(frame: Any, names: NodeNames | None) -> Tensor:
    """Both directions of the edges in a frame: columns ``source`` and ``target``, or the first two.

    Every edge is listed once, in either direction; or all are listed in both.
    """
    columns = list(ENDS) if set(ENDS) <= set(frame.columns) else list(frame.columns[:2])
    if len(columns) < 2:
        raise GraphError(
            f"an edge list with the columns {shown(list(frame.columns))}", "it needs two", "Name them source and target"
        )
    if "weight" in frame.columns and not bool((frame["weight"] == 1).all()):
        raise GraphError(
            "an edge list with weights other than 1", UNWEIGHTED, "Drop the column if your encoder does not use it"
        )
    ends = [frame[column].tolist() for column in columns]
    if names is None and not all(is_whole(node) and 0 <= node <= LARGEST for end in ends for node in end):
        raise GraphError(
            f"an edge list of {shown(ends[0][:3])} and the like, without names",
            "nodes are numbered by the rows of x, or named by the index of a frame of features",
            "Pass x as a pandas frame whose index has the names",
        )
    numbers = ends if names is None else [names.find(end) for end in ends]
    edges = torch.tensor(numbers, dtype=torch.long).reshape(2, -1)
    both = {(one, other) for one, other in edges.T.tolist()}
    paired = all((other, one) in both for one, other in both)
    return edges if paired and len(both) else torch.cat([edges, edges.flip(0)], dim=1)


# -- networkx --------------------------------------------------------------------------------------


def networkx_parts(graph: "nx.Graph", x: Any = None) -> Parts:
    """Features, a column ``(u, v)`` for each edge as networkx lists it, and names, of a networkx graph of any kind."""
    names = NodeNames.of(list(graph.nodes), len(graph))
    values = (
        _networkx_features(graph)
        if x is None
        else as_tensor(features(_ordered(x, graph)), f"features of type {type(x).__name__}")
    )
    if values.is_nested or values.shape[:1] != (len(graph),):
        shape = "no matrix" if values.is_nested else tuple(values.shape)
        raise GraphError(
            f"features of shape {shape} for {len(graph)} nodes",
            "x needs one row per node",
            "Order the rows as in graph.nodes",
        )
    position = {node: k for k, node in enumerate(graph.nodes)}
    pairs = []
    for u, v, weight in graph.edges(data="weight", default=1):
        if not isinstance(weight, Real) or weight != 1:
            raise GraphError(
                f"networkx edge ({shown(u)}, {shown(v)}) with weight {shown(weight)}",
                UNWEIGHTED,
                "If your encoder does not use them, remove them: "
                "for *_, data in graph.edges(data=True): data.pop('weight', None)",
            )
        pairs.append((position[u], position[v]))
    return Parts(values, torch.tensor(pairs, dtype=torch.long, device=values.device).reshape(-1, 2).T, names)


def _ordered(x: Any, graph: "nx.Graph") -> Any:
    """A frame of features in the order of the nodes, by its index."""
    if not is_frame(x):
        return x
    missing = [node for node in graph.nodes if node not in x.index]
    if missing or not x.index.is_unique:
        raise GraphError(
            f"a frame of features without {shown(missing[0])}"
            if missing
            else "a frame of features with an index that is not unique",
            "its index has every node of the networkx graph once",
            "Set the index to the nodes",
        )
    return x.loc[list(graph.nodes)]


def _networkx_features(graph: "nx.Graph") -> Tensor:
    rows = []
    for node, data in graph.nodes(data=True):
        if "x" not in data:
            raise GraphError(
                f"networkx node {shown(node)} without attribute 'x'",
                "every node needs features",
                "Set the attribute, or pass them: Graph.from_networkx(graph, x=features)",
            )
        rows.append(as_tensor(data["x"], f"attribute 'x' of networkx node {shown(node)}"))
        if rows[-1].shape != rows[0].shape:
            raise GraphError(
                f"attribute 'x' of networkx node {shown(node)} with shape {tuple(rows[-1].shape)}",
                f"all nodes need the same number of features as the first, {tuple(rows[0].shape)}",
                "Pad or fix it",
            )
    return torch.stack(rows) if rows else torch.empty(0, 0)


# -- types of other libraries -----------------------------------------------------------------------------------


def is_networkx(source: Any) -> bool:
    """Whether ``source`` is a networkx graph of any kind; networkx itself need not be installed."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(source, networkx.Graph)


def is_frame(value: Any) -> bool:
    """Whether it is a frame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ()))


def _is_scipy(value: Any) -> bool:
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(value)) and len(value.shape) == 2
