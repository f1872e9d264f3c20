"""An audit that cannot fail is worthless: known wrong bounds must each be caught by it."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample
from torch import Tensor

from certgcl.bounds import Degree, compiled, crown
from certgcl.bounds import degree as degree_module
from certgcl.bounds.compiled import anchor_chunks, flat_tables, lines, patterned_rows
from certgcl.bounds.compiled.kernels import row_lemma
from certgcl.bounds.propagation import sign_patterns
from certgcl.bounds.two_layer import (
    anchor_functionals,
    box,
    hidden_functionals,
    layer1,
    neighbourhood,
    patterned_output,
    row_plan,
    sorted_row,
)
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import BoundError
from certgcl.graphs.graph import Graph
from verification.audit import CERTIFIED, certify, violations
from verification.case import Case
from verification.oracle import enumerated_minimum
from verification.strategies import cases

pytestmark = pytest.mark.thorough

METHODS = {
    **CERTIFIED,
    "shared lines": Degree(lines="shared"),
    "hubs": Degree(hubs=1),
    "two patterns": Degree(patterns=2),
}


Engine = Literal["torch", "kernels"]


def caught(method: str, engine: Engine, examples: int = 1500, seeds: int = 4) -> bool:
    """Whether generated cases show the (by now wrong) method above the enumerated minimum.

    Hypothesis also draws numbers that it finds in the modules loaded so far: a single seed may be unlucky if tests run
    in another order.
    """

    def shows(case: Case) -> bool:
        try:
            with compiled.switched_off() if engine == "torch" else nullcontext():
                lower = certify(case, METHODS[method]).lower
        except BoundError:  # the library's own last check
            return True
        return len(violations(case, lower, enumerated_minimum(case))) > 0

    search = settings(max_examples=examples, database=None, phases=[Phase.generate])
    for seed in range(seeds):
        with suppress(NoSuchExample):
            find(cases(), shows, settings=search, random=Random(seed))
            return True
    return False


Patch = Callable[[pytest.MonkeyPatch], None]


def hidden_layer_of_the_clean_graph(patch: pytest.MonkeyPatch) -> None:
    """Errata 1: layer 2 bounded as if ``H`` did not depend on the drops."""

    def products(self: layer1.Layer1) -> tuple[Tensor, Tensor]:
        hidden = self.weights.activation1(CLEAN.gcn_matrix() @ self.projected + self.weights.b1)
        value = hidden @ self.weights.w2
        table = value.new_zeros(len(self.lower), value.shape[1])
        table[self.place] = value[:, None]
        return table, table

    def remember(cls: type[Graph], graph: Any, x: Tensor) -> Graph:
        global CLEAN
        CLEAN = from_networkx(graph, x)
        return CLEAN

    from_networkx = Graph.from_networkx
    patch.setattr(Graph, "from_networkx", classmethod(remember))
    patch.setattr(layer1.Layer1, "products", products)
    patch.setattr(layer1.Layer1, "signed_products", lambda self: torch.cat([(v := products(self)[0]), -v], dim=1))


CLEAN: Graph


def slopes_of_the_root(patch: pytest.MonkeyPatch) -> None:
    """Errata 3: the anchor's lines in place of the neighbour's."""
    original = anchor_functionals.AnchorsAtRows.bounds

    def bounds(self: anchor_functionals.AnchorsAtRows, columns: slice, case: int) -> hidden_functionals.RowBounds:
        every, anchor = self.functionals, self.pairs.anchor[:, columns]
        omega = every.omega.take(every.plan.flat.place[anchor, case])  # (R, I, M, d1)
        place = every.place[every.plan.hood.outer.own[anchor]]
        lined = every.lined.around(place[..., min(case, place.shape[-1] - 1)])
        interval, right, _ = original(self, columns, case)
        wrong = []
        for rule, terms in enumerate(right):
            slope, spread = (part.chunk(len(right), dim=1)[rule] for part in lined.slopes)  # (R, I, d1)
            slopes = omega * slope[:, :, None] - omega.abs() * spread[:, :, None]
            values = torch.einsum("rkd,rimd->rkim", self.targets, slopes)[:, :, :, None]  # (R, K + 1, I, 1, M)
            wrong.append(
                replace(terms, leaves=values[:, :-1].expand_as(terms.leaves), own=values[:, -1].expand_as(terms.own))
            )
        return hidden_functionals.RowBounds(interval, wrong, [])

    patch.setattr(anchor_functionals.AnchorsAtRows, "bounds", bounds)


def no_minimum_over_the_box(patch: pytest.MonkeyPatch) -> None:
    """Errata 2: the linear bound evaluated at the clean Â."""

    class Clean(box.BoxRows):
        @property
        def lower(self) -> Tensor:
            return self.hop.low * self.hop.scale(0)[self.hop.row]

        upper = lower

        @property
        def own_upper(self) -> Tensor:
            return self.own_lower

    original = crown.BoxMinimum.__init__

    def init(self: crown.BoxMinimum, plan: row_plan.RowPlan) -> None:
        original(self, plan)
        self.outer, self.inner = Clean(plan.hood.outer), Clean(plan.hood.inner)

    patch.setattr(crown.BoxMinimum, "__init__", init)


def _remaining(change: Callable[[list[Tensor]], list[Tensor]]) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        class Changed(sorted_row.FewLargest):
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                self.remaining = change(self.remaining)

        patch.setattr(sorted_row, "FewLargest", Changed)

    return apply


# Errata 2, for ``degree``: nothing is ever taken away from a row; or one neighbour fewer than it loses.
no_minimum_over_the_counts = _remaining(lambda remaining: remaining[:1] * len(remaining))
one_drop_fewer = _remaining(lambda remaining: [remaining[0], *remaining[:-1]])


def _hop(**change: Callable[[neighbourhood.Hop], Tensor]) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        original = neighbourhood._hop

        def hop(*given: Any) -> neighbourhood.Hop:
            made = original(*given)
            return replace(made, **{name: value(made) for name, value in change.items()})

        patch.setattr(neighbourhood, "_hop", hop)

    return apply


leaves_that_keep_their_edges = _hop(high=lambda hop: hop.low)  # scales of neighbours taken from the clean graph
reach_off_by_one = _hop(most_drops=lambda hop: (hop.most_drops - 1).clamp(min=0))


def lines_of_the_clean_count(patch: pytest.MonkeyPatch) -> None:
    """Layer 1 bounded for rows that lose nothing, in all their cases."""
    original = row_plan.RowPlan.__init__

    def init(self: row_plan.RowPlan, hood: neighbourhood.Neighbourhood, resolution: int, lines: Any, hubs: Any) -> None:
        original(self, hood, resolution, "shared", hubs)
        self.line_cases = replace(self.line_cases, last=self.line_cases.first)

    patch.setattr(row_plan.RowPlan, "__init__", init)


def kept_edges_that_make_room(patch: pytest.MonkeyPatch) -> None:
    """The leave-one-out identity where the one cannot be dropped."""
    original = row_plan.pairs_of
    patch.setattr(row_plan, "pairs_of", lambda *given: replace(original(*given), never_dropped=None))


def hubs_in_the_middle(patch: pytest.MonkeyPatch) -> None:
    """The middle of the interval of ``ω · h_j`` in place of its lower end."""
    original = anchor_functionals.AnchorsAtRows.__init__

    def init(self: anchor_functionals.AnchorsAtRows, *given: Any) -> None:
        original(self, *given)
        parts = self.lined.parts.clone()
        parts[:, 1 + self.lined.rules] = 0  # the radius of the range of h_j
        self.lined = layer1.Lined(parts)

    patch.setattr(anchor_functionals.AnchorsAtRows, "__init__", init)


def _patterns(change: Callable[..., sign_patterns.SignPatterns]) -> Patch:
    """Wrong sign patterns, at the output and at neighbours."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for module in (patterned_output, anchor_functionals, patterned_rows):
            patch.setattr(module, "dearest", change)

    return apply


def _of_the_other_sign(omega: Tensor, *given: Any) -> sign_patterns.SignPatterns:
    found = sign_patterns.dearest(-omega, *given)
    return found._replace(first=-found.first, other=-found.other)


def _of_all_constants(
    omega: Tensor, lower: Tensor, upper: Tensor, slope: Tensor, patterns: int
) -> sign_patterns.SignPatterns:
    everything = sign_patterns.dearest(omega, lower, upper, slope, 1 << omega.shape[-1])
    return sign_patterns.dearest(omega, lower, upper, slope, patterns)._replace(gain=everything.gain)


patterns_of_the_other_sign = _patterns(_of_the_other_sign)  # where the activation is above both of its pieces
constants_of_other_channels_too = _patterns(_of_all_constants)  # those still bounded by chords are not paid for


def _best_pattern(*modules: ModuleType) -> Patch:
    """The largest over patterns, as if one could choose the signs."""

    def wrong(values: Tensor, dim: int) -> Tensor:
        return values.amax(dim=dim) if dim == -1 else values.amin(dim=dim)

    def apply(patch: pytest.MonkeyPatch) -> None:
        for module in modules:
            patch.setattr(module, "least", wrong)

    return apply


best_pattern_at_the_output, best_pattern_at_neighbours = _best_pattern(patterned_output), _best_pattern(degree_module)
best_pattern_at_neighbours_by_kernels = _best_pattern(patterned_rows)


def _budget(change: Callable[[Tensor, Tensor], Tensor]) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        original = EdgeDropBudget.on

        def on(self: EdgeDropBudget, graph: Graph) -> AdmissibleDrops:
            local = change(original(self, graph).local, graph.degree).clamp(min=0)
            return original(EdgeDropBudget(local, self.total), graph)

        patch.setattr(EdgeDropBudget, "on", on)

    return apply


budget_off_by_one = _budget(lambda local, degree: local - 1)
no_isolated_node = _budget(lambda local, degree: local.minimum(degree - 1))  # errata 6: the cap d - 1 on the diagonal

# The same for the kernels, where the code that goes wrong is another.


def _rows(change: Callable[[row_lemma.Rows], row_lemma.Rows]) -> Patch:
    """What the row lemma knows of rows."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for module in (flat_tables, anchor_chunks):
            patch.setattr(module, "Rows", lambda *parts: change(row_lemma.Rows(*parts)))

    return apply


no_minimum_over_the_counts_by_kernels = _rows(lambda rows: rows._replace(first=0 * rows.first, last=0 * rows.last))
one_drop_fewer_by_kernels = _rows(
    lambda rows: rows._replace(first=np.maximum(rows.first - 1, 0), last=np.maximum(rows.last - 1, 0))
)
nothing_droppable_by_kernels = _rows(lambda rows: rows._replace(droppable=np.zeros_like(rows.droppable)))


def kept_edges_that_make_room_by_kernels(patch: pytest.MonkeyPatch) -> None:
    original = flat_tables.FlatTables.visits
    patch.setattr(
        flat_tables.FlatTables,
        "visits",
        lambda *given: (visits := original(*given))._replace(droppable=np.ones_like(visits.droppable)),
    )


def reach_off_by_one_by_kernels(patch: pytest.MonkeyPatch) -> None:
    original = flat_tables.FlatTables.visits
    patch.setattr(
        flat_tables.FlatTables,
        "visits",
        lambda *given: (visits := original(*given))._replace(reach=np.maximum(visits.reach - 1, 0)),
    )


def slopes_of_the_root_by_kernels(patch: pytest.MonkeyPatch) -> None:
    original = anchor_chunks.RowEntries

    def entries(start: Any, functional: Any, line: Any, *rest: Any) -> Any:
        return original(start, functional, ROOT.own_line.numpy()[functional], *rest)

    def remember(every: flat_tables.FlatTables, cells: int) -> Any:
        global ROOT
        ROOT = every
        return chunks_of(every, cells)

    chunks_of = anchor_chunks.chunks_of
    patch.setattr(anchor_chunks, "chunks_of", remember)
    patch.setattr(anchor_chunks, "RowEntries", entries)


ROOT: flat_tables.FlatTables


def hubs_in_the_middle_by_kernels(patch: pytest.MonkeyPatch) -> None:
    original = lines.LineTable.at

    def at(self: lines.LineTable, which: slice) -> Any:
        parts = original(self, which)
        parts[:, 1 + len(self.rules)] = 0
        return parts

    patch.setattr(lines.LineTable, "at", at)


BY_DEGREE = ("degree", "degree-fast", "degree-cheap", "shared lines")
KERNEL_MUTANTS: dict[str, tuple[Patch, tuple[str, ...]]] = {
    "layer 2 from the clean hidden layer": (hidden_layer_of_the_clean_graph, BY_DEGREE),
    "slopes of the root": (slopes_of_the_root_by_kernels, BY_DEGREE),
    "no minimum over the counts": (no_minimum_over_the_counts_by_kernels, BY_DEGREE),
    "one drop fewer": (one_drop_fewer_by_kernels, BY_DEGREE),
    "nothing droppable": (nothing_droppable_by_kernels, BY_DEGREE),
    "leaves that keep their edges": (leaves_that_keep_their_edges, BY_DEGREE),
    "reach off by one": (reach_off_by_one_by_kernels, ("degree", "shared lines")),
    "lines of the clean count": (lines_of_the_clean_count, BY_DEGREE),
    "kept edges that make room": (kept_edges_that_make_room_by_kernels, BY_DEGREE),
    "hubs in the middle": (hubs_in_the_middle_by_kernels, ("hubs",)),
    "patterns of the other sign": (patterns_of_the_other_sign, ("degree", "shared lines")),
    "constants of other channels too": (constants_of_other_channels_too, ("two patterns",)),
    "the best pattern at the output": (best_pattern_at_the_output, ("degree",)),
    "the best pattern at neighbours": (best_pattern_at_neighbours_by_kernels, ("degree",)),
}
MUTANTS: dict[str, tuple[Patch, tuple[str, ...]]] = {
    "layer 2 from the clean hidden layer": (hidden_layer_of_the_clean_graph, tuple(CERTIFIED)),
    "slopes of the root": (slopes_of_the_root, ("crown", *BY_DEGREE)),
    "no minimum over the box": (no_minimum_over_the_box, ("crown",)),
    "no minimum over the counts": (no_minimum_over_the_counts, BY_DEGREE),
    "one drop fewer": (one_drop_fewer, BY_DEGREE),
    "leaves that keep their edges": (leaves_that_keep_their_edges, tuple(CERTIFIED)),
    "reach off by one": (reach_off_by_one, ("degree", "shared lines")),  # the others have one case, always in reach
    "lines of the clean count": (lines_of_the_clean_count, BY_DEGREE),
    "kept edges that make room": (kept_edges_that_make_room, BY_DEGREE),
    "hubs in the middle": (hubs_in_the_middle, ("hubs",)),
    "patterns of the other sign": (patterns_of_the_other_sign, ("degree", "shared lines")),
    "constants of other channels too": (constants_of_other_channels_too, ("two patterns",)),
    "the best pattern at the output": (best_pattern_at_the_output, ("degree",)),
    "the best pattern at neighbours": (best_pattern_at_neighbours, ("degree",)),
    "budget off by one": (budget_off_by_one, tuple(CERTIFIED)),
    "no isolated node": (no_isolated_node, tuple(CERTIFIED)),
}


@pytest.mark.parametrize(("mutant", "method"), [(name, m) for name, (_, methods) in MUTANTS.items() for m in methods])
def test_the_audit_catches(mutant: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant][0](monkeypatch)
    assert caught(method, "torch")


@pytest.mark.parametrize(
    ("mutant", "method"), [(name, m) for name, (_, methods) in KERNEL_MUTANTS.items() for m in methods]
)
def test_the_audit_catches_by_kernels(mutant: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KERNEL_MUTANTS[mutant][0](monkeypatch)
    assert caught(method, "kernels")


@pytest.mark.parametrize("engine", get_args(Engine))
@pytest.mark.parametrize("method", METHODS)
def test_without_a_mutant_nothing_is_caught(method: str, engine: Engine) -> None:
    assert not caught(method, engine, examples=200, seeds=1)
