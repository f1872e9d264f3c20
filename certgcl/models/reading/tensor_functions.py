"""The other functions of tensors that a forward may call: sums, products, concatenation, dropout, self-loops, sizes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from certgcl.models.layers.activations import EVAL
from certgcl.models.layers.formula import BatchVector, Edges, Pooled, Position, Softmax
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import plain_tensor
from certgcl.models.pooled_network import Pool
from certgcl.models.reading.arithmetic import combine, concatenated, product, values_of
from certgcl.models.reading.iteration import iterate
from certgcl.models.reading.refusals import POOL, POOLED, refusal
from certgcl.models.reading.values import Opaque, Symbol

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer


# -- sums and products -----------------------------------------------------------------------------


def add(tracer: "Tracer", place: Position, input: Any, other: Any, alpha: Any = 1) -> Symbol:
    return _combined(tracer, "+", input, _only(other, alpha, place), place)


def subtract(tracer: "Tracer", place: Position, input: Any, other: Any, alpha: Any = 1) -> Symbol:
    return _combined(tracer, "-", input, _only(other, alpha, place), place)


def multiply(tracer: "Tracer", place: Position, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "*", input, other, place)


def divide(tracer: "Tracer", place: Position, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "/", input, other, place)


def matmul(tracer: "Tracer", place: Position, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "@", input, other, place)


def linear(tracer: "Tracer", place: Position, input: Any, weight: Any, bias: Any = None) -> Symbol:
    matrix = plain_tensor(weight, place.text)
    return Symbol(product(tracer, values_of(input, place), matrix.T, bias, place))


def concatenation(tracer: "Tracer", place: Position, tensors: Any, dim: Any = 0) -> Symbol:
    return Symbol(concatenated(tuple(iterate(tensors, place)), dim, place))


def _only(other: Any, alpha: Any, place: Position) -> Any:
    if type(alpha) is not int or alpha != 1:
        raise refusal(f"alpha={alpha!r}", place, remedy="Write the product out")
    return other


def _combined(tracer: "Tracer", name: str, left: Any, right: Any, place: Position) -> Symbol:
    if type(left) is not Symbol and type(right) is not Symbol:
        raise tracer.unknown(name, [left, right], place)
    return Symbol(combine(tracer, name, left, right, place))


# -- class scores ----------------------------------------------------------------------------------


def softmax(
    tracer: "Tracer", place: Position, input: Any, dim: Any = None, _stacklevel: Any = None, dtype: Any = None
) -> Symbol:
    return _softmax(False, place, input, dim, dtype)


def log_softmax(
    tracer: "Tracer", place: Position, input: Any, dim: Any = None, _stacklevel: Any = None, dtype: Any = None
) -> Symbol:
    return _softmax(True, place, input, dim, dtype)


def tensor_softmax(tracer: "Tracer", place: Position, input: Any, dim: Any, dtype: Any = None) -> Symbol:
    return _softmax(False, place, input, dim, dtype)


def tensor_log_softmax(tracer: "Tracer", place: Position, input: Any, dim: Any, dtype: Any = None) -> Symbol:
    return _softmax(True, place, input, dim, dtype)


def _softmax(log: bool, place: Position, input: Any, dim: Any, dtype: Any) -> Symbol:
    if type(dim) is not int or dim not in (1, -1) or dtype is not None:
        raise refusal(
            f"a softmax along dim={dim!r} with dtype={dtype!r}",
            place,
            "classes are the channels of a node, in the precision of the model",
            "Use dim=-1 alone",
        )
    return Symbol(Softmax(values_of(input, place, "a softmax"), log, place))


# -- dropout ---------------------------------------------------------------------------------------


def dropout(
    tracer: "Tracer", place: Position, input: Any, p: Any = 0.5, training: Any = True, inplace: Any = False
) -> Any:
    """Outside training it returns the tensor itself."""
    if type(training) is not bool or not is_a(p, int, float):
        raise refusal("a dropout with settings that are not numbers", place)
    if training and p != 0:
        raise refusal(
            "dropout in training mode",
            place,
            "a model must not be random",
            f"{EVAL}; a functional dropout needs training=self.training",
        )
    return input


def feature_dropout(
    tracer: "Tracer", place: Position, input: Any, p: Any = 0.5, training: Any = False, inplace: Any = False
) -> Any:
    return dropout(tracer, place, input, p, training)


def edge_dropout(
    tracer: "Tracer",
    place: Position,
    edge_index: Any,
    p: Any = 0.5,
    force_undirected: Any = False,
    training: Any = True,
) -> tuple[Any, Opaque]:
    if type(force_undirected) is not bool:
        raise refusal("a dropout of edges that is undirected or not", place)
    return dropout(tracer, place, edge_index, p, training), Opaque(place.text)


# -- edges and shapes ------------------------------------------------------------------------------


def loops(
    tracer: "Tracer",
    place: Position,
    edge_index: Any,
    edge_attr: Any = None,
    fill_value: Any = None,
    num_nodes: Any = None,
) -> tuple[Symbol, None]:
    """A ``GCNConv`` removes all self-loops before it adds its own, so any self-loops are equivalent."""
    if type(edge_index) is not Symbol or not isinstance(edge_index.node, Edges) or edge_attr is not None:
        raise refusal("self-loops with weights, or of other edges", place)
    return Symbol(Edges(looped=True)), None


def pooling(pool: Pool) -> Callable[..., Symbol]:
    """Pools rows of nodes to rows of graphs, by the ``batch`` that the model is given."""

    def pooled(tracer: "Tracer", place: Position, x: Any, batch: Any, size: Any = None) -> Symbol:
        source = values_of(x, place, "pooling")
        if type(batch) is not Symbol or not isinstance(batch.node, BatchVector) or size is not None:
            raise refusal(
                "pooling by something other than the batch that the model is given, or with a size", place, POOLED, POOL
            )
        return Symbol(Pooled(source.width, source, pool, place))

    return pooled


def measure(tracer: "Tracer", place: Position, input: Any, *which: Any) -> Opaque:
    return Opaque(place.text)


def is_scripting(tracer: "Tracer", place: Position) -> bool:
    return False
