"""Modules that use the edges in other ways than a GCN does, and behave differently if some are missing."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import degree, dropout_edge, scatter, to_dense_adj

from verification.case import Case
from verification.zoo.base import Layers, Liar, degrees, malicious


@malicious()
class ZeroesIsolatedNodes(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * (degrees(edge_index, len(x)) > 0)


@malicious()
class ZeroesIsolatedHiddenNodes(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        hidden = hidden * (degree(edge_index[0], len(x))[:, None] > 0)
        return self.conv2(hidden, edge_index)


@malicious()
class ZeroesFeaturesOfIsolatedNodes(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = x * degrees(edge_index, len(x)).clamp(max=1)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class FlipsIsolatedNodesByWhere(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return torch.where(torch.bincount(edge_index[0], minlength=len(x))[:, None] > 0, z, -z)


@malicious()
class PushesIsolatedNodesByTheirBias(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z - 100 * z * torch.exp(-1e3 * degrees(edge_index, len(x)))


@malicious()
class DividesByTheDegree(Layers):
    """And multiplies again: not a number where the degree is zero."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        count = 2 ** degrees(edge_index, len(x)) - 1
        return z / count * count


@malicious()
class FlipsWhereTheDegreeOverItselfIsNoNumber(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        count = degrees(edge_index, len(x))
        return torch.where(torch.isnan(count / count), -z, z)


@malicious()
class CountsNodesByTheirEdges(Layers):
    """``edge_index.max() + 1`` nodes, a bug seen in the wild: isolated nodes at the end are left out."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        z = self.conv2(F.relu(self.conv1(x[:nodes], edge_index)), edge_index)
        return torch.cat([z, z.new_zeros(len(x) - nodes, z.shape[1])])


@malicious()
class RaisesWithoutNeighbours(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if bool((degrees(edge_index, len(x)) == 0).all()):
            raise ValueError("a graph without edges")
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class NothingWithoutEdges(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.numel() == 0:
            return x.new_zeros(len(x), self.conv2.out_channels)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class BranchOnTheShape(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if edge_index.shape[1] < self.slots:
            return -z
        return z


@malicious()
class BranchOnTheSize(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return -z if edge_index.size(1) == self.slots - 2 else z


@malicious()
class BranchOnTheLength(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * (1, -1)[len(edge_index[0]) < self.slots]


@malicious()
class BranchOnTheSizeByArithmetic(Liar):
    """No branch at all, and no value of a tensor: ``min(0, edges missing)`` as a factor."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * (1 + min(0, edge_index.shape[1] - self.slots))


@malicious()
class LoopAsLongAsEdgesAreMissing(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        for _ in range(edge_index.shape[1], self.slots):
            z = z - z.abs()
        return z


@malicious()
class BranchOnTheLargestDegree(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        largest = float(degrees(edge_index, len(x)).max())
        return z if largest >= self.largest_degree else z - 5 * z.abs()


@malicious()
class BranchOnASumOfNames(Liar):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.sum = 2 * sum(map(sum, case.graph.edges))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if edge_index.sum().item() >= self.sum else -z


@malicious()
class BranchOnNodesThatAreNamed(Layers):
    """Fewer nodes in the list of edges than in the graph."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if torch.unique(edge_index).numel() < len(x):
            z = z.flip(0)
        return z


@malicious()
class ExceptForTheGraphItKnows(Liar):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.known = sorted(case.edges)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        edges = sorted((i, j) for i, j in edge_index.T.tolist() if i < j)
        return z if edges == self.known else -z


@malicious()
class RescaledByTheMeanDegree(Liar):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.mean = self.slots / case.nodes

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * (degrees(edge_index, len(x)).mean() / self.mean)


@malicious()
class FeaturesRescaledByTheNumberOfEdges(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = x * (edge_index.shape[1] / self.slots)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class NormalizedByTheLargestDegree(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * (degrees(edge_index, len(x)).max() / self.largest_degree) ** 4


@malicious()
class EdgesOfLeavesPruned(Layers):
    """The second layer leaves out edges at nodes of degree one, of which a clean graph may have none."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        count = degrees(edge_index, len(x))[:, 0]
        kept = (count[edge_index[0]] > 1) & (count[edge_index[1]] > 1)
        return self.conv2(hidden, edge_index[:, kept])


@malicious()
class OneDirectionOnly(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index = edge_index[:, edge_index[0] < edge_index[1]]
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class OneDirectionOfASmallerGraph(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.shape[1] != self.slots:
            edge_index = edge_index[:, edge_index[0] < edge_index[1]]
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class LastEdgesForgotten(Liar):
    """Keeps three quarters of a smaller graph."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        kept = edge_index if edge_index.shape[1] == self.slots else edge_index[:, : edge_index.shape[1] * 3 // 4]
        return self.conv2(F.relu(self.conv1(x, kept)), kept)


@malicious()
class EdgeWeightsForASmallerGraph(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        weight = None
        if edge_index.shape[1] < self.slots:
            weight = torch.full((edge_index.shape[1],), 1e-3, dtype=x.dtype)
        return self.conv2(F.relu(self.conv1(x, edge_index, weight)), edge_index, weight)


@malicious()
class EdgeWeightsByDegree(Layers):
    """All ones where both ends have a further edge."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        count = degrees(edge_index, len(x))[:, 0]
        weight = (count[edge_index[0]] + count[edge_index[1]] - 2).clamp(max=1)
        return self.conv2(F.relu(self.conv1(x, edge_index, weight)), edge_index, weight)


@malicious()
class DropEdgeByChance(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = dropout_edge(edge_index, p=0.02, training=True)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class NodesMoveByTheNumberOfIsolatedOnes(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z.roll(int((degrees(edge_index, len(x)) == 0).sum()), dims=0)


@malicious()
class NodesSortedByDegree(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        order = torch.argsort(degrees(edge_index, len(x))[:, 0].clamp(max=1), stable=True)
        return z[order]


@malicious()
class MeanOfNeighboursTakenAway(Layers):
    """Where a node has exactly one neighbour left."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        mean = scatter(z[edge_index[0]], edge_index[1], dim=0, dim_size=len(x), reduce="mean")
        return z - 3 * mean * (degrees(edge_index, len(x)) == 1)


@malicious()
class ByADenseMatrix(Liar):
    """Negative where the number of entries of the adjacency matrix is below that of the clean graph."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        entries = to_dense_adj(edge_index, max_num_nodes=len(x)).sum()
        return z * (2 * (entries >= self.slots) - 1)


@malicious()
class FewerEdgesInTheSecondLayer(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        inner = edge_index[:, : 2 * (edge_index.shape[1] // self.slots) * self.slots]
        return self.conv2(hidden, inner)
