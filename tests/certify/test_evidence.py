"""What a certificate says it is about, and when that is written down."""

import hashlib
from typing import Any

import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod, BranchAndBound, Degree
from certgcl.bounds.prepared import ChangeProblem
from certgcl.certify.evidence import Evidence, Fact, differences, features_part, weights_part
from certgcl.certify.method_settings import special_settings
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.models import GraphNetwork
from tests.toys import changed, random_graph, random_tensor, run_in, tensors_of, toy_network, without

GRAPH, WEIGHTS = random_graph(), toy_network()


def evidence(model: Any = WEIGHTS, graph: Any = GRAPH, budget: Any = 2, **settings: Any) -> Evidence:
    return certgcl.node_compactness(model, graph, budget, **settings).evidence


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"model": changed(WEIGHTS, b2=tensors_of(WEIGHTS)[4].nextafter(torch.tensor(9.0)))}, "weights"),
        ({"model": run_in(WEIGHTS, torch.float32)}, "weights"),
        ({"graph": GRAPH.with_features(GRAPH.x.nextafter(torch.tensor(9.0)))}, "features"),
        ({"graph": without(GRAPH, (tuple(GRAPH.edge_index[:, 0].tolist()),))}, "edges"),
        ({"budget": 1}, "budget"),
        ({"budget": EdgeDropBudget(2, total=3)}, "budget"),
        ({"method": "crown"}, "method"),
        ({"method": Degree(hubs=1)}, "method"),
        ({"method": "exact"}, "method"),
        ({"dtype": torch.float32}, "dtype"),
        ({"views": "both"}, "directions"),
        ({"view": without(GRAPH, (tuple(GRAPH.edge_index[:, 0].tolist()),))}, "directions"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_another_question_has_other_evidence(changes: dict[str, Any], part: str) -> None:
    assert part in [words.split(" ")[0] for words in differences(evidence().parts, evidence(**changes).parts)]
    assert not differences(evidence().parts, evidence().parts)


def test_the_budget_as_asked_for_is_part_of_it() -> None:
    """Nodes that no admissible drop touches may have been asked for anything: the bounds are the same."""
    loose, tight = (certgcl.node_compactness(WEIGHTS, GRAPH, EdgeDropBudget([asked] + [0] * 11)) for asked in (2, 0))
    assert torch.equal(loose.local_budget, tight.local_budget)
    assert loose.requested_budget[0] == min(2, int(GRAPH.degree[0]))
    assert [words.split()[0] for words in differences(loose.evidence.parts, tight.evidence.parts)] == ["budget"]


def test_directions_of_ones_own_are_named_by_their_digest() -> None:
    one, other = (certgcl.linear_bounds(WEIGHTS, GRAPH, 1, random_tensor(12, 3, seed=seed)).evidence for seed in (0, 1))
    assert one.direction_source == other.direction_source == "given"
    assert differences(one.parts, other.parts) == ["directions"]


def test_a_digest_is_sha_256_of_contents() -> None:
    x = GRAPH.x
    expected = hashlib.sha256(b"torch.float64 (12, 3)" + x.numpy().tobytes()).hexdigest()
    assert features_part(GRAPH).sha256 == expected


def test_few_features_are_named_alike_dense_and_sparse() -> None:
    x = torch.zeros(12, 50)
    x[3, 4], x[7, 0] = 1.0, 2.0
    dense, sparse = GRAPH.with_features(x), GRAPH.with_features(x.to_sparse())
    assert features_part(dense) == features_part(sparse)
    for place, value in (((3, 4), 1.0000001), ((3, 4), 0.0), ((3, 5), 1e-30)):
        changed = x.clone()
        changed[place] = value
        assert features_part(GRAPH.with_features(changed)).sha256 != features_part(dense).sha256
    assert features_part(GRAPH.with_features(x.double())).sha256 != features_part(dense).sha256


def test_a_slope_of_minus_zero_is_zero() -> None:
    zero, minus = (changed(WEIGHTS, slope1=torch.full((4,), slope, dtype=torch.float64)) for slope in (0.0, -0.0))
    assert weights_part(zero) == weights_part(minus)


def test_the_model_is_named_in_its_own_precision() -> None:
    torch.manual_seed(0)
    encoder = certgcl.GCNEncoder(3, 4, 2).eval()
    for dtype in (torch.float32, torch.float64):
        certificate = certgcl.node_compactness(encoder, GRAPH, 1, dtype=dtype)
        assert certificate.precision == "float32"
        assert certificate.evidence.weights == weights_part(certgcl.read_network(encoder, GRAPH))


def test_what_is_edited_afterwards_is_not_what_was_certified() -> None:
    x, nodes = GRAPH.x.clone(), torch.tensor([3, 1])
    graph = GRAPH.with_features(x)
    certificate = certgcl.node_compactness(WEIGHTS, graph, 2, nodes=nodes)
    x.mul_(-3)
    nodes += 1
    assert certificate.evidence.features == features_part(GRAPH) != features_part(graph)
    assert certificate.nodes.tolist() == [3, 1]


def test_what_is_edited_during_the_computation_is_not_what_was_certified() -> None:
    x = GRAPH.x.clone()

    class Editing(Degree):
        def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
            lower = super().__call__(network, problem, directions)
            x.mul_(-3)
            return lower

    certificate = certgcl.node_compactness(WEIGHTS, GRAPH.with_features(x), 2, method=Editing())
    assert certificate.evidence.features == features_part(GRAPH)


def test_settings_that_no_name_stands_for_are_special() -> None:
    for method in ("degree", "degree-fast", "exact", "paper"):
        assert evidence(method=method).special_settings is None
    for method, words in (
        (Degree(hubs=1), "Degree(hubs=1)"),
        (BranchAndBound(time_limit=9), "BranchAndBound(time_limit=9.0)"),
        (BranchAndBound(bound=Degree(hubs=2), branch_limit=3), "BranchAndBound(bound=Degree(hubs=2), branch_limit=3)"),
    ):
        assert evidence(method=method).special_settings == words


@pytest.mark.parametrize(
    "text",
    ["Degree(", "Degree(hubs=1), whose", "9" * 5000, "Other(hubs=None)", "(" * 1999, "Degree(" + "-" * 1900 + "1)"],
)
def test_settings_of_a_file_that_are_no_known_repr_are_shown_as_they_are(text: str) -> None:
    assert special_settings(text) == text


def test_a_method_without_a_repr_has_unknown_settings() -> None:
    class Nameless(BoundMethod):
        name, certified = "nameless", True

        def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
            return Degree()(network, problem, directions)

    assert evidence(method=Nameless()).special_settings.endswith("Nameless, whose settings are not known")


def test_evidence_goes_through_a_dict() -> None:
    whole = evidence()
    assert Evidence.from_dict(whole.to_dict()) == whole
    with pytest.raises(ValueError, match="SHA-256"):
        Fact("words", "too short")
