"""How tight the closed forms are for every kind of change, beside the bounds of prototypes on the same small cases.

The table of ``python -m verification.change_tightness``, which says what the cases are. *Gap*: between the clean value
and the bound, over the gap between the clean value and the enumerated minimum. The aims were printed by the prototypes,
for one small sample each; whole graphs have no prototype on the same cases.

``python -m benchmarks.changes_no_looser_than_their_prototypes [--samples 6] [--json FILE]``
"""

import math
from typing import Any

import torch

from benchmarks import report
from verification.change_tightness import measure, rows


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--samples", type=int, default=6, help="of each row")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found: list[dict[str, Any]] = []
    for row in rows():
        line = measure(row, arguments.samples)
        found.append(
            {
                "name": row.name,
                "cases": arguments.samples * row.sample,
                "gap": line.bound,
                "prototype": None if math.isnan(line.prototype) else line.prototype,
                "samples": [line.least, line.most],
                "aim": row.aim,
                "violations": line.violations,
            }
        )
        print(found[-1], flush=True)
        report.save("changes_no_looser_than_their_prototypes", arguments.json, rows=found, aims=aims(found))
    report.publish("changes_no_looser_than_their_prototypes", arguments.json, rows=found, aims=aims(found))


def aims(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    beside = [row["gap"] / row["prototype"] for row in found if row["prototype"] is not None]
    return [
        report.aim("violations", sum(row["violations"] for row in found), at_most=0),
        report.aim("gap over the prototype's on the same cases, largest", max(beside, default=None), at_most=1.0),
        report.aim(
            f"rows of {len(found)} whose gap is above what the prototype printed",
            sum(round(row["gap"], 2) > row["aim"] for row in found),
            at_most=0,
        ),
    ]


def tables(result: dict[str, Any]) -> list[str]:
    lines = [
        [
            row["name"],
            row["cases"],
            row["gap"],
            row["prototype"],
            f"{row['samples'][0]:.2f} to {row['samples'][1]:.2f}",
            row["aim"],
        ]
        for row in result["rows"]
    ]
    head = ["gap / true gap", "cases", "`degree`", "prototype, same cases", "samples of `degree`", "prototype, printed"]
    return [report.markdown(head, lines)]


if __name__ == "__main__":
    main()
