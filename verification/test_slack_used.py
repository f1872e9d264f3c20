"""A local search for the largest excess of a bound over the exact value stays far within the slack."""

import pytest
import torch
from hypothesis import settings

import certgcl.bounds.rounding.slack
from verification.audit import LEDGER
from verification.slack_used import STARTS, climb

STEPS = max(2, settings().max_examples // 10)


@pytest.mark.parametrize("name", STARTS)
def test_no_climb_uses_up_the_slack(name: str) -> None:
    used = max(climb(name, STEPS, seed=0), climb(name, STEPS, seed=1, dtype=torch.float32))
    LEDGER.note(f"slack used, {name}", f"{used:.1e}")
    assert used < 1
    if STARTS[name].change is None and name not in ("both views", "pooled, max"):
        assert used > 0  # a bound is the clean value here, and some are rounded upwards; ranges are widened before


def test_a_constant_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certgcl.bounds.rounding.slack, "STEP_ROUNDINGS", 1e-4)
    with pytest.raises(certgcl.errors.BoundError, match="above the clean value"):  # without a budget bounds are that
        climb("GCN, one layer", 2, seed=0)
