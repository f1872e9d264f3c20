"""All that may change about a graph at once: each part has a budget of its own."""

from dataclasses import dataclass, replace
from typing import TypeAlias, Union

import torch

from certgcl.arguments import shown
from certgcl.changes.edge_drops import AdmissibleDrops, DropsLike, EdgeDropBudget
from certgcl.changes.feature_changes import AdmissibleFeatures, FeatureBudget
from certgcl.errors import BudgetError
from certgcl.graphs.graph import Graph

BudgetLike: TypeAlias = Union["Changes", DropsLike]
"""What every public call takes as ``budgets``: edge drops in any of their forms, or :class:`Changes`."""


@dataclass(frozen=True, eq=False)
class AdmissibleChanges:
    """What :class:`Changes` allow on one graph.

    Args:
        drops: the edges that may be dropped; none where no drops were asked for.
        features: what features may become; None where they stay as they are.
    """

    drops: AdmissibleDrops
    features: AdmissibleFeatures | None = None

    @classmethod
    def of(cls, changes: "AdmissibleChanges | AdmissibleDrops") -> "AdmissibleChanges":
        """Drops alone are changes too."""
        return cls(changes) if isinstance(changes, AdmissibleDrops) else changes

    @property
    def drops_only(self) -> bool:
        """Whether nothing but edges that are dropped can change."""
        return self.features is None

    @property
    def features_only(self) -> bool:
        """Whether all edges stay, and features may change."""
        return self.features is not None and not bool(self.drops.local.any())

    def private(self) -> "AdmissibleChanges":
        """A copy that no one else holds; this itself, if it is one."""
        drops, features = self.drops.private(), None if self.features is None else self.features.private()
        if drops is self.drops and features is self.features:
            return self
        return replace(self, drops=drops, features=features)

    def same(self, other: "AdmissibleChanges") -> bool:
        """Whether both allow the same, on the same graph."""
        return self is other or (self.drops.same(other.drops) and (
            other.features is None if self.features is None else self.features.same(other.features)))

    def to(self, device: torch.device) -> "AdmissibleChanges":
        return replace(self, drops=self.drops.to(device),
                       features=None if self.features is None else self.features.to(device))


class Changes:
    """What may change about a graph, part by part; what is not named stays as it is.

    Args:
        drops: edges that may be dropped: all that :meth:`EdgeDropBudget.of` takes.
        features: how features may change.

    Example::

        Changes(drops=2)                                    # the same as a budget of 2
        Changes(features=FeatureBudget(masked=3))           # all edges stay
        Changes(drops=0.2, features=FeatureBudget(box=0.1)) # both at once
    """

    def __init__(self, drops: DropsLike | None = None, features: FeatureBudget | None = None) -> None:
        if isinstance(drops, Changes):
            raise BudgetError(f"drops={shown(drops)}", "each part of a change has a budget of its own kind",
                              "Pass the changes themselves")
        if features is not None and not isinstance(features, FeatureBudget):
            raise BudgetError(f"features={shown(features)}", "it is a FeatureBudget",
                              "Pass FeatureBudget(masked=2), or leave it out")
        self._drops = EdgeDropBudget(local=0) if drops is None else EdgeDropBudget.of(drops)
        self._features = features

    @property
    def drops(self) -> EdgeDropBudget:
        """The edges that may be dropped. Changes do not change once they are made."""
        return self._drops

    @property
    def features(self) -> FeatureBudget | None:
        """How features may change."""
        return self._features

    @classmethod
    def of(cls, budgets: BudgetLike) -> "Changes":
        """Changes from themselves, or from all that stands for edge drops."""
        return budgets if isinstance(budgets, Changes) else cls(drops=budgets)

    def on(self, graph: Graph) -> AdmissibleChanges:
        """What they allow on ``graph``, with every budget lowered to what can really be used."""
        return AdmissibleChanges(self._drops.on(graph), None if self._features is None else self._features.on(graph))

    def drops_alone(self, what: str) -> EdgeDropBudget:
        """The edge drops, for what knows no other change; anything else is refused.

        Args:
            what: that knows them alone, as the subject of a message.
        """
        if self._features is not None:
            raise BudgetError(f"{what} under {self!r}", "it knows no change but edges that are dropped",
                              "Leave the features out")
        return self._drops

    def __repr__(self) -> str:
        features = "" if self._features is None else f", features={self._features!r}"
        return f"Changes(drops={self._drops!r}{features})"
