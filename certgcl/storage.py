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

from certgcl.errors import GraphError
from certgcl.files import read_members, refusing, write_atomically
from certgcl.graph import Graph, GraphLike

_FORMATS = ("a graph is a folder with x.npy and edge_index.npy, an .npz file with these arrays, or a .pt file with a "
            "PyG Data or a dict of these tensors")
_WRITE = "Write one with certgcl.save_graph(folder, graph)"
_PARTS = ("x", "edge_index", "y", "edge_weight")  # the last to be refused, not overlooked


def save_graph(folder: str | Path, graph: GraphLike) -> Path:
    """Write a graph as ``x.npy``, ``edge_index.npy`` and, for a ``Data`` that has labels, ``y.npy``.

    The edges come last, so that a folder without them is one that was not finished.
    """
    folder = Path(folder)
    y = graph.y if isinstance(graph, Data) else None
    graph = Graph.of(graph)
    if graph.x.layout != torch.strided:
        raise GraphError("sparse features", "a folder holds a dense x",
                         "Use graph.with_features(graph.x.to_dense()) if that fits on the disk")
    if graph.x.dtype not in (torch.float16, torch.float32, torch.float64):
        raise GraphError(f"features of dtype {graph.x.dtype}", "a folder holds float16, float32 or float64",
                         "Convert with graph.to(dtype=torch.float32)")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("edge_index", "y"):
        (folder / f"{name}.npy").unlink(missing_ok=True)
    for name, tensor in (("x", graph.x), ("y", y), ("edge_index", graph.edge_index)):
        if tensor is not None:
            _save_array(folder / f"{name}.npy", tensor.detach().cpu().numpy())
    return folder


def _save_array(path: Path, array: np.ndarray) -> None:
    write_atomically(path, lambda stream: np.save(stream, array, allow_pickle=False))


def load_graph(path: str | Path) -> Graph:
    """The validated graph in a folder, an ``.npz`` or a ``.pt`` file; nothing is unpickled but tensors.

    The features of a folder stay on disk (memory-mapped): rows are read when they are needed. They must not be written
    to; a program that tries is ended by the system.
    """
    return Graph.of(load_data(path))


def load_data(path: str | Path) -> Data:
    """The same, not yet validated, with labels ``y`` if there are any."""
    path = Path(path)
    with refusing(path, GraphError, _FORMATS, _WRITE):
        if path.is_dir():
            parts = {name: _mapped(path / f"{name}.npy") for name in _PARTS if (path / f"{name}.npy").exists()}
        elif path.suffix == ".npz":
            parts = {name: torch.from_numpy(array) for name, array in read_members(path, (), _PARTS).items()}
        elif path.suffix in (".pt", ".pth"):
            parts = _torch_load(path)
        else:
            raise ValueError(f"a name that ends in {path.suffix!r}" if path.suffix else "no folder")
    return _data(parts, path)


def _mapped(path: Path) -> Tensor:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    with warnings.catch_warnings():  # nothing in certgcl writes to it
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)


def _torch_load(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch's reader of tensors alone ends in any of them when it meets something else
        raise ValueError(f"not tensors alone: {type(error).__name__} {error}".splitlines()[0]) from error


def _data(parts: Any, path: Path) -> Data:
    if isinstance(parts, Data):
        return parts
    if not isinstance(parts, dict):
        raise GraphError(f"{path} with a {type(parts).__name__}", _FORMATS, _WRITE)
    missing = [name for name in ("x", "edge_index") if not isinstance(parts.get(name), Tensor)]
    if missing:
        raise GraphError(f"{path} without {' and '.join(missing)}", _FORMATS, _WRITE)
    return Data(**{name: parts[name] for name in _PARTS if name in parts})
