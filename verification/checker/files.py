"""Reads networks, graphs and numbers from plain files: that they are what the proof is about must be right as well."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from .core.activations import activation
from .core.arithmetic import Array, Ints
from .core.network import Graph, Layer, Mixing, Network, Term


def arrays_of(path: Path) -> dict[str, Any]:
    """All arrays of an archive. Two of one name are refused: another program might show one of them while this one
    reads the other."""
    with np.load(path, allow_pickle=False) as arrays:
        if len(set(arrays.files)) < len(arrays.files):
            raise ValueError(f"{path.name} has two arrays of one name")
        return {name: arrays[name] for name in arrays.files}


def numbers(given: Any, finite: bool = True) -> Array:
    """Numbers of a file as float64, none of them rounded on the way."""
    found = np.asarray(given)
    small = found.dtype.kind in "iub" and (np.abs(found) <= 2**53).all()
    if not (small or (found.dtype.kind == "f" and found.itemsize <= 8)) or (finite and not np.isfinite(found).all()):
        raise ValueError(f"numbers of the type {found.dtype} that are infinite, NaN or no float64")
    return found.astype(np.float64)


def whole(given: Any) -> Ints:
    """Integers; other numbers are refused, not truncated."""
    found = np.asarray(given)
    if found.dtype.kind not in "iu" or (found.astype(np.int64) != found).any():
        raise ValueError(f"numbers of the type {found.dtype} that should be whole")
    return found.astype(np.int64)


def load_network(path: Path) -> Network:
    """A file of the format certgcl-network-1."""
    arrays = arrays_of(path)
    meta = json.loads(str(arrays.pop("meta")))
    if meta["format"] != "certgcl-network-1":
        raise ValueError(f"a network in the format {meta['format']!r}")
    return network_of(meta, arrays)


def network_of(meta: dict[str, Any], arrays: dict[str, Any]) -> Network:
    layers: list[Layer] = []
    for number, content in enumerate(meta["structure"], 1):
        here = {
            name.removeprefix(f"layer{number}."): numbers(array)
            for name, array in arrays.items()
            if name.startswith(f"layer{number}.")
        }
        terms = tuple(
            Term(int(whole(term["source"])), here[f"term{place}"], mixing_of(term))
            for place, term in enumerate(content["terms"])
        )
        if not terms or not all(0 <= term.source < number for term in terms):
            raise ValueError(f"layer {number} takes nothing, or a layer that is not below it")
        layers.append(Layer(terms, here["bias"], activation(content["activation"], here)))
        width = len(here["bias"])
        if here["bias"].ndim != 1 or not all(
            term.weight.shape in ((width,), (len(term.weight), width))
            and (term.source == 0 or len(term.weight) == len(layers[term.source - 1].bias))
            for term in terms
        ):
            raise ValueError(f"layer {number} with weights that do not fit each other")
    readout = tuple(whole(meta["readout"]).tolist())
    if len(set(readout)) < len(readout) or not all(0 < number <= len(layers) for number in readout):
        raise ValueError("a readout with a layer twice, or with one that does not exist")
    return Network(tuple(layers), readout)


def mixing_of(term: dict[str, Any]) -> Mixing:
    found = Mixing(term["aggregation"], float(term.get("loop", 1.0)))
    if not set(term) <= {"source", "aggregation", "loop"} or not 0 <= found.loop < np.inf:
        raise ValueError(f"a term that is {term}, of which no formula is known")
    return found


def load_graph(path: Path) -> Graph:
    """A folder with x.npy and edge_index.npy, or one .npz file with these."""
    if path.is_dir():
        return graph_of(*(np.load(path / f"{name}.npy", allow_pickle=False) for name in ("x", "edge_index")))
    arrays = arrays_of(path)
    return graph_of(arrays["x"], arrays["edge_index"])


def graph_of(x: Array, edge_index: Ints) -> Graph:
    listed, x = list(map(tuple, whole(edge_index).T.tolist())), numbers(x)
    edges = set(listed)
    if len(edges) < len(listed) or any(a == b or (b, a) not in edges or not 0 <= a < len(x) for a, b in edges):
        raise ValueError("a graph with loops, with edges twice or of one direction, or of nodes that do not exist")
    rows: list[list[int]] = [[] for _ in range(len(x))]
    for a, b in sorted(edges):
        rows[a].append(b)
    return Graph(x, tuple(np.array(row, dtype=np.int64) for row in rows))
