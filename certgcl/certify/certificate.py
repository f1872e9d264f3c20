"""The result of a certification: values per node, and everything needed to interpret them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, is_whole, numbers, shown, whole
from certgcl.arguments import path as checked_path
from certgcl.certify import certificate_file
from certgcl.certify.budget_curve import BudgetCurve
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.evidence import Evidence
from certgcl.certify.frames import long_frame
from certgcl.certify.measures import Measures
from certgcl.certify.proof import ProofTrace
from certgcl.certify.summary import summary
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import Changes
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import CertificateError
from certgcl.formatting import html_table, lines
from certgcl.graphs.names import NodeNames

if TYPE_CHECKING:
    import pandas as pd

    from certgcl.certify.collective import CollectiveCertificate
    from certgcl.certify.verify import Verification
    from certgcl.graphs.graph import GraphLike
    from certgcl.models.reading import ModelLike

PER_ANCHOR = ("nodes", "lower", "nominal", "rounding", "run_error", "directions")
EXACT = 1e-9  # a bracket no wider than this share of its larger end, plus rounding, counts as exact


@dataclass(frozen=True, eq=False)
class Certificate:
    """What holds for each anchor, whatever changes within the budget: ``w · z(S) >= lower``.

    Args:
        nodes: the anchors, ``(A,)``.
        lower: the bound, ``(A,)`` or ``(A, C)`` for C directions a node. Only a bound if ``certified``.
        nominal: ``w · z`` on the graph as given, same shape.
        rounding: how far above the true minimum floating-point rounding can have put ``lower``, same shape.
        run_error: how far below its exact value ``w · z`` of the model as it runs, in its own precision, can lie on
            any admissible view, same shape.
        method: name of the method.
        certified: whether the method proves what it says. ``paper`` and ``released`` do not.
        local_budget: the tightened ``q`` of every node of the graph, ``(N,)``.
        total_budget: the tightened ``Q``.
        requested_budget: ``q`` as requested, at most the degree, ``(N,)``.
        directions: ``w``, ``(A, d)`` or ``(A, C, d)``.
        precision: of the model's parameters, such as ``"float32"``.
        reading: how the model was read: ``"given"`` as weights, ``"traced"`` from its program, or ``"probed"``.
        evidence: what the certificate is about: digests of weights, graph, budget and directions, and the method's
            settings.
        upper: a value that some admissible drop reaches, same shape as ``lower``; None if none was searched for.
        witnesses: those drops, ``(2, k)`` edges for every anchor; see :meth:`witness`.
        names: of all nodes of the graph, if they have any.
        norms: of the anchors' embeddings on the graph as given, ``(A,)``: the scale of the values.
            None in a certificate of an older file.
        features: what features could become; None where they stay as they are.
        changed: the features that reach ``upper`` together with the dropped edges of ``witnesses``; see
            :meth:`changed_features`.
        additions: the edges that could be added; None where none could.
        added: the new edges that reach ``upper`` together with the rest of a witness; see :meth:`added_edges`.
        proof: how lines were chosen, for ``certgcl verify --proof``; None unless requested.
        curve: how large a budget the nodes withstand; None unless requested by :meth:`with_curve`.
    """

    nodes: Tensor
    lower: Tensor
    nominal: Tensor
    rounding: Tensor
    run_error: Tensor
    method: str
    certified: bool
    local_budget: Tensor
    requested_budget: Tensor
    total_budget: int
    directions: Tensor
    precision: str
    reading: str
    evidence: Evidence
    upper: Tensor | None = None
    witnesses: tuple[Tensor, ...] | None = None
    names: NodeNames | None = None
    norms: Tensor | None = None
    features: AdmissibleFeatures | None = None
    changed: tuple[ChangedEntries, ...] | None = None
    additions: AdmissibleAdditions | None = None
    added: tuple[Tensor, ...] | None = None
    proof: ProofTrace | None = None
    curve: BudgetCurve | None = None

    @property
    def changes(self) -> Changes:
        """What was allowed to change, as ``budgets`` of another call."""
        drops = EdgeDropBudget(self.requested_budget, self.total_budget)
        features = None if self.features is None else self.features.budget()
        if self.additions is None:
            return Changes(drops, features)
        return Changes(**self.additions.budgets(self.local_budget, self.total_budget, drops), features=features)

    @property
    def positive(self) -> Tensor:
        """Where ``w · z > 0`` is proved for every admissible drop, in exact arithmetic and for the model as it runs in
        its own precision; false everywhere for a method that proves nothing."""
        return (self.lower > self.rounding + self.run_error) & self.certified

    @property
    def positive_in_exact_arithmetic(self) -> Tensor:
        """Where it is proved for these weights in exact arithmetic, which is not the arithmetic that the model runs
        in."""
        return (self.lower > self.rounding) & self.certified

    @property
    def share_positive(self) -> float:
        """The share of ``positive`` among the values that are ``asked`` for."""
        return float(self.positive[self.asked].double().mean())

    @property
    def asked(self) -> Tensor:
        """The values that carry information, same shape as ``lower``: of several directions of a node, those that are
        not zero (a class against itself is)."""
        if self.lower.dim() == 1:
            return torch.ones_like(self.positive)
        asked = (self.directions != 0).any(dim=-1)
        return asked if bool(asked.any()) else torch.ones_like(asked)

    @property
    def measures(self) -> Measures:
        """The numbers to compare encoders by: they do not grow with the embeddings."""
        return Measures.of(self)

    @property
    def negative(self) -> Tensor:
        """Where an admissible drop with ``w · z < 0`` (in exact arithmetic) is known."""
        if self.upper is None:
            return torch.zeros_like(self.positive)
        return self.upper < -self.rounding

    @property
    def exact(self) -> Tensor:
        """Where ``lower`` is the minimum itself, up to 1e-9 of the bracket's larger end and rounding: a witness reaches
        it."""
        if self.upper is None:
            return torch.zeros_like(self.positive)
        return self.upper - self.lower <= EXACT * self.lower.abs().maximum(self.upper.abs()) + self.rounding

    @property
    def status(self) -> list[str]:
        """The state of every anchor: ``exact``, ``bracketed`` by a known drop, ``bounded`` from below alone, or
        ``uncertified`` if the method proves nothing."""
        if self.upper is None:
            return ["bounded" if self.certified else "uncertified"] * len(self.nodes)
        return ["exact" if exact else "bracketed" for exact in self.exact.tolist()]

    def witness(self, node: Any) -> Tensor:
        """The edges, ``(2, k)``, without which ``w · z`` of a node, by number or name, is its ``upper``; together with
        :meth:`changed_features` and :meth:`added_edges`, where features may change and edges may be added."""
        place = self._place(node)
        assert self.witnesses is not None
        return self.witnesses[place]

    def changed_features(self, node: Any) -> ChangedEntries:
        """The features of a node's witness: which entries of the features change, and what they become."""
        place = self._place(node)
        return ChangedEntries.none(self.nodes.device) if self.changed is None else self.changed[place]

    def added_edges(self, node: Any) -> Tensor:
        """The new edges of a node's witness, ``(2, k)``."""
        place = self._place(node)
        return self.nodes.new_empty(2, 0) if self.added is None else self.added[place]

    def _place(self, node: Any) -> int:
        """The position of a node that has a witness, by number or name."""
        if self.names is not None and not is_whole(node):
            (node,) = self.names.find([node])
        node = whole(node, "node", 0, "it is the number of a node", "Pass an int", error=CertificateError)
        place = (self.nodes == node).nonzero()[:, 0]
        if self.witnesses is None or not len(place):
            raise CertificateError(
                f"a witness of node {node}",
                "this certificate has none",
                "Certify the node with method='optimized' or 'exact'",
            )
        return int(place[0])

    def named_witness(self, node: Any) -> list[tuple[Any, Any]]:
        """The same by the names of the nodes, a pair for each edge; by their numbers where they have no names."""
        ends = self.witness(node).tolist()
        one, other = ends if self.names is None else map(self.names.at, ends)
        return list(zip(one, other, strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column: node, name if it has one, budget, nominal, lower, the two errors, what is positive;
        upper and exact if there are any."""
        nodes = self.nodes.tolist()
        columns: dict[str, list[Any]] = {
            "node": nodes,
            **({} if self.names is None else {"name": self.names.at(nodes)}),
            "budget": self.local_budget[self.nodes].tolist(),
            "nominal": self.nominal.tolist(),
            "lower": self.lower.tolist(),
            "rounding": self.rounding.tolist(),
            "run_error": self.run_error.tolist(),
            "positive": self.positive.tolist(),
            "positive_in_exact_arithmetic": self.positive_in_exact_arithmetic.tolist(),
        }
        if self.upper is not None:
            columns |= {"upper": self.upper.tolist(), "exact": self.exact.tolist()}
        return columns

    def to_frame(self) -> "pd.DataFrame":
        """The same table as a pandas frame (needs the extra ``pandas``); a row per node, or per node and direction
        if a node has several."""
        return long_frame(self.to_dict(), None if self.lower.dim() == 1 else self.lower.shape[1], who=("node", "name"))

    @classmethod
    def joined(cls, parts: Sequence["Certificate"]) -> "Certificate":
        """One certificate of several that answer the same question at different anchors, in the order of the parts.

        Parts that answer different questions, and parts that cannot be certificates, raise an error.
        """
        from certgcl.certify.joining import joined

        return joined(parts)

    def at(self, positions: Tensor) -> "Certificate":
        """The certificate of the anchors at some positions in ``nodes``, in that order; or of those in a mask."""
        positions = self._positions(positions)
        chosen: dict[str, Any] = {name: getattr(self, name)[positions] for name in PER_ANCHOR} | {"curve": None}
        if self.upper is not None and self.witnesses is not None:
            places = torch.arange(len(self.nodes), device=self.nodes.device)[positions].tolist()
            chosen |= {"upper": self.upper[positions], "witnesses": tuple(self.witnesses[place] for place in places)}
            if self.changed is not None:
                chosen["changed"] = tuple(self.changed[place] for place in places)
            if self.added is not None:
                chosen["added"] = tuple(self.added[place] for place in places)
        if self.norms is not None:
            chosen["norms"] = self.norms[positions]
        return replace(self, **chosen)

    def with_curve(self, model: "ModelLike", graph: "GraphLike", *, sample: int = 200) -> "Certificate":
        """The same, with a curve of the nodes that are proved under growing budgets of drops, whatever else it allows
        to change. ``print`` then says at which budget half of the nodes are lost.

        Args:
            model, graph: those that it is about.
            sample: at how many random nodes the bounds are computed, for 14 budgets.
        """
        from certgcl.certify.other_budgets import with_curve

        sample = whole(sample, "sample", 1, "it is a number of nodes", "Leave it out for 200", error=CertificateError)
        return with_curve(self, model, graph, sample)

    def _positions(self, positions: Any) -> Tensor:
        """Positions in ``nodes``, each once; a mask becomes those where it is true."""
        count = len(self.nodes)
        rule = f"they are distinct positions from 0 to {count - 1}, or a mask over all"
        given = numbers(positions, "positions", rule, "Pass a tensor", error=CertificateError, device=self.nodes.device)
        if given.dtype == torch.bool and given.shape == (count,):
            given = given.nonzero()[:, 0]
        if given.dim() != 1 or given.dtype not in INTEGERS or not given.numel():
            raise CertificateError(f"positions {shown(positions)}", rule, "Pass a tensor of at least one")
        given = given.long()
        if int(given.min()) < 0 or int(given.max()) >= count or len(given.unique()) < len(given):
            raise CertificateError(
                f"positions from {int(given.min())} to {int(given.max())}, {len(given)} of them",
                rule,
                "Leave out those that are not anchors, or listed twice",
            )
        return given

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> Path:
        """Write everything to one ``.npz`` file (no pickle inside), with JSON ``notes`` if any; returns its path."""
        path = checked_path(path, error=CertificateError)
        check_certificate(self)
        certificate_file.write(self, path, {} if notes is None else notes)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate written by :meth:`save`.

        A file that is not a certificate, or was changed since, raises ``CertificateError``, as do values that no
        certification produces. That detects accidents, not forgery: only :meth:`verify` compares it with model and
        graph.
        """
        return cls.load_with_notes(path)[0]

    @classmethod
    def load_with_notes(cls, path: str | Path) -> tuple["Certificate", dict[str, Any]]:
        """The same, with the notes it was saved with."""
        path = checked_path(path, error=CertificateError)
        fields, notes = certificate_file.read(path)
        certificate = cls(**fields)
        check_certificate(certificate, f"{path} with ")
        return certificate, notes

    def verify(
        self,
        model: "ModelLike",
        graph: "GraphLike",
        *,
        nodes: "Tensor | Sequence[Any] | None" = None,
        view: "GraphLike | None" = None,
        directions: Tensor | None = None,
    ) -> "Verification":
        """Whether this is a certificate of that model and graph, and its clean values, directions, budgets and
        witnesses are right. The bound itself is not proved again.

        Args:
            nodes: whose values to check, some of the certificate's; all by default.
            view: the fixed second view, for a certificate that was made with one.
            directions: those of all nodes that were passed, for a certificate of your own directions; without them, the
                directions in the certificate are taken to be right.

        Example::

            certificate = certgcl.node_compactness(encoder, data, budgets=2)
            assert certificate.verify(encoder, data).ok
        """
        from certgcl.certify.verify import verify

        return verify(self, model, graph, nodes=nodes, view=view, directions=directions)

    def collective(
        self,
        model: "ModelLike",
        graph: "GraphLike",
        others: "Sequence[Certificate]" = (),
        *,
        time_limit: float | None = None,
    ) -> "CollectiveCertificate":
        """The number of nodes, at least, that stay positive at once under any *one* admissible drop; see
        :func:`certgcl.collective_certificate`.

        Args:
            others: certificates of the same question with other totals, which make it tighter. The budget is that of
                the largest total among all of them.

        Example::

            budgets = [certgcl.EdgeDropBudget(local=2, total=r) for r in range(4)]
            *others, certificate = [certgcl.node_compactness(encoder, data, budget) for budget in budgets]
            print(certificate.collective(encoder, data, others))
        """
        from certgcl.certify.collective import collective_certificate

        if not isinstance(others, (list, tuple)):
            raise CertificateError(
                f"others={shown(others)}",
                "they are a list of certificates with other totals",
                "Pass [first, second], or leave it out",
            )
        return collective_certificate([self, *others], model, graph, time_limit=time_limit)

    def __str__(self) -> str:
        return lines(*summary(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*summary(self))
