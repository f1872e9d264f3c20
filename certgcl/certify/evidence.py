"""What a certificate is about: a digest of each part, and a few words.

Digests are taken when a certificate is made, so that it names what was certified even if features or weights are edited
in place afterwards. They distinguish questions and detect accidents; they are not a signature, since anyone can write a
file with matching digests.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import torch

from certgcl._version import __version__
from certgcl.bounds import BoundMethod
from certgcl.certify.method_settings import special_settings
from certgcl.changes.changes import AdmissibleChanges
from certgcl.files.digest import digest, stored_parts
from certgcl.formatting import spread
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

if TYPE_CHECKING:
    from certgcl.certify.certification import Question

DirectionSource = Literal["graph", "view", "both views", "given"]
_DIRECTIONS: dict[DirectionSource, str] = {
    "graph": "compactness, the graph itself as view",
    "both views": "compactness, any admissible second view",
    "view": "compactness, a view with ",
    "given": "given, of shape ",
}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAMED_BY_DIGEST = ("weights", "edges", "features", "budget")


@dataclass(frozen=True)
class Fact:
    """One thing the result depends on: in words, and by its digest where words do not determine it."""

    shown: str
    sha256: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shown, str) or not (
            self.sha256 is None or (isinstance(self.sha256, str) and _SHA256.fullmatch(self.sha256))
        ):
            raise ValueError(f"a part {self.shown!r} with the SHA-256 {self.sha256!r}")

    @property
    def identity(self) -> str:
        return self.shown if self.sha256 is None else self.sha256


@dataclass(frozen=True)
class Evidence:
    """What the bounds of a certificate are about, part by part.

    Args:
        weights: of the model in its own precision, SHA-256.
        edges: of the graph, SHA-256.
        features: of the graph, SHA-256.
        budget: as requested and tightened: the edges that can be dropped and added, and what features can become,
            SHA-256.
        directions: where they come from, with the SHA-256 of those given, or of the second view.
        method: with all its settings.
        dtype: of the computation.
        certgcl: the version of the library.
    """

    weights: Fact
    edges: Fact
    features: Fact
    budget: Fact
    directions: Fact
    method: Fact
    dtype: Fact
    certgcl: Fact

    def __post_init__(self) -> None:
        nameless = [name for name in _NAMED_BY_DIGEST if getattr(self, name).sha256 is None]
        if nameless or (self.direction_source in ("view", "given")) != (self.directions.sha256 is not None):
            raise ValueError(f"evidence without the SHA-256 of {', '.join(nameless) or 'its directions'}")

    @classmethod
    def of(cls, question: "Question") -> "Evidence":
        """The evidence of a question, taken now."""
        return cls(
            weights_part(question.encoder),
            edges_part(question.graph),
            features_part(question.graph),
            budget_part(question.changes),
            _directions(question),
            Fact(settings(question.bound)),
            Fact(dtype_name(question.dtype)),
            Fact(__version__),
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Evidence":
        """From the output of :meth:`to_dict`; anything else raises ``ValueError``, ``TypeError`` or ``KeyError``."""
        if set(content) != {field.name for field in fields(cls)}:
            raise ValueError(f"evidence on {', '.join(content) or 'nothing'}")
        return cls(**{name: Fact(**part) for name, part in content.items()})

    def to_dict(self) -> dict[str, dict[str, str | None]]:
        return asdict(self)

    @property
    def parts(self) -> dict[str, Fact]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def direction_source(self) -> DirectionSource:
        """Where directions come from: compactness with the graph itself, with a fixed second view or with any view; or
        given ones."""
        for source, words in _DIRECTIONS.items():
            if self.directions.shown.startswith(words):
                return source
        raise ValueError(f"directions {self.directions.shown!r}")

    @property
    def special_settings(self) -> str | None:
        """The method with the settings that differ from its class's defaults, unless a name implies them."""
        return special_settings(self.method.shown)


# -- the parts -------------------------------------------------------------------------------------


def weights_part(network: GraphNetwork) -> Fact:
    """Digest of the structure and the tensors' values; -0.0, as which a slope may be read, counts as 0.0."""
    structure = json.dumps([network.structure(), network.readout, dtype_name(network.precision)], sort_keys=True)
    return Fact(
        str(network),
        _both(
            hashlib.sha256(structure.encode()).hexdigest(),
            digest(*(tensor.detach() + 0 for _, tensor in network.named_tensors())),
        ),
    )


def edges_part(graph: Graph) -> Fact:
    return Fact(_edges(graph), digest(graph.rowptr, graph.col))


def features_part(graph: Graph) -> Fact:
    return Fact(f"{graph.num_features} per node, {dtype_name(graph.x.dtype)}", _features(graph))


def _features(graph: Graph) -> str:
    """Digest of the form that bounds use: if few features are nonzero, those alone, which saves most of the time and
    gives dense and sparse features the same digest."""
    sparse = graph.features.sparse
    return digest(*stored_parts(graph.x if sparse is None else sparse))


def budget_part(changes: AdmissibleChanges) -> Fact:
    drops, features, added = changes.drops, changes.features, changes.additions
    words = f"local {spread(drops.local)}, total {drops.total} edges"
    found = digest(drops.local, drops.requested, drops.droppable, torch.tensor(drops.total))
    if added is not None:
        words, found = f"{words}; {added.words()}", _both(found, digest(*added.tensors()))
    if features is None:
        return Fact(words, found)
    numbers = torch.tensor([features.columns, features.total])
    there = (
        hashlib.sha256(features.kind.encode()).hexdigest(),
        digest(features.off, features.on, features.radius, numbers),
    )
    return Fact(f"{words}; {features.words()}", _both(found, _both(*there)))


def given_part(directions: torch.Tensor) -> Fact:
    return Fact(f"{_DIRECTIONS['given']}{tuple(directions.shape)}", digest(directions))


def view_part(view: Graph) -> Fact:
    return Fact(f"{_DIRECTIONS['view']}{_edges(view)}", _both(digest(view.rowptr, view.col), _features(view)))


def _both(one: str, other: str) -> str:
    return hashlib.sha256(f"{one} {other}".encode()).hexdigest()


def _directions(question: "Question") -> Fact:
    """Directions of compactness are identified by their view, because their last digits may differ between machines."""
    if question.given is not None:
        return given_part(question.given)
    if question.views == "both":
        return Fact(_DIRECTIONS["both views"])
    return Fact(_DIRECTIONS["graph"]) if question.view is question.graph else view_part(question.view)


def settings(bound: BoundMethod) -> str:
    """The method with its settings, as in its ``repr``."""
    return repr(bound) if has_repr(bound) else f"{type(bound).__qualname__}, whose settings are not known"


def has_repr(bound: BoundMethod) -> bool:
    """Whether the ``repr`` of a method shows its settings."""
    return type(bound).__repr__ is not object.__repr__


def _edges(graph: Graph) -> str:
    return f"{graph.num_nodes} nodes, {graph.num_edges} edges"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# -- all of them -----------------------------------------------------------------------------------


def fingerprint(parts: Mapping[str, Fact]) -> str:
    """One digest of all parts, independent of their order."""
    text = json.dumps({name: part.identity for name, part in parts.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(there: Mapping[str, Fact], here: Mapping[str, Fact]) -> list[str]:
    """The parts that are not the same, each in words."""
    nothing = Fact("nothing")
    pairs = {name: (there.get(name, nothing), here.get(name, nothing)) for name in sorted({*there, *here})}
    return [difference(name, *pair) for name, pair in pairs.items() if pair[0].identity != pair[1].identity]


def foreign_parts(evidence: Evidence, graph: Graph | None, network: GraphNetwork | None) -> list[str]:
    """How a graph and an encoder, if there are any, differ from those that a certificate is about."""
    here = {} if graph is None else {"edges": edges_part(graph), "features": features_part(graph)}
    if network is not None:
        here["weights"] = weights_part(network)
    return differences({name: evidence.parts[name] for name in here}, here)


def difference(name: str, there: Fact, here: Fact) -> str:
    """How a part differs: in words if the words differ."""
    return name if there.shown == here.shown else f"{name} ({there.shown} there, {here.shown} here)"
