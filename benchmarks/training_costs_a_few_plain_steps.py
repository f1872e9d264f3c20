"""Training GRACE with a certified bound costs a few plain steps; the aim is at most two.

A step of GRACE on Cora with its preset (encoder 256, 128; all negatives), with the regularizer of each variant. As in
training, nothing else runs in the process: each variant has one of its own, where it takes turns with the plain step,
each after an untimed step of its kind; the median of the repeats. Peak memory is that of a fresh process after two
steps. For comparison there is also the usual plain step, with PyG's layers and one loss for each direction: ratios and
aims are against certgcl's own, the faster one. Rows with another encoder (SAGE with two layers, GCN with three) are
against the plain step of that encoder, and may take three of them.

``CERTGCL_DATA=... python -m benchmarks.training_costs_a_few_plain_steps [--json FILE]``
"""

import contextlib
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch_geometric.nn import GCN, GraphSAGE

import certgcl
from benchmarks import measure, report
from benchmarks.other_networks_cost_a_few_times_two_gcn_layers import Activated
from benchmarks.real_graphs import load
from benchmarks.setting import grace_step, usual_grace_step
from certgcl.bounds import METHODS as LIBRARY
from certgcl.bounds import BoundMethod, Degree

METHODS: dict[str, BoundMethod] = {
    "released": LIBRARY["released"],
    "degree": LIBRARY["degree"],
    "degree, shared lines": Degree(lines="shared"),
    "degree-fast": LIBRARY["degree-fast"],
    "degree-cheap": Degree(preactivations="interval", slopes=("adaptive",), lines="shared", resolution=1),
}
"""The settings that training uses."""


class Variant(NamedTuple):
    method: str | None  # of the regularizer; None for a plain step
    anchors: int | None = None  # a step; None for all
    at_most: float | None = None  # the aim, in plain steps
    encoder: str | None = None  # one of ENCODERS; None for two GCN layers


ENCODERS: dict[str, Callable[[int, int], nn.Module]] = {
    "SAGE": lambda features, hidden: Activated(GraphSAGE(features, 2 * hidden, 2, hidden)),
    "GCN, three layers": lambda features, hidden: Activated(GCN(features, 2 * hidden, 3, hidden)),
}


PLAIN, USUAL = "plain", "plain, as usually written with PyG"
VARIANTS: dict[str, Variant] = {
    PLAIN: Variant(None),
    USUAL: Variant(None),
    "released, all anchors": Variant("released", None, 1.25),
    "degree-cheap, all anchors": Variant("degree-cheap", None, 2.0),
    "degree-fast, 256 anchors": Variant("degree-fast", 256, 2.0),
    "degree, shared lines, 256 anchors": Variant("degree, shared lines", 256, 2.0),
    "degree, 256 anchors": Variant("degree", 256, 2.0),
    "degree-fast, all anchors": Variant("degree-fast", None, None),
    "degree, shared lines, all anchors": Variant("degree, shared lines", None, None),
    "degree, all anchors": Variant("degree", None, None),
    **{f"{PLAIN}, {encoder}": Variant(None, encoder=encoder) for encoder in ENCODERS},
    "SAGE, degree-fast, 256 anchors": Variant("degree-fast", 256, 3.0, "SAGE"),
    "SAGE, degree, 256 anchors": Variant("degree", 256, 3.0, "SAGE"),
    "GCN, three layers, degree-cheap, 256 anchors": Variant("degree-cheap", 256, 3.0, "GCN, three layers"),
    "GCN, three layers, degree-fast, 256 anchors": Variant("degree-fast", 256, None, "GCN, three layers"),
    "GCN, three layers, degree, 256 anchors": Variant("degree", 256, None, "GCN, three layers"),
}


def plain_of(name: str) -> str:
    """The plain step with which a variant is compared."""
    encoder = VARIANTS[name].encoder
    return PLAIN if encoder is None else f"{PLAIN}, {encoder}"


def make_step(graph: certgcl.Graph, name: str) -> Callable[[], object]:
    variant = VARIANTS[name]
    if name == USUAL:
        return usual_grace_step(graph)
    regularizer = (
        None
        if variant.method is None
        else certgcl.CompactnessRegularizer(
            method=METHODS[variant.method],
            anchors=-1 if variant.anchors is None else variant.anchors,
            budget=None,
        )
    )
    return grace_step(graph, regularizer, None if variant.encoder is None else ENCODERS[variant.encoder])


def peak_memory(graph: str, name: str) -> float:
    """The peak in GB of a process that makes two steps."""
    step = make_step(certgcl.Graph.of(load(graph)), name)
    _, spent = measure.cost(lambda: (step(), step()))
    return spent["peak_gb"]


def in_turn(graph: str, name: str, repeats: int, warmups: int) -> dict[str, list[float]]:
    """Seconds of plain steps and of a variant's."""
    loaded = certgcl.Graph.of(load(graph))
    steps = {step: make_step(loaded, step) for step in dict.fromkeys([plain_of(name), name])}
    return measure.interleaved(steps, repeats, warmups, settle=1)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graph", default="Cora")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--warmups", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, aims = [], []
    for name in arguments.variants:
        row = measured(name, arguments.graph, arguments.repeats, arguments.warmups)
        rows.append(row)
        print(row, flush=True)
        aim = VARIANTS[name].at_most
        if aim is not None:
            aims.append(report.aim(f"{name}, in plain steps", row["ratio"], at_most=aim, failed=row["ratio"] is None))
    report.publish(
        "training_costs_a_few_plain_steps",
        arguments.json,
        graph=arguments.graph,
        repeats=arguments.repeats,
        methods={name: repr(method) for name, method in METHODS.items()},
        rows=rows,
        aims=aims,
    )


def measured(name: str, graph: str, repeats: int, warmups: int) -> dict[str, Any]:
    """Of one variant; without numbers where it does not fit in memory."""
    row: dict[str, Any] = {"variant": name, "seconds": None, "plain_seconds": None, "ratio": None, "peak_gb": None}
    with contextlib.suppress(MemoryError):
        row["peak_gb"] = measure.in_fresh_process(peak_memory, graph, name)
        times = measure.in_fresh_process(in_turn, graph, name, repeats, warmups)
        row["seconds"], row["plain_seconds"] = (statistics.median(times[step]) for step in (name, plain_of(name)))
        row["ratio"] = row["seconds"] / row["plain_seconds"]
        row["all_seconds"] = times
    return row


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            ["step", "seconds", "plain step", "× plain", "peak memory, GB"],
            [
                [row[key] for key in ("variant", "seconds", "plain_seconds", "ratio", "peak_gb")]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
