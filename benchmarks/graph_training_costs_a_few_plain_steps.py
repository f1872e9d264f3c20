"""Training with bounds of whole graphs costs a few plain steps: GraphCL on MUTAG, by encoder, anchors and budget.

One epoch (a step on all 188 graphs), plain and with the term, in turn; CPU time, as the median over the repeats.

``CERTGCL_DATA=... python -m benchmarks.graph_training_costs_a_few_plain_steps [--repeats 7] [--json FILE]``
"""

import statistics
import time
from typing import Any

import torch

import certgcl
from benchmarks import report

ANCHORS = (8, 32)
BUDGETS = {
    "1 edge of a graph": certgcl.EdgeDropBudget(total=1),
    "2 edges of a graph": certgcl.EdgeDropBudget(total=2),
    "drop rate 0.2": 0.2,
}
CONVOLUTIONS = ("gcn", "gin")
AIM = 8.0  # plain steps, with 8 anchors


def measure(graphs: list[Any], convolution: str, repeats: int) -> list[dict[str, Any]]:
    """Seconds of CPU time of a plain epoch, and of those with the term."""
    terms = {
        (budget, anchors): certgcl.CompactnessRegularizer(budget=value, anchors=anchors)
        for budget, value in BUDGETS.items()
        for anchors in ANCHORS
    }
    sessions = {
        name: certgcl.GraphCL(convolution=convolution, batch=None, regularizer=term).session(graphs)
        for name, term in {None: None, **terms}.items()
    }
    seconds: dict[Any, list[float]] = {name: [] for name in sessions}
    for repeat in range(repeats + 1):
        for name, session in sessions.items():
            start = time.process_time()
            session.step(repeat)
            if repeat:  # the first compiles and prepares
                seconds[name].append(time.process_time() - start)
    plain = statistics.median(seconds[None])
    rows = [
        {
            "convolution": convolution,
            "budget": name[0],
            "anchors": name[1],
            "plain": plain,
            "with_term": statistics.median(seconds[name]),
            "ratio": statistics.median(seconds[name]) / plain,
        }
        for name in terms
    ]
    print(*rows, sep="\n", flush=True)
    return rows


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graphs: Any = certgcl.load_dataset("MUTAG")
    rows = [row for convolution in CONVOLUTIONS for row in measure(graphs, convolution, arguments.repeats)]
    least = max(row["ratio"] for row in rows if row["anchors"] == ANCHORS[0])
    report.publish(
        "graph_training_costs_a_few_plain_steps",
        arguments.json,
        rows=rows,
        aims=[report.aim(f"a step with {ANCHORS[0]} anchors, in plain steps", least, at_most=AIM)],
    )


def tables(result: dict[str, Any]) -> list[str]:
    """CPU seconds of an epoch of MUTAG."""
    return [
        report.markdown(
            ["encoder", "budget", "anchors (graphs)", "plain step, s", "with the term, s", "ratio"],
            [
                [row["convolution"], row["budget"], row["anchors"], row["plain"], row["with_term"], row["ratio"]]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
