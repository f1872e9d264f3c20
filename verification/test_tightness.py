"""The distance from the truth that README states, on some of the cases of ``verification.tightness``."""

import pytest

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
