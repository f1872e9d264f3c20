"""Numbers of drops that a sampled view does not exceed with a stated probability."""

from itertools import pairwise

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor


def jointly_covering_level(coverage: float, degree: Tensor) -> float:
    """The level that each node needs separately so that all n nodes with an edge hold jointly with ``coverage``.

    ``coverage^(1/n)``. This is enough because the events ``r_i <= q_i`` are all decreasing in the independent drop
    indicators, so by Harris' inequality ``P(all) >= Π P(r_i <= q_i)``.
    """
    nodes = int((degree > 0).sum())
    return float(coverage ** (1.0 / max(1, nodes)))


def binomial_quantile(trials: Tensor, rate: float, level: float) -> Tensor:
    """The smallest q with ``P(Binomial(trials, rate) <= q) >= level``, elementwise."""
    distinct, place = torch.unique(trials, return_inverse=True)
    quantile = binom.ppf(level, distinct.cpu().numpy(), rate)
    return torch.from_numpy(np.maximum(quantile, 0).astype(np.int64)).to(trials.device)[place]


def poisson_binomial_quantiles(rowptr: Tensor, probability: Tensor, level: float) -> Tensor:
    """For every row the smallest q with ``P(number of drops in the row <= q) >= level``.

    The distribution is built one edge at a time, ``P_k = (1 - p) P_k + p P_(k-1)``; cost ``O(Σ d²)``.
    """
    pointer, p = rowptr.tolist(), probability.double().cpu().numpy()
    quantiles = np.zeros(len(pointer) - 1, dtype=np.int64)
    for i, (start, end) in enumerate(pairwise(pointer)):
        mass = np.zeros(end - start + 1)
        mass[0] = 1.0
        for k, drop in enumerate(p[start:end], start=1):
            mass[1 : k + 1] = (1 - drop) * mass[1 : k + 1] + drop * mass[:k]
            mass[0] *= 1 - drop
        # Rounding may leave the total just below a level close to 1; the full degree always covers.
        quantiles[i] = min(int(np.searchsorted(mass.cumsum(), level)), end - start)
    return torch.from_numpy(quantiles).to(rowptr.device)
