"""Whether a certificate is consistent: its fields are compared with each other, without model or graph.

Nothing here proves a bound. It rejects values that no certification produces: a value that is not a number, a bound
above the clean value, a node that is bounded twice, a drop beyond the budget, a proof by a method that proves nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.bounds import METHODS
from certgcl.certify.evidence import dtype_name
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.changes.feature_changes import KINDS, AdmissibleFeatures
from certgcl.errors import CertificateError
from certgcl.models.network import READINGS

if TYPE_CHECKING:
    from certgcl.certify.certificate import Certificate

PRECISIONS = ("float16", "bfloat16", "float32", "float64")
UNPROVED = {
    name for method in METHODS.values() if not method.certified for name in (method.name, type(method).__name__)
}
_CROSSED = "a lower bound cannot exceed a value that it bounds"
Fault = tuple[str, str]  # what was found, and the rule it breaks


def check_certificate(certificate: "Certificate", where: str = "") -> None:
    """Raise ``CertificateError`` for the first field that cannot be.

    Args:
        where: the file it is from, in words.
    """
    # Each relies on the ones before it.
    for faults in (_form, _words, _nodes, _budgets, _features, _additions, _values, _witnesses):
        for found, rule in faults(certificate):
            raise CertificateError(f"{where}{found}", rule, "Certify again, or restore it from a copy")


def _form(certificate: "Certificate") -> Iterator[Fault]:
    """Types and shapes."""
    shape, precision = certificate.directions.shape[:-1], certificate.evidence.dtype.shown
    if certificate.directions.dim() not in (2, 3) or not certificate.directions.numel():
        yield (
            f"directions of shape {tuple(certificate.directions.shape)}",
            "there is at least one node, with one direction or several",
        )
    values = {name: getattr(certificate, name) for name in ("lower", "nominal", "rounding", "run_error", "upper")}
    for name, tensor in values.items():
        if tensor is not None and tensor.shape != shape:
            yield f"{name} of shape {tuple(tensor.shape)}", f"there is one value for each direction, {tuple(shape)}"
    for name, tensor in {**values, "directions": certificate.directions}.items():
        if tensor is not None and (dtype := dtype_name(tensor.dtype)) != precision:
            yield f"{name} of dtype {dtype}", f"all values are in the precision of the computation, {precision}"
    if certificate.nodes.shape != shape[:1]:
        yield f"nodes of shape {tuple(certificate.nodes.shape)}", f"there is one for each of {shape[0]} bounds"
    number = certificate.local_budget.numel()
    for name in ("local_budget", "requested_budget"):
        if getattr(certificate, name).shape != (number,) or not number:
            yield f"{name} of shape {tuple(getattr(certificate, name).shape)}", "there is one for every node"
    names = certificate.names
    if names is not None and len(names) != number:
        yield f"{len(names)} names", f"there is one for each of {number} nodes"
    for name in ("nodes", "local_budget", "requested_budget"):
        if (dtype := dtype_name(getattr(certificate, name).dtype)) != "int64":
            yield f"{name} of dtype {dtype}", "nodes and budgets are integers (int64)"
    changed = certificate.changed
    if (changed is not None) != (certificate.features is not None and certificate.witnesses is not None):
        yield "changed features without a budget, or witnesses without them", "a witness has both where both may change"
    elif changed is not None and (
        len(changed) != shape[0]
        or any(
            entries.nodes.shape != entries.columns.shape
            or entries.nodes.shape != entries.values.shape
            or entries.nodes.dim() != 1
            or entries.nodes.dtype != torch.int64
            or entries.columns.dtype != torch.int64
            or entries.values.dtype != torch.float64
            for entries in changed
        )
    ):
        yield "changed features of other shapes or types", f"there is a list of entries for each of {shape[0]} anchors"
    if (certificate.added is not None) != (certificate.additions is not None and certificate.witnesses is not None):
        yield "added edges without a budget, or witnesses without them", "a witness has both where edges may be added"
    if (certificate.upper is None) != (certificate.witnesses is None):
        yield "upper values or witnesses alone", "an upper value is one that a witness reaches"
    norms = certificate.norms
    if norms is not None and (norms.shape != shape[:1] or dtype_name(norms.dtype) != precision):
        yield (
            f"norms of shape {tuple(norms.shape)} and dtype {dtype_name(norms.dtype)}",
            f"there is one for each of {shape[0]} nodes, in the precision of the computation, {precision}",
        )


def _words(certificate: "Certificate") -> Iterator[Fault]:
    """Everything that is not a tensor."""
    for name, kind in (("certified", bool), ("method", str), ("total_budget", int)):
        if type(getattr(certificate, name)) is not kind:
            yield f"{name} {getattr(certificate, name)!r}", f"it is a Python {kind.__name__}"
    names = {certificate.method.partition(",")[0], certificate.evidence.method.shown.partition("(")[0]}
    if certificate.certified and names & UNPROVED:
        yield f"bounds certified by {', '.join(sorted(names & UNPROVED))}", "that method proves nothing"
    for name, known in (("precision", PRECISIONS), ("reading", READINGS)):
        if getattr(certificate, name) not in known:
            yield f"{name} {getattr(certificate, name)!r}", f"it is one of {', '.join(known)}"


def _nodes(certificate: "Certificate") -> Iterator[Fault]:
    nodes, number = certificate.nodes, len(certificate.local_budget)
    outside = nodes[(nodes < 0) | (nodes >= number)]
    if len(outside):
        yield f"node {int(outside[0])}", f"nodes are numbered 0 to {number - 1}"
    distinct, count = torch.unique(nodes, return_counts=True)
    if len(distinct) != len(nodes):
        yield f"node {int(distinct[count > 1][0])} twice", "every anchor is bounded once"


def _budgets(certificate: "Certificate") -> Iterator[Fault]:
    """``0 <= q <= q as requested`` and ``q <= Q``: tightening never raises a budget. Q itself is not lowered to half
    the sum of all ``q``, so it may be larger than that."""
    local, total = certificate.local_budget, certificate.total_budget
    if total < 0:
        yield f"a total budget of {total}", "it is a number of edges"
    wrong = (local < 0) | (local > certificate.requested_budget) | (local > total)
    if bool(wrong.any()):
        node = int(wrong.nonzero()[0, 0])
        yield (
            f"a budget of {int(local[node])} edges at node {node}, where {int(certificate.requested_budget[node])} "
            f"were requested, and {total} in all",
            "a budget is not negative, nor above what was requested",
        )


def _features(certificate: "Certificate") -> Iterator[Fault]:
    if certificate.features is not None:
        yield from features_faults(certificate.features, len(certificate.local_budget))


def features_faults(features: AdmissibleFeatures, number: int) -> Iterator[Fault]:
    """Numbers of features that cannot be; whether they fit the graph is for ``verify``."""
    for name, dtype in (("off", torch.int64), ("on", torch.int64), ("radius", torch.float64)):
        part = getattr(features, name)
        if part.shape != (number,) or part.dtype != dtype:
            yield f"features.{name} of shape {tuple(part.shape)} and dtype {part.dtype}", "there is one for every node"
        elif not bool(((part >= 0) & part.isfinite()).all()):
            yield f"features.{name} with a negative or infinite value", "a budget is finite and not negative"
    if (
        features.kind not in KINDS
        or type(features.columns) is not int
        or type(features.total) is not int
        or (min(features.columns, features.total) < 0)
    ):
        yield (
            f"features {features.kind!r} with {features.columns!r} columns and a total of {features.total!r}",
            f"the kind is one of {', '.join(KINDS)}, with numbers of columns and features",
        )


def _additions(certificate: "Certificate") -> Iterator[Fault]:
    if certificate.additions is not None:
        yield from additions_faults(certificate.additions, len(certificate.local_budget))


def additions_faults(added: AdmissibleAdditions, number: int) -> Iterator[Fault]:
    """Numbers of edges that cannot be; whether they fit the graph is for ``verify``."""
    for name in ("local", "addable_degree", "both"):
        part = getattr(added, name)
        if part.shape != (number,) or part.dtype != torch.int64:
            yield f"additions.{name} of shape {tuple(part.shape)} and dtype {part.dtype}", "there is one for every node"
        elif bool((part < 0).any()):
            yield f"additions.{name} with a negative value", "a budget is not negative"
    if any(type(total) is not int or total < 0 for total in (added.total, added.both_total)):
        yield f"totals of {added.total!r} and {added.both_total!r} edges", "they are numbers of edges"
    listed = added.candidates
    if listed is not None and any(part.dim() != 1 or part.dtype != torch.int64 for part in listed):
        yield "candidates that are not lists of node numbers", "they are rows of pairs"


def _values(certificate: "Certificate") -> Iterator[Fault]:
    nodes, lower, nominal, upper = certificate.nodes, certificate.lower, certificate.nominal, certificate.upper
    for name, values in (
        ("lower", lower),
        ("nominal", nominal),
        ("upper", upper),
        ("directions", certificate.directions),
    ):
        if values is not None:
            yield from _where(~torch.isfinite(values), nodes, f"a {name} that is not finite", "values are finite")
    for name in ("rounding", "run_error"):  # one that is infinite claims nothing
        yield from _where(
            ~(getattr(certificate, name) >= 0),
            nodes,
            f"a {name} that is negative or not a number",
            "an error is not negative",
        )
    if certificate.norms is not None:
        yield from _where(
            ~(certificate.norms >= 0), nodes, "a norm that is negative or not a number", "a norm is not negative"
        )
    if certificate.certified:
        yield from _where(
            lower > nominal + certificate.rounding, nodes, "a lower bound above the clean value", _CROSSED
        )
        if upper is not None:
            yield from _where(
                lower > upper + certificate.rounding, nodes, "a lower bound above its upper value", _CROSSED
            )


def _where(wrong: Tensor, nodes: Tensor, found: str, rule: str) -> Iterator[Fault]:
    at = wrong.flatten(1).any(dim=1) if wrong.dim() > 1 else wrong
    if bool(at.any()):
        yield f"{found} at node {int(nodes[at][0])}", rule


def _witnesses(certificate: "Certificate") -> Iterator[Fault]:
    """Each witness is a set of edges that its budgets allow; whether the graph has them is for
    :meth:`Certificate.verify`."""
    if certificate.witnesses is None:
        return
    yield from _edge_sets(
        certificate, certificate.witnesses, "drops", certificate.local_budget, certificate.total_budget
    )
    added, allowed = certificate.added, certificate.additions
    if added is None or allowed is None:
        return
    yield from _edge_sets(certificate, added, "adds", allowed.local, allowed.total)
    both = tuple(torch.cat(pair, dim=1) for pair in zip(certificate.witnesses, added, strict=True))
    yield from _edge_sets(certificate, both, "drops and adds", allowed.both, allowed.both_total)


def _edge_sets(
    certificate: "Certificate", witnesses: tuple[Tensor, ...], does: str, local: Tensor, total: int
) -> Iterator[Fault]:
    nodes, n = certificate.nodes, len(certificate.local_budget)
    if len(witnesses) != len(nodes) or any(
        witness.dim() != 2 or len(witness) != 2 or witness.dtype != torch.int64 for witness in witnesses
    ):
        yield f"{len(witnesses)} witnesses", f"there are pairs of nodes (int64) for each of {len(nodes)} anchors"
        return
    sizes = nodes.new_tensor([witness.shape[1] for witness in witnesses])
    edges, place = torch.cat(witnesses, dim=1), torch.repeat_interleave(sizes)
    if not edges.numel():
        return
    low, high = edges.amin(dim=0), edges.amax(dim=0)
    for wrong in ((low < 0) | (high >= n), low == high):
        if bool(wrong.any()):
            one, other = edges[:, wrong][:, 0].tolist()
            yield f"a witness with the edge ({one}, {other})", f"edges join two of the nodes 0 to {n - 1}"
    if torch.unique(torch.stack([place, low, high]), dim=1).shape[1] != len(place):
        yield "a witness with an edge twice", "a change is a set of edges"
    ends, number = torch.unique(torch.stack([place.repeat(2), edges.flatten()]), dim=1, return_counts=True)
    over = number > local[ends[1]]
    if bool(over.any()):
        yield (
            f"a witness of node {int(nodes[ends[0][over][0]])} that {does} {int(number[over][0])} edges at node "
            f"{int(ends[1][over][0])}",
            "a witness is within the budget of every node",
        )
    yield from _where(sizes > total, nodes, "a witness beyond the total budget", f"it {does} at most {total} edges")
