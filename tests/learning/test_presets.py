"""The presets against the paper's tables and the released configurations, written out here a second time."""

import dataclasses
import pickle

import pytest

from certgcl.errors import DatasetError, InputError
from certgcl.graphs.datasets import DATASETS
from certgcl.learning import presets
from certgcl.learning.presets import GRAPHS, METHODS, Preset

EMBEDDED = [name for name, info in DATASETS.items() if info.kind == "embedded"]
EVERY = [(method, dataset) for method in METHODS for dataset in DATASETS]


def row(method: str, *fields: str) -> list[tuple[object, ...]]:
    """A row of the paper's tables, in the order of its columns."""
    return [
        tuple(getattr(presets.get(method, graph), name) for name in fields)
        for graph in ("Cora", "CiteSeer", "PubMed", "Flickr", "BlogCatalog", "Computers", "Photo", "WikiCS")
    ]


def flat(method: str, name: str) -> list[object]:
    return [value for (value,) in row(method, name)]


def test_the_papers_graphs_are_those_of_the_catalogue() -> None:
    assert set(GRAPHS) == {name for name, info in DATASETS.items() if info.kind == "paper"}


@pytest.mark.parametrize(
    ("method", "rates"),
    [
        ("grace", [(0.4, 0.3), (0.3, 0.1), (0.4, 0.1), (0.4, 0.1), (0.4, 0.3), (0.6, 0.4), (0.5, 0.3), (0.2, 0.3)]),
        ("gca", [(0.3, 0.1), (0.2, 0.2), (0.4, 0.1), (0.3, 0.1), (0.3, 0.1), (0.6, 0.3), (0.3, 0.5), (0.2, 0.3)]),
        ("progcl", [(0.3, 0.1), (0.4, 0.3), (0.4, 0.1), (0.4, 0.1), (0.4, 0.2), (0.6, 0.3), (0.6, 0.3), (0.2, 0.3)]),
        ("costa", [(0.2, 0.4), (0.3, 0.1), (0.4, 0.1), (0.4, 0.1), (0.4, 0.2), (0.6, 0.3), (0.3, 0.5), (0.2, 0.3)]),
    ],
)
def test_drop_rates_are_the_papers(method: str, rates: list[tuple[float, float]]) -> None:
    assert flat(method, "drop_rates") == rates


@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        ("grace", [(0.7, 0.4), (0.9, 0.5), (0.5, 0.1), (0.3, 0.1), (0.5, 0.3), (0.3, 0.1), (0.2, 0.4), (0.3, 0.05)]),
        ("gca", [(0.6, 0.3), (0.7, 0.5), (0.3, 0.1), (0.2, 0.5), (0.3, 0.3), (0.2, 0.2), (0.6, 0.2), (0.3, 0.1)]),
        ("progcl", [(0.4, 0.4), (0.5, 0.2), (0.5, 0.3), (0.3, 0.5), (0.3, 0.2), (0.3, 0.2), (0.2, 0.3), (0.4, 0.1)]),
        ("costa", [(0.4, 0.1), (0.3, 0.05), (0.4, 0.3), (0.2, 0.1), (0.05, 0.4), (0.1, 0.1), (0.2, 0.3), (0.4, 0.3)]),
    ],
)
def test_temperature_and_kappa_are_the_papers(method: str, pairs: list[tuple[float, float]]) -> None:
    assert row(method, "temperature", "kappa") == pairs


@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        (
            "gca",
            [(-1, 700), (-1, 1000), (256, 2500), (1024, 2500), (1024, 1500), (256, 2500), (1024, 2500), (1024, 3500)],
        ),
        (
            "progcl",
            [(-1, 1000), (-1, 700), (256, 2000), (512, 2000), (1024, 1500), (256, 3000), (1024, 2500), (256, 3000)],
        ),
        (
            "costa",
            [(-1, 600), (-1, 1500), (512, 2000), (1024, 2500), (1024, 2500), (256, 2500), (512, 3500), (256, 3000)],
        ),
    ],
)
def test_anchors_and_epochs_are_the_papers(method: str, pairs: list[tuple[int, int]]) -> None:
    assert row(method, "anchors", "epochs") == pairs


def test_grace_has_the_papers_anchors_and_epochs_but_for_the_misprint_on_photo() -> None:
    assert flat("grace", "anchors") == [-1, -1, 256, 512, -1, 512, 512, 512]
    assert flat("grace", "epochs") == [200, 200, 2500, 1000, 1000, 2500, 1000, 4000]
    assert presets.get("grace", "Photo").sources["epochs"].startswith("misprint in the paper; certgcl's choice")
    assert all(
        "misprint" not in presets.get(method, graph).sources["epochs"]
        for method in METHODS
        for graph in GRAPHS
        if (method, graph) != ("grace", "Photo")
    )


@pytest.mark.parametrize("method", METHODS)
def test_widths_are_those_of_the_graph_and_progcl_is_narrower_on_photo(method: str) -> None:
    photo = (128, 128) if method == "progcl" else (256, 64)
    assert row(method, "hidden", "projection") == [
        (128, 128),
        (256, 256),
        (256, 256),
        (256, 256),
        (256, 256),
        (128, 128),
        photo,
        (256, 256),
    ]


@pytest.mark.parametrize(
    ("method", "with_prelu"),
    [
        ("grace", {"CiteSeer", "WikiCS"}),
        ("gca", {"CiteSeer", "Flickr", "BlogCatalog", "Computers", "WikiCS"}),
        ("progcl", set(GRAPHS) - {"Cora"}),
        ("costa", set()),
    ],
)
def test_activations_are_the_released_ones(method: str, with_prelu: set[str]) -> None:
    chosen = {graph: presets.get(method, graph).activation for graph in GRAPHS}
    assert chosen == {graph: "prelu" if graph in with_prelu else "relu" for graph in GRAPHS}


@pytest.mark.parametrize(
    ("method", "rates", "decay"),
    [
        ("grace", [5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-2, 5e-4, 1e-2], 1e-5),
        ("gca", [5e-4, 1e-3, 1e-2, 1e-3, 1e-3, 1e-2, 5e-4, 1e-2], 1e-5),
        ("progcl", [5e-4, 1e-2, 1e-3, 1e-3, 1e-3, 1e-2, 1e-2, 1e-2], 1e-5),
        ("costa", [1e-3] * 8, 0.0),
    ],
)
def test_learning_rates_and_weight_decay_are_the_released_ones(method: str, rates: list[float], decay: float) -> None:
    assert flat(method, "learning_rate") == rates
    assert set(flat(method, "weight_decay")) == {decay}


@pytest.mark.parametrize("kind", [{}, {"fast": True}, {"tuned": True}])
@pytest.mark.parametrize(("method", "dataset"), EVERY)
def test_every_value_has_a_source(method: str, dataset: str, kind: dict[str, bool]) -> None:
    preset = presets.get(method, dataset, **kind)
    valued = {field.name for field in dataclasses.fields(Preset)} - {"method", "dataset", "sources"}
    assert set(preset.sources) == valued
    assert all(preset.sources.values())
    assert (preset.method, preset.dataset, preset.protocol) == (method, dataset, DATASETS[dataset].protocol)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_fast_takes_fewer_epochs_anchors_and_channels_and_says_so(method: str, graph: str) -> None:
    full, fast = presets.get(method, graph), presets.get(method, graph, fast=True)
    dense = graph not in ("Cora", "CiteSeer", "PubMed")
    assert fast.epochs == {"Cora": 100, "CiteSeer": 60}.get(graph, 50)
    assert (fast.anchors, fast.every) == ((16, 5) if dense else (64, 1))
    assert fast.hidden == min(full.hidden, 128)
    assert (fast.batch == 2048) == (graph not in ("Cora", "CiteSeer") and method != "costa")
    changed = {name for name, source in fast.sources.items() if source == "certgcl: two CPU cores"}
    assert {"epochs", "anchors", "budget"} <= changed
    assert changed <= {"epochs", "anchors", "budget", "every", "hidden", "projection", "batch"}
    assert fast.budget == 1
    assert dataclasses.replace(fast, **{name: getattr(full, name) for name in changed}) == full


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_tuned_says_what_it_tuned_and_is_fast_elsewhere(method: str, graph: str) -> None:
    fast, tuned = presets.get(method, graph, fast=True), presets.get(method, graph, tuned=True)
    changed = {name for name, source in tuned.sources.items() if source == presets.TUNED_BY}
    assert dataclasses.replace(tuned, **{name: getattr(fast, name) for name in changed}) == fast
    own = presets.TUNED_SETTINGS.get(graph, {}) | presets.TUNED_METHODS.get((method, graph), {})
    assert changed == own.keys() - ({"batch"} if method == "costa" else set())


def test_a_preset_is_fast_or_tuned() -> None:
    with pytest.raises(InputError, match="fast=True with tuned=True"):
        presets.get("grace", "Cora", fast=True, tuned=True)


@pytest.mark.parametrize("dataset", EMBEDDED)
def test_embedded_graphs_have_small_presets_that_are_fast_already(dataset: str) -> None:
    preset = presets.get("gca", dataset)
    hidden, anchors = (32, 128) if dataset in ("digits", "sbm") else (16, -1)
    assert preset.settings() == {
        "hidden": hidden,
        "projection": hidden,
        "activation": "relu",
        "gain": 1.0,
        "learning_rate": 5e-3,
        "schedule": "constant",
        "weight_decay": 1e-5,
        "drop_rates": (0.3, 0.3),
        "mask_rates": (0, 0),
        "temperature": 0.5,
        "epochs": 100,
        "batch": None,
    }
    assert preset.regularizer_settings() == {"kappa": 0.4, "anchors": anchors, "every": 1, "budget": 1}
    assert set(preset.sources.values()) == {"certgcl's choice"}
    assert presets.get("gca", dataset, fast=True) == preset


def test_settings_are_keyword_arguments() -> None:
    preset = presets.get("grace", "Cora")
    assert preset.settings() == {
        "hidden": 128,
        "projection": 128,
        "activation": "relu",
        "gain": 1.0,
        "learning_rate": 5e-4,
        "schedule": "constant",
        "weight_decay": 1e-5,
        "drop_rates": (0.4, 0.3),
        "mask_rates": (0, 0),
        "temperature": 0.7,
        "epochs": 200,
        "batch": None,
    }
    assert preset.regularizer_settings() == {"kappa": 0.4, "anchors": -1, "every": 1, "budget": None}


def test_names_are_read_in_any_case() -> None:
    assert presets.get("ProGCL", "citeseer") == presets.get("progcl", "CiteSeer")


def test_a_preset_can_be_hashed_sent_and_written_down() -> None:
    preset = presets.get("costa", "Cora")
    assert len({preset, presets.get("costa", "Cora")}) == 1
    assert pickle.loads(pickle.dumps(preset)).sources == preset.sources
    assert dataclasses.asdict(preset)["sources"] == preset.sources


def test_an_unknown_method_is_refused_with_the_names() -> None:
    with pytest.raises(InputError, match=r"method 'dgi'.*grace, gca, progcl, costa"):
        presets.get("dgi", "Cora")


def test_an_unknown_graph_is_refused_with_the_names() -> None:
    with pytest.raises(DatasetError, match=r"dataset 'Coral'.*digits.*Did you mean 'Cora'\?"):
        presets.get("grace", "Coral")
