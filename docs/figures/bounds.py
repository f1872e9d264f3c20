"""Draws ``bounds.svg``, the picture of the README: two bounds over the nodes of the digits graph.

``python -m docs.figures.bounds`` from the root of the project; takes a minute or two.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch

import certgcl
from certgcl.certify.audit import audit
from docs.figures.style import BLUE, INK, ORANGE, save

DROP_RATE, VIEWS = 0.3, 100


def main(folder: Path | None = None) -> None:
    data = certgcl.load_dataset("digits")
    method = certgcl.GRACE(**certgcl.learning.presets.get("grace", "digits").settings()).fit(data)
    report = audit(method, data, DROP_RATE, samples=VIEWS, searches=0)
    degree = report.certificate
    bounds = {"degree": degree, "crown": certgcl.node_compactness(method, data, DROP_RATE, method="crown")}
    order = degree.nominal.argsort()[::6]
    share = torch.linspace(0, 100, len(order))

    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.plot(share, degree.nominal[order], color=INK, linewidth=2, label="value on the clean graph")
    axes.plot(
        share, report.lowest[order], ".", color="#a0a0a0", markersize=2.5, label=f"lowest of {VIEWS} random views"
    )
    for name, colour in (("degree", BLUE), ("crown", ORANGE)):
        axes.plot(
            share,
            bounds[name].lower[order],
            ".",
            color=colour,
            markersize=2.5,
            label=f"{name}: {100 * bounds[name].share_positive:.0f} % of nodes proved > 0",
        )
    axes.set(xlim=(0, 100), ylabel="node compactness", xlabel="nodes of the digits graph, by their clean value (%)")
    axes.legend(frameon=False, loc="upper left", markerscale=3)
    save(figure, "bounds", folder)


if __name__ == "__main__":
    main()
