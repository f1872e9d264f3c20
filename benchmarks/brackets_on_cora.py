"""Brackets on a real graph: how far the certified lower bound is from a value that some drop reaches.

GRACE on Cora, fast preset, plain and with the certified regularizer, ``q = round(0.4 d)``: brackets by ``optimized``
(16 branches a node) for a sample of nodes, then by ``exact`` in a given time; the share of nodes with a certified sign
(lower > 0 or upper < 0), the width of the bracket over the clean value, and the share that is closed.

``CERTGCL_DATA=... python -m benchmarks.brackets_on_cora [--nodes 200] [--seconds 300] [--json FILE]``
"""

import time
from typing import Any

import torch

import certgcl
from benchmarks import report
from certgcl import presets

VARIANTS = {"plain": False, "certified": True}
CLOSE = 0.01  # of the clean value: brackets narrower than this are called closed to one percent


def encoder(data: Any, certified: bool) -> certgcl.GRACE:
    preset = presets.get("grace", "Cora", fast=True)
    regularizer = certgcl.CompactnessRegularizer(**preset.regularizer_settings()) if certified else None
    return certgcl.GRACE(**preset.settings(), regularizer=regularizer).fit(data)


def row(variant: str, method: str, certificate: certgcl.Certificate, seconds: float) -> dict[str, Any]:
    assert certificate.upper is not None
    width = (certificate.upper - certificate.lower) / certificate.nominal.abs()
    sign = certificate.positive | certificate.negative
    return {"encoder": variant, "method": method, "nodes": len(width), "seconds": seconds,
            "sign": float(sign.double().mean()), "median_width": float(width.median()),
            "mean_width": float((certificate.upper - certificate.lower).mean() / certificate.nominal.mean()),
            "within_one_percent": float((width <= CLOSE).double().mean()),
            "exact": float(certificate.exact.double().mean())}


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=0.4)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data = certgcl.load_dataset("Cora")
    graph = certgcl.Graph.of(data)
    nodes = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[: arguments.nodes].sort().values
    rows = []
    for variant, certified in VARIANTS.items():
        model = encoder(data, certified)
        for method, limit in (("optimized", None), ("exact", arguments.seconds)):
            start = time.perf_counter()
            certificate = certgcl.node_compactness(model, graph, arguments.rate, nodes=nodes, method=method,
                                                   time_limit=limit)
            rows.append(row(variant, method, certificate, time.perf_counter() - start))
            print(rows[-1], flush=True)
    aims = [report.aim(f"{one['encoder']}, {one['method']}: {what}", one[key], **limits) for one in rows
            for what, key, method, limits in (
                ("certified sign", "sign", "optimized", {"at_least": 0.99}),
                ("median width", "median_width", "optimized", {"at_most": 0.01}),
                ("exact", "exact", "exact", {"at_least": 0.5})) if method == one["method"]]
    report.publish("brackets_on_cora", arguments.json, rate=arguments.rate, rows=rows, aims=aims)


def tables(result: dict[str, Any]) -> list[str]:
    return [report.markdown(["encoder", "method", "nodes", "seconds", "certified sign", "median width", "mean width",
                             "within 1 %", "exact"],
                            [list(one.values()) for one in result["rows"]])]


if __name__ == "__main__":
    main()
