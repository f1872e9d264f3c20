"""The file of a certificate of whole graphs: arrays, what they mean and what they are about, sealed by a checksum."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from certgcl.certify.certificate_file import as_json
from certgcl.certify.evidence import Evidence
from certgcl.errors import CertificateError
from certgcl.files.atomic import load_arrays, refusing, save_arrays

if TYPE_CHECKING:
    from certgcl.certify.pooling.certificate import GraphCertificate

FORMAT = "certgcl-graph-certificate-1"
_ARRAYS = (
    "lower",
    "nominal",
    "rounding",
    "run_error",
    "upper",
    "enumerated",
    "directions",
    "most_dropped",
    "sizes",
    "local_budget",
    "requested_budget",
    "total_budget",
)
_WITNESSES = ("witness_edges", "witness_sizes")
_WORDS = ("method", "pool", "precision", "reading")


def write(certificate: "GraphCertificate", path: Path, notes: Mapping[str, Any]) -> None:
    """Write everything to one ``.npz`` file, without pickle."""
    witnesses = [edges.cpu() for each in certificate.witnesses for edges in each]
    tensors = {name: getattr(certificate, name).detach().cpu() for name in _ARRAYS} | {
        "witness_edges": torch.cat(witnesses, dim=1),
        "witness_sizes": torch.tensor([edges.shape[1] for edges in witnesses]),
    }
    meta = {name: getattr(certificate, name) for name in _WORDS} | {
        "format": FORMAT,
        "evidence": certificate.evidence.to_dict(),
        "notes": as_json(notes),
    }
    save_arrays(path, meta, {name: tensor.numpy() for name, tensor in tensors.items()})


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the certificate in a file, and the notes it was saved with.

    Raises:
        CertificateError: it is not what :func:`write` wrote.
    """
    with refusing(
        path,
        CertificateError,
        f"it must be a whole file in the format {FORMAT}",
        "Certify again and write one with GraphCertificate.save, or bring it back from a copy",
    ):
        meta, arrays = load_arrays(path, FORMAT, (*_ARRAYS, *_WITNESSES))
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        edges, sizes = (tensors.pop(name) for name in _WITNESSES)
        graphs = len(tensors["sizes"])
        if sizes.dim() != 1 or not graphs or len(sizes) % graphs:
            raise ValueError(f"{len(sizes)} witnesses for {graphs} graphs")
        each, several = edges.split(sizes.tolist(), dim=1), len(sizes) // graphs
        witnesses = tuple(tuple(each[start : start + several]) for start in range(0, len(each), several))
        words = {name: meta[name] for name in _WORDS}
        return {**tensors, **words, "witnesses": witnesses, "evidence": Evidence.from_dict(meta["evidence"])}, dict(
            meta["notes"]
        )
