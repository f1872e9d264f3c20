"""The two questions about whole graphs: the worst case of any direction, and the worst-case compactness of every
graph."""

import torch
from torch import Tensor

from certgcl.bounds import BoundMethod
from certgcl.certify.pooling.certificate import GraphCertificate
from certgcl.certify.pooling.graph_set import GraphsLike
from certgcl.certify.pooling.question import GraphQuestion
from certgcl.certify.pooling.slack import pooled_directions
from certgcl.changes.changes import BudgetLike
from certgcl.errors import GraphError
from certgcl.models.pooled_network import Pool
from certgcl.models.reading import ModelLike
from certgcl.runtime.out_of_memory import told_when_out_of_memory


@told_when_out_of_memory()
def graph_bounds(
    model: ModelLike,
    graphs: GraphsLike,
    budgets: BudgetLike,
    directions: Tensor,
    *,
    pool: Pool | None = None,
    method: str | BoundMethod = "degree",
    dtype: torch.dtype = torch.float64,
    enumerate_up_to: int = 1024,
    time_limit: float | None = None,
) -> GraphCertificate:
    """Certified lower bounds of ``w · z_g`` of whole graphs, over every admissible change of each graph.

    ``z_g`` is the pooled embedding of graph g. All its nodes face the *same* change, so the worst cases of single nodes
    need not occur together: see ``docs/theory.md``, section 19. Graphs with few admissible changes are enumerated,
    which is exact.

    Args:
        model: an encoder of nodes, called as ``model(x, edge_index)``, with ``pool=``; or a module called as
            ``model(x, edge_index, batch)`` that pools by ``global_mean_pool``, ``global_add_pool`` or
            ``global_max_pool`` itself, with linear layers after that at most.
        graphs: a list of PyG ``Data``, ``Graph`` or networkx graphs, a PyG ``Batch`` or a dataset.
        budgets: for each graph separately: an :class:`EdgeDropBudget`, whose total is that of a graph, an int (edges at
            each node), a float (a drop rate), or :class:`Changes` with added or flipped edges and features too.
        directions: one per graph ``(G, d)``, or C per graph ``(G, C, d)``; d is the width of the model's output.
        pool: ``"mean"``, ``"sum"`` or ``"max"`` for a model of nodes; None for a model that pools.
        method: what bounds single nodes; see :func:`node_compactness`.
        dtype: precision of the computation.
        enumerate_up_to: graphs with at most this many changes are enumerated; 0 for none.
        time_limit: of each linear program that shares changes among nodes, in seconds. A program that is not solved by
            then only costs tightness.

    Example::

        import torch

        graphs = certgcl.load_dataset("cycles-and-trees")[:4]
        encoder = certgcl.GCNEncoder(graphs[0].num_features, 8, 4).eval()
        print(certgcl.graph_bounds(encoder, graphs, 1, torch.ones(4, 4), pool="mean"))
    """
    question = GraphQuestion.of(model, graphs, budgets, pool, method, dtype, enumerate_up_to, time_limit)
    return question.answer(question.directions(directions))


@told_when_out_of_memory()
def graph_compactness(
    model: ModelLike,
    graphs: GraphsLike,
    budgets: BudgetLike,
    *,
    pool: Pool | None = None,
    method: str | BoundMethod = "degree",
    dtype: torch.dtype = torch.float64,
    enumerate_up_to: int = 1024,
    time_limit: float | None = None,
) -> GraphCertificate:
    """Certified lower bounds of the compactness of graphs: ``W_g · z_g >= lower_g`` for every admissible change.

    ``W_g`` is the unit vector of the graph's own pooled embedding minus the mean of the others', all from the graphs as
    given. A bound above ``rounding`` proves: every admissible view of g is more similar to g itself than, on average,
    to the other graphs.

    Args are those of :func:`graph_bounds`.

    Example::

        graphs = certgcl.load_dataset("cycles-and-trees")[:4]
        encoder = certgcl.GCNEncoder(graphs[0].num_features, 8, 4).eval()
        print(certgcl.graph_compactness(encoder, graphs, certgcl.EdgeDropBudget(total=2), pool="mean"))
    """
    question = GraphQuestion.of(model, graphs, budgets, pool, method, dtype, enumerate_up_to, time_limit)
    if len(question.graphs) < 2:
        raise GraphError("one graph", "compactness compares a graph with others", "Give two graphs or more")
    found = pooled_directions(question.model, question.graphs, question.graphs.union)
    return question.answer(found.values.to(dtype), found)
