"""Training with features inside what is certified: views, regularizer and gradients."""

import pytest
import torch

import certgcl
from certgcl import Changes, FeatureBudget
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.random_features import columns_inside
from certgcl.errors import BudgetError
from certgcl.graphs.graph import Graph
from tests.toys import random_graph


def with_bits() -> Graph:
    graph = random_graph(12, 0.3, features=8)
    return graph.with_features((graph.x > 0).float())


BUDGETS = {
    "columns": FeatureBudget(columns=2),
    "masks": FeatureBudget(masked=1),
    "masks with a total": FeatureBudget(masked=2, total=9),
    "bits": FeatureBudget(turned_off=1, turned_on=1),
}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_columns_drawn_to_be_masked_are_cut_to_the_budget(budget: FeatureBudget) -> None:
    graph, allowed, generator = with_bits(), budget.on(with_bits()), torch.Generator().manual_seed(0)
    for _ in range(10):
        drawn = torch.rand(8, generator=generator) < 0.8
        masked = columns_inside(graph, allowed, drawn, generator)
        assert not bool((masked & ~drawn).any())
        after = graph.x * ~masked
        changed = ChangedEntries.between(torch.arange(graph.num_nodes), graph.x, after)
        assert changed.fault(graph, allowed) is None


def test_a_column_without_features_may_always_be_masked() -> None:
    graph = Graph.from_edges(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0, 1], [1, 0]]))
    drawn = torch.tensor([True, True])
    for budget in (FeatureBudget(columns=0), FeatureBudget(masked=0)):
        assert columns_inside(graph, budget.on(graph), drawn, None).tolist() == [False, True]


def test_no_mask_is_inside_a_box() -> None:
    graph = with_bits()
    with pytest.raises(BudgetError, match="a mask leaves the box"):
        columns_inside(graph, FeatureBudget(box=0.1).on(graph), torch.ones(8, dtype=torch.bool), None)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_method_trains_with_views_and_bounds_of_one_budget(budget: FeatureBudget) -> None:
    regularizer = certgcl.CompactnessRegularizer(budget=Changes(drops=1, features=budget), method="degree-fast")
    method = certgcl.GRACE(
        hidden=4, epochs=2, mask_rates=(0.5, 0.5), drop_rates=(0.3, 0.3), inside_budget=True, regularizer=regularizer
    )
    method.fit(with_bits())
    found = certgcl.node_compactness(method, with_bits(), Changes(drops=1, features=budget))
    assert bool((found.lower <= found.nominal + found.rounding).all())


def test_the_term_is_no_smaller_with_more_that_may_change() -> None:
    graph, encoder = with_bits(), certgcl.GCNEncoder(8, 4, 4)
    terms = []
    for features in (None, FeatureBudget(masked=1), FeatureBudget(masked=3)):
        regularizer = certgcl.CompactnessRegularizer(budget=Changes(drops=1, features=features))
        term = regularizer(encoder, graph, graph, graph)
        term.backward()
        terms.append(float(term.detach()))
    assert terms == sorted(terms)
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
