"""The search for drops on networks of every kind: never below the enumerated minimum, and mostly at it."""

from collections import Counter

import torch
from hypothesis import given

from certgcl import EdgeDropBudget
from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.batch import FieldBatch
from verification.network_audit import library_graph, library_network, network_tolerance, truth
from verification.network_case import NetworkCase
from verification.networks import network_cases

MOSTLY = 0.95  # of the nodes at which something can be lost, the minimum itself is found


def test_values_are_reached_and_mostly_the_minimum() -> None:
    seen = Counter[str]()

    @given(network_cases(max_depth=3))
    def search(case: NetworkCase) -> None:
        graph, directions = library_graph(case), torch.from_numpy(case.directions)
        space = SearchSpace(library_network(case), graph, EdgeDropBudget(case.local, case.total).on(graph))
        fields = [field for field in map(space.field, range(case.nodes)) if field is not None]
        found = Search()(space, fields, directions)
        minimum, clean = truth(case)
        slack = 16 * network_tolerance(case)
        for node, (field, dropped) in enumerate(zip(fields, found, strict=True)):
            lost = torch.bincount(space.edges(field, dropped).flatten(), minlength=case.nodes)
            assert (lost <= torch.tensor(case.node_budgets())).all()
            assert len(dropped) <= case.graph_budget()
            mask = torch.zeros(1, 1 + len(field.slots), dtype=torch.bool)
            mask[0, dropped] = True
            value = FieldBatch.of(space, [field], directions[node, None]).values(mask)[0]
            assert minimum[node] - slack[node] <= value <= clean[node] + slack[node]
            if minimum[node] < clean[node] - slack[node]:
                close = value <= minimum[node] + slack[node] + 1e-9 * (clean - minimum)[node]
                seen["reached" if close else "missed"] += 1

    search()
    assert seen["reached"] >= MOSTLY * seen.total()
