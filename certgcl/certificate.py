"""The result of a certification: values per node, and all that is needed to say what they mean."""

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from certgcl.errors import CertificateError

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = "certgcl-certificate-1"
_ARRAYS = ("nodes", "lower", "nominal", "rounding", "local_budget", "directions")


@dataclass(frozen=True, eq=False)
class Certificate:
    """What holds for each anchor, whatever admissible edges are dropped: ``w · z(S) >= lower``.

    Args:
        nodes: the anchors, ``(A,)``.
        lower: the bound, ``(A,)`` or ``(A, C)`` for C directions a node. Only a bound if ``certified``.
        nominal: ``w · z`` on the graph as given, same shape.
        rounding: how far above the true minimum floating-point rounding can have put ``lower``, same shape.
        method: name of the method.
        certified: whether the method proves what it says. ``paper`` and ``released`` do not.
        local_budget: the tightened ``q`` of every node of the graph, ``(N,)``.
        total_budget: the tightened ``Q``.
        directions: ``w``, ``(A, d)`` or ``(A, C, d)``.
    """

    nodes: Tensor
    lower: Tensor
    nominal: Tensor
    rounding: Tensor
    method: str
    certified: bool
    local_budget: Tensor
    total_budget: int
    directions: Tensor

    @property
    def positive(self) -> Tensor:
        """Where ``w · z > 0`` is proved for every admissible drop; nowhere for a method that proves nothing."""
        return (self.lower > self.rounding) & self.certified

    @property
    def share_positive(self) -> float:
        """The share of ``positive``."""
        return float(self.positive.double().mean())

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column: node, budget, nominal, lower, positive."""
        return {
            "node": self.nodes.tolist(),
            "budget": self.local_budget[self.nodes].tolist(),
            "nominal": self.nominal.tolist(),
            "lower": self.lower.tolist(),
            "positive": self.positive.tolist(),
        }

    def to_frame(self) -> "pd.DataFrame":
        """The same table as a pandas frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def save(self, path: str | Path) -> Path:
        """Write everything to one ``.npz`` file (no pickle inside); returns its path."""
        path = Path(path)
        arrays = {name: getattr(self, name).detach().cpu().numpy() for name in _ARRAYS}
        meta = {"format": _FORMAT, "method": self.method, "certified": self.certified,
                "total_budget": self.total_budget}
        with path.open("wb") as file:
            np.savez_compressed(file, meta=np.array(json.dumps(meta)), **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate written by :meth:`save`; a file that is not one raises ``CertificateError``."""
        try:
            # Opened here, since numpy leaves a broken archive open that it opened itself.
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                meta = json.loads(str(file["meta"]))
                arrays = {name: torch.from_numpy(file[name]) for name in _ARRAYS}
            if meta["format"] != _FORMAT:
                raise ValueError(f"format {meta['format']!r}")
            certificate = cls(**arrays, method=str(meta["method"]), certified=meta["certified"] is True,
                              total_budget=int(meta["total_budget"]))
            certificate._check_shapes()
            return certificate
        except (KeyError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise CertificateError(f"{path} ({error})", f"it must be a whole file in the format {_FORMAT}",
                                   "Write one with Certificate.save") from error

    def _check_shapes(self) -> None:
        """A file may be put together from parts of several: what is read must at least fit together."""
        shape = self.directions.shape[:-1]
        if (shape[:1] != self.nodes.shape or any(values.shape != shape for values in
                                                 (self.lower, self.nominal, self.rounding))
                or self.local_budget.dim() != 1 or bool((self.nodes >= len(self.local_budget)).any())):
            raise ValueError("arrays that do not fit each other")

    def __str__(self) -> str:
        what = "certified lower bounds" if self.certified else "scores that are NOT bounds"
        shown = self.lower.double()
        lines = [
            f"{what} at {len(self.nodes)} of {len(self.local_budget)} nodes, method {self.method}",
            f"  budget    local {_spread(self.local_budget)}, total {self.total_budget} edges",
            f"  nominal   mean {float(self.nominal.double().mean()):.4g}",
            f"  {'lower' if self.certified else 'score'}     mean {float(shown.mean()):.4g}, "
            f"min {float(shown.min()):.4g}, median {float(shown.median()):.4g}, max {float(shown.max()):.4g}",
        ]
        if self.certified:
            lines.append(f"  positive  {int(self.positive.sum())} of {self.positive.numel()} "
                         f"({100 * self.share_positive:.1f} %) proved to stay above zero")
        return "\n".join(lines)

    __repr__ = __str__


def _spread(counts: Tensor) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} … {high} (mean {float(counts.double().mean()):.2f})"
