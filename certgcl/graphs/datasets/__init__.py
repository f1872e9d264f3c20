"""Graphs by name: four that need no files, the eight of the paper, which PyG reads from a folder or downloads, and sets
of many graphs."""

from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from certgcl.arguments import path
from certgcl.errors import DatasetError
from certgcl.graphs.datasets.catalogue import (
    DATASETS,
    GRAPH_SETS,
    DatasetInfo,
    GraphSetInfo,
    dataset_names,
    find_dataset,
    find_graph_set,
)
from certgcl.graphs.datasets.embedded import EMBEDDED, NAMES
from certgcl.graphs.datasets.graph_sets import load_graph_set
from certgcl.graphs.datasets.paper import read, row_normalised


def load_dataset(name: str, root: str | Path | None = None) -> Data | list[Data]:
    """A graph by name, simple and undirected: float32 ``x``, ``edge_index``, one class per node in ``y``; or a list of
    the graphs of a set (``"MUTAG"``, ``"PROTEINS"``, ``"cycles-and-trees"``), each with one class in ``y``.

    Graphs with a public split have ``train_mask``, ``val_mask`` and ``test_mask``. Features of the paper's graphs are
    row-normalised; those of Flickr are sparse.

    Args:
        name: one of :data:`DATASETS` or :data:`GRAPH_SETS`, in any case.
        root: the folder with the raw files; nothing is downloaded then. By default the one that ``CERTGCL_DATA`` names,
            then ``CERTGCL_CACHE`` (or ``~/.cache/certgcl``), then a download into the latter. Embedded graphs need
            none.

    The folder is laid out as PyG has it: ``Planetoid/Cora/raw``, ``Amazon/Photo/raw``, ``AttributedGraph/flickr/raw``,
    ``WikiCS/raw``, ``TU/MUTAG/raw``. Nothing is written there.
    """
    several = find_graph_set(name)
    return load_single_graph(name, root) if several is None else load_graph_set(several, _folder(root))


def load_single_graph(name: str, root: str | Path | None = None) -> Data:
    """The same for one of :data:`DATASETS` alone."""
    info, folder = find_dataset(name), _folder(root)
    if info.kind == "embedded":
        data = _simple(*EMBEDDED[info.name]())
        if info.name in NAMES:
            data.node_names = NAMES[info.name]()
        return data
    raw = read(info, folder)
    data = _simple(row_normalised(raw.x), raw.edge_index, raw.y)
    if info.protocol == "public":
        for mask in ("train_mask", "val_mask", "test_mask"):
            data[mask] = raw[mask]
    return data


def _folder(root: str | Path | None) -> Path | None:
    return None if root is None else path(root, "root", DatasetError).expanduser()


def _simple(x: Tensor, edge_index: Tensor, y: Tensor) -> Data:
    edge_index = to_undirected(remove_self_loops(edge_index)[0], num_nodes=x.shape[0])
    return Data(x=x.float(), edge_index=edge_index, y=y.long())


__all__ = [
    "DATASETS",
    "GRAPH_SETS",
    "DatasetInfo",
    "GraphSetInfo",
    "dataset_names",
    "find_dataset",
    "load_dataset",
    "load_single_graph",
]
