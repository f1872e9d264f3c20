"""The public calls of certgcl with valid arguments, on a graph of eight nodes."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import certgcl
from certgcl import bounds
from certgcl.bounds import ChangeProblem
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.learning import presets
from certgcl.models import registry
from tests.public.fuzz import Target

METHODS = (certgcl.GRACE, certgcl.GCA, certgcl.ProGCL, certgcl.COSTA)
SMALL = {"hidden": 4, "epochs": 1}


class World:
    """What the calls are about, made once; and folders that no other call has seen."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        folder.mkdir(parents=True)
        self.folder, self.number = folder, count()
        self.networkx = nx.convert_node_labels_to_integers(nx.gnp_random_graph(8, 0.4, seed=1))
        self.x = torch.randn(8, 3, dtype=torch.float64)
        self.graph = Graph.from_networkx(self.networkx, x=self.x)
        self.y = torch.arange(8) % 2
        self.encoder = certgcl.GCNEncoder(3, 4, 2).double().eval()
        self.weights = certgcl.read_network(self.encoder, self.graph)
        self.embeddings = self.weights.embed(self.graph).detach()
        self.certificate = certgcl.node_compactness(self.encoder, self.graph, 1, method="optimized")
        self.fitted = certgcl.GRACE(**SMALL).fit(self.graph)
        self.certificate.save(folder / "certificate.npz")
        self.weights.to(torch.float64).save(folder / "weights.npz")
        self.fitted.save(folder / "method.pt")
        certgcl.save_graph(folder / "graph", self.graph)
        certgcl.certify_shards(self.encoder, self.graph, 1, folder / "shards", shards=2)

    def fresh(self) -> Path:
        return self.folder / "fresh" / str(next(self.number))

    def problem(self) -> ChangeProblem:
        return ChangeProblem(self.graph, EdgeDropBudget(local=1).on(self.graph), torch.arange(8))


def public_calls(folder: Path) -> list[Target]:
    world = World(folder)
    return [
        *_graphs(world),
        *_budgets(world),
        *_encoders(world),
        *_bounds(world),
        *_certificates(world),
        *_whole_graphs(world),
        *_accuracies(world),
        *_files(world),
        *_evaluations(world),
        *_regularizers(world),
        *_methods(world),
    ]


def _of(name: str, function: Callable[..., Any], arguments: dict[str, Any], **settings: Any) -> Target:
    return Target(name, lambda: function, lambda: dict(arguments), **settings)


def _graphs(world: World) -> list[Target]:
    graph, edges = world.graph, world.graph.edge_index
    return [
        _of("Graph", Graph, {"x": world.x, "rowptr": graph.rowptr, "col": graph.col, "names": list("abcdefgh")}),
        _of("Graph.of", Graph.of, {"source": (world.x, edges)}),
        _of("Graph.of a pair", lambda x, edges: Graph.of((x, edges)), {"x": world.x.numpy(), "edges": edges.numpy()}),
        _of("Graph.from_edges", Graph.from_edges, {"x": world.x, "edge_index": edges, "names": list("abcdefgh")}),
        _of("Graph.numbers_of", Graph.from_edges(world.x, edges, list("abcdefgh")).numbers_of, {"nodes": ["a", "c"]}),
        _of("Graph.from_networkx", Graph.from_networkx, {"graph": world.networkx, "x": world.x}),
        _of("Graph.cleaned", Graph.cleaned, {"source": (world.x, edges)}),
        _of("Graph.has_edge", graph.has_edge, {"i": torch.tensor([0, 1]), "j": torch.tensor([1, 2])}),
        _of("Graph.gcn_matrix", graph.gcn_matrix, {"dtype": torch.float64}),
        _of(
            "Graph.project",
            graph.project,
            {"weight": world.encoder.conv1.lin.weight.T.detach(), "nodes": torch.tensor([1]), "absolute": True},
        ),
        _of("Graph.propagate", graph.propagate, {"values": world.x}),
        _of("Graph.with_edges", graph.with_edges, {"rowptr": graph.rowptr, "col": graph.col}),
        _of("Graph.with_features", graph.with_features, {"x": world.x}),
        _of("Graph.to", graph.to, {"device": "cpu", "dtype": torch.float32}),
        _of("Graph.view", graph.view, {"source": edges}),
    ]


def _budgets(world: World) -> list[Target]:
    graph, edges = world.graph, world.graph.edge_index
    rule = {"rule": "coverage", "coverage": 0.9, "jointly": True, "total": 3}
    probabilities = {"edge_index": edges, "probability": torch.full(edges.shape[1:], 0.3), **rule}
    return [
        _of("EdgeDropBudget", EdgeDropBudget, {"local": 1, "total": 2}),
        _of("EdgeDropBudget.from_drop_rate", EdgeDropBudget.from_drop_rate, {"rate": 0.3, **rule}),
        _of(
            "EdgeDropBudget.from_drop_probabilities",
            lambda **given: EdgeDropBudget.from_drop_probabilities(**given).on(graph),
            probabilities,
        ),
        _of("EdgeDropBudget.of", lambda budget: EdgeDropBudget.of(budget).on(graph), {"budget": 1}),
        _of("EdgeDropBudget.on", EdgeDropBudget(local=1).on, {"graph": graph}),
        _of(
            "Changes",
            lambda **given: certgcl.Changes(**given).on(graph),
            {"drops": 1, "features": certgcl.FeatureBudget(masked=1)},
        ),
        _of("Changes(additions)", lambda **given: certgcl.Changes(**given).on(graph), {"drops": 1, "additions": 1}),
        _of("Changes(flips)", lambda **given: certgcl.Changes(**given).on(graph), {"flips": 1}),
        _of(
            "EdgeAddBudget",
            lambda **given: certgcl.EdgeAddBudget(**given).on(graph),
            {"local": 1, "total": 2, "candidates": "two-hop"},
        ),
        _of("EdgeAddBudget(pairs)", lambda **given: certgcl.EdgeAddBudget(**given).on(graph), {"candidates": [(0, 2)]}),
        _of("EdgeAddBudget.of", lambda budget: certgcl.EdgeAddBudget.of(budget).on(graph), {"budget": 1}),
        _of("EdgeAddBudget.on", certgcl.EdgeAddBudget(local=1).on, {"graph": graph}),
        _of(
            "EdgeFlipBudget",
            lambda **given: certgcl.EdgeFlipBudget(**given).on(graph),
            {"local": 1, "total": 2, "candidates": "all"},
        ),
        _of("EdgeFlipBudget.of", lambda budget: certgcl.EdgeFlipBudget.of(budget).on(graph), {"budget": 1}),
        _of("EdgeFlipBudget.on", certgcl.EdgeFlipBudget(local=1).on, {"graph": graph}),
        _of("FeatureBudget", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"masked": 1, "total": 2}),
        _of("FeatureBudget(box)", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"box": 0.1}),
        _of("FeatureBudget(columns)", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"columns": 1}),
        _of(
            "FeatureBudget.from_mask_rate",
            lambda **given: certgcl.FeatureBudget.from_mask_rate(**given).on(graph),
            {"rate": 0.3, "coverage": 0.9},
        ),
        _of(
            "FeatureBudget.from_mask_probabilities",
            lambda **given: certgcl.FeatureBudget.from_mask_probabilities(**given).on(graph),
            {"probability": torch.full((graph.num_features,), 0.3), "coverage": 0.9},
        ),
        _of("FeatureBudget.on", certgcl.FeatureBudget(masked=1).on, {"graph": graph}),
        _of("Changes.of", lambda budgets: certgcl.Changes.of(budgets).on(graph), {"budgets": 1}),
        _of("Changes.on", certgcl.Changes(drops=1).on, {"graph": graph}),
        _of("Ramp", lambda **given: certgcl.Ramp(**given).at(3), {"last": 0.4, "start": 2, "length": 3, "first": 0.1}),
        _of("Ramp.at", certgcl.Ramp(0.4, start=2).at, {"epoch": 1}),
    ]


def _encoders(world: World) -> list[Target]:
    weights, path = world.weights, world.folder / "weights.npz"
    layers = {"conv1": GCNConv(3, 4), "conv2": GCNConv(4, 2), "activation": "prelu", "out_activation": None}
    return [
        _of(
            "GCNEncoder",
            certgcl.GCNEncoder,
            {"in_channels": 3, "hidden_channels": 4, "out_channels": 2, "activation": "relu", "out_activation": "same"},
        ),
        _of("GCNEncoder.from_layers", certgcl.GCNEncoder.from_layers, layers),
        _of(
            "GraphNetwork",
            certgcl.GraphNetwork,
            {"layers": weights.layers, "readout": (2,), "precision": torch.float32, "reading": "given"},
        ),
        _of("GraphNetwork.to", weights.to, {"dtype": torch.float32, "device": torch.device("cpu")}),
        _of("GraphNetwork.embed", weights.embed, {"graph": world.graph}),
        Target("GraphNetwork.save", lambda: weights.save, lambda: {"path": world.folder / "again.npz"}, files=True),
        _of("GraphNetwork.load", certgcl.GraphNetwork.load, {"path": path}, files=True),
        _of("read_network", certgcl.read_network, {"model": world.encoder, "graph": world.graph}),
        _of(
            "register_activation",
            _registered,
            {
                "name": "twice",
                "function": lambda p: 2 * p,
                "derivative": lambda p: torch.full_like(p, 2),
                "turns": (),
                "convex_first": True,
                "gain": 2.0,
                "stands_for": (),
            },
            fuzzed=("name", "turns", "gain", "stands_for"),
        ),
        _of("compactness_directions", certgcl.compactness_directions, {"embeddings": world.embeddings}),
    ]


def _registered(**given: Any) -> None:
    """An activation is registered, and forgotten again."""
    own, names = dict(registry.OWN), dict(registry.ACTIVATIONS)
    try:
        certgcl.register_activation(**given)
    finally:
        registry.OWN.clear()
        registry.OWN.update(own)
        registry.ACTIVATIONS.clear()
        registry.ACTIVATIONS.update(names)


def _bounds(world: World) -> list[Target]:
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
        _of(
            "AttachCompactness",
            lambda data, **given: certgcl.AttachCompactness(**given)(data),
            {"model": world.encoder, "budgets": 1, "nodes": [0, 3], "method": "interval", "data": data},
        ),
        _of("node_compactness", certgcl.node_compactness, search),
        _of(
            "node_compactness, both views",
            certgcl.node_compactness,
            {**question, "views": "both"},
            fuzzed=("method", "views", "nodes"),
        ),
        _of("linear_bounds", certgcl.linear_bounds, {**question, "directions": torch.ones(8, 2)}),
        _of("PreparedGraph", certgcl.PreparedGraph, {"graph": graph, "budgets": 1}),
        _of(
            "node_compactness, prepared",
            certgcl.node_compactness,
            {"model": world.encoder, "graph": certgcl.PreparedGraph(graph, 1), "nodes": [0]},
        ),
        _of(
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
        _of(
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
        _of(
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
        _of("bounds.get_method", bounds.get_method, {"method": "optimized", **limits}),
        _of(
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
        _of("bounds.Crown", bounds.Crown, {"slopes": ("flat",)}),
        _of("bounds.Paper", lambda at: _certified(world, bounds.Paper(at=at)), {"at": graph}),
        _of("bounds.Released", lambda at: _certified(world, bounds.Released(at=at)), {"at": (graph,)}),
        _of(
            "bounds.BranchAndBound",
            lambda **given: _certified(world, bounds.BranchAndBound(**given)),
            {"bound": bounds.Degree(), **limits, "workers": 1, "progress": None, "executor": "here"},
            callbacks=("progress",),
        ),
        _of(
            "bounds.ChangeProblem",
            ChangeProblem,
            {"graph": graph, "changes": problem.changes, "anchors": torch.arange(8), "memory_limit": 2**31},
        ),
        *(_of(f"bounds.{name}.__call__", instance, called) for name, instance in instances.items()),
        *(
            _of(f"bounds.{name}.{method}", getattr(instance, method), {"hidden_channels": 4})
            for name, instance in instances.items()
            for method in ("rules", "line_resolution", "functionals", "line_choices")
        ),
    ]


def _certified(world: World, method: Any) -> certgcl.Certificate:
    return certgcl.node_compactness(world.encoder, world.graph, 1, method=method, nodes=[3])


def _certificates(world: World) -> list[Target]:
    certificate, path = world.certificate, world.folder / "certificate.npz"
    halves = [certificate.at(torch.arange(4)), certificate.at(torch.arange(4, 8))]
    totals = [certgcl.node_compactness(world.encoder, world.graph, EdgeDropBudget(1, total)) for total in range(3)]
    stored = certgcl.StoredGraph.save(world.folder / "rows", world.graph)
    return [
        _of(
            "collective_certificate",
            certgcl.collective_certificate,
            {"certificates": totals, "model": world.encoder, "graph": world.graph, "time_limit": 10.0},
        ),
        _of("Certificate.witness", certificate.witness, {"node": 2}),
        _of("Certificate.named_witness", certificate.named_witness, {"node": 2}),
        _of(
            "Certificate.collective",
            certificate.collective,
            {"model": world.encoder, "graph": world.graph, "others": [], "time_limit": 5.0},
        ),
        _of("Certificate.at", certificate.at, {"positions": torch.tensor([1, 2])}),
        _of("Certificate.joined", certgcl.Certificate.joined, {"parts": halves}),
        Target(
            "Certificate.save",
            lambda: certificate.save,
            lambda: {"path": world.folder / "again.npz", "notes": {"a": 1}},
            files=True,
        ),
        _of(
            "Certificate.verify",
            certificate.verify,
            {"model": world.encoder, "graph": world.graph, "nodes": [0, 3], "view": None, "directions": None},
        ),
        _of("Certificate.load", certgcl.Certificate.load, {"path": path}, files=True),
        _of("Certificate.load_with_notes", certgcl.Certificate.load_with_notes, {"path": path}, files=True),
        Target(
            "certify_shards",
            lambda: certgcl.certify_shards,
            lambda: {
                "model": world.encoder,
                "graph": world.graph,
                "budgets": 1,
                "out": world.fresh(),
                "method": "interval",
                "view": None,
                "directions": None,
                "nodes": [0, 3, 5],
                "dtype": torch.float64,
                "shards": 2,
                "order": "near",
                "only": [0],
                "worker": (0, 1),
                "memory_limit": 2**31,
                "executor": "here",
                "progress": None,
            },
            files=True,
            callbacks=("progress",),
        ),
        _of("LocalProcesses", certgcl.LocalProcesses, {"processes": 2, "retries": 1}),
        _of("RayCluster", certgcl.RayCluster, {"address": "auto", "cpus": 1, "retries": 1}),
        Target(
            "StoredGraph.save",
            lambda: certgcl.StoredGraph.save,
            lambda: {"folder": world.fresh(), "graph": world.graph},
            files=True,
        ),
        _of("StoredGraph.open", certgcl.StoredGraph.open, {"folder": stored.folder, "check": True}, files=True),
        _of("StoredGraph.halo", stored.halo, {"anchors": torch.tensor([0, 3]), "hops": 2, "limit": 2**31}),
        _of("merge_shards", certgcl.merge_shards, {"out": world.folder / "shards"}, files=True),
    ]


def _whole_graphs(world: World) -> list[Target]:
    asked = {
        "model": world.encoder,
        "graphs": [world.graph, world.graph.with_features(2 * world.x)],
        "budgets": 1,
        "pool": "mean",
        "method": "degree",
        "dtype": torch.float64,
        "enumerate_up_to": 4,
        "time_limit": 5.0,
    }
    certificate = certgcl.graph_compactness(**asked)
    return [
        _of("graph_compactness", certgcl.graph_compactness, asked),
        _of("graph_bounds", certgcl.graph_bounds, {**asked, "directions": torch.ones(2, 2)}),
        _of("GraphCertificate.witness", certificate.witness, {"graph": 1, "direction": 0}),
        _of(
            "GraphCertificate.verify",
            certificate.verify,
            {"model": world.encoder, "graphs": asked["graphs"], "pool": "mean", "directions": torch.ones(2, 2)},
        ),
        Target(
            "GraphCertificate.save",
            lambda: certificate.save,
            lambda: {"path": world.folder / "graphs_again.npz", "notes": {"by": "a test"}},
            files=True,
        ),
        _of(
            "GraphCertificate.load",
            certgcl.GraphCertificate.load,
            {"path": certificate.save(world.folder / "graphs.npz")},
            files=True,
        ),
        *_trained_on_graphs(asked["graphs"], world),
    ]


def _trained_on_graphs(graphs: list[Graph], world: World) -> list[Target]:
    settings = certgcl.GraphCL(
        **SMALL, projection=3, batch=4, regularizer=certgcl.CompactnessRegularizer(budget=1)
    ).get_params(deep=False) | {"device": "cpu"}
    fitted, z = certgcl.GraphCL(**SMALL).fit(graphs), torch.randn(2, 4)
    regularizer = certgcl.CompactnessRegularizer(budget=1)
    return [
        _of("GraphCL", certgcl.GraphCL, settings),
        _of(
            "GraphCL, fitted",
            lambda **given: certgcl.GraphCL(**given).fit(graphs),
            settings,
            fuzzed=tuple(name for name in settings if name != "epochs"),
            callbacks=("encoder",),
        ),
        _of(
            "GraphCL.set_params", lambda **given: certgcl.GraphCL(**SMALL).set_params(**given), {"hidden": 4, "seed": 1}
        ),
        Target(
            "GraphCL.fit",
            lambda: certgcl.GraphCL(**SMALL).fit,
            lambda: {"data": graphs, "folder": world.fresh(), "resume": False, "progress": None},
            files=True,
            callbacks=("progress",),
        ),
        _of("GraphCL.transform", fitted.transform, {"data": graphs}),
        _of("GraphCL.session", certgcl.GraphCL(**SMALL).session, {"data": graphs}),
        _of("GraphCL.contrast", fitted.contrast, {"session": fitted.session(graphs), "z1": z, "z2": z, "epoch": 0}),
        _of("GraphCL.run_config", fitted.run_config, {"graph": graphs}),
        _of(
            "CompactnessRegularizer.of_graphs",
            regularizer.of_graphs,
            {
                "encoder": world.encoder,
                "graphs": graphs,
                "view1": graphs,
                "view2": graphs,
                "pool": "mean",
                "generator": None,
            },
        ),
    ]


def _accuracies(world: World) -> list[Target]:
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
        _of("certified_accuracy", certgcl.certified_accuracy, asked),
        _of(
            "certified_accuracy, class scores",
            certgcl.certified_accuracy,
            {name: value for name, value in asked.items() if name != "classifier"},
        ),
        _of("certified_accuracy_curve", certgcl.certified_accuracy_curve, {**asked, "budgets": (0.3, 1)}),
        _of(
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
        _of(
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


def _files(world: World) -> list[Target]:
    return [
        Target(
            "save_graph",
            lambda: certgcl.save_graph,
            lambda: {"folder": world.fresh(), "graph": world.graph},
            files=True,
        ),
        _of("load_graph", certgcl.load_graph, {"path": world.folder / "graph"}, files=True),
        _of("seal_graph", certgcl.seal_graph, {"folder": world.folder / "graph"}, files=True),
        _of("load_dataset", certgcl.load_dataset, {"name": "karate", "root": None}, files=True),
        _of("presets.get", presets.get, {"method": "grace", "dataset": "Cora", "fast": True, "tuned": False}),
    ]


def _evaluations(world: World) -> list[Target]:
    embeddings, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    masks = [np.arange(20) % 3 == k for k in range(3)]
    asked = {"embeddings": embeddings, "y": y, "protocol": "random-10-10-80", "masks": None, "seeds": 1}
    found = certgcl.Evaluation("public", (0.5, 0.6), (0.4, 0.5))
    return [
        _of("evaluate", certgcl.evaluate, asked),
        _of("evaluate, masks", certgcl.evaluate, {**asked, "protocol": "public", "masks": masks}, fuzzed=("masks",)),
        _of("compare", certgcl.compare, {"a": found, "b": [0.5, 0.7]}),
        _of(
            "Evaluation",
            lambda **given: str(certgcl.Evaluation(**given)),
            {"protocol": "public", "micro": (0.5,), "macro": (0.4,)},
        ),
        _of(
            "Evaluation.pooled",
            lambda evaluations: str(certgcl.Evaluation.pooled(evaluations)),
            {"evaluations": [found, found]},
        ),
    ]


def _regularizers(world: World) -> list[Target]:
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
        _of("CompactnessRegularizer", called, settings),
        _of("CompactnessRegularizer.clean", kind.clean, {"kappa": 0.3, "anchors": 2}),
        _of("CompactnessRegularizer.from_dict", kind.from_dict, {"settings": settings}),
        _of("CompactnessRegularizer.at", lambda epoch: kind(kappa=certgcl.Ramp(0.4, 2)).at(epoch).due, {"epoch": 3}),
        Target(
            "CompactnessRegularizer.__call__",
            lambda: kind(budget=1, anchors=2),
            lambda: {**views, "embeddings": (world.embeddings, world.embeddings)},
        ),
        Target("CompactnessRegularizer.combine", combining, lambda: {"infonce": torch.tensor(1.0)}),
    ]


def _methods(world: World) -> list[Target]:
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
            _of(kind.__name__, kind, settings),
            _of(
                f"{kind.__name__}, fitted",
                lambda kind=kind, **given: kind(**given).fit(graph),
                settings,
                fuzzed=tuple(name for name in settings if name != "epochs"),
                callbacks=("encoder",),
            ),
            _of(
                f"{kind.__name__}.set_params",
                lambda kind=kind, **given: kind(**SMALL).set_params(**given),
                {"hidden": 4, "seed": 1},
            ),
            _of(f"{kind.__name__}.drop_probabilities", kind(**SMALL).drop_probabilities, {"graph": graph}),
            _of(
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
        _of("GRACE.fit_transform", certgcl.GRACE(**SMALL).fit_transform, {"data": graph}),
        _of(
            "GRACE.set_params, nested",
            lambda **given: certgcl.GRACE(**SMALL, regularizer=certgcl.CompactnessRegularizer(budget=1)).set_params(
                **given
            ),
            {"regularizer__kappa": 0.2, "regularizer__anchors": 3, "hidden": 4},
        ),
        _of("GRACE.transform", method.transform, {"data": graph}),
        _of("GRACE.session", certgcl.GRACE(**SMALL).session, {"data": graph}),
        _of("GRACE.mask_probabilities", certgcl.GRACE(**SMALL).mask_probabilities, {"graph": graph}),
        _of("GRACE.run_config", method.run_config, {"graph": graph}),
        _of("GRACE.get_params", method.get_params, {"deep": True}),
        Target(
            "GRACE.save", lambda: replace_epochs(method).save, lambda: {"path": world.folder / "again.pt"}, files=True
        ),
        _of("GRACE.load", certgcl.GRACE.load, {"path": world.folder / "method.pt"}, files=True),
        _of("ContrastiveMethod.load", certgcl.ContrastiveMethod.load, {"path": world.folder / "method.pt"}, files=True),
    ]


def replace_epochs(method: Any) -> Any:
    """The same method with its encoder; saving must not depend on what else it was asked for."""
    again = replace(method)
    again.encoder_ = method.encoder_
    return again
