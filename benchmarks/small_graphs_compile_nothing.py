"""The first certificate and the first training step on a bundled graph take a fifth of the time that kernels would.

Each case runs in a fresh process with an empty cache of compiled code, once as users have it, where small graphs are
bounded without kernels, and once with ``CERTGCL_KERNELS=always``. CPU time by one thread, without imports and data.

``python -m benchmarks.small_graphs_compile_nothing [--json FILE]``
"""

import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import report

CASES = (("karate", "certificate"), ("digits", "certificate"), ("digits", "training step"))
AT_MOST = 0.2
PROGRAM = """
import sys, time, certgcl
name, what = sys.argv[1:]
data = certgcl.load_dataset(name)
method = certgcl.GRACE(hidden=32, epochs=1, regularizer=certgcl.CompactnessRegularizer(kappa=0.4, anchors=64))
encoder = certgcl.GCNEncoder(data.x.shape[1], 32, 32)
start = time.process_time()
if what == "certificate":
    certgcl.node_compactness(encoder, data, budgets=2)
else:
    method.fit(data)
print(time.process_time() - start)
"""


def seconds(name: str, what: str, kernels: str) -> float:
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            **os.environ,
            "CERTGCL_KERNELS": kernels,
            "NUMBA_CACHE_DIR": empty,
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, name, what], env=environment, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def main() -> None:
    arguments = report.parser(__doc__, threads=1).parse_args()
    rows = []
    for name, what in CASES:
        small, compiled = (seconds(name, what, kernels) for kernels in ("auto", "always"))
        rows.append(
            {"graph": name, "what": what, "seconds": small, "with_kernels": compiled, "ratio": small / compiled}
        )
    report.publish(
        "small_graphs_compile_nothing",
        arguments.json,
        rows=rows,
        aims=[
            report.aim("the largest ratio to a first call that compiles", max(row["ratio"] for row in rows), AT_MOST)
        ],
    )


def tables(result: dict[str, Any]) -> list[str]:
    columns = ("graph", "what", "seconds", "with_kernels", "ratio")
    return [
        report.markdown(
            ["graph", "first", "seconds of CPU", "with kernels", "ratio"],
            [[row[column] for column in columns] for row in result["rows"]],
        )
    ]


if __name__ == "__main__":
    main()
