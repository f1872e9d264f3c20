"""The result of a certification of whole graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.arguments import path as checked_path
from certgcl.arguments import whole
from certgcl.certify.evidence import Evidence
from certgcl.certify.frames import long_frame
from certgcl.certify.measures import kept_share
from certgcl.certify.pooling import file
from certgcl.certify.pooling.checks import check_graph_certificate
from certgcl.certify.pooling.evidence import added_in_words, features_in_words
from certgcl.certify.summary import READ
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import CertificateError
from certgcl.formatting import html_table, lines, percent, spread

if TYPE_CHECKING:
    import pandas as pd

    from certgcl.certify.pooling.graph_set import GraphsLike
    from certgcl.certify.verify import Verification
    from certgcl.models.pooled_network import Pool
    from certgcl.models.reading import ModelLike


@dataclass(frozen=True, eq=False)
class GraphCertificate:
    """What holds for each graph, whatever admissible change is made to it: ``w · z_g >= lower``.

    ``z_g`` is the pooled embedding of the graph (or what the model makes of it), and one change affects all its nodes.

    Args:
        lower: the bound, ``(G,)`` or ``(G, C)`` for C directions a graph.
        nominal: ``w · z_g`` of the graphs as given, same shape.
        rounding: how far above the true minimum floating-point rounding can have put ``lower``, same shape.
        run_error: how far below its exact value ``w · z_g`` of the model as it runs, in its own precision, can lie on
            any admissible view, same shape.
        upper: a value that some admissible change reaches, same shape: the minimum where all changes were tried.
        witnesses: the edges that are dropped in it, for each graph and direction, ``(2, k)``; see :meth:`witness`.
        enumerated: the graphs of which all admissible changes were tried, ``(G,)``.
        directions: ``w``, ``(G, d)`` or ``(G, C, d)``.
        most_dropped: the most edges that each graph can lose, ``(G,)``.
        sizes: nodes of each graph, ``(G,)``; the next two are about all of them, graph by graph.
        local_budget: the tightened ``q`` of every node, ``(N,)``.
        requested_budget: ``q`` as requested, at most the degree, ``(N,)``.
        total_budget: ``Q`` of each graph, ``(G,)``.
        method: name of the method that bounds single nodes.
        pool: ``"mean"``, ``"sum"`` or ``"max"``.
        precision: of the model's parameters, such as ``"float32"``.
        reading: how the model was read.
        evidence: what the certificate is about: digests of weights, graphs, budgets and directions, and the method's
            settings.
        features: what the features of each graph could become; None where they stay as they are.
        changed: the features that reach ``upper`` together with the edges; see :meth:`changed_features`.
        additions: the edges that could be added to each graph; None where none could.
        added: the new edges that reach ``upper`` together with the rest of a witness; see :meth:`added_edges`.
    """

    lower: Tensor
    nominal: Tensor
    rounding: Tensor
    run_error: Tensor
    upper: Tensor
    witnesses: tuple[tuple[Tensor, ...], ...]
    enumerated: Tensor
    directions: Tensor
    most_dropped: Tensor
    sizes: Tensor
    local_budget: Tensor
    requested_budget: Tensor
    total_budget: Tensor
    method: str
    pool: str
    precision: str
    reading: str
    evidence: Evidence
    features: tuple[AdmissibleFeatures, ...] | None = None
    changed: tuple[tuple[ChangedEntries, ...], ...] | None = None
    additions: tuple[AdmissibleAdditions, ...] | None = None
    added: tuple[tuple[Tensor, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def positive(self) -> Tensor:
        """Where ``w · z_g > 0`` is proved for every admissible change, in exact arithmetic and for the model as it runs
        in its own precision."""
        return self.lower > self.rounding + self.run_error

    @property
    def positive_in_exact_arithmetic(self) -> Tensor:
        """Where it is proved for these weights in exact arithmetic, which is not the arithmetic that the model runs
        in."""
        return self.lower > self.rounding

    @property
    def negative(self) -> Tensor:
        """Where an admissible change with ``w · z_g < 0`` (in exact arithmetic) is known."""
        return self.upper < -self.rounding

    @property
    def share_positive(self) -> float:
        """The share of ``positive``."""
        return float(self.positive.double().mean())

    def witness(self, graph: int, direction: int = 0) -> Tensor:
        """The edges of a graph, ``(2, k)``, without which ``w · z_g`` is its ``upper``; together with
        :meth:`changed_features` and :meth:`added_edges`, where features may change and edges may be added."""
        graph, direction = self._place(graph, direction)
        return self.witnesses[graph][direction]

    def added_edges(self, graph: int, direction: int = 0) -> Tensor:
        """The new edges of a graph's witness, ``(2, k)``."""
        graph, direction = self._place(graph, direction)
        return self.sizes.new_empty(2, 0) if self.added is None else self.added[graph][direction]

    def changed_features(self, graph: int, direction: int = 0) -> ChangedEntries:
        """The features of a graph's witness: which entries change, and what they become."""
        graph, direction = self._place(graph, direction)
        return ChangedEntries.none(self.sizes.device) if self.changed is None else self.changed[graph][direction]

    def _place(self, graph: int, direction: int) -> tuple[int, int]:
        graph, direction = (
            whole(number, name, 0, f"it is a number from 0 to {last}", "Pass an int", most=last, error=CertificateError)
            for number, name, last in (
                (graph, "graph", len(self) - 1),
                (direction, "direction", len(self.witnesses[0]) - 1),
            )
        )
        return graph, direction

    @property
    def words(self) -> str:
        """What may change about a graph, in short."""
        parts = [f"in each graph at most {spread(self.most_dropped)} edges dropped"]
        if self.additions is not None:
            parts.append(added_in_words(self.additions))
        return "; ".join(parts if self.features is None else [*parts, features_in_words(self.features)])

    def to_dict(self) -> dict[str, list[Any]]:
        """One list per column."""
        columns = {
            "graph": torch.arange(len(self)),
            "nodes": self.sizes,
            "most_dropped": self.most_dropped,
            "nominal": self.nominal,
            "lower": self.lower,
            "upper": self.upper,
            "rounding": self.rounding,
            "run_error": self.run_error,
            "positive": self.positive,
            "negative": self.negative,
            "enumerated": self.enumerated,
        }
        return {name: values.tolist() for name, values in columns.items()}

    def to_frame(self) -> "pd.DataFrame":
        """The same table as a pandas frame (needs the extra ``pandas``); a row per graph, or per graph and direction
        if a graph has several."""
        return long_frame(self.to_dict(), None if self.lower.dim() == 1 else self.lower.shape[1], who=("graph",))

    def summary(self) -> dict[str, Any]:
        """The certificate in a few numbers, as JSON can hold them."""
        return {
            "graphs": len(self),
            "pool": self.pool,
            "method": self.method,
            "settings": self.evidence.method.shown,
            "precision": self.precision,
            "reading": self.reading,
            "values": self.positive.numel(),
            "positive": int(self.positive.sum()),
            "negative": int(self.negative.sum()),
            "positive_in_exact_arithmetic": int(self.positive_in_exact_arithmetic.sum()),
            "share_positive": self.share_positive,
            "kept": kept_share(self.lower, self.nominal),
            "enumerated": int(self.enumerated.sum()),
            "most_dropped": int(self.most_dropped.max()),
            "changes": self.words,
            "nominal_mean": float(self.nominal.mean()),
            "lower_mean": float(self.lower.mean()),
            "lower_min": float(self.lower.min()),
            "upper_mean": float(self.upper.mean()),
        }

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> Path:
        """Write everything to one ``.npz`` file (no pickle inside), with JSON ``notes`` if any; returns its path."""
        path = checked_path(path, error=CertificateError)
        check_graph_certificate(self)
        file.write(self, path, {} if notes is None else notes)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "GraphCertificate":
        """Read a certificate written by :meth:`save`; values that no certification produces raise ``CertificateError``.
        That detects accidents, not forgery: only :meth:`verify` compares it with model and graphs.
        """
        return cls.load_with_notes(path)[0]

    @classmethod
    def load_with_notes(cls, path: str | Path) -> tuple["GraphCertificate", dict[str, Any]]:
        """The same, with the notes it was saved with."""
        path = checked_path(path, error=CertificateError)
        fields, notes = file.read(path)
        certificate = cls(**fields)
        check_graph_certificate(certificate, f"{path} with ")
        return certificate, notes

    def verify(
        self, model: "ModelLike", graphs: "GraphsLike", *, pool: "Pool | None" = None, directions: Tensor | None = None
    ) -> "Verification":
        """Whether this is a certificate of that model and those graphs, and its clean values, directions, budgets and
        witnesses are right. The bound itself is not proved again.

        Args:
            pool: for a model of nodes, as when it was certified.
            directions: those that were given, for a certificate of your own directions.

        Example::

            graphs = certgcl.load_dataset("cycles-and-trees")[:4]
            encoder = certgcl.GCNEncoder(graphs[0].num_features, 8, 4).eval()
            certificate = certgcl.graph_compactness(encoder, graphs, 1, pool="mean")
            assert certificate.verify(encoder, graphs, pool="mean").ok
        """
        from certgcl.certify.pooling.verify import verify_graphs

        return verify_graphs(self, model, graphs, pool, directions)

    def __str__(self) -> str:
        return lines(*self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self._summary())

    def _summary(self) -> tuple[str, list[tuple[str, str]]]:
        """A title, and the lines of a summary by name."""
        proved, number = int(self.positive.sum()), self.positive.numel()
        kept = kept_share(self.lower, self.nominal)
        return f"certified lower bounds of {len(self)} graphs, {self.pool} pooling, method {self.method}", [
            ("model", f"{self.precision}, {READ[self.reading]}"),
            ("budget", self.words),
            (
                "positive",
                f"{proved} of {number} ({percent(self.share_positive)}) proved to stay above zero, as run in "
                f"{self.precision}",
            ),
            *([] if kept is None else [("kept", f"{percent(kept)} of the clean value")]),
            ("nominal", f"mean {_mean(self.nominal)}"),
            ("lower", f"mean {_mean(self.lower)}, min {float(self.lower.min()):.4g}"),
            (
                "upper",
                f"mean {_mean(self.upper)}; all changes tried in {int(self.enumerated.sum())} graphs, "
                f"{int(self.negative.sum())} known to fall below zero",
            ),
        ]


def _mean(values: Tensor) -> str:
    return f"{float(values.double().mean()):.4g}"
