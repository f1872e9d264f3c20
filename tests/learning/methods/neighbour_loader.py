"""PyG's ``NeighborLoader`` where its compiled sampler is not installed: pyg-lib and torch-sparse have no wheels on the
package index."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.learning.methods.sampling import ALL


class StandIn:
    """PyG's ``NeighborLoader`` as its documentation has it, without the compiled sampler that it needs."""

    def __init__(self, data: Data, num_neighbors: list[int], batch_size: int, is_sorted: bool) -> None:
        assert not is_sorted or bool((data.edge_index[1].diff() >= 0).all())
        self._data, self._fanouts = data, num_neighbors

    def __call__(self, index: Tensor) -> Data:
        """Neighbours are the first ends of edges; nodes are numbered in the order in which they were seen."""
        (source, target), seen, edges = self._data.edge_index, index.tolist(), list[tuple[int, int]]()
        frontier = list(seen)
        for fanout in self._fanouts:
            last, frontier = frontier, []
            for node in last:
                near = source[target == node]
                for other in near[torch.randperm(len(near))][: None if fanout == ALL else fanout].tolist():
                    edges.append((other, node))
                    if other not in seen:
                        seen.append(other)
                        frontier.append(other)
        local = [[seen.index(node) for node in edge] for edge in edges]
        return Data(n_id=torch.tensor(seen), edge_index=torch.tensor(local).reshape(-1, 2).T)
