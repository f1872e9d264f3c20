"""The largest terms of a row, where a total leaves a knapsack: their gradients."""

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.bounds import get_method
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import drop_problem, like, random_tensor, tensors_of, toy_graph, toy_network


@pytest.mark.parametrize("method", ["degree", "degree-fast", "degree-cheap"])
@pytest.mark.parametrize("total", [1, 2, 3])
def test_gradients_under_a_total_are_those_of_finite_differences(method: str, total: int) -> None:
    graph = toy_graph(nx.gnp_random_graph(9, 0.4, seed=2))
    problem = drop_problem(graph, EdgeDropBudget(local=2, total=total), list(range(9)))
    weights, directions = toy_network(outputs=2, seed=3), random_tensor(9, 1, 2, seed=4)
    inputs = [tensor.clone().requires_grad_() for tensor in tensors_of(weights)[:2]]

    def bound(*tensors: Tensor) -> Tensor:
        return get_method(method)(like(weights, *tensors, *tensors_of(weights)[2:]), problem, directions)

    assert torch.autograd.gradcheck(bound, inputs, fast_mode=True)
