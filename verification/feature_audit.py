"""The library's answers to cases of changed features, and the cases themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod, column_sets
from certgcl.bounds.prepared import ChangeProblem
from certgcl.models import GraphNetwork
from verification.audit import Ledger
from verification.feature_case import FeatureCase, PlainFeatures
from verification.feature_oracle import feature_magnitude, feature_values, number_of_views
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_case import NetworkCase
from verification.networks import network_cases

MOST_VIEWS = 8000


def library_changes(case: FeatureCase) -> certgcl.Changes:
    allowed, network = case.features, case.network
    settings: dict[str, dict[str, Any]] = {
        "masked": {"masked": allowed.off, "total": allowed.total},
        "bits": {"turned_off": allowed.off, "turned_on": allowed.on, "total": allowed.total},
        "box": {"box": allowed.radius},
        "columns": {"columns": allowed.columns},
    }
    return certgcl.Changes(
        drops=certgcl.EdgeDropBudget(network.local, network.total),
        features=certgcl.FeatureBudget(**settings[allowed.kind]),
    )


def certify_features(
    case: FeatureCase, method: str | BoundMethod, dtype: torch.dtype = torch.float64, nodes: list[int] | None = None
) -> certgcl.Certificate:
    """The library's answer to a case, through its public call."""
    return certgcl.linear_bounds(
        library_network(case.network),
        library_graph(case.network),
        library_changes(case),
        torch.from_numpy(case.network.directions),
        dtype=dtype,
        nodes=nodes,
        method=NETWORK_METHODS.get(method, method) if isinstance(method, str) else method,
    )


@contextmanager
def columns_by_nodes() -> Iterator[None]:
    """As if graphs had so many features that sets of masked columns are not tried one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_sets, "MOST_FEATURES", 0)
        yield


def differentiable_bound(case: FeatureCase, method: str, network: GraphNetwork) -> Tensor:
    """The bounds of all nodes as a function of the network's tensors, ``(n,)``."""
    graph = library_graph(case.network)
    problem = ChangeProblem(graph, library_changes(case).on(graph), torch.arange(case.nodes))
    return NETWORK_METHODS[method](network, problem, torch.from_numpy(case.network.directions)[:, None])[:, 0]


def feature_truth(case: FeatureCase) -> tuple[Tensor, Tensor]:
    """The minimum over all admissible views, and the clean value; each ``(n,)``."""
    found = feature_values(case)
    return torch.from_numpy(found.min(axis=0)), torch.from_numpy(np.array(found[0]))


def feature_tolerance(case: FeatureCase) -> Tensor:
    return torch.from_numpy(1e-13 * feature_magnitude(case) + 1e-300)


def enter_features(
    ledger: Ledger,
    rows: tuple[str, ...],
    case: FeatureCase,
    lower: Tensor,
    minimum: Tensor,
    clean: Tensor,
    scale: float | None = None,
) -> Tensor:
    """Record a case in some rows; returns the nodes where the bound is above the minimum, or NaN."""
    wrong = torch.nonzero(~(lower <= minimum + feature_tolerance(case)))[:, 0]
    scale = scale or float(feature_magnitude(case).mean()) or 1.0
    for row in rows:
        ledger.record(
            row, case.nodes, len(wrong), float((clean - lower).sum()) / scale, float((clean - minimum).sum()) / scale
        )
    return wrong


def with_bits(network: NetworkCase) -> NetworkCase:
    """The same with features 0 and 1."""
    return replace(network, x=(network.x > 0).astype(float))


@st.composite
def feature_cases(draw: st.DrawFn, drops: bool | None = None) -> FeatureCase:
    """A network with few nodes and features, changed features of any kind, and drops or none."""
    network = draw(network_cases(max_depth=3))
    if drops is False or (drops is None and draw(st.booleans())):
        network = network.with_budget(0)
    counts = st.integers(0, network.x.shape[1])
    total = st.one_of(st.none(), st.integers(0, 4))
    features = draw(
        st.one_of(
            st.builds(PlainFeatures, st.just("masked"), off=counts, total=total),
            st.builds(PlainFeatures, st.just("bits"), off=counts, on=counts, total=total),
            st.builds(PlainFeatures, st.just("box"), radius=st.sampled_from([0.0, 0.1, 1.0])),
            st.builds(PlainFeatures, st.just("columns"), columns=counts),
        )
    )
    case = FeatureCase(with_bits(network) if features.kind == "bits" else network, features)
    assume(number_of_views(case) <= MOST_VIEWS)
    return case
