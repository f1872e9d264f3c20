"""Decisions against enumeration: what follows from them loses no admissible set."""

from dataclasses import replace

import pytest
import torch

from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.bounds.exact.two_layer.decisions import Decisions, NothingLeft
from tests.bounds.exact.two_layer.surroundings import SURROUNDINGS, Surroundings, agreeing, surroundings


def free_edges(known: Decisions) -> list[int]:
    return (known.state == FREE).nonzero()[:, 0].tolist()


def most_lost(around: Surroundings) -> int:
    return int(around.lost[:, 0].max())


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_to_begin_with_only_the_loss_of_the_anchor_is_known(name: str) -> None:
    around = surroundings(name)
    for lost in range(most_lost(around) + 1):
        assert torch.equal(agreeing(around, Decisions.none(around.site, lost)), around.lost[:, 0] == lost)
    with pytest.raises(NothingLeft):
        Decisions.none(around.site, int(around.field.degree[0]))


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_what_follows_loses_no_set_and_nothing_left_means_none(name: str) -> None:
    """Random edges dropped and kept, random counts at random nodes."""
    around, chance = surroundings(name), torch.Generator().manual_seed(0)
    edges, nodes = around.sets.shape[1], around.lost.shape[1]
    ended, decided = 0, 0
    for trial in range(60):
        known = replace(Decisions.none(around.site, trial % (most_lost(around) + 1)), state=torch.full((edges,), FREE))
        at = torch.randperm(edges, generator=chance)[: 1 + trial % 4]
        known = known.decided(at[::2], DROPPED).decided(at[1::2], KEPT)
        node, (fewest, most) = (
            torch.randint(nodes, (1,), generator=chance),
            torch.randint(3, (2, 1), generator=chance).sort(dim=0).values,
        )
        known = known.counted(node, fewest, most)
        expected = agreeing(around, known)
        try:
            after = known.settled()
        except NothingLeft:
            ended += 1
            assert not expected.any()
            continue
        assert torch.equal(agreeing(around, after), expected)
        assert ((after.state == known.state) | (known.state == FREE)).all()
        assert (known.fewest <= after.fewest).all()
        assert (after.most <= known.most).all()
        decided += int((after.state != known.state).sum())
        torch.testing.assert_close(
            after.dropped + after.free,
            torch.bincount(around.field.edges[:, after.state != KEPT].flatten(), minlength=nodes),
        )
    assert ended
    assert decided


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_two_branches_have_all_values_between_them(name: str, seed: int) -> None:
    """Each set is in one of them, or one that does the same is."""
    around = surroundings(name, seed)
    for lost in range(most_lost(around) + 1):
        known = Decisions.none(around.site, lost)
        for step in range(4):
            here = agreeing(around, known)
            free = free_edges(known)
            if not free:
                break
            edge = free[(5 * seed + 3 * step + lost) % len(free)]
            branches = []
            for kind in (DROPPED, KEPT):
                try:
                    branches.append(known.branched(edge, kind))
                except NothingLeft:
                    assert not (here & (around.sets[:, edge] == (kind == DROPPED))).any()
            inside = [agreeing(around, branch) for branch in branches]
            found = torch.stack(inside).sum(dim=0)
            assert (found <= here).all()
            if around.site.alike[edge] < 0:
                assert torch.equal(found, here.long())
            missing = around.values[here & (found == 0)]
            assert all(((around.values[found == 1] - value).abs() < 1e-12).any() for value in missing)
            known = branches[-1]


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_edges_that_are_alike_do_the_same(name: str) -> None:
    """One in the place of the other: still admissible, and the same value."""
    around = surroundings(name)
    alike, place = around.site.alike, {tuple(mask): number for number, mask in enumerate(around.sets.tolist())}
    pairs = [
        (one, other)
        for one in range(len(alike))
        for other in range(one)
        if alike[one] >= 0 and alike[one] == alike[other]
    ]
    assert bool(pairs) == (name.startswith("tree") or name == "common leaf, two edges")
    for one, other in pairs:
        swapped = around.sets.clone()
        swapped[:, one], swapped[:, other] = around.sets[:, other], around.sets[:, one]
        values = torch.stack([around.values[place[tuple(mask)]] for mask in swapped.tolist()])
        torch.testing.assert_close(values, around.values)


def test_an_end_that_cannot_lose_all_its_edges_makes_them_different() -> None:
    """Node 7 is the common leaf: with a budget of one, what goes at one of its edges stays at the other."""
    one, two = (surroundings(name) for name in ("common leaf", "common leaf, two edges"))
    for around, expected in ((one, True), (two, False)):
        at_leaf = (around.field.nodes[around.field.edges] == 7).any(dim=0)
        assert at_leaf.sum() == 2
        assert bool((around.site.alike[at_leaf] < 0).all()) is expected


def test_of_edges_that_are_alike_the_others_are_kept_with_the_first() -> None:
    around = surroundings("tree, two edges")
    known = Decisions.none(around.site, 1)
    group = (around.site.alike == around.site.alike.max()).nonzero()[:, 0]
    assert len(group) == 2
    assert (known.branched(int(group[0]), KEPT).state[group] == KEPT).all()
    assert known.branched(int(group[0]), DROPPED).state[group[1]] == FREE


def test_budgets_that_are_exceeded_leave_nothing() -> None:
    around = surroundings("in touch")  # one edge at each node
    known = Decisions.none(around.site, 0)
    at_one = ((around.field.edges == 1).any(dim=0) & (known.state == FREE)).nonzero()[:, 0]
    assert len(at_one) == 2
    with pytest.raises(NothingLeft):
        known.decided(at_one, DROPPED).settled()
    after = known.branched(int(at_one[0]), DROPPED)
    assert after.state[at_one[1]] == KEPT
    with pytest.raises(NothingLeft):
        after.branched(int(at_one[1]), DROPPED)
    with pytest.raises(NothingLeft):
        known.counted(torch.tensor([1]), torch.tensor([2]), torch.tensor([3])).settled()


def test_a_total_that_is_exceeded_leaves_nothing() -> None:
    around = surroundings("in touch, total")  # three in all
    known = Decisions.none(around.site, 0)
    free = torch.tensor(free_edges(known))
    assert not free_edges(known.decided(free[:3], DROPPED).settled())
    with pytest.raises(NothingLeft):
        known.decided(free[:4], DROPPED).settled()


def test_a_count_that_needs_every_edge_drops_them_all() -> None:
    around = surroundings("no limit")
    known = Decisions.none(around.site, 4)
    assert (known.own == DROPPED).all()
    assert known.of(torch.tensor([-1])).tolist() == [KEPT]  # an edge that cannot be dropped
