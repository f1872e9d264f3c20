"""Everything that may change about a graph at once: each part has its own budget."""

from dataclasses import dataclass, replace
from typing import TypeAlias, Union

import torch

from certgcl.arguments import shown
from certgcl.changes.edge_additions import (
    AdditionsLike,
    AdmissibleAdditions,
    EdgeAddBudget,
    EdgeFlipBudget,
    FlipsLike,
    beside_drops,
)
from certgcl.changes.edge_drops import AdmissibleDrops, DropsLike, EdgeDropBudget
from certgcl.changes.feature_changes import AdmissibleFeatures, FeatureBudget
from certgcl.errors import BudgetError
from certgcl.formatting import html_table
from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import Halo

BudgetLike: TypeAlias = Union["Changes", DropsLike]
"""The values that every public function accepts as ``budgets``: edge drops in any of their forms, or
:class:`Changes`."""


@dataclass(frozen=True, eq=False)
class AdmissibleChanges:
    """The changes that :class:`Changes` allow on one graph.

    Args:
        drops: the edges that may be dropped; none if no drops were requested.
        features: what features may become; None where they stay as they are.
        additions: the edges that may be added; None where none can.
    """

    drops: AdmissibleDrops
    features: AdmissibleFeatures | None = None
    additions: AdmissibleAdditions | None = None

    @classmethod
    def of(cls, changes: "AdmissibleChanges | AdmissibleDrops") -> "AdmissibleChanges":
        """Drops alone are changes too."""
        return cls(changes) if isinstance(changes, AdmissibleDrops) else changes

    @property
    def drops_only(self) -> bool:
        """Whether edges can be dropped and nothing else can change."""
        return self.features is None and self.additions is None

    @property
    def none(self) -> bool:
        """Whether the graph stays as it is."""
        return self.drops_only and not bool(self.drops.local.any())

    @property
    def features_only(self) -> bool:
        """Whether all edges stay, and features may change."""
        return self.features is not None and self.additions is None and not bool(self.drops.local.any())

    def private(self) -> "AdmissibleChanges":
        """A copy that nobody else holds; this object itself, if it is one."""
        drops, features = self.drops.private(), None if self.features is None else self.features.private()
        additions = None if self.additions is None else self.additions.private()
        if drops is self.drops and features is self.features and additions is self.additions:
            return self
        return replace(self, drops=drops, features=features, additions=additions)

    def to(self, device: torch.device) -> "AdmissibleChanges":
        return replace(
            self,
            drops=self.drops.to(device),
            features=None if self.features is None else self.features.to(device),
            additions=None if self.additions is None else self.additions.to(device),
        )


class Changes:
    """What may change about a graph, part by part; everything else stays as it is.

    Args:
        drops: edges that may be dropped: anything that :meth:`EdgeDropBudget.of` accepts.
        features: how features may change.
        additions: edges that may be added: an :class:`EdgeAddBudget`, or a number for every node.
        flips: dropped and added edges together, instead of both: an :class:`EdgeFlipBudget`, or a number for every
            node.

    Example::

        Changes(drops=2)                                    # the same as a budget of 2
        Changes(features=FeatureBudget(masked=3))           # all edges stay
        Changes(drops=0.2, features=FeatureBudget(box=0.1)) # both at once
        Changes(drops=2, additions=1)                       # two edges lost and one gained at any node
        Changes(flips=EdgeFlipBudget(local=1, total=3))     # one edge lost or gained at any node, three in all
        Changes(additions=1, features=FeatureBudget(masked=2))
    """

    def __init__(
        self,
        drops: DropsLike | None = None,
        features: FeatureBudget | None = None,
        additions: AdditionsLike | None = None,
        flips: FlipsLike | None = None,
    ) -> None:
        for name, part in (("drops", drops), ("additions", additions), ("flips", flips)):
            if isinstance(part, Changes):
                raise BudgetError(
                    f"{name}={shown(part)}",
                    "each part of a change has its own kind of budget",
                    "Pass the changes themselves",
                )
        if features is not None and not isinstance(features, FeatureBudget):
            raise BudgetError(
                f"features={shown(features)}", "it is a FeatureBudget", "Pass FeatureBudget(masked=2), or leave it out"
            )
        if flips is not None and not (drops is None and additions is None):
            raise BudgetError(
                "flips with drops or additions",
                "a budget of flips is for dropped and added edges together",
                "Pass flips alone, or drops and additions",
            )
        self._drops = EdgeDropBudget(local=0) if drops is None else EdgeDropBudget.of(drops)
        self._features = features
        self._additions = None if additions is None else EdgeAddBudget.of(additions)
        self._flips = None if flips is None else EdgeFlipBudget.of(flips)

    @property
    def drops(self) -> EdgeDropBudget:
        """The edges that may be dropped. Changes are immutable."""
        return self._drops if self._flips is None else self._flips.as_drops()

    @property
    def features(self) -> FeatureBudget | None:
        """How features may change."""
        return self._features

    @property
    def additions(self) -> EdgeAddBudget | None:
        """The edges that may be added, by a budget of their own."""
        return self._additions

    @property
    def flips(self) -> EdgeFlipBudget | None:
        """The edges that may be dropped or added, by one budget."""
        return self._flips

    @classmethod
    def of(cls, budgets: BudgetLike) -> "Changes":
        """Changes from ``Changes``, or from anything that describes edge drops."""
        return budgets if isinstance(budgets, Changes) else cls(drops=budgets)

    def on(self, graph: Graph) -> AdmissibleChanges:
        """The changes that they allow on ``graph``, with every budget lowered to what can actually be used."""
        features = None if self._features is None else self._features.on(graph)
        if self._flips is not None:
            drops, additions = self._flips.on(graph)
        else:
            drops = self._drops.on(graph)
            if self._additions is None:
                return AdmissibleChanges(drops, features)
            additions = beside_drops(drops, self._additions.on(graph))
        return AdmissibleChanges(drops, features, additions if bool(additions.local.any()) else None)

    def on_halo(self, halo: Halo, graph: Graph) -> AdmissibleChanges:
        """The changes that they allow on a graph, at the nodes of a halo of it: a bound over these holds for the whole
        graph. Edges may not be added, because they could lead anywhere; see :meth:`check_local`."""
        self.check_local("a halo")
        features = None if self._features is None else self._features.on_halo(halo, graph)
        return AdmissibleChanges(self._drops.on_halo(halo), features)

    def check_local(self, what: str) -> None:
        """Raise an error if edges may be added: then a node depends on others outside of its neighbourhood.

        Args:
            what: the caller that only has neighbourhoods, as the subject of a message.
        """
        if self._additions is not None or self._flips is not None:
            raise BudgetError(
                f"{what} under {self!r}",
                "it supports dropped edges and changed features; a new edge may lead to any node of the graph",
                "Pass drops and features alone",
            )

    def drops_alone(self, what: str) -> EdgeDropBudget:
        """The edge drops, for callers that support no other change; anything else raises an error.

        Args:
            what: the caller that supports drops alone, as the subject of a message.
        """
        if self._features is not None or self._additions is not None or self._flips is not None:
            raise BudgetError(
                f"{what} under {self!r}",
                "it supports dropped edges only",
                "Pass drops alone",
            )
        return self._drops

    def __repr__(self) -> str:
        features = "" if self._features is None else f", features={self._features!r}"
        if self._flips is not None:
            return f"Changes(flips={self._flips!r}{features})"
        additions = "" if self._additions is None else f", additions={self._additions!r}"
        return f"Changes(drops={self._drops!r}{features}{additions})"

    def _repr_html_(self) -> str:
        drops = None if self._flips is not None else self._drops
        parts = ("drops", drops), ("flips", self._flips), ("additions", self._additions), ("features", self._features)
        return html_table("Changes", [(name, repr(part)) for name, part in parts if part is not None])
