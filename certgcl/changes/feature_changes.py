"""How features may change: entries masked, bits flipped, values moved within a box, whole columns masked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, numbers, real, shown, whole
from certgcl.changes.coverage import binomial_quantile, poisson_binomial_quantiles
from certgcl.errors import BudgetError
from certgcl.formatting import html_table, spread
from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import Halo
from certgcl.runtime.tensor_cache import PRIVATE

Kind = Literal["masked", "bits", "box", "columns"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_TENSORS = ("off", "on", "radius")


@dataclass(frozen=True, eq=False)
class AdmissibleFeatures:
    """The features that a budget allows on one graph: those ``X̃`` whose rows differ from X by at most

    ``off_k`` entries that become 0, ``on_k`` zeros that become 1, and ``radius_k`` in every entry, with at most
    ``total`` entries that become 0 or 1 in all. Of shared columns, at most ``columns`` are 0 at every node; the limits
    of single nodes then hold too, and are looser.

    Args:
        kind: the kind of change that was requested.
        off, on: numbers of entries, tightened, ``(N,)``.
        radius: of the box, ``(N,)``, float64.
        columns: that are masked at all nodes at once; 0 for every other kind.
        total: of all nodes together.
    """

    kind: Kind
    off: Tensor
    on: Tensor
    radius: Tensor
    columns: int
    total: int

    @classmethod
    def tightened(
        cls, graph: Graph, kind: Kind, off: Tensor, on: Tensor, radius: Tensor, columns: int, total: int
    ) -> "AdmissibleFeatures":
        """The same with every number lowered to what can actually be used. No admissible change is lost.

        Raises:
            BudgetError: bits of features that are not all 0 or 1.
        """
        entries = graph.features.entries()
        if kind == "bits" and not bool((entries.value == 1).all()):
            odd = entries.value[entries.value != 1]
            raise BudgetError(
                f"bits turned on or off in features with the value {float(odd[0]):g}",
                "only features that are all 0 or 1 have bits",
                "Use masked= or box=",
            )
        filled = entries.start.diff()
        if kind == "columns":
            columns = min(columns, len(graph.features.filled_columns))
            off = torch.full_like(filled, columns)
        off, on = off.minimum(filled), on.minimum(graph.num_features - filled)
        if kind in ("masked", "bits"):
            off, on = off.clamp(max=total), on.clamp(max=total)
            total = min(total, int(off.sum() + on.sum()))
        else:
            total = int(off.sum())
        return cls(kind, off, on, radius, columns, total)

    @property
    def limited(self) -> bool:
        """Whether the total is a limit at all."""
        return self.total < int(self.off.sum() + self.on.sum())

    @property
    def nothing(self) -> bool:
        """Whether nothing can change."""
        return not (self.total or bool(self.radius.any()))

    def words(self) -> str:
        """In short."""
        if self.kind == "columns":
            return f"{_noun(str(self.columns), 'column')} masked"
        if self.kind == "box":
            return f"features within {spread(self.radius)}"
        limit = f", {self.total} in all" if self.limited else ""
        if self.kind == "masked":
            return f"{_noun(spread(self.off), 'feature')} masked{limit}"
        return f"{spread(self.off)} bits off and {spread(self.on)} on{limit}"

    def budget(self) -> "FeatureBudget":
        """A budget that allows the same on the same graph."""
        if self.kind == "box":
            return FeatureBudget(box=self.radius)
        if self.kind == "columns":
            return FeatureBudget(columns=self.columns)
        if self.kind == "masked":
            return FeatureBudget(masked=self.off, total=self.total)
        return FeatureBudget(turned_off=self.off, turned_on=self.on, total=self.total)

    def private(self) -> "AdmissibleFeatures":
        """A copy that nobody else holds; this object itself, if it is one."""
        if PRIVATE in vars(self):
            return self
        copy = replace(self, **{name: getattr(self, name).clone() for name in _TENSORS})
        vars(copy)[PRIVATE] = True
        return copy

    def same(self, other: "AdmissibleFeatures | None") -> bool:
        """Whether both allow the same, on the same graph."""
        return self is other or (
            other is not None
            and (self.kind, self.columns, self.total) == (other.kind, other.columns, other.total)
            and all(torch.equal(getattr(self, name), getattr(other, name)) for name in _TENSORS)
        )

    def to(self, device: torch.device) -> "AdmissibleFeatures":
        return replace(self, **{name: getattr(self, name).to(device) for name in _TENSORS})


class FeatureBudget:
    """How the features of a view may differ: in one of four ways.

    Args:
        masked: numbers of features of a node that may be set to 0: one for all nodes, or one per node.
        turned_off: numbers of bits of a node that may go from 1 to 0, likewise; for features that are all 0 or 1.
        turned_on: the same from 0 to 1.
        box: how far every feature of a node may move, up or down: one number for all nodes, or one per node.
        columns: how many features may be set to 0 at *all* nodes at once, as the views of GRACE and GCA do.
        total: the most features in the whole graph that are masked or turned; ``None`` for no limit.

    Example::

        FeatureBudget(masked=2)                             # two features of any node
        FeatureBudget(turned_on=10, total=10)               # ten bits anywhere
        FeatureBudget(box=0.05)
        FeatureBudget.from_mask_rate(0.3, coverage=0.99)    # columns, as 99 % of sampled views mask them
    """

    def __init__(
        self,
        masked: int | Sequence[int] | Tensor | None = None,
        turned_off: int | Sequence[int] | Tensor | None = None,
        turned_on: int | Sequence[int] | Tensor | None = None,
        box: float | Sequence[float] | Tensor | None = None,
        columns: int | None = None,
        total: int | None = None,
    ) -> None:
        given: dict[Kind, bool] = {
            "masked": masked is not None,
            "bits": not (turned_off is None and turned_on is None),
            "box": box is not None,
            "columns": columns is not None,
        }
        kinds = [kind for kind, there in given.items() if there]
        if len(kinds) != 1:
            raise BudgetError(
                f"a budget of {' and '.join(kinds) or 'no feature'}",
                "a feature budget masks features, turns bits on or off, allows a box, or masks columns",
                "Pass one of masked=, turned_off= and turned_on=, box= and columns=",
            )
        self._kind: Kind = kinds[0]
        self._off = _counts(turned_off if masked is None else masked, "turned_off" if masked is None else "masked")
        self._on = _counts(turned_on, "turned_on")
        self._radius = _radii(box)
        self._columns: int | MaskedColumns = (
            0
            if columns is None
            else whole(columns, "columns", 0, "it is a number of columns", "Pass an int", error=BudgetError)
        )
        if total is not None and self._kind in ("box", "columns"):
            raise BudgetError(
                f"total={shown(total)} with {self._kind}=",
                "a total counts single features that are masked, turned off or turned on",
                "Leave it out",
            )
        self._total = (
            None
            if total is None
            else whole(
                total, "total", 0, "it is a number of features in the whole graph", "Pass an int", error=BudgetError
            )
        )

    @classmethod
    def from_mask_rate(cls, rate: float, coverage: float = 0.99) -> "FeatureBudget":
        """For views that mask every column independently with probability ``rate``: as many columns as a sampled view
        masks at most, with probability ``coverage``."""
        rate = real(
            rate,
            "rate",
            lambda given: 0 < given < 1,
            "a rate lies strictly between 0 and 1",
            "Use FeatureBudget(columns=...) for a number",
            error=BudgetError,
        )
        return cls._by_rule(MaskedColumns(rate, _coverage(coverage)))

    @classmethod
    def from_mask_probabilities(cls, probability: Tensor, coverage: float = 0.99) -> "FeatureBudget":
        """The same for views that mask column f with its own probability, as GCA's do: one value per column."""
        given = numbers(
            probability, "probability", "it is one probability per column", "Pass a tensor", error=BudgetError
        )
        if given.dim() != 1 or not given.dtype.is_floating_point:
            raise BudgetError(
                f"probability {shown(given)}",
                "it is one floating-point number per column",
                "Pass a tensor with one value for each feature",
            )
        outside = given[~((given >= 0) & (given <= 1))]
        if outside.numel():
            raise BudgetError(f"mask probability {float(outside[0]):g}", "probabilities lie in [0, 1]", "Clamp them")
        return cls._by_rule(MaskedColumns(given.detach().double().clone(), _coverage(coverage)))

    @classmethod
    def _by_rule(cls, rule: "MaskedColumns") -> "FeatureBudget":
        budget = cls(columns=0)
        budget._columns = rule
        return budget

    def on(self, graph: Graph) -> AdmissibleFeatures:
        """The admissible features on ``graph``, with every number lowered to what can actually be used."""
        graph = Graph.of(graph)
        return self._at(graph, graph, slice(None))

    def on_halo(self, halo: Halo, graph: Graph) -> AdmissibleFeatures:
        """The admissible features of a graph at the nodes of a halo of it: any view within the budget of the graph is
        within these there, so a bound over them holds for the whole graph."""
        return self._at(halo.graph, graph, halo.nodes)

    def _at(self, part: Graph, graph: Graph, nodes: Tensor | slice) -> AdmissibleFeatures:
        """On a graph or a part of it, with these nodes."""
        off, on, radius = (_per_node(given, graph)[nodes] for given in (self._off, self._on, self._radius))
        columns = self._columns if isinstance(self._columns, int) else self._columns.on(graph)
        total = graph.num_nodes * graph.num_features if self._total is None else self._total
        return AdmissibleFeatures.tightened(part, self._kind, off, on, radius, columns, total)

    def __repr__(self) -> str:
        named: dict[str, Any] = {
            "masked" if self._kind == "masked" else "turned_off": self._off,
            "turned_on": self._on,
            "box": self._radius,
            "columns": self._columns,
            "total": self._total,
        }
        listed = [
            f"{name}={_short(value)}"
            for name, value in named.items()
            if value is not None and not (isinstance(value, (int, Tensor)) and name in _UNNAMED[self._kind])
        ]
        return f"FeatureBudget({', '.join(listed)})"

    def _repr_html_(self) -> str:
        return html_table("FeatureBudget", [("features", repr(self).removeprefix("FeatureBudget"))])


_UNNAMED: dict[Kind, tuple[str, ...]] = {
    "masked": ("turned_on", "box", "columns"),
    "bits": ("box", "columns"),
    "box": ("masked", "turned_off", "turned_on", "columns"),
    "columns": ("masked", "turned_off", "turned_on", "box"),
}


@dataclass(frozen=True, eq=False)
class MaskedColumns:
    """The most columns that a view masks, with a stated probability. Columns that are 0 everywhere do not count.

    Args:
        rate: of every column, or one for each.
    """

    rate: float | Tensor
    coverage: float

    def on(self, graph: Graph) -> int:
        filled = graph.features.filled_columns
        if isinstance(self.rate, float):
            return int(binomial_quantile(filled.new_tensor([len(filled)]), self.rate, self.coverage))
        if len(self.rate) != graph.num_features:
            raise BudgetError(
                f"{len(self.rate)} probabilities for {graph.num_features} features",
                "there is one per column",
                "Pass those of this graph",
            )
        return int(
            poisson_binomial_quantiles(
                filled.new_tensor([0, len(filled)]), self.rate.to(filled.device)[filled], self.coverage
            )
        )

    def __repr__(self) -> str:
        rate = f"rate {self.rate:g}" if isinstance(self.rate, float) else "a rate for each"
        return f"<{rate}, coverage {self.coverage:g}>"


def _coverage(coverage: float) -> float:
    return real(
        coverage,
        "coverage",
        lambda given: 0 < given < 1,
        "a probability strictly between 0 and 1",
        "Try 0.99",
        error=BudgetError,
    )


def _counts(value: Any, name: str) -> Tensor:
    rule = "it is a number of features, 0 or more, for all nodes or for each"
    given = numbers(0 if value is None else value, name, rule, "Pass an int or one per node", error=BudgetError)
    if given.dtype not in INTEGERS or given.dim() > 1 or bool((given.long() < 0).any()):
        raise BudgetError(f"{name}={shown(value)}", rule, "Pass an int or one per node")
    return given.long().clone()


def _radii(value: Any) -> Tensor:
    rule = "it is how far features may move, 0 or more and finite, for all nodes or for each"
    given = numbers(0.0 if value is None else value, "box", rule, "Pass a float or one per node", error=BudgetError)
    refusal = BudgetError(f"box={shown(value)}", rule, "Pass a float or one per node")
    if given.dtype == torch.bool or given.dtype.is_complex or given.dim() > 1:
        raise refusal
    # Python numbers do not pass through float32, in which 0.7 is smaller and 1e300 infinite.
    wide = torch.as_tensor(value, dtype=torch.float64) if isinstance(value, (float, Sequence)) else given.double()
    if not bool(((wide >= 0) & wide.isfinite()).all()):
        raise refusal
    return wide.clone()


def _per_node(given: Tensor, graph: Graph) -> Tensor:
    if given.dim() == 1 and given.numel() != graph.num_nodes:
        raise BudgetError(
            f"{given.numel()} feature budgets for {graph.num_nodes} nodes",
            "there must be one per node",
            "Pass one number for all, or one per node",
        )
    return given.to(graph.col.device).expand(graph.num_nodes)


def _short(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.item() if value.dim() == 0 else f"<{value.numel()} values>"
    return value


def _noun(count: str, noun: str) -> str:
    """A count with its noun, which is singular after 1."""
    return f"{count} {noun}" if count == "1" else f"{count} {noun}s"
