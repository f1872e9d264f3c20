"""Sets of many small graphs, each with a class: two of the TU collection from their text files, and a generated one."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from certgcl.errors import DatasetError
from certgcl.files.untrusted import check_size, open_regular
from certgcl.graphs.datasets.catalogue import TU_PARTS, GraphSetInfo
from certgcl.graphs.datasets.paper import cache_folder

Integers = NDArray[np.int64]
_RULE = "the text files of the TU collection have one line for each edge, node or graph, of whole numbers"
_DIGITS = frozenset(b"0123456789-, \t\r\n")


def load_graph_set(info: GraphSetInfo, root: Path | None) -> list[Data]:
    """The graphs of a set, simple and undirected, each with its class in ``y``, of shape ``(1,)``."""
    if info.name in DRAWN:
        return DRAWN[info.name]()
    named = os.environ.get("CERTGCL_DATA")
    folders = [root] if root is not None else [*([Path(named).expanduser()] if named else []), cache_folder()]
    places = [folder / info.folder / "raw" for folder in folders]
    for raw in places:
        if all((raw / file).is_file() for file in info.files):
            return read_tu(raw, info.name)
    missing = [file for file in info.files if not (places[0] / file).is_file()]
    raise DatasetError(
        f"no {', '.join(missing)} in {places[0]}",
        f"{info.name} is read from there; nothing is downloaded",
        "Put the files of the TU collection there",
    )


# -- text files ------------------------------------------------------------------------------------


def read_tu(raw: Path, name: str) -> list[Data]:
    """The graphs in a folder of the TU collection; features are the nodes' labels, one-hot.

    Raises:
        DatasetError: a file does not follow the format, or does not fit the others.
    """
    edges, owner, y, labels = (_numbers(raw / f"{name}_{part}.txt", 2 if part == "A" else 1) for part in TU_PARTS)
    nodes, graphs = len(owner), len(y)
    steps = np.diff(owner[:, 0], prepend=owner[:1, 0])
    if not nodes or owner[0, 0] != 1 or not np.isin(steps, (0, 1)).all() or owner[-1, 0] != graphs:
        raise _damaged(raw / f"{name}_graph_indicator.txt", f"graphs that are not 1 to {graphs} in order")
    if len(labels) != nodes:
        raise _damaged(raw / f"{name}_node_labels.txt", f"{len(labels)} labels for {nodes} nodes")
    batch, ends = owner[:, 0] - 1, edges.T - 1
    if ends.size and not 0 <= ends.min() <= ends.max() < nodes:
        raise _damaged(raw / f"{name}_A.txt", f"nodes that are not 1 to {nodes}")
    if (batch[ends[0]] != batch[ends[1]]).any():
        raise _damaged(raw / f"{name}_A.txt", "an edge from one graph to another")
    known, kind = np.unique(labels[:, 0], return_inverse=True)
    check_size(raw / f"{name}_node_labels.txt", 4 * nodes * len(known), int(labels.nbytes))
    features = torch.nn.functional.one_hot(torch.from_numpy(kind), len(known)).float()
    _, classes = np.unique(y[:, 0], return_inverse=True)
    return _split(features, _simple(ends, nodes), batch, classes)


def _numbers(path: Path, columns: int) -> Integers:
    """The integers in a file, ``(lines, columns)``."""
    try:
        with open_regular(path) as stream:
            content = stream.read()
    except (OSError, ValueError) as reason:
        raise _damaged(path, str(reason)) from reason
    if not _DIGITS.issuperset(content):
        raise _damaged(path, "characters that do not belong to whole numbers")
    lines = [line.replace(b",", b" ").split() for line in content.splitlines() if line.strip()]
    if any(len(line) != columns or any(len(number) > 18 for number in line) for line in lines):
        raise _damaged(path, f"a line without {columns} whole number(s)")
    try:
        return np.array(lines, dtype=object).astype(np.int64).reshape(-1, columns)
    except ValueError as reason:
        raise _damaged(path, str(reason)) from reason


def _damaged(path: Path, found: str) -> DatasetError:
    return DatasetError(f"{path} with {found}", _RULE, "Download its files again")


def _simple(ends: Integers, nodes: int) -> Integers:
    """Both directions of every edge once, in order, without self-loops."""
    ends = ends[:, ends[0] != ends[1]]
    both = np.concatenate([ends, ends[::-1]], axis=1)
    key = np.unique(both[0] * nodes + both[1])
    return np.stack([key // nodes, key % nodes])


def _split(features: Tensor, edges: Integers, batch: Integers, classes: Integers) -> list[Data]:
    sizes = np.bincount(batch, minlength=len(classes))
    starts = np.cumsum(sizes) - sizes
    cuts = np.cumsum(np.bincount(batch[edges[0]], minlength=len(classes)))[:-1]
    return [
        Data(
            x=features[start : start + size].clone(),
            edge_index=torch.from_numpy(part - start),
            y=torch.tensor([int(label)]),
        )
        for start, size, part, label in zip(
            starts.tolist(), sizes.tolist(), np.split(edges, cuts, axis=1), classes, strict=True
        )
    ]


# -- drawn -----------------------------------------------------------------------------------------


def cycles_and_trees() -> list[Data]:
    """200 graphs of 10 to 20 nodes: trees, and as many trees around a cycle of 4 to 7 nodes; always the same graphs."""
    random = np.random.default_rng(0)
    graphs = []
    for number in range(200):
        nodes, label = int(random.integers(10, 21)), number % 2
        ring = int(random.integers(4, 8)) if label else 1
        edges = [(node, (node + 1) % ring) for node in range(ring)] if label else []
        edges += [(node, int(random.integers(node))) for node in range(ring, nodes)]
        colour = torch.from_numpy(random.integers(4, size=nodes))
        ends = _simple(np.array(edges).T, nodes)
        graphs.append(
            Data(
                x=torch.nn.functional.one_hot(colour, 4).float(),
                edge_index=torch.from_numpy(ends),
                y=torch.tensor([label]),
            )
        )
    return graphs


DRAWN: dict[str, Callable[[], list[Data]]] = {"cycles-and-trees": cycles_and_trees}
