"""Scales in a range, and the cases into which the counts of lost edges are cut."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import DropCases, Scale, drop_cases
from certgcl.bounds.two_layer.neighbourhood import Hop
from tests.toys import random_tensor, star_hop

STARS = [(1, 1), (4, 0), (5, 5), (11, 7), (20, 3), (30, 30), (60, 24)]

# -- scales ----------------------------------------------------------------------------------------

EXACT, RANGE = Scale(torch.tensor([0.5, 3.0, 0.0]), None), Scale(torch.tensor([0.5, 1.0, 0.0]), torch.tensor([3.0] * 3))


def ends(scale: Scale) -> tuple[Tensor, Tensor]:
    return scale.low, scale.low if scale.high is None else scale.high


@pytest.mark.parametrize("scale", [EXACT, RANGE])
@pytest.mark.parametrize("value", [2.0, -2.0, 0.0])
def test_least_and_most_take_the_end_that_hurts_and_the_one_that_helps(scale: Scale, value: float) -> None:
    values = torch.full((3,), value)
    low, high = ends(scale)
    torch.testing.assert_close(scale.least(values), torch.minimum(low * values, high * values))
    torch.testing.assert_close(scale.most(values), torch.maximum(low * values, high * values))


@pytest.mark.parametrize("one", [EXACT, RANGE])
@pytest.mark.parametrize("other", [EXACT, RANGE])
def test_a_product_of_scales_ranges_over_the_products(one: Scale, other: Scale) -> None:
    found = one.times(other)
    assert torch.equal(found.low, one.low * other.low)
    assert torch.equal(ends(found)[1], ends(one)[1] * ends(other)[1])
    assert (found.high is None) == (one.high is None and other.high is None)


@pytest.mark.parametrize("scale", [EXACT, RANGE])
def test_a_scale_can_be_indexed(scale: Scale) -> None:
    found = scale.at(None, slice(1, 3), None)
    assert found.low.shape == (1, 2, 1)
    assert torch.equal(found.low.flatten(), scale.low[1:])
    assert torch.equal(ends(found)[1].flatten(), ends(scale)[1][1:])
    assert (found.high is None) == (scale.high is None)


@pytest.mark.parametrize("scale", [EXACT, RANGE])
def test_the_gradient_of_a_scaled_value_is_the_scale(scale: Scale) -> None:
    scale = Scale(scale.low.double(), None if scale.high is None else scale.high.double())
    values = random_tensor(5, 3, seed=0).requires_grad_()
    assert torch.autograd.gradcheck(scale.least, values)
    assert torch.autograd.gradcheck(scale.most, values)


# -- cases -----------------------------------------------------------------------------------------


def groups(cases: DropCases, row: int) -> list[list[int]]:
    number = int(cases.number[row])
    return [
        list(range(first, last + 1))
        for first, last in zip(cases.first[row, :number].tolist(), cases.last[row, :number].tolist(), strict=True)
    ]


@pytest.mark.parametrize(("leaves", "budget"), STARS)
def test_cases_cut_the_counts_into_consecutive_groups(leaves: int, budget: int) -> None:
    hop = star_hop(leaves, budget)
    for resolution in range(1, budget + 4):
        cases = drop_cases(hop, resolution)
        assert cases.most == min(int(hop.budget.max()) + 1, resolution)
        for row, q in enumerate(hop.budget.tolist()):
            found = groups(cases, row)
            assert len(found) == min(q + 1, resolution)
            assert all(found)
            assert [count for group in found for count in group] == list(range(q + 1))
            assert cases.single[row] == all(len(group) == 1 for group in found)


@pytest.mark.parametrize(("leaves", "budget"), [(5, 5), (9, 2), (11, 7), (58, 31), (60, 24)])
def test_the_full_budget_is_a_group_of_its_own(leaves: int, budget: int) -> None:
    # Whether a neighbour can reach it depends on the pair, so nothing else may share its fate.
    hop = star_hop(leaves, budget)
    for resolution in range(2, budget + 4):
        assert groups(drop_cases(hop, resolution), 0)[-1] == [budget]


def test_groups_have_scales_that_grow_by_about_one_factor() -> None:
    cases = drop_cases(star_hop(100, 90), 6)
    growth = (cases.first[0, 1:] - 101) / (cases.first[0, :-1] - 101)
    assert growth.min() > 0.5
    assert growth.max() < 0.75


@pytest.mark.parametrize(("leaves", "budget"), STARS)
@pytest.mark.parametrize("resolution", [1, 3])
def test_beyond_the_cases_of_a_row_its_last_one_comes_again(leaves: int, budget: int, resolution: int) -> None:
    cases = drop_cases(star_hop(leaves, budget), resolution)
    for row, number in enumerate(cases.number.tolist()):
        for table in (cases.first, cases.last):
            assert (table[row, number:] == table[row, number - 1]).all()


def expected_scale(hop: Hop, counts: Tensor) -> Tensor:
    return (hop.degree[:, None] + 1 - counts).double().pow(-0.5)


@pytest.mark.parametrize("resolution", [1, 2, 3, 4, 5, 9])
def test_a_case_knows_its_scales(resolution: int) -> None:
    hop = star_hop(6, 4)
    cases = drop_cases(hop, resolution)
    scale = cases.scale(torch.float64)
    assert torch.equal(scale.low, expected_scale(hop, cases.first))
    assert torch.equal(ends(scale)[1], expected_scale(hop, cases.last))
    assert (scale.high is not None) == (resolution <= 4)  # some case of the centre has several counts
    assert cases.scale(torch.float32).low.dtype == torch.float32


@pytest.mark.parametrize("resolution", [1, 2, 3, 9])
def test_cases_of_some_rows_are_those_of_all_without_columns_that_nobody_has(resolution: int) -> None:
    cases = drop_cases(star_hop(6, 4), resolution)
    for rows in ([2, 0], [3], [1, 5]):
        few = cases.of(torch.tensor(rows))
        assert few.most == max(len(groups(cases, row)) for row in rows)
        assert [groups(few, place) for place in range(len(rows))] == [groups(cases, row) for row in rows]
        for name in ("number", "degree", "budget", "single"):
            assert torch.equal(getattr(few, name), getattr(cases, name)[rows])
