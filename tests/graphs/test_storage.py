import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import certgcl
from certgcl.errors import EncoderError, GraphError
from certgcl.files.atomic import save_arrays, save_sealed_json
from certgcl.graphs import row_chunks
from certgcl.graphs.graph import Graph
from certgcl.graphs.storage import load_data, load_graph, save_graph, seal_graph
from tests.toys import random_graph, toy_network


def same(one: Graph, other: Graph) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("x", "rowptr", "col"))


# -- folders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_folder_gives_back_the_graph(graph: Graph, tmp_path: Path, dtype: torch.dtype) -> None:
    folder = save_graph(tmp_path / "deep" / "folder", graph.to(dtype=dtype))
    assert sorted(path.name for path in folder.iterdir()) == ["edge_index.npy", "graph.json", "x.npy"]
    assert load_graph(str(folder)).x.dtype == dtype
    assert same(load_graph(folder), graph.to(dtype=dtype))


def test_labels_go_with_the_data(graph: Graph, tmp_path: Path) -> None:
    y = torch.arange(6) % 2
    folder = save_graph(tmp_path, Data(x=graph.x, edge_index=graph.edge_index, y=y))
    assert torch.equal(load_data(folder).y, y)
    save_graph(tmp_path, graph)
    assert load_data(folder).y is None


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["Valjean", "Javert", "Cosette", "Marius", "Éponine", "Fantine"], None),
        ([60, 50, 40, 30, 20, 10], None),
        ([(0, 0), (0, 1), "x", 7, 8, 9], ["(0, 0)", "(0, 1)", "x", "7", "8", "9"]),
    ],
)
def test_names_go_with_the_graph(graph: Graph, tmp_path: Path, names: Any, kept: Any) -> None:
    named = Graph.from_edges(graph.x, graph.edge_index, names)
    loaded = load_graph(save_graph(tmp_path, named))
    assert loaded.names is not None
    assert list(loaded.names.all) == (kept or names)
    assert loaded.names.find([loaded.names.all[2]]) == [2]
    assert load_graph(save_graph(tmp_path, graph)).names is None


def test_names_of_a_data_object_go_with_it(graph: Graph, tmp_path: Path) -> None:
    data = Data(x=graph.x, edge_index=graph.edge_index, node_names=list("abcdef"))
    assert load_data(save_graph(tmp_path, data)).node_names == list("abcdef")


@pytest.mark.parametrize("names", [np.arange(1, 6), np.arange(6) / 2, np.array(list("aabcde")), np.eye(6, dtype=int)])
def test_names_that_fit_no_graph_are_refused(graph: Graph, tmp_path: Path, names: np.ndarray) -> None:
    save_graph(tmp_path, graph)
    np.save(tmp_path / "names.npy", names)
    with pytest.raises(GraphError, match="name"):
        load_graph(seal_graph(tmp_path))


def test_a_name_that_a_file_cannot_hold_is_refused(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="character 0"):
        save_graph(tmp_path, Graph.from_edges(graph.x, graph.edge_index, ["a\0", *"bcdef"]))


def test_features_stay_on_disk(graph: Graph, tmp_path: Path) -> None:
    loaded = load_graph(save_graph(tmp_path, graph))
    assert not loaded.x.untyped_storage().resizable()  # nobody's copy
    with (tmp_path / "x.npy").open("r+b") as file:
        file.seek(-8, io.SEEK_END)
        file.write(np.float64(42).tobytes())
    assert float(loaded.x[-1, -1]) == 42


def test_a_memory_mapped_graph_has_the_same_certificate(graph: Graph, tmp_path: Path) -> None:
    loaded = load_graph(save_graph(tmp_path, graph))
    weights = toy_network(features=5)
    expected, found = (certgcl.node_compactness(weights, source, 1) for source in (graph, loaded))
    for name in ("lower", "nominal", "rounding", "directions"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


def test_a_graph_can_be_saved_over_itself(graph: Graph, tmp_path: Path) -> None:
    save_graph(tmp_path, load_graph(save_graph(tmp_path, graph)))
    assert same(load_graph(tmp_path), graph)


def test_an_unfinished_folder_is_no_graph(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_graph(tmp_path, graph)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space left"):
        save_graph(tmp_path, graph.with_features(2 * graph.x))
    with pytest.raises(GraphError, match=r"without graph\.json.*not finished"):
        load_graph(tmp_path)


@pytest.mark.parametrize("change", [lambda g: g.to(dtype=torch.bfloat16), lambda g: g.with_features(g.x.to_sparse())])
def test_what_a_folder_cannot_hold_is_refused(graph: Graph, tmp_path: Path, change: Any) -> None:
    with pytest.raises(GraphError, match="a folder holds"):
        save_graph(tmp_path, change(graph))


# -- other files -----------------------------------------------------------------------------------


def test_an_archive_gives_the_graph(graph: Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", x=graph.x.numpy(), edge_index=graph.edge_index.numpy(), y=np.arange(6))
    assert same(load_graph(tmp_path / "g.npz"), graph)
    assert load_data(tmp_path / "g.npz").y.tolist() == list(range(6))


@pytest.mark.parametrize("kind", [Data, dict])
def test_a_torch_file_gives_the_graph(graph: Graph, tmp_path: Path, kind: Any) -> None:
    torch.save(kind(x=graph.x, edge_index=graph.edge_index, y=torch.arange(6)), tmp_path / "g.pt")
    assert same(load_graph(tmp_path / "g.pt"), graph)
    assert load_data(tmp_path / "g.pt").y.tolist() == list(range(6))


class Code:
    """What a hostile file would run."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('ran')",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.pt", Code(), r"g\.pt \(not tensors alone"),
        ("g.pt", [1, 2], r"g\.pt with a list"),
        ("g.pt", {"x": torch.ones(2, 1)}, r"g\.pt without edge_index"),
        ("g.pt", b"text", r"g\.pt \(damaged: File is not a zip file"),
        ("g.npz", b"text", r"g\.npz \(damaged: File is not a zip file"),
        ("g.csv", b"1,2", r"g\.csv \(a name that ends in '\.csv'"),
        ("g", b"", r"g \(no folder"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        torch.save(content, tmp_path / name)
    with pytest.raises(GraphError, match=rf"{message}.*certgcl\.save_graph"):
        load_graph(tmp_path / name)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((6, 2), dtype=">f4"), "byte order"),
        (np.ones((6, 2), dtype=object), "Python objects"),
        (np.ones((6, 2), dtype=np.int64), "dtype torch.int64"),
        (np.ones(6), r"shape \(6,\)"),
        (np.full((6, 2), np.nan), "12 NaN"),
        (np.ones((4, 2)), "node index 4"),
    ],
)
def test_arrays_must_make_a_graph(graph: Graph, tmp_path: Path, x: np.ndarray, message: str) -> None:
    save_graph(tmp_path, graph)
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(GraphError, match=r"x\.npy \(changed.*seal_graph"):
        load_graph(tmp_path)
    with pytest.raises(GraphError, match=message):
        load_graph(seal_graph(tmp_path))


def test_a_file_cut_short_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = save_graph(tmp_path, graph) / "x.npy"
    path.write_bytes(path.read_bytes()[:-1])
    for check in (True, False):
        with pytest.raises(GraphError, match="changed since" if check else r"shape \(6, 5\).* 240 bytes, in 239"):
            load_graph(tmp_path, check=check)


def test_a_changed_byte_goes_unnoticed_only_if_asked_for(graph: Graph, tmp_path: Path) -> None:
    path = save_graph(tmp_path, graph) / "x.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(GraphError, match=r"x\.npy \(changed since it was written"):
        load_graph(tmp_path)
    assert not same(load_graph(tmp_path, check=False), graph)


def test_edge_weights_are_not_overlooked(graph: Graph, tmp_path: Path) -> None:
    np.save(save_graph(tmp_path, graph) / "edge_weight.npy", np.ones(10))
    for folder in (lambda: tmp_path, lambda: seal_graph(tmp_path)):
        with pytest.raises(GraphError, match="edge_weight"):
            load_graph(folder())


def test_an_array_that_is_gone_is_missed(graph: Graph, tmp_path: Path) -> None:
    save_graph(tmp_path, Data(x=graph.x, edge_index=graph.edge_index, y=torch.arange(6)))
    (tmp_path / "y.npy").unlink()
    with pytest.raises(GraphError, match=r"without y\.npy"):
        load_graph(tmp_path)
    assert load_data(seal_graph(tmp_path)).y is None


def test_a_folder_of_ones_own_arrays_is_sealed_once(graph: Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", graph.x.numpy())
    with pytest.raises(GraphError, match="without edge_index"):
        seal_graph(tmp_path)
    np.save(tmp_path / "edge_index.npy", graph.edge_index.numpy())
    with pytest.raises(GraphError, match=r"without graph\.json.*seal_graph"):
        load_graph(tmp_path)
    assert same(load_graph(seal_graph(tmp_path)), graph)


@pytest.mark.parametrize("names", [["../x.npy"], ["/etc/passwd"], ["x.npy", "edge_index.npy", "z.npy"], "x.npy", [1]])
def test_a_folder_names_its_own_arrays_alone(graph: Graph, tmp_path: Path, names: Any) -> None:
    save_graph(tmp_path, graph)
    save_sealed_json(
        tmp_path / "graph.json",
        {"format": "certgcl-graph-2", "files": dict.fromkeys(names, "0") if isinstance(names, list) else names},
    )
    with pytest.raises(GraphError, match=r"graph\.json \("):
        load_graph(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("name", ["x.npy", "graph.json", "g.npz", "g.pt"])
def test_a_pipe_is_not_waited_for(graph: Graph, tmp_path: Path, name: str) -> None:
    folder = save_graph(tmp_path, graph)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(GraphError, match=r"no regular file|without graph\.json"):
        load_graph(folder / name if name.startswith("g.") else folder)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    for name in ("g.npz", "g.pt"):
        with pytest.raises(FileNotFoundError):
            load_graph(tmp_path / name)


# -- in pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [None, torch.tensor([4, 0, 5, 5])])
@pytest.mark.parametrize("absolute", [True, False])
def test_features_are_projected_in_pieces(
    either_graph: Graph, nodes: Any, absolute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.randn(5, 3, dtype=torch.float64)
    dense = either_graph.x.to_dense()
    rows = dense if nodes is None else dense[nodes]
    for elements in (1, 12, 1000):
        monkeypatch.setattr(row_chunks, "MAX_ELEMENTS", elements)
        found = either_graph.project(weight, nodes, absolute=absolute)
        torch.testing.assert_close(found, (rows.abs() if absolute else rows) @ weight, rtol=1e-14, atol=1e-14)


def test_no_more_than_a_piece_of_the_features_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph(save_graph(tmp_path, random_graph(nodes=50, features=4).to(dtype=torch.float32)))
    monkeypatch.setattr(row_chunks, "MAX_ELEMENTS", 40)
    sizes = []
    convert = torch.Tensor.to

    def noted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        result = convert(tensor, *args, **kwargs)
        if tensor.shape[1:] == (4,) and result is not tensor:
            sizes.append(tensor.numel())
        return result

    monkeypatch.setattr(torch.Tensor, "to", noted)
    toy_network(features=4).embed(graph)
    assert len(sizes) == 5
    assert max(sizes) == 40


def test_a_bad_value_in_any_piece_is_counted(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "MAX_ELEMENTS", 7)
    x = graph.x.clone()
    x[0, 0] = x[3, 2] = torch.nan
    x[5, 4] = torch.inf
    for features in (x, x.to_sparse()):
        with pytest.raises(GraphError, match="3 NaN or infinite"):
            graph.with_features(features)


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_weights_come_back(tmp_path: Path, dtype: torch.dtype) -> None:
    weights = toy_network().to(dtype)
    weights.layers[0].terms[0].weight.requires_grad_()
    loaded = certgcl.GraphNetwork.load(str(weights.save(tmp_path / "some weights")))
    for (name, saved), (_, read) in zip(weights.named_tensors(), loaded.named_tensors(), strict=True):
        assert saved.dtype == read.dtype, name
        assert torch.equal(saved, read), name


def test_a_model_can_be_read_and_saved(graph: Graph, tmp_path: Path) -> None:
    encoder = certgcl.GCNEncoder(5, 4, 3, "prelu").double().eval()
    path = certgcl.read_network(encoder, (graph.x, graph.edge_index)).save(tmp_path / "w.npz")
    with torch.no_grad():
        torch.testing.assert_close(certgcl.GraphNetwork.load(path).embed(graph), encoder(graph.x, graph.edge_index))


def test_weights_that_numpy_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"bfloat16.*network\.to\(torch\.float32\)"):
        toy_network().to(torch.bfloat16).save(tmp_path / "w.npz")
    assert not list(tmp_path.iterdir())


def test_a_file_without_weights_is_refused(graph: Graph, tmp_path: Path) -> None:
    other = certgcl.node_compactness(toy_network(features=5), graph, 1).save(tmp_path / "certificate.npz")
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04")
    one = np.array(0.0)
    save_arrays(
        tmp_path / "old.npz",
        {"format": "certgcl-weights-2"},
        {"w1": np.ones((2, 3)), "b1": one, "slope1": one, "w2": np.ones((3, 2)), "b2": one, "slope2": one},
    )
    for path in (other, tmp_path / "model.pt", tmp_path / "old.npz"):
        with pytest.raises(EncoderError, match=rf"{path.name}.*certgcl-network-1.*read_network"):
            certgcl.GraphNetwork.load(path)
