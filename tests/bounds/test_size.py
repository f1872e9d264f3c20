"""No bound makes a table as large as a square of the nodes."""

from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from certgcl.bounds import BoundMethod
from certgcl.bounds.compiled import degree as compiled_degree
from certgcl.bounds.two_layer import blocks
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.bounds.methods import (
    every_certified,
    every_method,
    values_of,
)
from tests.toys import (
    random_tensor,
    toy_graph,
    toy_network,
)


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest dense tensor that any operation gives."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self.elements = max(self.elements, tensor.numel())
        return result


def largest_tensor(method: str | BoundMethod, graph: Graph, budget: EdgeDropBudget) -> int:
    directions = random_tensor(graph.num_nodes, 1, 3, seed=9)
    with torch.no_grad(), LargestTensor() as seen:
        values_of(method, toy_network(), graph, budget, directions)
    return seen.elements


def test_a_dense_square_would_be_noticed() -> None:
    with LargestTensor() as seen:
        mask = torch.ones(300, 1, dtype=torch.bool) & torch.ones(1, 300, dtype=torch.bool)
    assert seen.elements == mask.numel()


def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 1 << 14)
    monkeypatch.setattr(compiled_degree, "MAX_NUMBERS", 1 << 14)


@every_method
def test_nothing_is_as_large_as_the_square_of_the_nodes(
    monkeypatch: pytest.MonkeyPatch, method: str | BoundMethod
) -> None:
    # A block fills what it is allowed, whatever the graph. Of the rest some hundred values a node are to be expected,
    # where a square matrix has two thousand.
    small_tables(monkeypatch)
    graph = toy_graph(nx.gnm_random_graph(2000, 3000, seed=0))
    assert largest_tensor(method, graph, EdgeDropBudget(local=2)) < 250 * 2000


@every_certified
def test_nothing_is_as_large_as_the_square_of_a_hub(monkeypatch: pytest.MonkeyPatch, method: str | BoundMethod) -> None:
    # A block may be a few times larger than it should, and holds the lines of three slope rules.
    small_tables(monkeypatch)
    assert 3 * blocks.TOLERANCE * blocks.MAX_ELEMENTS < 600**2
    assert largest_tensor(method, toy_graph(nx.star_graph(600)), EdgeDropBudget(local=2)) < 600**2
