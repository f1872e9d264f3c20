"""Graphs that stay on disk: a computation at some nodes loads only their neighbourhood."""

import hashlib
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.arguments import flag
from certgcl.arguments import path as checked_path
from certgcl.errors import GraphError
from certgcl.files.atomic import refusing, save_sealed_json, write_atomically
from certgcl.files.locks import locked
from certgcl.files.sealed import digest_of
from certgcl.files.strict_json import read_sealed
from certgcl.files.untrusted import mapped_array, open_regular
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.graphs.halo import Halo, halo_of
from certgcl.graphs.storage import as_tensor

SEAL = "rows.json"
ARRAYS = ("x", "rowptr", "col")
_FORMAT = "certgcl-rows-1"
_REMEDY = "Write it again with certgcl.StoredGraph.save(folder, graph)"


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A graph in a folder, as ``x.npy``, ``rowptr.npy`` and ``col.npy``: compressed rows, memory-mapped and read on
    demand.

    Open one with :meth:`open`. ``certify_shards`` takes it instead of a graph; each part of the anchors then loads
    its own halo. Any graph can be written in that form by :meth:`save`.

    Example::

        import torch

        stored = certgcl.StoredGraph.save("rows", data)
        stored.halo(torch.arange(10), hops=2).graph         # what two layers see from the first ten nodes
    """

    folder: Path
    mapped: Graph
    identity: dict[str, tuple[int, ...]] = field(repr=False)
    checksums: dict[str, str] = field(repr=False)

    @classmethod
    def save(cls, folder: str | Path, graph: GraphLike) -> "StoredGraph":
        """Write a graph; its checksums come last, in ``rows.json``."""
        folder = checked_path(folder, "folder", GraphError)
        graph = Graph.of(graph)
        if graph.x.layout != torch.strided or graph.x.dtype not in (torch.float16, torch.float32, torch.float64):
            raise GraphError(
                f"features {graph.x.layout}, {graph.x.dtype}",
                "a folder holds a dense x in float16, float32 or float64",
                "Convert it",
            )
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, "rows"):
            (folder / SEAL).unlink(missing_ok=True)
            for name in ARRAYS:
                array = getattr(graph, name).detach().cpu().numpy()
                write_atomically(folder / f"{name}.npy", partial(np.save, arr=array))
            sums = {name: _checksum(folder / f"{name}.npy") for name in ARRAYS}
            save_sealed_json(folder / SEAL, {"format": _FORMAT, "files": sums})
        return cls.open(folder, check=False)

    @classmethod
    def open(cls, folder: str | Path, *, check: bool = True) -> "StoredGraph":
        """The graph in a folder of :meth:`save`.

        Args:
            check: compare the checksums, which reads all files once. Otherwise a changed byte goes unnoticed.
        """
        folder, check = checked_path(folder, "folder", GraphError).resolve(), flag(check, "check", GraphError)
        rule = f"it holds x.npy, rowptr.npy, col.npy and {SEAL}, which has their checksums"
        if not (folder / SEAL).is_file():
            raise GraphError(f"{folder} without {SEAL}", rule, _REMEDY)
        with refusing(folder, GraphError, rule, _REMEDY):
            noted = read_sealed(folder / SEAL, _FORMAT)["files"]
            checksums, identity = {name: str(noted[name]) for name in ARRAYS}, _identities(folder)
            for name in ARRAYS:
                if check and _checksum(folder / f"{name}.npy") != checksums[name]:
                    raise ValueError(f"{name}.npy has changed: its checksum does not match")
            x, rowptr, col = (as_tensor(mapped_array(folder / f"{name}.npy")) for name in ARRAYS)
            if rowptr.dtype != torch.long or col.dtype != torch.long or int(rowptr[-1]) != col.numel():
                raise ValueError("rows that do not fit each other")
        opened = cls(folder, Graph.trusted(x, rowptr, col), identity, checksums)
        opened._check_unchanged()
        return opened

    @property
    def num_nodes(self) -> int:
        return self.mapped.num_nodes

    @property
    def num_edges(self) -> int:
        return self.mapped.num_edges

    def halo(self, anchors: Tensor, hops: int, limit: int | None = None) -> Halo:
        """Everything that a network of ``hops`` hops sees from some anchors, loaded and checked to be a graph.

        Args:
            limit: the most bytes that it may take.

        Raises:
            GraphError: a file was modified or replaced since the graph was opened.
        """
        found = halo_of(self.mapped, anchors, hops, limit)
        self._check_unchanged()
        return found

    def _check_unchanged(self) -> None:
        try:
            unchanged = _identities(self.folder) == self.identity
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise GraphError(
                f"{self.folder}, whose files were modified or replaced while they were in use",
                "all parts of a computation read the graph that was opened",
                "Open it again, and begin again",
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "identity": self.identity, "checksums": self.checksums}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reopened where it is needed, as the same graph: its contents are compared with the checksums, unless it is
        the very file that was opened before."""
        folder = Path(state["folder"])
        try:
            same = _identities(folder) == state["identity"]
        except FileNotFoundError:
            same = False
        opened = StoredGraph.open(folder, check=not same)
        if opened.checksums != state["checksums"] or (same and opened.identity != state["identity"]):
            raise GraphError(
                f"{folder} with another graph than the one that was sent",
                "all workers read the same graph",
                "Give every machine the same files under the same path",
            )
        vars(self).update(vars(opened))

    def __repr__(self) -> str:
        return f"StoredGraph({str(self.folder)!r}, {self.mapped!r})"


def _identities(folder: Path) -> dict[str, tuple[int, ...]]:
    return {name: _identity(folder / f"{name}.npy") for name in ARRAYS}


def _identity(path: Path) -> tuple[int, ...]:
    """The identity of a file, as far as it is known without reading it."""
    found = os.stat(path)
    machine = int.from_bytes(hashlib.sha256(os.uname().nodename.encode()).digest()[:6])
    return machine, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _checksum(path: Path) -> str:
    with open_regular(path) as stream:
        return digest_of(stream)
