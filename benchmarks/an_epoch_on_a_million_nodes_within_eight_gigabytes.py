"""An epoch of GRACE with the compactness term on a million nodes runs within eight gigabytes, in mini-batches.

Power-law graphs (exponent 2.5), 64 features, embeddings of 64 channels, the term with 4 anchors of every batch on their
whole neighbourhoods; each size in a fresh process. The peak is that of the process, with graph and libraries. Seconds
are those of the epoch; CPU seconds do not grow if the machine is busy.

``python -m benchmarks.an_epoch_on_a_million_nodes_within_eight_gigabytes [--largest 1000000] [--json FILE [--keep]]``
"""

import contextlib
import time
from typing import Any

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.power_law import power_law_graph

NAME = "an_epoch_on_a_million_nodes_within_eight_gigabytes"
SIZES = {10_000: 100_000, 100_000: 1_000_000, 1_000_000: 10_000_000}
MILLION = 1_000_000
FEATURES, HIDDEN, BATCH, FANOUT, COMPARED, ANCHORS = 64, 64, 8192, 5, 2048, 4


def epoch(nodes: int, edges: int) -> dict[str, Any]:
    graph, built = measure.timed(lambda: power_law_graph(nodes, edges, FEATURES))
    term = certgcl.CompactnessRegularizer(anchors=ANCHORS, budget=None)
    method = certgcl.GRACE(hidden=HIDDEN, epochs=1, batch_nodes=BATCH, fanout=FANOUT, batch=COMPARED, regularizer=term)
    begun = time.process_time()
    _, spent = measure.cost(lambda: method.fit(graph))
    assert method.history_ is not None
    last = method.history_.last
    return {
        "nodes": nodes,
        "edges": edges,
        "max_degree": int(graph.degree.max()),
        "build_seconds": built,
        "cpu_seconds": time.process_time() - begun,
        **spent,
        **{name: last[name] for name in ("steps", "loss", "infonce", "pot", "compactness", "compiled_sampler")},
    }


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    report.add_sizes(parser, SIZES)
    arguments, sizes, rows = report.chosen(parser, SIZES)
    torch.set_num_threads(arguments.threads)
    for nodes in sizes:
        row: dict[str, Any] = {"nodes": nodes, "edges": SIZES[nodes]}
        with contextlib.suppress(MemoryError):
            row = measure.in_fresh_process(epoch, nodes, SIZES[nodes])
        rows.append(row)
        print(row, flush=True)
        report.save(NAME, arguments.json, **summary(rows))
    report.publish(NAME, arguments.json, **summary(rows))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row["nodes"])
    million = next((row for row in rows if row["nodes"] == MILLION), None)
    return {
        "rows": rows,
        "aims": [
            report.aim(
                "GB at the peak, a million nodes",
                None if million is None else million.get("peak_gb"),
                at_most=8,
                failed=million is not None and "peak_gb" not in million,
            )
        ],
    }


def tables(result: dict[str, Any]) -> list[str]:
    columns = ["nodes", "edges", "largest degree", "steps", "CPU, s", "seconds", "peak, GB", "InfoNCE, mean"]
    keys = ["nodes", "edges", "max_degree", "steps", "cpu_seconds", "seconds", "peak_gb", "infonce"]
    return [
        report.markdown(columns, [[row.get(key) for key in keys] for row in result["rows"]]),
        f"Batches of {BATCH:,} nodes, of which {COMPARED:,} are compared; {FANOUT} neighbours at each hop, "
        f"{ANCHORS} anchors.",
    ]


if __name__ == "__main__":
    main()
