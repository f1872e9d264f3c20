"""certgcl compared with auto_LiRPA where features move within a box and all edges stay."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verification.audit import LEDGER
from verification.feature_audit import certify_features, feature_tolerance, feature_truth
from verification.feature_case import FeatureCase, PlainFeatures
from verification.feature_oracle import feature_magnitude
from verification.lirpa_bridge import lirpa_bridge
from verification.network_oracle import adjacencies, embeddings
from verification.networks import RELU, Builder, network_case
from verification.strategies import graphs
from verification.test_against_lirpa import agrees

lirpa = lirpa_bridge("verification.lirpa_features")

KINDS = (("GCN", 1), ("GCN", 2), ("GCN", 3), ("SAGE mean", 2), ("SAGE sum", 2), ("GIN", 1), ("GIN", 2))


@st.composite
def boxes(draw: st.DrawFn, kind: str, depth: int) -> FeatureCase:
    """Gaussian weights on a graph with edges, and a box from a point to one in which most signs are open."""
    graph = draw(graphs().filter(lambda graph: graph.number_of_edges() > 0))
    builder = Builder(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), RELU, width=4, features=3, shift=0.15)
    network = network_case(graph, kind, depth, builder, compact=draw(st.booleans())).with_budget(0)
    return FeatureCase(network, PlainFeatures("box", radius=draw(st.sampled_from([0.0, 0.03, 0.1, 0.3, 1.0]))))


@pytest.mark.parametrize(("kind", "depth"), KINDS)
def test_their_copy_is_the_network(kind: str, depth: int) -> None:
    network = network_case(nx.lollipop_graph(3, 2), kind, depth, Builder(np.random.default_rng(0), RELU)).with_budget(0)
    bounded, random = lirpa.LirpaFeatures(network, 1.0), np.random.default_rng(1)
    for _ in range(3):
        x = network.x + random.uniform(-1, 1, network.x.shape)
        expected = (embeddings(network, adjacencies(network), x[None])[0] * network.directions).sum(axis=1)
        found = bounded(torch.from_numpy(x).flatten())
        assert torch.allclose(found, torch.from_numpy(expected), atol=1e-10)


@pytest.mark.parametrize(("kind", "depth"), KINDS)
def test_bounds_over_a_box_of_features_are_at_or_above_those_of_lirpa(kind: str, depth: int) -> None:
    """All three methods of auto_LiRPA are below the least value found, and so is certgcl.

    With the same lines both are the same; certgcl takes the best of several rules and bounds every layer like that.
    Optimised CROWN chooses a slope for every channel, which may be better than any rule.
    """
    above: dict[str, list[torch.Tensor]] = {}
    more: dict[str, list[torch.Tensor]] = {}

    @settings(max_examples=max(3, settings().max_examples // 4))
    @given(boxes(kind, depth))
    def compare(case: FeatureCase) -> None:
        bounded = lirpa.LirpaFeatures(case.network, case.features.radius)
        minimum, _ = feature_truth(case)
        slack, unit = feature_tolerance(case), float(feature_magnitude(case).mean()) or 1.0
        ours = {method: certify_features(case, method).lower for method in ("interval", "degree")}
        for method, lower in ours.items():
            assert (lower <= minimum + slack).all(), method
        for name, mine in (("IBP", "interval"), ("CROWN", "degree"), ("CROWN-Optimized", "degree")):
            lower = bounded.lower(name, iterations=20)
            assert (lower <= minimum + slack).all(), f"{name}: the formulation of the network is wrong"
            above.setdefault(f"{mine} at or above LiRPA {name}", []).append(ours[mine] >= lower - 1e-9 * unit - slack)
            more.setdefault(f"{mine} above LiRPA {name}", []).append((ours[mine] - lower) / unit)

    compare()
    share = {name: float(torch.cat(found).double().mean()) for name, found in above.items()}
    mean = {name: float(torch.cat(found).mean()) for name, found in more.items()}
    LEDGER.note(
        f"box of features, {kind}, {depth} layer{'s' * (depth > 1)}", {n: f"{100 * v:.2f} %" for n, v in share.items()}
    )
    assert share["interval at or above LiRPA IBP"] == 1
    assert agrees(above["degree at or above LiRPA CROWN"], 0.99)
    assert mean["degree above LiRPA CROWN"] >= -1e-12
