"""One case of the audit of changed features: a case of networks, and the possible changes of its features."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from verification.network_case import NetworkCase

Kind = Literal["masked", "bits", "box", "columns"]


@dataclass(frozen=True)
class PlainFeatures:
    """At most ``off`` entries of a node become 0 and ``on`` zeros become 1, ``total`` in all; or every entry moves by
    at most ``radius``; or at most ``columns`` are 0 at all nodes."""

    kind: Kind
    off: int = 0
    on: int = 0
    radius: float = 0.0
    columns: int = 0
    total: int | None = None


@dataclass(frozen=True, eq=False)
class FeatureCase:
    network: NetworkCase
    features: PlainFeatures

    @property
    def nodes(self) -> int:
        return self.network.nodes

    def with_features(self, **settings: Any) -> "FeatureCase":
        return replace(self, features=replace(self.features, **settings))

    def __repr__(self) -> str:
        return f"FeatureCase({self.features}, {self.network})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # how Hypothesis prints a failing case
        printer.text(repr(self))
