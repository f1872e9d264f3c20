"""The four methods as estimators: settings, one step against the obvious formula, files, resumption."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import certgcl
from certgcl.errors import CheckpointError, GraphError, InputError, NotFittedError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods import COSTA, GCA, GRACE, METHODS, ContrastiveMethod, GraphCL, ProGCL
from certgcl.learning.methods.base import MANY_NODES
from certgcl.learning.methods.infonce import info_nce, log_denominators
from certgcl.learning.methods.mixture import BetaMixture
from certgcl.learning.methods.progcl import Hardness, _mixed_negatives, mixed_info_nce, sampled_similarities
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.schedules import Ramp, share_of_rate
from tests.toys import random_graph

SMALL: dict[str, Any] = {"hidden": 6, "epochs": 4, "learning_rate": 1e-2}


@pytest.fixture
def small_graph() -> Graph:
    return random_graph(nodes=20, features=5)


@pytest.fixture(params=METHODS.values(), ids=METHODS)
def kind(request: pytest.FixtureRequest) -> type[ContrastiveMethod]:
    return request.param


def slow_loss(method: ContrastiveMethod, p: Tensor, q: Tensor, mixture: BetaMixture | None = None) -> Tensor:
    """The losses of the four papers, written out for one pair of projected views."""
    p, q, n, tau = normalize(p), normalize(q), len(p), method.temperature
    losses = []
    for own, other in ((p, q), (q, p)):
        for i in range(n):
            denominator = torch.exp(own[i] @ other[i] / tau)
            for view in [other] if isinstance(method, COSTA) else [other, own]:
                similarity = torch.stack([own[i] @ view[j] for j in range(n) if j != i])
                weight = torch.ones_like(similarity)
                if mixture is not None:
                    u = (similarity.detach() + 1) / 2
                    weight = mixture.posterior_low(u) * u
                    weight = weight / weight.mean()
                denominator = denominator + (weight * torch.exp(similarity / tau)).sum()
            losses.append(denominator.log() - own[i] @ other[i] / tau)
    return torch.stack(losses).mean()


def test_one_step_is_that_of_a_plain_pyg_loop(kind: type[ContrastiveMethod], small_graph: Graph) -> None:
    """The same views through ``GCNConv`` layers, the slow loss and Adam give the same parameters."""
    method = kind(**SMALL, mask_rates=(0.2, 0.3), activation="prelu")
    session, twin = method.session(small_graph), method.session(small_graph)
    session.step(0)
    chance = twin.generator
    views = [dropper.sample(chance) for dropper in twin.views]
    masks = [
        (torch.rand(small_graph.num_features, generator=chance) >= torch.as_tensor(rate)).float() for rate in twin.masks
    ]
    z = [twin.encoder(twin.graph.x * mask, view.edge_index) for mask, view in zip(masks, views, strict=True)]
    if isinstance(method, COSTA):
        mixing = torch.randn(10, 20, generator=chance) / 10**0.5
        mixing = mixing - mixing.mean(dim=1, keepdim=True)
        z = [mixing @ embeddings for embeddings in z]
    loss = slow_loss(method, *(twin.projector(embeddings) for embeddings in z))
    twin.optimizer.zero_grad()
    loss.backward()
    twin.optimizer.step()
    for (name, found), expected in zip(session.modules.named_parameters(), twin.modules.parameters(), strict=True):
        # Adam's first step is the sign of the gradient: compare the gradients.
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-3, atol=1e-6, msg=name)


def test_progcl_weighs_negatives_by_its_mixture(small_graph: Graph) -> None:
    method = ProGCL(**SMALL, start=0.0)
    session = method.session(small_graph)
    z1, z2 = torch.randn(2, 20, 6)
    found = method.contrast(session, z1, z2, epoch=0)
    assert session.mixture is not None
    expected = slow_loss(method, session.projector(z1), session.projector(z2), session.mixture)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_progcl_is_plain_before_its_start(small_graph: Graph) -> None:
    method = ProGCL(**SMALL, start=0.5)
    session = method.session(small_graph)
    z1, z2 = torch.randn(2, 20, 6)
    plain = info_nce(session.projector(z1), session.projector(z2), method.temperature).mean()
    torch.testing.assert_close(method.contrast(session, z1, z2, epoch=1), plain)
    assert session.mixture is None
    method.contrast(session, z1, z2, epoch=2)
    assert session.mixture is not None


def test_mixed_negatives_lie_between_the_hardest() -> None:
    p, q = (normalize(torch.randn(9, 4, dtype=torch.float64)) for _ in range(2))
    hardness = Hardness(BetaMixture.fit((sampled_similarities(p, q) + 1) / 2))
    others = (p @ q.T)[~torch.eye(9, dtype=torch.bool)].reshape(9, 8)
    mean = (_mixed_negatives(p, q, 0.5, hardness, 16).exp() / 16).log() * 0.5
    assert (mean <= others.max(dim=1).values + 1e-9).all()
    assert (mean >= others.min(dim=1).values - 1e-9).all()


def test_with_one_negative_all_mixtures_are_that_one() -> None:
    p, q = (normalize(torch.randn(2, 3, dtype=torch.float64)) for _ in range(2))
    hardness = Hardness(BetaMixture.start())
    s = p @ q.T
    first, second = (denominator.exp() for denominator in log_denominators(p, q, 0.5))
    expected = (
        (first + 5 * (torch.stack([s[0, 1], s[1, 0]]) / 0.5).exp()).log()
        + (second + 5 * (torch.stack([s[1, 0], s[0, 1]]) / 0.5).exp()).log()
    ) / 2 - s.diagonal() / 0.5
    torch.testing.assert_close(mixed_info_nce(p, q, 0.5, hardness, 5), expected)


def test_sampled_pairs_are_never_a_node_with_itself() -> None:
    unit = torch.eye(6)
    assert float(sampled_similarities(unit, unit).max()) == 0.0


@pytest.mark.parametrize("centred", [False, True])
def test_costa_projects_both_views_alike(small_graph: Graph, centred: bool) -> None:
    method = COSTA(**SMALL, ratio=0.25, centred=centred)
    z = torch.randn(20, 6)
    session = method.session(small_graph)
    session.generator.manual_seed(1)
    found = method.contrast(session, z, z, epoch=0)
    session.generator.manual_seed(1)
    mixing = torch.randn(5, 20, generator=session.generator) / 5**0.5
    projected = session.projector((mixing - mixing.mean(dim=1, keepdim=True) if centred else mixing) @ z)
    torch.testing.assert_close(found, info_nce(projected, projected, method.temperature, intra=False).mean())


def test_centred_costa_cannot_see_a_mean_that_all_nodes_share(small_graph: Graph) -> None:
    def loss(centred: bool, mean: float) -> float:
        method = COSTA(**SMALL, centred=centred)
        session, z = method.session(small_graph), torch.randn(20, 6, generator=torch.Generator().manual_seed(2))
        return float(method.contrast(session, z + mean, z.flip(0) + mean, epoch=0).detach())

    assert loss(True, 30.0) == pytest.approx(loss(True, 0.0), rel=1e-3)
    assert loss(False, 30.0) < loss(False, 0.0) - 0.1


def test_gca_drops_the_edges_of_central_nodes_less_often(small_graph: Graph) -> None:
    for centrality in ("degree", "eigenvector", "pagerank"):
        probability, _ = GCA(centrality=centrality, drop_rates=(0.3, 0.3)).drop_probabilities(small_graph)
        forward = small_graph.row < small_graph.col
        degrees = small_graph.degree[small_graph.row[forward]] + small_graph.degree[small_graph.col[forward]]
        assert torch.corrcoef(torch.stack([probability, degrees.double()]))[0, 1] < 0


# -- the estimator ---------------------------------------------------------------------------------


def test_fit_transform_and_certify(kind: type[ContrastiveMethod], small_graph: Graph) -> None:
    method = kind(**SMALL, regularizer=CompactnessRegularizer(kappa=0.3, anchors=8))
    embeddings = method.fit_transform(small_graph)
    assert embeddings.shape == (20, 6)
    assert not embeddings.requires_grad
    assert len(method.history_.records) == 4
    assert {"loss", "infonce", "pot", "compactness", "kappa"} <= set(method.history_.last)
    expected = method.encoder_(small_graph.x.float(), small_graph.edge_index)
    torch.testing.assert_close(embeddings, expected.detach())
    assert certgcl.node_compactness(method, small_graph, 1).certified


def test_a_gain_multiplies_the_first_layers_initial_weights(
    kind: type[ContrastiveMethod], small_graph: Graph, tmp_path: Path
) -> None:
    plain, scaled = (kind(**SMALL | {"epochs": 0}, gain=gain).fit(small_graph) for gain in (1, 16))
    weights, others = (method.encoder_.state_dict() for method in (plain, scaled))
    assert torch.equal(16 * weights.pop("conv1.lin.weight"), others.pop("conv1.lin.weight"))
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    again = kind.load(scaled.save(tmp_path / "method.pt"))
    assert torch.equal(again.transform(small_graph), scaled.transform(small_graph))


def test_a_gain_is_of_the_two_gcn_layers_alone() -> None:
    with pytest.raises(InputError, match="gain=2 with an encoder of your own"):
        GRACE(gain=2, encoder=torch.nn.Linear)
    with pytest.raises(InputError, match="gain=2 with convolution='gin'"):
        GraphCL(gain=2)
    assert GraphCL(gain=2, convolution="gcn").gain == 2


def test_the_same_seed_gives_the_same_embeddings(kind: type[ContrastiveMethod], small_graph: Graph) -> None:
    first, again, other = (kind(**SMALL, seed=seed).fit_transform(small_graph) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def stop_after_four_epochs(method: ContrastiveMethod, graph: Graph, folder: Path) -> None:
    """Leave a run behind that was killed."""

    class Stopped(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.epoch == 4:
            raise Stopped

    with pytest.raises(Stopped):
        method.fit(graph, folder=folder, checkpoint_every=1, progress=stop)


@pytest.mark.parametrize("variant", ["weight", "mix"])
def test_progcl_resumes_to_the_last_bit(variant: Any, small_graph: Graph, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **SMALL,
        "epochs": 6,
        "variant": variant,
        "start": 0.3,
        "regularizer": CompactnessRegularizer(anchors=5, kappa=Ramp(0.4, length=4)),
    }
    whole = ProGCL(**settings).fit_transform(small_graph)

    stop_after_four_epochs(ProGCL(**settings), small_graph, tmp_path)
    torch.manual_seed(99)
    resumed = ProGCL(**settings).fit(small_graph, folder=tmp_path, resume=True)
    assert torch.equal(resumed.transform(small_graph), whole)
    assert [record["epoch"] for record in resumed.history_.records] == list(range(6))


def test_a_cosine_schedule_moves_the_rate_of_every_step(kind: type[ContrastiveMethod], small_graph: Graph) -> None:
    session = kind(**SMALL | {"epochs": 8}, schedule="cosine").session(small_graph)
    rates = [session.at(epoch).optimizer.param_groups[0]["lr"] for epoch in range(8)]
    assert rates == [1e-2 * share_of_rate("cosine", epoch, 8) for epoch in range(8)]


def test_a_last_step_at_the_end_of_a_cosine_changes_nothing(small_graph: Graph) -> None:
    session = GRACE(**SMALL, schedule="cosine").session(small_graph)
    session.step(0)
    before = [weight.clone() for weight in session.encoder.parameters()]
    session.step(4)
    assert all(map(torch.equal, before, session.encoder.parameters()))


def test_a_cosine_schedule_resumes_to_the_last_bit(small_graph: Graph, tmp_path: Path) -> None:
    settings: dict[str, Any] = SMALL | {"epochs": 6, "schedule": "cosine"}
    whole = GRACE(**settings).fit_transform(small_graph)

    stop_after_four_epochs(GRACE(**settings), small_graph, tmp_path)
    for other in ({"epochs": 7}, {"schedule": "constant"}):
        with pytest.raises(CheckpointError, match=rf"differs in .*settings\.{next(iter(other))}"):
            GRACE(**settings | other).fit(small_graph, folder=tmp_path, resume=True)
    assert torch.equal(GRACE(**settings).fit(small_graph, folder=tmp_path, resume=True).transform(small_graph), whole)


def test_files_hold_settings_and_encoder(kind: type[ContrastiveMethod], small_graph: Graph, tmp_path: Path) -> None:
    method = kind(**SMALL, activation="prelu", regularizer=CompactnessRegularizer(budget=Ramp(0.3, length=2)))
    embeddings = method.fit_transform(small_graph)
    loaded = ContrastiveMethod.load(method.save(tmp_path / "method.pt"))
    assert type(loaded) is kind
    assert loaded.settings() == method.settings()
    assert torch.equal(loaded.transform(small_graph), embeddings)
    torch.load(tmp_path / "method.pt", weights_only=True)


def test_another_method_in_the_file_is_refused(small_graph: Graph, tmp_path: Path) -> None:
    path = COSTA(**SMALL).fit(small_graph).save(tmp_path / "method.pt")
    with pytest.raises(CheckpointError, match=r"COSTA.*a GRACE was requested"):
        GRACE.load(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "method.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match=r"method\.pt"):
        GRACE.load(tmp_path / "method.pt")


def test_settings_go_in_and_out_as_in_scikit_learn(kind: type[ContrastiveMethod]) -> None:
    from sklearn.base import clone

    method = kind(hidden=7, temperature=0.3)
    assert clone(method).get_params() == method.get_params()
    assert method.set_params(hidden=9).hidden == 9
    assert set(method.get_params()) == {setting.name for setting in fields(kind) if setting.init}
    json.dumps(method.settings())


def test_unknown_or_impossible_settings_change_nothing() -> None:
    method = GRACE()
    with pytest.raises(InputError, match="setting 'depth'"):
        method.set_params(depth=3, hidden=9)
    with pytest.raises(InputError, match="temperature"):
        method.set_params(hidden=9, temperature=0.0)
    assert method.hidden == 128


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"drop_rates": (0.4,)},
        {"drop_rates": (0.4, 1.0)},
        {"mask_rates": (-0.1, 0.0)},
        {"hidden": 0},
        {"epochs": -1},
        {"batch": 1},
        {"learning_rate": 0.0},
        {"inside_budget": True},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        GRACE(**settings)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (GCA, {"centrality": "closeness"}),
        (ProGCL, {"variant": "both"}),
        (ProGCL, {"start": 1.5}),
        (ProGCL, {"mixed": 0}),
        (COSTA, {"ratio": 0.0}),
        (COSTA, {"centred": 1}),
    ],
)
def test_settings_of_one_method_are_checked(method: type[ContrastiveMethod], settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        method(**settings)


def test_a_random_activation_cannot_be_trained() -> None:
    with pytest.raises(InputError, match="activation='rrelu'"):
        GRACE(**SMALL, activation="rrelu")


def test_settings_of_numpy_become_plain_ones_that_a_file_can_hold(small_graph: Graph, tmp_path: Path) -> None:
    method = GRACE(**SMALL | {"epochs": np.int64(1)}, seed=np.uint8(3), drop_rates=[np.float32(0.5), 0])
    assert method.drop_rates == (0.5, 0.0)
    assert {type(value) for value in (method.epochs, method.seed)} == {int}
    assert GRACE.load(method.fit(small_graph).save(tmp_path / "method.pt")).seed == 3


@pytest.mark.parametrize(
    "setting",
    [
        {"hidden": True},
        {"hidden": 2.0},
        {"hidden": 2**40},
        {"epochs": "3"},
        {"seed": -1},
        {"seed": 0.0},
        {"seed": True},
        {"batch": 2.0},
        {"batch": True},
        {"drop_rates": "12"},
        {"drop_rates": (True, False)},
        {"drop_rates": (0.1, float("nan"))},
        {"drop_rates": {0.1: 0, 0.2: 0}},
        {"mask_rates": (0.1, 1.0)},
        {"temperature": True},
        {"temperature": "0.5"},
        {"learning_rate": float("inf")},
        {"gain": 0.0},
        {"gain": float("inf")},
        {"gain": True},
        {"schedule": "linear"},
        {"schedule": None},
        {"weight_decay": -1e-9},
        {"weight_decay": float("nan")},
        {"inside_budget": 1},
        {"inside_budget": "no"},
        {"regularizer": 0.4},
        {"device": "meta"},
        {"device": "gpu"},
        {"device": 0},
    ],
)
def test_no_setting_is_read_as_something_else(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(setting))):
        GRACE(**setting)


def test_a_device_that_is_not_there_is_refused_when_it_is_needed(small_graph: Graph) -> None:
    method = GRACE(**SMALL, device="cuda:99")  # a file of another machine may name it
    with pytest.raises(InputError, match="cuda:99"):
        method.fit(small_graph)


@pytest.mark.parametrize("method", [GRACE, GCA, ProGCL, COSTA])
def test_one_node_has_nothing_to_be_contrasted_with(method: type[ContrastiveMethod]) -> None:
    with pytest.raises(GraphError, match="1 node"):
        method(**SMALL).fit((torch.ones(1, 3), torch.empty(2, 0, dtype=torch.long)))


def test_a_method_that_is_not_fitted_says_so(small_graph: Graph) -> None:
    for use in (
        lambda: GRACE().transform(small_graph),
        lambda: GRACE().save("nowhere"),
        lambda: certgcl.node_compactness(GRACE(), small_graph, 1),
    ):
        with pytest.raises(NotFittedError, match="not fitted"):
            use()


@pytest.mark.parametrize("budget", [2, Ramp(0.8, start=2, length=6)])
def test_sampled_views_stay_inside_the_certified_set_of_their_epoch(small_graph: Graph, budget: int | Ramp) -> None:
    regularizer = CompactnessRegularizer(budget=budget)
    session = GRACE(**SMALL, drop_rates=(0.8, 0.5), inside_budget=True, regularizer=regularizer).session(small_graph)
    most = []
    for epoch in range(10):
        rate = budget.at(epoch) if isinstance(budget, Ramp) else budget
        session.step(epoch)
        # A ramp goes up in steps of a twentieth of its end, and is rounded to the nearest.
        allowed = certgcl.EdgeDropBudget.of(min(0.8, rate + 0.02) if isinstance(budget, Ramp) else rate).on(small_graph)
        views = [dropper.sample() for _ in range(10) for dropper in session.views]
        lost = torch.stack([small_graph.degree - view.degree for view in views])
        assert (lost <= allowed.local).all()
        assert (lost <= regularizer.at(epoch).changes_on(small_graph).drops.local).all()
        most.append(int(lost.max()))
    assert most[-1] > 0
    if isinstance(budget, Ramp):
        assert most[:3] == [0, 0, 0]


def test_without_a_budget_it_is_the_larger_drop_rate(small_graph: Graph) -> None:
    method = GRACE(**SMALL, drop_rates=(0.2, 0.5), regularizer=CompactnessRegularizer(budget=None))
    assert method.session(small_graph).regularizer.budget == 0.5
    assert method.regularizer.budget is None


def test_a_batch_compares_so_many_nodes(small_graph: Graph) -> None:
    whole, part = (GRACE(**SMALL, batch=batch).session(small_graph).step(0)["infonce"] for batch in (None, 5))
    # At random weights the loss is near the log of the number of terms.
    assert part < whole


@pytest.mark.parametrize(("nodes", "threads"), [(MANY_NODES - 1, 1), (MANY_NODES, 2)])
def test_small_graphs_are_trained_by_one_thread(nodes: int, threads: int) -> None:
    data, before, found = random_graph(nodes, 0.002, features=3), torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        GRACE(hidden=2, epochs=1).fit(data, progress=lambda _: found.add(torch.get_num_threads()))
        assert (found, torch.get_num_threads()) == ({threads}, 2)
    finally:
        torch.set_num_threads(before)
