"""certgcl is thousands of times faster than auto_LiRPA on the same perturbation set, tighter, and grows with the edges.

Random graphs of average degree 4, widths (16, 16, 8), ReLU, q = round(0.4 d), float64, one thread. Each size is timed
side by side, interleaved, median of the repeats; auto_LiRPA's time includes building its network.

``python -m benchmarks.faster_than_auto_lirpa [--largest 100] [--json FILE]``
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from verification import lirpa
from verification.audit import certify
from verification.case import Case
from verification.oracle import nominal
from verification.strategies import gaussian_case

SIZES = (20, 40, 70, 100, 150, 200, 300)


def make_case(nodes: int) -> Case:
    graph = nx.gnm_random_graph(nodes, 2 * nodes, seed=nodes)
    budgets = [round(0.4 * graph.degree[i]) for i in range(nodes)]
    return gaussian_case(graph, seed=nodes, widths=(16, 16, 8)).with_budget(budgets)


def by_lirpa(case: Case, method: lirpa.Method) -> Tensor:
    box = lirpa.box(case.graph, case.node_budgets(), case.graph_budget())
    network = lirpa.LirpaGCN(box, case.x, case.w1, case.b1, 0.0, case.w2, case.b2, 0.0, case.directions)
    return network.lower(method)


BOUNDS: dict[str, Callable[[Case], Tensor]] = {
    "degree": lambda case: certify(case, "degree").lower,
    "degree-cheap": lambda case: certify(case, "degree-cheap").lower,
    "crown": lambda case: certify(case, "crown").lower,
    "LiRPA CROWN": lambda case: by_lirpa(case, "CROWN"),
    "LiRPA CROWN-Optimized": lambda case: by_lirpa(case, "CROWN-Optimized"),
}


def peak_memory(name: str, nodes: int, answer: Any) -> None:
    """Memory that one bound adds to a fresh process, in GB."""
    torch.set_num_threads(1)
    case = make_case(nodes)
    certify(make_case(20), "degree")  # so that libraries are loaded before the measurement
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    BOUNDS[name](case)
    answer.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024**2)


def in_fresh_process(name: str, nodes: int) -> float:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=peak_memory, args=(name, nodes, answer))
    process.start()
    result = float(answer.get())
    process.join()
    return result


def measure(nodes: int, repeats: int) -> dict[str, Any]:
    case, times, lower = make_case(nodes), {name: [] for name in BOUNDS}, {}
    for _ in range(repeats):
        for name, bound in BOUNDS.items():
            start = time.perf_counter()
            lower[name] = bound(case)
            times[name].append(time.perf_counter() - start)
    clean = nominal(case)
    best = torch.stack([lower["LiRPA CROWN"], lower["LiRPA CROWN-Optimized"]]).amax(dim=0)
    return {
        "nodes": nodes,
        "edges": case.graph.number_of_edges(),
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "memory_gb": {name: in_fresh_process(name, nodes) for name in BOUNDS},
        "mean_drop": {name: float((clean - value).mean()) for name, value in lower.items()},
        "share_degree_at_or_above_lirpa": float((lower["degree"] >= best - 1e-9).double().mean()),
    }


def growth(rows: list[dict[str, Any]], name: str) -> float:
    """The exponent p of ``time ~ edges^p``, fitted to the larger half of the sizes."""
    rows = rows[len(rows) // 2 - 1 :] if len(rows) > 3 else rows
    slope, _ = np.polyfit(np.log([row["edges"] for row in rows]), np.log([row["seconds"][name] for row in rows]), 1)
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=100, help="largest number of nodes; 300 needs about 9 GB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for bound in BOUNDS.values():
        bound(make_case(10))  # warm-up
    rows = []
    for nodes in (size for size in SIZES if size <= arguments.largest):
        row = measure(nodes, arguments.repeats if nodes <= 100 else 1)
        rows.append(row)
        print(f"\n{nodes} nodes, {row['edges']} edges; degree at or above the better of LiRPA's at "
              f"{100 * row['share_degree_at_or_above_lirpa']:.1f} % of nodes")
        for name in BOUNDS:
            ratio = row["seconds"]["LiRPA CROWN"] / row["seconds"][name]
            print(f"  {name:<22} {row['seconds'][name]:9.3f} s  {row['memory_gb'][name]:6.2f} GB  mean drop "
                  f"{row['mean_drop'][name]:7.3f}  {ratio:8.1f} times as fast as LiRPA CROWN", flush=True)
    exponents = {name: growth(rows, name) for name in BOUNDS}
    print("\ntime ~ edges^p:  " + ",  ".join(f"{name} {value:.2f}" for name, value in exponents.items()))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"rows": rows, "exponents": exponents}, file, indent=2)


if __name__ == "__main__":
    main()
