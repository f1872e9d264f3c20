"""How much of the slack for rounding is ever used: a climb that looks for the largest excess of a bound over the truth.

Without a budget a bound is the clean value, and all that can put it above the exact one is rounding. From random
networks on, weights and features are moved and rescaled as long as ``(lower - exact value) / rounding`` grows; the
exact value is a ball of Arb. A share above one would be a violation.

``python -m verification.slack_used [--steps 300] [--starts 3] [--seed 0]``
"""

import argparse
from dataclasses import replace

import networkx as nx
import numpy as np
import torch
from flint import arb

from verification.exact_arithmetic import ExactNetwork
from verification.network_audit import certify_network
from verification.network_case import Array, NetworkCase, PlainActivation
from verification.networks import RELU, Builder, network_case

STARTS: dict[str, tuple[str, int, PlainActivation]] = {
    "GCN, one layer": ("GCN", 1, RELU),
    "GCN, two layers": ("GCN", 2, RELU),
    "GCN, three layers": ("GCN", 3, RELU),
    "SAGE mean, two layers": ("SAGE mean", 2, RELU),
    "GIN": ("GIN", 1, RELU),
    "APPNP": ("APPNP", 2, RELU),
    "GCN with ELU": ("GCN", 2, PlainActivation("elu")),
    "GCN with GELU": ("GCN", 2, PlainActivation("gelu")),
}


def shares(case: NetworkCase, dtype: torch.dtype) -> list[float]:
    """``(lower - exact value) / rounding`` of every node."""
    certificate, exact = certify_network(case, "degree", dtype=dtype), ExactNetwork(case)
    # Bounds in float32 are about the direction as it was rounded to float32.
    directions = certificate.directions.double().tolist()
    return [
        float((arb(float(lower)) - exact.minimum(node, list(map(arb, directions[node])))) / arb(float(rounding)))
        for node, (lower, rounding) in enumerate(
            zip(certificate.lower.tolist(), certificate.rounding.tolist(), strict=True)
        )
    ]


def moved(case: NetworkCase, random: np.random.Generator) -> NetworkCase:
    """The same with one of its arrays moved a little, or rescaled by a power of two."""

    def other(array: Array) -> Array:
        if random.random() < 0.3:
            return array * 2.0 ** random.integers(-12, 13)
        return array * (1 + 0.1 * random.normal(size=array.shape)) + 1e-3 * random.normal(size=array.shape)

    number = int(random.integers(len(case.layers) + 2))
    if number == len(case.layers):
        return replace(case, x=other(case.x))
    if number > len(case.layers):
        return replace(case, directions=other(case.directions))
    layer = case.layers[number]
    changed = (
        replace(layer, bias=other(layer.bias))
        if random.random() < 0.3
        else replace(layer, terms=tuple(replace(term, weight=other(term.weight)) for term in layer.terms))
    )
    return replace(case, layers=(*case.layers[:number], changed, *case.layers[number + 1 :]))


def climb(name: str, steps: int, seed: int, dtype: torch.dtype = torch.float64) -> float:
    """The largest share that is found from one start."""
    random, (kind, depth, activation) = np.random.default_rng(seed), STARTS[name]
    builder = Builder(random, activation, width=3, features=3, shift=0.15)
    case = network_case(nx.lollipop_graph(3, 1), kind, depth, builder).with_budget(0)
    best = max(shares(case, dtype))
    for _ in range(steps):
        candidate = moved(case, random)
        found = max(shares(candidate, dtype))
        if found >= best:
            case, best = candidate, found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    for option, default in (("--steps", 300), ("--starts", 3), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    arguments = parser.parse_args()
    for dtype in (torch.float64, torch.float32):
        for name in STARTS:
            found = max(
                climb(name, arguments.steps, arguments.seed + start, dtype) for start in range(arguments.starts)
            )
            print(f"{str(dtype).removeprefix('torch.'):<10}{name:<24}{found:.2e} of the slack was used")


if __name__ == "__main__":
    main()
