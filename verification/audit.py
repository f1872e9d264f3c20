"""The checks of the audit, and the ledger in which it records its results."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BoundMethod
from certgcl.models import GraphNetwork, gcn_network
from verification.case import Case

CERTIFIED: Mapping[str, BoundMethod] = {name: method for name, method in METHODS.items() if method.certified}
KERNELS = [name for name in CERTIFIED if name.startswith("degree")]  # which have compiled kernels as well as torch
MODULES = "modules, end to end"  # the row of whole modules, whatever their bounds
UNCERTIFIED: Mapping[str, BoundMethod] = {name: method for name, method in METHODS.items() if not method.certified}


def weights(case: Case) -> GraphNetwork:
    return gcn_network((case.w1, case.b1, case.slope1), (case.w2, case.b2, case.slope2))


def certify(
    case: Case, method: str | BoundMethod, dtype: torch.dtype = torch.float64, nodes: list[int] | None = None
) -> certgcl.Certificate:
    """The library's answer to a case, through its public call."""
    return certgcl.linear_bounds(
        weights(case),
        certgcl.Graph.from_networkx(case.graph, case.x),
        certgcl.EdgeDropBudget(case.local, case.total),
        case.directions,
        method=method,
        dtype=dtype,
        nodes=nodes,
    )


def magnitude(case: Case) -> Tensor:
    """``w · z`` with all signs dropped and every Â entry at its largest possible value, 1; ``(n,)``."""
    hidden = (case.x.abs() @ case.w1.abs()).sum(dim=0) + case.b1.abs()
    hidden = hidden * case.slope1.abs().clamp(min=1)
    output = (case.nodes * (hidden @ case.w2.abs()) + case.b2.abs()) * case.slope2.abs().clamp(min=1)
    return case.directions.abs() @ output


def size(case: Case) -> float:
    """The size of the numbers involved: a unit in which cases with weights of a thousand do not dominate those with
    weights of one."""
    return float(magnitude(case).mean()) or 1.0


def tolerance(case: Case) -> Tensor:
    """How far rounding alone can raise a computed bound above a computed minimum, ``(n,)``. Both are chains of a few
    hundred float64 operations on numbers no larger than the magnitude, each good to 1e-16 of it. One-sided: only an
    excess above the tolerance is a violation.
    """
    return 1e-13 * magnitude(case) + 1e-300


def violations(case: Case, lower: Tensor, truth: Tensor) -> Tensor:
    """The nodes where ``lower`` is above the enumerated minimum (or is not a number)."""
    return torch.nonzero(~(lower <= truth + tolerance(case)))[:, 0]


@dataclass
class Tally:
    """Sums over nodes for one method; drops in units of the case's scale."""

    cases: int = 0
    nodes: int = 0
    violations: int = 0
    drop: float = 0.0  # of the bound below the clean value
    true_drop: float = 0.0  # of the minimum below the clean value

    @property
    def tightness(self) -> float:
        """Mean drop of the bound as a multiple of the mean true drop; 1 is exact."""
        return self.drop / self.true_drop if self.true_drop > 0 else float("nan")


@dataclass
class Ledger:
    """The results of a run of the audit."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    notes: dict[str, Any] = field(default_factory=dict)

    def enter(
        self, method: str, case: Case, lower: Tensor, truth: Tensor, clean: Tensor, scale: float | None = None
    ) -> Tensor:
        """Record one case; returns the violated nodes.

        Drops are measured in units of ``scale``, by default the :func:`size` of the case.
        """
        wrong = violations(case, lower, truth)
        scale = scale or size(case)
        self.record(
            method, case.nodes, len(wrong), float((clean - lower).sum()) / scale, float((clean - truth).sum()) / scale
        )
        return wrong

    def record(self, row: str, nodes: int, violated: int, drop: float, true_drop: float) -> None:
        """Add a case to a row of the table; drops summed over its nodes."""
        tally = self.tallies[row]
        tally.cases += 1
        tally.nodes += nodes
        tally.violations += violated
        tally.drop += drop
        tally.true_drop += true_drop

    def note(self, name: str, value: Any) -> None:
        self.notes[name] = value

    def count(self, name: str, *counts: int) -> None:
        """Add to the counts of a note."""
        self.notes[name] = [
            one + other for one, other in zip(self.notes.get(name, [0] * len(counts)), counts, strict=True)
        ]

    def plain(self) -> dict[str, Any]:
        """Everything as JSON, for :meth:`add` in another process."""
        return {"tallies": {name: asdict(tally) for name, tally in self.tallies.items()}, "notes": self.notes}

    def add(self, other: dict[str, Any]) -> None:
        """Add the results of another process."""
        for name, values in other["tallies"].items():
            tally = self.tallies[name]
            for part, value in values.items():
                setattr(tally, part, getattr(tally, part) + value)
        for name, value in other["notes"].items():
            if isinstance(value, list):
                self.count(name, *value)
            else:
                self.note(name, value)

    def lines(self) -> list[str]:
        wide = max(map(len, ("method", *self.tallies)))
        rows = [f"{'method':<{wide}} {'cases':>7} {'nodes':>8} {'violations':>11} {'mean drop / true drop':>22}"]
        parts = sorted(name for name in self.tallies if ": " in name)  # of a row that is contained in another one
        for name in (*(name for name in self.tallies if name not in parts), *parts):
            tally = self.tallies[name]
            rows.append(
                f"{name:<{wide}} {tally.cases:>7} {tally.nodes:>8} {tally.violations:>11} {tally.tightness:>22.2f}"
            )
        return rows + [f"{name}: {value}" for name, value in self.notes.items()]

    def write(self, path: Path) -> None:
        tallies = {name: {**tally.__dict__, "tightness": tally.tightness} for name, tally in self.tallies.items()}
        path.write_text(json.dumps({"methods": tallies, "notes": self.notes}, indent=2) + "\n")


LEDGER = Ledger()
