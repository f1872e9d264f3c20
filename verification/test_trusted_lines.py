"""What is to be trusted of the checker, and that the rest of it need not be."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verification.checked import proved
from verification.checker.choices import EVERY, Rule
from verification.checker.core import lines, theorem
from verification.network_case import NetworkCase
from verification.networks import network_cases
from verification.test_checker import exact_minima, surely_below
from verification.trusted_lines import CHECKER, code_lines, lines_by_part

FEW = settings(max_examples=max(3, settings().max_examples // 5))
PAGE = Path(__file__).parents[1] / "docs/what_a_certificate_says.md"


def test_comments_and_docstrings_are_no_code() -> None:
    assert (
        code_lines('"""A\n\nB"""\n\nx = 1  # one\n\n\ndef f() -> str:\n    """C"""\n    # D\n    return "\\n"\n') == 3
    )


def test_the_page_tells_how_many_lines_are_to_be_trusted() -> None:
    core, reading, rest = lines_by_part().values()
    words = (
        f"{sum(core.values()):,} lines of code in the core, {sum(reading.values())} that read, "
        f"{sum(rest.values())} that choose and report"
    )
    assert words in " ".join(PAGE.read_text().split()), words


def test_the_core_takes_claims_and_choices_from_outside_and_nothing_else() -> None:
    outside = set()
    for path in (CHECKER / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                outside.add(node.module)
    assert outside == {"choices", "claim", "search"}


@FEW
@given(network_cases(max_depth=3), st.integers(0, 2**32 - 1))
def test_nothing_that_chooses_can_prove_what_is_false(case: NetworkCase, start: int) -> None:
    random = np.random.default_rng(start)

    def any_slopes(_: Any, low: np.ndarray, __: Any, ___: Any) -> tuple[np.ndarray, np.ndarray]:
        below, above = random.choice([-1.0, 0.0, 0.3, 1.0, 2.5], (2, *low.shape))
        return below, above

    def any_channels(costs: np.ndarray, number: int) -> list[np.ndarray]:
        return [random.integers(0, costs.shape[1], number) for _ in costs]  # one may be there twice

    def any_groups(_: Any, first: dict[int, int], number: dict[int, int], __: Any) -> dict[int, slice]:
        return {at: slice(at, at + 2) for i in first for at in range(first[i], first[i] + number[i] - 1)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "slopes", any_slopes)
        patch.setattr(lines, "dearest", any_channels)
        patch.setattr(lines, "groups", any_groups)
        patch.setattr(lines, "rules_for", lambda _, __, grouped: [Rule("any", each) for each in {False, grouped}])
        patch.setattr(theorem, "MORE_CANDIDATES", 0)
        values = proved(case, EVERY)
    for minimum, value in zip(exact_minima(case), values.tolist(), strict=True):
        assert not surely_below(minimum, value)
