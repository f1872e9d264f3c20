"""Methods with an encoder of one's own."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GCNConv, GraphSAGE

import certgcl
from certgcl.errors import CheckpointError, EncoderError, InputError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods import GRACE, METHODS, ContrastiveMethod
from certgcl.learning.methods.encoders import SavedEncoder
from certgcl.learning.regularizer import CompactnessRegularizer
from tests.toys import random_graph
from tests.zoo import FACTORIES, gin, jumping, sage

SMALL: dict[str, Any] = {"hidden": 6, "epochs": 3, "learning_rate": 1e-2}


@pytest.fixture
def small_graph() -> Graph:
    return random_graph(nodes=20, features=5)


def regularizer() -> CompactnessRegularizer:
    return CompactnessRegularizer(anchors=8, budget=1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", FACTORIES)
def test_every_method_trains_every_encoder_and_twice_alike(name: str, kind: str, small_graph: Graph) -> None:
    method = METHODS[name](**SMALL, encoder=FACTORIES[kind], regularizer=regularizer())
    torch.manual_seed(0)
    one = method.fit(small_graph).transform(small_graph)
    torch.manual_seed(1)
    assert torch.equal(method.fit(small_graph).transform(small_graph), one)
    assert one.dtype == torch.float32
    assert "compactness" in method.history_.last
    assert certgcl.node_compactness(method, small_graph, 1).reading == "traced"


def test_the_global_generator_is_left_alone(small_graph: Graph) -> None:
    before = torch.get_rng_state()
    GRACE(**SMALL, encoder=jumping).fit(small_graph)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_is_trained_as_a_copy(small_graph: Graph) -> None:
    model = GraphSAGE(5, 6, 2).eval()
    state = copy.deepcopy(model.state_dict())
    method = GRACE(**SMALL, encoder=model)
    one = method.fit(small_graph).transform(small_graph)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not model.training
    assert torch.equal(method.fit(small_graph).transform(small_graph), one)
    assert method.fitted_encoder() is not model


def test_no_encoder_is_the_two_layer_gcn(small_graph: Graph) -> None:
    def two_layers(features: int, hidden: int) -> nn.Module:
        return certgcl.GCNEncoder(features, 2 * hidden, hidden, "relu")

    for mask_rates in ((0.0, 0.0), (0.2, 0.4)):
        one, other = (
            GRACE(**SMALL, mask_rates=mask_rates, encoder=encoder, regularizer=regularizer()).fit_transform(small_graph)
            for encoder in (None, two_layers)
        )
        assert torch.equal(one, other)


def test_an_encoder_that_is_called_learns_what_its_network_learns(small_graph: Graph) -> None:
    settings = {**SMALL, "mask_rates": (0.3, 0.1)}
    session, called = (GRACE(**settings, encoder=partial(GCN, num_layers=2)).session(small_graph) for _ in range(2))
    assert session.as_network
    called.as_network = False
    for epoch in range(3):
        assert session.step(epoch)["loss"] == pytest.approx(called.step(epoch)["loss"], rel=1e-5)
    for one, other in zip(session.modules.parameters(), called.modules.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


class OtherInTraining(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.conv = GCNConv(features, hidden)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.conv(x, edge_index)
        return 3 * z if self.training else z


@pytest.mark.parametrize(
    ("encoder", "as_network"), [(sage, True), (gin, False), (jumping, False), (OtherInTraining, False)]
)
def test_what_differs_in_training_is_called(encoder: Any, as_network: bool, small_graph: Graph) -> None:
    session = GRACE(**SMALL, encoder=encoder).session(small_graph)
    assert session.as_network == as_network
    assert session.network().hops >= 1
    assert session.encoder.training


def test_statistics_of_a_batch_norm_are_learned_and_certified(small_graph: Graph) -> None:
    method = GRACE(**SMALL, encoder=gin, regularizer=regularizer()).fit(small_graph)
    norms = [module for module in method.fitted_encoder().modules() if isinstance(module, nn.BatchNorm1d)]
    assert norms
    assert all(int(norm.num_batches_tracked) == 2 * SMALL["epochs"] for norm in norms)  # the regularizer runs nothing
    certificate = certgcl.node_compactness(method, small_graph, 1)
    assert certificate.precision == "float32"
    assert certificate.verify(method, small_graph).ok


# -- settings, files and folders -------------------------------------------------------------------


def test_settings_and_clones_keep_the_encoder() -> None:
    from sklearn.base import clone

    method = GRACE(encoder=sage)
    assert method.get_params()["encoder"] is sage
    assert clone(method).encoder is sage
    assert isinstance(clone(GRACE(encoder=GraphSAGE(5, 6, 2))).encoder, GraphSAGE)
    assert method.set_params(encoder=None).encoder is None


@pytest.mark.parametrize("encoder", [3, "sage", [sage]])
def test_what_is_no_encoder_is_refused(encoder: Any) -> None:
    with pytest.raises(InputError, match=r"encoder=.*factory \(in_channels, hidden\)"):
        GRACE(encoder=encoder)


def test_a_factory_that_makes_no_module_is_refused(small_graph: Graph) -> None:
    with pytest.raises(InputError, match="a list made by encoder="):
        GRACE(**SMALL, encoder=lambda features, hidden: [features, hidden]).fit(small_graph)


def test_an_encoder_that_cannot_be_read_is_refused_before_training(small_graph: Graph) -> None:
    with pytest.raises(EncoderError, match="GAT"):
        GRACE(**SMALL, encoder=partial(GAT, num_layers=2)).fit(small_graph)
    with pytest.raises(EncoderError, match="5 features"):
        GRACE(**SMALL, encoder=GraphSAGE(7, 6, 2)).fit(small_graph)


@pytest.mark.parametrize("encoder", [gin, GraphSAGE(5, 6, 2), lambda features, hidden: GCN(features, hidden, 3)])
def test_a_file_holds_the_trained_network(encoder: Any, small_graph: Graph, tmp_path: Path) -> None:
    method = GRACE(**SMALL, encoder=encoder).fit(small_graph)
    loaded = GRACE.load(method.save(tmp_path / "method.pt"))
    assert torch.equal(loaded.transform(small_graph), method.transform(small_graph))
    one, other = (certgcl.node_compactness(each, small_graph, 1) for each in (method, loaded))
    assert torch.equal(one.lower, other.lower)
    assert one.evidence == other.evidence
    again = ContrastiveMethod.load(loaded.save(tmp_path / "again.pt"))
    assert again.settings() == method.settings()
    torch.load(tmp_path / "again.pt", weights_only=True)


def test_a_loaded_method_needs_its_encoder_to_be_trained_again(small_graph: Graph, tmp_path: Path) -> None:
    method = GRACE(**SMALL, encoder=sage).fit(small_graph)
    loaded = GRACE.load(method.save(tmp_path / "method.pt"))
    assert loaded.encoder == SavedEncoder("tests.zoo:sage")
    with pytest.raises(InputError, match=r"tests\.zoo:sage.*set_params\(encoder=\.\.\.\)"):
        loaded.fit(small_graph)
    again = loaded.set_params(encoder=sage).fit(small_graph)
    assert torch.equal(again.transform(small_graph), method.transform(small_graph))


def test_a_network_that_was_changed_in_a_file_is_refused(small_graph: Graph, tmp_path: Path) -> None:
    from certgcl.files.atomic import save_tensors

    path = GRACE(**SMALL, encoder=sage).fit(small_graph).save(tmp_path / "method.pt")
    content = torch.load(path, weights_only=True)
    content["network"]["readout"] = [9]
    save_tensors(path, content)
    with pytest.raises(CheckpointError, match=r"method\.pt"):
        GRACE.load(path)


@pytest.mark.parametrize("encoder", [sage, gin, jumping, partial(GCN, num_layers=3, act="elu")])
def test_a_run_that_was_stopped_goes_on_to_the_same_encoder(encoder: Any, small_graph: Graph, tmp_path: Path) -> None:
    settings = {**SMALL, "encoder": encoder, "regularizer": regularizer()}
    whole = GRACE(**settings | {"epochs": 6}).fit(small_graph)
    GRACE(**settings).fit(small_graph, folder=tmp_path)
    resumed = GRACE(**settings | {"epochs": 6}).fit(small_graph, folder=tmp_path, resume=True)
    assert torch.equal(resumed.transform(small_graph), whole.transform(small_graph))


def test_a_run_knows_its_encoder(small_graph: Graph, tmp_path: Path) -> None:
    model = GraphSAGE(5, 6, 2)
    GRACE(**SMALL, encoder=model).fit(small_graph, folder=tmp_path)
    GRACE(**SMALL, encoder=copy.deepcopy(model)).fit(small_graph, folder=tmp_path, resume=True)
    for other in (None, sage, GraphSAGE(5, 6, 2)):
        with pytest.raises(CheckpointError, match=r"differs in settings\.encoder"):
            GRACE(**SMALL, encoder=other).fit(small_graph, folder=tmp_path, resume=True)


@pytest.mark.parametrize(
    "encoder", [lambda features, hidden: GCN(features, hidden, 2), partial(GCN, num_layers=2, act=nn.ReLU())]
)
def test_a_factory_without_a_name_has_no_run_folder(encoder: Any, small_graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="top level of a module"):
        GRACE(**SMALL, encoder=encoder).fit(small_graph, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    GRACE(**SMALL, encoder=encoder).fit(small_graph)
