"""The term of a batch is certified on the whole graph: its anchors have all their neighbours."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, combinations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.bounds import ChangeProblem, get_method
from certgcl.changes.changes import Changes
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.changes.feature_changes import FeatureBudget
from certgcl.errors import BudgetError, InputError, OutOfMemoryError
from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import Halo, halo_of
from certgcl.learning import halo_term as module
from certgcl.learning.halo_term import check_term, halo_bounds, halo_term
from certgcl.learning.methods.sampling import Sample, TorchSampler
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.models.network import GraphNetwork
from certgcl.runtime.randomness import generator_on
from tests.toys import admissible_sets, random_graph, toy_network, without


def directions_of(nodes: int, width: int) -> Tensor:
    return torch.randn(nodes, 2, width, dtype=torch.float64, generator=generator_on("cpu", 5))


def smallest(
    network: GraphNetwork, graph: Graph, local: Tensor | int, total: int | None, anchors: Tensor, directions: Tensor
) -> Tensor:
    """The least ``w · z`` over every admissible drop set, one after the other."""
    views = (without(graph, dropped) for dropped in admissible_sets(graph, local, total))
    return torch.stack([(directions * network.embed(view)[anchors].unsqueeze(1)).sum(dim=-1) for view in views]).amin(
        dim=0
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    density=st.sampled_from([0.15, 0.3]),
    local=st.integers(0, 2),
    total=st.sampled_from([None, 1, 3]),
    method=st.sampled_from(["degree-fast", "degree", "crown"]),
)
@example(seed=3, density=0.3, local=1, total=2, method="degree-fast")
def test_a_bound_on_the_halo_is_one_on_the_whole_graph(
    seed: int, density: float, local: int, total: int | None, method: str
) -> None:
    graph, network = random_graph(nodes=8, density=density, seed=seed), toy_network()
    if graph.num_edges > 9:
        return
    anchors, budget = torch.tensor([1, 6]), EdgeDropBudget(local, total)
    directions = directions_of(2, network.width)
    regularizer = CompactnessRegularizer(method=method, budget=budget)
    lower = halo_bounds(regularizer, network, graph, halo_of(graph, anchors, network.hops), directions)
    assert bool((lower <= smallest(network, graph, local, total, anchors, directions) + 1e-9).all())


FEATURES = {
    "masked": FeatureBudget(masked=1, total=2),
    "masked at some nodes": FeatureBudget(masked=[0, 3, 1, 0, 2, 3, 1], total=2),
    "bits": FeatureBudget(turned_off=1, turned_on=1, total=2),
    "columns": FeatureBudget(columns=2),
    "columns by a rate": FeatureBudget.from_mask_rate(0.4, coverage=0.9),
    "box": FeatureBudget(box=[0.1, 0.0, 0.3, 0.2, 0.1, 0.4, 0.2]),
}


def sparse_graph(seed: int, bits: bool) -> Graph:
    """A path of 7 nodes with some features that are zero, and one more edge: two hops do not reach everywhere."""
    path = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (0, 2)][: 6 + seed % 2]
    ends = torch.tensor(path).T
    x = random_graph(nodes=7, seed=seed).x
    x = (x > 0).double() if bits else x * (x.abs() > 0.3)
    return Graph.from_edges(x, torch.cat([ends, ends.flip(0)], dim=1))


def features_within(graph: Graph, budget: FeatureBudget) -> Iterator[Tensor]:
    """Every admissible X̃; some of a box."""
    allowed, (nodes, width) = budget.on(graph), graph.x.shape
    if allowed.kind == "box":
        yield from (
            graph.x
            + allowed.radius[:, None] * (2 * torch.rand(nodes, width, generator=generator_on("cpu", seed)) - 1).sign()
            for seed in range(50)
        )
        return
    if allowed.kind == "columns":
        for columns in combinations(range(width), min(width, allowed.columns)):
            x = graph.x.clone()
            x[:, columns] = 0
            yield x
        return
    for entries in chain.from_iterable(combinations(range(nodes * width), size) for size in range(allowed.total + 1)):
        x, place = graph.x.clone(), torch.tensor(entries, dtype=torch.long)
        x.view(-1)[place] = (x.view(-1)[place] == 0).double()
        off, on = ((there.sum(dim=1)) for there in ((graph.x != 0) & (x == 0), (graph.x == 0) & (x != 0)))
        if bool((off <= allowed.off).all() and (on <= allowed.on).all()):
            yield x


def smallest_with_features(
    network: GraphNetwork, graph: Graph, drops: int, budget: FeatureBudget, anchors: Tensor, directions: Tensor
) -> Tensor:
    """All admissible features at once, on a graph with as many copies."""
    every = torch.stack(list(features_within(graph, budget)))
    offset = graph.num_nodes * torch.arange(len(every))[:, None]
    values = []
    for dropped in admissible_sets(graph, drops):
        copies = without(graph, dropped).edge_index[:, None] + offset
        z = network.embed(Graph.from_edges(every.flatten(0, 1), copies.flatten(1))).unflatten(0, every.shape[:2])
        values.append((directions * z[:, anchors].unsqueeze(2)).sum(dim=-1))
    return torch.cat(values).amin(dim=0)


@pytest.mark.parametrize("drops", [0, 1])
@pytest.mark.parametrize("name", FEATURES)
def test_a_bound_on_the_halo_covers_changed_features(name: str, drops: int) -> None:
    network, anchors, budget = toy_network(), torch.tensor([0, 5]), FEATURES[name]
    directions = directions_of(2, network.width)
    for seed in range(2):
        graph = sparse_graph(seed, name == "bits")
        minimum = smallest_with_features(network, graph, drops, budget, anchors, directions)
        for method in ("degree-fast", "degree", "crown"):
            regularizer = CompactnessRegularizer(method=method, budget=Changes(drops=drops, features=budget))
            lower = halo_bounds(regularizer, network, graph, halo_of(graph, anchors, network.hops), directions)
            assert bool((lower <= minimum + 1e-9).all())


def test_budgets_of_features_are_those_of_the_nodes_in_the_whole_graph() -> None:
    """A budget by the order of nodes in the halo would be too small: enumeration is below the bound."""
    network, anchors, wrong = toy_network(), torch.tensor([5]), 0
    directions = directions_of(1, network.width)
    for seed in range(4):
        graph, budget = sparse_graph(seed, bits=False), FeatureBudget(masked=[0, 0, 0, 0, 0, 3, 3], total=2)
        minimum = smallest_with_features(network, graph, 0, budget, anchors, directions)
        halo = halo_of(graph, anchors, network.hops)
        regularizer = CompactnessRegularizer(method="degree", budget=Changes(features=budget))
        mutant = replace(halo, nodes=torch.arange(len(halo.nodes)))
        assert bool((halo_bounds(regularizer, network, graph, halo, directions) <= minimum + 1e-9).all())
        wrong += int((halo_bounds(regularizer, network, graph, mutant, directions) > minimum + 1e-6).sum())
    assert wrong > 0


def test_a_mask_rate_counts_the_columns_of_the_whole_graph() -> None:
    x = torch.zeros(5, 40, dtype=torch.float64)
    x[0, 0] = 1
    x[4] = 1
    ends = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    graph = Graph.from_edges(x, torch.cat([ends, ends.flip(0)], dim=1))
    budget = FeatureBudget.from_mask_rate(0.5)
    at_both_ends = budget.on_halo(halo_of(graph, torch.tensor([0, 4]), 1), graph)
    assert at_both_ends.columns == budget.on(graph).columns > 20
    assert budget.on_halo(halo_of(graph, torch.tensor([0]), 1), graph).columns == 1


def degrees_of_the_halo(halo: Halo, graph: Graph, anchors: Tensor) -> Halo:
    """Budgets by the edges that a node has in the halo, which are fewer at its rim."""
    return replace(halo, degree=halo.graph.degree)


def a_hop_less(halo: Halo, graph: Graph, anchors: Tensor) -> Halo:
    return halo_of(graph, anchors, 1)


def rim_without_budgets(halo: Halo, graph: Graph, anchors: Tensor) -> Halo:
    """Nodes whose features no anchor sees lose nothing, as if their numbers of edges did not matter."""
    inside = torch.isin(halo.nodes, halo_of(graph, anchors, 1).nodes)
    return replace(halo, degree=halo.degree * inside)


def anchors_in_another_order(halo: Halo, graph: Graph, anchors: Tensor) -> Halo:
    return replace(halo, anchors=halo.anchors.flip(0))


@pytest.mark.parametrize(
    "mutant", [degrees_of_the_halo, a_hop_less, rim_without_budgets, anchors_in_another_order], ids=lambda m: m.__name__
)
def test_a_wrong_halo_is_caught_by_enumeration(mutant: Callable[[Halo, Graph, Tensor], Halo]) -> None:
    anchors, wrong = torch.tensor([1, 6]), 0
    regularizer = CompactnessRegularizer(method="degree", budget=0.5)
    for seed in range(40):
        graph, network = random_graph(nodes=8, density=0.25, seed=seed), toy_network()
        if graph.num_edges > 9:
            continue
        directions = directions_of(2, network.width)
        halo = mutant(halo_of(graph, anchors, network.hops), graph, anchors)
        lower = halo_bounds(regularizer, network, graph, halo, directions)
        local = (0.5 * graph.degree).round().long()
        wrong += int((lower > smallest(network, graph, local, None, anchors, directions) + 1e-6).sum())
    assert wrong > 0


def test_a_bound_on_a_sampled_neighbourhood_would_be_none() -> None:
    """Why the anchors are not sampled: the least value of a sample can be above that of the graph."""
    wrong = 0
    for seed in range(12):
        graph, network = random_graph(nodes=8, density=0.25, seed=seed), toy_network()
        if graph.num_edges > 9:
            continue
        anchors = torch.tensor([1, 6])
        directions = directions_of(2, network.width)
        sample = Sample.of(graph, anchors, TorchSampler(graph, 2, 1).edges(anchors, generator_on("cpu", 0)))
        problem = ChangeProblem(sample.graph, Changes(drops=1).on(sample.graph), sample.places, only_anchors=True)
        lower = get_method("degree-fast")(network, problem, directions)
        wrong += int((lower > smallest(network, graph, 1, None, anchors, directions) + 1e-6).sum())
    assert wrong > 0


@pytest.mark.parametrize("objective", ["bound", "kept"])
@pytest.mark.parametrize(
    "budget",
    [
        1,
        0.4,
        EdgeDropBudget(local=2, total=3),
        Changes(features=FeatureBudget(masked=1)),
        Changes(drops=1, features=FeatureBudget(masked=2, total=3)),
        Changes(drops=1, features=FeatureBudget(columns=1)),
        Changes(drops=0.4, features=FeatureBudget.from_mask_rate(0.3)),
        Changes(features=FeatureBudget(box=0.1)),
    ],
    ids=str,
)
def test_the_term_of_all_nodes_is_that_of_the_whole_graph(objective: str, budget: object) -> None:
    graph, network = random_graph(nodes=30, density=0.1), toy_network()
    regularizer = CompactnessRegularizer(budget=budget, objective=objective)  # type: ignore[arg-type]
    views = [graph.with_edges(graph.rowptr, graph.col), graph]
    z1, z2 = network.embed(graph), network.embed(graph) + 0.1
    expected = regularizer(network, graph, *views, embeddings=(z1, z2))
    order = torch.randperm(30, generator=generator_on("cpu", 0))
    found = halo_term(regularizer, network, graph, order, (z1[order], z2[order]), generator_on("cpu", 0))
    torch.testing.assert_close(found, expected)


def test_so_many_anchors_are_drawn_among_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, network, seen = random_graph(nodes=30, density=0.1), toy_network(), []
    monkeypatch.setattr(
        module, "halo_of", lambda graph, anchors, *rest: seen.append(anchors) or halo_of(graph, anchors, *rest)
    )
    nodes = torch.tensor([20, 3, 11, 7, 28])
    z = network.embed(graph)[nodes]
    halo_term(CompactnessRegularizer(budget=1, anchors=3), network, graph, nodes, (z, z), generator_on("cpu", 0))
    assert len(seen[0]) == 3
    assert set(seen[0].tolist()) < set(nodes.tolist())


def test_a_halo_beyond_the_memory_is_refused_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, network = random_graph(nodes=30, density=0.3), toy_network()
    monkeypatch.setattr(module, "default_limit", lambda device: 4000)
    z = network.embed(graph)
    with pytest.raises(OutOfMemoryError, match="fewer anchors"):
        halo_term(CompactnessRegularizer(budget=1), network, graph, torch.arange(30), (z, z))


def test_what_needs_the_whole_graph_is_refused() -> None:
    for budget in (Changes(additions=1), Changes(flips=1), Changes(additions=1, features=FeatureBudget(masked=1))):
        with pytest.raises(BudgetError, match=r"batch_nodes.*any node"):
            check_term(CompactnessRegularizer(budget=budget))
    with pytest.raises(InputError, match="views of the whole graph"):
        check_term(CompactnessRegularizer(method="paper", budget=1))
