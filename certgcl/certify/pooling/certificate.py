"""The result of a certification of whole graphs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.arguments import whole
from certgcl.errors import CertificateError
from certgcl.formatting import percent, spread

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class GraphCertificate:
    """What holds for each graph, whatever admissible set of its edges is dropped: ``w · z_g(S) >= lower``.

    ``z_g`` is the pooled embedding of the graph (or what the model makes of it), and S one set for all nodes of it.

    Args:
        lower: the bound, ``(G,)`` or ``(G, C)`` for C directions a graph.
        nominal: ``w · z_g`` of the graphs as given, same shape.
        rounding: how far above the true minimum floating-point rounding can have put ``lower``, same shape.
        run_error: how far below its exact value ``w · z_g`` of the model as it is run, in its own precision, can lie on
            any admissible view, same shape.
        upper: a value that some admissible drop reaches, same shape: the minimum where all sets were tried.
        witnesses: those drops: for each graph and direction the edges, ``(2, k)``; see :meth:`witness`.
        enumerated: the graphs of which all admissible sets were tried, ``(G,)``.
        directions: ``w``, ``(G, d)`` or ``(G, C, d)``.
        most_dropped: the most edges that each graph can lose, ``(G,)``.
        method: name of the method that bounds single nodes.
        pool: ``"mean"``, ``"sum"`` or ``"max"``.
        precision: of the model's parameters, such as ``"float32"``.
        reading: how the model was read.
    """

    lower: Tensor
    nominal: Tensor
    rounding: Tensor
    run_error: Tensor
    upper: Tensor
    witnesses: tuple[tuple[Tensor, ...], ...]
    enumerated: Tensor
    directions: Tensor
    most_dropped: Tensor
    method: str
    pool: str
    precision: str
    reading: str

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def positive(self) -> Tensor:
        """Where ``w · z_g > 0`` is proved for every admissible drop, in exact arithmetic and of the model as it is run
        in its own precision."""
        return self.lower > self.rounding + self.run_error

    @property
    def positive_in_exact_arithmetic(self) -> Tensor:
        """Where it is proved of these weights in exact arithmetic, which the model is not run in."""
        return self.lower > self.rounding

    @property
    def negative(self) -> Tensor:
        """Where an admissible drop with ``w · z_g < 0`` (in exact arithmetic) is known."""
        return self.upper < -self.rounding

    @property
    def share_positive(self) -> float:
        """The share of ``positive``."""
        return float(self.positive.double().mean())

    def witness(self, graph: int, direction: int = 0) -> Tensor:
        """The edges of a graph, ``(2, k)``, without which ``w · z_g`` is its ``upper``."""
        graph, direction = (whole(number, name, 0, f"it is a number from 0 to {last}", "Pass an int", most=last,
                                  error=CertificateError)
                            for number, name, last in ((graph, "graph", len(self) - 1),
                                                       (direction, "direction", len(self.witnesses[0]) - 1)))
        return self.witnesses[graph][direction]

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column."""
        columns = {"graph": torch.arange(len(self)), "most_dropped": self.most_dropped, "nominal": self.nominal,
                   "lower": self.lower, "upper": self.upper, "rounding": self.rounding, "run_error": self.run_error,
                   "positive": self.positive, "negative": self.negative, "enumerated": self.enumerated}
        return {name: values.tolist() for name, values in columns.items()}

    def to_frame(self) -> "pd.DataFrame":
        """The same table as a pandas frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __str__(self) -> str:
        proved, number = int(self.positive.sum()), self.positive.numel()
        return "\n".join([
            f"certified lower bounds of {len(self)} graphs, {self.pool} pooling, method {self.method}",
            f"  model     {self.precision}, {self.reading}",
            f"  budget    {spread(self.most_dropped)} edges of a graph at most",
            f"  nominal   mean {_mean(self.nominal)}",
            f"  lower     mean {_mean(self.lower)}, min {float(self.lower.min()):.4g}",
            f"  upper     mean {_mean(self.upper)}; all sets tried in {int(self.enumerated.sum())} graphs, "
            f"{int(self.negative.sum())} known to fall below zero",
            f"  positive  {proved} of {number} ({percent(self.share_positive)}) proved to stay above zero, as run in "
            f"{self.precision}"])

    __repr__ = __str__


def _mean(values: Tensor) -> str:
    return f"{float(values.double().mean()):.4g}"
