"""Which implementation computes a bound: compiled kernels, or torch if they are not worth compiling."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from certgcl.bounds import compiled
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.runtime.arithmetic import one_thread


@contextmanager
def engine_for(network: GraphNetwork, graph: Graph) -> Iterator[None]:
    """In this context, all bounds of a network on a graph use the same implementation.

    The choice depends on the whole graph and the network only, not on the anchors or the memory: all shards of a
    certificate and all steps of a training run use the same arithmetic. Small work takes one thread: it consists of
    many short operations, and threads that wait for each other between them cost more than they save.
    """
    values = graph.col.numel() * sum(layer.width for layer in network.layers)
    with compiled.for_work(values) as small, one_thread() if small else nullcontext():
        yield
