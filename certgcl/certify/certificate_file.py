"""The file of a certificate: arrays with their meaning and evidence, and a checksum.

The checksum detects accidents: a changed byte, arrays of two certificates in one file, an edited number. It is not a
signature, since anyone can compute it for other numbers; whether a certificate belongs to a given model and graph is
checked by :meth:`certgcl.Certificate.verify`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.arguments import is_whole, shown
from certgcl.certify.budget_curve import BudgetCurve
from certgcl.certify.evidence import Evidence
from certgcl.certify.proof import ARRAYS as _PROOF
from certgcl.certify.proof import ProofTrace
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.edge_additions import AdmissibleAdditions, Candidates
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import CertificateError
from certgcl.files.atomic import load_arrays, refusing, save_arrays
from certgcl.graphs.names import NodeNames

if TYPE_CHECKING:
    from certgcl.certify.certificate import Certificate

FORMAT = "certgcl-certificate-4"
_READ = (FORMAT, "certgcl-certificate-3", "certgcl-certificate-2")  # edges that are dropped alone; without norms
_ARRAYS = ("nodes", "lower", "nominal", "rounding", "run_error", "directions", "local_budget", "requested_budget")
_BRACKET = ("upper", "witness_edges", "witness_sizes")
_NORMS = "norms"
_CHANGED = ("changed_nodes", "changed_columns", "changed_values", "changed_sizes")
_FEATURES = ("features_off", "features_on", "features_radius")
_ADDED = ("added_local", "added_degree", "added_both")
_NEW = ("new_edges", "new_sizes")
_CANDIDATES = ("candidate_rowptr", "candidate_col")
_WORDS = ("method", "precision", "reading")
_RULE = f"it must be a whole file in the format {FORMAT}"
_REMEDY = "Certify again and write one with Certificate.save, or bring it back from a copy"


def write(certificate: "Certificate", path: Path, notes: Mapping[str, Any]) -> None:
    """Write everything to one ``.npz`` file, without pickle."""
    tensors = {name: getattr(certificate, name).detach().cpu() for name in _ARRAYS}
    if certificate.upper is not None and certificate.witnesses is not None:
        sizes = torch.tensor([witness.shape[1] for witness in certificate.witnesses])
        tensors |= {
            "upper": certificate.upper.detach().cpu(),
            "witness_sizes": sizes,
            "witness_edges": torch.cat(certificate.witnesses, dim=1).cpu(),
        }
    if certificate.norms is not None:
        tensors[_NORMS] = certificate.norms.detach().cpu()
    if certificate.changed is not None:
        sizes = torch.tensor([len(entries) for entries in certificate.changed])
        tensors |= {
            name: torch.cat([getattr(entries, name.removeprefix("changed_")) for entries in certificate.changed]).cpu()
            for name in _CHANGED[:3]
        } | {_CHANGED[3]: sizes}
    if certificate.added is not None:
        sizes = torch.tensor([edges.shape[1] for edges in certificate.added])
        tensors |= dict(zip(_NEW, (torch.cat(certificate.added, dim=1).cpu(), sizes), strict=True))
    features, added = certificate.features, certificate.additions
    if features is not None:
        tensors |= {name: getattr(features, name.removeprefix("features_")).cpu() for name in _FEATURES}
    if added is not None:
        tensors |= dict(zip(_ADDED, (added.local.cpu(), added.addable_degree.cpu(), added.both.cpu()), strict=True))
        if added.candidates is not None:
            tensors |= dict(zip(_CANDIDATES, (part.cpu() for part in added.candidates), strict=True))
    meta: dict[str, Any] = {name: getattr(certificate, name) for name in _WORDS} | {
        "format": FORMAT,
        "certified": certificate.certified,
        "total_budget": certificate.total_budget,
        "evidence": certificate.evidence.to_dict(),
        "notes": as_json(notes),
    }
    if features is not None:  # files of features that stay have no such entry
        meta["features"] = {"kind": features.kind, "columns": features.columns, "total": features.total}
    if certificate.proof is not None:
        meta["proof"] = certificate.proof.words
        tensors |= certificate.proof.tensors
    if added is not None:
        meta["additions"] = {"total": added.total, "both_total": added.both_total}
    if certificate.curve is not None:
        meta["curve"] = certificate.curve.to_dict()
    if certificate.names is not None:  # files without names have no such entry
        words = (int(name) if is_whole(name) else str(name) for name in certificate.names.all)  # type: ignore[call-overload]
        meta["names"] = list(NodeNames(tuple(words)).all)
    save_arrays(path, meta, {name: tensor.numpy() for name, tensor in tensors.items()})


def as_json(notes: Mapping[str, Any]) -> Any:
    """Notes in the form in which a file returns them."""
    if not isinstance(notes, Mapping):
        raise CertificateError(f"notes={shown(notes)}", "notes are a dict that JSON can hold", "Use a dict")
    try:
        return json.loads(json.dumps(dict(notes), allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as reason:
        raise CertificateError(
            f"notes={shown(notes)} ({reason})", "notes are what JSON can hold", "Use text, numbers, lists and dicts"
        ) from reason


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the certificate in a file, and the notes it was saved with.

    Raises:
        CertificateError: it is not what :func:`write` wrote.
    """
    with refusing(path, CertificateError, _RULE, _REMEDY):
        meta, arrays = load_arrays(
            path, _READ, _ARRAYS, (*_BRACKET, _NORMS, *_FEATURES, *_CHANGED, *_ADDED, *_NEW, *_CANDIDATES, *_PROOF)
        )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if 0 < sum(name in tensors for name in _BRACKET) < len(_BRACKET):
            raise ValueError("incomplete brackets")
        if sum(name in tensors for name in _FEATURES) != (len(_FEATURES) if "features" in meta else 0):
            raise ValueError("an incomplete feature budget")
        if sum(name in tensors for name in _ADDED) != (len(_ADDED) if "additions" in meta else 0) or sum(
            name in tensors for name in _CANDIDATES
        ) not in (0, len(_CANDIDATES) if "additions" in meta else 0):
            raise ValueError("an incomplete budget of added edges")
        if sum(name in tensors for name in _CHANGED) not in (0, len(_CHANGED)):
            raise ValueError("an incomplete list of changed features")
        if sum(name in tensors for name in _NEW) not in (0, len(_NEW)):
            raise ValueError("an incomplete list of added edges")
        return _fields(meta, tensors), dict(meta["notes"])


def _fields(meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    edges, sizes = (tensors.pop(name, None) for name in _BRACKET[1:])
    witnesses = None if edges is None or sizes is None else edges.split(sizes.tolist(), dim=1)
    entries = [tensors.pop(name) for name in _CHANGED if name in tensors]
    changed = (
        None
        if not entries
        else tuple(
            ChangedEntries(*each)
            for each in zip(*(part.split(entries[3].tolist()) for part in entries[:3]), strict=True)
        )
    )
    new = [tensors.pop(name) for name in _NEW if name in tensors]
    parts: dict[str, Any] = {name.removeprefix("features_"): tensors.pop(name) for name in _FEATURES if name in tensors}
    features = AdmissibleFeatures(**meta["features"], **parts) if parts else None
    given = [tensors.pop(name) for name in _ADDED if name in tensors]
    listed = [tensors.pop(name) for name in _CANDIDATES if name in tensors]
    added = (
        None
        if not given
        else AdmissibleAdditions(
            local=given[0],
            addable_degree=given[1],
            both=given[2],
            candidates=Candidates(*listed) if listed else None,
            total=meta["additions"]["total"],
            both_total=meta["additions"]["both_total"],
        )
    )
    words: dict[str, Any] = {name: meta[name] for name in (*_WORDS, "certified", "total_budget")}
    proof, trace = meta.get("proof"), {name: tensors.pop(name) for name in _PROOF if name in tensors}
    names = None if meta.get("names") is None else NodeNames(tuple(meta["names"]))
    return {
        **tensors,
        **words,
        "witnesses": witnesses,
        "names": names,
        "features": features,
        "changed": changed,
        "additions": added,
        "added": tuple(new[0].split(new[1].tolist(), dim=1)) if new else None,
        "curve": None if meta.get("curve") is None else BudgetCurve.from_dict(meta["curve"]),
        "proof": None if proof is None and not trace else ProofTrace.from_file(proof, trace),
        "evidence": Evidence.from_dict(meta["evidence"]),
    }
