"""Networks in files: tensors as arrays, and everything else as JSON that is checked before anything is built from
it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.arguments import FLOATS
from certgcl.arguments import path as checked_path
from certgcl.errors import EncoderError
from certgcl.files.atomic import load_arrays, refusing, save_arrays
from certgcl.models.activations import Activation
from certgcl.models.aggregations import AGGREGATIONS
from certgcl.models.layer import Layer, Term
from certgcl.models.network import GraphNetwork
from certgcl.models.registry import ACTIVATIONS

FORMAT = "certgcl-network-1"
_PRECISIONS = {str(dtype).removeprefix("torch."): dtype for dtype in FLOATS}


def save_network(network: GraphNetwork, path: str | Path) -> Path:
    """Write a network to one ``.npz`` file (no pickle inside); returns its path."""
    path = checked_path(path, error=EncoderError)
    if network.dtype not in (torch.float16, torch.float32, torch.float64):
        raise EncoderError(
            f"weights of dtype {network.dtype}",
            "a file holds float16, float32 or float64",
            "Convert with network.to(torch.float32)",
        )
    save_arrays(
        path,
        {"format": FORMAT, **meta_of(network)},
        {name: tensor.detach().cpu().numpy() for name, tensor in network.named_tensors()},
    )
    return path


def load_network(path: str | Path) -> GraphNetwork:
    """Read a network written by :func:`save_network`; a file without one raises ``EncoderError``."""
    path = checked_path(path, error=EncoderError)
    with refusing(
        path,
        EncoderError,
        f"it must be a whole file in the format {FORMAT}",
        "Write one with certgcl.read_network(model, graph).save(path)",
    ):
        meta, _ = load_arrays(path, FORMAT, ())
        meta, arrays = load_arrays(path, FORMAT, tuple(map(str, meta["tensors"])))
        return network_from(meta, {name: _tensor(array) for name, array in arrays.items()})


def meta_of(network: GraphNetwork) -> dict[str, Any]:
    """Everything except the tensors, and the tensors' names."""
    return {
        "structure": network.structure(),
        "names": [layer.name for layer in network.layers],
        "readout": list(network.readout),
        "precision": str(network.precision).removeprefix("torch."),
        "reading": network.reading,
        "tensors": [name for name, _ in network.named_tensors()],
    }


def network_from(meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> GraphNetwork:
    """The network of a description and its tensors; anything else raises one of Python's errors, or
    ``EncoderError``."""
    layers = []
    for number, (layer, name) in enumerate(zip(meta["structure"], meta["names"], strict=True), 1):
        here = {
            key.removeprefix(f"layer{number}."): tensor
            for key, tensor in tensors.items()
            if key.startswith(f"layer{number}.")
        }
        terms = tuple(
            Term(
                term["source"],
                here[f"term{place}"],
                AGGREGATIONS[term["aggregation"]](**_settings(term, "source", "aggregation")),
            )
            for place, term in enumerate(layer["terms"])
        )
        layers.append(Layer(terms, here["bias"], _activation(layer["activation"], here), name))
    network = GraphNetwork(tuple(layers), tuple(meta["readout"]), _PRECISIONS[meta["precision"]], meta["reading"])
    if meta_of(network) != {name: meta[name] for name in meta_of(network)} or (set(tensors) != set(meta["tensors"])):
        raise ValueError("parts that do not belong together")
    return network


def _activation(content: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> Activation | None:
    if content is None:
        return None
    here = {key.removeprefix("activation."): tensor for key, tensor in tensors.items() if "." in key}
    return ACTIVATIONS[content["name"]](**_settings(content, "name"), **here)


def _settings(content: Mapping[str, Any], *others: str) -> dict[str, float]:
    settings = {name: value for name, value in content.items() if name not in others}
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{name} {value!r}")
    return settings


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype.kind != "f":
        raise ValueError(f"an array of {array.dtype}")
    return torch.from_numpy(array)
