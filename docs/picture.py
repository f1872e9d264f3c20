"""Draws ``docs/bounds.svg``, the picture of the README: two bounds over the nodes of the digits graph.

Needs the extra ``plots``: ``pip install -e ".[plots]" && python docs/picture.py``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch

import certgcl
from certgcl.audit import audit

DROP_RATE, VIEWS = 0.3, 100


def main() -> None:
    data = certgcl.load_dataset("digits")
    method = certgcl.GRACE(**certgcl.presets.get("grace", "digits").settings()).fit(data)
    report = audit(method, data, DROP_RATE, samples=VIEWS, searches=0)
    degree = report.certificate
    bounds = {"degree": degree, "crown": certgcl.node_compactness(method, data, DROP_RATE, method="crown")}
    order = degree.nominal.argsort()[::6]
    share = torch.linspace(0, 100, len(order))

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "certgcl"})
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.plot(share, degree.nominal[order], color="0.15", linewidth=1.6, label="value on the clean graph")
    axes.plot(share, report.lowest[order], ".", color="0.6", markersize=2.5, label=f"lowest of {VIEWS} random views")
    for name, colour in (("degree", "#0072b2"), ("crown", "#d55e00")):
        axes.plot(share, bounds[name].lower[order], ".", color=colour, markersize=2.5,
                  label=f"{name}: {100 * bounds[name].share_positive:.0f} % of nodes proved > 0")
    axes.set(xlim=(0, 100), ylabel="node compactness",
             xlabel="nodes of the digits graph, by their clean value (%)")
    axes.legend(frameon=False, loc="upper left", markerscale=3)
    figure.savefig(Path(__file__).with_name("bounds.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
