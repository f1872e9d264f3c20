"""The row lemma: its formula, its gradient, and what it bounds."""

from itertools import combinations, product

import networkx as nx
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import DropCases, drop_cases
from certgcl.bounds.two_layer import blocks, sorted_row
from certgcl.bounds.two_layer.blocks import Block
from certgcl.bounds.two_layer.neighbourhood import Hop
from certgcl.bounds.two_layer.row_lemma import case_minima, largest_gain, least_terms
from certgcl.bounds.two_layer.row_plan import Partition
from certgcl.bounds.two_layer.row_tables import take
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import (
    SIX_NODE_BUDGETS,
    admissible_sets,
    drops_at,
    edges_of,
    hood_of,
    random_graph,
    random_tensor,
    toy_graph,
    without,
)

Inputs = tuple[Tensor, Tensor, Tensor]

MIXED = (nx.Graph([(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (1, 3), (2, 3), (4, 5)]), [4, 2, 0, 1, 2, 1])
ALL_DROPPABLE = (nx.complete_graph(4), [3] * 4)
SHARED = {"nothing": (False, False), "terms": (True, False), "terms and own": (True, True)}

every_row = pytest.mark.parametrize("source", [MIXED, ALL_DROPPABLE], ids=["mixed", "all droppable"])
every_resolution = pytest.mark.parametrize("resolution", [9, 3, 2, 1])
whatever_is_shared = pytest.mark.parametrize("shared", SHARED)


def block_of(source: tuple[nx.Graph, list[int]], resolution: int) -> Block:
    """All rows of a graph with local budgets, in one block."""
    hop = hood_of(toy_graph(source[0]), EdgeDropBudget(local=source[1])).inner
    assert hop.budget.tolist() == source[1]
    (block,) = blocks.blocks(hop, drop_cases(hop, resolution), lambda size, cases: 1, torch.arange(len(hop.nodes)))
    return block


def random_inputs(block: Block, shared: str, seed: int = 0, sets: int = 2, functionals: int = 1) -> Inputs:
    """Terms, own and own squared; some of them the same in all cases."""
    number, cases = len(block.rows), [1 if same else block.cases.most for same in SHARED[shared]]
    terms = random_tensor(number, block.size, sets, cases[0], functionals, seed=seed)
    own, own_squared = random_tensor(2, number, sets, cases[1], functionals, seed=seed + 1)
    return terms * block.valid[..., None, None, None], own, own_squared


def tied(inputs: Inputs) -> Inputs:
    """The same with -1, 0 and 1 as the only values."""
    terms, own, own_squared = (values.round().clamp(-1, 1) for values in inputs)
    return terms, own, own_squared


def requiring_gradients(inputs: Inputs) -> Inputs:
    terms, own, own_squared = (values.clone().requires_grad_() for values in inputs)
    return terms, own, own_squared


# -- its formula -----------------------------------------------------------------------------------


def by_formula(block: Block, terms: Tensor, own: Tensor, own_squared: Tensor | None, more: int) -> Tensor:
    """``min_t s (s (own + s² own_squared) + Σ_k g_k - top_(t + more))`` one by one, zero for cases a row has not."""
    sets, functionals = terms.shape[2], terms.shape[4]
    least = torch.zeros(len(block.rows), sets, block.cases.most, functionals, dtype=terms.dtype)
    for row, i, case, m in product(*map(range, least.shape)):
        if case >= block.cases.number[row]:
            continue
        g = terms[row, :, i, min(case, terms.shape[3] - 1), m]
        at = row, i, min(case, own.shape[2] - 1), m
        largest = sorted(g[block.droppable[row]].tolist(), reverse=True)
        values = []
        for t in range(int(block.cases.first[row, case]), int(block.cases.last[row, case]) + 1):
            s = (int(block.cases.degree[row]) + 1 - t) ** -0.5
            part = float(own[at]) + (s**2 * float(own_squared[at]) if own_squared is not None else 0)
            values.append(s * (s * part + float(g.sum()) - sum(largest[: t + more])))
        least[row, i, case, m] = min(values)
    return least


@every_row
@every_resolution
@whatever_is_shared
@pytest.mark.parametrize("squared", [False, True])
def test_the_lemma_is_its_formula(
    source: tuple[nx.Graph, list[int]], resolution: int, shared: str, squared: bool
) -> None:
    block = block_of(source, resolution)
    terms, own, own_squared = random_inputs(block, shared, functionals=2)
    given = terms, own, own_squared if squared else None
    least, following = case_minima(block, *given, following=True)
    (alone,) = case_minima(block, *given)
    has = block.has_case()[:, None, :, None]
    for found, more in ((least, 0), (following, 1), (alone, 0)):
        torch.testing.assert_close(found * has, by_formula(block, *given, more), rtol=1e-13, atol=1e-13)


@every_row
@pytest.mark.parametrize("resolution", [9, 2])
@whatever_is_shared
@pytest.mark.parametrize("ties", [False, True])
def test_counts_are_treated_alike_one_by_one_and_all_at_once_by_merging_and_by_sorting(
    monkeypatch: pytest.MonkeyPatch, source: tuple[nx.Graph, list[int]], resolution: int, shared: str, ties: bool
) -> None:
    block = block_of(source, resolution)
    inputs = random_inputs(block, shared, functionals=3)
    inputs = requiring_gradients(tied(inputs) if ties else inputs)
    merge, merged = sorted_row.largest_by_merging, []

    def watched(values: Tensor, number: int) -> list[Tensor]:
        merged.append(number)
        return merge(values, number)

    def results(few: int, pays: int) -> list[Tensor]:
        monkeypatch.setattr(sorted_row, "FEW_COUNTS", few)
        monkeypatch.setattr(sorted_row, "MERGING_PAYS", pays)
        found = case_minima(block, *inputs, following=True)
        return [*found, *torch.autograd.grad(sum(values.sum() for values in found), inputs)]

    monkeypatch.setattr(sorted_row, "largest_by_merging", watched)
    all_at_once, by_sorting = results(few=0, pays=0), results(few=9, pays=1 << 30)
    assert not merged
    by_merging = results(few=9, pays=0)
    assert block.size in merged
    assert all(map(torch.equal, by_merging, by_sorting))
    for found, expected in zip(all_at_once, by_sorting, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("size", [*range(1, 14), 20, 33])
def test_merging_finds_the_largest_in_order(size: int) -> None:
    values = random_tensor(50, size, 2, seed=size)
    for given in (values, values.round()):  # and with ties
        for number in range(1, size + 1):
            found = torch.stack(sorted_row.largest_by_merging(given, number), dim=1)
            assert torch.equal(found, given.topk(number, dim=1).values)


@pytest.mark.parametrize("values", [(), (3,), (2, 1, 3)])
def test_least_terms_take_the_scale_that_hurts_and_are_zero_where_padded(values: tuple[int, ...]) -> None:
    block = block_of(MIXED, 9)
    given = random_tensor(len(block.rows), block.size, *values, seed=0)
    found = least_terms(block, given)
    low, high = (end.view(*end.shape, *(1 for _ in values)) for end in (block.neighbours.low, block.neighbours.high))
    torch.testing.assert_close(found, torch.minimum(low * given, high * given), rtol=1e-14, atol=0)
    assert not found[~block.valid].any()
    assert found[block.valid].all()


# -- its gradient ----------------------------------------------------------------------------------


@every_row
@pytest.mark.parametrize("resolution", [9, 2])
@whatever_is_shared
def test_gradients_are_those_of_finite_differences(
    source: tuple[nx.Graph, list[int]], resolution: int, shared: str
) -> None:
    block = block_of(source, resolution)
    assert (block.scale.high is None) == (resolution == 9)
    inputs = requiring_gradients(random_inputs(block, shared))
    assert torch.autograd.gradcheck(lambda *given: tuple(case_minima(block, *given, following=True)), inputs)
    assert torch.autograd.gradcheck(lambda *given: tuple(case_minima(block, *given)), inputs[:2])


@every_row
@every_resolution
@whatever_is_shared
def test_values_are_the_same_without_gradients(
    source: tuple[nx.Graph, list[int]], resolution: int, shared: str
) -> None:
    block = block_of(source, resolution)
    inputs = random_inputs(block, shared)
    plain = case_minima(block, *inputs, following=True)
    with_gradients = case_minima(block, *requiring_gradients(inputs), following=True)
    assert not any(values.requires_grad for values in plain)
    assert all(values.requires_grad for values in with_gradients)
    assert all(map(torch.equal, plain, with_gradients))


@every_row
@every_resolution
@pytest.mark.parametrize("following", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_at_ties_the_shares_that_are_kept_add_up(
    source: tuple[nx.Graph, list[int]], resolution: int, following: int, seed: int
) -> None:
    block = block_of(source, resolution)
    terms, own, _ = requiring_gradients(tied(random_inputs(block, "nothing", seed, sets=9)))
    least = case_minima(block, terms, own, following=True)[following]
    of_terms, of_own = torch.autograd.grad(least.sum(), (terms, own))
    has = block.has_case()[:, None, :, None].expand_as(of_own)

    # The gradient of own is s(t)², which tells the count t.
    count = (block.cases.degree + 1).view(-1, 1, 1, 1) - 1 / of_own
    torch.testing.assert_close(count[has], count[has].round(), rtol=0, atol=1e-12)
    first, last = (table[:, None, :, None].expand_as(has)[has] for table in (block.cases.first, block.cases.last))
    assert ((first <= count[has].round()) & (count[has].round() <= last)).all()

    share = of_terms / of_own.sqrt()[:, None]
    droppable = block.droppable[..., None, None, None].expand_as(share)
    torch.testing.assert_close(share[~droppable], torch.ones_like(share[~droppable]))
    left = (droppable.sum(dim=1) - count - following).clamp(min=0)
    torch.testing.assert_close((share * droppable).sum(dim=1)[has], left[has], rtol=0, atol=1e-12)
    assert (share > -1e-12).all()
    assert (share < 1 + 1e-12).all()
    # Equal terms have equal shares, larger ones no larger shares.
    not_smaller = (terms[:, :, None] >= terms[:, None]) & droppable[:, :, None] & droppable[:, None]
    assert (share[:, :, None] <= share[:, None] + 1e-12)[not_smaller].all()
    assert block.scale.high is not None or ((share > 0.1) & (share < 0.9)).any()  # something is really shared


@every_row
@every_resolution
@whatever_is_shared
@pytest.mark.parametrize("ties", ["some", "all"])
def test_at_ties_the_gradient_is_that_of_a_plane_above(
    source: tuple[nx.Graph, list[int]], resolution: int, shared: str, ties: str
) -> None:
    # The lemma is a minimum of linear functions, so concave: a plane lies above it if it does nearby.
    block = block_of(source, resolution)
    terms, own, own_squared = tied(random_inputs(block, shared))
    inputs = requiring_gradients((terms, own, own_squared) if ties == "some" else (0 * terms, 0 * own, 0 * own_squared))

    def total(*given: Tensor) -> Tensor:
        return torch.stack([values.sum() for values in case_minima(block, *given, following=True)]).sum()

    value = total(*inputs)
    gradients = torch.autograd.grad(value, inputs)
    with torch.no_grad():
        for seed in range(20):
            steps = [10 ** -(seed % 4) * step for step in random_inputs(block, shared, 2 * seed)]
            plane = value + sum((gradient * step).sum() for gradient, step in zip(gradients, steps, strict=True))
            assert total(*(point + step for point, step in zip(inputs, steps, strict=True))) <= plane + 1e-12


# -- under a total budget ---------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1, 2, 3, 5])
@every_row
def test_the_largest_gain_is_that_of_the_linear_program(source: tuple[nx.Graph, list[int]], total: int) -> None:
    hop = hood_of(toy_graph(source[0]), EdgeDropBudget(local=source[1], total=total)).inner
    (block,) = blocks.blocks(hop, drop_cases(hop, 9), lambda size, cases: 1, torch.arange(len(hop.nodes)))
    assert block.units is not None
    density = random_tensor(len(block.rows), block.size, 2, seed=0).abs() * (block.capacity > 0)[..., None]
    found = largest_gain(block, density)
    for row, m in product(range(len(block.rows)), range(2)):
        for t, units in enumerate(block.units[row].tolist()):
            best = linprog(
                -density[row, :, m].numpy(),
                A_ub=[[1] * block.size],
                b_ub=[units],
                bounds=[(0, capacity) for capacity in block.capacity[row].tolist()],
            )
            assert float(found[row, t, m]) == pytest.approx(-best.fun, abs=1e-12)


def test_a_total_that_is_no_limit_is_none() -> None:
    graph = toy_graph(MIXED[0])
    for total in (None, graph.num_edges):
        assert hood_of(graph, EdgeDropBudget(local=1, total=total)).inner.total is None
    star = toy_graph(nx.star_graph(5))
    assert hood_of(star, EdgeDropBudget(total=5)).inner.total is None
    assert hood_of(star, EdgeDropBudget(total=4)).inner.total is not None


# -- what it bounds --------------------------------------------------------------------------------


def by_lemma(hop: Hop, cases: DropCases, values: Tensor) -> Tensor:
    """The lemma on the columns of ``values``, one for each target: the least ``Σ_k Â_jk v_k``, ``(rows, cases, M)``."""
    partition = Partition(hop, cases, lambda size, cases: values.shape[1])
    parts = []
    for block in partition.blocks:
        terms = least_terms(block, take(values, block.target))[:, :, None, None]
        (least,) = case_minima(block, terms, take(values, block.own)[:, None, None])
        parts.append(least[:, 0].flatten(0, 1))
    return torch.cat(parts)[partition.place]


STAR_BUDGETS = [[0] * 6, [5] + [1] * 5, [2] + [1] * 5, [4, 1, 0, 1, 0, 1], [1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("local", STAR_BUDGETS)
@pytest.mark.parametrize("seed", range(3))
def test_lemma_is_exact_on_a_star(seed: int, local: list[int]) -> None:
    graph = toy_graph(nx.star_graph(5))
    values = random_tensor(6, 4, seed=seed)
    hop = hood_of(graph, EdgeDropBudget(local=local)).inner
    cases = drop_cases(hop, resolution=9)
    found = by_lemma(hop, cases, values)
    least, node = torch.full_like(found, torch.inf), torch.arange(6)
    for size in range(6):
        for dropped in combinations(edges_of(graph), size):
            count = drops_at(dropped, 6)
            if bool((count <= torch.tensor(local)).all()):
                least[node, count] = least[node, count].minimum(without(graph, dropped).gcn_matrix() @ values)
    has = torch.arange(cases.most) < cases.number[:, None]
    torch.testing.assert_close(found[has], least[has], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("resolution", [1, 2, 3, 5])
def test_lemma_of_a_group_is_that_of_its_worst_count(resolution: int) -> None:
    graph = random_graph(nodes=12, density=0.6, seed=4)
    values = random_tensor(12, 3, seed=0)
    hop = hood_of(graph, EdgeDropBudget(local=[k % 7 for k in range(12)])).inner
    single, grouped = drop_cases(hop, 99), drop_cases(hop, resolution)
    by_count, by_group = by_lemma(hop, single, values), by_lemma(hop, grouped, values)
    for row in range(12):
        for g in range(int(grouped.number[row])):
            expected = by_count[row, grouped.first[row, g] : grouped.last[row, g] + 1].amin(dim=0)
            torch.testing.assert_close(by_group[row, g], expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("budget", SIX_NODE_BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_lemma_bounds_every_admissible_view(seed: int, budget: EdgeDropBudget) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=seed)
    values = random_tensor(6, 4, seed=seed)
    drops = budget.on(graph)
    hop = hood_of(graph, budget).inner
    found = by_lemma(hop, drop_cases(hop, resolution=9), values)
    for dropped in admissible_sets(graph, drops.local, drops.total):
        here = found[torch.arange(6), drops_at(dropped, 6)]
        assert (here <= without(graph, dropped).gcn_matrix() @ values + 1e-13).all()
