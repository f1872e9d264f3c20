"""Graphs in files: a folder of arrays that is opened without being read, an ``.npz`` archive, or a ``.pt`` file."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from certgcl.arguments import is_whole
from certgcl.arguments import path as checked_path
from certgcl.errors import GraphError
from certgcl.files.atomic import load_tensors, read_members, refusing, save_sealed_json, write_atomically
from certgcl.files.locks import locked
from certgcl.files.sealed import digest_of
from certgcl.files.strict_json import read_sealed
from certgcl.files.untrusted import check_tree, mapped_array, open_regular
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.graphs.names import NodeNames

SEAL = "graph.json"
_FORMAT = "certgcl-graph-2"
_FORMATS = (
    "a graph is a folder with x.npy, edge_index.npy and graph.json, an .npz file with these arrays, or a .pt "
    "file with a PyG Data or a dict of these tensors"
)
_WRITE = "Write one with certgcl.save_graph(folder, graph)"
_RESEAL = (
    "Write it again with certgcl.save_graph(folder, graph); if you put the arrays there yourself, or mean to "
    "keep the change, record their checksums with certgcl.seal_graph(folder)"
)
_PARTS = ("x", "edge_index", "y", "edge_weight", "names")  # weights raise an error instead of being ignored


def save_graph(folder: str | Path, graph: GraphLike) -> Path:
    """Write a graph as ``x.npy``, ``edge_index.npy``, ``names.npy`` if its nodes have names (of a ``Data``,
    ``node_names``), and, for a ``Data`` that has labels, ``y.npy``.

    Names are kept as they are if all are integers, and written as text otherwise. Checksums come last, in
    ``graph.json``: a folder without them was not finished.

    Raises:
        LockedError: another process is writing to the folder.
    """
    folder = checked_path(folder, "folder", GraphError)
    y = graph.y if isinstance(graph, Data) else None
    graph = Graph.of(graph)
    if graph.x.layout != torch.strided:
        raise GraphError(
            "sparse features",
            "a folder holds a dense x",
            "Use graph.with_features(graph.x.to_dense()) if that fits on the disk",
        )
    if graph.x.dtype not in (torch.float16, torch.float32, torch.float64):
        raise GraphError(
            f"features of dtype {graph.x.dtype}",
            "a folder holds float16, float32 or float64",
            "Convert with graph.to(dtype=torch.float32)",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "graph"):
        for name in (SEAL, "y.npy", "names.npy"):
            (folder / name).unlink(missing_ok=True)
        for name, tensor in (("x", graph.x), ("y", y), ("edge_index", graph.edge_index)):
            if tensor is not None:
                _save_array(folder / f"{name}.npy", tensor.detach().cpu().numpy())
        if graph.names is not None:
            _save_array(folder / "names.npy", _written(graph.names))
        _seal(folder)
    return folder


def _written(names: NodeNames) -> np.ndarray:
    """Names as an array of integers or of text, which needs no pickle."""
    if all(is_whole(name) and abs(int(name)) < 2**63 for name in names.all):  # type: ignore[call-overload]
        return np.array([int(name) for name in names.all], dtype=np.int64)  # type: ignore[call-overload]
    words = [str(name) for name in names.all]
    array = np.array(words, dtype=np.str_)
    if array.tolist() != list(NodeNames(tuple(words)).all):
        raise GraphError("a name that ends in the character 0", "a file of names cannot hold it", "Rename the node")
    return array


def _save_array(path: Path, array: np.ndarray) -> None:
    write_atomically(path, lambda stream: np.save(stream, array, allow_pickle=False))


def seal_graph(folder: str | Path) -> Path:
    """Record the checksums of arrays that were put into a folder by other means than :func:`save_graph`.

    From then on :func:`load_graph` raises an error if any of them changes.

    Example::

        import numpy

        numpy.save("x.npy", data.x)  # or piece by piece, with numpy.lib.format.open_memmap
        numpy.save("edge_index.npy", data.edge_index)
        certgcl.load_graph(certgcl.seal_graph("."))
    """
    folder = checked_path(folder, "folder", GraphError)
    missing = [name for name in ("x", "edge_index") if not (folder / f"{name}.npy").is_file()]
    if missing:
        raise GraphError(f"{folder} without {' and '.join(missing)}", _FORMATS, _WRITE)
    with locked(folder, "graph"), refusing(folder, GraphError, _FORMATS, _WRITE):
        _seal(folder)
    return folder


def _seal(folder: Path) -> None:
    files = {f"{name}.npy": _checksum(folder / f"{name}.npy") for name in _PARTS if (folder / f"{name}.npy").exists()}
    save_sealed_json(folder / SEAL, {"format": _FORMAT, "files": files})


def _checksum(path: Path) -> str:
    with open_regular(path) as stream:
        return digest_of(stream)


def load_graph(path: str | Path, *, check: bool = True, limit: int | None = None) -> Graph:
    """The validated graph in a folder, an ``.npz`` or a ``.pt`` file; only tensors are unpickled.

    The features of a folder stay on disk (memory-mapped): rows are read when they are needed. They are read-only; the
    system ends a program that tries to write to them.

    Args:
        check: compare the checksums of a folder, which reads its files once, at one to two seconds per gigabyte.
            Otherwise a changed byte in them goes unnoticed; only sizes and shapes are compared.
        limit: the most bytes that an ``.npz`` or ``.pt`` file may unpack to; by default 100 times its size (or 256 MB
            if that is more), but at most half of the free memory.

    Raises:
        GraphError: it is damaged, or not a graph that certgcl supports.
        FileSizeError: it would unpack to more than ``limit``.
    """
    return Graph.of(load_data(path, check=check, limit=limit))


def load_data(path: str | Path, *, check: bool = True, limit: int | None = None) -> Data:
    """The same, not yet validated as a graph, with labels ``y`` and ``node_names`` if there are any."""
    path = checked_path(path, error=GraphError)
    if path.is_dir():
        return _data(_folder(path, check), path)
    with refusing(path, GraphError, _FORMATS, _WRITE):
        if path.suffix == ".npz":
            arrays = read_members(path, (), _PARTS, limit=limit)
            parts: Any = {name: _part(name, array) for name, array in arrays.items()}
        elif path.suffix in (".pt", ".pth"):
            with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
                parts = load_tensors(path, limit=limit, sealed=False)
            if isinstance(parts, Data):
                check_tree(path, parts.to_dict(), path.stat().st_size, limit)
        else:
            raise ValueError(f"a name that ends in {path.suffix!r}" if path.suffix else "no folder")
    return _data(parts, path)


def _folder(folder: Path, check: bool) -> dict[str, Any]:
    """The arrays of a folder, as listed in its ``graph.json``."""
    if not (folder / SEAL).is_file():
        raise GraphError(
            f"{folder} without {SEAL}",
            "a folder holds the checksums of its arrays: this one was not "
            "finished, or is of another version of certgcl",
            _RESEAL,
        )
    with refusing(folder / SEAL, GraphError, f"it must be a whole file in the format {_FORMAT}", _RESEAL):
        noted = dict(read_sealed(folder / SEAL, _FORMAT)["files"])
        if not set(noted) <= {f"{name}.npy" for name in _PARTS}:
            raise ValueError(f"files {', '.join(noted)}")
    parts = {}
    for name in _PARTS:
        path, file = folder / f"{name}.npy", f"{name}.npy"
        if path.exists() != (file in noted):
            found = f"{path}, which is not in {SEAL}" if path.exists() else f"{folder} without {file}"
            raise GraphError(found, f"{SEAL} says which arrays there are", _RESEAL)
        if file not in noted:
            continue
        with refusing(path, GraphError, f"it must be the array that {SEAL} names", _RESEAL):
            if check and _checksum(path) != noted[file]:
                raise ValueError("changed since it was written: its checksum does not match")
            parts[name] = _part(name, mapped_array(path))
    return parts


def _part(name: str, array: np.ndarray) -> Any:
    """A tensor, or a list of names."""
    if name == "names":
        if array.ndim != 1 or array.dtype.kind not in "iuU":
            raise ValueError(f"names of type {array.dtype} and shape {array.shape}")
        return array.tolist()
    return as_tensor(array)


def as_tensor(array: np.ndarray) -> Tensor:
    """A tensor that shares the memory of an array, which may be a read-only file."""
    with warnings.catch_warnings():  # certgcl never writes to it
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)


def _data(parts: Any, path: Path) -> Data:
    if isinstance(parts, Data):
        return parts
    if not isinstance(parts, dict):
        raise GraphError(f"{path} with a {type(parts).__name__}", _FORMATS, _WRITE)
    missing = [name for name in ("x", "edge_index") if not isinstance(parts.get(name), Tensor)]
    if missing:
        raise GraphError(f"{path} without {' and '.join(missing)}", _FORMATS, _WRITE)
    return Data(**{"node_names" if name == "names" else name: parts[name] for name in _PARTS if name in parts})
