"""Lines around smooth activations: sound for every interval, touching, and differentiable."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from certgcl.errors import EncoderError, MethodError
from certgcl.models.activations import Activation, Lines
from certgcl.models.convex_pieces import ConvexPiece, increasing_root
from certgcl.models.registry import ACTIVATIONS, OWN, register_activation
from certgcl.models.smooth import ELU, GELU, Sigmoid, SiLU, Softplus, Tanh

RULES = ("parallel", "adaptive", "flat")
DTYPES = (torch.float64, torch.float32)


def _mish_derivative(p: Tensor) -> Tensor:
    soft = torch.tanh(functional.softplus(p))
    return soft + p * torch.sigmoid(p) * (1 - soft * soft)


KNOWN: dict[str, Activation] = {
    "elu": ELU(),
    "elu 0.3": ELU(0.3),
    "elu 2": ELU(2.0),
    "tanh": Tanh(),
    "sigmoid": Sigmoid(),
    "gelu": GELU(),
    "silu": SiLU(),
    "softplus": Softplus(),
    "softplus 3": Softplus(3.0, 5.0),
    "mish": register_activation(
        "mish for these tests",
        functional.mish,
        _mish_derivative,
        gain=1.09,
        turns=(-2.256376396360793, 1.4905711794854285),
        convex_first=False,
    ),
}
ULPS = 4  # of gain |p| + |σ(0)|: what evaluating σ and a line may be off by

activations = pytest.mark.parametrize("sigma", KNOWN.values(), ids=KNOWN.keys())
rules = pytest.mark.parametrize("rule", RULES)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=("float64", "float32"))


def intervals(dtype: torch.dtype, count: int = 4000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Widths of 1e-4 to 1e2, some zero, around places where activations bend."""
    generator = torch.Generator().manual_seed(seed)
    middle = 2.5 * torch.randn(count, generator=generator, dtype=torch.float64)
    width = 10 ** (6 * torch.rand(count, generator=generator, dtype=torch.float64) - 4)
    lower = (middle - width * torch.rand(count, generator=generator, dtype=torch.float64)).to(dtype)
    upper = (lower + width).to(dtype)
    upper[::50] = lower[::50]
    return lower, upper


def points(lower: Tensor, upper: Tensor, count: int = 101) -> Tensor:
    """Of each interval with both ends, in float64, ``(count, intervals)``."""
    lower, upper = lower.double(), upper.double()
    grid = lower + torch.linspace(0, 1, count, dtype=torch.float64)[:, None] * (upper - lower)
    return torch.minimum(torch.maximum(grid, lower), upper)


def gaps(sigma: Activation, lower: Tensor, upper: Tensor, lines: Lines, p: Tensor) -> tuple[Tensor, Tensor]:
    """How far σ lies above its lower line and below its upper one, in ulps of its size."""
    low_slope, least, up_slope, most = (part.double() for part in lines)
    unit = (
        torch.finfo(lower.dtype).eps
        * (sigma.gain() * torch.maximum(lower.abs(), upper.abs()).double() + sigma.at_zero())
        + 1e-300
    )
    value = sigma(p)
    return (value - (low_slope * p + least)) / unit, (up_slope * p + most - value) / unit


@activations
@rules
@dtypes
def test_lines_enclose_the_activation_on_thousands_of_intervals(
    sigma: Activation, rule: str, dtype: torch.dtype
) -> None:
    lower, upper = intervals(dtype)
    lines = sigma.lines(lower, upper, rule)
    above, below = gaps(sigma, lower, upper, lines, points(lower, upper))
    assert above.min() >= -ULPS
    assert below.min() >= -ULPS
    assert all(part.dtype == dtype and part.shape == lower.shape for part in lines)


@activations
@rules
@pytest.mark.parametrize("slope", [-0.7, 0.0, 0.05, 0.3, 0.999999, 1.0, 1.05])
def test_every_slope_is_sound_and_its_intercepts_touch(sigma: Activation, rule: str, slope: float) -> None:
    lower, upper = intervals(torch.float64, 1000, seed=1)
    a = torch.full_like(lower, slope)
    anywhere = {"parallel": lower, "adaptive": upper, "flat": torch.zeros_like(lower)}[rule]  # where to look first
    least, most = sigma._intercepts(lower, upper, a, a, (anywhere, anywhere))
    grid = points(lower, upper, 2001)
    value = sigma(grid) - slope * grid
    unit = 1e-15 * (4 + 2 * torch.maximum(lower.abs(), upper.abs()))
    step = (upper - lower) / 2000
    near = 2 * step**2 + 20 * unit + 2 * step * isinstance(sigma, ELU | Softplus)  # kinks and jumps lie between points
    near = near + sigma.jump
    for gap in (value.amin(0) - least, most - value.amax(0)):
        assert (gap >= -unit).all()
        assert (gap <= near).all()


def test_a_root_that_is_far_off_is_loose_but_sound() -> None:
    def wrong(a: Tensor) -> Tensor:
        return torch.full_like(a, 1.5)

    piece = ConvexPiece(torch.exp, torch.exp, convex=True, root=wrong)
    lower, upper = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([1.0, 3.0, 4.0])
    a = torch.tensor([1.0, 2.0, 9.0])
    least, _ = piece.extremes(lower, upper, a, a, lower)
    grid = points(lower, upper)
    assert (least <= (torch.exp(grid) - a * grid).amin(0)).all()


@rules
@activations
def test_lines_touch(sigma: Activation, rule: str) -> None:
    lower, upper = intervals(torch.float64, 500, seed=2)
    lines = sigma.lines(lower, upper, rule)
    grid = points(lower, upper, 4001)
    step = (upper - lower) / 4000
    for gap in ((sigma(grid) - lines[0] * grid - lines[1]).amin(0), (lines[2] * grid + lines[3] - sigma(grid)).amin(0)):
        assert (gap <= 2 * step**2 + 1e-6 + 2 * step * isinstance(sigma, ELU | Softplus) + sigma.jump).all()


@activations
def test_adaptive_lines_leave_less_room_than_intervals(sigma: Activation) -> None:
    lower, upper = intervals(torch.float64, 1000, seed=3)
    middle = (lower + upper) / 2
    low_slope, least, up_slope, most = sigma.lines(lower, upper, "adaptive")
    low, up = sigma.interval(lower, upper)
    assert (((up_slope - low_slope) * middle + most - least).mean()) < 0.8 * (up - low).mean()


@activations
@dtypes
def test_interval_is_the_range(sigma: Activation, dtype: torch.dtype) -> None:
    lower, upper = intervals(dtype, seed=4)
    grid = points(lower, upper, 1001)
    least, most = (end.double() for end in sigma.interval(lower, upper))
    unit = torch.finfo(dtype).eps * (4 + 4 * torch.maximum(lower.abs(), upper.abs()).double())
    step = (upper - lower).double() / 1000
    for gap in (sigma(grid).amin(0) - least, most - sigma(grid).amax(0)):
        assert (gap >= -unit).all()
        assert (gap <= unit + 2 * step**2 + sigma.jump).all()


@activations
@rules
@dtypes
def test_an_interval_of_one_point_gives_its_value(sigma: Activation, rule: str, dtype: torch.dtype) -> None:
    p = torch.tensor([-700.0, -3.0, -1.0, -1e-3, 0.0, 1e-30, 0.5, 1.2, 4.0, 100.0, 1e4], dtype=dtype)
    low_slope, least, up_slope, most = sigma.lines(p, p, rule)
    near = {"rtol": 8 * torch.finfo(dtype).eps, "atol": 1e-30 + 8 * torch.finfo(dtype).eps * float(p.abs().max() > 0)}
    for line in (low_slope * p + least, up_slope * p + most):
        torch.testing.assert_close(line, sigma(p), **near)
    assert all(torch.equal(end, sigma(p)) for end in sigma.interval(p, p))


@activations
@rules
@dtypes
@pytest.mark.parametrize("size", [1e3, 1e10, 1e30])
def test_huge_intervals_have_finite_sound_lines(sigma: Activation, rule: str, dtype: torch.dtype, size: float) -> None:
    lower = torch.tensor([-size, -size, -size, 0.0, 1.0, -1.0, size / 2], dtype=dtype, requires_grad=True)
    upper = torch.tensor([size, 0.0, -size / 2, size, size, size, size], dtype=dtype, requires_grad=True)
    lines = sigma.lines(lower, upper, rule)
    assert all(part.isfinite().all() for part in lines)
    above, below = gaps(
        sigma,
        lower.detach(),
        upper.detach(),
        Lines(*(part.detach() for part in lines)),
        points(lower.detach(), upper.detach()),
    )
    assert above.min() >= -ULPS
    assert below.min() >= -ULPS
    gradients = torch.autograd.grad(sum(part.sum() for part in (*lines, *sigma.interval(lower, upper))), (lower, upper))
    assert all(gradient.isfinite().all() for gradient in gradients)


@activations
@rules
def test_gradients_are_finite_everywhere(sigma: Activation, rule: str) -> None:
    lower, upper = (end.requires_grad_() for end in intervals(torch.float64, seed=5))
    parts = (*sigma.lines(lower, upper, rule), *sigma.interval(lower, upper))
    for gradient in torch.autograd.grad(sum(part.sum() for part in parts), (lower, upper)):
        assert gradient.isfinite().all()
        assert gradient.abs().max() <= (1e5 if isinstance(sigma, ELU) and sigma.alpha != 1 else 20)  # at a kink


@activations
@rules
def test_gradients_are_those_of_the_lines(sigma: Activation, rule: str) -> None:
    some = ((-1.0, 2.0), (-2.1, 1.1), (0.5, 2.2), (-2.0, -0.6), (-4.0, 5.0), (-3.0, 0.3), (-0.2, 4.0))
    lower, upper = torch.tensor(some, dtype=torch.float64).T.clone()
    place = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]  # of p; what matters is a p + c

    def values(lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
        low_slope, least, up_slope, most = sigma.lines(lower, upper, rule)
        return (low_slope * place + least, up_slope * place + most, *sigma.interval(lower, upper))

    assert torch.autograd.gradcheck(values, [lower.requires_grad_(), upper.requires_grad_()], eps=1e-5, atol=2e-4)


@activations
def test_gain_and_value_at_zero_hold(sigma: Activation) -> None:
    p = torch.linspace(-30, 30, 60001, dtype=torch.float64)
    assert (sigma(p).diff().abs() <= sigma.gain() * p.diff() * (1 + 1e-9) + sigma.jump).all()
    assert abs(float(sigma(torch.zeros((), dtype=torch.float64)))) <= sigma.at_zero()


@pytest.mark.parametrize(
    ("sigma", "torch_activation"),
    [
        (ELU(0.7), torch.nn.ELU(0.7)),
        (Tanh(), torch.nn.Tanh()),
        (Sigmoid(), torch.nn.Sigmoid()),
        (GELU(), torch.nn.GELU()),
        (SiLU(), torch.nn.SiLU()),
        (Softplus(2.0), torch.nn.Softplus(2.0)),
    ],
)
def test_is_the_activation_of_torch(sigma: Activation, torch_activation: torch.nn.Module) -> None:
    p = torch.linspace(-30, 30, 1001, dtype=torch.float64)
    assert torch.equal(sigma(p), torch_activation(p))


@activations
def test_files_find_it_by_its_name_and_settings(sigma: Activation) -> None:
    again = ACTIVATIONS[sigma.name](**sigma.settings(), **sigma.tensors())
    p = torch.linspace(-5, 5, 11)
    assert torch.equal(again(p), sigma(p))
    assert again.settings() == sigma.settings()
    assert torch.equal(sigma.with_tensors({})(p), sigma(p))


def test_softplus_encloses_the_jump_at_its_threshold() -> None:
    sigma = Softplus(1.0, 2.0)
    lower, upper = torch.tensor([1.9, 2.0, 1.0]), torch.tensor([2.1, 3.0, 2.0 + 1e-6])
    for rule in RULES:
        above, below = gaps(sigma, lower, upper, sigma.lines(lower, upper, rule), points(lower, upper, 5001))
        assert above.min() >= -ULPS
        assert below.min() >= -ULPS
    assert sigma.interval(lower, upper)[1][0] >= sigma(torch.tensor(2.0))


def test_an_own_activation_is_known_by_what_stands_for_it() -> None:
    class LogCosh(torch.nn.Module):
        pass

    def log_cosh(p: Tensor) -> Tensor:
        return torch.logaddexp(p, -p) - math.log(2)

    sigma = register_activation("log cosh", log_cosh, torch.tanh, convex_first=True, gain=1.0, stands_for=(LogCosh,))
    assert OWN[log_cosh] is OWN[LogCosh] is ACTIVATIONS["log cosh"]() is sigma
    least, most = sigma.interval(torch.tensor([-1.0]), torch.tensor([2.0]))
    assert float(least) == pytest.approx(0.0, abs=1e-6)
    assert float(most) == pytest.approx(math.log(math.cosh(2.0)), abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"derivative": torch.cos}, "that of the function"),
        ({"convex_first": False}, "falls"),
        ({"turns": ()}, "falls|rises"),
        ({"gain": 0.5}, "at most the gain"),
        ({"gain": math.inf}, "finite number"),
        ({"turns": (1.0, 0.0)}, "rising order"),
        ({"name": "tanh"}, "unique among the activations"),
        ({"function": torch.abs, "derivative": torch.sign, "turns": (0.0,)}, "jump|that of"),
    ],
)
def test_wrong_statements_about_an_own_activation_are_refused(arguments: dict[str, object], words: str) -> None:
    stated = {
        "name": "own tanh",
        "function": torch.tanh,
        "derivative": lambda p: 1 - torch.tanh(p) ** 2,
        "turns": (0.0,),
        "convex_first": True,
        "gain": 1.0,
    }
    with pytest.raises(EncoderError, match=words):
        register_activation(**{**stated, **arguments})
    assert "own tanh" not in ACTIVATIONS


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [(ELU, (0.0,)), (ELU, (-1.0,)), (ELU, (math.nan,)), (Softplus, (math.inf,)), (Softplus, (1.0, -3.0))],
)
def test_parameters_that_make_no_activation_are_refused(kind: type, parameters: tuple[float, ...]) -> None:
    with pytest.raises(EncoderError, match="above zero"):
        kind(*parameters)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(MethodError, match="steep"):
        Tanh().lines(torch.zeros(1), torch.ones(1), "steep")


def test_the_root_finder_finds_roots() -> None:
    target = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    low, high = torch.full_like(target, -40), torch.full_like(target, 40)
    found = increasing_root(lambda p: torch.sigmoid(p) - target, low, high)
    torch.testing.assert_close(torch.sigmoid(found), target, rtol=0, atol=1e-9)
