"""The search for features that hurt stays within its budget, and finds what trying all of them finds."""

import pytest
import torch

import certgcl
from certgcl import FeatureBudget
from certgcl.attacks.features import FeatureField
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.changes.random_features import random_features
from certgcl.graphs.graph import Graph
from tests.toys import random_graph, random_tensor, toy_network

BUDGETS = {
    "masks": FeatureBudget(masked=1),
    "masks with a total": FeatureBudget(masked=2, total=2),
    "bits": FeatureBudget(turned_off=1, turned_on=1, total=3),
    "columns": FeatureBudget(columns=1),
    "a box": FeatureBudget(box=0.1),
}
budgets = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


def with_bits(seed: int = 0) -> Graph:
    graph = random_graph(6, 0.3, seed)
    return graph.with_features((graph.x > 0).double())


def field(budget: FeatureBudget, graph: Graph, anchor: int = 0) -> FeatureField:
    return FeatureField.of(toy_network(), graph, budget.on(graph), anchor)


@budgets
def test_a_field_has_the_embedding_of_the_whole_graph(budget: FeatureBudget) -> None:
    graph = with_bits()
    for anchor in range(graph.num_nodes):
        here = field(budget, graph, anchor)
        torch.testing.assert_close(here.embeddings(here.x[None])[0], toy_network().embed(graph)[anchor])


@budgets
def test_what_is_found_is_admissible_and_has_the_value_it_says(budget: FeatureBudget) -> None:
    graph, direction = with_bits(), random_tensor(3, seed=1)
    for anchor in range(graph.num_nodes):
        here = field(budget, graph, anchor)
        value, x = here.search(direction)
        changed = here.changed(x)
        assert changed.fault(graph, budget.on(graph)) is None
        whole = toy_network().embed(graph.with_features(changed.applied(graph)))[anchor] @ direction
        assert float(whole) == pytest.approx(value)
        nothing = graph.col.new_empty(2, 0)
        again = DropEvaluation.of(toy_network(), graph).embedding(anchor, nothing, changed) @ direction
        assert float(again) == pytest.approx(value)


def test_trying_all_is_never_above_the_search() -> None:
    direction = random_tensor(3, seed=1)
    for seed in range(3):
        graph = with_bits(seed)
        for budget in (BUDGETS["masks with a total"], BUDGETS["columns"]):
            here = field(budget, graph)
            least, searched = here.least(direction)[0], here.search(direction)[0]
            assert least <= searched + 1e-12
            number = here.number()
            assert number is not None
            assert len(list(here._all())) <= number


@budgets
def test_random_features_are_admissible_and_change_as_much_as_they_may(budget: FeatureBudget) -> None:
    graph, generator = with_bits(), torch.Generator().manual_seed(0)
    allowed = budget.on(graph)
    for _ in range(5):
        after = random_features(graph, allowed, generator)
        changed = ChangedEntries.between(torch.arange(graph.num_nodes), graph.x, after)
        assert changed.fault(graph, allowed) is None
        assert len(changed) == {"box": graph.x.numel()}.get(allowed.kind, len(changed)) > 0
        if allowed.kind in ("masked", "bits"):
            assert len(changed) == allowed.total


FAULTS = {
    "more features": (FeatureBudget(masked=1), [[0, 0], [0, 1]], [0.0, 0.0]),
    "in all": (FeatureBudget(masked=2, total=1), [[0, 1], [0, 0]], [0.0, 0.0]),
    "neither 0 nor 1": (FeatureBudget(masked=2), [[0], [0]], [0.5]),
    "outside the box": (FeatureBudget(box=0.1), [[0], [0]], [1.2]),
    "columns masked": (FeatureBudget(columns=1), [[0, 0], [0, 1]], [0.0, 0.0]),
    "does not have": (FeatureBudget(masked=2), [[9], [0]], [0.0]),
    "twice": (FeatureBudget(masked=2), [[0, 0], [0, 0]], [0.0, 0.0]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_features_beyond_a_budget_are_found_out(fault: str) -> None:
    graph = Graph.from_edges(torch.ones(2, 3), torch.tensor([[0, 1], [1, 0]]))
    budget, places, values = FAULTS[fault]
    changed = ChangedEntries(*torch.tensor(places), torch.tensor(values).double())
    assert fault in str(changed.fault(graph, budget.on(graph)))


# -- in certificates -------------------------------------------------------------------------------


@budgets
@pytest.mark.parametrize("drops", [0, 1])
def test_exact_brackets_have_witnesses_that_verify(budget: FeatureBudget, drops: int, tmp_path: object) -> None:
    graph, network = with_bits(), toy_network()
    found = certgcl.node_compactness(network, graph, certgcl.Changes(drops, budget), method="exact")
    assert found.upper is not None
    assert bool((found.lower <= found.upper + found.rounding).all())
    assert found.verify(network, graph).ok
    again = certgcl.Certificate.load(found.save(f"{tmp_path}/exact.npz"))
    assert again.verify(network, graph).ok
    some = again.at(torch.tensor([1, 0]))
    assert torch.equal(some.changed_features(1).columns, found.changed_features(1).columns)
    if not drops and budget is not BUDGETS["a box"]:
        assert bool(found.exact.all())


def test_a_witness_beyond_its_budget_does_not_verify() -> None:
    graph, network = with_bits(), toy_network()
    found = certgcl.node_compactness(network, graph, certgcl.Changes(features=BUDGETS["masks"]), method="exact")
    wide = certgcl.node_compactness(network, graph, certgcl.Changes(features=FeatureBudget(masked=3)), method="exact")
    assert found.changed is not None
    forged = certgcl.Certificate(**{**vars(found), "upper": wide.upper, "changed": wide.changed})
    assert not forged.verify(network, graph).ok


def test_the_audit_finds_no_violation_of_features_and_drops() -> None:
    from certgcl.certify.audit import audit

    for budget in BUDGETS.values():
        report = audit(toy_network(), with_bits(), certgcl.Changes(1, budget), samples=20, searches=4)
        assert not len(report.violations)
        assert bool((report.lowest < report.certificate.nominal).any())


def test_certified_accuracy_knows_predictions_that_features_break() -> None:
    graph, network = with_bits(), toy_network()
    labels = network.embed(graph).argmax(dim=1)
    found = certgcl.certified_accuracy(network, graph, labels, certgcl.Changes(features=FeatureBudget(masked=3)))
    assert not bool((found.broken & found.stable).any())
    assert bool(found.broken.any())
