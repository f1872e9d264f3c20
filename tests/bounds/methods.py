"""Every method and budget, as tests of all of them take them."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds import METHODS, BoundMethod, Degree, get_method
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork
from tests.toys import (
    drop_problem,
)

CERTIFIED = [name for name, method in METHODS.items() if method.certified]
BUDGETS = {
    "mixed": EdgeDropBudget(local=[k % 4 for k in range(12)]),
    "total": EdgeDropBudget(total=2),
    "none": EdgeDropBudget(),
}
VARIANTS = {"shared lines": Degree(lines="shared"), "hubs": Degree(hubs=2), "no patterns": Degree(patterns=1)}
every_method = pytest.mark.parametrize("method", [*METHODS, *VARIANTS.values()], ids=[*METHODS, *VARIANTS])
every_certified = pytest.mark.parametrize("method", [*CERTIFIED, *VARIANTS.values()], ids=[*CERTIFIED, *VARIANTS])
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


def values_of(
    method: str | BoundMethod,
    weights: GraphNetwork,
    graph: Graph,
    budget: EdgeDropBudget,
    directions: Tensor,
    anchors: list[int] | None = None,
) -> Tensor:
    return get_method(method)(weights, drop_problem(graph, budget, anchors), directions)


def nominal(weights: GraphNetwork, graph: Graph, directions: Tensor) -> Tensor:
    return (directions @ weights.embed(graph)[..., None])[..., 0]


def assert_same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
