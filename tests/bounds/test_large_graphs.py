"""What is done otherwise on large graphs, to save memory, changes no bound and no gradient."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds import Degree, compiled, interval
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation import limits
from certgcl.bounds.two_layer import backward, blocks, layer1, row_plan, rowwise
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import drop_problem, like, random_graph, random_tensor, tensors_of, toy_network

METHODS = [Degree(), Degree(lines="shared", resolution=1), Degree(hubs=3), Degree("interval", resolution=2)]


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (layer1, "MAX_WHOLE"),
        (interval, "MAX_WHOLE"),
        (row_plan, "SMALL_BLOCK"),
        (limits, "MAX_STORED"),
        (backward, "MAX_PAIR_VALUES"),
    ):
        monkeypatch.setattr(module, name, 0)
    for module, name in (
        (backward, "MIN_CHANNELS"),
        (backward, "CHANNELS"),
        (backward, "GRAIN"),
        (interval, "CHANNELS"),
        (rowwise, "MAX_ELEMENTS"),
    ):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 64)


def problem() -> ChangeProblem:
    return drop_problem(random_graph(density=0.5), EdgeDropBudget(local=[k % 4 for k in range(12)]))


def values(method: Degree) -> Tensor:
    with torch.no_grad(), compiled.switched_off():  # the kernels have tests of their own
        return method(toy_network(), problem(), random_tensor(12, 2, 3, seed=9))


def gradients(method: Degree) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors_of(toy_network())]
    with compiled.switched_off():
        method(like(toy_network(), *leaves), problem(), random_tensor(12, 2, 3, seed=9)).sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


BOUNDS, GRADIENTS = [values(method) for method in METHODS], [gradients(method) for method in METHODS]


@pytest.mark.parametrize("case", range(len(METHODS)))
def test_bounds_are_the_same(case: int, as_if_large: None) -> None:
    torch.testing.assert_close(values(METHODS[case]), BOUNDS[case], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", range(len(METHODS)))
def test_gradients_are_the_same(case: int, as_if_large: None) -> None:
    found = gradients(METHODS[case])
    assert len(found) == len(GRADIENTS[case]) > 3
    for one, other in zip(found, GRADIENTS[case], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
