"""What the figures have in common: colours that read on a light and on a dark page, and no background."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

INK = "#7f7f7f"
BLUE, ORANGE, RED = "#3c93c8", "#d98200", "#d9534f"
SETTINGS = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 10,
    "svg.hashsalt": "certgcl",
}
plt.rcParams.update(SETTINGS)


def save(figure: Figure, name: str, folder: Path | None = None) -> None:
    """Write ``name.svg`` beside this file, or into ``folder``; the same bytes each time."""
    path = (folder or Path(__file__).parent) / f"{name}.svg"
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)
