"""Graphs by name: embedded ones, the paper's where their files are at hand (``CERTGCL_DATA``), and what is refused."""

import json
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import WikiCS
from torch_geometric.transforms import NormalizeFeatures

import certgcl
from benchmarks.real_graphs import data_root
from certgcl.errors import DatasetError
from certgcl.graphs.datasets import DATASETS, dataset_names, find_dataset, load_dataset
from certgcl.graphs.datasets.paper import row_normalised

needs_files = pytest.mark.skipif(data_root() is None, reason="CERTGCL_DATA does not name a folder with the real graphs")

EMBEDDED = ["digits", "karate", "les-miserables", "sbm"]
REAL = {  # nodes, directed edges, features, classes
    "Cora": (2708, 10556, 1433, 7),
    "CiteSeer": (3327, 9104, 3703, 6),
    "PubMed": (19717, 88648, 500, 3),
    "BlogCatalog": (5196, 343486, 8189, 6),
    "Flickr": (7575, 479476, 12047, 9),
    "Computers": (13752, 491722, 767, 10),
    "Photo": (7650, 238162, 745, 8),
}
PUBLIC = {"Cora": (140, 500, 1000), "CiteSeer": (120, 500, 1000), "PubMed": (60, 500, 1000)}


@cache
def real(name: str) -> Data:
    root = data_root()
    assert root is not None
    return load_dataset(name, root)


def check_as_listed(name: str, data: Data) -> None:
    """Simple, undirected, typed as promised, and of the size in the catalogue."""
    graph, info = certgcl.Graph.of(data), DATASETS[name]
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (info.nodes, info.edges, info.features)
    assert (data.x.dtype, data.y.dtype, data.y.shape) == (torch.float32, torch.long, (info.nodes,))
    assert data.y.unique().tolist() == list(range(info.classes))
    masks = {key for key in data.keys() if key.endswith("_mask")}  # noqa: SIM118
    assert masks == ({"train_mask", "val_mask", "test_mask"} if info.protocol == "public" else set())


# -- embedded --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_graph_is_as_listed_and_always_the_same(name: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    data, again = load_dataset(name), load_dataset(name)
    check_as_listed(name, data)
    assert all(torch.equal(data[key], again[key]) for key in ("x", "edge_index", "y"))
    assert torch.equal(torch.get_rng_state(), before)


def test_digits_lie_between_0_and_1_with_five_neighbours_or_more() -> None:
    data = load_dataset("digits")
    assert (float(data.x.min()), float(data.x.max())) == (0, 1)
    assert int(certgcl.Graph.of(data).degree.min()) >= 5
    row, col = data.edge_index
    assert float((data.y[row] == data.y[col]).float().mean()) > 0.95


def test_the_two_leaders_of_the_karate_club_are_in_different_ones() -> None:
    data = load_dataset("karate")
    assert torch.equal(data.x, torch.eye(34))
    assert (int(data.y[0]), int(data.y[33])) == (0, 1)


def test_classes_of_les_miserables_are_communities_and_said_to_be() -> None:
    row, col = (data := load_dataset("les-miserables")).edge_index
    assert float((data.y[row] == data.y[col]).float().mean()) > 0.7
    assert "not ground truth" in DATASETS["les-miserables"].description


def test_blocks_have_more_edges_within_and_means_of_their_own() -> None:
    data = load_dataset("sbm")
    within = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).sum()
    assert float(within) / (4 * 100 * 99) == pytest.approx(0.1, abs=0.01)
    assert float(data.num_edges - within) / (400 * 300) == pytest.approx(0.01, abs=0.002)
    means = torch.stack([data.x[data.y == block].mean(0) for block in range(4)])
    assert float(torch.pdist(means).min()) > 2


# -- the paper's -----------------------------------------------------------------------------------


@needs_files
@pytest.mark.parametrize("name", REAL)
def test_a_real_graph_is_as_its_source_says(name: str) -> None:
    data = real(name)
    check_as_listed(name, data)
    assert (data.num_nodes, data.num_edges, data.num_features, int(data.y.max()) + 1) == REAL[name]
    sums = data.x.sum(dim=1, keepdim=True).to_dense()
    assert bool((((sums - 1).abs() < 1e-4) | (sums == 0)).all())


@needs_files
@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_split_is_disjoint_and_of_the_known_size(name: str) -> None:
    masks = torch.stack([real(name)[f"{part}_mask"] for part in ("train", "val", "test")])
    assert tuple(masks.sum(dim=1).tolist()) == PUBLIC[name]
    assert int(masks.sum(dim=0).max()) == 1


@needs_files
def test_features_of_flickr_stay_sparse_and_its_empty_rows_empty() -> None:
    x = real("Flickr").x
    assert x.layout == torch.sparse_csr
    assert int((x.crow_indices().diff() == 0).sum()) == 11


def test_sparse_rows_are_normalised_as_pyg_does_dense_ones() -> None:
    x = torch.randint(0, 3, (20, 6)).float()
    x[3] = 0
    x[4] = torch.tensor([0.2, 0.3, 0, 0, 0, 0])  # sums below 1 are left alone
    dense = NormalizeFeatures()(Data(x=x)).x
    torch.testing.assert_close(row_normalised(x), dense)
    torch.testing.assert_close(row_normalised(x.to_sparse_csr()).to_dense(), dense)
    assert bool((dense[3] == 0).all())


# -- files -----------------------------------------------------------------------------------------


def write_wikics(folder: Path) -> None:
    """Four nodes: a loop, an edge in both directions, a repeated one."""
    folder.mkdir(parents=True)
    split = [[True, False, False, False]] * 20
    (folder / "data.json").write_text(
        json.dumps(
            {
                "features": [[-1, 0], [1, 0], [0, 1], [3, 1]],
                "labels": [0, 1, 1, 0],
                "links": [[0, 1], [0, 2, 2], [], [0]],
                "train_masks": split,
                "val_masks": split,
                "stopping_masks": split,
                "test_mask": split[0],
            }
        )
    )


def files_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder, an empty cache (returned), and a download that fails whether there is a network or not."""
    monkeypatch.delenv("CERTGCL_DATA", raising=False)
    monkeypatch.setenv("CERTGCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(WikiCS, "url", (tmp_path / "server").as_uri())
    return tmp_path / "cache"


def check_wikics(data: Data) -> None:
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2, 3], [1, 3, 0, 2, 1, 0]]
    torch.testing.assert_close(data.x, torch.tensor([[0, 1], [2 / 3, 1 / 3], [1 / 3, 2 / 3], [4 / 6, 2 / 6]]))
    assert data.y.tolist() == [0, 1, 1, 0]
    assert set(data.keys()) == {"x", "edge_index", "y"}


def test_wikics_becomes_simple_and_undirected_without_its_twenty_splits(tmp_path: Path) -> None:
    write_wikics(tmp_path / "WikiCS" / "raw")
    check_wikics(load_dataset("wikics", str(tmp_path)))


def test_the_data_folder_comes_first_and_then_the_cache(no_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wikics(no_folders / "WikiCS" / "raw")
    check_wikics(load_dataset("WikiCS"))
    data = no_folders.with_name("data")
    data.mkdir()
    monkeypatch.setenv("CERTGCL_DATA", str(data))
    check_wikics(load_dataset("WikiCS"))
    (data / "WikiCS" / "raw").mkdir(parents=True)
    (data / "WikiCS" / "raw" / "data.json").write_text("{}")
    with pytest.raises(DatasetError, match=str(data)):
        load_dataset("WikiCS")


def test_a_download_is_kept_in_the_cache(no_folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = no_folders.with_name("server")
    write_wikics(server)
    check_wikics(load_dataset("WikiCS"))
    assert [path.name for path in files_below(no_folders)] == ["WikiCS", "raw", "data.json"]
    shutil.rmtree(server)
    check_wikics(load_dataset("WikiCS"))
    assert capfd.readouterr() == ("", "")


def test_a_failed_download_says_which_files_go_where_and_leaves_none(no_folders: Path) -> None:
    with pytest.raises(DatasetError, match=r"WikiCS.*data\.json must lie in") as caught:
        load_dataset("WikiCS")
    assert str(no_folders / "WikiCS" / "raw") in str(caught.value)
    assert "CERTGCL_DATA" in str(caught.value)
    assert files_below(no_folders) == {}


def test_a_download_that_is_not_the_graph_is_not_kept(no_folders: Path) -> None:
    server = no_folders.with_name("server")
    server.mkdir()
    (server / "data.json").write_text("<html>Quota exceeded</html>")
    with pytest.raises(DatasetError, match="JSONDecodeError"):
        load_dataset("WikiCS")
    assert files_below(no_folders) == {}


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("Cora", "Planetoid/Cora/raw", ["ind.cora.x", "ind.cora.allx", "ind.cora.test.index"]),
        ("Photo", "Amazon/Photo/raw", ["amazon_electronics_photo.npz"]),
        ("BlogCatalog", "AttributedGraph/blogcatalog/raw", ["attrs.npz", "edgelist.txt", "labels.txt"]),
        ("WikiCS", "WikiCS/raw", ["data.json"]),
    ],
)
def test_a_root_without_the_graph_is_refused_at_once(name: str, folder: str, files: list[str], tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        load_dataset(name, tmp_path)
    assert str(tmp_path / folder) in str(caught.value)
    assert all(file in str(caught.value) for file in files)
    assert files_below(tmp_path) == {}


def copy_of_cora(folder: Path) -> Path:
    root = data_root()
    assert root is not None
    return Path(shutil.copytree(root / "Planetoid" / "Cora" / "raw", folder / "Planetoid" / "Cora" / "raw"))


@needs_files
def test_the_data_folder_stays_untouched_and_nothing_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy_of_cora(tmp_path)
    before = files_below(tmp_path)
    load_dataset("cora", tmp_path)
    assert files_below(tmp_path) == before
    assert capfd.readouterr() == ("", "")


@needs_files
def test_one_missing_file_is_named_and_not_fetched(tmp_path: Path) -> None:
    (copy_of_cora(tmp_path) / "ind.cora.ty").unlink()
    before = files_below(tmp_path)
    with pytest.raises(DatasetError, match=r"^no ind\.cora\.ty in "):
        load_dataset("Cora", tmp_path)
    assert files_below(tmp_path) == before


@needs_files
def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (copy_of_cora(tmp_path) / "ind.cora.x").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DatasetError, match=r"Planetoid.*must hold Cora.*Download"):
        load_dataset("Cora", tmp_path)


def test_a_package_that_pyg_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "AttributedGraph" / "flickr" / "raw"
    raw.mkdir(parents=True)
    for file in DATASETS["Flickr"].files:
        (raw / file).touch()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DatasetError, match=r"pandas.*pip"):
        load_dataset("Flickr", tmp_path)


# -- names -----------------------------------------------------------------------------------------


def test_every_graph_of_the_tests_is_listed() -> None:
    assert set(dataset_names()) == {*EMBEDDED, *REAL, "WikiCS"}
    assert {name for name, info in DATASETS.items() if info.kind == "embedded"} == set(EMBEDDED)
    assert {name for name, info in DATASETS.items() if info.protocol == "public"} == set(PUBLIC)


@pytest.mark.parametrize("name", ["CORA", "cora", "Cora"])
def test_upper_and_lower_case_are_alike(name: str) -> None:
    assert find_dataset(name) is DATASETS["Cora"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("citseer", r"Did you mean 'CiteSeer'\?"),
        ("les_miserables", r"Did you mean 'les-miserables'\?"),
        ("ogbn", "Pick one"),
        ("", "Pick one"),
    ],
)
def test_an_unknown_name_is_refused_with_the_names_and_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(DatasetError, match=rf"^dataset '{name}': datasets are digits, .*WikiCS, .*PROTEINS\. {hint}$"):
        load_dataset(name)
