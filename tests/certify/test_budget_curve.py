"""How large a budget the nodes withstand."""

from typing import Any

import pytest

from certgcl.certify.budget_curve import BudgetCurve, BudgetPoint, first_budget

POINTS = tuple(BudgetPoint(q, proved, None) for q, proved in ((1, 1.0), (2, 0.51), (3, 0.5), (5, 0.1)))
CURVE = BudgetCurve("degree", 10, 40, POINTS, ())


def test_half_lost_is_the_smallest_budget_under_which_at_most_half_is_proved() -> None:
    assert CURVE.half_rate == 3
    assert BudgetCurve("degree", 10, 40, POINTS[:2], POINTS).half_rate is None
    assert BudgetCurve("degree", 10, 40, POINTS[:2], POINTS).half_count == 3
    assert [first_budget(3, POINTS), first_budget(None, POINTS), first_budget(None, ())] == ["3", "> 5", "–"]


def test_the_line_names_sample_and_method() -> None:
    both = BudgetCurve("degree", 10, 40, POINTS, POINTS[:1])
    assert both.rows() == [
        (
            "half lost",
            "at drop rate 3, or more than 1 edges at each node; 50.0 % proved there (10 of 40 nodes, method degree)",
        )
    ]


def test_it_is_the_same_after_a_file() -> None:
    assert BudgetCurve.from_dict(CURVE.to_dict()) == CURVE


@pytest.mark.parametrize(
    "changes",
    [
        {"method": 3},
        {"nodes": 41},
        {"nodes": 0},
        {"nodes": True},
        {"by_rate": []},
        {"by_rate": [{"budget": 1, "proved": float("nan"), "kept": None}]},
        {"by_rate": [{"budget": 1, "proved": 1.5, "kept": None}]},
        {"by_rate": [{"budget": 1, "proved": "all", "kept": None}]},
        {"by_rate": [{"budget": 1, "proved": 0.1, "kept": None}, {"budget": 2, "proved": 0.2, "kept": None}]},
        {"by_rate": [{"budget": 2, "proved": 0.2, "kept": None}, {"budget": 1, "proved": 0.1, "kept": None}]},
        {"by_count": [{"budget": 1, "proved": 0.1}]},
        {"more": 1},
    ],
)
def test_anything_else_in_a_file_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        BudgetCurve.from_dict(CURVE.to_dict() | changes)
