"""What is known about the predictions of a classifier under a budget: node by node, class by class, and in all."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, shown
from certgcl.errors import InputError
from certgcl.formatting import html_columns, percent
from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    import pandas as pd

_MASKS = ("correct", "certified", "broken", "stable")


@dataclass(frozen=True, eq=False)
class CertifiedAccuracy:
    """What is known about every node's prediction under a budget.

    Args:
        nodes: the nodes in question, ``(A,)``.
        correct: the prediction on the graph as given is right.
        certified: it is right, and stays right whatever admissible edges are dropped.
        broken: it is right, but an admissible drop that changes it is known.
        stable: the prediction, right or wrong, is the same whatever admissible edges are dropped.
        labels: the true classes.
        predicted: the classes predicted on the graph as given.
    """

    nodes: Tensor
    correct: Tensor
    certified: Tensor
    broken: Tensor
    stable: Tensor
    labels: list[Any]
    predicted: list[Any]

    def __post_init__(self) -> None:
        for name in ("nodes", *_MASKS):
            value = getattr(self, name)
            kinds = INTEGERS if name == "nodes" else {torch.bool}
            if (
                not isinstance(value, Tensor)
                or value.is_nested
                or value.is_meta
                or value.layout != torch.strided
                or (value.dim() != 1 or value.dtype not in kinds or value.shape != self.nodes.shape)
            ):
                raise InputError(
                    f"{name} {shown(value)}",
                    "there are node numbers, and masks of their length",
                    "Use certgcl.certified_accuracy",
                )
        for name in ("labels", "predicted"):
            value = getattr(self, name)
            if (
                not isinstance(value, list)
                or len(value) != len(self.nodes)
                or not all(isinstance(label, (int, float, str)) for label in value)
            ):
                raise InputError(
                    f"{name} {shown(value)}",
                    "they are a list with a class for each node",
                    "Use certgcl.certified_accuracy",
                )

    @property
    def clean(self) -> float:
        """Accuracy on the graph as given."""
        return _share(self.correct)

    @property
    def stable_share(self) -> float:
        """At least this share of predictions, right or wrong, is the same under every admissible drop."""
        return _share(self.stable)

    @property
    def lower(self) -> float:
        """Certified accuracy: at least this share is right under every admissible drop, node by node."""
        return _share(self.certified)

    @property
    def upper(self) -> float:
        """At most this share is right under every admissible drop: the others are wrong, or known to break."""
        return _share(self.correct & ~self.broken)

    @property
    def by_class(self) -> dict[Any, "CertifiedAccuracy"]:
        """The same of the nodes of each true class."""
        classes = sorted(set(self.labels), key=lambda label: (isinstance(label, str), label))
        return {label: self._at([place for place, own in enumerate(self.labels) if own == label]) for label in classes}

    def _at(self, places: list[int]) -> "CertifiedAccuracy":
        chosen = torch.tensor(places, device=self.nodes.device)
        masks = {name: getattr(self, name)[chosen] for name in _MASKS}
        return CertifiedAccuracy(
            nodes=self.nodes[chosen],
            **masks,
            labels=[self.labels[place] for place in places],
            predicted=[self.predicted[place] for place in places],
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column, one row per node."""
        return {
            "node": self.nodes.tolist(),
            "label": list(self.labels),
            "predicted": list(self.predicted),
            **{name: getattr(self, name).tolist() for name in _MASKS},
        }

    def to_frame(self) -> "pd.DataFrame":
        """The same as a pandas frame (needs the extra ``pandas``)."""
        with needing("pandas", "a frame"):
            import pandas as pd

        return pd.DataFrame(self.to_dict())

    def class_table(self) -> str:
        """A line per true class: its nodes, accuracy, stable predictions, certified accuracy and its upper end."""
        rows = self._class_rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)

    def _class_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("class", "nodes", "accuracy", "stable", "certified", "at most")]
        for label, part in [*self.by_class.items(), ("all", self)]:
            shares = part.clean, part.stable_share, part.lower, part.upper
            rows.append((str(label), str(len(part.nodes)), *map(percent, shares)))
        return rows

    def _repr_html_(self) -> str:
        return html_columns(str(self), self._class_rows())

    def __str__(self) -> str:
        return (
            f"accuracy {percent(self.clean)}, certified {percent(self.lower)}, at most {percent(self.upper)} "
            f"({len(self.nodes)} nodes)"
        )


def _share(mask: Tensor) -> float:
    return float(mask.double().mean())
