"""certgcl is thousands of times faster than auto_LiRPA on the same perturbation set, tighter, and grows with the edges.

Random graphs of average degree 4, widths (16, 16, 8), ReLU, q = round(0.4 d), float64, one thread. Both get their
inputs prepared: graph, weights, directions; for auto_LiRPA, whose time includes building its network, the box of Â.
What certgcl builds for graph and budget alone it keeps from call to call; its first call is a row of its own. Up to 150
nodes the two are timed in turn; from 200 on, auto_LiRPA runs once, in a fresh process. At 1,000 nodes and more, where
it cannot follow, certgcl's growth is measured. Memory is what one bound adds to a fresh process.

``python -m benchmarks.faster_than_auto_lirpa [--largest 600] [--json FILE]``
"""

import contextlib
import json
import statistics
from typing import Any

import numpy as np
import torch

from benchmarks import measure, report
from benchmarks.prepared import CERTGCL, COARSEST, FIRST, bound, make_inputs

SIZES = (20, 40, 70, 100, 150, 200, 300, 450, 600)
AIMED_AT = 300
LARGE = (1_000, 3_000, 10_000, 30_000)
ALONE_FROM = 200  # auto_LiRPA in a fresh process, once
PLAIN, OPTIMIZED = "LiRPA CROWN", "LiRPA CROWN-Optimized"
ALL = (*CERTGCL, PLAIN, OPTIMIZED)
TIMES_AT_LEAST, GROWTH_AT_MOST = 2000, 1.1


def alone(name: str, nodes: int) -> dict[str, Any]:
    """One bound in this process, after a small one that loads the libraries."""
    bound(name, make_inputs(20))()
    lower, spent = measure.cost(bound(name, make_inputs(nodes)))
    return {**spent, "lower": lower.tolist()}


def measure_size(nodes: int, lirpa: list[str], repeats: int, patience: float) -> dict[str, Any]:
    """All bounds at one size. LiRPA's are repeated while a run takes less than ``patience`` seconds."""
    inputs = make_inputs(nodes)
    spent = {}
    for name in (*CERTGCL, *lirpa):
        with contextlib.suppress(MemoryError):
            spent[name] = measure.in_fresh_process(alone, name, nodes)
    repeated = [name for name in spent if name in CERTGCL or (nodes < ALONE_FROM and spent[name]["seconds"] < patience)]
    times = measure.interleaved({name: bound(name, inputs) for name in repeated}, repeats)
    clean = (inputs.directions * inputs.weights.embed(inputs.graph)).sum(dim=1)
    lower = {name: torch.tensor(one["lower"], dtype=torch.float64) for name, one in spent.items()}
    others = [lower[name] for name in lirpa if name in lower]
    best = torch.stack(others).amax(dim=0) if others else None
    return {
        "nodes": nodes, "edges": inputs.graph.num_edges,
        "seconds": {name: statistics.median(times.get(name, [spent[name]["seconds"]])) for name in spent},
        "added_mb": {name: 1024 * one["added_gb"] for name, one in spent.items()},
        "mean_drop": {name: float((clean - value).mean()) for name, value in lower.items()},
        "percent_at_or_above_lirpa": {} if best is None else {
            name: 100 * float((lower[name] >= best - 1e-9).double().mean()) for name in CERTGCL},
    }


def growth(rows: list[dict[str, Any]], name: str) -> float | None:
    """The exponent of the time in the edges, over the larger half of the sizes."""
    rows = [row for row in rows if name in row["seconds"]]
    rows = rows[len(rows) // 2 - 1 :] if len(rows) > 3 else rows
    return measure.growth([row["edges"] for row in rows], [row["seconds"][name] for row in rows])


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--largest", type=int, default=max(SIZES), help="nodes that auto_LiRPA gets; 600 need 14 GB")
    parser.add_argument("--largest-alone", type=int, default=max(LARGE), help="nodes that certgcl gets")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=10, help="slower runs of auto_LiRPA are not repeated")
    parser.add_argument("--optimize", type=float, default=600, help="most seconds to expect of optimized CROWN")
    parser.add_argument("--keep", action="store_true", help="keep what FILE holds of sizes beyond --largest, as of all "
                                                            "with --largest 0")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Any]] = []
    for nodes in (size for size in SIZES if size <= arguments.largest):
        lirpa = [PLAIN, OPTIMIZED] if expected(rows, nodes) <= arguments.optimize else [PLAIN]
        rows.append(measure_size(nodes, lirpa, arguments.repeats, arguments.patience))
        print(rows[-1], flush=True)
    if arguments.keep:
        rows += [row for row in json.loads(arguments.json.read_text())["rows"] if row["nodes"] > arguments.largest]
    large = [measure_size(nodes, [], arguments.repeats, 0) for nodes in LARGE if nodes <= arguments.largest_alone]
    exponents = {name: {"small": growth(rows, name), "large": growth(large, name)} for name in ALL}
    there = next((row["seconds"] for row in rows if row["nodes"] == AIMED_AT), {})
    aims = [*(report.aim(f"{name}, at {AIMED_AT} nodes, × as fast as LiRPA CROWN",
                         there[PLAIN] / there[name] if PLAIN in there else None, at_least=TIMES_AT_LEAST)
              for name in (COARSEST, FIRST)),
            *(report.aim(f"{name}, exponent of the time in the edges", exponents[name]["large"],
                         at_most=GROWTH_AT_MOST) for name in (COARSEST, "degree"))]
    report.publish("faster_than_auto_lirpa", arguments.json, repeats=arguments.repeats, rows=rows, large=large,
                   exponents=exponents, aims=aims)


def expected(rows: list[dict[str, Any]], nodes: int) -> float:
    """Seconds that optimized CROWN will take, from the last two sizes; zero where two are not known."""
    if len(rows) < 2:
        return 0.0
    if OPTIMIZED not in rows[-1]["seconds"]:
        return float("inf")
    (one, first), (two, last) = ((row["nodes"], row["seconds"][OPTIMIZED]) for row in rows[-2:])
    return float(last * (nodes / two) ** (np.log(last / first) / np.log(two / one)))


def tables(result: dict[str, Any]) -> list[str]:
    def label(name: str) -> str:
        return f"`{name}`" if name in CERTGCL else name

    rows = [[row["nodes"], row["edges"], label(name), seconds,
             row["seconds"][PLAIN] / seconds if PLAIN in row["seconds"] else None, row["added_mb"][name],
             row["mean_drop"][name], row["percent_at_or_above_lirpa"].get(name)]
            for row in result["rows"] for name, seconds in row["seconds"].items()]
    large = [[row["nodes"], row["edges"], label(name), seconds, row["added_mb"][name]]
             for row in result["large"] for name, seconds in row["seconds"].items()]
    exponents = [[label(name), fitted["small"], fitted["large"]] for name, fitted in result["exponents"].items()]
    return [report.markdown(["nodes", "edges", "bound", "seconds", "× as fast as LiRPA CROWN", "added memory, MB",
                             "mean drop below clean", "at or above LiRPA, % of nodes"], rows),
            report.markdown(["nodes", "edges", "bound", "seconds", "added memory, MB"], large),
            report.markdown(["p of time ~ edges^p", "small graphs", "from 1,000 nodes"], exponents)]


if __name__ == "__main__":
    main()
