"""Branches: what is bounded when some edges are dropped or kept for good."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from certgcl.bounds import METHODS, Degree, DropProblem
from certgcl.bounds.branches import Branches
from certgcl.budget import EdgeDropBudget
from certgcl.graph import Graph
from tests.toys import admissible_sets, edges_of, random_graph, random_tensor, toy_weights, without


def slot_of(graph: Graph, edge: tuple[int, int]) -> int:
    return int(((graph.row == edge[0]) & (graph.col == edge[1])).nonzero()[0, 0])


def test_undecided_branches_are_the_problem_itself() -> None:
    graph, weights, directions = random_graph(), toy_weights(), random_tensor(12, 1, 3, seed=3)
    drops, anchors = EdgeDropBudget(local=2).on(graph), torch.tensor([7, 0, 7, 3])
    for name in ("interval", "crown", "degree", "degree-fast"):
        branches = Branches.undecided(graph, drops, anchors).problem(torch.float64)
        expected = METHODS[name](weights, DropProblem(graph, drops, torch.arange(12)), directions)[anchors]
        torch.testing.assert_close(METHODS[name](weights, branches, directions), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, 3))
def test_a_branch_is_bounded_below_every_set_that_agrees_with_it(seed: int, dropped: int, kept: int) -> None:
    graph, weights = random_graph(nodes=6, density=0.5, seed=seed), toy_weights(seed=seed)
    budget = EdgeDropBudget(local=2, total=3)
    drops, directions = budget.on(graph), random_tensor(6, 3, seed=seed)
    droppable = [edge for edge in edges_of(graph) if drops.droppable[slot_of(graph, edge)]]
    order = torch.randperm(len(droppable), generator=torch.Generator().manual_seed(seed)).tolist()
    chosen = [droppable[k] for k in order[: dropped + kept]]
    decided = {edge: number < dropped for number, edge in enumerate(chosen)}
    agreeing = [found for found in admissible_sets(graph, drops.local, drops.total)
                if all((edge in found) == gone for edge, gone in decided.items())]
    if not agreeing:
        return
    truth = torch.stack([(weights.embed(without(graph, found)) * directions).sum(dim=1) for found in agreeing]).amin(0)
    decisions = {slot_of(graph, edge if number % 2 else edge[::-1]): gone
                 for number, (edge, gone) in enumerate(decided.items())}
    branches = Branches.of(graph, drops, list(range(6)), [decisions] * 6).problem(torch.float64)
    for bound in (METHODS["interval"], METHODS["crown"], Degree(), Degree(resolution=1)):
        lower = bound(weights, branches, directions[:, None])[:, 0]
        assert (lower <= truth + 1e-9).all()


def test_with_everything_decided_the_bound_is_the_value() -> None:
    graph, weights, directions = random_graph(nodes=7, density=0.4), toy_weights(), random_tensor(7, 3, seed=1)
    drops, edges = EdgeDropBudget(local=3).on(graph), edges_of(random_graph(nodes=7, density=0.4))
    gone = tuple(edges[::3])
    decisions = {slot_of(graph, edge): edge in gone for edge in edges}
    lower = Degree()(weights, Branches.of(graph, drops, list(range(7)), [decisions] * 7).problem(torch.float64),
                     directions[:, None])[:, 0]
    torch.testing.assert_close(lower, (weights.embed(without(graph, gone)) * directions).sum(dim=1))
