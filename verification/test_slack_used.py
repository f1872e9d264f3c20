"""A climb towards the largest excess of a bound over the exact value stays far within the slack."""

import pytest
import torch
from hypothesis import settings

from verification.audit import LEDGER
from verification.slack_used import STARTS, climb

STEPS = max(2, settings().max_examples // 10)


@pytest.mark.parametrize("name", STARTS)
def test_no_climb_uses_up_the_slack(name: str) -> None:
    used = max(climb(name, STEPS, seed=0), climb(name, STEPS, seed=1, dtype=torch.float32))
    LEDGER.note(f"slack used, {name}", f"{used:.1e}")
    assert 0 < used < 1
