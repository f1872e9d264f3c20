"""GCA: important edges and features are dropped less often."""

from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from certgcl import arguments
from certgcl.graphs.graph import Graph
from certgcl.learning.methods.base import ContrastiveMethod
from certgcl.learning.methods.centrality import Centrality, edge_drop_probabilities, feature_mask_probabilities


@dataclass(kw_only=True, eq=False)
class GCA(ContrastiveMethod):
    """Graph contrastive learning with adaptive augmentation (Zhu et al. 2021).

    An edge is scored by the mean log centrality of its ends, a feature column by the centrality of the nodes that have
    it; the lower the score, the more often it is dropped. Rates are the means over all edges and columns.

    Args:
        centrality: ``degree``, ``eigenvector`` or ``pagerank``.
    """

    centrality: Centrality = "degree"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice(self.centrality, "centrality", get_args(Centrality))

    def drop_probabilities(self, graph: Graph) -> tuple[float | Tensor, float | Tensor]:
        graph = Graph.of(graph)
        first, second = (edge_drop_probabilities(graph, rate, self.centrality) for rate in self.drop_rates)
        return first, second

    def mask_probabilities(self, graph: Graph) -> tuple[float | Tensor, float | Tensor]:
        if not any(self.mask_rates):
            return self.mask_rates
        graph = Graph.of(graph)
        first, second = (feature_mask_probabilities(graph, rate, self.centrality) for rate in self.mask_rates)
        return first, second
