import pytest
import torch

from certgcl.errors import MethodError
from certgcl.models.activations import Lines
from certgcl.models.two_piece import TwoPieceLinear

RULES = ("parallel", "adaptive", "flat")
SLOPES = (-1.5, -0.3, 0.0, 0.01, 0.25, 1.0, 1.7, 4.0)
UNSTABLE = ((-1.0, 2.0), (-2.0, 1.0), (-1.0, 1.0), (-1e-3, 50.0), (-50.0, 1e-3))
STABLE = ((0.5, 2.0), (-2.0, -0.5))
DEGENERATE = ((0.7, 0.7), (-0.7, -0.7), (0.0, 0.0), (0.0, 2.0), (-2.0, 0.0))
INTERVALS = UNSTABLE + STABLE + DEGENERATE


def tensor(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def samples(lower: float, upper: float) -> torch.Tensor:
    """A dense grid on [l, u] with both ends, and zero where it lies inside."""
    grid = torch.linspace(lower, upper, 1001, dtype=torch.float64)
    return torch.cat([grid, torch.zeros(1, dtype=torch.float64)]) if lower <= 0 <= upper else grid


def lines_of(slope: float, lower: float, upper: float, rule: str) -> Lines:
    return TwoPieceLinear(tensor(slope)).lines(tensor(lower), tensor(upper), rule)


def gaps(slope: float, lower: float, upper: float, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    """How far σ lies above its lower line and below its upper one."""
    p, lines = samples(lower, upper), lines_of(slope, lower, upper, rule)
    sigma = TwoPieceLinear(tensor(slope))(p)
    return (
        sigma - (lines.lower_slope * p + lines.lower_intercept),
        lines.upper_slope * p + lines.upper_intercept - sigma,
    )


@pytest.mark.parametrize(
    ("slope", "torch_activation"),
    [
        (0.0, torch.nn.ReLU()),
        (0.01, torch.nn.LeakyReLU()),
        (-0.3, torch.nn.LeakyReLU(-0.3)),
        (1.0, torch.nn.Identity()),
    ],
)
def test_is_the_activation_of_torch(slope: float, torch_activation: torch.nn.Module) -> None:
    p = samples(-3, 3)
    torch.testing.assert_close(TwoPieceLinear(tensor(slope))(p), torch_activation(p), rtol=0, atol=1e-15)


def test_has_one_slope_per_channel() -> None:
    sigma = TwoPieceLinear(torch.tensor([0.0, 0.5, -1.0]))
    assert sigma(torch.full((2, 3), -2.0)).tolist() == [[0.0, -1.0, 2.0]] * 2
    assert sigma(torch.full((2, 3), 2.0)).tolist() == [[2.0, 2.0, 2.0]] * 2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_lines_enclose_the_activation(slope: float, lower: float, upper: float, rule: str) -> None:
    above, below = gaps(slope, lower, upper, rule)
    assert above.min() >= -1e-12
    assert below.min() >= -1e-12


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_lines_touch_the_activation(slope: float, lower: float, upper: float, rule: str) -> None:
    above, below = gaps(slope, lower, upper, rule)
    assert above.min() <= 1e-12
    assert below.min() <= 1e-12


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("lower", "upper"), STABLE + DEGENERATE)
def test_lines_are_the_activation_where_its_sign_is_known(slope: float, lower: float, upper: float, rule: str) -> None:
    above, below = gaps(slope, lower, upper, rule)
    assert above.abs().max() <= 1e-15
    assert below.abs().max() <= 1e-15


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("lower", "upper"), UNSTABLE)
def test_one_line_is_the_chord_and_the_other_goes_through_zero(
    slope: float, lower: float, upper: float, rule: str
) -> None:
    lines, sigma = lines_of(slope, lower, upper, rule), TwoPieceLinear(tensor(slope))
    low, up = lines[:2], lines[2:]
    chord, free = (up, low) if slope <= 1 else (low, up)
    for end in (tensor(lower), tensor(upper)):
        torch.testing.assert_close(chord[0] * end + chord[1], sigma(end), rtol=1e-12, atol=1e-12)
    assert free[1] == 0
    assert min(slope, 1.0) - 1e-12 <= free[0] <= max(slope, 1.0) + 1e-12


@pytest.mark.parametrize(
    ("lower", "upper", "rule", "expected"),
    [
        (-1.0, 3.0, "parallel", 0.75),
        (-3.0, 1.0, "parallel", 0.25),
        (-1.0, 3.0, "adaptive", 1.0),
        (-3.0, 1.0, "adaptive", 0.0),
        (-1.0, 3.0, "flat", 0.0),
        (-3.0, 1.0, "flat", 0.0),
    ],
)
def test_rule_picks_the_lower_slope_of_a_relu(lower: float, upper: float, rule: str, expected: float) -> None:
    assert lines_of(0.0, lower, upper, rule).lower_slope == expected


def test_unknown_rule_is_refused() -> None:
    with pytest.raises(MethodError, match=r"steep.*parallel, adaptive, flat"):
        lines_of(0.0, -1.0, 1.0, "steep")


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_interval_is_exact(slope: float, lower: float, upper: float) -> None:
    sigma = TwoPieceLinear(tensor(slope))
    values = sigma(samples(lower, upper))
    least, most = sigma.interval(tensor(lower), tensor(upper))
    assert (least, most) == (values.min(), values.max())


def test_mixed_batch_gives_each_entry_its_own_lines() -> None:
    slope = torch.tensor(SLOPES, dtype=torch.float64)
    lower, upper = torch.tensor(INTERVALS, dtype=torch.float64).T
    batch = TwoPieceLinear(slope).lines(
        lower[:, None].expand(-1, len(SLOPES)), upper[:, None].expand(-1, len(SLOPES)), "adaptive"
    )
    for row, (low, up) in enumerate(INTERVALS):
        for channel, gamma in enumerate(SLOPES):
            assert [line[row, channel] for line in batch] == list(lines_of(gamma, low, up, "adaptive"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slope", SLOPES)
def test_gradients_are_finite_on_every_interval(slope: float, rule: str) -> None:
    gamma = tensor(slope).requires_grad_()
    lower, upper = torch.tensor(INTERVALS, dtype=torch.float64).T.clone().requires_grad_().unbind()
    sigma = TwoPieceLinear(gamma)
    total = sum(part.sum() for part in (*sigma.lines(lower, upper, rule), *sigma.interval(lower, upper)))
    for gradient in torch.autograd.grad(total, (gamma, lower, upper)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_right_away_from_ties(rule: str) -> None:
    def parts(gamma: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sigma = TwoPieceLinear(gamma)
        return (*sigma.lines(lower, upper, rule), *sigma.interval(lower, upper))

    lower, upper = torch.tensor([(-1.0, 2.0), (-2.0, 1.0), (0.5, 2.0), (-2.0, -0.5)], dtype=torch.float64).T
    for slope in (-0.3, 0.25, 1.7):
        inputs = [value.clone().requires_grad_() for value in (torch.full_like(lower, slope), lower, upper)]
        assert torch.autograd.gradcheck(parts, inputs)


@pytest.mark.parametrize("gamma", [0.0, 0.25, 1.0, 1.7, -0.3])
def test_the_gradient_at_zero_is_that_of_the_right_side(gamma: float) -> None:
    p = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    TwoPieceLinear(torch.tensor(gamma, dtype=torch.float64))(p).sum().backward()
    assert p.grad is not None
    assert p.grad.tolist() == [1.0, 1.0, 1.0]
