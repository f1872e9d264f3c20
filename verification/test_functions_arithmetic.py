"""What section 10 of the theory assumes of single functions, (A2) and (A3), against Arb on dense samples."""

import math

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from certgcl.models.smooth import ELU, GELU, Sigmoid, SiLU, Smooth, Softplus, Tanh
from verification.exact_arithmetic import ACTIVATIONS, BITS

FORMATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SMOOTH: dict[str, tuple[Smooth, float]] = {
    "elu": (ELU(), 1.0),
    "elu 0.4": (ELU(0.4), 0.4),
    "elu 1.8": (ELU(1.8), 1.8),
    "tanh": (Tanh(), 1.0),
    "sigmoid": (Sigmoid(), 1.0),
    "gelu": (GELU(), 1.0),
    "silu": (SiLU(), 1.0),
    "softplus": (Softplus(), 1.0),
    "softplus 2.5": (Softplus(2.5), 2.5),
}
SLOPES = {
    "elu": lambda p, alpha: alpha * p.exp() if p < 0 else arb(1),
    "tanh": lambda p, _: 1 - p.tanh() ** 2,
    "sigmoid": lambda p, _: 1 / (2 + p.exp() + (-p).exp()),
    "gelu": lambda p, _: (1 + (p / arb(2).sqrt()).erf()) / 2 + p * (-p * p / 2).exp() / (2 * arb.pi()).sqrt(),
    "silu": lambda p, _: (1 + p / (1 + p.exp())) / (1 + (-p).exp()),
    "softplus": lambda p, beta: 1 / (1 + (-beta * p).exp()) if beta * p < 20 else arb(1),  # from above at the jump
}


def points(precision: torch.dtype) -> Tensor:
    """Of both signs, evenly over the bends and over all sizes from 1e-7 on."""
    even, sizes = torch.linspace(-25, 25, 1501, dtype=torch.float64), torch.logspace(-7, 2, 400, dtype=torch.float64)
    return torch.cat([even, sizes, -sizes]).to(precision).unique()


def off_by_more(computed: Tensor, exact: list[arb], allowed: list[arb]) -> list[int]:
    """The places where a number is further from a ball than allowed."""
    found = zip(computed.double().tolist(), exact, allowed, strict=True)
    return [place for place, (value, ball, most) in enumerate(found) if not (abs(arb(value) - ball) <= most)]


@pytest.mark.parametrize("precision", FORMATS, ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_activations_are_as_accurate_as_assumed(name: str, precision: torch.dtype) -> None:
    ctx.prec = BITS
    (sigma, parameter), p = SMOOTH[name], points(precision)
    exact = [ACTIVATIONS[sigma.name](arb(float(each)), arb(parameter)) for each in p]
    u, tiny, gain, zero = torch.finfo(precision).eps / 2, torch.finfo(precision).tiny, sigma.gain(), sigma.at_zero()
    run = [16 * u * (abs(value) + gain + zero) + tiny for value in exact]
    assert not off_by_more(sigma(p), exact, run)
    if precision in (torch.float32, torch.float64):  # in which bounds are computed
        within = [arb(8 * u * (gain * abs(float(each)) + zero) + tiny) for each in p]
        assert not off_by_more(sigma(p), exact, within)
        slopes = [SLOPES[sigma.name](arb(float(each)), arb(parameter)) for each in p]
        assert not off_by_more(sigma._derivative(p), slopes, [arb(8 * u * gain)] * len(p))


@pytest.mark.parametrize("precision", FORMATS, ids=str)
def test_inverse_roots_are_good_to_four_ulp(precision: torch.dtype) -> None:
    ctx.prec = BITS
    most = {torch.float16: 2**11, torch.bfloat16: 2**8}.get(precision, 2**22)
    counts = np.unique(np.concatenate([np.arange(1, 257), np.geomspace(257, most, 2000).astype(int)]))
    counts = counts[counts <= most]
    exact = [1 / arb(int(count)).sqrt() for count in counts]
    allowed = [8 * (torch.finfo(precision).eps / 2) * value for value in exact]
    assert not off_by_more(torch.from_numpy(counts).to(precision).pow(-0.5), exact, allowed)


def test_too_much_is_noticed() -> None:
    ctx.prec = BITS
    exact, one = [arb(1) / 3], torch.full((1,), 1 / 3, dtype=torch.float64)
    allowed = [arb(math.ulp(1 / 3))]
    assert not off_by_more(one, exact, allowed)
    assert off_by_more(one * (1 + 1e-15), exact, allowed) == [0]
