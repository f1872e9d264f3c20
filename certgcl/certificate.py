"""The result of a certification: values per node, and all that is needed to say what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.errors import CertificateError
from certgcl.files import load_arrays, refusing, save_arrays

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = "certgcl-certificate-1"
_PER_ANCHOR = ("nodes", "lower", "nominal", "rounding", "run_error", "directions")
_ARRAYS = (*_PER_ANCHOR, "local_budget")
_BRACKET = ("upper", "witness_edges", "witness_sizes")
EXACT = 1e-9  # a bracket no wider than this share of its value, and rounding, is a value
_ONE_QUESTION = "parts of one certificate answer one question"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What holds for each anchor, whatever admissible edges are dropped: ``w · z(S) >= lower``.

    Args:
        nodes: the anchors, ``(A,)``.
        lower: the bound, ``(A,)`` or ``(A, C)`` for C directions a node. Only a bound if ``certified``.
        nominal: ``w · z`` on the graph as given, same shape.
        rounding: how far above the true minimum floating-point rounding can have put ``lower``, same shape.
        run_error: how far below its exact value ``w · z`` of the model can be as it is run, same shape.
        precision: that of the model's parameters.
        method: name of the method.
        certified: whether the method proves what it says. ``paper`` and ``released`` do not.
        local_budget: the tightened ``q`` of every node of the graph, ``(N,)``.
        total_budget: the tightened ``Q``.
        directions: ``w``, ``(A, d)`` or ``(A, C, d)``.
        upper: a value that some admissible drop reaches, same shape as ``lower``; None where none was searched for.
        witnesses: those drops, ``(2, k)`` edges for every anchor; see :meth:`witness`.
    """

    nodes: Tensor
    lower: Tensor
    nominal: Tensor
    rounding: Tensor
    run_error: Tensor
    precision: str
    method: str
    certified: bool
    local_budget: Tensor
    total_budget: int
    directions: Tensor
    upper: Tensor | None = None
    witnesses: tuple[Tensor, ...] | None = None

    @property
    def positive(self) -> Tensor:
        """Where ``w · z > 0`` is proved for every admissible drop, in exact arithmetic and of the model as it is run in
        its own precision; nowhere for a method that proves nothing."""
        return (self.lower > self.rounding + self.run_error) & self.certified

    @property
    def positive_in_exact_arithmetic(self) -> Tensor:
        """The same in exact arithmetic alone."""
        return (self.lower > self.rounding) & self.certified

    @property
    def share_positive(self) -> float:
        """The share of ``positive``."""
        return float(self.positive.double().mean())

    @property
    def negative(self) -> Tensor:
        """Where an admissible drop with ``w · z < 0`` is known."""
        if self.upper is None:
            return torch.zeros_like(self.positive)
        return self.upper < -self.rounding

    @property
    def exact(self) -> Tensor:
        """Where ``lower`` is the minimum itself, up to 1e-9 of its size and rounding: a witness reaches it."""
        if self.upper is None:
            return torch.zeros_like(self.positive)
        return self.upper - self.lower <= EXACT * self.nominal.abs().maximum(self.upper.abs()) + self.rounding

    @property
    def status(self) -> list[str]:
        """What is known of every anchor: ``exact``, ``bracketed`` by a known drop, ``bounded`` from below alone, or
        ``uncertified`` by a method that proves nothing."""
        if self.upper is None:
            return ["bounded" if self.certified else "uncertified"] * len(self.nodes)
        return ["exact" if exact else "bracketed" for exact in self.exact.tolist()]

    def witness(self, node: int) -> Tensor:
        """The edges, ``(2, k)``, without which ``w · z`` of a node is its ``upper``."""
        place = (self.nodes == node).nonzero()[:, 0]
        if self.witnesses is None or not len(place):
            raise CertificateError(f"a witness of node {node}", "this certificate has none",
                                   "Certify the node with method='optimized' or 'exact'")
        return self.witnesses[int(place[0])]

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column: node, budget, nominal, lower, positive; upper and exact where there are any."""
        columns: dict[str, list[Any]] = {
            "node": self.nodes.tolist(),
            "budget": self.local_budget[self.nodes].tolist(),
            "nominal": self.nominal.tolist(),
            "lower": self.lower.tolist(),
            "positive": self.positive.tolist(),
        }
        if self.upper is not None:
            columns |= {"upper": self.upper.tolist(), "exact": self.exact.tolist()}
        return columns

    def to_frame(self) -> "pd.DataFrame":
        """The same table as a pandas frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    @classmethod
    def joined(cls, parts: Sequence["Certificate"]) -> "Certificate":
        """One certificate of several that answer the same question at different anchors, in the order of the parts."""
        first = parts[0]
        for part in parts[1:]:
            for name in ("method", "certified", "total_budget"):
                if getattr(part, name) != getattr(first, name):
                    raise CertificateError(f"certificates with {name} {getattr(first, name)!r} and "
                                           f"{getattr(part, name)!r}", _ONE_QUESTION, "Certify all alike")
            if (not torch.equal(part.local_budget, first.local_budget)
                    or part.directions.shape[1:] != first.directions.shape[1:]):
                raise CertificateError("certificates with different local budgets or directions", _ONE_QUESTION,
                                       "Certify all alike")
        together: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in _PER_ANCHOR}
        if all(part.upper is not None and part.witnesses is not None for part in parts):
            together["upper"] = torch.cat([part.upper for part in parts if part.upper is not None])
            together["witnesses"] = tuple(witness for part in parts for witness in part.witnesses or ())
        joined = replace(first, **{"upper": None, "witnesses": None} | together)
        distinct, count = torch.unique(joined.nodes, return_counts=True)
        if len(distinct) != len(joined.nodes):
            raise CertificateError(f"node {int(distinct[count > 1][0])} in {int(count.max())} certificates",
                                   "every anchor is bounded once", "Leave one out")
        return joined

    def at(self, positions: Tensor) -> "Certificate":
        """The certificate of the anchors at some positions in ``nodes``, in that order; or of those in a mask."""
        chosen: dict[str, Any] = {name: getattr(self, name)[positions] for name in _PER_ANCHOR}
        if self.upper is not None and self.witnesses is not None:
            places = torch.arange(len(self.nodes), device=self.nodes.device)[positions].tolist()
            chosen |= {"upper": self.upper[positions], "witnesses": tuple(self.witnesses[place] for place in places)}
        return replace(self, **chosen)

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> Path:
        """Write everything to one ``.npz`` file (no pickle inside), with JSON ``notes`` if any; returns its path."""
        path = Path(path)
        meta = {"format": _FORMAT, "method": self.method, "precision": self.precision, "certified": self.certified,
                "total_budget": self.total_budget} | ({} if notes is None else {"notes": dict(notes)})
        tensors = {name: getattr(self, name) for name in _ARRAYS}
        if self.upper is not None and self.witnesses is not None:
            tensors |= {"upper": self.upper, "witness_edges": torch.cat(self.witnesses, dim=1),
                        "witness_sizes": torch.tensor([witness.shape[1] for witness in self.witnesses])}
        save_arrays(path, meta, {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate written by :meth:`save`; a file that is not one raises ``CertificateError``."""
        return cls.load_with_notes(path)[0]

    @classmethod
    def load_with_notes(cls, path: str | Path) -> tuple["Certificate", dict[str, Any]]:
        """The same, with the notes it was saved with."""
        path = Path(path)
        with refusing(path, CertificateError, f"it must be a whole file in the format {_FORMAT}",
                      "Write one with Certificate.save"):
            meta, arrays = load_arrays(path, _FORMAT, _ARRAYS, _BRACKET)
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            edges, sizes = (tensors.pop(name, None) for name in _BRACKET[1:])
            found = None if edges is None or sizes is None else edges.split(sizes.tolist(), dim=1)
            certificate = cls(**tensors, witnesses=found, method=str(meta["method"]), precision=str(meta["precision"]),
                              certified=meta["certified"] is True, total_budget=int(meta["total_budget"]))
            certificate._check_shapes()
            return certificate, dict(meta.get("notes", {}))

    def _check_shapes(self) -> None:
        """A file may be put together from parts of several: what is read must at least fit together."""
        shape = self.directions.shape[:-1]
        if (shape[:1] != self.nodes.shape or any(values.shape != shape for values in
                                                 (self.lower, self.nominal, self.rounding))
                or (self.upper is not None and (self.upper.shape != shape or self.witnesses is None
                                                or len(self.witnesses) != len(self.nodes)))
                or self.local_budget.dim() != 1 or bool((self.nodes >= len(self.local_budget)).any())):
            raise ValueError("arrays that do not fit each other")

    def __str__(self) -> str:
        what = "certified lower bounds" if self.certified else "scores that are NOT bounds"
        shown = self.lower.double()
        lines = [
            f"{what} at {len(self.nodes)} of {len(self.local_budget)} nodes, method {self.method}",
            f"  budget    local {spread(self.local_budget)}, total {self.total_budget} edges",
            f"  nominal   mean {float(self.nominal.double().mean()):.4g}",
            f"  {'lower' if self.certified else 'score'}     mean {float(shown.mean()):.4g}, "
            f"min {float(shown.min()):.4g}, median {float(shown.median()):.4g}, max {float(shown.max()):.4g}",
        ]
        if self.certified:
            lines.append(f"  positive  {int(self.positive.sum())} of {self.positive.numel()} "
                         f"({100 * self.share_positive:.1f} %) proved to stay above zero")
        if self.upper is not None:
            lines.append(f"  upper     mean {float(self.upper.double().mean()):.4g}; {int(self.exact.sum())} exact, "
                         f"{int(self.negative.sum())} known to fall below zero")
        return "\n".join(lines)

    __repr__ = __str__


def spread(counts: Tensor) -> str:
    """The range of integers in words."""
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} … {high} (mean {float(counts.double().mean()):.2f})"
