"""Training, regularizers and evaluation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import certgcl
from tests.public.fuzz import Target
from tests.public.targets.world import SMALL, World, target

METHODS = (certgcl.GRACE, certgcl.GCA, certgcl.ProGCL, certgcl.COSTA)


def evaluations(world: World) -> list[Target]:
    embeddings, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    masks = [np.arange(20) % 3 == k for k in range(3)]
    asked = {"embeddings": embeddings, "y": y, "protocol": "random-10-10-80", "masks": None, "seeds": 1}
    found = certgcl.Evaluation("public", (0.5, 0.6), (0.4, 0.5))
    return [
        target("evaluate", certgcl.evaluate, asked),
        target("evaluate, masks", certgcl.evaluate, {**asked, "protocol": "public", "masks": masks}, fuzzed=("masks",)),
        target("compare", certgcl.compare, {"a": found, "b": [0.5, 0.7]}),
        target(
            "Evaluation",
            lambda **given: str(certgcl.Evaluation(**given)),
            {"protocol": "public", "micro": (0.5,), "macro": (0.4,)},
        ),
        target(
            "Evaluation.pooled",
            lambda evaluations: str(certgcl.Evaluation.pooled(evaluations)),
            {"evaluations": [found, found]},
        ),
    ]


def regularizers(world: World) -> list[Target]:
    kind, graph = certgcl.CompactnessRegularizer, world.graph
    settings = {
        "kappa": 0.4,
        "method": "degree-fast",
        "anchors": 4,
        "budget": 1,
        "scale": 2.5,
        "every": 2,
        "objective": "kept",
    }
    views = {"encoder": world.encoder, "graph": graph, "view1": graph, "view2": graph.edge_index}

    def called(**given: Any) -> torch.Tensor:
        return kind(**given)(world.encoder, graph, graph, graph)

    def combining() -> Callable[..., Any]:
        regularizer = kind(budget=1)
        regularizer(world.encoder, graph, graph, graph)
        return regularizer.combine

    return [
        target("CompactnessRegularizer", called, settings),
        target("CompactnessRegularizer.clean", kind.clean, {"kappa": 0.3, "anchors": 2}),
        target("CompactnessRegularizer.from_dict", kind.from_dict, {"settings": settings}),
        target("CompactnessRegularizer.at", lambda epoch: kind(kappa=certgcl.Ramp(0.4, 2)).at(epoch).due, {"epoch": 3}),
        Target(
            "CompactnessRegularizer.__call__",
            lambda: kind(budget=1, anchors=2),
            lambda: {**views, "embeddings": (world.embeddings, world.embeddings)},
        ),
        Target("CompactnessRegularizer.combine", combining, lambda: {"infonce": torch.tensor(1.0)}),
    ]


def methods(world: World) -> list[Target]:
    graph = world.graph
    z = torch.randn(8, 4)
    fitting = {
        "data": graph,
        "folder": None,
        "resume": False,
        "progress": None,
        "checkpoint_every": 30.0,
        "tensorboard": False,
    }
    targets: list[Target] = []
    for kind in METHODS:
        settings = kind(
            **SMALL, projection=3, batch=4, regularizer=certgcl.CompactnessRegularizer(budget=1)
        ).get_params(deep=False) | {"device": "cpu"}
        session = kind(**SMALL).session(graph)
        targets += [
            target(kind.__name__, kind, settings),
            target(
                f"{kind.__name__}, fitted",
                lambda kind=kind, **given: kind(**given).fit(graph),
                settings,
                fuzzed=tuple(name for name in settings if name != "epochs"),
                callbacks=("encoder",),
            ),
            target(
                f"{kind.__name__}.set_params",
                lambda kind=kind, **given: kind(**SMALL).set_params(**given),
                {"hidden": 4, "seed": 1},
            ),
            target(f"{kind.__name__}.drop_probabilities", kind(**SMALL).drop_probabilities, {"graph": graph}),
            target(
                f"{kind.__name__}.contrast", kind(**SMALL).contrast, {"session": session, "z1": z, "z2": z, "epoch": 0}
            ),
        ]
    method = world.fitted
    return [
        *targets,
        Target(
            "GRACE.fit",
            lambda: certgcl.GRACE(**SMALL).fit,
            lambda: {**fitting, "folder": world.fresh()},
            files=True,
            callbacks=("progress",),
        ),
        target("GRACE.fit_transform", certgcl.GRACE(**SMALL).fit_transform, {"data": graph}),
        target(
            "GRACE.set_params, nested",
            lambda **given: certgcl.GRACE(**SMALL, regularizer=certgcl.CompactnessRegularizer(budget=1)).set_params(
                **given
            ),
            {"regularizer__kappa": 0.2, "regularizer__anchors": 3, "hidden": 4},
        ),
        target("GRACE.transform", method.transform, {"data": graph}),
        target("GRACE.session", certgcl.GRACE(**SMALL).session, {"data": graph}),
        target("GRACE.mask_probabilities", certgcl.GRACE(**SMALL).mask_probabilities, {"graph": graph}),
        target("GRACE.run_config", method.run_config, {"graph": graph}),
        target("GRACE.get_params", method.get_params, {"deep": True}),
        Target(
            "GRACE.save", lambda: replace_epochs(method).save, lambda: {"path": world.folder / "again.pt"}, files=True
        ),
        target("GRACE.load", certgcl.GRACE.load, {"path": world.folder / "method.pt"}, files=True),
        target(
            "ContrastiveMethod.load", certgcl.ContrastiveMethod.load, {"path": world.folder / "method.pt"}, files=True
        ),
    ]


def replace_epochs(method: Any) -> Any:
    """The same method with its encoder; saving must not depend on what else it was asked for."""
    again = replace(method)
    again.encoder_ = method.encoder_
    return again
