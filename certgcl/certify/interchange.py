"""The question about one node as a problem for general verifiers: an ONNX network and a VNN-LIB query.

The network is the model around the node, as a function of one number for each edge that can be dropped and matters to
the node: 1 where it is kept, 0 where it is dropped. The query has the budgets as linear constraints. Numbers between 0
and 1 are allowed, because neither format has integer variables: what is proved for all of them holds for dropped edges,
and a counterexample counts if its numbers are integers.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from certgcl.arguments import choice, numbers, real, shown
from certgcl.arguments import path as checked_path
from certgcl.attacks.field import Reach
from certgcl.bounds.two_layer.neighbourhood import row_slots
from certgcl.certify.certification import Question
from certgcl.changes.changes import BudgetLike
from certgcl.errors import EncoderError, InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.aggregations import Aggregation, Mean, SymmetricNorm
from certgcl.models.layer import Layer, Term
from certgcl.models.reading import ModelLike
from certgcl.models.smooth import ELU, GELU, SiLU, Softplus
from certgcl.models.two_piece import TwoPieceLinear
from certgcl.runtime.optional_packages import needing

if TYPE_CHECKING:
    import onnx

OPSET = 17
_SIMPLE = {"tanh": "Tanh", "sigmoid": "Sigmoid"}


class ExportedProblem(NamedTuple):
    """The files of a problem, and the edges that its inputs stand for, ``(2, inputs)``."""

    network: Path
    query: Path
    edges: torch.Tensor


def export_problem(
    model: ModelLike,
    graph: GraphLike,
    budgets: BudgetLike,
    node: Any,
    folder: str | Path,
    *,
    direction: torch.Tensor | None = None,
    at_least: float = 0.0,
    precision: str = "float32",
) -> ExportedProblem:
    """Write the question whether ``w · z`` of a node stays above a number, for other verifiers (needs onnx).

    ``node-N.onnx`` computes ``Y = w · z`` from the edges ``X``; ``node-N.vnnlib`` asks for an admissible X with ``Y <=
    at_least``. If there is none, no admissible drop lowers the node that far.

    Args:
        model, graph, budgets: as in :func:`certgcl.node_compactness`; only edges may change.
        node: by its number, or name.
        folder: created if needed.
        direction: w, ``(d,)``; that of node compactness by default.
        precision: of the network in the file, ``"float32"`` (which most verifiers ask for) or ``"float64"``.

    Example::

        problem = certgcl.export_problem(encoder, data, 2, node=7, folder="problem")
    """
    folder = checked_path(folder, "folder")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"folder={shown(folder)}", "files of a problem go into a folder", "Name another one")
    choice(precision, "precision", ("float32", "float64"))
    question = Question.compactness(model, graph, budgets, method="degree", view=None, dtype=torch.float64)
    if not question.changes.drops_only:
        raise InputError(
            "other changes than dropped edges",
            "an exported problem is about edges that are dropped",
            "Leave the other parts of the changes out",
        )
    anchor = int(question.anchors([node])[0])
    at_least = real(at_least, "at_least", math.isfinite, "it is a finite number", "Leave it out for 0")
    w = (
        question.directions[anchor, 0]
        if direction is None
        else numbers(
            direction, "direction", "it is a vector of numbers", "Leave it out for that of compactness"
        ).double()
    )
    if w.shape != (question.network.width,) or not bool(w.isfinite().all()):
        raise InputError(
            f"direction of shape {tuple(w.shape)}",
            f"it has a finite number for each of {question.network.width} outputs",
            "Leave it out",
        )
    field = _Field(question, anchor)
    if not field.edges.numel():
        raise InputError(
            f"node {anchor}, which no admissible drop can change",
            "a problem has at least one input",
            "Ask about another node, or with a larger budget",
        )
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"node-{anchor}.onnx", folder / f"node-{anchor}.vnnlib"
    with needing("interchange", "exporting a problem"):
        import onnx
    onnx.save(_Writer(question, field, np.dtype(precision)).model(anchor, w), files[0])
    files[1].write_text(_query(question, field, anchor, at_least, precision))
    return ExportedProblem(*files, field.edges)


class _Field:
    """The nodes that an anchor depends on, and the edges that matter to it and can be dropped."""

    def __init__(self, question: Question, anchor: int) -> None:
        graph, drops = question.graph, question.changes.drops
        distance = _distances(graph, anchor)
        self.nodes = (distance <= question.network.hops).nonzero()[:, 0]
        counted = torch.minimum(distance[graph.row], distance[graph.col]) <= Reach.of(question.network).counts
        chosen = (counted & drops.droppable & (graph.row < graph.col)).nonzero()[:, 0]
        self.edges = torch.stack([graph.row[chosen], graph.col[chosen]])
        variable = torch.full_like(graph.col, len(chosen))  # edges that stay: the constant one after all variables
        variable[chosen] = variable[graph.reverse[chosen]] = torch.arange(len(chosen))
        slots = row_slots(graph, self.nodes)
        place = torch.full_like(graph.degree, -1)
        place[self.nodes] = torch.arange(len(self.nodes))
        self.row, self.variable, self.col = place[graph.row[slots]], variable[slots], place[graph.col[slots]]

    def sums(self, slots: torch.Tensor) -> np.ndarray:
        """The matrix that adds up what some slots have at their rows."""
        return (torch.arange(len(self.nodes))[:, None] == self.row[slots]).numpy()


def _distances(graph: Graph, anchor: int) -> torch.Tensor:
    distance, far = torch.full_like(graph.degree, graph.num_nodes), graph.num_nodes
    distance[anchor], hop = 0, 0
    while bool((distance == hop).any()):
        around = graph.col[distance[graph.row] == hop]
        distance[around[distance[around] == far]] = hop = hop + 1
    return distance


class _Writer:
    """An ONNX graph, node by node; values that do not depend on the edges are constants of it."""

    def __init__(self, question: Question, field: _Field, dtype: np.dtype[Any]) -> None:
        import onnx

        self.onnx = onnx
        self.question, self.field, self.dtype = question, field, dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        kept = self.op(
            "Gather",
            self.op("Concat", "X", self.constant(np.ones(1)), axis=0),
            self.constant(field.variable.numpy(), np.int64),
        )
        self.left = self.op("MatMul", self.constant(field.sums(torch.arange(len(field.row)))), kept)
        inside = (field.col >= 0).nonzero()[:, 0]
        self.inside = self.constant(field.col[inside].numpy(), np.int64)
        self.sums = self.constant(field.sums(inside))
        self.kept = self.column(self.op("Gather", kept, self.constant(inside.numpy(), np.int64)))

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value), dtype=self.dtype if dtype is None else dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def column(self, values: str) -> str:
        return self.op("Unsqueeze", values, self.constant(np.array([1]), np.int64))

    def model(self, anchor: int, direction: torch.Tensor) -> "onnx.ModelProto":
        network, outputs = self.question.network, list[str]()
        for layer in network.layers:
            parts = [self.term(term, outputs) for term in layer.terms]
            total = self.constant(layer.bias.detach().numpy())
            for part in parts:
                total = self.op("Add", part, total)
            outputs.append(self.activated(layer, total))
        place = self.constant(np.array([int((self.field.nodes == anchor).nonzero()[0, 0])]), np.int64)
        rows = [self.op("Gather", outputs[number - 1], place) for number in network.readout]
        z = rows[0] if len(rows) == 1 else self.op("Concat", *rows, axis=1)
        product = self.op("MatMul", z, self.constant(direction.detach().numpy()[:, None]))
        shape = self.constant(np.array([1]), np.int64)
        self.nodes.append(self.onnx.helper.make_node("Reshape", [product, shape], ["Y"]))
        helper, kind = self.onnx.helper, self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        graph = helper.make_graph(
            self.nodes,
            f"node_{anchor}",
            [helper.make_tensor_value_info("X", kind, [self.field.edges.shape[1]])],
            [helper.make_tensor_value_info("Y", kind, [1])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        self.onnx.checker.check_model(model)
        return model

    def term(self, term: Term, outputs: list[str]) -> str:
        weight = term.weight.detach()
        if term.source == 0:
            x = self.question.graph.x[self.field.nodes]
            values = self.constant(term.project((x if x.layout == torch.strided else x.to_dense()).double()).numpy())
        else:
            values = self.op(
                "Mul" if weight.dim() == 1 else "MatMul", outputs[term.source - 1], self.constant(weight.numpy())
            )
        return self.mixed(term.aggregation, values) if term.aggregation.mixes else values

    def mixed(self, aggregation: Aggregation, values: str) -> str:
        """``own v_i + out Σ_{kept j} in v_j``. If a node has no neighbours left the sum is zero, whatever its scale: so
        the scale of one neighbour may be used."""
        loop = aggregation.loop if isinstance(aggregation, SymmetricNorm) else 0.0
        kind, other = ("Add", loop) if loop else ("Max", 1.0)
        count = self.op(kind, self.left, self.constant(other))
        scale = self.column(
            self.op("Reciprocal", self.op("Sqrt", count) if isinstance(aggregation, SymmetricNorm) else count)
        )
        counted = isinstance(aggregation, SymmetricNorm)
        sent = self.op("Gather", self.op("Mul", values, scale) if counted else values, self.inside, axis=0)
        total = self.op("MatMul", self.sums, self.op("Mul", sent, self.kept))
        if counted or isinstance(aggregation, Mean):
            total = self.op("Mul", total, scale)
        if not loop:
            return total
        own = self.op("Mul", self.op("Mul", scale, scale), self.constant(loop))
        return self.op("Add", total, self.op("Mul", own, values))

    def activated(self, layer: Layer, p: str) -> str:
        activation = layer.activation
        if activation is None or layer.linear:
            return p
        match activation:
            case TwoPieceLinear():
                slope = activation.slope.detach()
                return self.op("PRelu", p, self.constant(slope.numpy())) if bool(slope.any()) else self.op("Relu", p)
            case ELU():
                below = self.op("Elu", self.op("Min", p, self.constant(0.0)))  # ONNX's own alpha would be a float32
                return self.op("Add", self.op("Relu", p), self.op("Mul", below, self.constant(activation.alpha)))
            case GELU():
                normal = self.op("Add", self.op("Erf", self.op("Mul", p, self.constant(0.5**0.5))), self.constant(1.0))
                return self.op("Mul", self.op("Mul", p, normal), self.constant(0.5))
            case SiLU():
                return self.op("Mul", p, self.op("Sigmoid", p))
            case Softplus():
                scaled = self.op("Mul", p, self.constant(activation.beta))
                bent = self.op("Mul", self.op("Softplus", scaled), self.constant(1 / activation.beta))
                return self.op("Where", self.op("Greater", scaled, self.constant(activation.threshold)), p, bent)
        if activation.name in _SIMPLE:
            return self.op(_SIMPLE[activation.name], p)
        raise EncoderError(
            f"activation {activation.name!r}",
            "a problem is written with ONNX's own operators",
            "Use one of certgcl's activations",
        )


def _query(question: Question, field: _Field, anchor: int, at_least: float, precision: str) -> str:
    """VNN-LIB 2.0: is there an admissible X with Y at most this?"""
    drops, number = question.changes.drops, field.edges.shape[1]
    lines = [
        "(vnnlib-version <2.0>)",
        f"; w . z of node {anchor}; X is 1 where an edge is kept, 0 where it is dropped",
        *(f"; X[{place}]: edge {a}-{b}" for place, (a, b) in enumerate(field.edges.T.tolist())),
        "(declare-network N",
        f"  (declare-input X {precision} [{number}])",
        f"  (declare-output Y {precision} [1])",
        ")",
    ]
    lines += [f"(assert (and (>= X[{place}] 0.0) (<= X[{place}] 1.0)))" for place in range(number)]
    for node in torch.unique(field.edges).tolist():
        places = (field.edges == node).any(dim=0).nonzero()[:, 0].tolist()
        lines += _at_most(places, int(drops.local[node]))
    lines += _at_most(list(range(number)), drops.total)
    return "\n".join([*lines, f"(assert (<= Y[0] {at_least!r}))", ""])


def _at_most(places: list[int], most: int) -> list[str]:
    """A limit on how many of some edges are dropped."""
    if len(places) <= most:
        return []
    kept = f"X[{places[0]}]" if len(places) == 1 else f"(+ {' '.join(f'X[{place}]' for place in places)})"
    return [f"(assert (>= {kept} {float(len(places) - most)!r}))"]
