from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import binom

from certgcl.changes.coverage import binomial_quantile, jointly_covering_level, poisson_binomial_quantiles

LEVELS = [0.01, 0.5, 0.9, 0.99, 0.999999]


def distribution(probabilities: list[float]) -> np.ndarray:
    """P(k drops) for k = 0 … n, summed over all 2^n outcomes."""
    mass = np.zeros(len(probabilities) + 1)
    for outcome in product([False, True], repeat=len(probabilities)):
        mass[sum(outcome)] += np.prod([p if drop else 1 - p for p, drop in zip(probabilities, outcome, strict=True)])
    return mass


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rate", [0.05, 0.4, 0.9])
def test_binomial_quantile_is_the_smallest_that_covers(rate: float, level: float) -> None:
    trials = torch.tensor([5, 0, 1, 40, 5, 3])
    quantile = binomial_quantile(trials, rate, level)
    assert quantile.dtype == torch.long
    for n, q in zip(trials.tolist(), quantile.tolist(), strict=True):
        assert 0 <= q <= n
        assert binom.cdf(q, n, rate) >= level or q == n
        assert q == 0 or binom.cdf(q - 1, n, rate) < level


@pytest.mark.parametrize("level", LEVELS)
def test_poisson_binomial_quantile_is_the_smallest_that_covers(level: float) -> None:
    rows = [[0.1, 0.9, 0.5], [], [0.3], [0.0, 1.0], [0.2, 0.4, 0.6, 0.8, 0.05, 0.35]]
    rowptr = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
    probability = torch.tensor([p for row in rows for p in row], dtype=torch.float64)
    for row, q in zip(rows, poisson_binomial_quantiles(rowptr, probability, level).tolist(), strict=True):
        covered = distribution(row).cumsum()
        assert covered[q] >= level - 1e-12
        assert q == 0 or covered[q - 1] < level + 1e-12


@pytest.mark.parametrize("level", LEVELS)
def test_equal_probabilities_are_the_binomial_case(level: float) -> None:
    degree = torch.tensor([7, 0, 1, 30])
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)])
    single = poisson_binomial_quantiles(rowptr, torch.full((38,), 0.4), level)
    assert torch.equal(single, binomial_quantile(degree, torch.tensor(0.4).item(), level))


def test_certain_drops_are_all_counted() -> None:
    assert poisson_binomial_quantiles(torch.tensor([0, 3]), torch.ones(3), 0.5).tolist() == [3]
    assert poisson_binomial_quantiles(torch.tensor([0, 3]), torch.zeros(3), 1 - 1e-16).tolist() == [0]


def test_a_level_that_is_just_reached_is_reached() -> None:
    assert poisson_binomial_quantiles(torch.tensor([0, 1, 3]), torch.full((3,), 0.5), 0.5).tolist() == [0, 1]
    assert poisson_binomial_quantiles(torch.tensor([0, 1, 3]), torch.full((3,), 0.5), 0.75).tolist() == [1, 1]
    assert binomial_quantile(torch.tensor([1, 2]), 0.5, 0.75).tolist() == [1, 1]


def test_a_level_of_one_after_rounding_takes_the_whole_degree() -> None:
    assert binomial_quantile(torch.tensor([4]), 0.4, 1.0).tolist() == [4]
    assert poisson_binomial_quantiles(torch.tensor([0, 4]), torch.full((4,), 0.3), 1.0).tolist() == [4]


def test_joint_level_shares_the_risk_among_nodes_with_edges() -> None:
    degree = torch.tensor([1, 2, 0, 0, 1])
    assert jointly_covering_level(0.9, degree) ** 3 == pytest.approx(0.9)
    assert jointly_covering_level(0.9, torch.zeros(4, dtype=torch.long)) == 0.9
