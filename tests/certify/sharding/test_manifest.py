"""Which nodes go to which shard, and which shards to which worker."""

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.certify.sharding import certify_shards
from certgcl.certify.sharding.manifest import ShardPlan
from certgcl.errors import InputError
from certgcl.graphs.ordering import nearby_order
from tests.toys import random_graph, toy_graph, toy_network

GRAPH, WEIGHTS = random_graph(nodes=40, density=0.1), toy_network()


@pytest.mark.parametrize("order", ["near", "given"])
@pytest.mark.parametrize("shards", [1, 3, 7, 11])
def test_a_plan_has_every_anchor_once(order: Any, shards: int) -> None:
    anchors = torch.tensor([30, 2, 5, 39, 0, 11, 12, 9, 8, 7, 21])
    plan = ShardPlan.of(GRAPH, anchors, shards, order)
    parts = [plan.nodes(shard) for shard in range(shards)]
    assert torch.equal(torch.cat(parts).sort().values, anchors.sort().values)
    assert [len(part) for part in parts] == [plan.size(shard) for shard in range(shards)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if order == "given":
        assert torch.equal(torch.cat(parts), anchors)


def test_the_number_of_shards_grows_with_the_graph() -> None:
    for count, shards in ((1, 1), (2048, 1), (2049, 2), (1_000_000, 489)):
        assert ShardPlan.of(GRAPH, torch.arange(count), order="given").shards == shards


def test_workers_share_out_the_shards() -> None:
    plan = ShardPlan.of(GRAPH, torch.arange(40), 10)
    assert [plan.choose(worker=(k, 4)) for k in range(4)] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert plan.choose(worker=(11, 12)) == []
    assert plan.choose(only=[7, 2, 5], worker=(1, 2)) == [7, 5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shards": 0}, "shards=0 for 40 anchors.*from 1 to 40"),
        ({"shards": 41}, "shards=41"),
        ({"shards": 2.0}, r"shards=2\.0"),
        ({"shards": True}, "shards=True"),
        ({"order": "far"}, "order='far'"),
        ({"shards": 3, "only": [3]}, "shard=3.*0 to 2"),
        ({"worker": (2, 2)}, "worker 2 of 2.*The last of 2 is 1"),
        ({"directions": torch.ones(40, 3), "view": GRAPH}, "directions= with view="),
        ({"worker": (0, 0)}, "worker 0 of 0"),
        ({"worker": (-1, 2)}, "worker -1 of 2"),
        ({"nodes": [40]}, "node 40"),
    ],
)
def test_a_plan_must_make_sense(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify_shards(WEIGHTS, GRAPH, 2, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "source",
    [
        nx.path_graph(9),
        nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(4)),
        nx.empty_graph(3),
        nx.gnp_random_graph(30, 0.05, seed=1),
    ],
    ids=["path", "two parts", "no edges", "many parts"],
)
def test_nearby_nodes_stand_together(source: nx.Graph) -> None:
    """Components in a row, each breadth first: a node comes after one of its neighbours."""
    order = nearby_order(toy_graph(source)).tolist()
    assert sorted(order) == list(range(len(source)))
    for component in nx.connected_components(source):
        places = sorted(map(order.index, component))
        assert places == list(range(places[0], places[0] + len(component)))
        layers = nx.single_source_shortest_path_length(source, order[places[0]])
        assert [layers[order[place]] for place in places] == sorted(layers.values())


def test_runs_of_a_shuffled_path_come_together() -> None:
    shuffled, label = nx.empty_graph(60), torch.randperm(60).tolist()
    shuffled.add_edges_from((label[k], label[k + 1]) for k in range(59))
    graph = toy_graph(shuffled)
    parts = [ShardPlan.of(graph, torch.arange(60), 6).nodes(shard) for shard in range(6)]

    def cut(parts: list[Tensor]) -> int:
        home = torch.empty(60, dtype=torch.long)
        for number, part in enumerate(parts):
            home[part] = number
        return int((home[graph.row] != home[graph.col]).sum()) // 2

    assert cut(parts) <= 10  # the search runs from the first node both ways
    assert cut(list(torch.arange(60).split(10))) > 40
