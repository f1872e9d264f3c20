"""Bounds, by every method, and certified accuracy."""

from typing import Any

import torch
from torch_geometric.data import Data

import certgcl
from certgcl import bounds
from certgcl.bounds import ChangeProblem
from tests.public.fuzz import Target
from tests.public.targets.world import World, target


def bounds_of_methods(world: World) -> list[Target]:
    graph = world.graph
    limits = {"time_limit": 10.0, "branch_limit": 2, "tolerance": 1e-6}
    question = {
        "model": world.encoder,
        "graph": graph,
        "budgets": 1,
        "method": "degree",
        "nodes": [0, 3],
        "dtype": torch.float64,
        "memory_limit": 2**31,
        "proof": False,
        "progress": False,
    }
    search = {**question, "method": "optimized", "view": None, "views": "one", **limits}
    instances = {
        "Degree": bounds.Degree(),
        "Crown": bounds.Crown(),
        "Interval": bounds.Interval(),
        "Paper": bounds.Paper(),
        "Released": bounds.Released(),
        "BranchAndBound": bounds.BranchAndBound(branch_limit=2),
    }
    problem, directions = world.problem(), torch.ones(8, 1, 2, dtype=torch.float64)
    called = {"network": world.weights.to(torch.float64), "problem": problem, "directions": directions}
    data = Data(x=world.x, edge_index=graph.edge_index)
    return [
        target(
            "AttachCompactness",
            lambda data, **given: certgcl.AttachCompactness(**given)(data),
            {"model": world.encoder, "budgets": 1, "nodes": [0, 3], "method": "interval", "data": data},
        ),
        target("node_compactness", certgcl.node_compactness, search),
        target(
            "node_compactness, both views",
            certgcl.node_compactness,
            {**question, "views": "both"},
            fuzzed=("method", "views", "nodes"),
        ),
        target("linear_bounds", certgcl.linear_bounds, {**question, "directions": torch.ones(8, 2)}),
        target("PreparedGraph", certgcl.PreparedGraph, {"graph": graph, "budgets": 1}),
        target(
            "node_compactness, prepared",
            certgcl.node_compactness,
            {"model": world.encoder, "graph": certgcl.PreparedGraph(graph, 1), "nodes": [0]},
        ),
        target(
            "export_problem",
            certgcl.export_problem,
            {
                "model": world.encoder,
                "graph": graph,
                "budgets": 1,
                "node": 3,
                "folder": world.folder / "problem",
                "direction": torch.ones(2),
                "at_least": 0.5,
                "precision": "float64",
            },
        ),
        target(
            "search_drops",
            certgcl.search_drops,
            {
                "model": world.encoder,
                "graph": graph,
                "budgets": 1,
                "nodes": [0, 3],
                "directions": torch.ones(8, 2),
                "seconds": 5.0,
                "seed": 1,
            },
        ),
        target(
            "search_changes",
            certgcl.search_changes,
            {
                "model": world.encoder,
                "graph": graph,
                "budgets": certgcl.Changes(additions=1),
                "nodes": [0, 3],
                "directions": torch.ones(8, 2),
                "seconds": 5.0,
            },
        ),
        target("bounds.get_method", bounds.get_method, {"method": "optimized", **limits}),
        target(
            "bounds.Degree",
            bounds.Degree,
            {
                "preactivations": "functional",
                "slopes": ("flat",),
                "lines": "shared",
                "resolution": 3,
                "hubs": 5,
                "patterns": 4,
            },
        ),
        target("bounds.Crown", bounds.Crown, {"slopes": ("flat",)}),
        target("bounds.Paper", lambda at: _certified(world, bounds.Paper(at=at)), {"at": graph}),
        target("bounds.Released", lambda at: _certified(world, bounds.Released(at=at)), {"at": (graph,)}),
        target(
            "bounds.BranchAndBound",
            lambda **given: _certified(world, bounds.BranchAndBound(**given)),
            {"bound": bounds.Degree(), **limits, "workers": 1, "progress": None, "executor": "here"},
            callbacks=("progress",),
        ),
        target(
            "bounds.ChangeProblem",
            ChangeProblem,
            {"graph": graph, "changes": problem.changes, "anchors": torch.arange(8), "memory_limit": 2**31},
        ),
        *(target(f"bounds.{name}.__call__", instance, called) for name, instance in instances.items()),
        *(
            target(f"bounds.{name}.{method}", getattr(instance, method), {"hidden_channels": 4})
            for name, instance in instances.items()
            for method in ("rules", "line_resolution", "functionals", "line_choices")
        ),
    ]


def _certified(world: World, method: Any) -> certgcl.Certificate:
    return certgcl.node_compactness(world.encoder, world.graph, 1, method=method, nodes=[3])


def accuracies(world: World) -> list[Target]:
    asked = {
        "model": world.encoder,
        "classifier": (torch.eye(2), torch.zeros(2)),
        "graph": world.graph,
        "y": world.y,
        "budgets": 1,
        "nodes": [0, 3],
        "method": "interval",
        "search": True,
    }
    yes = torch.ones(3, dtype=torch.bool)
    return [
        target("certified_accuracy", certgcl.certified_accuracy, asked),
        target(
            "certified_accuracy, class scores",
            certgcl.certified_accuracy,
            {name: value for name, value in asked.items() if name != "classifier"},
        ),
        target("certified_accuracy_curve", certgcl.certified_accuracy_curve, {**asked, "budgets": (0.3, 1)}),
        target(
            "CertifiedAccuracy",
            lambda **given: str(certgcl.CertifiedAccuracy(**given)),
            {
                "nodes": torch.arange(3),
                "correct": yes,
                "certified": yes,
                "broken": ~yes,
                "stable": yes,
                "labels": [0, 1, 1],
                "predicted": [0, 1, 1],
            },
        ),
        target(
            "CertifiedAccuracy.class_table",
            lambda **given: certgcl.CertifiedAccuracy(**given).class_table(),
            {
                "nodes": torch.arange(3),
                "correct": yes,
                "certified": yes,
                "broken": ~yes,
                "stable": yes,
                "labels": [0, "a", 1.5],
                "predicted": [0, 1, 1],
            },
        ),
    ]
