"""Random numbers: results depend on ``seed=`` alone, and the generators that others share stay where they are."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GCNConv

from certgcl import (
    COSTA,
    GCA,
    GRACE,
    CompactnessRegularizer,
    GCNEncoder,
    Graph,
    ProGCL,
    certified_accuracy,
    node_compactness,
)
from certgcl.certify.audit import audit
from certgcl.learning.methods import ContrastiveMethod
from certgcl.learning.methods.views import EdgeDropper, feature_mask
from certgcl.learning.training.checkpoint import Checkpoint, leaves, random_state
from certgcl.runtime.randomness import PrivateRandomness, generator_on
from tests.toys import random_graph, toy_network

SMALL: dict[str, Any] = {"hidden": 6, "epochs": 4, "mask_rates": (0.2, 0.3), "batch": 12}


def methods(regularizer: CompactnessRegularizer | None = None, seed: int = 3) -> list[ContrastiveMethod]:
    regularizer = regularizer or CompactnessRegularizer(anchors=7)
    settings: dict[str, Any] = {**SMALL, "regularizer": regularizer, "seed": seed}
    return [
        GRACE(**settings, inside_budget=True),
        GCA(**settings),
        COSTA(**settings),
        ProGCL(**settings, variant="mix", start=0.3),
        ProGCL(**settings, start=0.3),
    ]


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002


def drawn() -> list[Any]:
    return [torch.rand(2).tolist(), torch.randn(1).item(), random.random(), np.random.random()]  # noqa: NPY002


@contextmanager
def generators_untouched() -> Iterator[None]:
    before = list(leaves(random_state()))
    yield
    for (name, there), (_, here) in zip(before, leaves(random_state()), strict=True):
        assert torch.equal(there, here) if isinstance(there, Tensor) else there == here, name


@pytest.fixture
def graph() -> Graph:
    return random_graph(nodes=30, features=5, density=0.2)


def embedded(method: ContrastiveMethod, graph: Graph) -> Tensor:
    return method.fit(graph).transform(graph)


# -- what the library draws ------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
def test_a_fit_leaves_the_generators_where_they_are_and_does_not_ask_them(number: int, graph: Graph) -> None:
    results = []
    for user_seed in (1, 2):
        seed_all(user_seed)
        expected = drawn()
        seed_all(user_seed)
        with generators_untouched():
            results.append(embedded(methods()[number], graph))
        assert drawn() == expected
    assert torch.equal(*results)
    assert not torch.equal(results[0], embedded(methods(seed=4)[number], graph))


def test_so_does_one_that_is_resumed(graph: Graph, tmp_path: Path) -> None:
    for number in range(5):
        whole = embedded(methods()[number], graph)
        folder = tmp_path / str(number)
        seed_all(5)
        first = methods()[number]
        if not isinstance(first, ProGCL):  # whose schedule goes by the number of epochs
            first.set_params(epochs=2).fit(graph, folder=folder)
        seed_all(6)
        with generators_untouched():
            resumed = methods()[number].fit(graph, folder=folder, resume=True)
        assert torch.equal(resumed.transform(graph), whole)
        assert Checkpoint.load(folder / "checkpoint.pt").random == {}


def test_fits_in_four_threads_are_those_one_after_the_other(graph: Graph) -> None:
    shared = CompactnessRegularizer(anchors=7)  # each training takes its own copy of its state
    expected = [embedded(method, graph) for method in methods(shared)]
    found: dict[int, Tensor] = {}
    done = threading.Event()

    def disturb() -> None:
        while not done.is_set():
            torch.manual_seed(0)
            torch.rand(1)

    def fit(number: int) -> None:
        found[number] = embedded(methods(shared)[number], graph)

    other = threading.Thread(target=disturb)
    other.start()
    threads = [threading.Thread(target=fit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    other.join()
    for number in range(4):
        assert torch.equal(found[number], expected[number]), number


@pytest.mark.parametrize(
    "use",
    [
        lambda graph: audit(toy_network(5), graph, 1, samples=6, searches=3).lowest,
        lambda graph: node_compactness(GCNEncoder.from_layers(*CONVS), graph, 1).lower,
        lambda graph: node_compactness(toy_network(5), graph, 1, method="optimized", nodes=range(5)).lower,
        lambda graph: node_compactness(toy_network(5), graph, 1, views="both").lower,
        lambda graph: (
            certified_accuracy(toy_network(5), torch.eye(3, dtype=torch.float64), graph, torch.arange(30) % 3, 1).broken
        ),
    ],
)
def test_certificates_and_their_tests_do_not_touch_them_either(use: Callable[[Graph], Tensor], graph: Graph) -> None:
    results = []
    for user_seed in (1, 2):
        seed_all(user_seed)
        with generators_untouched():
            results.append(use(graph))
    assert torch.equal(*results)


CONVS = (GCNConv(5, 4).double(), GCNConv(4, 3).double())


def test_files_are_loaded_without_a_draw(graph: Graph, tmp_path: Path) -> None:
    path = GRACE(**SMALL).fit(graph).save(tmp_path / "method.pt")
    with generators_untouched():
        ContrastiveMethod.load(path)


def test_views_come_from_the_generator_they_are_given(graph: Graph) -> None:
    dropper = EdgeDropper(graph, 0.5, None)
    with generators_untouched():
        first, again = (dropper.sample(generator_on("cpu", 2)).col for _ in range(2))
        masks = [feature_mask(0.5, 50, torch.empty(0), generator_on("cpu", 2)) for _ in range(2)]
    assert torch.equal(first, again)
    assert torch.equal(*masks)
    torch.manual_seed(2)
    assert torch.equal(dropper.sample().col, first)


# -- layers that cannot be told --------------------------------------------------------------------


def layers() -> nn.ModuleList:
    return nn.ModuleList(
        [
            GCNEncoder(7, 8, 4, "prelu"),
            nn.Linear(4, 5),
            nn.Bilinear(3, 4, 5),
            nn.Embedding(4, 5),
            GCN(7, 8, 2, 3, dropout=0.5),
            GAT(7, 8, 2, 3, heads=2, dropout=0.5),
        ]
    )


def test_new_layers_get_the_weights_they_would_have_after_torch_manual_seed() -> None:
    torch.manual_seed(3)
    expected, following = layers(), torch.rand(3)
    own = generator_on("cpu", 3)
    with generators_untouched(), PrivateRandomness(own):
        found = layers()
    for one, other in zip(found.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(torch.rand(3, generator=own), following)


@pytest.mark.parametrize("place", [4, 5])
def test_dropout_and_its_gradients_are_those_after_torch_manual_seed(place: int, graph: Graph) -> None:
    model, x = layers()[place], torch.randn(30, 7)
    torch.manual_seed(3)
    expected = model(x, graph.edge_index)
    with generators_untouched(), PrivateRandomness(generator_on("cpu", 3)):
        found = model(x, graph.edge_index)
    assert torch.equal(found, expected)
    for one, other in zip(
        torch.autograd.grad(found.sum(), list(model.parameters())),
        torch.autograd.grad(expected.sum(), list(model.parameters())),
        strict=True,
    ):
        assert torch.equal(one, other)
    with PrivateRandomness(generator_on("cpu", 3)):
        assert torch.equal(model.eval()(x, graph.edge_index), model.eval()(x, graph.edge_index))
