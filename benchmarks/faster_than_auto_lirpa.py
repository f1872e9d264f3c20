"""certgcl is thousands of times faster than auto_LiRPA on the same perturbation set, tighter, and grows with the edges.

Random graphs of average degree 4, widths (16, 16, 8), ReLU, q = round(0.4 d), float64, one thread. Both get prepared
inputs: graph, weights, directions; for auto_LiRPA, whose time includes building its network, the box of Â. What certgcl
builds for graph and budget alone it keeps from call to call; its first call is a row of its own. Up to 150 nodes the
two are timed in turn; from 200 on, auto_LiRPA runs once, in a fresh process. Each of its bounds runs until memory or
patience (``--wait``) ends; from 1,000 nodes on certgcl's growth is measured alone. Memory is what one bound adds to a
fresh process. Optimized CROWN takes 20 steps, auto_LiRPA's default, or the first five, which gain the most.

``python -m benchmarks.faster_than_auto_lirpa [--largest 300] [--wait 2400] [--json FILE [--keep]]``
"""

import statistics
from typing import Any

import torch

from benchmarks import measure, report
from benchmarks.prepared import CERTGCL, COARSEST, FIRST, LIRPA, PLAIN, bound, make_inputs

NAME = "faster_than_auto_lirpa"
COMPARED = (20, 40, 70, 100, 150, 200, 300, 450, 600, 700, 800)
LARGE = (1_000, 3_000, 10_000, 30_000)  # certgcl alone
AIMED_AT = 300
ONCE_FROM = 200  # auto_LiRPA in a fresh process, once
TIMES_AT_LEAST, GROWTH_AT_MOST = 2000, 1.1


def alone(name: str, nodes: int) -> dict[str, Any]:
    """One bound in this process, after a small one that loads the libraries."""
    bound(name, make_inputs(20))()
    lower, spent = measure.cost(bound(name, make_inputs(nodes)))
    return {**spent, "lower": lower.tolist()}


def measure_size(nodes: int, lirpa: list[str], repeats: int, patience: float) -> dict[str, Any]:
    """All bounds at one size. LiRPA's are repeated while a run takes less than ``patience`` seconds."""
    inputs = make_inputs(nodes)
    spent, out_of_memory = {}, []
    for name in (*CERTGCL, *lirpa):
        try:
            spent[name] = measure.in_fresh_process(alone, name, nodes)
        except MemoryError:
            out_of_memory.append(name)
    repeated = [name for name in spent if name in CERTGCL or (nodes < ONCE_FROM and spent[name]["seconds"] < patience)]
    times = measure.interleaved({name: bound(name, inputs) for name in repeated}, repeats)
    clean = (inputs.directions * inputs.weights.embed(inputs.graph)).sum(dim=1)
    lower = {name: torch.tensor(one["lower"], dtype=torch.float64) for name, one in spent.items()}
    others = [lower[name] for name in lirpa if name in lower]
    best = torch.stack(others).amax(dim=0) if others else None
    return {
        "nodes": nodes,
        "edges": inputs.graph.num_edges,
        "seconds": {name: statistics.median(times.get(name, [spent[name]["seconds"]])) for name in spent},
        "added_mb": {name: 1024 * one["added_gb"] for name, one in spent.items()},
        "out_of_memory": out_of_memory,
        "mean_drop": {name: float((clean - value).mean()) for name, value in lower.items()},
        "percent_at_or_above_lirpa": {}
        if best is None
        else {name: 100 * float((lower[name] >= best - 1e-9).double().mean()) for name in CERTGCL},
    }


def expected(name: str, nodes: int, rows: list[dict[str, Any]]) -> float:
    """Seconds that a bound of auto_LiRPA will take, by the last two of smaller sizes; zero where two are not known."""
    smaller = sorted((row for row in rows if row["nodes"] < nodes), key=lambda row: row["nodes"])
    if any(name in row["out_of_memory"] for row in smaller):
        return float("inf")
    known = [(row["nodes"], row["seconds"][name]) for row in smaller if name in row["seconds"]]
    exponent = measure.growth(*map(list, zip(*known[-2:], strict=True))) if known else None
    return 0.0 if exponent is None else known[-1][1] * (nodes / known[-1][0]) ** exponent


def growth(rows: list[dict[str, Any]], name: str) -> float | None:
    """The exponent of the time in the edges, over the larger half of the sizes."""
    rows = [row for row in rows if name in row["seconds"]]
    rows = rows[len(rows) // 2 - 1 :] if len(rows) > 3 else rows
    return measure.growth([row["edges"] for row in rows], [row["seconds"][name] for row in rows])


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    report.add_sizes(parser, (*COMPARED, *LARGE))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=10, help="slower runs of auto_LiRPA are not repeated")
    parser.add_argument("--wait", type=float, default=2400, help="most seconds to expect of one run of auto_LiRPA")
    arguments, sizes, rows = report.chosen(parser, (*COMPARED, *LARGE))
    torch.set_num_threads(arguments.threads)
    for nodes in sizes:
        lirpa = [name for name in LIRPA if nodes in COMPARED and expected(name, nodes, rows) <= arguments.wait]
        rows.append(measure_size(nodes, lirpa, arguments.repeats, arguments.patience))
        print(rows[-1], flush=True)
        report.save(NAME, arguments.json, repeats=arguments.repeats, **summary(rows))
    report.publish(NAME, arguments.json, repeats=arguments.repeats, **summary(rows))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row["nodes"])
    small, large = ([row for row in rows if row["nodes"] in sizes] for sizes in (COMPARED, LARGE))
    exponents = {name: {"small": growth(small, name), "large": growth(large, name)} for name in (*CERTGCL, *LIRPA)}
    there: dict[str, float] = next((row["seconds"] for row in rows if row["nodes"] == AIMED_AT), {})
    aims = [
        *(
            report.aim(
                f"{name}, at {AIMED_AT} nodes, × as fast as {PLAIN}",
                there[PLAIN] / there[name] if PLAIN in there else None,
                at_least=TIMES_AT_LEAST,
            )
            for name in (COARSEST, FIRST)
        ),
        *(
            report.aim(f"{name}, exponent of the time in the edges", exponents[name]["large"], at_most=GROWTH_AT_MOST)
            for name in (COARSEST, "degree")
        ),
    ]
    return {"rows": rows, "exponents": exponents, "aims": aims}


def tables(result: dict[str, Any]) -> list[str]:
    def label(name: str) -> str:
        return f"`{name}`" if name in CERTGCL else name

    def measured(row: dict[str, Any]) -> list[list[Any]]:
        return [
            [
                row["nodes"],
                row["edges"],
                label(name),
                seconds,
                row["seconds"][PLAIN] / seconds if PLAIN in row["seconds"] else None,
                row["added_mb"][name],
                row["mean_drop"][name],
                row["percent_at_or_above_lirpa"].get(name),
            ]
            for name, seconds in row["seconds"].items()
        ]

    def failed(row: dict[str, Any]) -> list[list[Any]]:
        return [
            [row["nodes"], row["edges"], label(name), None, None, "out of memory", None, None]
            for name in row["out_of_memory"]
        ]

    rows = [cells for row in result["rows"] if row["nodes"] in COMPARED for cells in (*measured(row), *failed(row))]
    large = [
        [row["nodes"], row["edges"], label(name), seconds, row["added_mb"][name]]
        for row in result["rows"]
        if row["nodes"] in LARGE
        for name, seconds in row["seconds"].items()
    ]
    exponents = [[label(name), fitted["small"], fitted["large"]] for name, fitted in result["exponents"].items()]
    return [
        report.markdown(
            [
                "nodes",
                "edges",
                "bound",
                "seconds",
                f"× as fast as {PLAIN}",
                "added memory, MB",
                "mean drop below clean",
                "at or above LiRPA, % of nodes",
            ],
            rows,
        ),
        report.markdown(["nodes", "edges", "bound", "seconds", "added memory, MB"], large),
        report.markdown(["p of time ~ edges^p", "small graphs", "from 1,000 nodes"], exponents),
    ]


if __name__ == "__main__":
    main()
