"""Masked columns of graphs with few features: every set of them is a graph of its own."""

from itertools import combinations

import pytest
import torch
from torch import Tensor

import certgcl
from certgcl import Changes, FeatureBudget
from certgcl.bounds.column_sets import MOST_FEATURES, few_columns
from certgcl.bounds.prepared import ChangeProblem


def ring(features: int, seed: int = 0) -> certgcl.Graph:
    one = torch.arange(7)
    edges = torch.stack([one, (one + 1) % 7])
    x = torch.randn(7, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return certgcl.Graph.from_edges(x, torch.cat([edges, edges.flip(0)], dim=1))


def encoder(features: int) -> certgcl.GCNEncoder:
    torch.manual_seed(0)
    return certgcl.GCNEncoder(features, 6, 4).double().eval()


def bound(graph: certgcl.Graph, changes: Changes) -> Tensor:
    directions = torch.randn(7, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return certgcl.linear_bounds(encoder(graph.num_features), graph, changes, directions).lower


@pytest.mark.parametrize("columns", [1, 2, 9])
def test_it_is_the_least_over_graphs_with_masked_columns(columns: int) -> None:
    graph = ring(4)
    expected = torch.stack(
        [
            bound(graph.with_features(graph.x.index_fill(1, torch.tensor(chosen, dtype=torch.long), 0)), Changes(1))
            for number in range(min(columns, 4) + 1)
            for chosen in combinations(range(4), number)
        ]
    ).amin(dim=0)
    found = bound(graph, Changes(1, features=FeatureBudget(columns=columns)))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_columns_without_values_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ring(5)
    empty = graph.with_features(graph.x.index_fill(1, torch.tensor([1, 3, 4]), 0))
    tried = []
    usual = certgcl.Graph.with_features

    def counted(self: certgcl.Graph, x: Tensor) -> certgcl.Graph:
        tried.append(x)
        return usual(self, x)

    monkeypatch.setattr(certgcl.Graph, "with_features", counted)
    bound(empty, Changes(1, features=FeatureBudget(columns=2)))
    assert len(tried) >= 4
    assert len({tuple(x.abs().sum(dim=0).tolist()) for x in tried}) == 4


def test_sparse_features_have_the_same_bound() -> None:
    graph, changes = ring(4), Changes(1, features=FeatureBudget(columns=2))
    sparse = certgcl.Graph.from_edges(graph.x.to_sparse_csr(), graph.edge_index)
    torch.testing.assert_close(bound(sparse, changes), bound(graph, changes))


@pytest.mark.parametrize(
    ("features", "changes", "few"),
    [
        (MOST_FEATURES, Changes(1, features=FeatureBudget(columns=2)), True),
        (MOST_FEATURES + 1, Changes(1, features=FeatureBudget(columns=2)), False),
        (2, Changes(1, features=FeatureBudget(columns=0)), False),
        (2, Changes(1, features=FeatureBudget(masked=1)), False),
        (2, Changes(1), False),
    ],
)
def test_few_features_of_masked_columns_are_few(features: int, changes: Changes, few: bool) -> None:
    graph = ring(features)
    assert few_columns(ChangeProblem(graph, changes.on(graph), torch.arange(7))) is few
