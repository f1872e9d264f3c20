"""Training GRACE with a certified bound costs a few plain steps; the aim is at most two.

A step of GRACE on Cora with its preset (encoder 256, 128; all negatives), with the regularizer of each variant; all in
turn, each after an untimed step of its own kind, the median of the repeats. Peak memory is that of a fresh process
after two steps. Beside certgcl's own plain step stands the usual one, of PyG's layers and one loss for each direction,
for comparison: ratios and aims are against certgcl's own, the faster one.

``CERTGCL_DATA=... python -m benchmarks.training_costs_a_few_plain_steps [--json FILE]``
"""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.real_graphs import load
from benchmarks.setting import grace_step, usual_grace_step
from certgcl.bounds import METHODS as LIBRARY
from certgcl.bounds import BoundMethod, Degree

METHODS: dict[str, BoundMethod] = {
    "released": LIBRARY["released"],
    "degree": LIBRARY["degree"],
    "degree-fast": LIBRARY["degree-fast"],
    "degree-cheap": Degree(preactivations="interval", slopes=("adaptive",), lines="shared", resolution=1),
}
"""The settings that training uses."""


class Variant(NamedTuple):
    method: str
    anchors: int | None  # a step; None for all
    at_most: float | None  # the aim, in plain steps


PLAIN, USUAL = "plain", "plain, as usually written with PyG"
VARIANTS: dict[str, Variant | None] = {
    PLAIN: None,
    USUAL: None,
    "released, all anchors": Variant("released", None, 1.25),
    "degree-cheap, all anchors": Variant("degree-cheap", None, 2.0),
    "degree-fast, 256 anchors": Variant("degree-fast", 256, 2.0),
    "degree-fast, all anchors": Variant("degree-fast", None, None),
    "degree, 256 anchors": Variant("degree", 256, None),
}


def make_step(graph: certgcl.Graph, name: str) -> Callable[[], object]:
    variant = VARIANTS[name]
    if variant is None:
        return grace_step(graph) if name == PLAIN else usual_grace_step(graph)
    return grace_step(graph, certgcl.CompactnessRegularizer(
        method=METHODS[variant.method], anchors=-1 if variant.anchors is None else variant.anchors))


def peak_memory(graph: str, name: str) -> float:
    """The peak in GB of a process that makes two steps."""
    step = make_step(certgcl.Graph.of(load(graph)), name)
    _, spent = measure.cost(lambda: (step(), step()))
    return spent["peak_gb"]


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graph", default="Cora")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--warmups", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    memory: dict[str, float | None] = {}
    for name in dict.fromkeys([PLAIN, *arguments.variants]):
        try:
            memory[name] = measure.in_fresh_process(peak_memory, arguments.graph, name)
        except MemoryError:
            memory[name] = None
        print(f"{name}: {'does not fit in memory' if memory[name] is None else f'{memory[name]:.2f} GB'}", flush=True)
    graph = certgcl.Graph.of(load(arguments.graph))
    steps = {name: make_step(graph, name) for name, peak in memory.items() if peak is not None}
    times = measure.interleaved(steps, arguments.repeats, arguments.warmups, settle=1)
    report.publish("training_costs_a_few_plain_steps", arguments.json, graph=arguments.graph,
                   repeats=arguments.repeats, methods={name: repr(method) for name, method in METHODS.items()},
                   **compare(times, memory))


def compare(times: dict[str, list[float]], memory: dict[str, float | None]) -> dict[str, Any]:
    """Every variant against the plain step, and the aims."""
    rows, aims = [], []
    for name, peak in memory.items():
        seconds = statistics.median(times[name]) if name in times else None
        ratio = None if seconds is None else seconds / statistics.median(times[PLAIN])
        rows.append({"variant": name, "seconds": seconds, "ratio": ratio, "peak_gb": peak,
                     "all_seconds": times.get(name)})
        variant = VARIANTS[name]
        if variant is not None and variant.at_most is not None:
            aims.append(report.aim(f"{name}, in plain steps", ratio, at_most=variant.at_most,
                                   failed=peak is None))
    return {"rows": rows, "aims": aims}


def tables(result: dict[str, Any]) -> list[str]:
    return [report.markdown(["step", "seconds", "× plain", "peak memory, GB"],
                            [[row["variant"], row["seconds"], row["ratio"], row["peak_gb"]] for row in result["rows"]])]


if __name__ == "__main__":
    main()
