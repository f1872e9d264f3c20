"""Nothing that is kept from one certificate to the next outlives what it was made of."""

import copy
import threading
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from torch import Tensor
from torch_geometric.data import Data

from certgcl import EdgeDropBudget, GCNEncoder, Graph, certify_shards, linear_bounds, merge_shards, node_compactness
from certgcl.bounds import METHODS, ChangeProblem
from certgcl.certify.certificate import Certificate
from certgcl.errors import BoundError, GraphError
from certgcl.learning.methods.views import EdgeDropper
from certgcl.runtime.tensor_cache import stamp
from tests.toys import gcn_weights, random_graph, toy_network

FIELDS = ("nodes", "lower", "nominal", "rounding", "local_budget", "directions")
NODES, EDGES = 24, 50

Write = Callable[[Tensor, Tensor], object]


def by_torch(target: Tensor, values: Tensor) -> None:
    target.copy_(values)


def by_data(target: Tensor, values: Tensor) -> None:
    target.data.copy_(values)


def by_numpy(target: Tensor, values: Tensor) -> None:
    target.detach().numpy()[...] = values.numpy()


def by_view(target: Tensor, values: Tensor) -> None:
    target.detach().view(-1)[:] = values.reshape(-1)


WRITES: tuple[Write, ...] = (by_torch, by_data, by_numpy, by_view)


def features(seed: int, filled: float = 0.03) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, 40, dtype=torch.float64, generator=generator)
    return x * (torch.rand(NODES, 40, generator=generator) < filled)


def graph_of(seed: int, x: Tensor) -> Graph:
    network = nx.gnm_random_graph(NODES, EDGES, seed=seed)
    edges = torch.tensor(list(network.edges)).T
    return Graph.of((x, torch.cat([edges, edges.flip(0)], dim=1)))


def fresh(graph: Graph) -> Graph:
    """The same graph as someone else would make it."""
    rowptr, col = graph.rowptr.clone(), graph.col.clone()
    row = torch.repeat_interleave(torch.arange(len(rowptr) - 1), rowptr.diff())
    return Graph.of((graph.x.clone(), torch.stack([row, col])))


def assert_same(found: Certificate, expected: Certificate) -> None:
    for name in FIELDS:
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


# -- one edit at a time ----------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("layout", ["sparsely filled", "well filled"])
def test_features_that_were_written_to_are_the_ones_certified(write: Write, layout: str) -> None:
    graph = graph_of(0, features(0, 0.03 if layout == "sparsely filled" else 0.9))
    weights = toy_network(40)
    before = node_compactness(weights, graph, 1)
    write(graph.x, -3 * graph.x)
    after = node_compactness(weights, graph, 1)
    assert not torch.equal(before.nominal, after.nominal)
    assert_same(after, node_compactness(weights, fresh(graph), 1))
    assert torch.equal(weights.embed(graph), weights.embed(fresh(graph)))


@pytest.mark.parametrize("write", [by_torch, by_data, by_numpy])
def test_so_are_features_that_are_stored_as_a_sparse_matrix(write: Write) -> None:
    graph, weights = graph_of(0, features(0).to_sparse_csr()), toy_network(40)
    before = node_compactness(weights, graph, 1)
    write(graph.x.values(), -3 * graph.x.values())
    after = node_compactness(weights, graph, 1)
    assert not torch.equal(before.nominal, after.nominal)
    assert_same(after, node_compactness(weights, fresh(graph), 1))


@pytest.mark.parametrize("write", WRITES)
def test_edges_that_were_written_to_are_the_ones_certified(write: Write) -> None:
    graph, other, weights = graph_of(0, features(0)), graph_of(1, features(0)), toy_network(40)
    node_compactness(weights, graph, 1)
    write(graph.rowptr, other.rowptr)
    write(graph.col, other.col)
    assert_same(node_compactness(weights, graph, 1), node_compactness(weights, other, 1))
    assert torch.equal(weights.embed(graph), weights.embed(other))


@pytest.mark.parametrize("name", ["degree", "row", "reverse"])
def test_what_a_graph_hands_out_can_be_written_to_without_harm(name: str) -> None:
    graph, weights = graph_of(0, features(0)), toy_network(40)
    getattr(graph, name).zero_()
    assert_same(node_compactness(weights, graph, 1), node_compactness(weights, fresh(graph), 1))
    assert torch.equal(getattr(graph, name), getattr(fresh(graph), name))


@pytest.mark.parametrize("write", [by_torch, by_data, by_numpy])
def test_a_graph_that_is_none_any_more_is_refused(write: Write) -> None:
    weights = toy_network(40)
    for spoil in (
        lambda graph: write(graph.col, graph.col.flip(0)),
        lambda graph: write(graph.col, torch.full_like(graph.col, NODES)),
        lambda graph: write(graph.col, torch.full_like(graph.col, -1)),
        lambda graph: write(graph.rowptr, graph.rowptr.flip(0)),
        lambda graph: write(graph.rowptr, graph.rowptr + 1),
        lambda graph: graph.x.resize_(NODES - 1, 40),
    ):
        for certified_before in (False, True):
            graph = graph_of(0, features(0))
            if certified_before:
                node_compactness(weights, graph, 1)
            spoil(graph)
            with pytest.raises(GraphError):
                node_compactness(weights, graph, 1)


@pytest.mark.parametrize("write", WRITES)
def test_features_that_are_no_numbers_any_more_are_never_certified(write: Write) -> None:
    graph = graph_of(0, features(0))
    write(graph.x, graph.x / 0)
    with pytest.raises((GraphError, BoundError)):
        node_compactness(toy_network(40), graph, 1)


def test_sparse_features_with_columns_out_of_range_are_refused() -> None:
    graph = graph_of(0, features(0).to_sparse_csr())
    node_compactness(toy_network(40), graph, 1)
    graph.x.col_indices()[0] = 10**9
    with pytest.raises(GraphError, match="sparse features that are not consistent"):
        node_compactness(toy_network(40), graph, 1)


def test_the_nodes_asked_for_may_be_written_to_afterwards() -> None:
    graph, weights, nodes = graph_of(0, features(0)), toy_network(40), torch.tensor([0, 1, 2])
    node_compactness(weights, graph, 1, nodes=nodes)
    nodes += 5
    assert_same(
        node_compactness(weights, graph, 1, nodes=nodes), node_compactness(weights, fresh(graph), 1, nodes=nodes)
    )


def test_so_may_a_certificate() -> None:
    graph, weights = graph_of(0, features(0)), toy_network(40)
    certificate = node_compactness(weights, graph, 1, nodes=[0, 1, 2])
    certificate.nodes.copy_(torch.tensor([5, 6, 7]))
    certificate.local_budget.fill_(2)
    for budget in (1, 2):
        assert_same(
            node_compactness(weights, graph, budget, nodes=[5, 6, 7]),
            node_compactness(weights, fresh(graph), budget, nodes=[5, 6, 7]),
        )


def test_a_problem_is_about_the_drops_and_anchors_it_was_made_with() -> None:
    graph, weights = random_graph(), toy_network()
    drops, anchors = EdgeDropBudget(local=1).on(graph), torch.arange(5)
    directions = weights.embed(graph)[:, None]
    problem, method = ChangeProblem(graph, drops, anchors), METHODS["degree"]
    expected = method(weights, ChangeProblem(fresh(graph), EdgeDropBudget(local=1).on(graph), anchors), directions)
    for tensor in (drops.local, drops.requested, drops.droppable, drops.droppable_degree, anchors):
        tensor.zero_()
    assert torch.equal(method(weights, problem, directions), expected)


def test_the_features_of_a_problem_are_those_of_its_graph() -> None:
    graph, weights = graph_of(0, features(0)), gcn_weights(toy_network(40))
    problem = ChangeProblem(graph, EdgeDropBudget(local=1).on(graph), torch.arange(5))
    before = problem.projected(weights)
    graph.x.mul_(-3)
    torch.testing.assert_close(problem.projected(weights), -3 * before)


def test_a_budget_does_not_change_with_what_it_was_made_of() -> None:
    graph = random_graph()
    counts, edges = torch.ones(12, dtype=torch.long), graph.edge_index
    probability = torch.full((edges.shape[1],), 0.4)
    budgets = EdgeDropBudget(local=counts), EdgeDropBudget.from_drop_probabilities(edges, probability)
    before = [budget.on(graph).local for budget in budgets]
    counts.fill_(3)
    edges.zero_()
    probability.fill_(7)
    assert all(torch.equal(budget.on(graph).local, local) for budget, local in zip(budgets, before, strict=True))
    with pytest.raises(AttributeError):
        budgets[0].total = 3


def test_certificates_of_one_graph_in_threads_are_those_one_after_the_other() -> None:
    graph = random_graph(nodes=60, density=0.15)
    models = [toy_network(seed=seed) for seed in range(4)]
    expected = [node_compactness(weights, fresh(graph), 2) for weights in models]
    found: dict[int, list[Certificate]] = {number: [] for number in range(4)}

    def certify(number: int) -> None:
        for _ in range(5):
            found[number].append(node_compactness(models[number], graph, 2))

    threads = [threading.Thread(target=certify, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, certificates in found.items():
        assert len(certificates) == 5
        for certificate in certificates:
            assert_same(certificate, expected[number])


def test_tensors_whose_writes_are_not_counted_are_never_taken_for_unchanged() -> None:
    with torch.inference_mode():
        x = features(0)
        assert stamp(x) != stamp(x)
        graph = graph_of(0, x)
        before = node_compactness(toy_network(40), graph, 1)
        x.mul_(-3)
        after = node_compactness(toy_network(40), graph, 1)
    assert not torch.equal(before.nominal, after.nominal)
    assert_same(after, node_compactness(toy_network(40), fresh(graph), 1))


def test_features_written_to_in_the_middle_of_a_run_of_shards_are_noticed(tmp_path: Path) -> None:
    graph = graph_of(0, features(0, 0.9))
    with pytest.raises(GraphError, match="while they were being certified"):
        certify_shards(toy_network(40), graph, 1, tmp_path, shards=3, progress=lambda _: graph.x.mul_(-3))


def test_a_model_that_is_trained_on_meanwhile_is_certified_as_it_was(tmp_path: Path) -> None:
    graph, weights = graph_of(0, features(0, 0.9)), toy_network(40)
    expected = node_compactness(copy.deepcopy(weights), graph, 1)
    certify_shards(weights, graph, 1, tmp_path, shards=3, progress=lambda _: weights.layers[0].terms[0].weight.mul_(-3))
    torch.testing.assert_close(merge_shards(tmp_path).lower, expected.lower)


@pytest.mark.parametrize("write", WRITES)
def test_views_are_drawn_of_the_graph_they_were_asked_of(write: Write) -> None:
    graph, other = graph_of(0, features(0)), graph_of(1, features(0))
    inside, probability = EdgeDropBudget(local=1).on(graph), torch.full((graph.num_edges,), 0.5)
    dropper = EdgeDropper(graph, probability, inside)
    torch.manual_seed(3)
    expected = EdgeDropper(fresh(graph), probability.clone(), EdgeDropBudget(local=1).on(graph)).sample()
    for tensor, values in (
        (graph.rowptr, other.rowptr),
        (graph.col, other.col),
        (inside.requested, 5 + inside.requested),
        (probability, 0 * probability),
    ):
        write(tensor, values)
    torch.manual_seed(3)
    assert torch.equal(dropper.sample().edge_index, expected.edge_index)


# -- any edits in any order ------------------------------------------------------------------------


class Edits(RuleBasedStateMachine):
    """Certificates among writes to everything that a user holds: each is what fresh copies of it all would give."""

    @initialize(seed=st.integers(0, 3), layout=st.sampled_from(["sparse", "filled", "csr"]))
    def begin(self, seed: int, layout: str) -> None:
        x = features(seed, 0.8 if layout == "filled" else 0.03)
        self.graph = graph_of(seed, x.to_sparse_csr() if layout == "csr" else x)
        dense = graph_of(seed + 10, features(seed))
        self.data = Data(x=dense.x, edge_index=dense.edge_index)
        self.view = graph_of(seed + 20, self.graph.x)
        torch.manual_seed(seed)
        self.encoder = GCNEncoder(40, 6, 4, "prelu").double().eval()
        self.local = torch.ones(NODES, dtype=torch.long)
        self.budget = EdgeDropBudget(local=self.local)
        self.nodes = torch.arange(8)
        self.directions = torch.randn(NODES, 4, dtype=torch.float64)
        self.certificates: list[Certificate] = []

    # -- what a user may write to

    @rule(write=st.sampled_from(WRITES[:3]), factor=st.sampled_from([-3.0, 0.5]))
    def scale_features(self, write: Write, factor: float) -> None:
        values = self.graph.x if self.graph.x.layout == torch.strided else self.graph.x.values()
        write(values, factor * values)

    @rule(write=st.sampled_from(WRITES), seed=st.integers(0, 9), filled=st.sampled_from([0.03, 0.9]))
    def replace_features(self, write: Write, seed: int, filled: float) -> None:
        if self.graph.x.layout == torch.strided:
            write(self.graph.x, features(seed, filled))

    @rule(write=st.sampled_from(WRITES), seed=st.integers(0, 9), which=st.sampled_from(["graph", "view"]))
    def rewire(self, write: Write, seed: int, which: str) -> None:
        graph, other = getattr(self, which), graph_of(seed, features(0))
        write(graph.rowptr, other.rowptr)
        write(graph.col, other.col)

    @rule(name=st.sampled_from(["degree", "row", "reverse"]))
    def write_to_what_a_graph_hands_out(self, name: str) -> None:
        getattr(self.graph, name).zero_()

    @rule(write=st.sampled_from(WRITES), seed=st.integers(0, 9))
    def change_data(self, write: Write, seed: int) -> None:
        write(self.data.x, features(seed))
        write(self.data.edge_index, graph_of(seed, features(0)).edge_index)

    @rule(write=st.sampled_from(WRITES[:3]), factor=st.sampled_from([-1.0, 0.9]))
    def train(self, write: Write, factor: float) -> None:
        with torch.no_grad():
            for parameter in self.encoder.parameters():
                write(parameter, factor * parameter.detach())

    @rule(seed=st.integers(0, 9), write=st.sampled_from(WRITES))
    def ask_about_other_nodes(self, seed: int, write: Write) -> None:
        write(self.nodes, torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))[:8])

    @rule(write=st.sampled_from(WRITES), value=st.integers(0, 3))
    def change_what_the_budget_was_made_of(self, write: Write, value: int) -> None:
        write(self.local, torch.full_like(self.local, value))
        if value:
            self.budget = EdgeDropBudget(local=self.local)

    @rule(write=st.sampled_from(WRITES))
    def turn_directions(self, write: Write) -> None:
        write(self.directions, -2 * self.directions)

    @rule(write=st.sampled_from(WRITES))
    def write_to_certificates(self, write: Write) -> None:
        for certificate in self.certificates:
            for name in FIELDS:
                tensor = getattr(certificate, name)
                write(tensor, (tensor + 1).flip(0) % NODES)

    # -- and what must hold then

    @rule(method=st.sampled_from(["degree", "degree-fast", "crown", "interval"]), some=st.booleans())
    def certify(self, method: str, some: bool) -> None:
        nodes = self.nodes if some else None
        found = node_compactness(self.encoder, self.graph, self.budget, method=method, nodes=nodes)
        expected = node_compactness(
            copy.deepcopy(self.encoder),
            fresh(self.graph),
            copy.deepcopy(self.budget),
            method=method,
            nodes=None if nodes is None else nodes.clone(),
        )
        assert_same(found, expected)
        self.certificates.append(found)

    @rule()
    def certify_with_a_view(self) -> None:
        found = node_compactness(self.encoder, self.graph, self.budget, view=self.view)
        assert_same(found, node_compactness(self.encoder, fresh(self.graph), self.budget, view=fresh(self.view)))

    @rule()
    def certify_directions(self) -> None:
        found = linear_bounds(self.encoder, self.graph, self.budget, self.directions, nodes=self.nodes)
        assert_same(
            found,
            linear_bounds(
                self.encoder, fresh(self.graph), self.budget, self.directions.clone(), nodes=self.nodes.tolist()
            ),
        )
        self.certificates.append(found)

    @rule()
    def certify_data(self) -> None:
        found = node_compactness(self.encoder, self.data, self.budget)
        assert_same(
            found, node_compactness(self.encoder, (self.data.x.clone(), self.data.edge_index.clone()), self.budget)
        )

    @invariant()
    def a_graph_says_what_its_tensors_say(self) -> None:
        if hasattr(self, "graph"):
            private, expected = self.graph.private(), fresh(self.graph)
            for name in ("degree", "row", "reverse", "col"):
                assert torch.equal(getattr(private, name), getattr(expected, name)), name
                assert torch.equal(getattr(self.graph, name), getattr(expected, name)), name


TestEdits = Edits.TestCase
TestEdits.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
