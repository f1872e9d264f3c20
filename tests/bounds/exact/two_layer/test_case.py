"""Cases and their solutions against enumeration: a bound below all sets, and no better set is left out."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds.exact.two_layer.case import Case, Incumbent
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.bounds.exact.two_layer.decisions import NothingLeft
from certgcl.bounds.exact.two_layer.solution import Solution
from tests.bounds.exact.two_layer.surroundings import (
    ANYTHING,
    SURROUNDINGS,
    Surroundings,
    agreeing,
    agreement,
    cases_of,
    surroundings,
)


def incumbent(around: Surroundings, share: float) -> Incumbent:
    """One of the admissible sets as the best that is known: at 0 the best of all, at 1 the worst."""
    number = int(around.values.argsort()[int(share * (len(around.values) - 1))])
    return Incumbent(float(around.values[number]), around.before2[number], 0.0)


def check(around: Surroundings, case: Case, sets: Tensor) -> None:
    """Some sets must still be in the case, in every part of it, and within all its bounds."""
    assert agreeing(around, case.decisions)[sets].all()
    inside = agreement(around, case, case.cells)[sets]
    for row, edge in enumerate(case.site.own_edge.tolist()):
        lost = around.sets[sets, edge] if edge >= 0 else torch.zeros(int(sets.sum()), dtype=torch.bool)
        assert (lost | inside[:, case.cells.row == row].any(dim=1)).all()
    assert (case.lower <= around.values[sets] + 1e-12).all()
    assert (case.lower2 <= around.before2[sets] + 1e-12).all()
    assert (around.before2[sets] <= case.upper2 + 1e-12).all()


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_case_bounds_its_sets_and_better_with_every_split(name: str) -> None:
    around = surroundings(name, seed=1)
    for case in cases_of(around, rounds=0):
        sets, before = around.lost[:, 0] == case.lost, -torch.inf
        for _ in range(4):
            check(around, case, sets)
            assert case.lower >= before
            before = case.lower
            if not case._split():
                break
            case.lift(ANYTHING)
        assert case.closed == torch.inf


@pytest.mark.parametrize(("share", "seed"), [(0.0, 1), (0.05, 10), (0.5, 4)])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_only_sets_that_are_no_better_are_left_out(name: str, share: float, seed: int) -> None:
    around = surroundings(name, seed)
    best = incumbent(around, share)
    for lost in range(int(around.lost[:, 0].max()) + 1):
        here = around.lost[:, 0] == lost
        better = here & (around.values < best.cutoff - 1e-12)
        case = Case(around.site, lost, -torch.inf)
        try:
            case.lift(best)
            for _ in range(3):
                check(around, case, better)
                case.refine(best, torch.inf)
            check(around, case, better)
        except NothingLeft:
            assert not better.any()
            assert case.closed <= float(around.values[here].min()) + 1e-12
        else:
            assert min(case.closed, case.lower) <= float(around.values[here].min()) + 1e-12


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_case_that_is_cut_in_two_keeps_all_better_sets(name: str) -> None:
    around = surroundings(name)
    best = incumbent(around, 0.3)
    for parent in cases_of(around, rounds=1):
        free = (parent.decisions.state == FREE).nonzero()[:, 0].tolist()
        before = parent.lower2.clone(), len(parent.cells)
        for edge in free[::3]:
            for kind in (DROPPED, KEPT):
                try:
                    case = parent.branched(edge, kind)
                except NothingLeft:
                    assert not ((around.lost[:, 0] == parent.lost) & (around.sets[:, edge] == (kind == DROPPED))).any()
                    continue
                sets = agreeing(around, case.decisions)
                check(around, case, sets)
                better = sets & (around.values < best.cutoff - 1e-12)
                try:
                    case.lift(best)
                    check(around, case, better)
                except NothingLeft:
                    assert not better.any()
        assert (torch.equal(before[0], parent.lower2), before[1]) == (True, len(parent.cells))


def test_a_limit_ends_the_splits() -> None:
    around = surroundings("no limit")
    case, best = cases_of(around, rounds=0)[2], incumbent(around, 0.3)
    before = case.bounded
    case.refine(best, before)
    assert case.bounded == before
    assert not case.exhausted
    case.refine(best, before + 1)
    assert case.bounded > before


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_solution_is_of_its_case_and_its_proposal_admissible(name: str, rounds: int) -> None:
    around = surroundings(name)
    for case in cases_of(around, rounds):
        solution = Solution(case)
        assert len(solution.lost) == case.lost
        assert solution.lost <= set(case.site.own_edge.tolist())
        assert len(solution.cells) == len(case.site.size) - case.lost
        for row, (cell, dropped) in solution.cells.items():
            assert int(cell.row) == row
            assert cell.fewest <= len(dropped) <= cell.most
        for others in (0, len(around.sets) - 1):
            mask = torch.zeros_like(around.sets[0])
            mask[solution.admissible(around.drops_of(others))] = True
            assert (around.sets == mask).all(dim=1).any()
        assert solution.disputed() <= set(range(around.sets.shape[1]))


def test_neighbours_that_stand_apart_dispute_nothing() -> None:
    """In a tree no edge is seen from two neighbours."""
    around = surroundings("tree, two edges")
    assert not any(Solution(case).disputed() for case in cases_of(around, rounds=1))
    in_touch = surroundings("in touch, two edges")
    assert any(Solution(case).disputed() for case in cases_of(in_touch, rounds=1))
