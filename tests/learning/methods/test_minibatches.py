"""Training in mini-batches: all methods learn, a killed run goes on to the same bits, and what cannot be is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.nn.models import GraphSAGE

import certgcl
from certgcl.changes.changes import Changes
from certgcl.changes.feature_changes import FeatureBudget
from certgcl.errors import BudgetError, CheckpointError, GraphError, InputError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods import GCA, GRACE, METHODS, ContrastiveMethod, ProGCL, sampling
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.training.processes import Processes
from tests.learning.methods.neighbour_loader import StandIn
from tests.toys import random_graph

SMALL: dict[str, Any] = {"hidden": 6, "epochs": 4, "learning_rate": 1e-2, "batch_nodes": 12, "fanout": 3}


@pytest.fixture
def small_graph() -> Graph:
    return random_graph(nodes=50, density=0.1, features=5)


@pytest.fixture(params=METHODS.values(), ids=METHODS)
def kind(request: pytest.FixtureRequest) -> type[ContrastiveMethod]:
    return request.param


def weights_of(method: ContrastiveMethod) -> list[torch.Tensor]:
    return [tensor for _, tensor in method.network().named_tensors()]


def test_every_method_learns_in_batches(kind: type[ContrastiveMethod]) -> None:
    data = certgcl.load_dataset("digits")
    plain = {"start": 1.0} if issubclass(kind, ProGCL) else {}  # or its loss becomes another one on the way
    settings: dict[str, Any] = {"hidden": 16, "learning_rate": 5e-3, "epochs": 4, "batch_nodes": 450, "fanout": 4}
    method = kind(**settings, **plain, drop_rates=(0.2, 0.2)).fit(data)
    assert method.history_ is not None
    losses = method.history_.column("infonce")
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 0.2
    assert method.history_.column("steps") == [4.0] * 4


def test_a_resumed_run_has_the_same_bits(kind: type[ContrastiveMethod], small_graph: Graph, tmp_path: Path) -> None:
    settings = SMALL | {"regularizer": CompactnessRegularizer(anchors=4), "mask_rates": (0.2, 0.1)}
    if issubclass(kind, ProGCL):
        settings["start"] = 0.5  # as many plain epochs in both parts
    whole = kind(**settings).fit(small_graph)

    def end(progress: Any) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kind(**settings).fit(small_graph, folder=tmp_path, checkpoint_every=1, progress=end)
    resumed = kind(**settings).fit(small_graph, folder=tmp_path, resume=True)
    assert all(map(torch.equal, weights_of(resumed), weights_of(whole)))
    assert resumed.history_ is not None
    assert whole.history_ is not None
    assert resumed.history_.column("loss") == whole.history_.column("loss")


@pytest.mark.parametrize(
    "features", [FeatureBudget(masked=1, total=4), FeatureBudget.from_mask_rate(0.2), FeatureBudget(box=0.1)], ids=str
)
def test_features_that_may_change_are_trained_with_in_batches(features: FeatureBudget, small_graph: Graph) -> None:
    """The score of a step is what the encoder's own certificate is made of: it rises in training."""
    regularizer = CompactnessRegularizer(kappa=0.9, budget=Changes(drops=1, features=features))
    method = GRACE(**SMALL | {"epochs": 12}, mask_rates=(0.2, 0.2), regularizer=regularizer).fit(small_graph)
    assert method.history_ is not None
    terms = method.history_.column("pot")
    assert terms[-1] < terms[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_run_with_either_sampler_learns_says_so_and_is_resumed(
    compiled: bool, small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling.pyg, "WITH_PYG_LIB", compiled)
    monkeypatch.setattr(sampling.pyg, "WITH_TORCH_SPARSE", compiled)
    monkeypatch.setattr("torch_geometric.loader.NeighborLoader", StandIn)
    settings = SMALL | {"regularizer": CompactnessRegularizer(anchors=4)}
    whole = GRACE(**settings).fit(small_graph)
    GRACE(**settings | {"epochs": 1}).fit(small_graph, folder=tmp_path)
    resumed = GRACE(**settings).fit(small_graph, folder=tmp_path, resume=True)
    assert all(map(torch.equal, weights_of(resumed), weights_of(whole)))
    assert resumed.history_ is not None
    assert resumed.history_.last["compiled_sampler"] == compiled
    config = json.loads((tmp_path / "config.json").read_text())
    assert ("NeighborLoader" in str(config), "'sampler': 'torch'" in str(config)) == (compiled, not compiled)


def test_a_run_is_not_resumed_with_another_sampler(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    GRACE(**SMALL).fit(small_graph, folder=tmp_path)
    monkeypatch.setattr(sampling.TorchSampler, "name", "another")
    monkeypatch.setattr(sampling.CompiledSampler, "name", "another")
    with pytest.raises(CheckpointError, match="sampler"):
        GRACE(**SMALL | {"epochs": 6}).fit(small_graph, folder=tmp_path, resume=True)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("batch_nodes", [2, 7, 12, 1000])
def test_an_epoch_sees_every_node_once(small_graph: Graph, processes: int, batch_nodes: int) -> None:
    session = GRACE(**SMALL | {"batch_nodes": batch_nodes}).session(small_graph)
    assert session.minibatches is not None
    session.processes = Processes(0, processes)
    batches = session.minibatches.batches()
    sizes = [len(batch.nodes) for batch in batches]
    assert sorted(torch.cat([batch.nodes for batch in batches]).tolist()) == list(range(50))
    assert len(batches) % processes == 0
    assert min(sizes) >= 2
    assert max(sizes) - min(sizes) <= 1
    assert len(batches) == processes or max(sizes) <= max(batch_nodes, 3)


def test_a_batch_is_the_same_whatever_was_drawn_before(small_graph: Graph) -> None:
    """Its random numbers are its own: so it does not matter which process computes it."""
    session = GRACE(**SMALL, regularizer=CompactnessRegularizer(anchors=4)).session(small_graph)
    assert session.minibatches is not None
    first, second, *_ = session.minibatches.batches()
    state = session.generator.get_state()
    alone = session.minibatches.loss_of(second, 0).metrics
    session.minibatches.loss_of(first, 0)
    assert session.minibatches.loss_of(second, 0).metrics == alone
    assert torch.equal(session.generator.get_state(), state)


def test_edges_of_a_sample_drop_with_their_own_probabilities(small_graph: Graph) -> None:
    session = GCA(**SMALL).session(small_graph)
    forward = small_graph.edge_index[:, small_graph.row < small_graph.col]
    chosen = torch.tensor([0, 5, 9])
    expected = GCA(**SMALL).drop_probabilities(session.graph)
    for found, all_of_them in zip(session.drop_probabilities_at(forward[:, chosen]), expected, strict=True):
        assert isinstance(found, torch.Tensor)
        assert isinstance(all_of_them, torch.Tensor)
        assert torch.equal(found, all_of_them[chosen])


@pytest.mark.parametrize("sparse", [False, True])
def test_encoders_with_dropout_and_batch_norm_train_too(sparse: bool) -> None:
    graph = random_graph(nodes=50, density=0.1, features=5, sparse=sparse)

    def encoder(features: int, hidden: int) -> GraphSAGE:
        return GraphSAGE(features, hidden, 2, dropout=0.2, norm="batch_norm")

    method = GRACE(**SMALL, encoder=encoder, regularizer=CompactnessRegularizer(anchors=4)).fit(graph)
    assert method.history_ is not None
    assert method.history_.last["pot"] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_nodes": 1}, "batch_nodes"),
        ({"batch_nodes": 2.5}, "batch_nodes"),
        ({"fanout": 0}, "fanout"),
        ({"fanout": -2}, "fanout"),
        ({"inside_budget": True, "regularizer": CompactnessRegularizer()}, "inside_budget"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GRACE(**SMALL | settings)


def test_what_cannot_be_bounded_in_batches_is_refused_before_the_first_step(small_graph: Graph) -> None:
    with pytest.raises(InputError, match="paper"):
        GRACE(**SMALL, regularizer=CompactnessRegularizer(method="paper")).fit(small_graph)
    with pytest.raises(BudgetError, match="batch_nodes"):
        GRACE(**SMALL, regularizer=CompactnessRegularizer(budget=Changes(additions=1))).fit(small_graph)
    with pytest.raises(InputError, match="batches are of graphs"):
        certgcl.GraphCL(batch_nodes=10)


def test_processes_that_torchrun_did_not_start_are_refused(small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InputError, match="torchrun"):
        GRACE(**SMALL).fit(small_graph, distributed=True)
    with pytest.raises(InputError, match="batch_nodes"):
        GRACE().fit(small_graph, distributed=True)
    with pytest.raises(InputError, match="distributed"):
        GRACE(**SMALL).fit(small_graph, distributed="yes")  # type: ignore[arg-type]


def test_every_process_needs_a_batch(small_graph: Graph) -> None:
    with pytest.raises(GraphError, match="fewer processes"):
        GRACE(**SMALL).session(small_graph, Processes(0, 26))
