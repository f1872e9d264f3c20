"""``python -m verification.slopes``: the gain of gradient steps on the free slopes of ``degree``.

Every slope that is free, in both layers, is a separate parameter for each anchor, starts at ``adaptive`` and takes
projected steps of Adam; the best bound seen counts, including that of ``degree``. Cases are those of
:mod:`verification.tightness`. For comparison there is ``optimized``, which branches instead.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import ChangeProblem, Degree
from certgcl.models.activations import Lines, SlopeRule
from certgcl.models.two_piece import TwoPieceLinear
from verification.audit import Ledger, certify, weights
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.tightness import random_case

RATE = 0.1  # of Adam; slopes lie between 0 and 1


class FreeSlopes:
    """The lower lines of ReLUs with a slope of their own wherever one is free, in the order of their use."""

    def __init__(self) -> None:
        self.slopes: list[Tensor] = []
        self.asked = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        closed_form, self.asked = TwoPieceLinear.lines, 0

        def lines(activation: TwoPieceLinear, lower: Tensor, upper: Tensor, rule: SlopeRule) -> Lines:
            found = closed_form(activation, lower, upper, rule)
            if self.asked == len(self.slopes):
                self.slopes.append(found.lower_slope.detach().clone().requires_grad_())
            slope = self.slopes[self.asked]
            self.asked += 1
            return found._replace(lower_slope=torch.where((lower < 0) & (upper > 0), slope, found.lower_slope))

        with mock.patch.object(TwoPieceLinear, "lines", lines):
            yield


def by_gradient_steps(case: Case, steps: int) -> Tensor:
    """The best bound of every node on the way."""
    graph = certgcl.Graph.from_networkx(case.graph, case.x)
    changes = certgcl.Changes(certgcl.EdgeDropBudget(case.local, case.total)).on(graph)
    best = certify(case, "degree").lower.clone()
    for node in range(case.nodes):
        problem, free = ChangeProblem(graph, changes, torch.tensor([node])), FreeSlopes()
        optimiser: torch.optim.Adam | None = None
        for _ in range(steps):
            with free.used():
                bound = Degree(slopes=("adaptive",))(weights(case), problem, case.directions[:, None])[0, 0]
            best[node] = best[node].maximum(bound.detach())
            if not bound.requires_grad:
                break
            optimiser = optimiser or torch.optim.Adam(free.slopes, lr=RATE)
            optimiser.zero_grad()
            (-bound).backward()
            optimiser.step()
            for slope in free.slopes:
                slope.data.clamp_(0, 1)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random, ledger = np.random.default_rng(arguments.seed), Ledger()
    for _ in range(arguments.cases):
        case = random_case(random)
        truth, clean = enumerated_minimum(case), nominal(case)
        for name, bound in (
            ("degree", certify(case, "degree").lower),
            ("degree, slopes optimised", by_gradient_steps(case, arguments.steps)),
            ("optimized", certify(case, "optimized").lower),
        ):
            ledger.enter(name, case, bound, truth, clean, scale=1.0)
    print("\n".join(ledger.lines()))


if __name__ == "__main__":
    main()
