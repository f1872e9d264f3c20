"""Blocks that are computed again for their gradients."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds import Degree
from certgcl.bounds.propagation import limits
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import drop_problem, like, random_graph, random_tensor, tensors_of, toy_network


@pytest.mark.parametrize("method", [Degree(), Degree(lines="shared", resolution=1)], ids=["by-count", "shared"])
def test_gradients_are_the_same_when_blocks_are_computed_again(monkeypatch: pytest.MonkeyPatch, method: Degree) -> None:
    graph, directions = random_graph(density=0.5), random_tensor(12, 2, 3, seed=9)
    budget = EdgeDropBudget(local=[k % 4 for k in range(12)])

    def gradients() -> list[Tensor]:
        leaves = [tensor.clone().requires_grad_() for tensor in tensors_of(toy_network())]
        method(like(toy_network(), *leaves), drop_problem(graph, budget), directions).sum().backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    stored = gradients()
    monkeypatch.setattr(limits, "MAX_STORED", 0)
    again = gradients()
    assert len(stored) == len(again) > 3
    for one, other in zip(stored, again, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
