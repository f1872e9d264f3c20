"""Settings of the four contrastive methods on each graph, every value with its source.

``presets.get("grace", "Cora")`` are the paper's settings with the regularizer; ``fast=True`` is meant for a first look
on two CPU cores, ``tuned=True`` for results: plain GRACE then reaches its published accuracy on Cora in half a minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from certgcl.arguments import flag, shown
from certgcl.errors import InputError
from certgcl.graphs.datasets.catalogue import DatasetInfo, GraphSetInfo, Protocol, find_dataset, find_graph_set
from certgcl.learning.schedules import Schedule

# -- the tables, one column per graph --------------------------------------------------------------

GRAPHS = ("Cora", "CiteSeer", "PubMed", "Flickr", "BlogCatalog", "Computers", "Photo", "WikiCS")
METHODS = ("grace", "gca", "progcl", "costa")
GRAPH_METHODS = ("graphcl",)  # for sets of graphs

WIDTHS = {  # h, p
    "grace": ((128, 128), (256, 256), (256, 256), (256, 256), (256, 256), (128, 128), (256, 64), (256, 256)),
    "gca": ((128, 128), (256, 256), (256, 256), (256, 256), (256, 256), (128, 128), (256, 64), (256, 256)),
    "progcl": ((128, 128), (256, 256), (256, 256), (256, 256), (256, 256), (128, 128), (128, 128), (256, 256)),
    "costa": ((128, 128), (256, 256), (256, 256), (256, 256), (256, 256), (128, 128), (256, 64), (256, 256)),
}
ACTIVATIONS = {
    "grace": ("relu", "prelu", "relu", "relu", "relu", "relu", "relu", "prelu"),
    "gca": ("relu", "prelu", "relu", "prelu", "prelu", "prelu", "relu", "prelu"),
    "progcl": ("relu", "prelu", "prelu", "prelu", "prelu", "prelu", "prelu", "prelu"),
    "costa": ("relu", "relu", "relu", "relu", "relu", "relu", "relu", "relu"),
}
LEARNING_RATES = {
    "grace": (5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-2, 5e-4, 1e-2),
    "gca": (5e-4, 1e-3, 1e-2, 1e-3, 1e-3, 1e-2, 5e-4, 1e-2),
    "progcl": (5e-4, 1e-2, 1e-3, 1e-3, 1e-3, 1e-2, 1e-2, 1e-2),
    "costa": (1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3),
}
WEIGHT_DECAY = {"grace": 1e-5, "gca": 1e-5, "progcl": 1e-5, "costa": 0.0}
DROP_RATES = {  # p_e1, p_e2
    "grace": ((0.4, 0.3), (0.3, 0.1), (0.4, 0.1), (0.4, 0.1), (0.4, 0.3), (0.6, 0.4), (0.5, 0.3), (0.2, 0.3)),
    "gca": ((0.3, 0.1), (0.2, 0.2), (0.4, 0.1), (0.3, 0.1), (0.3, 0.1), (0.6, 0.3), (0.3, 0.5), (0.2, 0.3)),
    "progcl": ((0.3, 0.1), (0.4, 0.3), (0.4, 0.1), (0.4, 0.1), (0.4, 0.2), (0.6, 0.3), (0.6, 0.3), (0.2, 0.3)),
    "costa": ((0.2, 0.4), (0.3, 0.1), (0.4, 0.1), (0.4, 0.1), (0.4, 0.2), (0.6, 0.3), (0.3, 0.5), (0.2, 0.3)),
}
TEMPERATURE_KAPPA = {  # τ, κ
    "grace": ((0.7, 0.4), (0.9, 0.5), (0.5, 0.1), (0.3, 0.1), (0.5, 0.3), (0.3, 0.1), (0.2, 0.4), (0.3, 0.05)),
    "gca": ((0.6, 0.3), (0.7, 0.5), (0.3, 0.1), (0.2, 0.5), (0.3, 0.3), (0.2, 0.2), (0.6, 0.2), (0.3, 0.1)),
    "progcl": ((0.4, 0.4), (0.5, 0.2), (0.5, 0.3), (0.3, 0.5), (0.3, 0.2), (0.3, 0.2), (0.2, 0.3), (0.4, 0.1)),
    "costa": ((0.4, 0.1), (0.3, 0.05), (0.4, 0.3), (0.2, 0.1), (0.05, 0.4), (0.1, 0.1), (0.2, 0.3), (0.4, 0.3)),
}
UNMASKED = (0.0, 0.0)
ANCHORS_EPOCHS = {  # anchors of a step, -1 for all; epochs
    "grace": ((-1, 200), (-1, 200), (256, 2500), (512, 1000), (-1, 1000), (512, 2500), (512, 1000), (512, 4000)),
    "gca": ((-1, 700), (-1, 1000), (256, 2500), (1024, 2500), (1024, 1500), (256, 2500), (1024, 2500), (1024, 3500)),
    "progcl": ((-1, 1000), (-1, 700), (256, 2000), (512, 2000), (1024, 1500), (256, 3000), (1024, 2500), (256, 3000)),
    "costa": ((-1, 600), (-1, 1500), (512, 2000), (1024, 2500), (1024, 2500), (256, 2500), (512, 3500), (256, 3000)),
}

RELEASED = "released configuration"
SOURCES = {
    "hidden": RELEASED,
    "projection": RELEASED,
    "activation": RELEASED,
    "gain": "released configuration: 1",
    "learning_rate": RELEASED,
    "schedule": "released configuration: constant",
    "weight_decay": RELEASED,
    "drop_rates": "paper, table of drop rates",
    "mask_rates": "paper: the certificate is about edges alone",
    "temperature": "paper, table of temperature and kappa",
    "kappa": "paper, table of temperature and kappa",
    "anchors": "paper, table of anchors and epochs",
    "epochs": "paper, table of anchors and epochs",
    "every": "paper: in every epoch",
    "budget": "the drop rate of the views, as in the paper",
    "batch": "paper: all nodes are negatives",
    "protocol": "paper, evaluation",
}
OTHER_SOURCES = {
    ("grace", "Photo"): {"epochs": "misprint in the paper; certgcl's choice, the 1000 of the released configuration"},
    ("costa", "Cora"): dict.fromkeys(
        ("hidden", "projection"),
        "certgcl's choice, as the other methods on Cora; COSTA's released configuration has 256",
    ),
}
OWN_CHOICE = "certgcl's choice"

TWO_CORES = "certgcl: two CPU cores"
FAST_EPOCHS = {"Cora": 100, "CiteSeer": 60}
FAST_EPOCHS_ELSEWHERE = 50
FAST_ANCHORS = 64
DENSE = 10  # edges per node from which two hops cover most of the graph: then fewer anchors, and not in every epoch
DENSE_ANCHORS, DENSE_EVERY = 16, 5
ONE_EDGE = 1  # at each node: on dense graphs a drop rate means dozens of edges, too strong a worst case to learn from
FAST_WIDTH = 128  # of the embeddings, at most
FAST_BATCH = 2048  # nodes that InfoNCE compares in a step, on graphs with twice as many or more
TUNED_BY = "certgcl: settings under which plain GRACE is strong"
TUNED_SETTINGS: dict[str, dict[str, Any]] = {
    "Cora": {"drop_rates": (0.3, 0.4), "mask_rates": (0.3, 0.4), "temperature": 0.4, "epochs": 400, "batch": 1024},
    "CiteSeer": {"drop_rates": (0.3, 0.3), "mask_rates": (0.3, 0.3), "temperature": 0.4, "epochs": 100, "batch": 1024},
    "Photo": {"mask_rates": (0.1, 0.1), "learning_rate": 1e-3, "epochs": 100, "batch": 1024, "every": 4},
}
"""The differences from the paper's settings, the same for all methods."""
DENSE_GRACE: dict[str, Any] = {
    "hidden": 256,
    "gain": 16.0,
    "activation": "prelu",
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "temperature": 0.1,
    "batch": 1024,
    "every": 2,
}
"""The settings of GRACE on dense graphs: the paper's width, and initial weights that suit row-normalised features."""
TUNED_METHODS: dict[tuple[str, str], dict[str, Any]] = {
    ("gca", "Cora"): {"learning_rate": 1e-3, "epochs": 150},
    ("progcl", "Cora"): {"learning_rate": 1e-3, "epochs": 150},
    ("costa", "Cora"): {"epochs": 100},
    ("grace", "Photo"): DENSE_GRACE | {"epochs": 32},
    ("grace", "BlogCatalog"): DENSE_GRACE | {"projection": 256, "mask_rates": (0.2, 0.2), "epochs": 25},
    ("grace", "Flickr"): DENSE_GRACE | {"projection": 256, "mask_rates": (0.2, 0.2), "epochs": 28},
    ("grace", "Computers"): DENSE_GRACE | {"mask_rates": (0.2, 0.1), "epochs": 16},
}
"""The differences from these. On Cora a higher learning rate and fewer epochs, at about the same accuracy; elsewhere
the best of the settings that were tried (docs/results.md)."""
LARGE = 20_000  # nodes in a set of graphs, whose epochs have many steps
SMALL = 128  # nodes up to which an embedded graph needs fewer channels, and no sample of anchors

# -- one cell of them ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preset:
    """The settings of one method on one graph.

    Args:
        hidden: h, the width of the embeddings; the first layer has 2 h.
        projection: p, the width inside the projector.
        drop_rates: of the edges, in each of the two views.
        mask_rates: of the feature columns, likewise.
        temperature: τ of InfoNCE.
        kappa: κ, the share of the regularizer in the loss.
        anchors: of the regularizer in one step, -1 for all nodes.
        every: the regularizer is used in every n-th epoch.
        budget: the drops that it bounds; None for the larger of the drop rates.
        batch: how many nodes InfoNCE compares in one step, None for all.
        protocol: of the evaluation.
        sources: where each of these values comes from.
    """

    method: str
    dataset: str
    hidden: int
    projection: int
    activation: str
    gain: float
    learning_rate: float
    schedule: Schedule
    weight_decay: float
    drop_rates: tuple[float, float]
    mask_rates: tuple[float, float]
    temperature: float
    kappa: float
    anchors: int
    every: int
    budget: int | float | None
    epochs: int
    batch: int | None
    protocol: Protocol
    sources: Mapping[str, str] = field(repr=False, compare=False)

    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the estimator."""
        return {
            name: getattr(self, name)
            for name in (
                "hidden",
                "projection",
                "activation",
                "gain",
                "learning_rate",
                "schedule",
                "weight_decay",
                "drop_rates",
                "mask_rates",
                "temperature",
                "epochs",
                "batch",
            )
        }

    def regularizer_settings(self) -> dict[str, Any]:
        """Keyword arguments of the regularizer."""
        return {"kappa": self.kappa, "anchors": self.anchors, "every": self.every, "budget": self.budget}


def get(method: str, dataset: str, *, fast: bool = False, tuned: bool = False) -> Preset:
    """The preset of a method on a graph of :data:`certgcl.graphs.datasets.DATASETS`; names are not case-sensitive.

    Args:
        fast: fewer epochs, anchors and channels, for two CPU cores. The settings of embedded graphs, which are small,
            stay as they are.
        tuned: settings with which the plain methods are strong (features masked, more epochs than ``fast``, batches of
            negatives), and the regularizer has 64 anchors a step; settings that are not tuned are as in ``fast``.
    """
    name, several = method.lower() if isinstance(method, str) else "", find_graph_set(dataset)
    fast, tuned = flag(fast, "fast"), flag(tuned, "tuned")
    if fast and tuned:
        raise InputError("fast=True with tuned=True", "a preset is short or strong", "Choose one of them")
    known = METHODS if several is None else GRAPH_METHODS
    if name not in (*METHODS, *GRAPH_METHODS) or (several is not None and name not in known):
        raise InputError(
            f"method {shown(method)}",
            f"presets are for {', '.join(METHODS)}, and of sets of graphs for {', '.join(GRAPH_METHODS)}",
            "Pick one",
        )
    if several is not None:
        return _of_graphs(name, several)
    if name not in METHODS:
        raise InputError(
            f"method {shown(method)} on {shown(dataset)}", "it is trained on a set of graphs", "Name one, such as MUTAG"
        )
    info = find_dataset(dataset)
    if info.kind == "embedded":
        return _embedded(name, info)
    preset = _from_tables(name, info)
    if tuned:
        changed = {
            setting: value
            for setting, value in (TUNED_SETTINGS.get(info.name, {}) | TUNED_METHODS.get((name, info.name), {})).items()
            if (name, setting) != ("costa", "batch")
        }  # COSTA mixes all nodes
        return replace(_faster(preset, info), **changed, sources={**preset.sources, **dict.fromkeys(changed, TUNED_BY)})
    return _faster(preset, info) if fast else preset


def _from_tables(method: str, info: DatasetInfo) -> Preset:
    column = GRAPHS.index(info.name)
    hidden, projection = WIDTHS[method][column]
    temperature, kappa = TEMPERATURE_KAPPA[method][column]
    anchors, epochs = ANCHORS_EPOCHS[method][column]
    return Preset(
        method,
        info.name,
        hidden,
        projection,
        ACTIVATIONS[method][column],
        1.0,
        LEARNING_RATES[method][column],
        "constant",
        WEIGHT_DECAY[method],
        DROP_RATES[method][column],
        UNMASKED,
        temperature,
        kappa,
        anchors,
        1,
        None,
        epochs,
        None,
        info.protocol,
        {**SOURCES, **OTHER_SOURCES.get((method, info.name), {})},
    )


def _embedded(method: str, info: DatasetInfo) -> Preset:
    small = info.nodes <= SMALL
    hidden = 16 if small else 32
    return Preset(
        method,
        info.name,
        hidden,
        hidden,
        "relu",
        1.0,
        5e-3,
        "constant",
        WEIGHT_DECAY[method],
        (0.3, 0.3),
        UNMASKED,
        0.5,
        0.4,
        -1 if small else 128,
        1,
        ONE_EDGE,
        100,
        None,
        info.protocol,
        dict.fromkeys(SOURCES, OWN_CHOICE),
    )


def _of_graphs(method: str, info: GraphSetInfo) -> Preset:
    """These are made for two CPU cores anyway: ``fast`` and ``tuned`` change nothing."""
    epochs = 10 if info.nodes > LARGE else 40
    return Preset(
        method,
        info.name,
        32,
        32,
        "relu",
        1.0,
        1e-3,
        "constant",
        1e-5,
        (0.2, 0.2),
        UNMASKED,
        0.2,
        0.4,
        32,
        1,
        None,
        epochs,
        128,
        "ten-folds",
        dict.fromkeys(SOURCES, OWN_CHOICE),
    )


def _faster(preset: Preset, info: DatasetInfo) -> Preset:
    dense = info.edges is None or info.edges > DENSE * info.nodes
    anchors = DENSE_ANCHORS if dense else FAST_ANCHORS
    fast: dict[str, Any] = {
        "hidden": min(preset.hidden, FAST_WIDTH),
        "projection": min(preset.projection, FAST_WIDTH),
        "epochs": min(preset.epochs, FAST_EPOCHS.get(preset.dataset, FAST_EPOCHS_ELSEWHERE)),
        "anchors": anchors if preset.anchors == -1 else min(preset.anchors, anchors),
        "every": DENSE_EVERY if dense else 1,
        "budget": ONE_EDGE,
        "batch": FAST_BATCH if info.nodes >= 2 * FAST_BATCH and preset.method != "costa" else None,
    }
    changed = {name: value for name, value in fast.items() if value != getattr(preset, name)}
    return replace(preset, **changed, sources={**preset.sources, **dict.fromkeys(changed, TWO_CORES)})
