"""Cells against enumeration: they lose no admissible set, and bound what they say they bound."""

from dataclasses import replace

import pytest
import torch

from certgcl.bounds.exact.two_layer import cells as module
from certgcl.bounds.exact.two_layer.cells import ABSENT, DROPPED, FREE, KEPT, CellBounds, RowCells, remaining
from tests.bounds.exact.two_layer.surroundings import ANYTHING, SURROUNDINGS, agreement, cases_of, surroundings
from tests.toys import random_tensor

OMEGA = random_tensor(4, 5, seed=7)


@pytest.fixture(params=[1, 4])
def groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows begin with one cell for all their counts, or with about one for each."""
    monkeypatch.setattr("certgcl.bounds.exact.two_layer.case.GROUPS", request.param)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_every_set_is_in_a_cell_of_every_neighbour_that_it_keeps(name: str, rounds: int) -> None:
    around = surroundings(name)
    for case in cases_of(around, rounds):
        agrees = agreement(around, case, case.cells)
        for row, edge in enumerate(case.site.own_edge.tolist()):
            keeps = (around.lost[:, 0] == case.lost) & ~(around.sets[:, edge] if edge >= 0 else False)
            assert torch.equal(agrees[:, case.cells.row == row].any(dim=1), keeps)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_bounds_of_cells_hold_for_all_sets_in_them(name: str) -> None:
    around = surroundings(name)
    for case in cases_of(around, rounds=2):
        cells = case.cells
        functionals = case.rows.functionals(cells, OMEGA)
        low, high = case.rows.scale(cells)
        for number, sets in enumerate(agreement(around, case, cells).T):
            node = int(cells.row[number]) + 1
            before = around.before[sets, node]
            assert (cells.lower[number] <= before + 1e-12).all()
            assert (before <= cells.upper[number] + 1e-12).all()
            hidden = case.site.weights.activation1(before)
            assert (functionals[number] <= hidden @ OMEGA + 1e-12).all()
            assert (cells.channels[number] <= hidden @ case._channel_functionals() + 1e-12).all()
            scale = (around.field.degree[node] - around.lost[sets, node]).rsqrt()
            assert ((low[number] <= scale) & (scale <= high[number])).all()


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_each_set_of_a_cell_is_in_one_of_its_halves(name: str) -> None:
    """Also when the halves are tidied up, which may leave out some of them but no set."""
    around = surroundings(name)
    for case in [*cases_of(around, rounds=0), *cases_of(around, rounds=3)]:
        parents = case.cells.at(case.cells.divisible())
        place = case.rows.importance(parents, case.omega).argmax(dim=1)
        children = parents.split(place)
        assert len(children) == 2 * len(parents)
        first, second = agreement(around, case, children).chunk(2, dim=1)
        assert torch.equal(first ^ second, agreement(around, case, parents))
        assert not (first & second).any()
        tidy = agreement(around, case, children.possible())
        for row in range(len(case.site.size)):
            before, after = (
                found[:, part.row == row].sum(dim=1)
                for found, part in ((torch.cat([first, second], dim=1), children), (tidy, children.possible()))
            )
            assert torch.equal(before, after)


def test_cells_that_are_split_to_the_end_hold_one_way_to_lose_edges() -> None:
    around = surroundings("in touch")
    case = cases_of(around, rounds=0)[1]
    while case._split():
        case.lift(ANYTHING)
    assert not case.cells.divisible().any()
    for number, sets in enumerate(agreement(around, case, case.cells).T):
        before = around.before[sets, int(case.cells.row[number]) + 1]
        torch.testing.assert_close(case.cells.lower[number].expand_as(before), before)
        torch.testing.assert_close(case.cells.upper[number].expand_as(before), before)


def one_cell(state: list[int], fewest: int, most: int, leaf_fewest: list[int], leaf_most: list[int]) -> RowCells:
    of_row, none = [torch.tensor([value]) for value in (0, fewest, most)], torch.zeros(1, 0)
    return RowCells(*of_row, *(torch.tensor([values]) for values in (state, leaf_fewest, leaf_most)), none, none, none)


def test_what_follows_within_a_cell_is_decided() -> None:
    cell = one_cell([FREE, FREE, FREE, ABSENT], 0, 3, [0, 2, 0, 0], [1, 1, 1, 0]).possible()
    assert cell.state.tolist() == [[FREE, DROPPED, FREE, ABSENT]]  # the second can be kept in no way
    assert (cell.fewest.tolist(), cell.most.tolist()) == ([1], [3])
    assert one_cell([DROPPED, FREE, FREE], 0, 1, [0] * 3, [1] * 3).possible().state.tolist() == [[DROPPED, KEPT, KEPT]]
    assert one_cell([KEPT, FREE, FREE], 2, 3, [0] * 3, [1] * 3).possible().state.tolist() == [[KEPT, DROPPED, DROPPED]]


@pytest.mark.parametrize(
    "cell",
    [
        one_cell([DROPPED, DROPPED], 0, 1, [0, 0], [1, 1]),
        one_cell([KEPT, FREE], 2, 2, [0, 0], [1, 1]),
        one_cell([KEPT, FREE], 0, 1, [1, 0], [0, 0]),
        one_cell([FREE, FREE], 2, 1, [0, 0], [1, 1]),
    ],
    ids=["too many gone", "too few left", "a leaf in no way", "no count"],
)
def test_impossible_cells_are_left_out(cell: RowCells) -> None:
    assert not len(cell.possible())


@pytest.mark.parametrize("seed", range(4))
def test_what_remains_is_the_sum_without_the_largest_eligible_terms(seed: int) -> None:
    terms, chance = random_tensor(6, 7, 2, seed=seed), torch.Generator().manual_seed(seed)
    eligible = torch.rand(6, 7, generator=chance) < 0.7
    most = torch.minimum(torch.randint(0, 7, (6,), generator=chance), eligible.sum(dim=1))
    fewest = torch.minimum(torch.randint(0, 3, (6,), generator=chance), most)
    found = remaining(terms, eligible, fewest, most)
    assert found.shape == (6, int((most - fewest).max()) + 1, 2)
    for cell in range(6):
        for step in range(found.shape[1]):
            count = min(int(fewest[cell]) + step, int(most[cell]))
            for channel in range(2):
                largest = sorted(terms[cell, eligible[cell], channel].tolist(), reverse=True)[:count]
                expected = float(terms[cell, :, channel].sum()) - sum(largest)
                assert float(found[cell, step, channel]) == pytest.approx(expected, abs=1e-12)


def test_no_cells_are_no_trouble() -> None:
    around = surroundings("tree")
    case = cases_of(around, rounds=0)[0]
    nothing = case.rows.bounded(case.cells.at(slice(0, 0)), OMEGA)
    assert nothing.channels.shape == (0, 5)
    assert not len(RowCells.joined([nothing, nothing]).possible())


@pytest.mark.parametrize("name", ["tree, two edges", "no limit"])
def test_cells_are_bounded_alike_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases_of(surroundings(name), rounds=2)[1]
    rows: CellBounds = case.rows
    infinite = torch.full_like(case.cells.lower, torch.inf)
    fresh = replace(case.cells, lower=-infinite, upper=infinite)
    whole, important = rows.bounded(fresh, OMEGA), rows.importance(case.cells, case.omega)
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "MAX_ELEMENTS", 40)
    parts = rows.bounded(fresh, OMEGA)
    for name in ("lower", "upper", "channels"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))
    torch.testing.assert_close(rows.importance(case.cells, case.omega), important)
