"""The distance from the truth that README states, on some of the cases of ``verification.tightness``; and the lines of
``verification.change_tightness``."""

import numpy as np
import pytest

from verification import change_tightness
from verification.tightness import measure


@pytest.mark.thorough
def test_degree_drops_at_most_a_quarter_more_than_the_truth() -> None:
    ledger = measure(cases=80)
    assert all(tally.violations == 0 for name, tally in ledger.tallies.items() if name not in ("paper", "released"))
    assert ledger.tallies["degree"].tightness <= 1.25
    assert ledger.tallies["degree-cheap"].tightness <= 2.2
    assert ledger.tallies["crown"].tightness <= 4.5
    assert ledger.tallies["interval"].tightness > ledger.tallies["crown"].tightness


@pytest.mark.thorough
def test_optimized_drops_at_most_a_tenth_more_and_exact_not_at_all() -> None:
    ledger = measure(cases=12, methods=("optimized", "exact"))
    assert all(tally.violations == 0 for tally in ledger.tallies.values())
    assert ledger.tallies["optimized"].tightness <= 1.1
    assert ledger.tallies["exact"].tightness == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["GIN, 1 layer: 1 added", "SAGE mean, mask 1 a node", "SAGE sum: max of the nodes"])
def test_every_kind_of_change_has_a_line_with_its_aim(name: str) -> None:
    row = next(row for row in change_tightness.rows() if row.name == name)
    found = change_tightness.measure(row, samples=1)
    assert found.violations == 0
    assert 1 <= found.least == pytest.approx(found.bound) == found.most <= 4
    assert np.isnan(found.prototype) or found.bound <= 1.001 * found.prototype
