"""Joins several certificates that answer one question at different anchors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from certgcl.arguments import shown
from certgcl.certify.certificate import PER_ANCHOR, Certificate
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.evidence import differences
from certgcl.errors import CertificateError

_FOR_ALL = ("method", "certified", "total_budget", "precision", "reading")
_ONE_QUESTION = "parts of one certificate answer one question"


def joined(parts: Sequence[Certificate]) -> Certificate:
    """The implementation of :meth:`Certificate.joined`."""
    if not isinstance(parts, (list, tuple)) or not parts or not all(isinstance(part, Certificate) for part in parts):
        raise CertificateError(
            f"parts={shown(parts)}", "they are a list of certificates, at least one", "Pass [first, second]"
        )
    first = parts[0]
    for part in parts:
        _check_same_question(first, part)
        check_certificate(part)
    together: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in PER_ANCHOR}
    if all(part.upper is not None and part.witnesses is not None for part in parts):
        together["upper"] = torch.cat([part.upper for part in parts if part.upper is not None])
        together["witnesses"] = tuple(witness for part in parts for witness in part.witnesses or ())
        if first.features is not None:
            together["changed"] = tuple(entries for part in parts for entries in part.changed or ())
        if first.additions is not None:
            together["added"] = tuple(edges for part in parts for edges in part.added or ())
    norms = [part.norms for part in parts if part.norms is not None]
    together["norms"] = torch.cat(norms) if len(norms) == len(parts) else None
    joined = replace(
        first, **{"upper": None, "witnesses": None, "changed": None, "added": None, "curve": None} | together
    )
    distinct, count = torch.unique(joined.nodes, return_counts=True)
    if len(distinct) != len(joined.nodes):
        raise CertificateError(
            f"node {int(distinct[count > 1][0])} in {int(count.max())} certificates",
            "every anchor is bounded once",
            "Leave one out",
        )
    return joined


def _check_same_question(first: Certificate, part: Certificate) -> None:
    """Raise an error for a part that is about something other than the first."""
    for name in _FOR_ALL:
        if getattr(part, name) != getattr(first, name):
            raise CertificateError(
                f"certificates with {name} {getattr(first, name)!r} and {getattr(part, name)!r}",
                _ONE_QUESTION,
                "Certify all alike",
            )
    if part.proof is not first.proof and (first.proof is None or not first.proof.same(part.proof)):
        raise CertificateError(
            "certificates with and without a proof, or with different ones",
            _ONE_QUESTION,
            "Certify all with proof=True, or none",
        )
    different = differences(first.evidence.parts, part.evidence.parts)
    if different:
        raise CertificateError(
            f"certificates that differ in {', '.join(different)}", _ONE_QUESTION, "Certify all alike"
        )
    if (
        any(not torch.equal(getattr(part, name), getattr(first, name)) for name in ("local_budget", "requested_budget"))
        or part.directions.shape[1:] != first.directions.shape[1:]
    ):
        raise CertificateError(
            "certificates with different local budgets or directions", _ONE_QUESTION, "Certify all alike"
        )
