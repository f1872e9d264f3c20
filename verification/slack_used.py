"""How much of the slack for rounding is ever used: a local search for the largest excess of a bound over the truth.

Without a budget a bound is the clean value, and all that can put it above the exact one is rounding; where something
may change, bounds of one layer and those of a search come that close too. From random networks on, weights and features
are moved and rescaled as long as ``(lower - exact minimum) / rounding`` grows; the exact minimum is a ball of Arb. A
share above one would be a violation.

``python -m verification.slack_used [--steps 300] [--starts 3] [--seed 0] [--only TEXT]``
"""

import argparse
from dataclasses import dataclass, replace
from typing import Literal

import networkx as nx
import numpy as np
import torch
from flint import arb, arb_mat

import certgcl
from verification.exact_arithmetic import compactness_direction, dot, pooled_exactly
from verification.exact_views import CHANGES, ExactViews, changes_to, network_of
from verification.network_audit import library_graph, library_network
from verification.network_case import Array, NetworkCase, PlainActivation
from verification.networks import KINDS, RELU, SMOOTH, Builder, network_case
from verification.pooling_audit import POOLS, certify_pooled

Asked = Literal["given directions", "W^CL", "both views", "mean", "sum", "max"]


@dataclass(frozen=True)
class Start:
    """What is asked about a network of some kind: all that is not moved."""

    kind: str = "GCN"
    depth: int = 2
    activation: PlainActivation | None = RELU
    asked: Asked = "given directions"
    method: str = "degree"
    change: str | None = None


STARTS: dict[str, Start] = {
    **{kind: Start(kind, 1 if kind.startswith("GIN") else 2) for kind in KINDS},
    "GCN, one layer": Start(depth=1),
    "GCN, three layers": Start(depth=3),
    **{f"GCN with {each}": Start(activation=each) for each in SMOOTH},
    "W^CL": Start(asked="W^CL"),
    "both views": Start(asked="both views"),
    **{f"pooled, {pool}": Start(asked=pool) for pool in POOLS},
    **{f"one layer, {change}": Start(depth=1, activation=None, change=change) for change in CHANGES},
    **{f"exact, {change}": Start(method="exact", change=change) for change in CHANGES},
}


def shares(network: NetworkCase, start: Start, dtype: torch.dtype) -> list[float]:
    """``(lower - exact minimum) / rounding`` of every node, or of the one graph."""
    case = network if start.change is None else CHANGES[start.change](network)
    views = ExactViews(case)
    if start.asked in ("mean", "sum", "max"):
        pooled = certify_pooled(network, start.asked, dtype=dtype)
        (direction,) = _exactly(pooled.directions)
        return _shares(pooled.lower, pooled.rounding, [dot(direction, pooled_exactly(views.at(0), start.asked))])
    model, graph, changes = library_network(network_of(case)), library_graph(network_of(case)), changes_to(case)
    if start.asked == "given directions":
        given = torch.from_numpy(network.directions)
        found = certgcl.linear_bounds(model, graph, changes, given, method=start.method, dtype=dtype)
        directions = _exactly(found.directions)  # bounds in float32 are about the direction as it was rounded to that
    else:
        second: Literal["one", "both"] = "both" if start.asked == "both views" else "one"
        found = certgcl.node_compactness(model, graph, changes, method=start.method, dtype=dtype, views=second)
        clean = arb_mat(views.at(0))
        directions = [compactness_direction(clean, node) for node in range(clean.nrows())]
    return _shares(found.lower, found.rounding, views.least(directions))


def _exactly(directions: torch.Tensor) -> list[list[arb]]:
    return [list(map(arb, row)) for row in directions.double().tolist()]


def _shares(lower: torch.Tensor, rounding: torch.Tensor, least: list[arb]) -> list[float]:
    return [
        float((arb(bound) - value) / arb(slack))
        for bound, slack, value in zip(lower.tolist(), rounding.tolist(), least, strict=True)
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
    random, start = np.random.default_rng(seed), STARTS[name]
    builder = Builder(random, start.activation, width=3, features=3, shift=0.15)
    case = network_case(nx.lollipop_graph(3, 1), start.kind, start.depth, builder).with_budget(0)
    best = max(shares(case, start, dtype))
    for _ in range(steps):
        candidate = moved(case, random)
        found = max(shares(candidate, start, dtype))
        if found >= best:
            case, best = candidate, found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    for option, default in (("--steps", 300), ("--starts", 3), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--only", default="", help="names that hold this text")
    arguments = parser.parse_args()
    largest = 0.0
    for dtype in (torch.float64, torch.float32):
        for name in filter(lambda name: arguments.only in name, STARTS):
            found = max(
                climb(name, arguments.steps, arguments.seed + start, dtype) for start in range(arguments.starts)
            )
            largest = max(largest, found)
            print(f"{str(dtype).removeprefix('torch.'):<10}{name:<36}{found:9.2e} of the slack was used", flush=True)
    print(f"{largest:.2e} at the most")


if __name__ == "__main__":
    main()
