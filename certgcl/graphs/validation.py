"""The checks of a graph's parts behind :class:`certgcl.Graph`, each with a remedy in its message."""

from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import FLOATS, INTEGERS, dense, described, first_line, shown
from certgcl.errors import GraphError
from certgcl.graphs.row_chunks import row_chunks

LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
CLEAN = "Graph.cleaned(...) makes a graph simple and undirected"


def check_features(x: Any) -> Tensor:
    """``x`` as a finite floating-point matrix, dense or CSR; otherwise an error that says what is wrong."""
    if not isinstance(x, Tensor):
        raise GraphError(
            f"features of type {type(x).__name__}",
            "x must be a torch.Tensor",
            "Convert with torch.as_tensor, or set data.x",
        )
    if x.is_meta or x.is_nested or x.layout not in LAYOUTS:
        raise GraphError(
            f"features as {described(x)}",
            "x must be a dense, COO, CSR or CSC tensor that holds values",
            "Convert it, and move it to a real device",
        )
    if x.dim() != 2:
        raise GraphError(
            f"features of shape {tuple(x.shape)}",
            "x must be a matrix (nodes, features)",
            "Reshape it; a graph without features can use an identity matrix",
        )
    if x.shape[0] == 0:
        raise GraphError("a graph with 0 nodes", "there must be at least one node", "Check how it was built")
    if x.shape[1] == 0:
        raise GraphError(
            f"features of shape {tuple(x.shape)}",
            "every node needs at least one feature",
            "A graph without features can use an identity matrix",
        )
    if x.dtype not in FLOATS:
        raise GraphError(f"features of dtype {x.dtype}", "x must be floating point", "Convert with x.float()")
    features: Tensor = x if x.layout == torch.strided else _csr(x)
    values = features if x.layout == torch.strided else features.values()
    bad = sum(int((~torch.isfinite(part)).sum()) for part in row_chunks(values))
    if bad:
        raise GraphError(
            f"{bad} NaN or infinite feature value(s)", "x must be finite", "Fix them, for example with torch.nan_to_num"
        )
    return features


def _csr(x: Tensor) -> Tensor:
    """A sparse matrix as CSR, its indices checked: torch trusts them and would read whatever memory they point to."""
    try:
        rows = x.to_sparse_csr()
        return torch.sparse_csr_tensor(
            rows.crow_indices(), rows.col_indices(), rows.values(), size=tuple(rows.shape), check_invariants=True
        )
    except RuntimeError as reason:
        raise GraphError(
            f"sparse features that are not consistent ({first_line(reason)})",
            "rows and columns must be those of a matrix, each column once in a row",
            "Build them with torch.sparse_coo_tensor(...).coalesce()",
        ) from reason


def check_rows(x: Any, rowptr: Any, col: Any) -> None:
    """Compressed rows whose tensors fit each other in type and shape; their values are not checked."""
    for name, index in (("rowptr", rowptr), ("col", col)):
        if (
            not isinstance(index, Tensor)
            or index.is_nested
            or index.layout != torch.strided
            or (index.dim() != 1 or index.dtype != torch.long)
        ):
            raise GraphError(
                f"{name} {shown(index)}",
                "compressed rows are two vectors of int64",
                "Build graphs with Graph.of or Graph.from_edges",
            )
    if not isinstance(x, Tensor) or x.is_nested or x.dim() != 2 or rowptr.numel() != x.shape[0] + 1:
        raise GraphError(
            f"rowptr of length {rowptr.numel()} with features {shown(x)}",
            "there is one row of features per node, and one more entry in rowptr",
            "Build graphs with Graph.of or Graph.from_edges",
        )


def check_edge_index(edge_index: Any, num_nodes: int) -> Tensor:
    """``edge_index`` as a ``(2, E)`` integer tensor with every index in range."""
    tensor = isinstance(edge_index, Tensor) and not edge_index.is_nested
    if not tensor or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        found = f"of shape {tuple(edge_index.shape)}" if tensor else f"given as {described(edge_index)}"
        raise GraphError(
            f"edge_index {found}", "it must be a tensor of shape (2, number of edges)", "Use PyG's edge_index"
        )
    dense(edge_index, "edge_index", GraphError)
    if edge_index.dtype not in INTEGERS:
        raise GraphError(
            f"edge_index of dtype {edge_index.dtype}", "node indices must be integers", "Convert with edge_index.long()"
        )
    edge_index = edge_index.long()
    outside = (edge_index < 0) | (edge_index >= num_nodes)
    if outside.any():
        raise GraphError(
            f"node index {int(edge_index[outside][0])} in edge_index",
            f"indices must lie in 0..{num_nodes - 1}, as x has {num_nodes} rows",
            "Relabel the nodes or add feature rows",
        )
    return edge_index


def check_parts(x: Any, edge_index: Any) -> tuple[Tensor, Tensor]:
    """Features and edges that are each valid and fit each other."""
    if isinstance(x, Tensor) and isinstance(edge_index, Tensor) and x.device != edge_index.device:
        raise GraphError(
            f"x on {x.device} and edge_index on {edge_index.device}",
            "both must be on one device",
            f"Move one, for example with edge_index.to({str(x.device)!r})",
        )
    x = check_features(x)
    return x, check_edge_index(edge_index, x.shape[0])
