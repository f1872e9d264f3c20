"""A question about a graph on disk: every part of the anchors loads its neighbourhood, and no process loads the whole
graph.

The bound of an anchor depends on the nodes within K hops of it. A drop set of the whole graph that is admissible is, as
far as it concerns the edges of its halo, admissible there with the budgets that its nodes have in the whole graph. So a
bound on the halo is one on the graph. Only one quantity of the whole graph is needed: the sum of all unit embeddings,
for the directions of compactness. It takes one pass over all nodes in advance.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.bounds import BoundMethod, get_method
from certgcl.bounds.engine import engine_for
from certgcl.bounds.memory import default_limit
from certgcl.bounds.rounding.direction_error import (
    CompactnessDirections,
    embeddings_with_error,
    shared_error,
    unit_errors,
)
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.directions import SMALLEST_NORM
from certgcl.certify.question_arguments import precision_of
from certgcl.changes.changes import AdmissibleChanges, BudgetLike, Changes
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import InputError, OutOfMemoryError
from certgcl.executors import Executor, all_answers
from certgcl.graphs.halo import Halo
from certgcl.graphs.row_chunks import MAX_ELEMENTS
from certgcl.graphs.stored import StoredGraph
from certgcl.models.reading import ModelLike, Reading, read_network
from certgcl.runtime.arithmetic import one_thread, undisturbed
from certgcl.runtime.reproducible import PART

NODES_AT_A_TIME = 2048  # whose embeddings are summed; fixed, because the last digits of the sum depend on it
SHARE_OF_HALO = 0.5  # of the memory limit, for the halo itself


class UnitTotals(NamedTuple):
    """Sums over all nodes: of the unit embeddings, and of the contributions to the error of that sum, ``(d,)`` both."""

    units: Tensor
    errors: Tensor


@dataclass(frozen=True, eq=False)
class HaloQuestion(Question):
    """:class:`Question` about a :class:`StoredGraph`; ``graph`` is the one on disk, which is never kept in memory.

    Args:
        budget: that the drops of each halo come from.
        totals: once they are known, see :meth:`with_totals`.
    """

    stored: StoredGraph = field(kw_only=True)
    budget: EdgeDropBudget = field(kw_only=True)
    totals: UnitTotals | None = field(default=None, kw_only=True)

    @classmethod
    @undisturbed()
    def about(
        cls,
        model: ModelLike,
        stored: StoredGraph,
        budgets: BudgetLike,
        *,
        method: str | BoundMethod,
        dtype: torch.dtype,
        reading: Reading,
    ) -> "HaloQuestion":
        if stored.num_nodes < 2:
            raise InputError(f"a {stored!r}", "node compactness compares a node with others", "Give a larger graph")
        budget = Changes.of(budgets).drops_alone("a graph on disk")
        encoder = read_network(model, stored.halo(torch.zeros(1, dtype=torch.long), 1).graph, reading).copied()
        changes = AdmissibleChanges(drops_on_disk(budget, stored))
        return cls(
            encoder,
            precision_of(dtype),
            stored.mapped,
            changes,
            get_method(method),
            stored.mapped,
            stored=stored,
            budget=budget,
        )

    def with_totals(self, executor: Executor) -> "HaloQuestion":
        """The same with the sums over all nodes, some thousand at a time: each block exchanges two vectors."""
        parts = [
            (start, min(start + NODES_AT_A_TIME, self.stored.num_nodes))
            for start in range(0, self.stored.num_nodes, NODES_AT_A_TIME)
        ]
        found = all_answers(executor, _unit_totals, self.for_workers(), parts)
        units, errors = (torch.stack([one[place] for one in found]).sum(dim=0) for place in (0, 1))
        return self._like(replace(self, totals=UnitTotals(units, errors)))

    def made_reproducible(self) -> "HaloQuestion":
        made = super().made_reproducible()
        assert isinstance(made, HaloQuestion)
        return made

    def for_workers(self) -> "HaloQuestion":
        return self._like(replace(self, bound=self.bound.for_worker()))

    def _like(self, other: "HaloQuestion") -> "HaloQuestion":
        vars(other)["evidence"] = self.evidence
        return other

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("graph", "view", "changes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        graph = state["stored"].mapped
        super().__setstate__(state | {"graph": graph, "view": graph, "changes": None})

    def estimated_bytes(self, anchors: Tensor) -> int:
        """The whole memory limit: parts are cut to fit into it."""
        return PART

    @undisturbed()
    def certify(
        self, anchors: Tensor, memory_limit: int | None = None, progress: Callable[[int, int], object] | None = None
    ) -> Certificate:
        with engine_for(self.encoder, self.graph):  # by the whole graph, not by each halo
            return self._certify_by_halos(anchors, memory_limit, progress)

    def _certify_by_halos(
        self, anchors: Tensor, memory_limit: int | None, progress: Callable[[int, int], object] | None
    ) -> Certificate:
        limit = PART if self.reproducible else memory_limit or default_limit(anchors.device)
        waiting, certificates = [anchors], []
        while waiting:
            part = waiting.pop(0)
            asked = self._on_halo(part, limit)
            if asked is None:
                waiting[:0] = part.tensor_split(2)
                continue
            halo, question = asked
            certificates.append(self._in_the_whole(question.certify(halo.anchors, memory_limit), halo, part))
            if progress is not None:
                progress(sum(len(one.nodes) for one in certificates), len(anchors))
        return Certificate.joined(certificates)

    def _on_halo(self, anchors: Tensor, limit: int) -> tuple[Halo, Question] | None:
        """The question on the halo of some anchors; None if it takes too much memory and fewer anchors would take
        less."""
        try:
            halo = self.stored.halo(anchors, self.encoder.hops, int(SHARE_OF_HALO * limit))
        except OutOfMemoryError:
            if len(anchors) == 1:
                raise
            return None
        assert self.totals is not None
        graph, nodes = halo.graph.owned(), self.stored.num_nodes
        drops = self.budget.on_halo(halo)
        question = Question(
            self.encoder, self.dtype, graph, AdmissibleChanges(drops), self.bound, graph, reproducible=self.reproducible
        )
        with one_thread():
            embeddings, error = embeddings_with_error(self.encoder, graph)
        unit = _units(embeddings[halo.anchors])
        own, _ = unit_errors(embeddings[halo.anchors], error[halo.anchors], nodes)
        values, errors = torch.zeros_like(embeddings), torch.zeros_like(error)
        values[halo.anchors] = unit - (self.totals.units - unit) / (nodes - 1)
        errors[halo.anchors] = own
        vars(question).update(
            evidence=self.evidence,
            compactness_directions=CompactnessDirections(
                embeddings, values, errors, shared_error(self.totals.errors, nodes)
            ),
        )
        if len(anchors) > 1 and question.estimated_bytes(halo.anchors) > limit:
            return None
        return halo, question

    def _in_the_whole(self, certificate: Certificate, halo: Halo, anchors: Tensor) -> Certificate:
        """The same with the node numbers of the whole graph; its budgets are filled in when it is written, and until
        then placeholders hold the largest values."""
        total = self.stored.num_edges if self.budget.total is None else min(self.budget.total, self.stored.num_edges)
        witnesses, most = certificate.witnesses, anchors.new_full((1,), total).expand(self.stored.num_nodes)
        return replace(
            certificate,
            nodes=anchors,
            total_budget=total,
            local_budget=most,
            requested_budget=most,
            witnesses=None if witnesses is None else tuple(halo.nodes[witness] for witness in witnesses),
        )


def _units(embeddings: Tensor) -> Tensor:
    return functional.normalize(embeddings, dim=1, eps=SMALLEST_NORM)


def _unit_totals(question: HaloQuestion, part: tuple[int, int]) -> UnitTotals:
    """The task of a worker: the contribution of some nodes to the sums."""
    anchors = torch.arange(*part)
    halo = question.stored.halo(anchors, question.encoder.hops)
    with one_thread():
        embeddings, error = embeddings_with_error(question.encoder, halo.graph.owned())
    embeddings, error = embeddings[halo.anchors], error[halo.anchors]
    return UnitTotals(_units(embeddings).sum(dim=0), unit_errors(embeddings, error, question.stored.num_nodes)[1])


def drops_on_disk(budget: EdgeDropBudget, stored: StoredGraph) -> AdmissibleDrops:
    """:meth:`EdgeDropBudget.on` with rows read piece by piece: memory holds a few numbers for every node, and one byte
    for every slot."""
    rowptr, col = stored.mapped.rowptr, stored.mapped.col
    degree = rowptr.diff()
    total = stored.num_edges if budget.total is None else min(budget.total, stored.num_edges)
    requested = budget.at(torch.arange(len(degree)), degree)
    local, droppable = requested.clamp(max=total), torch.empty(len(col), dtype=torch.bool)
    while True:
        usable, start = torch.zeros_like(local), 0
        while start < len(local):
            stop = max(start + 1, int(torch.searchsorted(rowptr, rowptr[start] + MAX_ELEMENTS, right=True)) - 1)
            slots = slice(int(rowptr[start]), int(rowptr[stop]))
            row = torch.repeat_interleave(torch.arange(start, stop), degree[start:stop])
            droppable[slots] = (local[row] > 0) & (local[col[slots]] > 0)
            usable.index_add_(0, row, droppable[slots].long())
            start = stop
        tightened = local.minimum(usable)
        if torch.equal(tightened, local):
            return AdmissibleDrops(local, requested, total, droppable, usable)
        local = tightened
