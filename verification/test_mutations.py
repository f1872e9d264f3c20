"""An audit that cannot fail is worthless: known wrong bounds must each be caught by it."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import Phase, find, settings
from torch import Tensor

from certgcl.bounds import crown, degree, functional, interval, layer1, neighbourhood, rows
from certgcl.budget import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import BoundError
from certgcl.graph import Graph
from verification.audit import certify, violations
from verification.case import Case
from verification.oracle import enumerated_minimum
from verification.strategies import cases

pytestmark = pytest.mark.thorough

SEARCH = settings(max_examples=1500, database=None, phases=[Phase.generate])


def caught(method: str) -> bool:
    """Whether generated cases show the (by now wrong) method above the enumerated minimum."""

    def shows(case: Case) -> bool:
        try:
            lower = certify(case, method).lower
        except BoundError:  # the library's own last check
            return True
        return len(violations(case, lower, enumerated_minimum(case))) > 0

    find(cases(), shows, settings=SEARCH, random=Random(0))  # raises when there is none
    return True


Patch = Callable[[pytest.MonkeyPatch], None]


def hidden_layer_of_the_clean_graph(patch: pytest.MonkeyPatch) -> None:
    """Errata 1: layer 2 bounded as if ``H`` did not depend on the drops."""
    def products(self: layer1.Layer1) -> tuple[Tensor, Tensor]:
        hidden = self.weights.activation1(CLEAN.gcn_matrix() @ self.projected + self.weights.b1)
        value = (hidden @ self.weights.w2).repeat_interleave(self.cases.number, dim=0)
        return value, value

    def remember(cls: type[Graph], graph: Any, x: Tensor) -> Graph:
        global CLEAN
        CLEAN = from_networkx(graph, x)
        return CLEAN

    from_networkx = Graph.from_networkx
    patch.setattr(Graph, "from_networkx", classmethod(remember))
    patch.setattr(layer1.Layer1, "products", products)


CLEAN: Graph


def slopes_of_the_root(patch: pytest.MonkeyPatch) -> None:
    """Errata 3: the anchor's lines in place of the neighbour's."""
    original = functional.AnchorFunctionals._slopes

    def slopes(self: functional.AnchorFunctionals, anchors: Tensor, case: int, flat: Tensor, rule: int) -> Tensor:
        own = self.cases.flat(self.hood.outer.own[anchors], case)
        return original(self, anchors, case, own[:, None].expand(flat.shape), rule)

    patch.setattr(functional.AnchorFunctionals, "_slopes", slopes)


def no_minimum_over_the_box(patch: pytest.MonkeyPatch) -> None:
    """Errata 2: the linear bound evaluated at the clean Â."""

    class Clean(interval.BoxRows):
        @property
        def lower(self) -> Tensor:
            return self.hop.low * self.hop.scale(0)[self.hop.row]

        upper = lower

        @property
        def own_upper(self) -> Tensor:
            return self.own_lower

    patch.setattr(crown, "BoxRows", Clean)


def no_minimum_over_the_counts(patch: pytest.MonkeyPatch) -> None:
    """Errata 2, for ``degree``: nothing is ever taken away from a row."""

    def nothing(values: Tensor, droppable: Tensor, most: int) -> Tensor:
        return values.new_zeros((values.shape[0], most + 1, *values.shape[2:]))

    patch.setattr(rows, "top_sums", nothing)
    patch.setattr(degree, "top_sums", nothing)


def leaves_that_keep_their_edges(patch: pytest.MonkeyPatch) -> None:
    """Scales of two-hop nodes taken from the clean graph."""
    original = neighbourhood._hop

    def hop(graph: Graph, drops: AdmissibleDrops, nodes: Tensor, dtype: torch.dtype) -> neighbourhood.Hop:
        made = original(graph, drops, nodes, dtype)
        return neighbourhood.replace(made, high=made.low)

    patch.setattr(neighbourhood, "_hop", hop)


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

MUTANTS: dict[str, tuple[Patch, tuple[str, ...]]] = {
    "layer 2 from the clean hidden layer": (hidden_layer_of_the_clean_graph, ("interval", "crown", "degree",
                                                                             "degree-cheap")),
    "slopes of the root": (slopes_of_the_root, ("crown", "degree", "degree-cheap")),
    "no minimum over the box": (no_minimum_over_the_box, ("crown",)),
    "no minimum over the counts": (no_minimum_over_the_counts, ("degree", "degree-cheap")),
    "leaves that keep their edges": (leaves_that_keep_their_edges, ("interval", "crown", "degree", "degree-cheap")),
    "budget off by one": (budget_off_by_one, ("interval", "crown", "degree", "degree-cheap")),
    "no isolated node": (no_isolated_node, ("interval", "crown", "degree", "degree-cheap")),
}


@pytest.mark.parametrize(("mutant", "method"), [(name, m) for name, (_, methods) in MUTANTS.items() for m in methods])
def test_the_audit_catches(mutant: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant][0](monkeypatch)
    assert caught(method)
