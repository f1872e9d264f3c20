"""A question about every node of a graph, prepared once and answered for any of its nodes."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import BoundMethod, BoundResult, ChangeProblem, get_method
from certgcl.bounds.engine import engine_for
from certgcl.bounds.memory import default_limit, estimated_bytes, parts_that_fit
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.finite import check_finite
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_views.second_view import LINES, TwoViews
from certgcl.certify.certificate import Certificate
from certgcl.certify.directions import check_directions
from certgcl.certify.evidence import Evidence, dtype_name
from certgcl.certify.prepared_graph import PreparedGraph
from certgcl.certify.proof import ProofTrace, check_provable
from certgcl.certify.question_arguments import NodesLike, Views, byte_limit, check_anchors, check_views, precision_of
from certgcl.changes.changes import AdmissibleChanges, BudgetLike
from certgcl.errors import BoundError, GraphError, InputError, MethodError, OutOfMemoryError, WorkerError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike, Reading, read_network
from certgcl.runtime.arithmetic import check_arithmetic, one_thread, undisturbed
from certgcl.runtime.free_memory import gigabytes
from certgcl.runtime.logs import LOG
from certgcl.runtime.reproducible import PART, arithmetic, packed
from certgcl.runtime.tensor_cache import stamp

_ARITHMETIC = "arithmetic"  # of the process that sends a question


@dataclass(frozen=True, eq=False)
class Question:
    """How low ``w_i · z_i(S)`` can get: everything that is the same for all anchors i, computed when first needed.

    Args:
        encoder: as it was read, in the precision that it runs in.
        dtype: of the computation.
        changes: what may change: S.
        bound: the method.
        view: the view that gives ``W^CL`` if no directions are passed.
        given: ``(N, d)`` or ``(N, C, d)`` directions passed by the user.
        views: whether the second view is the given one, or any admissible view like the first.
        proof: whether the certificate records how lines were chosen, for proving it again.
        prepared: keeps what is built for graph and changes, if the user has one.
        reproducible: whether the answer is the same to the last bit in every process with the same
            :func:`~certgcl.runtime.reproducible.arithmetic`; set by :meth:`made_reproducible`.

    Build one with :meth:`compactness` or :meth:`linear`, which validate.
    """

    encoder: GraphNetwork
    dtype: torch.dtype
    graph: Graph
    changes: AdmissibleChanges
    bound: BoundMethod
    view: Graph
    given: Tensor | None = None
    views: Views = "one"
    proof: bool = False
    reproducible: bool = False
    prepared: PreparedGraph | None = None
    features: object = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", self._features())
        reason = self.bound.supports(self.encoder, self.changes)
        if reason is not None:
            raise MethodError(f"method {self.bound.name!r} for {self.encoder}", reason, "Use 'degree', the default")
        if self.proof:
            check_provable(self.bound, self.encoder)

    @classmethod
    @undisturbed()
    def compactness(
        cls,
        model: ModelLike,
        graph: GraphLike | PreparedGraph,
        budgets: BudgetLike | None,
        *,
        method: str | BoundMethod,
        view: GraphLike | None,
        dtype: torch.dtype,
        views: Views = "one",
        proof: bool = False,
        reading: Reading = "traced",
    ) -> "Question":
        """The question that :func:`certgcl.node_compactness` answers."""
        bound = get_method(method)
        check_views(views, view, bound)
        prepared = PreparedGraph.of(graph, budgets)
        graph = prepared.graph
        other = graph if view is None else graph.view(view).private()
        encoder = read_network(model, graph, reading, budgets=prepared.budgets).copied()
        dtype = precision_of(dtype)
        return cls(encoder, dtype, graph, prepared.changes, bound, other, views=views, proof=proof, prepared=prepared)

    @classmethod
    @undisturbed()
    def linear(
        cls,
        model: ModelLike,
        graph: GraphLike | PreparedGraph,
        budgets: BudgetLike | None,
        directions: Tensor,
        *,
        method: str | BoundMethod,
        dtype: torch.dtype,
        proof: bool = False,
        reading: Reading = "traced",
    ) -> "Question":
        """The question that :func:`certgcl.linear_bounds` answers."""
        prepared = PreparedGraph.of(graph, budgets)
        graph = prepared.graph
        encoder = read_network(model, graph, reading, budgets=prepared.budgets).copied()
        given = check_directions(directions, graph, encoder.to(precision_of(dtype)))
        bound = get_method(method)
        return cls(encoder, dtype, graph, prepared.changes, bound, graph, given, proof=proof, prepared=prepared)

    @cached_property
    def network(self) -> GraphNetwork:
        """The encoder in the dtype of the computation."""
        return self.encoder.to(self.dtype)

    @cached_property
    def embeddings(self) -> Tensor:
        """``Z`` on the graph as given, ``(N, d)``."""
        if self.given is None and self.view is self.graph:
            return self.compactness_directions.embeddings.to(self.dtype)
        with torch.no_grad():
            return self.network.embed(self.graph)

    @property
    def precision(self) -> str:
        """The precision that the encoder runs in."""
        return dtype_name(self.encoder.precision)

    @cached_property
    def evidence(self) -> Evidence:
        """What the certificate is about, with digests taken now."""
        return Evidence.of(self)

    @cached_property
    def trace(self) -> ProofTrace:
        """How lines are chosen, the same for all anchors."""
        return ProofTrace.of(self.bound, self.network, self.graph, self.changes.drops)

    @cached_property
    def directions(self) -> Tensor:
        """``w``, ``(N, C, d)``."""
        if self.given is not None:
            return self.given[:, None] if self.given.dim() == 2 else self.given
        return self.compactness_directions.values.to(self.dtype)[:, None]

    @cached_property
    def compactness_directions(self) -> CompactnessDirections:
        """``W^CL`` of the fixed view, with its error; in float64, because unit vectors may cancel."""
        wide = self.network if self.dtype == torch.float64 else self.encoder  # bounds use the same products
        return CompactnessDirections.of(wide, self.view)

    def _features(self) -> object:
        """The version of the features, as far as torch tracks it: unlike edges and weights, they are not copied."""
        tensors = [view.x for view in (self.graph, self.view) if not view.x.is_inference()]
        return stamp(*tensors)

    def anchors(self, nodes: NodesLike) -> Tensor:
        """``nodes`` as checked node numbers; all by default."""
        return check_anchors(nodes, self.graph)

    def made_reproducible(self) -> "Question":
        """The same, with an answer that is identical to the last bit in every process; see
        :mod:`certgcl.runtime.reproducible`."""
        device = self.graph.col.device
        if device.type != "cpu":
            raise InputError(
                f"reproducible=True for a graph on {device}",
                "sums on other devices have no fixed order",
                "Move it with graph.to('cpu')",
            )
        given = None if self.given is None else packed(self.given)
        return replace(
            self, encoder=self.encoder.mapped(packed), bound=self.bound.reproducible(), given=given, reproducible=True
        )

    def in_its_time(self, share: float) -> "Question":
        """The same with a share of a search's time limit; its evidence is that of the whole."""
        bound = self.bound.with_share_of_time(share)
        if bound is self.bound:
            return self
        timed = replace(self, bound=bound)
        vars(timed).update({name: value for name, value in vars(self).items() if name not in vars(timed)})
        vars(timed)["evidence"] = self.evidence
        return timed

    def estimated_bytes(self, anchors: Tensor) -> int:
        """About how much memory the bounds at some anchors take at a time."""
        problem = ChangeProblem(self.graph, self.changes, anchors)
        with engine_for(self.encoder, self.graph):
            return estimated_bytes(self.bound, self.network, problem, self.directions.shape[1])

    def for_workers(self) -> "Question":
        """The same, ready to be sent to other processes: what all anchors share is computed now and sent along."""
        sent = replace(self, bound=self.bound.for_worker())
        vars(sent).update(
            {
                name: getattr(self, name)
                for name in ("evidence", "embeddings", *(() if self.given is not None else ("compactness_directions",)))
            }
        )
        return sent

    def __getstate__(self) -> dict[str, Any]:
        computed = ("evidence", "embeddings", "compactness_directions")
        sent = [each.name for each in fields(self) if each.init and each.name != "prepared"]
        return (
            {name: getattr(self, name) for name in sent}
            | {name: vars(self)[name] for name in computed if name in vars(self)}
            | {_ARITHMETIC: arithmetic() if self.reproducible else None}
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        sent_from = state.pop(_ARITHMETIC)
        if sent_from is not None and sent_from != arithmetic():
            raise WorkerError(
                f"a worker whose sums have other last digits ({arithmetic()} there, {sent_from} here)",
                "a reproducible result is the same whichever worker computes it",
                "Use machines of one kind, with the same versions and settings, or leave reproducible out",
            )
        vars(self).update(state, prepared=None)
        for graph in (self.graph, self.view):
            graph.owned()
        vars(self)["features"] = self._features()

    @undisturbed()
    def certify(
        self, anchors: Tensor, memory_limit: int | None = None, progress: Callable[[int, int], object] | None = None
    ) -> Certificate:
        """The bounds at some anchors, in as many parts as the memory limit (in bytes) requires.

        Args:
            progress: called after each part with the numbers of anchors that are done and of all.
        """
        check_arithmetic(self.dtype)
        if self.features != self._features():
            raise GraphError(
                "features that were modified while they were being certified",
                "all parts of a certificate must be computed from the same features",
                "Pass a copy of them",
            )
        with engine_for(self.encoder, self.graph):
            if self.reproducible:
                with one_thread():
                    return self._certify_in_fixed_parts(
                        anchors, None if memory_limit is None else byte_limit(memory_limit)
                    )
            return self._certify_in_parts(anchors, memory_limit, progress)

    def _certify_in_parts(
        self, anchors: Tensor, memory_limit: int | None, progress: Callable[[int, int], object] | None
    ) -> Certificate:
        limit = default_limit(anchors.device) if memory_limit is None else byte_limit(memory_limit)
        evidence = self.evidence  # before the computation, of the values it starts from
        problem = self._problem(anchors.contiguous(), limit)
        second, number = None, self.directions.shape[1]
        if self.views == "both":
            second, number = TwoViews.of(self.bound, self.network, self.graph, self.changes, limit), LINES
        parts = parts_that_fit(self.bound, self.network, problem, number, limit)
        if len(parts) == 1 or not self.bound.splits:
            return self._certify(problem, second, evidence)
        problem.release()
        certificates, done = [], 0
        for places in parts:
            certificates.append(
                self._certify(ChangeProblem(self.graph, self.changes, anchors[places], limit), second, evidence)
            )
            done += len(places)
            LOG.debug("%d of %d nodes certified", done, len(anchors))
            if progress is not None:
                progress(done, len(anchors))
        return Certificate.joined(certificates).at(torch.argsort(torch.cat(parts)))

    def _problem(self, anchors: Tensor, limit: int) -> ChangeProblem:
        if self.prepared is None:
            return ChangeProblem(self.graph, self.changes, anchors, limit)
        return self.prepared.problem(anchors, limit)

    def _certify_in_fixed_parts(self, anchors: Tensor, memory_limit: int | None) -> Certificate:
        """The same in parts that depend on the question and the anchors alone; a limit that cannot be kept raises an
        error."""
        evidence = self.evidence
        limit = None if memory_limit is None else byte_limit(memory_limit)

        def problem(places: Tensor | slice) -> ChangeProblem:  # not one that is kept, and without a limit
            return ChangeProblem(self.graph, self.changes, anchors[places].contiguous())

        number = LINES if self.views == "both" else self.directions.shape[1]
        second = TwoViews.of(self.bound, self.network, self.graph, self.changes, PART) if self.views == "both" else None
        parts = parts_that_fit(self.bound, self.network, problem(slice(None)), number, PART)
        if not self.bound.splits:
            parts = [torch.arange(len(anchors), device=anchors.device)]
        certificates = []
        for part in map(problem, parts):
            needed = estimated_bytes(self.bound, self.network, part, number)
            if limit is not None and needed > limit:
                raise OutOfMemoryError(
                    f"{len(part.anchors)} nodes that take about {gigabytes(needed)}",
                    f"memory_limit={limit} is less, and a reproducible result cannot be split further",
                    "Pass more shards=, or a larger limit",
                )
            certificates.append(self._certify(part, second, evidence))
        return Certificate.joined(certificates).at(torch.argsort(torch.cat(parts)))

    def _certify(self, problem: ChangeProblem, second: TwoViews | None, evidence: Evidence) -> Certificate:
        """The bounds at the anchors of a problem, checked before they become a certificate."""
        network, directions, bound, anchors = self.network, self.directions, self.bound, problem.anchors
        name = bound.name
        if second is not None:
            lower, rounding, run_error = second.bound(bound, self.encoder, problem, self.dtype)
            found, name = BoundResult(lower), f"{name}, both views"
        else:
            rounding, run_error = self._slack(problem)
            if not bound.splits:
                check_finite(anchors, rounding)  # covers the largest of all sums, so that no drop overflows
            found = bound.solve(network, problem, directions)
        problem.release()
        chosen = problem.at_anchors(directions)
        clean = problem.at_anchors(self.embeddings)
        nominal = (chosen @ clean[..., None])[..., 0]
        norms = torch.linalg.vector_norm(clean, dim=1, dtype=torch.float64).to(self.dtype)
        # Where sizes overflow, an error may be infinity times zero, and then nothing is known about it.
        rounding, run_error = (
            torch.nan_to_num(error, nan=torch.inf, posinf=torch.inf) for error in (rounding, run_error)
        )
        lower, upper = found.lower, found.upper
        _check(lower, nominal, rounding, anchors, bound)
        if self.given is None or self.given.dim() == 2:
            lower, nominal, rounding, run_error, chosen = (
                values[:, 0] for values in (lower, nominal, rounding, run_error, chosen)
            )
            upper = None if upper is None else upper[:, 0]
        drops, features = self.changes.drops, self.changes.features
        # Copies of what the problem keeps: the user may modify a certificate.
        return Certificate(
            nodes=anchors.clone(),
            lower=lower,
            nominal=nominal,
            rounding=rounding,
            run_error=run_error,
            method=name,
            certified=bound.certified,
            local_budget=drops.local.clone(),
            requested_budget=drops.requested.clone(),
            total_budget=drops.total,
            directions=chosen,
            precision=self.precision,
            reading=self.encoder.reading,
            evidence=evidence,
            upper=upper,
            witnesses=found.witnesses,
            names=self.graph.names,
            norms=norms,
            features=None if features is None else features.private(),
            changed=found.changed,
            additions=None if self.changes.additions is None else self.changes.additions.private(),
            added=found.added,
            proof=self.trace if self.proof else None,
        )

    def _slack(self, problem: ChangeProblem) -> tuple[Tensor, Tensor]:
        """How far rounding can have put the bounds above the truth, and how far a run of the model can fall below it:
        ``(A, C)`` both."""
        sizes = Sizes.of(self.encoder, problem, self.dtype, branches=not self.bound.splits)
        directions = problem.at_anchors(self.directions)
        if self.given is not None:
            return sizes.bound_slack(directions), sizes.run_error(directions)
        moved = problem.at_anchors(self.compactness_directions.own), self.compactness_directions.shared
        rounding = sizes.bound_slack(directions) + sizes.direction_slack(*moved)
        return rounding.to(self.dtype), sizes.run_error(directions, *moved).to(self.dtype)


def _check(lower: Tensor, nominal: Tensor, rounding: Tensor, anchors: Tensor, bound: BoundMethod) -> None:
    check_finite(anchors, lower, nominal)
    crossed = (lower > nominal + rounding).any(dim=1) & bound.certified
    if bool(crossed.any()):
        raise BoundError(
            f"a lower bound above the clean value at node {int(anchors[crossed][0])}",
            "a lower bound cannot exceed a value that it bounds",
            "Please report this graph and encoder",
        )
