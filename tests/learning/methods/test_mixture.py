import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.errors import InputError
from certgcl.learning.methods.mixture import EDGE, MAX_CONCENTRATION, TABLE_STEPS, BetaMixture

Component = tuple[float, float, float]  # α, β, weight


def mixture(*components: Component) -> BetaMixture:
    alpha, beta, weight = torch.tensor(components, dtype=torch.float64).T
    return BetaMixture(alpha, beta, weight)


def components(mixture: BetaMixture) -> list[Component]:
    return list(zip(mixture.alpha.tolist(), mixture.beta.tolist(), mixture.weight.tolist(), strict=True))


def beta_sample(alpha: float, beta: float, count: int) -> Tensor:
    return torch.distributions.Beta(torch.tensor(alpha).double(), torch.tensor(beta).double()).sample((count,))


TWO_KINDS = torch.tensor([0.05, 0.1, 0.12, 0.2, 0.21, 0.3, 0.33, 0.5, 0.8, 0.85, 0.9, 0.97], dtype=torch.float64)
FITTED = BetaMixture.fit(TWO_KINDS)


# -- a reference in plain Python -------------------------------------------------------------------


def density(value: float, alpha: float, beta: float) -> float:
    log_b = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    return math.exp((alpha - 1) * math.log(value) + (beta - 1) * math.log(1 - value) - log_b)


def posterior(value: float, parts: list[Component]) -> list[float]:
    joint = [weight * density(value, alpha, beta) for alpha, beta, weight in parts]
    return [part / sum(joint) for part in joint]


def em_step(values: list[float], parts: list[Component]) -> list[Component]:
    belongs = [posterior(value, parts) for value in values]
    result = []
    for k in range(2):
        mass = sum(b[k] for b in belongs)
        mean = sum(b[k] * v for b, v in zip(belongs, values, strict=True)) / mass
        variance = sum(b[k] * (v - mean) ** 2 for b, v in zip(belongs, values, strict=True)) / mass
        both = mean * (1 - mean) / variance - 1
        result.append((mean * both, (1 - mean) * both, mass / len(values)))
    return result


@pytest.mark.parametrize("steps", [0, 1, 2, 10])
def test_fit_is_expectation_and_weighted_moments(steps: int) -> None:
    expected = [(1.0, 2.0, 0.95), (2.0, 1.0, 0.05)]
    for _ in range(steps):
        expected = em_step(TWO_KINDS.tolist(), expected)
    for found, wanted in zip(components(BetaMixture.fit(TWO_KINDS, steps)), expected, strict=True):
        assert found == pytest.approx(wanted, rel=1e-9)


# -- what is fitted --------------------------------------------------------------------------------


def test_a_known_mixture_is_found_again() -> None:
    values = torch.cat([beta_sample(6, 14, 16_000), beta_sample(20, 5, 4_000)])
    low, high = components(BetaMixture.fit(values))
    assert low == pytest.approx((6, 14, 0.8), rel=0.1)
    assert high == pytest.approx((20, 5, 0.2), rel=0.1)


def test_fit_takes_any_shape_and_dtype_and_is_the_same_every_time() -> None:
    values = beta_sample(2, 5, 600).float()
    flat, square = BetaMixture.fit(values), BetaMixture.fit(values.reshape(20, 30).requires_grad_())
    assert components(flat) == components(square)
    assert flat.alpha.dtype == flat.beta.dtype == flat.weight.dtype == torch.float64
    assert not square.alpha.requires_grad


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.lists(st.floats(0, 1), min_size=1, max_size=30),
        st.tuples(st.floats(0, 1), st.integers(1, 30)).map(lambda pair: [pair[0]] * pair[1]),
        st.tuples(st.floats(0, 1), st.lists(st.floats(0, 1e-9), min_size=1, max_size=9)).map(
            lambda pair: [min(1.0, pair[0] + more) for more in pair[1]]
        ),
        st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=30),
    )
)
def test_any_values_give_a_usable_mixture(values: list[float]) -> None:
    fitted = BetaMixture.fit(torch.tensor(values, dtype=torch.float64))
    for alpha, beta, weight in components(fitted):
        assert alpha > 0
        assert beta > 0
        assert alpha + beta <= MAX_CONCENTRATION * (1 + 1e-9)
        assert 0 < weight < 1
    assert float(fitted.weight.sum()) == pytest.approx(1)
    probability = fitted.posterior_low(torch.linspace(0, 1, 101))
    assert ((probability >= 0) & (probability <= 1)).all()


def test_an_empty_component_keeps_its_shape() -> None:
    # Nothing is left for the second component once the first sits on the values.
    values = torch.full((50,), 0.2) + torch.linspace(-1e-3, 1e-3, 50)
    narrow = mixture((0.2 * 900, 0.8 * 900, 0.999), (90.0, 10.0, 0.001))
    logs = torch.stack([values.double().log(), torch.log1p(-values.double())])
    after = narrow._after_step(values.double(), logs)
    assert components(after)[1][:2] == (90.0, 10.0)
    assert 0 < float(after.weight[1]) < 1e-5


@pytest.mark.parametrize(
    "values", [torch.empty(0), torch.tensor([0.2, -0.4]), torch.tensor([0.2, math.nan]), torch.tensor([1.2])]
)
def test_what_is_no_share_is_refused(values: Tensor) -> None:
    with pytest.raises(InputError, match=r"in \[0, 1\]\. Pass \(s \+ 1\) / 2"):
        BetaMixture.fit(values)


def test_cosines_that_rounding_carries_over_one_are_taken() -> None:
    assert components(BetaMixture.fit(torch.tensor([-1e-6, 0.3, 0.5, 1 + 1e-6]))) == components(
        BetaMixture.fit(torch.tensor([0.0, 0.3, 0.5, 1.0]))
    )


# -- the posterior ---------------------------------------------------------------------------------


def exact_low(mixture: BetaMixture, values: list[float]) -> list[float]:
    parts = components(mixture)
    low = min(range(2), key=lambda k: parts[k][0] / (parts[k][0] + parts[k][1]))
    return [posterior(min(max(value, EDGE), 1 - EDGE), parts)[low] for value in values]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(0.1, 60), min_size=4, max_size=4),
    st.floats(0.01, 0.99),
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
)
def test_the_table_is_as_close_as_it_says(shape: list[float], weight: float, values: list[float]) -> None:
    tried = mixture((shape[0], shape[1], weight), (shape[2], shape[3], 1 - weight))
    found = tried.posterior_low(torch.tensor(values, dtype=torch.float64)).tolist()
    half = 0.5 / TABLE_STEPS
    for value, one, other in zip(values, found, exact_low(tried, values), strict=True):
        # The steepest point within half a step, where "to first order" is exact.
        inside = max(value, EDGE, half) - half, max(1 - value, EDGE, half) - half
        steepest = abs(shape[0] - shape[2]) / max(inside[0], EDGE) + abs(shape[1] - shape[3]) / max(inside[1], EDGE)
        assert abs(one - other) <= steepest / (8 * TABLE_STEPS) + 1e-9


def test_the_table_is_close_in_float32_on_a_fitted_mixture() -> None:
    values = 0.02 + 0.96 * torch.rand(50, 40)
    found = FITTED.posterior_low(values)
    assert (found.shape, found.dtype) == (values.shape, torch.float32)
    assert torch.allclose(found.flatten(), torch.tensor(exact_low(FITTED, values.flatten().tolist())), atol=1e-3)


def test_low_is_the_component_with_the_smaller_mean_whatever_its_place() -> None:
    low, high = (3.0, 9.0, 0.7), (8.0, 2.0, 0.3)
    values = torch.linspace(0, 1, 33)
    assert torch.allclose(mixture(low, high).posterior_low(values), mixture(high, low).posterior_low(values))
    assert float(mixture(high, low).posterior_low(torch.tensor(0.1))) > 0.99
    assert float(mixture(high, low).posterior_low(torch.tensor(0.95))) < 0.01


def test_values_beyond_the_ends_count_as_the_ends() -> None:
    ends = FITTED.posterior_low(torch.tensor([0.0, 1.0]))
    assert torch.equal(FITTED.posterior_low(torch.tensor([-1e-6, 1 + 1e-6])), ends)


def test_the_posterior_has_no_gradient_and_takes_any_layout() -> None:
    values = torch.rand(6, 4, requires_grad=True)
    found = FITTED.posterior_low(values)
    assert not found.requires_grad
    assert torch.equal(FITTED.posterior_low(values.T), found.T)
    assert FITTED.posterior_low(torch.empty(0, 3)).shape == (0, 3)


# -- kept for later --------------------------------------------------------------------------------


def test_a_mixture_survives_its_file(tmp_path: Path) -> None:
    torch.save(FITTED.state_dict(), tmp_path / "mixture.pt")
    again = BetaMixture.from_state_dict(torch.load(tmp_path / "mixture.pt", weights_only=True))
    assert components(again) == components(FITTED)
    values = torch.rand(9)
    assert torch.equal(again.posterior_low(values), FITTED.posterior_low(values))
