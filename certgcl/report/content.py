"""The numbers of a report as plain data: what the page shows, and what is embedded in it as JSON."""

from dataclasses import asdict, dataclass, fields
from typing import Any

Edge = tuple[int, int]
PROVED, OPEN, BREAKS, UNPROVED = "proved", "open", "breaks", "no proof"  # of the sign of a node's worst value


@dataclass(frozen=True)
class Missing:
    """A section without data: one sentence why."""

    reason: str


@dataclass(frozen=True)
class Statement:
    """What was certified, in words."""

    holds: str
    method: str
    budget: str


@dataclass(frozen=True)
class Summary:
    """A certificate in a few numbers.

    Args:
        nodes: how many were bounded, of ``graph_nodes``.
        proved: how many stay above zero under every admissible drop.
        breaks: how many are known to fall below zero; None where nobody searched.
        exact: how many brackets are closed; None likewise.
    """

    statement: Statement
    method: str
    certified: bool
    nodes: int
    graph_nodes: int
    proved: int
    share: float
    breaks: int | None
    exact: int | None
    nominal_mean: float
    lower_mean: float
    lower_min: float
    lower_median: float
    lower_max: float
    upper_mean: float | None
    local_min: int
    local_mean: float
    local_max: int
    total: int


@dataclass(frozen=True)
class NodeTable:
    """One entry per node; of very large certificates a random sample of ``of`` nodes.

    Args:
        certified: whether ``lower`` are bounds, and not mere scores.
        sign: whether the node is proved to stay above zero, known to fall below, or neither.
    """

    of: int
    certified: bool
    node: list[int]
    degree: list[int] | None
    nominal: list[float]
    lower: list[float]
    upper: list[float] | None
    sign: list[str]


@dataclass(frozen=True)
class DegreeGroup:
    """The nodes with degrees from ``low`` to ``high``: quartiles of their bounds, and the share that is proved."""

    low: int
    high: int
    nodes: int
    lower_quartile: float
    lower_median: float
    upper_quartile: float
    proved: float


@dataclass(frozen=True)
class Degrees:
    groups: list[DegreeGroup]


@dataclass(frozen=True)
class BudgetPoint:
    """What holds under one budget: a drop rate, or a number of edges at each node."""

    budget: float
    proved: float
    lower_mean: float
    nominal_mean: float


@dataclass(frozen=True)
class BudgetCurve:
    """Computed for the report, at ``nodes`` of ``of`` nodes."""

    method: str
    nodes: int
    of: int
    by_rate: list[BudgetPoint]
    by_count: list[BudgetPoint]


@dataclass(frozen=True)
class Accuracy:
    """Certified accuracy of a logistic regression on the embeddings, at ``nodes`` of ``of`` test nodes.

    Args:
        certified: how many predictions are right and stay so; ``unknown`` are right and may or may not; ``broken`` are
            right and known to change; ``wrong`` are wrong on the graph as given.
    """

    method: str
    protocol: str
    train: int
    nodes: int
    of: int
    clean: float
    lower: float
    upper: float
    certified: int
    unknown: int
    broken: int
    wrong: int


@dataclass(frozen=True)
class FragileNode:
    """A row of the table. ``upper`` and ``witness`` are None where nobody searched."""

    node: int
    degree: int | None
    budget: int
    label: int | None
    nominal: float
    lower: float
    upper: float | None
    sign: str
    witness: list[Edge] | None


@dataclass(frozen=True)
class PicturePlace:
    """A node of a drawing: hops from the centre, and where it is drawn."""

    node: int
    hops: int
    x: float
    y: float
    label: int | None


@dataclass(frozen=True)
class NodePicture:
    """The neighbourhood of a node and the edges whose loss brings it to ``upper``.

    Args:
        proved: what a search proves its value to stay above: at least the bound of the certificate.
        hidden: how many nodes within two hops are left out for want of room.
    """

    node: int
    nominal: float
    proved: float
    upper: float
    places: list[PicturePlace]
    edges: list[Edge]
    witness: list[Edge]
    hidden: int


@dataclass(frozen=True)
class Fragile:
    """The nodes with the least bounds, and drawings of the first few."""

    of: int
    rows: list[FragileNode]
    drawings: list[NodePicture]
    drawings_absent: str
    searched: bool


@dataclass(frozen=True)
class Training:
    """The metrics of every epoch; None where one had none."""

    epochs: int
    seconds: float
    metrics: dict[str, list[float | None]]


@dataclass(frozen=True)
class Origin:
    """How to make it again: command lines, and lines of Python for what they cannot say."""

    commands: list[str]
    lines: str
    versions: dict[str, str]
    settings: dict[str, str]
    seed: int | None
    started: str | None
    fingerprint: str | None


@dataclass(frozen=True)
class Report:
    """All sections, in the order of the page."""

    name: str
    graph: str
    summary: Summary | Missing
    values: NodeTable | Missing
    degrees: Degrees | Missing
    curve: BudgetCurve | Missing
    accuracy: Accuracy | Missing
    fragile: Fragile | Missing
    training: Training | Missing
    origin: Origin

    def missing(self) -> dict[str, str]:
        """The sections without data, and why."""
        sections = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: section.reason for name, section in sections.items() if isinstance(section, Missing)}

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, ready for JSON."""
        return asdict(self)
