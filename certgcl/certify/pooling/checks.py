"""Whether a certificate of whole graphs is consistent: its fields are compared with each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from certgcl.certify.certificate_checks import PRECISIONS, UNPROVED, additions_faults, features_faults
from certgcl.errors import CertificateError
from certgcl.models.network import READINGS
from certgcl.models.pooled_network import Pool

if TYPE_CHECKING:
    from certgcl.certify.pooling.certificate import GraphCertificate

Fault = tuple[str, str]  # what was found, and the rule it breaks
VALUES = ("lower", "nominal", "rounding", "run_error", "upper")
COUNTS = ("most_dropped", "sizes", "total_budget")
_CROSSED = "a lower bound cannot exceed a value that it bounds"


def check_graph_certificate(certificate: "GraphCertificate", where: str = "") -> None:
    """Raise ``CertificateError`` for the first field that cannot be.

    Args:
        where: the file it is from, in words.
    """
    for faults in (_form, _words, _budgets, _changes, _values, _witnesses):  # each trusts those before it
        for found, rule in faults(certificate):
            raise CertificateError(f"{where}{found}", rule, "Certify again, or restore it from a copy")


def _form(certificate: "GraphCertificate") -> Iterator[Fault]:
    """Types and shapes."""
    directions = certificate.directions
    if (
        directions.dim() not in (2, 3)
        or not directions.numel()
        or directions.dtype not in (torch.float32, torch.float64)
    ):
        yield (
            f"directions of dtype {directions.dtype} and shape {tuple(directions.shape)}",
            "there is at least one graph, with one direction or several, in float32 or float64",
        )
    shape, nodes = directions.shape[:-1], certificate.local_budget.shape
    expected = (
        dict.fromkeys(VALUES, (torch.float64, shape))
        | dict.fromkeys(COUNTS, (torch.int64, shape[:1]))
        | {
            "enumerated": (torch.bool, shape[:1]),
            "local_budget": (torch.int64, nodes),
            "requested_budget": (torch.int64, nodes),
        }
    )
    for name, (dtype, wanted) in expected.items():
        tensor = getattr(certificate, name)
        if tensor.dtype != dtype or tensor.shape != wanted or (dtype == torch.int64 and tensor.dim() != 1):
            yield (
                f"{name} of dtype {tensor.dtype} and shape {tuple(tensor.shape)}",
                f"it is of dtype {dtype} and shape {tuple(wanted)}",
            )


def _words(certificate: "GraphCertificate") -> Iterator[Fault]:
    """All that is not a tensor."""
    for name, known in (("pool", get_args(Pool)), ("precision", PRECISIONS), ("reading", READINGS)):
        if getattr(certificate, name) not in known:
            yield f"{name} {getattr(certificate, name)!r}", f"it is one of {', '.join(known)}"
    method, settings = certificate.method, certificate.evidence.method.shown
    if not isinstance(method, str) or {method.partition(",")[0], settings.partition("(")[0]} & UNPROVED:
        yield f"bounds by {method!r}, {settings}", "it must name a method that proves something"


def _budgets(certificate: "GraphCertificate") -> Iterator[Fault]:
    """Budgets of nodes have one entry per node, are not negative, and no larger than requested."""
    sizes, local, number = certificate.sizes, certificate.local_budget, len(certificate.local_budget)
    if int(sizes.min()) < 1 or int(sizes.sum()) != number:
        yield f"{number} budgets for graphs of {int(sizes.sum())} nodes", "there is one for every node of every graph"
        return
    graph = torch.repeat_interleave(sizes)
    if bool(((local < 0) | (local > certificate.requested_budget) | (local > certificate.total_budget[graph])).any()):
        yield "a budget that is negative or above what was requested", "budgets are numbers of edges, only lowered"
    most = certificate.most_dropped
    if bool(((most < 0) | (most > certificate.total_budget)).any()):
        yield "a graph that can lose more edges than its total", "the total is a limit"


def _values(certificate: "GraphCertificate") -> Iterator[Fault]:
    lower, rounding = certificate.lower, certificate.rounding
    for name in ("lower", "nominal", "upper", "directions"):
        yield from _where(
            ~torch.isfinite(getattr(certificate, name)), f"a {name} that is not finite", "values are finite"
        )
    for name in ("rounding", "run_error"):  # one that is infinite claims nothing
        yield from _where(
            ~(getattr(certificate, name) >= 0), f"a {name} that is negative or not a number", "an error is not negative"
        )
    yield from _where(lower > certificate.nominal + rounding, "a lower bound above the clean value", _CROSSED)
    yield from _where(lower > certificate.upper + rounding, "a lower bound above its upper value", _CROSSED)


def _where(wrong: Tensor, found: str, rule: str) -> Iterator[Fault]:
    if bool(wrong.any()):
        yield f"{found} at graph {int(wrong.nonzero()[0, 0])}", rule


def _changes(certificate: "GraphCertificate") -> Iterator[Fault]:
    """Budgets of features and of new edges, as many as there are graphs, and witnesses with both."""
    for budgets, found, name in (
        (certificate.features, certificate.changed, "changed features"),
        (certificate.additions, certificate.added, "added edges"),
    ):
        if (budgets is None) != (found is None):
            yield f"{name} without a budget, or witnesses without them", "a witness has both where both may change"
        elif budgets is not None and len(budgets) != len(certificate.sizes):
            yield f"{len(budgets)} budgets for {name}", f"there is one for each of {len(certificate.sizes)} graphs"
    sizes = certificate.sizes.tolist()
    for number, features in enumerate(certificate.features or ()):
        yield from _at(number, features_faults(features, sizes[number]))
    for number, added in enumerate(certificate.additions or ()):
        yield from _at(number, additions_faults(added, sizes[number]))


def _at(number: int, faults: Iterator[Fault]) -> Iterator[Fault]:
    return ((f"{found} at graph {number}", rule) for found, rule in faults)


def _witnesses(certificate: "GraphCertificate") -> Iterator[Fault]:
    """Each a change that the budgets of its graph allow; whether the graph has the edges is for ``verify``."""
    several = certificate.lower.reshape(len(certificate.sizes), -1).shape[1]
    for found, name in (
        (certificate.witnesses, "witnesses"),
        (certificate.added, "added edges"),
        (certificate.changed, "changed features"),
    ):
        if found is not None and (len(found) != len(certificate.sizes) or any(len(each) != several for each in found)):
            yield f"{name} of {len(found)} graphs", "there is one for each graph and direction"
            return
    for edges in (
        each for found in (certificate.witnesses, certificate.added or ()) for part in found for each in part
    ):
        if edges.dim() != 2 or len(edges) != 2 or edges.dtype != torch.int64:
            yield f"a witness of shape {tuple(edges.shape)}", "it is pairs of nodes (int64)"
            return
    budgets = certificate.local_budget.split(certificate.sizes.tolist())
    for number, local in enumerate(budgets):
        added = None if certificate.additions is None else certificate.additions[number]
        for direction, lost in enumerate(certificate.witnesses[number]):
            limits = [(lost, local, int(certificate.most_dropped[number]))]
            if added is not None and certificate.added is not None:
                new = certificate.added[number][direction]
                limits += [
                    (new, added.local, added.total),
                    (torch.cat([lost, new], dim=1), added.both, added.both_total),
                ]
            for edges, at_nodes, most in limits:
                fault = _witness(edges, at_nodes, most)
                if fault is not None:
                    yield f"a witness of graph {number} {fault[0]}", fault[1]


def _witness(edges: Tensor, local: Tensor, most: int) -> Fault | None:
    if not edges.numel():
        return None
    low, high = edges.amin(dim=0), edges.amax(dim=0)
    if int(low.min()) < 0 or int(high.max()) >= len(local) or bool((low == high).any()):
        return "with an edge that does not join two of its nodes", f"edges join two of the nodes 0 to {len(local) - 1}"
    if torch.unique(torch.stack([low, high]), dim=1).shape[1] != edges.shape[1]:
        return "with an edge twice", "a change is a set of edges"
    if edges.shape[1] > most or bool((torch.bincount(edges.flatten(), minlength=len(local)) > local).any()):
        return f"with {edges.shape[1]} edges", "a witness is within the budgets of its nodes and graph"
    return None
