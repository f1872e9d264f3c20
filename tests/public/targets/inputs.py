"""Graphs, budgets, encoders and files."""

from typing import Any

import torch
from torch_geometric.nn import GCNConv

import certgcl
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.learning import presets
from certgcl.models import registry
from tests.public.fuzz import Target
from tests.public.targets.world import World, target


def graphs(world: World) -> list[Target]:
    graph, edges = world.graph, world.graph.edge_index
    return [
        target("Graph", Graph, {"x": world.x, "rowptr": graph.rowptr, "col": graph.col, "names": list("abcdefgh")}),
        target("Graph.of", Graph.of, {"source": (world.x, edges)}),
        target(
            "Graph.of a pair", lambda x, edges: Graph.of((x, edges)), {"x": world.x.numpy(), "edges": edges.numpy()}
        ),
        target("Graph.from_edges", Graph.from_edges, {"x": world.x, "edge_index": edges, "names": list("abcdefgh")}),
        target(
            "Graph.numbers_of", Graph.from_edges(world.x, edges, list("abcdefgh")).numbers_of, {"nodes": ["a", "c"]}
        ),
        target("Graph.from_networkx", Graph.from_networkx, {"graph": world.networkx, "x": world.x}),
        target("Graph.cleaned", Graph.cleaned, {"source": (world.x, edges)}),
        target("Graph.has_edge", graph.has_edge, {"i": torch.tensor([0, 1]), "j": torch.tensor([1, 2])}),
        target("Graph.gcn_matrix", graph.gcn_matrix, {"dtype": torch.float64}),
        target(
            "Graph.project",
            graph.project,
            {"weight": world.encoder.conv1.lin.weight.T.detach(), "nodes": torch.tensor([1]), "absolute": True},
        ),
        target("Graph.propagate", graph.propagate, {"values": world.x}),
        target("Graph.with_edges", graph.with_edges, {"rowptr": graph.rowptr, "col": graph.col}),
        target("Graph.with_features", graph.with_features, {"x": world.x}),
        target("Graph.to", graph.to, {"device": "cpu", "dtype": torch.float32}),
        target("Graph.view", graph.view, {"source": edges}),
    ]


def budgets(world: World) -> list[Target]:
    graph, edges = world.graph, world.graph.edge_index
    rule = {"rule": "coverage", "coverage": 0.9, "jointly": True, "total": 3}
    probabilities = {"edge_index": edges, "probability": torch.full(edges.shape[1:], 0.3), **rule}
    return [
        target("EdgeDropBudget", EdgeDropBudget, {"local": 1, "total": 2}),
        target("EdgeDropBudget.from_drop_rate", EdgeDropBudget.from_drop_rate, {"rate": 0.3, **rule}),
        target(
            "EdgeDropBudget.from_drop_probabilities",
            lambda **given: EdgeDropBudget.from_drop_probabilities(**given).on(graph),
            probabilities,
        ),
        target("EdgeDropBudget.of", lambda budget: EdgeDropBudget.of(budget).on(graph), {"budget": 1}),
        target("EdgeDropBudget.on", EdgeDropBudget(local=1).on, {"graph": graph}),
        target(
            "Changes",
            lambda **given: certgcl.Changes(**given).on(graph),
            {"drops": 1, "features": certgcl.FeatureBudget(masked=1)},
        ),
        target("Changes(additions)", lambda **given: certgcl.Changes(**given).on(graph), {"drops": 1, "additions": 1}),
        target("Changes(flips)", lambda **given: certgcl.Changes(**given).on(graph), {"flips": 1}),
        target(
            "EdgeAddBudget",
            lambda **given: certgcl.EdgeAddBudget(**given).on(graph),
            {"local": 1, "total": 2, "candidates": "two-hop"},
        ),
        target(
            "EdgeAddBudget(pairs)", lambda **given: certgcl.EdgeAddBudget(**given).on(graph), {"candidates": [(0, 2)]}
        ),
        target("EdgeAddBudget.of", lambda budget: certgcl.EdgeAddBudget.of(budget).on(graph), {"budget": 1}),
        target("EdgeAddBudget.on", certgcl.EdgeAddBudget(local=1).on, {"graph": graph}),
        target(
            "EdgeFlipBudget",
            lambda **given: certgcl.EdgeFlipBudget(**given).on(graph),
            {"local": 1, "total": 2, "candidates": "all"},
        ),
        target("EdgeFlipBudget.of", lambda budget: certgcl.EdgeFlipBudget.of(budget).on(graph), {"budget": 1}),
        target("EdgeFlipBudget.on", certgcl.EdgeFlipBudget(local=1).on, {"graph": graph}),
        target("FeatureBudget", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"masked": 1, "total": 2}),
        target("FeatureBudget(box)", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"box": 0.1}),
        target("FeatureBudget(columns)", lambda **given: certgcl.FeatureBudget(**given).on(graph), {"columns": 1}),
        target(
            "FeatureBudget.from_mask_rate",
            lambda **given: certgcl.FeatureBudget.from_mask_rate(**given).on(graph),
            {"rate": 0.3, "coverage": 0.9},
        ),
        target(
            "FeatureBudget.from_mask_probabilities",
            lambda **given: certgcl.FeatureBudget.from_mask_probabilities(**given).on(graph),
            {"probability": torch.full((graph.num_features,), 0.3), "coverage": 0.9},
        ),
        target("FeatureBudget.on", certgcl.FeatureBudget(masked=1).on, {"graph": graph}),
        target("Changes.of", lambda budgets: certgcl.Changes.of(budgets).on(graph), {"budgets": 1}),
        target("Changes.on", certgcl.Changes(drops=1).on, {"graph": graph}),
        target(
            "Ramp", lambda **given: certgcl.Ramp(**given).at(3), {"last": 0.4, "start": 2, "length": 3, "first": 0.1}
        ),
        target("Ramp.at", certgcl.Ramp(0.4, start=2).at, {"epoch": 1}),
    ]


def encoders(world: World) -> list[Target]:
    weights, path = world.weights, world.folder / "weights.npz"
    layers = {"conv1": GCNConv(3, 4), "conv2": GCNConv(4, 2), "activation": "prelu", "out_activation": None}
    return [
        target(
            "GCNEncoder",
            certgcl.GCNEncoder,
            {"in_channels": 3, "hidden_channels": 4, "out_channels": 2, "activation": "relu", "out_activation": "same"},
        ),
        target("GCNEncoder.from_layers", certgcl.GCNEncoder.from_layers, layers),
        target(
            "GraphNetwork",
            certgcl.GraphNetwork,
            {"layers": weights.layers, "readout": (2,), "precision": torch.float32, "reading": "given"},
        ),
        target("GraphNetwork.to", weights.to, {"dtype": torch.float32, "device": torch.device("cpu")}),
        target("GraphNetwork.embed", weights.embed, {"graph": world.graph}),
        Target("GraphNetwork.save", lambda: weights.save, lambda: {"path": world.folder / "again.npz"}, files=True),
        target("GraphNetwork.load", certgcl.GraphNetwork.load, {"path": path}, files=True),
        target("read_network", certgcl.read_network, {"model": world.encoder, "graph": world.graph}),
        target(
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
        target("compactness_directions", certgcl.compactness_directions, {"embeddings": world.embeddings}),
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


def files(world: World) -> list[Target]:
    return [
        Target(
            "save_graph",
            lambda: certgcl.save_graph,
            lambda: {"folder": world.fresh(), "graph": world.graph},
            files=True,
        ),
        target("load_graph", certgcl.load_graph, {"path": world.folder / "graph"}, files=True),
        target("seal_graph", certgcl.seal_graph, {"folder": world.folder / "graph"}, files=True),
        target("load_dataset", certgcl.load_dataset, {"name": "karate", "root": None}, files=True),
        target("presets.get", presets.get, {"method": "grace", "dataset": "Cora", "fast": True, "tuned": False}),
    ]
