"""certgcl beside auto_LiRPA, on the same box with one variable per undirected edge."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

from certgcl import Graph
from certgcl.bounds import DropProblem
from certgcl.bounds.interval import layer1_on_box, layer2_on_box
from certgcl.budget import EdgeDropBudget
from verification.audit import LEDGER, certify, size, tolerance, violations, weights
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import smooth_cases

lirpa = pytest.importorskip("verification.lirpa", reason="auto_LiRPA is not installed; `make test` installs it")


def bounded(case: Case) -> "lirpa.LirpaGCN":
    box = lirpa.box(case.graph, case.node_budgets(), case.graph_budget())
    return lirpa.LirpaGCN(box, case.x, case.w1, case.b1, float(case.slope1[0]), case.w2, case.b2,
                          float(case.slope2[0]), case.directions)


@given(smooth_cases())
def test_the_interval_bound_is_lirpas_ibp_layer_by_layer(case: Case) -> None:
    theirs = bounded(case).layers()
    graph = Graph.from_networkx(case.graph, case.x)
    drops = EdgeDropBudget(case.local, case.total).on(graph)
    problem = DropProblem(graph, drops, torch.arange(case.nodes))
    hood, encoder = problem.neighbourhood(torch.float64), weights(case)
    layer1 = layer1_on_box(encoder, problem.projected(encoder), hood)
    lower2, upper2 = layer2_on_box(encoder, layer1.projected, hood)
    for ours, their in ((layer1.lower, theirs.l1), (layer1.upper, theirs.u1), (lower2, theirs.l2),
                        (upper2, theirs.u2), (certify(case, "interval").lower, theirs.lower)):
        assert torch.allclose(ours, their, rtol=1e-10, atol=1e-12)


COUNTS: dict[str, list[Tensor]] = {}
TRUE_DROP = "true drop"


@given(smooth_cases())
def compare(case: Case) -> None:
    """LiRPA is sound on a case; count where certgcl is tighter."""
    truth, clean, theirs = enumerated_minimum(case), nominal(case), bounded(case)
    found = {"LiRPA IBP": theirs.lower("IBP"), "LiRPA CROWN": theirs.lower("CROWN"),
             "LiRPA CROWN-Optimized": theirs.lower("CROWN-Optimized", iterations=20)}
    for name, lower in found.items():
        assert not len(violations(case, lower, truth)), f"{name}: the formulation of the network is wrong"
        LEDGER.enter(name, case, lower, truth, clean)
    best = torch.stack(list(found.values())).amax(dim=0)
    slack, scale = tolerance(case), size(case)
    COUNTS.setdefault(TRUE_DROP, []).append((clean - truth) / scale)
    for method in ("crown", "degree"):
        ours = certify(case, method).lower
        for name, lower in (*found.items(), ("the best of LiRPA", best)):
            COUNTS.setdefault(f"{method} at or above {name}", []).append(ours >= lower - slack)
            COUNTS.setdefault(f"{method} minus {name}", []).append((ours - lower) / scale)


def test_lirpa_is_sound_and_certgcl_tighter_by_the_shares_and_means_claimed() -> None:
    compare()
    mean = {name: float(torch.cat(values).double().mean()) for name, values in COUNTS.items()}
    # Of means, not of single nodes: where nothing can get worse, the true drop is rounding.
    unit = mean.pop(TRUE_DROP)
    share = {name: value if "above" in name else value / unit for name, value in mean.items()}
    for name, value in share.items():
        LEDGER.note(name, f"{100 * value:.2f} % of {torch.cat(COUNTS[name]).numel()} nodes" if "above" in name
                    else f"{value:+.2f} true drops on average")
    assert share["crown minus LiRPA CROWN"] >= 0
    assert share["degree minus LiRPA CROWN-Optimized"] > 0.5
    for name in ("LiRPA IBP", "LiRPA CROWN", "LiRPA CROWN-Optimized", "the best of LiRPA"):
        assert share[f"degree at or above {name}"] >= 0.99
