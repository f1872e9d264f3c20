from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
import torch
from surroundings import SURROUNDINGS, WEIGHTS, field_of, surroundings
from torch import Tensor
from toys import admissible_sets, drops_at, random_graph, random_tensor, toy_graph, without

from certgcl.budget import EdgeDropBudget
from certgcl.graph import Graph
from certgcl.search import ReceptiveField, Search, greedy_drop
from certgcl.search.batch import FieldBatch
from certgcl.search.changes import admissible_together, promising_changes

BUDGETS = [EdgeDropBudget(local=1), EdgeDropBudget(local=2), EdgeDropBudget(total=2), EdgeDropBudget(local=2, total=4),
           EdgeDropBudget(local=[k % 4 for k in range(14)])]

QUICK = Search(tried=(6,))
GRAPH = toy_graph(nx.disjoint_union(nx.empty_graph(1), nx.compose(  # a node alone, a hub and much between
    nx.gnp_random_graph(13, 0.15, seed=2), nx.star_graph(6))))


def edges_at(graph: Graph, field: ReceptiveField, positions: Tensor) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i, j in graph.edge_index[:, field.slots[positions]].T.tolist())


def value_of(field: ReceptiveField, dropped: Tensor, direction: Tensor) -> float:
    return float(field.embeddings(dropped[None])[0] @ direction)


def is_admissible(batch: FieldBatch, dropped: Tensor) -> bool:
    """Drops ``(B, ..., E)`` within all budgets, and none of the padding among them."""
    budget = batch.budget.view(len(dropped), *(1,) * (dropped.dim() - 2), -1)
    return bool((batch.lost(dropped) <= budget).all() and (dropped.sum(dim=-1) <= batch.total).all()
                and not dropped[..., -1].any())


def several_fields(budget: EdgeDropBudget) -> tuple[list[ReceptiveField], FieldBatch]:
    """All fields of the graph side by side."""
    fields = [field_of(GRAPH, anchor, budget)[0] for anchor in range(14)]
    return fields, FieldBatch.of(fields, budget.on(GRAPH), random_tensor(14, 3, seed=3))


def changed(dropped: Tensor, changes: Tensor) -> Tensor:
    """Drops ``(B, E)`` once each of C sets of edges ``(B, C, F)`` has changed sides, ``(B, C, E)``."""
    after = dropped[:, None].repeat(1, changes.shape[1], 1)
    for part in changes.unbind(dim=2):
        after.scatter_(2, part[..., None], ~after.gather(2, part[..., None]))
    after[..., -1] = False  # padding
    return after


def random_drops(batch: FieldBatch, seed: int) -> Tensor:
    """As many random edges as fit together, ``(B, E)``."""
    chance = random_tensor(*batch.ends.shape[:2], seed=seed)
    nothing = torch.zeros_like(chance, dtype=torch.bool)
    dropped = admissible_together(batch, nothing, chance, chance < 0.3)
    order = torch.where(dropped, chance, torch.inf).argsort(dim=1).argsort(dim=1)
    return dropped & (order < batch.total)


# -- the field -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("anchor", [3, 7, 9])
def test_a_field_is_all_that_an_embedding_depends_on(anchor: int, sparse: bool) -> None:
    """Every pair of droppable edges in it: the same embedding as the encoder has on the changed graph."""
    graph = random_graph(nodes=12, density=0.25, sparse=sparse)
    field, _ = field_of(graph, anchor)
    pairs = torch.tensor(list(combinations(range(field.edges.shape[1]), 2)))
    expected = torch.stack([WEIGHTS.embed(without(graph, edges_at(graph, field, pair)))[anchor]
                            for pair in pairs])
    torch.testing.assert_close(field.embeddings(pairs), expected)


def test_a_field_has_the_nodes_within_two_hops_and_the_edges_at_them() -> None:
    graph = toy_graph(nx.path_graph(8))
    field, _ = field_of(graph, 2)
    assert field.nodes.tolist() == [2, 1, 3, 0, 4, 5]
    assert field.degree.tolist() == [3, 3, 3, 2, 3, 3]
    assert field.adjacency.shape == (3, 5)
    assert edges_at(graph, field, torch.arange(5)) == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    assert [{i, j} for i, j in field.nodes[field.edges].T.tolist()] == [{k, k + 1} for k in range(5)]


def test_large_fields_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(nodes=12, density=0.4)
    field, drops = field_of(graph, 0)
    monkeypatch.setattr("certgcl.search.field.LARGEST_FIELD", field.adjacency.numel())
    assert ReceptiveField.around(graph, drops, WEIGHTS, 0) is not None
    monkeypatch.setattr("certgcl.search.field.LARGEST_FIELD", field.adjacency.numel() - 1)
    assert ReceptiveField.around(graph, drops, WEIGHTS, 0) is None


# -- fields side by side ---------------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS)
def test_values_side_by_side_are_those_of_each_field(budget: EdgeDropBudget) -> None:
    fields, batch = several_fields(budget)
    for seed in range(4):
        dropped = random_drops(batch, seed)
        assert is_admissible(batch, dropped)
        expected = [value_of(field, mask.nonzero()[:, 0], direction)
                    for field, mask, direction in zip(fields, dropped, batch.direction, strict=True)]
        torch.testing.assert_close(batch.values(dropped), torch.tensor(expected, dtype=torch.float64))
        some = torch.tensor([11, 0, 4])
        torch.testing.assert_close(batch.at(some).values(dropped[some]), batch.values(dropped)[some])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_values_after_changes_are_those_of_the_changed_drops(size: int) -> None:
    """Every set of edges of a small field, with ends in common and at the anchor, dropped or put back."""
    found = surroundings("no limit")
    batch = FieldBatch.of([found.field], found.drops, found.direction[None])
    changes = torch.tensor(list(combinations(range(found.field.edges.shape[1]), size)))
    for number in (0, 5, 77, 400, 800, 1023):
        dropped = torch.cat([found.sets[number], torch.tensor([False])])[None]
        after = changed(dropped, changes[None])[0, :, :-1]
        expected = [found.values[(found.sets == mask).all(dim=1)] for mask in after]
        torch.testing.assert_close(batch.values_after(dropped, changes[None])[0], torch.cat(expected))


@pytest.mark.parametrize("budget", BUDGETS)
def test_values_after_changes_are_so_in_fields_of_all_sizes(budget: EdgeDropBudget) -> None:
    """Random pairs with the edge that is nothing between them."""
    _, batch = several_fields(budget)
    last, chance = batch.ends.shape[1] - 1, torch.Generator().manual_seed(0)
    pairs = torch.rand(len(batch.fields), 40, last, generator=chance).topk(2, dim=2).indices
    padded = batch.ends[:, :, 0] == batch.degree.shape[1] - 1
    pairs = pairs.masked_fill(padded.gather(1, pairs.flatten(1)).view(pairs.shape), last)
    changes = torch.cat([pairs[..., :1], torch.full_like(pairs[..., :1], last), pairs[..., 1:]], dim=2)
    dropped = random_drops(batch, 1)
    expected = torch.stack([batch.values(after) for after in changed(dropped, changes).unbind(dim=1)], dim=1)
    torch.testing.assert_close(batch.values_after(dropped, changes), expected)


def test_gains_are_exact_changes_to_first_order() -> None:
    """No kinks in the activations: what is left falls with the square of the degrees, or faster."""
    smooth = replace(WEIGHTS, slope1=torch.ones(4, dtype=torch.float64), slope2=torch.ones(3, dtype=torch.float64))
    errors = []
    for nodes in (20, 40):
        field, drops = field_of(toy_graph(nx.complete_graph(nodes)), 0, 4, smooth)
        batch = FieldBatch.of([field], drops, random_tensor(1, 3, seed=1))
        dropped = random_drops(batch, 0)
        each = torch.arange(field.edges.shape[1])[None, :, None]
        change = (batch.values_after(dropped, each) - batch.values(dropped)[:, None])[0]
        *gains, of_nothing = batch.gains(dropped)[0].split([len(change), 1])
        assert float(of_nothing) == 0.0
        own = (field.edges == 0).any(dim=0)
        errors.append([float((gains[0] - change)[part].abs().max()) for part in (own, ~own)])
        for part in (own, ~own):
            assert torch.corrcoef(torch.stack([gains[0][part], change[part]]))[0, 1] > 0.99
    assert all(large < small / 3 for small, large in zip(*errors, strict=True))


# -- changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_proposed_change_is_admissible(budget: EdgeDropBudget) -> None:
    _, batch = several_fields(budget)
    everywhere = torch.ones(batch.ends.shape[:2], dtype=torch.bool)
    for seed in range(4):
        dropped = random_drops(batch, seed)
        changes = promising_changes(batch, dropped, everywhere, 200)
        after = changed(dropped, changes)
        assert is_admissible(batch, after)
        real = (after != dropped[:, None]).any(dim=2)
        assert real.any()
        assert not real[0].any()  # a node alone


@pytest.mark.parametrize("budget", BUDGETS)
def test_edges_that_go_together_fit_and_the_best_is_among_them(budget: EdgeDropBudget) -> None:
    _, batch = several_fields(budget)
    dropped, gains = random_drops(batch, 1), random_tensor(*batch.ends.shape[:2], seed=9)
    chosen = admissible_together(batch, dropped, gains, gains < 0)
    assert not (chosen & (dropped | (gains >= 0))).any()
    assert (batch.lost(dropped | chosen) <= batch.budget).all()
    left = batch.budget - batch.lost(dropped)
    fits = (left.gather(1, batch.ends.flatten(1)).view(batch.ends.shape) > 0).all(dim=2) & ~dropped & (gains < 0)
    best = torch.where(fits, gains, torch.inf).argmin(dim=1)
    assert torch.equal(chosen.gather(1, best[:, None])[:, 0], fits.any(dim=1))


# -- the search ------------------------------------------------------------------------------------


def test_a_node_alone_has_nothing_to_drop() -> None:
    field, drops = field_of(toy_graph(nx.disjoint_union(nx.empty_graph(1), nx.path_graph(2))), 0)
    assert greedy_drop(field, drops, torch.ones(3, dtype=torch.float64)).numel() == 0


def test_without_fields_nothing_is_found() -> None:
    _, drops = field_of(random_graph(), 0)
    assert Search()([], drops, torch.empty(0, 3, dtype=torch.float64)) == []


@pytest.mark.parametrize("budget", [EdgeDropBudget(local=1), EdgeDropBudget(local=2), EdgeDropBudget(total=2)])
@pytest.mark.parametrize("anchor", range(6))
def test_the_search_stays_admissible_and_comes_near_the_minimum(budget: EdgeDropBudget, anchor: int) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=anchor)
    field, drops = field_of(graph, anchor, budget)
    direction = random_tensor(3, seed=anchor)
    found = edges_at(graph, field, greedy_drop(field, drops, direction))
    assert bool((drops_at(found, 6) <= drops.local).all())
    assert len(found) <= drops.total
    clean, value = (float(WEIGHTS.embed(view)[anchor] @ direction) for view in (graph, without(graph, found)))
    lowest = min(float(WEIGHTS.embed(without(graph, dropped))[anchor] @ direction)
                 for dropped in admissible_sets(graph, drops.local, drops.total))
    assert lowest - 1e-12 <= value <= clean
    assert clean - value >= 0.3 * (clean - lowest)  # a whole set may be better than its edges one by one


@pytest.mark.parametrize("budget", BUDGETS)
def test_fields_together_are_searched_as_one_by_one(budget: EdgeDropBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, batch = several_fields(budget)
    drops, directions = budget.on(GRAPH), batch.direction
    together = QUICK(fields, drops, directions)
    for field, direction, found in zip(fields, directions, together, strict=True):
        lost = torch.bincount(field.edges[:, found].flatten(), minlength=len(field.nodes))
        assert (lost <= drops.local[field.nodes]).all()
        assert len(found) <= drops.total
        assert value_of(field, found, direction) <= value_of(field, found[:0], direction)
    monkeypatch.setattr("certgcl.search.descent.MAX_ELEMENTS", 0)  # a batch for each
    alone = QUICK(fields[::3], drops, directions[::3])
    assert [found.tolist() for found in together[::3]] == [found.tolist() for found in alone]


def test_a_search_is_reproducible_and_draws_no_random_numbers_of_others() -> None:
    fields, batch = several_fields(BUDGETS[0])
    found = []
    for seed in (1, 2):
        state = torch.manual_seed(seed).get_state()
        found.append([each.tolist() for each in QUICK(fields, BUDGETS[0].on(GRAPH), batch.direction)])
        assert torch.equal(torch.get_rng_state(), state)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_search_ends_between_minimum_and_clean_value(name: str) -> None:
    found = surroundings(name)
    dropped = Search(restarts=0)([found.field], found.drops, found.direction[None])[0]
    value = value_of(found.field, dropped, found.direction)
    assert found.minimum - 1e-12 <= value <= float(found.values[0]) + 1e-12


@pytest.mark.parametrize("seed", [0, 3])
def test_more_restarts_are_never_worse(seed: int) -> None:
    graph = random_graph(nodes=12, density=0.45)
    fields, directions = [field_of(graph, anchor)[0] for anchor in range(12)], random_tensor(12, 3, seed=3)
    values = []
    for restarts in (0, 1, 3):
        found = Search(restarts, tried=(4,), seed=seed)(fields, EdgeDropBudget(local=2).on(graph), directions)
        values.append([value_of(*each) for each in zip(fields, found, directions, strict=True)])
    fewer, more = torch.tensor(values[:-1]), torch.tensor(values[1:])
    assert (more <= fewer).all()
    assert (more < fewer).any()


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_improved_drops_are_admissible_and_no_worse_than_their_start(name: str) -> None:
    found = surroundings(name)
    for number in range(0, len(found.sets), len(found.sets) // 4):
        dropped = Search(tried=(4,)).improved(found.field, found.drops, found.direction, found.drops_of(number))
        mask = torch.zeros_like(found.sets[0])
        mask[dropped] = True
        value = found.values[(found.sets == mask).all(dim=1)]
        assert len(value) == 1  # it is among the admissible ones
        assert float(value) <= float(found.values[number]) + 1e-12


def test_steps_and_tried_changes_limit_a_search() -> None:
    """Two ways, first near the node and then anywhere: a step of each changes at most one edge, or three."""
    found = surroundings("no limit")
    start = found.drops_of(0)
    nothing, little, much = (Search(restarts=0, steps=steps, tried=(2,)).improved(
        found.field, found.drops, found.direction, start) for steps in (0, 1, 256))
    values = [value_of(found.field, dropped, found.direction) for dropped in (nothing, little, much)]
    assert nothing.tolist() == []
    assert values == sorted(values, reverse=True)
    assert values[0] > values[1]
