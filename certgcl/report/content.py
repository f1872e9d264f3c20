"""The numbers of a report as plain data, which the page shows and embeds as JSON."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from certgcl.certify.budget_curve import BudgetCurve

Edge = tuple[int, int]
PROVED, OPEN, BREAKS, UNPROVED = "proved", "open", "breaks", "no proof"  # of the sign of a node's worst value


@dataclass(frozen=True)
class Missing:
    """A section without data: one sentence that says why."""

    reason: str


@dataclass(frozen=True)
class Statement:
    """What was certified, in words."""

    holds: str
    method: str
    budget: str


@dataclass(frozen=True)
class Summary:
    """A summary in a few numbers; see :class:`certgcl.certify.measures.Measures`.

    Args:
        nodes: how many were bounded, of ``graph_nodes``.
        proved: how many stay above zero under every admissible drop; ``by_certificate`` of them by the certificate
            alone, the others by what was computed for the page.
        raised: how many bounds are higher than in the certificate, which by itself keeps ``kept_by_certificate``.
        breaks: how many are known to fall below zero, of ``searched`` nodes; None if nothing was searched.
        exact: the number of closed brackets; None likewise.
    """

    statement: Statement
    method: str
    certified: bool
    nodes: int
    graph_nodes: int
    proved: int
    by_certificate: int
    raised: int
    share: float
    kept: float | None
    kept_by_certificate: float | None
    over_norm: float | None
    nominal_over_norm: float | None
    searched: int
    breaks: int | None
    exact: int | None
    norm_mean: float | None
    nominal_mean: float
    lower_mean: float
    lower_min: float
    lower_median: float
    lower_max: float
    local_min: int
    local_mean: float
    local_max: int
    total: int


@dataclass(frozen=True)
class NodeTable:
    """One entry per node; of very large certificates a random sample of ``of`` nodes.

    Args:
        certified: whether ``lower`` are bounds, and not mere scores. upper: None at nodes that were not searched.
        sign: whether the node is proved to stay above zero, known to fall below, or neither.
    """

    of: int
    certified: bool
    node: list[int]
    name: list[str] | None
    label: list[int] | None
    degree: list[int] | None
    budget: list[int]
    nominal: list[float]
    lower: list[float]
    upper: list[float | None]
    sign: list[str]

    @property
    def searched(self) -> bool:
        return any(value is not None for value in self.upper)


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
class Accuracy:
    """Certified accuracy of a logistic regression on the embeddings, at ``nodes`` of ``of`` test nodes.

    Args:
        certified: how many predictions are right and stay so; ``unknown`` are right and may or may not stay so;
            ``broken`` are right and known to change; ``wrong`` are wrong on the graph as given, ``unseen`` of them
            because no training node has their class.
        evaluated: Micro-F1 as computed by ``certgcl evaluate``: normalised embeddings, all test nodes, each of its
            splits.
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
    unseen: int
    evaluated: list[float]
    evaluated_mean: float
    evaluated_std: float


@dataclass(frozen=True)
class EdgeEffect:
    """An edge that is dropped or added, and the value of a node with this change and those before it."""

    edge: Edge
    value: float
    added: bool = False


@dataclass(frozen=True)
class NodeDetail:
    """What the page shows for a node that is looked up: its bounds along the curves, and the edges that matter.

    Args:
        witness: how many edges the whole witness has, whose change reaches the upper value.
    """

    node: int
    by_rate: list[float]
    by_count: list[float]
    effects: list[EdgeEffect]
    witness: int


@dataclass(frozen=True)
class Explorer:
    """The data for looking up nodes on the page.

    Args:
        edges: of the graph, each once; None if it is too large to be embedded.
        names, labels: of all nodes, with ``edges``.
    """

    rates: list[float]
    counts: list[float]
    details: list[NodeDetail]
    edges: list[Edge] | None
    names: list[str] | None
    labels: list[int] | None


@dataclass(frozen=True)
class FragileNode:
    """A row of the table. ``upper`` and ``witness`` are None for nodes that were not searched; ``effects`` is short,
    and so is ``features``: which entries of the features the witness changes, in words. ``added`` are its new edges."""

    node: int
    name: str | None
    degree: int | None
    budget: int
    label: int | None
    nominal: float
    lower: float
    upper: float | None
    sign: str
    witness: list[Edge] | None
    effects: list[EdgeEffect]
    features: list[str] = field(default_factory=list)
    added: list[Edge] = field(default_factory=list)


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
    """The neighbourhood of a node and the few edges that matter, whose change gives it the value ``reached``.

    Args:
        proved: a proved lower bound of its value.
        witness: the dropped edges; ``upper`` is reached by a change of ``whole`` edges.
        added: the added edges.
        features: what the whole witness changes about features, in words.
        hidden: how many nodes within two hops are left out for lack of space.
    """

    node: int
    nominal: float
    proved: float
    reached: float
    upper: float
    whole: int
    places: list[PicturePlace]
    edges: list[Edge]
    witness: list[Edge]
    hidden: int
    added: list[Edge]
    features: list[str]
    name: str | None


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
    """How to reproduce it: command lines, and lines of Python for what they cannot express."""

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
    explorer: Explorer | Missing
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
