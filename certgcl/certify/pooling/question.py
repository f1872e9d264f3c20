"""A question about each of several graphs: everything that does not depend on directions, and how it is answered."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import torch
from torch import Tensor, nn

from certgcl.arguments import FLOATS, INTEGERS, choice, numbers, real, whole
from certgcl.bounds import BoundMethod, ChangeProblem, get_method
from certgcl.bounds.engine import engine_for
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.evidence import dtype_name
from certgcl.certify.pooling.certificate import GraphCertificate
from certgcl.certify.pooling.change_sets import GraphChangeSets, Witness
from certgcl.certify.pooling.evidence import evidence_of
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike
from certgcl.certify.pooling.pooled_bounds import GraphBounds, change_sets
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.slack import PooledSizes
from certgcl.certify.question_arguments import precision_of
from certgcl.changes.changes import BudgetLike
from certgcl.errors import BoundError, DirectionError, MethodError
from certgcl.models.pooled_network import Pool, PooledNetwork
from certgcl.models.reading import ModelLike, read_network
from certgcl.models.reading.pooling import read_pooled_network
from certgcl.runtime.arithmetic import check_arithmetic, undisturbed


@dataclass(frozen=True, eq=False)
class GraphQuestion:
    """How low ``w · z_g`` can get: everything that does not depend on the directions.

    Args:
        model: in the precision that it runs in.
    """

    model: PooledNetwork
    graphs: GraphSet
    changes: SetChanges
    bound: BoundMethod
    dtype: torch.dtype
    enumerate_up_to: int
    time_limit: float | None

    @classmethod
    @undisturbed()
    def of(
        cls,
        model: ModelLike,
        graphs: GraphsLike,
        budgets: BudgetLike,
        pool: Pool | None,
        method: str | BoundMethod,
        dtype: torch.dtype,
        enumerate_up_to: int,
        time_limit: float | None,
    ) -> "GraphQuestion":
        bound = get_method(method)
        if not bound.certified:
            raise MethodError(f"method {bound.name!r}", "it proves nothing", "Use 'degree', the default")
        limit = (
            None
            if time_limit is None
            else real(
                time_limit,
                "time_limit",
                lambda given: 0 < given < float("inf"),
                "it is a positive number of seconds",
                "Leave it out for none",
            )
        )
        most = whole(
            enumerate_up_to, "enumerate_up_to", 0, "it is a number of changes, 0 for none", "Try 1024", most=1 << 20
        )
        check_arithmetic(precision_of(dtype))
        several = GraphSet.of(graphs)
        read = read_graphs_model(model, several, pool)
        changes = SetChanges.of(several, budgets)
        reason = bound.supports(read.network, changes.limited_to(int(changes.most_edges.max())))
        if reason is not None:
            raise MethodError(f"method {bound.name!r} for {read.network}", reason, "Use 'degree', the default")
        return cls(read.copied(), several, changes, bound, dtype, most, limit)

    @cached_property
    def network(self) -> PooledNetwork:
        """The model in the dtype of the computation."""
        return self.model.to(self.dtype)

    def directions(self, given: Any) -> Tensor:
        """``(G, d)`` or ``(G, C, d)`` directions of the user, in the dtype and on the device of the computation."""
        found = numbers(given, "directions", "they must be numbers", "Pass a tensor or an array", error=DirectionError)
        if found.dtype not in INTEGERS and found.dtype not in FLOATS:
            raise DirectionError(f"directions of dtype {found.dtype}", "they must be real numbers", "Pass floats")
        graphs, width = len(self.graphs), self.model.width
        if found.dim() not in (2, 3) or found.shape[0] != graphs or found.shape[-1] != width or not found.numel():
            raise DirectionError(
                f"directions of shape {tuple(found.shape)}",
                f"they must be ({graphs}, {width}) or ({graphs}, C, {width})",
                "Give every graph its direction(s), with as many entries as the model has outputs",
            )
        found = found.detach().to(self.graphs.union.x.device, self.dtype)
        broken = (~torch.isfinite(found)).flatten(1).any(dim=1)
        if bool(broken.any()):
            raise DirectionError(
                f"a NaN or infinite direction at graph {int(broken.nonzero()[0, 0])}",
                "directions must be finite",
                "Fix or drop it",
            )
        return found

    @undisturbed()
    @torch.no_grad()
    def answer(self, given: Tensor, moved: CompactnessDirections | None = None) -> GraphCertificate:
        directions = given[:, None] if given.dim() == 2 else given
        evidence = evidence_of(self, None if moved is not None else given)  # of the values it begins with
        graphs, union = self.graphs, self.graphs.union
        nominal = (directions @ self.network.embed(union, graphs.batch)[..., None])[..., 0].double()
        everyone = torch.arange(union.num_nodes, device=union.col.device)
        allowed = self.changes.limited_to(int(self.changes.most_edges.max()))
        problem = ChangeProblem(union, allowed, everyone)
        of_nodes = Sizes.of(self.model.network, problem, self.dtype, branches=not self.bound.splits)
        sizes = PooledSizes.of(self.model, graphs, of_nodes, self.dtype)
        enumerated, upper, witnesses = self._searched(directions)
        lower, lifted = upper.clone(), torch.zeros_like(upper)
        with engine_for(self.model.network, union):
            for rest in self._parts(~enumerated):
                bounds = self._bounds(rest.tolist(), of_nodes.output)
                lower[rest], lifted[rest] = bounds.lower(directions[rest])
        rounding = sizes.slack(directions.double(), lifted)
        run_error = sizes.run_error(directions.double())
        if moved is not None:
            more = sizes.moved(moved.own, moved.shared)
            rounding, run_error = rounding + more[0], run_error + more[1]
        rounding, run_error = (
            torch.nan_to_num(error, nan=torch.inf, posinf=torch.inf) for error in (rounding, run_error)
        )
        _check(lower, nominal, rounding)
        lower = lower.minimum(nominal).minimum(upper)  # which are reached
        if given.dim() == 2:
            lower, nominal, rounding, run_error, upper = (
                values[:, 0] for values in (lower, nominal, rounding, run_error, upper)
            )
        return GraphCertificate(
            lower=lower,
            nominal=nominal,
            rounding=rounding,
            run_error=run_error,
            upper=upper,
            witnesses=tuple(tuple(found.dropped for found in each) for each in witnesses),
            enumerated=enumerated,
            directions=given.clone(),
            most_dropped=self.changes.most_dropped.clone(),
            sizes=graphs.sizes.clone(),
            local_budget=self.changes.drops.local.clone(),
            requested_budget=self.changes.drops.requested.clone(),
            total_budget=self.changes.totals.clone(),
            method=self.bound.name,
            pool=self.model.pool,
            precision=dtype_name(self.model.network.precision),
            reading=self.model.network.reading,
            evidence=evidence,
            features=self.changes.each_feature,
            changed=None
            if self.changes.each_feature is None
            else tuple(tuple(found.changed for found in each) for each in witnesses),
            additions=self.changes.each_addition,
            added=None
            if self.changes.each_addition is None
            else tuple(tuple(found.added for found in each) for each in witnesses),
        )

    def _searched(self, directions: Tensor) -> tuple[Tensor, Tensor, list[tuple[Witness, ...]]]:
        """Whether all changes of each graph were tried, the least value that was found, and the change that attains
        it."""
        enumerated, upper, witnesses = [], [], []
        for sets, wanted in zip(self._sets, directions, strict=True):
            enumerated.append(sets.number <= self.enumerate_up_to)
            found = sets.enumerated(wanted) if enumerated[-1] else sets.searched(wanted)
            upper.append(found.values)
            witnesses.append(found.witnesses)
        return torch.tensor(enumerated, device=directions.device), torch.stack(upper).double(), witnesses

    @cached_property
    def _sets(self) -> list[GraphChangeSets]:
        return change_sets(self.network, self.changes)

    def _parts(self, wanted: Tensor) -> Iterator[Tensor]:
        """Positions of the graphs that are bounded together: those whose nodes can share their items, and the
        others."""
        small = torch.tensor([each.shared for each in self._sets], device=wanted.device)
        yield from (part.nonzero()[:, 0] for part in (wanted & small, wanted & ~small) if bool(part.any()))

    def _bounds(self, places: list[int], sizes: Tensor) -> GraphBounds:
        """The bounds of some of the graphs."""
        some, rows = self.graphs, torch.arange(len(self.graphs.batch), device=sizes.device)
        changes = self.changes
        if len(places) < len(self.graphs):
            some = self.graphs.at(places)
            rows = rows[torch.isin(self.graphs.batch, self.graphs.sizes.new_tensor(places))]
            changes = changes.at(some, places)
        return GraphBounds(self.network, changes, self.bound, sizes[rows], self.time_limit)


def read_graphs_model(model: ModelLike, graphs: GraphSet, pool: Pool | None) -> PooledNetwork:
    """A model of nodes with ``pool``, a fitted method with the one it was trained with, or a model that pools."""
    if pool is None and not isinstance(model, nn.Module):
        pool = getattr(model, "pool", None)
    if pool is None:
        return read_pooled_network(model, graphs.union, graphs.batch)
    choice(pool, "pool", get_args(Pool))
    return PooledNetwork(read_network(model, graphs.union), pool)


def _check(lower: Tensor, nominal: Tensor, rounding: Tensor) -> None:
    broken = ~(torch.isfinite(lower) & torch.isfinite(nominal))
    crossed = lower > nominal + rounding
    for wrong, found, rule, remedy in (
        (
            broken,
            "a non-finite value",
            "bounds must be finite",
            "Check for weights or features so large that they overflow; float64 has a larger range",
        ),
        (
            crossed,
            "a lower bound above the clean value",
            "a lower bound cannot exceed a value that it bounds",
            "Please report these graphs and the model",
        ),
    ):
        if bool(wrong.any()):
            raise BoundError(f"{found} at graph {int(wrong.any(dim=1).nonzero()[0, 0])}", rule, remedy)
