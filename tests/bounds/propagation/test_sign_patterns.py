"""Sign patterns: the least over the pieces of a few channels is below the activation, and above what chords give."""

import itertools

import pytest
import torch
from torch import Tensor

from certgcl.bounds.propagation import sign_patterns
from certgcl.bounds.propagation.sign_patterns import SignPatterns, dearest, improved
from certgcl.models.two_piece import TwoPieceLinear

SLOPES = {"ReLU": 0.0, "leaky": 0.2, "valley": -0.3, "concave": 1.7}
WIDTH = 6


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Setting:
    """Functionals and ranges of many rows, lines below ``ω · σ(p)``, and points in the ranges."""

    def __init__(self, gamma: float) -> None:
        self.omega, (self.lower, self.upper) = random(200, WIDTH, seed=0), random(2, 200, WIDTH, seed=1).sort(dim=0)[0]
        self.slope = torch.full((WIDTH,), gamma, dtype=torch.float64)
        self.activation = TwoPieceLinear(self.slope)
        lines, up = self.activation.lines(self.lower, self.upper, "adaptive"), self.omega < 0
        self.lines = self.omega * torch.where(up, lines.upper_slope, lines.lower_slope)
        self.constant = (self.omega * torch.where(up, lines.upper_intercept, lines.lower_intercept)).sum(dim=1)
        self.points = self.lower + torch.rand(50, 200, WIDTH, dtype=torch.float64) * (self.upper - self.lower)

    def patterns(self, number: int) -> SignPatterns:
        return dearest(self.omega, self.lower, self.upper, self.slope, number)

    def below(self, number: int) -> Tensor:
        """``min_α λ^α · p + c + gain`` at every point."""
        found = self.patterns(number)
        slopes = found.slopes(self.lines)
        return torch.einsum("rpd,nrd->nrp", slopes, self.points).amin(dim=2) + self.constant + found.gain


@pytest.fixture(params=SLOPES.values(), ids=SLOPES)
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(request.param)


@pytest.mark.parametrize("number", [1, 2, 4, 64, 1024])
def test_the_least_over_patterns_is_below_the_functional(setting: Setting, number: int) -> None:
    value = (setting.omega * setting.activation(setting.points)).sum(dim=2)
    assert (setting.below(number) <= value + 1e-12).all()


def test_with_more_patterns_it_is_no_lower_at_any_point(setting: Setting) -> None:
    values = [setting.below(number) for number in (1, 2, 4, 8)]
    for fewer, more in itertools.pairwise(values):
        assert (more >= fewer - 1e-12).all()
        assert (more > fewer + 1e-3).any()


def test_with_all_of_them_only_free_lines_are_paid_for(setting: Setting) -> None:
    bent = setting.omega * (1 - setting.slope) < 0  # where the product is the smaller of two lines
    exact = (setting.omega * setting.activation(setting.points) * bent).sum(dim=2)
    rest = torch.einsum("rd,nrd->nr", setting.lines * ~bent, setting.points)
    torch.testing.assert_close(setting.below(64), exact + rest)


def test_one_pattern_is_none(setting: Setting) -> None:
    found = setting.patterns(1)
    assert not found.gain.any()
    assert found.channels.shape == (200, 0)
    assert torch.equal(found.slopes(setting.lines)[:, 0], setting.lines)


def test_the_channels_are_those_whose_chords_cost_the_most(setting: Setting) -> None:
    upper = setting.upper.relu()
    chord = setting.activation.lines(setting.lower, setting.upper, "parallel").lower_slope
    cost = -setting.omega * (upper - chord * upper)
    torch.testing.assert_close(setting.patterns(4).gain, cost.clamp(min=0).topk(2, dim=1)[0].sum(dim=1))


def test_channels_whose_sign_is_known_are_left_alone() -> None:
    slope = torch.zeros(2, dtype=torch.float64)
    for lower in (torch.tensor([0.0, 1.0]), torch.tensor([-3.0, -2.0])):
        found = dearest(-torch.ones(1, 2).double(), lower.double()[None], lower.double()[None] + 1, slope, 4)
        assert not found.gain.any()
        assert not found.first.any()
        assert not found.other.any()


def test_products_with_values_and_biases_follow_the_slopes(setting: Setting) -> None:
    found, bias = setting.patterns(8), random(WIDTH, seed=3)
    change = found.slopes(setting.lines) - setting.lines[:, None]
    torch.testing.assert_close(found.times(bias[found.channels]), change @ bias)
    torch.testing.assert_close(found.constant(bias), change @ bias + found.gain[:, None])


def test_gradients_are_those_of_finite_differences(setting: Setting) -> None:
    given = [tensor[:5].clone().requires_grad_() for tensor in (setting.omega, setting.lower, setting.upper)]
    slope = (setting.slope + 0.01).requires_grad_()

    def values(omega: Tensor, lower: Tensor, upper: Tensor, slope: Tensor) -> tuple[Tensor, ...]:
        found = dearest(omega, lower, upper, slope, 4)
        return found.slopes(omega), found.constant(omega[0])

    assert torch.autograd.gradcheck(values, (*given, slope))


# -- the cases that decide ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_what_is_not_improved_does_not_decide(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_patterns, "FEW_CASES", 0)
    row, bound = torch.arange(40) // 4, random(40, 3, seed=seed)
    better = bound + random(40, 3, seed=100 + seed)
    around = torch.where(row == 3, 2 * sign_patterns.MOST_AROUND, 1)
    asked = []

    def some(chosen: Tensor) -> Tensor:
        asked.append(chosen)
        return better[chosen]

    found = improved(bound, row, around, some)
    everything = torch.where(row[:, None] == 3, bound, torch.maximum(bound, better))
    assert torch.equal(found.view(10, 4, 3).amin(dim=1), everything.view(10, 4, 3).amin(dim=1))
    places = torch.cat(asked)
    assert len(places.unique()) == len(places) < 36
    assert not (row[places] == 3).any()
    assert torch.equal(improved(bound, row, around, lambda chosen: better[chosen], together=True), everything)
