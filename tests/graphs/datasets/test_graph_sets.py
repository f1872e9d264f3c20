"""Sets of graphs: the drawn one, the text files of the TU collection, and what is wrong with damaged ones."""

import os
from pathlib import Path

import pytest
import torch

import certgcl
from certgcl.errors import CertgclError, DatasetError
from certgcl.graphs.datasets import GRAPH_SETS, find_dataset, load_dataset
from tests.mutations import mutations

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "0\n3\n0\n3\n3\n",
}


def written(root: Path, **changed: str) -> Path:
    raw = root / "TU" / "MUTAG" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part, content in (FILES | changed).items():
        (raw / f"MUTAG_{part}.txt").write_text(content)
    return root


def test_text_files_become_graphs(tmp_path: Path) -> None:
    first, second = load_dataset("mutag", written(tmp_path))
    assert first.x.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert (int(first.y), int(second.y)) == (0, 1)


def test_graphs_are_simple_and_undirected(tmp_path: Path) -> None:
    first, _ = load_dataset("MUTAG", written(tmp_path, A="1, 2\n1,2\n 3 ,3\n2, 3\r\n4, 5\n"))
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"A": "1, 2\n2, x\n"}, "characters that do not belong"),
        ({"A": "1, 2, 3\n"}, "2 whole number"),
        ({"A": "1, 6\n"}, "nodes that are not 1 to 5"),
        ({"A": "0, 1\n"}, "nodes that are not 1 to 5"),
        ({"A": "3, 4\n"}, "from one graph to another"),
        ({"A": "1, 9999999999999999999999\n"}, "whole number"),
        ({"A": "1, 1-2\n"}, "invalid literal"),
        ({"graph_indicator": "1\n1\n1\n3\n3\n"}, "1 to 2 in order"),
        ({"graph_indicator": "1\n1\n2\n2\n1\n"}, "1 to 2 in order"),
        ({"graph_indicator": ""}, "1 to 2 in order"),
        ({"graph_labels": "1\n"}, "1 to 1 in order"),
        ({"node_labels": "1\n"}, "1 labels for 5 nodes"),
    ],
)
def test_damaged_files_are_refused_in_words(tmp_path: Path, changed: dict[str, str], words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        load_dataset("MUTAG", written(tmp_path, **changed))


@pytest.mark.parametrize("part", FILES)
def test_damage_is_refused_or_gives_graphs(tmp_path: Path, part: str) -> None:
    path = written(tmp_path) / "TU" / "MUTAG" / "raw" / f"MUTAG_{part}.txt"
    for name, content in mutations(path.read_bytes(), rounds=100):
        path.write_bytes(content)
        try:
            found = load_dataset("MUTAG", tmp_path)
        except CertgclError:
            continue
        assert all(certgcl.Graph.of(graph).num_nodes for graph in found), name


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatasetError, match=r"PROTEINS_graph_labels\.txt"):
        load_dataset("PROTEINS", tmp_path)
    monkeypatch.setenv("CERTGCL_DATA", str(written(tmp_path)))
    assert len(load_dataset("MUTAG")) == 2


def test_a_set_is_no_single_graph() -> None:
    with pytest.raises(DatasetError, match="set of graphs"):
        find_dataset("MUTAG")
    with pytest.raises(DatasetError, match="PROTEINS"):
        load_dataset("PROTEIN")


def test_the_drawn_set_is_always_the_same() -> None:
    one, other = load_dataset("cycles-and-trees"), load_dataset("Cycles-and-Trees")
    assert all(
        torch.equal(a.edge_index, b.edge_index) and torch.equal(a.x, b.x) for a, b in zip(one, other, strict=True)
    )
    for graph in one:
        assert graph.num_edges // 2 == graph.num_nodes - 1 + int(graph.y)  # a tree, or one cycle


def _real(name: str) -> bool:
    return name == "cycles-and-trees" or all(
        Path(os.environ.get("CERTGCL_DATA", "nowhere"), "TU", name, "raw", file).is_file()
        for file in GRAPH_SETS[name].files
    )


@pytest.mark.parametrize("name", GRAPH_SETS)
def test_sets_are_as_the_catalogue_says(name: str) -> None:
    if not _real(name):
        pytest.skip(f"{name} is not in CERTGCL_DATA")
    found, info = load_dataset(name), GRAPH_SETS[name]
    sums = [sum(each) for each in zip(*((graph.num_nodes, graph.num_edges // 2) for graph in found), strict=True)]
    assert (len(found), *sums) == (info.graphs, info.nodes, info.edges)
    assert {graph.num_features for graph in found} == {info.features}
    assert len({int(graph.y) for graph in found}) == info.classes
