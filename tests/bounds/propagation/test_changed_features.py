"""The fall of a functional of features is what the worst admissible features take off it."""

from itertools import combinations

import pytest
import torch
from torch import Tensor

from certgcl import FeatureBudget, Graph
from certgcl.bounds.propagation.changed_features import ChangedFeatures, _SomeProducts
from certgcl.bounds.propagation.paths import largest_sums

GENERATOR = torch.Generator().manual_seed(0)
X = (torch.rand(5, 6, generator=GENERATOR) < 0.5).double()
WEIGHT = torch.randn(6, 3, dtype=torch.float64, generator=GENERATOR)
LOOP = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
GRAPH = Graph.from_edges(X, torch.cat([LOOP, LOOP.flip(0)], dim=1))


def changed(budget: FeatureBudget) -> ChangedFeatures:
    return ChangedFeatures.at(GRAPH, budget.on(GRAPH), torch.arange(5))


def worst_bits(row: Tensor, mu: Tensor, off: int, on: int) -> float:
    """By trying all."""
    ones, zeros = row.nonzero()[:, 0].tolist(), (row == 0).nonzero()[:, 0].tolist()
    values = [
        float(
            mu
            @ row.index_fill(0, torch.tensor(gone, dtype=torch.long), 0.0).index_fill(
                0, torch.tensor(added, dtype=torch.long), 1.0
            )
        )
        for less in range(min(off, len(ones)) + 1)
        for gone in combinations(ones, less)
        for more in range(min(on, len(zeros)) + 1)
        for added in combinations(zeros, more)
    ]
    return float(mu @ row) - min(values)


@pytest.mark.parametrize(("off", "on"), [(1, 0), (2, 0), (0, 1), (2, 2), (6, 6)])
def test_falls_of_functionals_and_of_channels_are_the_worst_of_all_bits(off: int, on: int) -> None:
    features = changed(FeatureBudget(turned_off=off, turned_on=on))
    functionals = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = [worst_bits(X[node], WEIGHT @ functionals[node], off, on) for node in range(5)]
    falls = features.falls([(WEIGHT, functionals)], torch.arange(5)).sum()
    torch.testing.assert_close(falls, torch.tensor(expected).double())
    lower, upper = features.range(WEIGHT, X @ WEIGHT)
    for node in range(5):
        for channel in range(3):
            down, up = (worst_bits(X[node], sign * WEIGHT[:, channel], off, on) for sign in (1, -1))
            assert float(lower[node, channel]) == pytest.approx(float(X[node] @ WEIGHT[:, channel]) - down)
            assert float(upper[node, channel]) == pytest.approx(float(X[node] @ WEIGHT[:, channel]) + up)


def test_a_box_takes_off_its_radius_times_the_sizes() -> None:
    features = changed(FeatureBudget(box=[0.0, 0.1, 0.2, 0.3, 0.4]))
    functionals = torch.ones(5, 3, dtype=torch.float64)
    expected = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4]).double() * WEIGHT.sum(dim=1).abs().sum()
    torch.testing.assert_close(features.falls([(WEIGHT, functionals)], torch.arange(5)).sum(), expected)


def test_weights_of_a_node_add_up_before_the_worst_is_taken() -> None:
    features = changed(FeatureBudget(masked=1))
    functionals = torch.ones(5, 3, dtype=torch.float64)
    falls = features.falls([(WEIGHT, functionals), (WEIGHT, -functionals)], torch.arange(5))
    assert not bool(falls.sum().any())


def test_a_diagonal_is_a_matrix_with_nothing_else() -> None:
    features, diagonal = changed(FeatureBudget(turned_off=1, turned_on=1)), torch.linspace(-1, 1, 6).double()
    functionals = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for one, other in zip(
        features.falls([(diagonal, functionals)], torch.arange(5)),
        features.falls([(torch.diag(diagonal), functionals)], torch.arange(5)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    for one, other in zip(
        features.range(diagonal, X * diagonal), features.range(torch.diag(diagonal), X * diagonal), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_the_largest_of_each_target_are_added_up() -> None:
    values = torch.tensor([[3.0, 1.0], [2.0, 0.0], [5.0, 4.0], [1.0, 1.0]])[..., None]
    found = largest_sums(values, torch.tensor([0, 2, 0, 2]), 3, most=3)
    assert found[:, 0].tolist() == [12.0, 0.0, 4.0]


def test_where_every_feature_may_be_masked_the_range_takes_each_that_helps() -> None:
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * X
    graph = Graph.from_edges(x, GRAPH.edge_index)
    features = ChangedFeatures.at(graph, FeatureBudget(columns=6).on(graph), torch.arange(5))
    weight = WEIGHT.clone().requires_grad_()
    lower, upper = features.range(weight, x @ weight)
    products = x[:, :, None] * weight
    torch.testing.assert_close(lower, products.clamp(max=0).sum(dim=1))
    torch.testing.assert_close(upper, products.clamp(min=0).sum(dim=1))
    (found,) = torch.autograd.grad((lower.sin() + upper.cos()).sum(), weight, retain_graph=True)
    expected = products.clamp(max=0).sum(dim=1).sin().sum() + products.clamp(min=0).sum(dim=1).cos().sum()
    torch.testing.assert_close(found, *torch.autograd.grad(expected, weight))


@pytest.mark.parametrize("pairs", [[], [(0, 2)], [(0, 0), (0, 6), (2, 6), (2, 1), (3, 3)]])
def test_products_of_some_pairs_and_their_gradients_are_those_of_gathered_rows(pairs: list[tuple[int, int]]) -> None:
    vectors, weight = (torch.randn(rows, 5, dtype=torch.float64, requires_grad=True) for rows in (4, 7))
    owner, column = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    expected = (vectors[owner] * weight[column]).sum(dim=1)
    found: Tensor = _SomeProducts.apply(vectors, weight, owner, column)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found, expected)
    towards = torch.randn(len(pairs), dtype=torch.float64)
    gradients = (torch.autograd.grad(each, (vectors, weight), towards) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
