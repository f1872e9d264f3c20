"""Certificates of nodes and of whole graphs."""

import torch

import certgcl
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.public.fuzz import Target
from tests.public.targets.world import SMALL, World, target


def certificates(world: World) -> list[Target]:
    certificate, path = world.certificate, world.folder / "certificate.npz"
    halves = [certificate.at(torch.arange(4)), certificate.at(torch.arange(4, 8))]
    totals = [certgcl.node_compactness(world.encoder, world.graph, EdgeDropBudget(1, total)) for total in range(3)]
    stored = certgcl.StoredGraph.save(world.folder / "rows", world.graph)
    return [
        target(
            "collective_certificate",
            certgcl.collective_certificate,
            {"certificates": totals, "model": world.encoder, "graph": world.graph, "time_limit": 10.0},
        ),
        target("Certificate.witness", certificate.witness, {"node": 2}),
        target("Certificate.named_witness", certificate.named_witness, {"node": 2}),
        target(
            "Certificate.collective",
            certificate.collective,
            {"model": world.encoder, "graph": world.graph, "others": [], "time_limit": 5.0},
        ),
        target("Certificate.at", certificate.at, {"positions": torch.tensor([1, 2])}),
        target("Certificate.joined", certgcl.Certificate.joined, {"parts": halves}),
        Target(
            "Certificate.save",
            lambda: certificate.save,
            lambda: {"path": world.folder / "again.npz", "notes": {"a": 1}},
            files=True,
        ),
        target(
            "Certificate.verify",
            certificate.verify,
            {"model": world.encoder, "graph": world.graph, "nodes": [0, 3], "view": None, "directions": None},
        ),
        target("Certificate.load", certgcl.Certificate.load, {"path": path}, files=True),
        target("Certificate.load_with_notes", certgcl.Certificate.load_with_notes, {"path": path}, files=True),
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
        target("LocalProcesses", certgcl.LocalProcesses, {"processes": 2, "retries": 1}),
        target("RayCluster", certgcl.RayCluster, {"address": "auto", "cpus": 1, "retries": 1}),
        Target(
            "StoredGraph.save",
            lambda: certgcl.StoredGraph.save,
            lambda: {"folder": world.fresh(), "graph": world.graph},
            files=True,
        ),
        target("StoredGraph.open", certgcl.StoredGraph.open, {"folder": stored.folder, "check": True}, files=True),
        target("StoredGraph.halo", stored.halo, {"anchors": torch.tensor([0, 3]), "hops": 2, "limit": 2**31}),
        target("merge_shards", certgcl.merge_shards, {"out": world.folder / "shards"}, files=True),
    ]


def whole_graphs(world: World) -> list[Target]:
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
        target("graph_compactness", certgcl.graph_compactness, asked),
        target("graph_bounds", certgcl.graph_bounds, {**asked, "directions": torch.ones(2, 2)}),
        target("GraphCertificate.witness", certificate.witness, {"graph": 1, "direction": 0}),
        target(
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
        target(
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
        target("GraphCL", certgcl.GraphCL, settings),
        target(
            "GraphCL, fitted",
            lambda **given: certgcl.GraphCL(**given).fit(graphs),
            settings,
            fuzzed=tuple(name for name in settings if name != "epochs"),
            callbacks=("encoder",),
        ),
        target(
            "GraphCL.set_params", lambda **given: certgcl.GraphCL(**SMALL).set_params(**given), {"hidden": 4, "seed": 1}
        ),
        Target(
            "GraphCL.fit",
            lambda: certgcl.GraphCL(**SMALL).fit,
            lambda: {"data": graphs, "folder": world.fresh(), "resume": False, "progress": None},
            files=True,
            callbacks=("progress",),
        ),
        target("GraphCL.transform", fitted.transform, {"data": graphs}),
        target("GraphCL.session", certgcl.GraphCL(**SMALL).session, {"data": graphs}),
        target("GraphCL.contrast", fitted.contrast, {"session": fitted.session(graphs), "z1": z, "z2": z, "epoch": 0}),
        target("GraphCL.run_config", fitted.run_config, {"graph": graphs}),
        target(
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
