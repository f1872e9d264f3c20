"""ProGCL's model of similarities: two Beta distributions, of dissimilar and of similar pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.errors import InputError

EDGE = 1e-4  # values are kept this far from 0 and 1, where Beta densities may be 0 or infinite
MAX_CONCENTRATION = 1e4  # of α + β: a standard deviation of 0.005 in the middle
EMPTY = 1e-6  # the least share of the values a component is fitted to, and the least weight
TABLE_STEPS = 1 << 16


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """``Σ_k w_k Beta(α_k, β_k)`` over ``v = (s + 1)/2`` of similarities s; each tensor is ``(2,)``, float64.

    Values are moved into ``[1e-4, 1 - 1e-4]``. The component of low similarities is that with the smaller mean
    ``α/(α + β)``.
    """

    alpha: Tensor
    beta: Tensor
    weight: Tensor

    @classmethod
    def start(cls) -> "BetaMixture":
        """The start of the fit: most pairs are dissimilar."""
        alpha, beta, weight = torch.tensor([[1.0, 2.0], [2.0, 1.0], [0.95, 0.05]], dtype=torch.float64)
        return cls(alpha, beta, weight)

    @classmethod
    def fit(cls, values: Tensor, steps: int = 10) -> "BetaMixture":
        """The mixture after some steps of expectation and weighted moments from :meth:`start`; no randomness.

        Args:
            values: ``(s + 1)/2`` of sampled pairs, any shape.
        """
        flat = values.detach().flatten().double()
        outside = flat[~((flat >= -EDGE) & (flat <= 1 + EDGE))]
        if outside.numel() or not flat.numel():
            found = f"a value {float(outside[0]):g}" if outside.numel() else "no values"
            raise InputError(found, "a mixture is fitted to values in [0, 1]", "Pass (s + 1) / 2 of cosines s")
        flat = flat.clamp(EDGE, 1 - EDGE)
        mixture, logs = cls.start(), _logs(flat)
        for _ in range(steps):
            mixture = mixture._after_step(flat, logs)
        return mixture

    def _after_step(self, values: Tensor, logs: Tensor) -> "BetaMixture":
        """One step of EM: a component with mean m and variance σ² has ``α + β = m (1 - m)/σ² - 1``, ``α = m (α + β)``.

        A component with hardly any values keeps its α and β.
        """
        belongs = self._posterior(logs)  # (2, n)
        share = belongs.mean(dim=1)
        mass = belongs.sum(dim=1).clamp(min=torch.finfo(values.dtype).tiny)
        mean = belongs @ values / mass
        variance = (belongs * (values - mean[:, None]).square()).sum(dim=1) / mass
        concentration = (mean * (1 - mean) / variance - 1).clamp(max=MAX_CONCENTRATION)
        filled = share.cpu() > EMPTY
        alpha, beta = (mean * concentration).cpu(), ((1 - mean) * concentration).cpu()
        weight = share.cpu().clamp(EMPTY, 1 - EMPTY)
        return BetaMixture(torch.where(filled, alpha, self.alpha), torch.where(filled, beta, self.beta), weight)

    def _posterior(self, logs: Tensor) -> Tensor:
        """``P(component | value)`` by the formula, from the values' :func:`_logs`, ``(2, n)``.

        ``log(w Beta(v; α, β)) = (α - 1) log v + (β - 1) log(1 - v) + log w - log B(α, β)``.
        """
        log_b = torch.lgamma(self.alpha) + torch.lgamma(self.beta) - torch.lgamma(self.alpha + self.beta)
        exponents = torch.stack([self.alpha - 1, self.beta - 1], dim=1)
        constant = (self.weight.log() - log_b)[:, None]
        return torch.softmax(exponents.to(logs.device) @ logs + constant.to(logs.device), dim=0)

    @cached_property
    def _low(self) -> Tensor:
        """``P(low | value)`` at the values ``0, 1/T, 2/T, …, 1``."""
        grid = torch.linspace(0, 1, TABLE_STEPS + 1, dtype=torch.float64).clamp(EDGE, 1 - EDGE)
        return self._posterior(_logs(grid))[int((self.alpha / (self.alpha + self.beta)).argmin())]

    @torch.no_grad()
    def posterior_low(self, values: Tensor) -> Tensor:
        """``P(low-similarity component | value)`` for values ``(s + 1)/2``, in their shape and dtype; no gradient.

        It is looked up at the nearest of ``T = 2^16`` steps, which takes a third of the time of the formula. With Δα,
        Δβ the differences between the components, the log-odds grow by at most ``|Δα|/v + |Δβ|/(1 - v)`` per unit of v,
        and the probability by a quarter of that: the error is at most ``(|Δα|/v + |Δβ|/(1 - v)) / (8 T)`` to first
        order, 1e-4 for Δα = Δβ = 13 in the middle.
        """
        place = torch.add(0.5, values, alpha=TABLE_STEPS).to(torch.int32).clamp_(0, TABLE_STEPS)
        table = self._low.to(values.device, values.dtype)
        return table.index_select(0, place.flatten()).view(values.shape)

    def state_dict(self) -> dict[str, Tensor]:
        return {"alpha": self.alpha, "beta": self.beta, "weight": self.weight}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Tensor]) -> "BetaMixture":
        return cls(state["alpha"], state["beta"], state["weight"])


def _logs(values: Tensor) -> Tensor:
    """``log v`` and ``log(1 - v)``, ``(2, n)``."""
    return torch.stack([values.log(), torch.log1p(-values)])
