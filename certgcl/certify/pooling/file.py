"""The file of a certificate of whole graphs: arrays with their meaning and evidence, and a checksum."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.certify.certificate_file import as_json
from certgcl.certify.evidence import Evidence
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.edge_additions import AdmissibleAdditions, Candidates
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import CertificateError
from certgcl.files.atomic import load_arrays, refusing, save_arrays

if TYPE_CHECKING:
    from certgcl.certify.pooling.certificate import GraphCertificate

FORMAT = "certgcl-graph-certificate-2"
_READ = (FORMAT, "certgcl-graph-certificate-1")  # edges that are dropped alone
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
_FEATURES = ("features_off", "features_on", "features_radius", "features_columns", "features_total")
_CHANGED = ("changed_nodes", "changed_columns", "changed_values", "changed_sizes")
_ADDED = ("added_local", "added_degree", "added_both", "added_total", "added_both_total")
_CANDIDATES = ("candidate_degree", "candidate_col", "candidate_sizes")
_NEW = ("new_edges", "new_sizes")
_WORDS = ("method", "pool", "precision", "reading")


def write(certificate: "GraphCertificate", path: Path, notes: Mapping[str, Any]) -> None:
    """Write everything to one ``.npz`` file, without pickle."""
    witnesses = [edges.cpu() for each in certificate.witnesses for edges in each]
    tensors = {name: getattr(certificate, name).detach().cpu() for name in _ARRAYS} | {
        "witness_edges": torch.cat(witnesses, dim=1),
        "witness_sizes": torch.tensor([edges.shape[1] for edges in witnesses]),
    }
    tensors |= _features(certificate) | _additions(certificate)
    meta = {name: getattr(certificate, name) for name in _WORDS} | {
        "format": FORMAT,
        "evidence": certificate.evidence.to_dict(),
        "notes": as_json(notes),
    }
    if certificate.features is not None:
        meta["features"] = certificate.features[0].kind
    save_arrays(path, meta, {name: tensor.numpy() for name, tensor in tensors.items()})


def _features(certificate: "GraphCertificate") -> dict[str, Tensor]:
    """What the features may become, and what they become in the witnesses."""
    if certificate.features is None or certificate.changed is None:
        return {}
    rows = [[getattr(each, name) for each in certificate.features] for name in ("off", "on", "radius")]
    counts = [[getattr(each, name) for each in certificate.features] for name in ("columns", "total")]
    entries = [entry.to(torch.device("cpu")) for each in certificate.changed for entry in each]
    parts = [torch.cat([getattr(entry, name) for entry in entries]) for name in ("nodes", "columns", "values")]
    sizes = torch.tensor([len(entry) for entry in entries])
    given = [*(torch.cat(each).cpu() for each in rows), *map(torch.tensor, counts)]
    return dict(zip((*_FEATURES, *_CHANGED), (*given, *parts, sizes), strict=True))


def _additions(certificate: "GraphCertificate") -> dict[str, Tensor]:
    """The edges that may be added, and those of the witnesses."""
    each, added = certificate.additions, certificate.added
    if each is None or added is None:
        return {}
    rows = [[getattr(part, name) for part in each] for name in ("local", "addable_degree", "both")]
    totals = [[getattr(part, name) for part in each] for name in ("total", "both_total")]
    new = [edges.cpu() for part in added for edges in part]
    sizes = torch.tensor([edges.shape[1] for edges in new])
    given = [*(torch.cat(part).cpu() for part in rows), *map(torch.tensor, totals), torch.cat(new, dim=1), sizes]
    tensors = dict(zip((*_ADDED, *_NEW), given, strict=True))
    listed = [part.candidates for part in each if part.candidates is not None]
    if listed:  # -1 stands for all pairs
        lengths = torch.tensor([-1 if part.candidates is None else len(part.candidates.col) for part in each])
        parts = [
            torch.cat([part.rowptr.diff() for part in listed]).cpu(),
            torch.cat([part.col for part in listed]).cpu(),
        ]
        tensors |= dict(zip(_CANDIDATES, (*parts, lengths), strict=True))
    return tensors


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
        meta, arrays = load_arrays(
            path, _READ, (*_ARRAYS, *_WITNESSES), (*_FEATURES, *_CHANGED, *_ADDED, *_CANDIDATES, *_NEW)
        )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for group, there in (
            (_FEATURES, "features" in meta),
            (_CHANGED, "features" in meta),
            (_NEW, _ADDED[0] in tensors),
        ):
            if sum(name in tensors for name in group) != len(group) * there:
                raise ValueError(f"incomplete {group[0]}")
        for names in (_ADDED, _CANDIDATES):
            if sum(name in tensors for name in names) not in (0, len(names)):
                raise ValueError(f"incomplete {names[0]}")
        edges, sizes = (tensors.pop(name) for name in _WITNESSES)
        graphs = len(tensors["sizes"])
        if sizes.dim() != 1 or not graphs or len(sizes) % graphs:
            raise ValueError(f"{len(sizes)} witnesses for {graphs} graphs")
        several = len(sizes) // graphs

        def of_graphs(each: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
            return tuple(tuple(each[start : start + several]) for start in range(0, len(sizes), several))

        fields: dict[str, Any] = {"witnesses": of_graphs(edges.split(sizes.tolist(), dim=1))}
        if "features" in meta:
            fields |= _read_features(meta["features"], tensors, of_graphs)
        if _ADDED[0] in tensors:
            new, counts = (tensors.pop(name) for name in _NEW)
            fields["added"] = of_graphs(new.split(counts.tolist(), dim=1))
            fields["additions"] = _read_additions(tensors)
        words = {name: meta[name] for name in _WORDS}
        return {**tensors, **words, **fields, "evidence": Evidence.from_dict(meta["evidence"])}, dict(meta["notes"])


def _read_features(kind: Any, tensors: dict[str, Tensor], of_graphs: Callable[[Sequence[Any]], Any]) -> dict[str, Any]:
    sizes = tensors["sizes"].tolist()
    off, on, radius, columns, totals = (tensors.pop(name) for name in _FEATURES)
    rows = zip(off.split(sizes), on.split(sizes), radius.split(sizes), columns.tolist(), totals.tolist(), strict=True)
    *parts, lengths = (tensors.pop(name) for name in _CHANGED)
    entries = [ChangedEntries(*each) for each in zip(*(part.split(lengths.tolist()) for part in parts), strict=True)]
    return {"features": tuple(AdmissibleFeatures(kind, *each) for each in rows), "changed": of_graphs(entries)}


def _read_additions(tensors: dict[str, Tensor]) -> tuple[AdmissibleAdditions, ...]:
    sizes = tensors["sizes"].tolist()
    local, degree, both, totals, both_totals = (tensors.pop(name) for name in _ADDED)
    rows = zip(
        local.split(sizes), degree.split(sizes), both.split(sizes), totals.tolist(), both_totals.tolist(), strict=True
    )
    listed: list[Candidates | None] = [None] * len(sizes)
    if _CANDIDATES[0] in tensors:
        counts, columns, lengths = (tensors.pop(name) for name in _CANDIDATES)
        there = [place for place, length in enumerate(lengths.tolist()) if length >= 0]
        each = zip(
            counts.split([sizes[place] for place in there]),
            columns.split([int(lengths[p]) for p in there]),
            strict=True,
        )
        for place, (count, column) in zip(there, each, strict=True):
            listed[place] = Candidates(torch.cat([count.new_zeros(1), count.cumsum(0)]), column)
    return tuple(
        AdmissibleAdditions(own, total, candidates, addable, shared, both_total)
        for (own, addable, shared, total, both_total), candidates in zip(rows, listed, strict=True)
    )
