"""What a certification rests on, as a digest of each part and a few words about it."""

import hashlib
import json
from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.bounds import BoundMethod
from certgcl.certificate import spread
from certgcl.digest import digest, stored_parts
from certgcl.errors import MethodError
from certgcl.graph import Graph
from certgcl.question import Question


@dataclass(frozen=True)
class Part:
    """One thing the result depends on: in words, and by its digest where words do not say all."""

    shown: str
    sha256: str | None = None

    @property
    def identity(self) -> str:
        return self.shown if self.sha256 is None else self.sha256


def fingerprint(parts: dict[str, Part]) -> str:
    """One digest of all parts, whatever their order."""
    text = json.dumps({name: part.identity for name, part in parts.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def question_parts(question: Question, nodes: Tensor) -> dict[str, Part]:
    """Everything the bounds at ``nodes`` depend on, certgcl's own version among it."""
    graph, drops, weights = question.graph, question.drops, question.weights
    widths = (*weights.w1.shape, weights.w2.shape[1])
    return {
        "weights": Part(f"{' -> '.join(map(str, widths))} channels",
                        digest(*(tensor for _, tensor in weights.named_tensors()))),
        "edges": Part(_edges(graph), digest(graph.rowptr, graph.col)),
        "features": Part(_features(graph), digest(*stored_parts(graph.x))),
        "directions": _directions(question),
        "budget": Part(f"local {spread(drops.local)}, total {drops.total} edges",
                       digest(drops.local, drops.requested, drops.droppable, torch.tensor(drops.total))),
        "method": Part(_settings(question.bound)),
        "dtype": Part(str(weights.w1.dtype).removeprefix("torch.")),
        "nodes": Part(f"{len(nodes)} of {graph.num_nodes}", digest(nodes)),
        "certgcl": Part(__version__),
    }


def _directions(question: Question) -> Part:
    """Those of compactness by the view they come from, as their own digits may differ from machine to machine."""
    if question.given is not None:
        return Part(f"given, of shape {tuple(question.given.shape)}", digest(question.given))
    view = question.view
    if view is question.graph:
        return Part("compactness, the graph itself as view")
    return Part(f"compactness, a view with {_edges(view)}", digest(view.rowptr, view.col, *stored_parts(view.x)))


def _edges(graph: Graph) -> str:
    return f"{graph.num_nodes} nodes, {graph.num_edges} edges"


def _features(graph: Graph) -> str:
    dtype = str(graph.x.dtype).removeprefix("torch.")
    return f"{graph.num_features} per node, {dtype}{'' if graph.x.layout == torch.strided else ', sparse'}"


def _settings(bound: BoundMethod) -> str:
    """The method with its settings, as its ``repr`` has them."""
    if type(bound).__repr__ is object.__repr__:
        raise MethodError(f"a method of type {type(bound).__name__} without a repr of its own",
                          "results are told apart by the repr of their method", "Make it a dataclass")
    return repr(bound)
