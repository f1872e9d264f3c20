"""An order of the nodes in which neighbours are close to each other."""

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from certgcl.graphs.graph import Graph


def nearby_order(graph: Graph) -> Tensor:
    """All nodes, component by component and breadth first, ``(N,)``: the same on every machine.

    Anchors that are bounded together share the work on their neighbourhoods; runs of this order have small ones.
    """
    n, rowptr, col = graph.num_nodes, graph.rowptr.cpu().numpy(), graph.col.cpu().numpy()
    if len(col) + n > np.iinfo(np.int32).max:  # the dtype of scipy's counters
        return torch.arange(n, device=graph.col.device)
    _, component = connected_components(_matrix(col, rowptr, n), directed=False)
    _, first = np.unique(component, return_index=True)
    # One search from an extra node that points to the first of every component finds all; then they are told apart.
    joined = _matrix(np.append(col, first), np.append(rowptr, len(col) + len(first)), n + 1)
    found = breadth_first_order(joined, n, return_predecessors=False)[1:]
    order = found[np.argsort(component[found], kind="stable")]
    return torch.from_numpy(order.astype(np.int64)).to(graph.col.device)


def _matrix(col: np.ndarray, rowptr: np.ndarray, n: int) -> csr_matrix:
    return csr_matrix((np.ones(len(col)), col, rowptr), shape=(n, n))
