"""With both views free, far fewer nodes are proved than with one.

GRACE on Cora with the fast preset, plain and certified, one edge at each node, all nodes, ``degree-fast``: the share of
nodes proved positive when the second view is the graph itself, and when it may be any admissible view too.

``CERTGCL_DATA=... python -m benchmarks.both_views_cost_most_of_the_bound [--json FILE]``
"""

from typing import Any, get_args

import torch

import certgcl
from benchmarks import report
from certgcl.certify.question_arguments import Views
from certgcl.experiments.variants import regularizer
from certgcl.learning import presets

ENCODERS = ("plain", "certified")
METHOD = "degree-fast"


def measure(encoder: str) -> list[dict[str, Any]]:
    data, preset = certgcl.load_dataset("Cora"), presets.get("grace", "Cora", fast=True)
    graph = certgcl.Graph.of(data)
    model = certgcl.GRACE(**preset.settings(), regularizer=regularizer(encoder, preset)).fit(data)
    rows = []
    for views in get_args(Views):
        found = certgcl.node_compactness(model, graph, 1, method=METHOD, views=views)
        rows.append(
            {
                "encoder": encoder,
                "views": views,
                "share": found.share_positive,
                "kept": float(found.lower.mean() / found.nominal.mean()),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    arguments = report.parser(__doc__).parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [row for encoder in ENCODERS for row in measure(encoder)]
    report.publish("both_views_cost_most_of_the_bound", arguments.json, method=METHOD, rows=rows, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            ["GRACE", "views that vary", "certified nodes, %", "mean bound, % of the clean mean"],
            [[row["encoder"], row["views"], 100 * row["share"], 100 * row["kept"]] for row in result["rows"]],
        )
    ]


if __name__ == "__main__":
    main()
