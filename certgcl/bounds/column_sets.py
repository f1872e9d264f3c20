"""Masked columns of graphs with few features: every set of columns by itself.

If the columns in M are masked, the graph has other features, ``X_M``, and only its edges can still change. So

    w · z_i(S, X̃)  >=  min { bound of w · z_i over all S on the graph with X_M :  |M| <= m },

and the same columns are masked at all nodes, whereas bounds by states let every node mask its own. Nothing that nodes
share is lost; but there are 2^F sets, so this bound is only for graphs with very few features.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import combinations

import torch
from torch import Tensor

from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.models.network import GraphNetwork

MOST_FEATURES = 6  # 64 sets at most; how many features are filled may differ between parts of a graph


def few_columns(problem: ChangeProblem) -> bool:
    """Whether columns may be masked, and so few that all sets of them are tried."""
    features = problem.changes.features
    return features is not None and features.columns > 0 and problem.graph.num_features <= MOST_FEATURES


def least_over_columns(bound: BoundMethod, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
    """The least of a method's bounds over the admissible sets of masked columns, ``(A, C)``."""
    return reduce(torch.minimum, (bound(network, masked, directions) for masked in _every(problem)))


def _every(problem: ChangeProblem) -> Iterator[ChangeProblem]:
    """The problem with every admissible set of columns masked, none of them first."""
    graph, features = problem.graph, problem.changes.features
    assert features is not None
    edges, x = replace(problem.changes, features=None), graph.x.to_dense()
    filled = graph.features.filled_columns
    for number in range(features.columns + 1):
        for chosen in combinations(filled.tolist(), number):
            masked = graph.with_features(x.index_fill(1, filled.new_tensor(chosen), 0))
            yield ChangeProblem(masked, edges, problem.anchors, problem.memory_limit, problem.only_anchors)
