"""One anchor's search, step by step, against enumeration."""

import pytest
import torch

from certgcl.bounds.exact.two_layer.tree import Tree
from tests.bounds.exact.two_layer.surroundings import SURROUNDINGS, Surroundings, surroundings


def tree_of(around: Surroundings, lower: float = -torch.inf, start: int = 0, tolerance: float = 1e-9) -> Tree:
    return Tree(around.space, around.field, around.direction, lower, around.drops_of(start), tolerance)


@pytest.mark.parametrize(("seed", "groups"), [(0, 4), (4, 1), (10, 4)])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_brackets_hold_the_minimum_and_close_on_it(
    name: str, seed: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minima at which the anchor loses many edges, one, or none."""
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.case.GROUPS", groups)
    around = surroundings(name, seed)
    tree, limit = tree_of(around), 1
    lower, upper = tree.lower, tree.upper
    assert upper == pytest.approx(float(around.values[0]), abs=1e-12)
    while not tree.done:
        tree.grow(limit, torch.inf)
        assert lower - 1e-12 <= tree.lower <= around.minimum + 1e-12
        assert around.minimum - 1e-12 <= tree.upper <= upper
        assert tree.done or tree.bounded >= limit
        lower, upper, limit = tree.lower, tree.upper, 2 * limit
    assert tree.upper == pytest.approx(around.minimum, abs=1e-12)
    assert tree.lower == pytest.approx(around.minimum, abs=1e-8)
    mask = torch.zeros_like(around.sets[0])
    mask[tree.witness] = True
    torch.testing.assert_close(around.values[(around.sets == mask).all(dim=1)], torch.tensor([tree.upper]).double())


@pytest.mark.parametrize("name", ["tree, two edges", "in touch, total"])
def test_without_searches_the_branches_alone_find_the_minimum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.tree.MOST_PROPOSALS", 0)
    around = surroundings(name)
    tree = tree_of(around)
    tree.grow(torch.inf, torch.inf)
    assert tree.done
    assert tree.upper == pytest.approx(around.minimum, abs=1e-12)


@pytest.mark.parametrize("name", ["in touch", "tree"])
def test_cases_that_are_cut_at_once_lead_there_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is split: all is left to decisions on edges."""
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.case.MOST_CELLS", 0)
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.tree.MOST_PROPOSALS", 0)
    around = surroundings(name)
    tree = tree_of(around)
    tree.grow(torch.inf, torch.inf)
    assert tree.lower == pytest.approx(around.minimum, abs=1e-8)
    assert tree.upper == pytest.approx(around.minimum, abs=1e-12)


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.5])
def test_a_tolerance_ends_the_search_early_and_never_lifts_the_bound(tolerance: float) -> None:
    around = surroundings("in touch, two edges", seed=2)
    tree = tree_of(around, tolerance=tolerance)
    tree.grow(torch.inf, torch.inf)
    assert tree.done
    assert tree.lower <= around.minimum + 1e-12
    assert tree.upper - tree.lower <= tolerance * max(abs(tree.clean), abs(tree.upper)) + 1e-12


def test_a_bound_and_drops_to_begin_with_are_kept() -> None:
    around = surroundings("in touch, mixed")
    best = int(around.values.argmin())
    tree = tree_of(around, around.minimum - 0.01, best)
    assert (tree.lower, tree.upper) == (around.minimum - 0.01, pytest.approx(around.minimum, abs=1e-12))
    assert tree.witness.tolist() == around.drops_of(best).tolist()
    tree.grow(2, torch.inf)
    assert around.minimum - 0.01 <= tree.lower <= around.minimum + 1e-12
    met = tree_of(around, tree.upper, best)
    assert met.done


def test_nothing_is_done_without_branches_or_time() -> None:
    around = surroundings("in touch")
    tree = tree_of(around)
    tree.grow(0, torch.inf)
    tree.grow(torch.inf, 0.0)
    assert (tree.bounded, tree.lower, tree.done) == (0, -torch.inf, False)


def test_edges_are_decided_from_the_anchor_outwards() -> None:
    around = surroundings("tree, total")
    tree = tree_of(around)
    distance = torch.tensor([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])[around.field.nodes]
    nearest = distance[around.field.edges].amin(dim=0)[tree.order].tolist()
    assert nearest == sorted(nearest)
    assert sorted(tree.order) == list(range(9))
