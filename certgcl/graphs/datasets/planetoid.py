"""Cora, CiteSeer and PubMed from the files of Planetoid: pickles from 2016, from which only numbers are built.

A pickle can name any function to be called. Here only the six names that these files need are accepted, and none of
them is resolved to the function that it names: numpy's and scipy's own reconstruction never runs on bytes that anyone
may have written. Instead the description of an array is recorded, checked, and turned into an array of plain numbers.
"""

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.utils import coalesce, index_to_mask, remove_self_loops

from certgcl.files.untrusted import check_size

_VALIDATION = 500  # nodes that follow the labelled ones
_PARTS = ("x", "y", "tx", "ty", "allx", "ally")
_TYPES = {"i4": np.int32, "i8": np.int64, "f4": np.float32, "f8": np.float64}
_OPCODES = frozenset(
    (
        "PROTO",
        "STOP",
        "MARK",
        "GLOBAL",
        "REDUCE",
        "NEWOBJ",
        "BUILD",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "APPEND",
        "APPENDS",
        "SETITEM",
        "SETITEMS",
        "BINPUT",
        "LONG_BINPUT",
        "BINGET",
        "LONG_BINGET",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINUNICODE",
    )
)


class SafePlanetoid(Planetoid):  # type: ignore[misc]  # PyG has no types
    """PyG's dataset, which also knows where to download the files from, without its unpickling."""

    def process(self) -> None:
        self.save([read_planetoid(Path(self.raw_dir), self.name.lower())], self.processed_paths[0])


def read_planetoid(folder: Path, name: str) -> Data:
    """The graph as PyG builds it, from the eight files ``ind.name.*``.

    Raises:
        ValueError: a file contains anything other than the arrays and lists of Planetoid.
    """
    x, y, tx, ty, allx, ally = (_matrix(folder / f"ind.{name}.{part}") for part in _PARTS)
    test = torch.tensor([int(line) for line in (folder / f"ind.{name}.test.index").read_text().split()])
    ordered, first = test.sort().values, int(test.min())
    span = int(test.max()) - first + 1  # more than len(test) in CiteSeer, which leaves out nodes without edges
    if len(x) != len(y) or len(allx) != len(ally) or first != len(allx) or span > 2 * len(tx):
        raise ValueError(f"test nodes {first} to {int(test.max())}, {len(allx)} others and {len(tx)} rows for them")
    x, classes = (torch.cat([known, _spread(rest, ordered - first, span)]) for known, rest in ((allx, tx), (ally, ty)))
    x[test], classes[test] = x[ordered], classes[ordered]
    data = Data(x=x, edge_index=_edges(folder / f"ind.{name}.graph", len(x)), y=classes.argmax(dim=1))
    masks = {"train": torch.arange(len(y)), "val": torch.arange(len(y), len(y) + _VALIDATION), "test": test}
    for mask, nodes in masks.items():
        data[f"{mask}_mask"] = index_to_mask(nodes, size=len(x))
    return data


def _spread(rows: Tensor, places: Tensor, span: int) -> Tensor:
    spread = rows.new_zeros(span, rows.shape[1])
    spread[places] = rows
    return spread


def _edges(path: Path, nodes: int) -> Tensor:
    """The edges in the lists of neighbours, without the self-loops and duplicates among them."""
    lists = _load(path)
    if not isinstance(lists, dict) or not all(type(node) is int and type(near) is list for node, near in lists.items()):
        raise ValueError(f"{path.name} without a list of neighbours for each node")
    row = [node for node, near in lists.items() for _ in near]
    edges = torch.tensor([row, [other for near in lists.values() for other in near]])
    if edges.dtype != torch.long or not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise ValueError(f"{path.name} with neighbours that are not nodes")
    return coalesce(remove_self_loops(edges)[0], num_nodes=nodes, sort_by_row=False)


def _matrix(path: Path) -> Tensor:
    """The numbers in a file in float32, dense."""
    found = _load(path)
    return torch.from_numpy(_dense(path, found.state) if isinstance(found, _Sparse) else _numbers(found, 2)).float()


# -- pickles ---------------------------------------------------------------------------------------


def _load(path: Path) -> Any:
    content = path.read_bytes()
    for operation, argument, _ in pickletools.genops(content):
        if operation.name not in _OPCODES or ("PUT" in operation.name and int(argument or 0) > len(content)):
            raise ValueError(f"{path.name} with {operation.name}, which no file of Planetoid has")
    return _Unpickler(io.BytesIO(content), encoding="latin1").load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _KNOWN.get((module, name))
        if found is None:
            raise ValueError(f"a pickle that asks for {module}.{name}, which no file of Planetoid does")
        return found


class _Noted:
    """A pickle's description of an object: how it is made, and its state."""

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype(_Noted):
    pass


class _Array(_Noted):
    pass


class _Sparse(_Noted):
    pass


class _Lists(_Noted, dict[Any, Any]):
    """An empty dict, whatever arguments it is created with."""


_KNOWN: dict[tuple[str, str], type[_Noted]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Noted,
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Sparse,
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): _Noted,
}


# -- arrays ----------------------------------------------------------------------------------------


def _dense(path: Path, state: Any) -> np.ndarray:
    """A CSR matrix, checked."""
    values, columns, starts = (_numbers(state[part], 1) for part in ("data", "indices", "indptr"))
    rows, width = (int(length) for length in state["_shape"])
    check_size(path, 4 * rows * width, path.stat().st_size)
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        raise ValueError("a sparse matrix whose rows do not fit it")
    if len(columns) != len(values) or (len(columns) and not 0 <= columns.min() <= columns.max() < width):
        raise ValueError("a sparse matrix whose columns do not fit it")
    dense = np.zeros((rows, width), np.float32)
    np.add.at(dense, (np.repeat(np.arange(rows), np.diff(starts)), columns), values)
    return dense


def _numbers(noted: Any, dimensions: int) -> np.ndarray:
    """The array that a pickle describes: numbers of a known type that fill its bytes."""
    if not isinstance(noted, _Array) or not isinstance(noted.state, tuple) or len(noted.state) != 5:
        raise ValueError(f"a {type(noted).__name__} instead of an array")
    _, shape, dtype, fortran, content = noted.state
    if (
        not isinstance(dtype, _Dtype)
        or dtype.arguments[:1] not in {(name,) for name in _TYPES}
        or not isinstance(dtype.state, tuple)
        or dtype.state[1:2] != ("<",)
        or not isinstance(content, str)
    ):
        raise ValueError("an array of another type than Planetoid's")
    kind = np.dtype(_TYPES[dtype.arguments[0]])
    if len(shape) != dimensions or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"an array of shape {shape}")
    if math.prod(shape) * kind.itemsize != len(content):
        raise ValueError(f"an array of shape {shape} in {len(content)} bytes")
    array = np.frombuffer(bytearray(content.encode("latin1")), kind) if content else np.empty(0, kind)
    return array.reshape(shape, order="F" if fortran else "C")
