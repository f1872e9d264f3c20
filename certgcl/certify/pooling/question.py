"""A question about every one of several graphs: what does not depend on directions, and how it is answered."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from certgcl.arguments import FLOATS, INTEGERS, choice, numbers, real, whole
from certgcl.bounds import BoundMethod, ChangeProblem, get_method
from certgcl.bounds.engine import engine_for
from certgcl.bounds.memory import default_limit, parts_that_fit
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.evidence import dtype_name
from certgcl.certify.pooling.certificate import GraphCertificate
from certgcl.certify.pooling.drop_sets import GraphDropSets
from certgcl.certify.pooling.evidence import evidence_of
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike, SetDrops
from certgcl.certify.pooling.multipliers import Array
from certgcl.certify.pooling.shared_drops import SharedDrops
from certgcl.certify.pooling.slack import PooledSizes
from certgcl.certify.question_arguments import precision_of
from certgcl.certify.touched_edges import edges_of, touched_edges
from certgcl.changes.changes import AdmissibleChanges, BudgetLike
from certgcl.errors import BoundError, DirectionError, MethodError
from certgcl.models.pooled_network import Pool, PooledNetwork
from certgcl.models.reading import ModelLike, read_network
from certgcl.models.reading.pooling import read_pooled_network
from certgcl.runtime.arithmetic import check_arithmetic, undisturbed

MOST_SINGLE_ROWS = 1 << 24  # nodes that are embedded to try every edge of all graphs by itself
MOST_PAIR_ROWS = 1 << 21  # and every two edges
EVERY_LEVEL = 4  # totals up to this one are asked for one by one; beyond, each is twice the last


@dataclass(frozen=True, eq=False)
class GraphQuestion:
    """How low ``w · z_g(S)`` can get: all that does not depend on the directions.

    Args:
        model: in the precision it is run in.
    """

    model: PooledNetwork
    graphs: GraphSet
    drops: SetDrops
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
            enumerate_up_to, "enumerate_up_to", 0, "it is a number of drop sets, 0 for none", "Try 1024", most=1 << 20
        )
        check_arithmetic(precision_of(dtype))
        several = GraphSet.of(graphs)
        read = read_graphs_model(model, several, pool)
        drops = several.drops(budgets)
        reason = bound.supports(read.network, AdmissibleChanges.of(drops.each[0]))
        if reason is not None:
            raise MethodError(f"method {bound.name!r} for {read.network}", reason, "Use 'degree', the default")
        return cls(read.copied(), several, drops, bound, dtype, most, limit)

    @cached_property
    def network(self) -> PooledNetwork:
        """The model in the dtype of the computation."""
        return self.model.to(self.dtype)

    def directions(self, given: Any) -> Tensor:
        """``(G, d)`` or ``(G, C, d)`` directions of one's own, in the dtype and on the device of the computation."""
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
        problem = ChangeProblem(union, AdmissibleChanges(self.drops.limited_to(self._largest)), everyone)
        of_nodes = Sizes.of(self.model.network, problem, self.dtype, branches=not self.bound.splits)
        sizes = PooledSizes.of(self.model, graphs, of_nodes, self.dtype)
        enumerated, upper, witnesses = self._searched(directions)
        lower, lifted = upper.clone(), torch.zeros_like(upper)
        rest = (~enumerated).nonzero()[:, 0]
        if len(rest):
            with engine_for(self.model.network, union):
                lower[rest], lifted[rest] = self._only(rest.tolist())._bounded(directions[rest])
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
            witnesses=witnesses,
            enumerated=enumerated,
            directions=given.clone(),
            most_dropped=self.drops.most.clone(),
            sizes=graphs.sizes.clone(),
            local_budget=self.drops.union.local.clone(),
            requested_budget=self.drops.union.requested.clone(),
            total_budget=self.drops.totals.clone(),
            method=self.bound.name,
            pool=self.model.pool,
            precision=dtype_name(self.model.network.precision),
            reading=self.model.network.reading,
            evidence=evidence,
        )

    @property
    def _largest(self) -> int:
        return int(self.drops.most.max())

    def _searched(self, directions: Tensor) -> tuple[Tensor, Tensor, tuple[tuple[Tensor, ...], ...]]:
        """Whether all drop sets of each graph were tried, the least value that was found, and where."""
        enumerated, upper, witnesses = [], [], []
        for sets, wanted in zip(self._drop_sets(), directions, strict=True):
            enumerated.append(sets.number <= self.enumerate_up_to)
            found = sets.enumerated(wanted) if enumerated[-1] else sets.greedy(wanted)
            upper.append(found.values)
            witnesses.append(found.witnesses)
        return torch.tensor(enumerated, device=directions.device), torch.stack(upper).double(), tuple(witnesses)

    def _only(self, places: list[int]) -> "GraphQuestion":
        """The same question about some of the graphs."""
        if len(places) == len(self.graphs):
            return self
        some = self.graphs.at(places)
        return replace(self, graphs=some, drops=self.drops.at(some, places))

    # -- by the bounds of nodes --------------------------------------------------------------------

    def _bounded(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of all graphs, and how far adding up can have raised them, ``(G, C)``."""
        pooled, shift = self._pulled_back(directions)
        lower, lifted = self._by_ranges(pooled) if self.model.pool == "max" else self._by_shared_drops(pooled)
        return lower + shift, lifted

    def _pulled_back(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """``W w`` and ``b · w`` of the head: directions of what is pooled, and constants, ``(G, C)``."""
        head = self.network.head
        if head is None:
            return directions, directions.new_zeros(directions.shape[:2]).double()
        wide = directions.double()
        return (wide @ head.weight.double().T).to(self.dtype), wide @ head.bias.double()

    def _of_nodes(self, total: int, directions: Tensor, rows: Callable[[Tensor], Tensor]) -> Tensor:
        """The least ``w · z_i`` of every node, with at most ``total`` edges dropped in each graph, ``(N, C)``, float64.

        Args:
            directions: of which ``rows`` makes those of some nodes, ``(A, C, d)``.
        """
        union, network = self.graphs.union, self.network.network
        changes, everyone = AdmissibleChanges(self.drops.limited_to(total)), torch.arange(self.graphs.union.num_nodes)
        everyone = everyone.to(union.col.device)
        limit, number = default_limit(union.col.device), rows(everyone[:1]).shape[1]
        problem = ChangeProblem(union, changes, everyone, limit)
        found = torch.empty(len(everyone), number, dtype=torch.float64, device=everyone.device)
        for part in parts_that_fit(self.bound, network, problem, number, limit):
            anchors = ChangeProblem(union, changes, part, limit, only_anchors=True)
            found[part] = self.bound.solve(network, anchors, rows(part)).lower.double()
        return found

    def _by_shared_drops(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of sums or means of node values, and how far adding up can have raised them, ``(G, C)``."""
        graphs = self.graphs
        z = self.network.network.embed(graphs.union)
        clean = torch.einsum("ncd,nd->nc", directions[graphs.batch], z).double()
        levels = _levels(self._largest)
        shared = self._shared(levels)
        losses = self._losses(shared, directions, clean)
        known = [clean] * min(1 if losses[0] is None else 2, len(levels))  # what one edge takes is then known exactly
        if 1 < len(known) < len(levels):
            known += self._least_of_pairs(shared, directions, clean)
        values = (
            torch.stack(
                [
                    *known,
                    *(
                        self._of_nodes(total, directions, lambda part: directions[graphs.batch[part]])
                        for total in levels[len(known) :]
                    ),
                ],
                dim=2,
            )
            .cpu()
            .numpy()
        )
        if not (np.isfinite(values).all() and all(alone is None or np.isfinite(alone).all() for alone in losses)):
            unknown = directions.new_full(directions.shape[:2], torch.nan).double()
            return unknown, unknown
        found = [shared.lower(values[:, place], alone, self.time_limit) for place, alone in enumerate(losses)]
        lower, lifted = (
            torch.from_numpy(np.stack(each, axis=1)).to(directions.device) for each in zip(*found, strict=True)
        )
        count = graphs.sizes.double()[:, None] if self.model.pool == "mean" else 1.0
        return lower / count, lifted / count

    def _shared(self, levels: list[int]) -> SharedDrops:
        union = self.graphs.union
        slots = edges_of(union)
        fields = touched_edges(self.network.network, union, torch.arange(union.num_nodes, device=union.col.device))
        droppable = self.drops.union.droppable[slots].cpu().numpy()
        ends = torch.stack([union.row[slots], union.col[slots]]).cpu().numpy()[:, droppable]
        return SharedDrops(
            fields[:, droppable],
            self.graphs.batch.cpu().numpy(),
            ends,
            self.drops.union.local.cpu().numpy(),
            self.drops.most.cpu().numpy(),
            np.array([0, *(level + 1 for level in levels[:-1])]),
        )

    def _losses(self, shared: SharedDrops, directions: Tensor, clean: Tensor) -> list[Array | None]:
        """How much each edge alone takes from each node in whose field it is, for each direction; None where there are
        too many to try."""
        sets = self._drop_sets()
        if sum(each.single_rows for each in sets) > MOST_SINGLE_ROWS:
            return [None] * directions.shape[1]
        # One graph after the other, in each edge by edge, and all nodes of the graph each time.
        taken = [clean.new_zeros(0, clean.shape[1])]
        for each, wanted, before in zip(sets, directions, clean.split(self.graphs.sizes.tolist()), strict=True):
            alone: list[tuple[int, ...]] = [(edge,) for edge in range(len(each.slots))]
            if alone:
                taken.append((before - each.of_nodes(alone, wanted).double()).flatten(0, 1))
        nodes, edges = self.graphs.sizes.cpu().numpy(), np.array([len(each.slots) for each in sets])
        graph, edge = shared.batch[shared.node], shared.fields.indices
        block, first_edge, first_node = (np.cumsum(each) - each for each in (edges * nodes, edges, nodes))
        place = block[graph] + (edge - first_edge[graph]) * nodes[graph] + shared.node - first_node[graph]
        return list(torch.cat(taken).cpu().numpy()[place].T)

    def _least_of_pairs(self, shared: SharedDrops, directions: Tensor, clean: Tensor) -> list[Tensor]:
        """The least value of each node without two edges of its field, ``(N, C)``; none if they are too many to try.

        Exact, and so at most ``v_i(S)`` for every S with two edges in the field: these two are admissible by
        themselves, as every part of an admissible set is, and the value depends on nothing else of S.
        """
        sets, found, node, edge = self._drop_sets(), [], 0, 0
        if sum(each.pair_rows for each in sets) > MOST_PAIR_ROWS:
            return []
        for each, wanted, before in zip(sets, directions, clean.split(self.graphs.sizes.tolist()), strict=True):
            pairs, n, e = each.pairs(), len(before), len(each.slots)
            if pairs:
                field = torch.from_numpy(shared.fields[node : node + n, edge : edge + e].toarray() > 0).to(
                    before.device
                )
                one, other = torch.tensor(pairs, device=before.device).T
                inside = (field[:, one] & field[:, other]).T[..., None]
                before = torch.where(inside, each.of_nodes([*pairs], wanted).double(), before).amin(dim=0)
            found.append(before)
            node, edge = node + n, edge + e
        return [torch.cat(found)]

    def _drop_sets(self) -> list[GraphDropSets]:
        return [
            GraphDropSets(self.network, graph, drops, most)
            for graph, drops, most in zip(self.graphs.graphs, self.drops.each, self.drops.most.tolist(), strict=True)
        ]

    def _by_ranges(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of maxima: ``max_i z_i >= max_i low_i``, and ``max_i z_i <= max_i high_i``, channel by channel."""
        units = torch.eye(directions.shape[2], dtype=self.dtype, device=directions.device)
        both = torch.cat([units, -units])
        ranges = self._of_nodes(self._largest, both, lambda part: both.expand(len(part), -1, -1))
        low, negative_high = ranges.chunk(2, dim=1)
        low, high = self.graphs.largest(low), self.graphs.largest(-negative_high)
        wide = directions.double()
        found = (wide.clamp(min=0) @ low[..., None] + wide.clamp(max=0) @ high[..., None])[..., 0]
        return found, torch.zeros_like(found)


def read_graphs_model(model: ModelLike, graphs: GraphSet, pool: Pool | None) -> PooledNetwork:
    """A model of nodes with ``pool``, a fitted method with the one it was trained with, or a model that pools."""
    if pool is None and not isinstance(model, nn.Module):
        pool = getattr(model, "pool", None)
    if pool is None:
        return read_pooled_network(model, graphs.union, graphs.batch)
    choice(pool, "pool", get_args(Pool))
    return PooledNetwork(read_network(model, graphs.union), pool)


def _levels(largest: int) -> list[int]:
    """The totals that nodes are bounded with, 0 first and the largest last."""
    levels = list(range(min(largest, EVERY_LEVEL) + 1))
    while levels[-1] < largest:
        levels.append(min(2 * levels[-1], largest))
    return levels


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
