"""What the regularizer minimises: the bound itself, or the share of the clean value that the worst case takes."""

import pytest
import torch

from certgcl.certify.compactness import linear_bounds
from certgcl.certify.directions import compactness_directions
from certgcl.graphs.graph import Graph
from certgcl.learning.objectives import bound_loss, kept_loss
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import random_graph


@pytest.fixture
def setting() -> tuple[GCNEncoder, Graph]:
    return GCNEncoder(3, 8, 4, activation="prelu").double(), random_graph(nodes=14)


def test_the_kept_share_is_that_of_the_certificate(setting) -> None:
    encoder, graph = setting
    with torch.no_grad():
        directions = compactness_directions(encoder(graph.x, graph.edge_index))
        found = linear_bounds(encoder, graph, 2, directions, method="degree-fast")
    share = found.lower / found.nominal.clamp(min=1e-3 * encoder(graph.x, graph.edge_index).norm(dim=1).mean())
    expected = torch.nn.functional.softplus(-found.nominal).mean() + (1 - share.clamp(-1, 1)).mean()
    term = CompactnessRegularizer(budget=2, scale=None, objective="kept")(encoder, graph, graph, graph)
    torch.testing.assert_close(term.detach(), expected.detach())
    term.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in encoder.parameters())


def test_without_a_budget_both_objectives_are_clean_compactness(setting) -> None:
    encoder, graph = setting
    terms = [
        CompactnessRegularizer(budget=0, objective=objective)(encoder, graph, graph, graph)
        for objective in ("bound", "kept")
    ]
    torch.testing.assert_close(*terms)


def test_a_batch_of_anchors_has_the_nominal_values_of_its_own_nodes(setting) -> None:
    encoder, graph = setting
    terms = [
        CompactnessRegularizer(budget=0, objective=objective, anchors=3)(
            encoder, graph, graph, graph, generator=torch.Generator().manual_seed(1)
        )
        for objective in ("bound", "kept")
    ]
    torch.testing.assert_close(*terms)


def test_longer_embeddings_and_a_larger_clean_value_do_not_raise_the_share_kept() -> None:
    nominal, one = torch.tensor([1.0, 2.0]), torch.tensor(1.0)
    loss = [kept_loss(factor * nominal / 2, factor * nominal, one, 0.0) for factor in (1.0, 10.0)]
    assert loss[0] == loss[1]
    assert bound_loss(5 * nominal, 1.0) < bound_loss(nominal / 2, 1.0)


def test_however_far_below_zero_a_bound_is_the_loss_stays_finite() -> None:
    nominal = torch.tensor([1.0, 0.0, -1.0])
    assert kept_loss(torch.full((3,), -1e9), nominal, torch.tensor(1.0), 0.0) < 3
