"""What a training step costs when masked features are part of the budget.

GRACE on Cora (encoder 256, 128), features masked at rate 0.3, edges dropped at rates 0.2 and 0.4, views inside the
budget, 256 anchors a step, ``degree-fast``: CPU time of a step, all kinds in turn in one process, the least of the
repeats.

``CERTGCL_DATA=... python -m benchmarks.features_in_the_budget_cost_some_plain_steps [--json FILE]``
"""

import time
from typing import Any

import torch

import certgcl
from benchmarks import report
from certgcl import Changes, FeatureBudget

COLUMNS = FeatureBudget.from_mask_rate(0.3)
BUDGETS: dict[str, float | Changes | None] = {
    "plain": None,
    "edges dropped": 0.4,
    "columns masked": Changes(features=COLUMNS),
    "both": Changes(drops=0.4, features=COLUMNS),
}


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data, sessions = certgcl.load_dataset("Cora"), {}
    for name, budget in BUDGETS.items():
        regularizer = (
            None if budget is None else certgcl.CompactnessRegularizer(budget=budget, method="degree-fast", anchors=256)
        )
        sessions[name] = certgcl.GRACE(
            hidden=128,
            epochs=1,
            mask_rates=(0.3, 0.3),
            drop_rates=(0.2, 0.4),
            regularizer=regularizer,
            inside_budget=budget is not None,
        ).session(data)
        sessions[name].step(0)
    seconds: dict[str, float] = dict.fromkeys(BUDGETS, float("inf"))
    for _ in range(arguments.repeats):
        for name, session in sessions.items():
            before = time.process_time()
            session.step(1)
            seconds[name] = min(seconds[name], time.process_time() - before)
    rows = [{"budget": name, "seconds": each, "ratio": each / seconds["plain"]} for name, each in seconds.items()]
    report.publish("features_in_the_budget_cost_some_plain_steps", arguments.json, rows=rows, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            ["budget", "CPU time of a step, s", "plain steps"],
            [[row["budget"], row["seconds"], row["ratio"]] for row in result["rows"]],
        )
    ]


if __name__ == "__main__":
    main()
