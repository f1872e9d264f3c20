"""The two questions a user asks: the worst-case compactness of every node, and the worst case of any direction."""

import time
from dataclasses import replace

import torch
from torch import Tensor

from certgcl.arguments import flag
from certgcl.bounds import BoundMethod, BranchAndBound, get_method
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.directions import compactness_directions
from certgcl.certify.prepared_graph import PreparedGraph
from certgcl.certify.question_arguments import NodesLike, Views
from certgcl.changes.changes import BudgetLike
from certgcl.graphs.graph import GraphLike
from certgcl.models.reading import ModelLike, Reading
from certgcl.runtime.logs import LOG
from certgcl.runtime.out_of_memory import told_when_out_of_memory
from certgcl.runtime.progress_bar import Bar

__all__ = ["compactness_directions", "linear_bounds", "node_compactness"]


@told_when_out_of_memory()
def node_compactness(
    model: ModelLike,
    graph: GraphLike | PreparedGraph,
    budgets: BudgetLike | None = None,
    *,
    method: str | BoundMethod = "degree",
    view: GraphLike | None = None,
    views: Views = "one",
    nodes: NodesLike = None,
    dtype: torch.dtype = torch.float64,
    time_limit: float | None = None,
    branch_limit: int | None = None,
    tolerance: float | None = None,
    memory_limit: int | None = None,
    reading: Reading = "traced",
    proof: bool = False,
    progress: bool = False,
) -> Certificate:
    """Certified lower bounds of node compactness: ``W^CL_i · z_i(S) >= lower_i`` for every admissible drop set S.

    A bound above the certificate's ``rounding`` proves: in every view of ``graph`` that the budget allows, the node is
    closer to its own positive (its embedding in ``view``) than to the other nodes on average.

    Args:
        model: a trained method, a module called as ``model(x, edge_index)``, or a ``GraphNetwork``; see
            :func:`certgcl.read_network` for what can be read.
        graph: the graph that may change: anything that :meth:`certgcl.Graph.of` accepts; or a :class:`PreparedGraph`.
        budgets: what may change: an int (edges dropped at each node), a float (a drop rate), an
            :class:`EdgeDropBudget` or :class:`Changes`; None with a :class:`PreparedGraph`, which has them.
        method: ``"degree"`` (default), ``"degree-fast"``, ``"degree-cheap"``, ``"crown"``, ``"interval"``; or
            ``"optimized"`` and ``"exact"``, which search: tighter, slower, with ``upper`` and witnesses (for workers
            and progress pass a :class:`certgcl.bounds.BranchAndBound`); or
            ``"paper"``, ``"released"``, which are not bounds; or an instance from :mod:`certgcl.bounds`.
        view: the fixed second view that gives ``W^CL``; the graph itself by default.
        views: ``"both"`` lets the second view drop edges too, any that the budget allows: the paper's Definition 1,
            ``W^CL_i(S2) · z_i(S1) >= lower_i`` for every pair of admissible drop sets. It is never above the value for
            a fixed admissible view, much harder to bound, and takes many times as long, as all nodes are needed.
        nodes: the anchors to bound, by number, by name if the graph has names, or a mask; all by default. The cost
            grows with the number of edges within the model's reach of them.
        dtype: precision of the computation.
        time_limit: of a search, in seconds for all nodes together; what it has found by then is returned.
        branch_limit: of a search, the branches of each node that it bounds; 128 for ``"optimized"``, none for
            ``"exact"``.
        tolerance: of a search, which ends for a node when its bracket is narrower than this share of its value; 1e-9.
        memory_limit: about how many bytes the computation may take; three quarters of what is free by default.
            Anchors are bounded in as many parts as that requires.
        reading: how the model is read: ``"traced"`` proves what it computes from its source; ``"probed"`` measures a
            model that cannot be traced, which proves nothing about it. See :func:`certgcl.read_network`.
        proof: record in the certificate how lines were chosen, for ``certgcl verify --proof``, which proves the bounds
            again with a program that uses nothing from this library.
        progress: show a bar on stderr if it takes longer than a moment.

    Example::

        certificate = certgcl.node_compactness(encoder, data, budgets=2)
        print(certificate)
    """
    with _Progress(flag(progress, "progress")) as bar:
        bound = get_method(method, time_limit=time_limit, branch_limit=branch_limit, tolerance=tolerance)
        if isinstance(bound, BranchAndBound) and bound.progress is None and progress:
            bound = replace(bound, progress=bar)
        question = Question.compactness(
            model,
            graph,
            budgets,
            method=bound,
            view=view,
            dtype=dtype,
            views=views,
            proof=flag(proof, "proof"),
            reading=reading,
        )
        return _answered(question, nodes, memory_limit, bar)


@told_when_out_of_memory()
def linear_bounds(
    model: ModelLike,
    graph: GraphLike | PreparedGraph,
    budgets: BudgetLike | None,
    directions: Tensor,
    *,
    method: str | BoundMethod = "degree",
    nodes: NodesLike = None,
    dtype: torch.dtype = torch.float64,
    memory_limit: int | None = None,
    reading: Reading = "traced",
    proof: bool = False,
    progress: bool = False,
) -> Certificate:
    """Certified lower bounds of ``w · z_i(S)`` for directions of your own, over every admissible drop set S.

    With a model that ends in class scores, ``w = e_y - e_c`` for each other class c bounds the margins of a
    prediction; with embeddings and a linear classifier, ``w`` is the difference of two of its weight vectors (add the
    difference of their biases to the bound).

    Args:
        directions: one per node ``(N, d)``, or C per node ``(N, C, d)``. Other arguments as in
            :func:`node_compactness`.
    """
    with _Progress(flag(progress, "progress")) as bar:
        question = Question.linear(
            model, graph, budgets, directions, method=method, dtype=dtype, proof=flag(proof, "proof"), reading=reading
        )
        return _answered(question, nodes, memory_limit, bar)


class _Progress(Bar):
    """A progress bar for nodes that are certified, or closed by a search."""

    def __init__(self, shown: bool) -> None:
        super().__init__("certifying", shown)

    def __call__(self, done: int, whole: int) -> None:
        self.show(done, whole, f"{done:,}/{whole:,} nodes")


def _answered(question: Question, nodes: NodesLike, memory_limit: int | None, bar: _Progress) -> Certificate:
    """The certificate of some nodes, with a line in the log."""
    anchors, start = question.anchors(nodes), time.monotonic()
    certificate = question.certify(anchors, memory_limit, bar)
    LOG.info("%d nodes certified by %s in %.2f s", len(anchors), certificate.method, time.monotonic() - start)
    return certificate
