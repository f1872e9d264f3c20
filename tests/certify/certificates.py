"""Certificates for tests, and their files with parts of them changed."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from certgcl import __version__, node_compactness
from certgcl.bounds import Degree
from certgcl.certify.certificate import Certificate
from certgcl.certify.evidence import Evidence, Fact
from certgcl.files.sealed import seal
from tests.toys import random_graph, toy_network


def certificate_by_hand() -> Certificate:
    """Three of five nodes. Node 4 is above zero but not above its rounding."""
    evidence = Evidence(
        weights=Fact("1 -> 1 -> 2 channels, float32", 64 * "1"),
        edges=Fact("5 nodes, 4 edges", 64 * "2"),
        features=Fact("1 per node, float32", 64 * "3"),
        budget=Fact("local 0 … 3, total 4 edges", 64 * "4"),
        directions=Fact("given, of shape (5, 2)", 64 * "5"),
        method=Fact(repr(Degree())),
        dtype=Fact("float32"),
        certgcl=Fact(__version__),
    )
    return Certificate(
        nodes=torch.tensor([3, 0, 4]),
        lower=torch.tensor([0.5, -1.0, 1e-9]),
        nominal=torch.tensor([0.75, -0.5, 0.25]),
        rounding=torch.tensor([1e-8, 1e-8, 1e-8]),
        run_error=torch.zeros(3),
        method="degree",
        certified=True,
        local_budget=torch.tensor([2, 1, 0, 1, 3]),
        requested_budget=torch.full((5,), 3),
        total_budget=4,
        directions=torch.ones(3, 2),
        precision="float32",
        reading="given",
        evidence=evidence,
        norms=torch.tensor([1.0, 0.5, 0.5]),
    )


def certificate_of_a_search() -> Certificate:
    """With brackets and witnesses."""
    return node_compactness(toy_network(), random_graph(9, 0.4), 2, method="exact")


def rewritten(
    path: Path,
    *,
    honest: bool = False,
    meta: Callable[[dict[str, Any]], object] = lambda _: None,
    **arrays: np.ndarray | None,
) -> Path:
    """The file with some arrays replaced, or left out where the change is None, and its meta changed.

    Args:
        honest: whether the checksum is made to fit, so that only the values can give it away.
    """
    with np.load(path) as file:
        changed = {name: file[name] for name in file.files} | arrays
    content = json.loads(str(changed.pop("meta")))
    meta(content)
    kept = {name: array for name, array in changed.items() if array is not None}
    np.savez(path, meta=np.array(json.dumps(content)), **kept)
    if honest:
        with path.open("r+b") as stream:
            seal(stream)
    return path


def fields_of(certificate: Certificate) -> dict[str, Any]:
    """All that a certificate says, ready to be compared."""
    shown = dict(vars(certificate))
    shown["evidence"] = asdict(certificate.evidence)
    witnesses = certificate.witnesses
    shown["witnesses"] = None if witnesses is None else [witness.tolist() for witness in witnesses]
    return {
        name: (str(value.dtype), value.tolist()) if isinstance(value, torch.Tensor) else value
        for name, value in shown.items()
    }
