"""What a certificate claims, and the directions that it is about."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .choices import EVERY, Choices
from .core.arithmetic import Array, Ints
from .core.changes import Additions, Changes, Features
from .core.network import Graph
from .files import arrays_of, numbers, whole

CHANGED = ("changed_nodes", "changed_columns", "changed_values")
FEATURES = ("features_off", "features_on", "features_radius")
ADDED = ("added_local", "added_degree", "added_both")
WORDS = {"format", "certified", "total_budget", "evidence", "proof", "features", "additions"}  # which are read,
ARRAYS = {"nodes", "lower", "rounding", "directions", "requested_budget", "local_budget", "upper", "changed_sizes"}
ARRAYS |= {"witness_edges", "witness_sizes", "new_edges", "new_sizes", "candidate_rowptr", "candidate_col"}
ARRAYS |= {"proof_nodes", "proof_sizes", "proof_starts", *CHANGED, *FEATURES, *ADDED}
WORDS |= {"method", "precision", "reading", "notes", "names", "curve"}  # and which nothing is claimed about here
ARRAYS |= {"meta", "nominal", "run_error", "norms"}
TOTALS = {"total", "both_total"}  # of new edges
SOURCES = {
    "compactness, the graph itself": "graph",
    "compactness, a view": "view",
    "compactness, any admissible second view": "both",
    "given": "given",
}
KINDS = ("masked", "bits", "box", "columns")


@dataclass(frozen=True, eq=False)
class Claim:
    """``w_i · z_i(S) >= lower_i - rounding_i`` for the nodes of a certificate and every admissible change S; with both
    views free, ``W^CL_i(S2) · z_i(S1)`` for every pair of them.

    Args:
        directions: as the certificate has them, ``(A, C, d)``.
        source: where directions come from: ``"graph"``, ``"view"``, ``"both"`` or ``"given"``.
        local, tightened, total: budgets of lost edges, as requested, and lowered to what can be used.
        upper, witnesses: values that some admissible changes reach, and the edges that are lost or new there.
        changed: the features that change there: nodes, columns and values.
    """

    nodes: Ints
    lower: Array
    rounding: Array
    directions: Array
    source: str
    local: Ints
    tightened: Ints
    total: int
    choices: Choices
    upper: Array | None
    witnesses: list[set[tuple[int, int]]]
    features: Features | None = None
    additions: dict[str, Any] | None = None
    changed: list[tuple[Ints, Ints, Array]] | None = None

    @classmethod
    def load(cls, path: Path) -> "Claim":
        arrays = arrays_of(path)
        return cls.of(json.loads(str(arrays["meta"])), arrays)

    @classmethod
    def of(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> "Claim":
        if not str(meta["format"]).startswith("certgcl-certificate-") or not meta["certified"]:
            raise ValueError("no certificate, or one of a method that proves nothing")
        unknown = sorted((set(meta) - WORDS) | (set(arrays) - ARRAYS))
        if unknown:
            raise ValueError(f"a certificate with {', '.join(unknown)}, of which the checker knows nothing")
        if any(("features" in meta) != (name in arrays) for name in FEATURES) or any(
            ("additions" in meta) != (name in arrays) for name in ADDED
        ):
            raise ValueError("a budget of features or new edges without one of its parts")
        if set(meta.get("additions", TOTALS)) != TOTALS:
            raise ValueError(f"a budget of new edges that is {meta['additions']}")
        words = meta["evidence"]["directions"]["shown"]
        source = next((name for start, name in SOURCES.items() if words.startswith(start)), None)
        if source is None or (source == "both" and "upper" in arrays):
            raise ValueError(f"directions of {words}, of which the checker knows nothing")
        nodes = whole(arrays["nodes"])
        lower, rounding = (
            numbers(arrays[name], finite=False).reshape(len(nodes), -1) for name in ("lower", "rounding")
        )
        witnesses: list[set[tuple[int, int]]] = [set() for _ in nodes]
        for edges, sizes in (("witness_edges", "witness_sizes"), ("new_edges", "new_sizes")):
            if edges in arrays:
                parts = np.split(arrays[edges], np.cumsum(arrays[sizes])[:-1], axis=1)
                for here, part in zip(witnesses, parts, strict=True):
                    here |= {(min(a, b), max(a, b)) for a, b in part.T.tolist()}
        return cls(
            nodes,
            lower,
            rounding,
            numbers(arrays["directions"]).reshape(len(nodes), lower.shape[1], -1),
            source,
            whole(arrays["requested_budget"]),
            whole(arrays["local_budget"]),
            int(whole(meta["total_budget"])),
            _choices(meta.get("proof"), arrays),
            numbers(arrays["upper"], finite=False).reshape(lower.shape) if "upper" in arrays else None,
            witnesses,
            _features(meta.get("features"), arrays),
            None if "additions" not in meta else {**meta["additions"], **arrays},
            _changed(arrays),
        )

    @property
    def words(self) -> str:
        """What is claimed under which changes, so that nobody takes a weaker claim for a stronger one."""
        about = {
            "graph": "compactness, the clean graph as the second view",
            "view": "compactness, with the second view that was given",
            "both": "compactness, with any admissible second view",
            "given": "functionals that the certificate gives",
        }[self.source]
        parts = [f"at most {self.tightened.max(initial=0)} lost edges at a node, {self.total} in all"]
        if self.additions is not None:
            added, listed = self.additions, self.additions.get("candidate_col")
            among = "any" if listed is None else len(listed) // 2
            parts.append(
                f"{np.max(added['added_local'], initial=0)} new ones at a node, {added['total']} in all, among {among} "
                f"pairs; {np.max(added['added_both'], initial=0)} of both at a node, {added['both_total']} in all"
            )
        if self.features is not None:
            kind = self.features
            parts.append(
                f"{kind.columns} masked columns"
                if kind.columns is not None
                else f"features in a box of radius {kind.radius.max():g} at most"
                if kind.radius.any()
                else f"features of a node, {kind.off.max(initial=0)} off and {kind.on.max(initial=0)} on, "
                f"{kind.total} in all"
            )
        return f"{about}; {', '.join(parts)}"

    def changes(self, graph: Graph) -> Changes:
        """What is admissible on a graph; the tightened budgets must equal the result of tightening them here."""
        if not len(self.local) == len(graph.neighbours) == len(self.tightened):
            raise ValueError(f"budgets of {len(self.local)} nodes for a graph of {len(graph.neighbours)}")
        if (self.local < 0).any() or self.total < 0:
            raise ValueError("budgets below zero")
        if len(np.unique(self.nodes)) < len(self.nodes) or not np.isin(self.nodes, np.arange(len(self.local))).all():
            raise ValueError("a node twice, or one that the graph does not have")
        found = Changes(graph, self.local, self.total)
        if (found.budget != self.tightened).any():
            raise ValueError("budgets that do not follow from the requested ones on this graph")
        features = None if self.features is None else self.features.check(graph)
        additions = None if self.additions is None else _additions(self.additions, graph)
        return Changes(graph, self.local, self.total, additions=additions, features=features)


def _features(content: dict[str, Any] | None, arrays: dict[str, Any]) -> Features | None:
    if content is None:
        return None
    off, on = (whole(arrays[f"features_{name}"]) for name in ("off", "on"))
    columns, total, shared = int(whole(content["columns"])), int(whole(content["total"])), content["kind"] == "columns"
    if set(content) != {"kind", "columns", "total"} or content["kind"] not in KINDS or (columns and not shared):
        raise ValueError(f"a budget of features that is {content}")
    return Features(off, on, numbers(arrays["features_radius"]), total, columns if shared else None)


def _additions(content: dict[str, Any], graph: Graph) -> Additions:
    nodes = len(graph.neighbours)
    if "candidate_rowptr" in content:
        rows = np.split(whole(content["candidate_col"]), content["candidate_rowptr"][1:-1])
    else:  # all pairs that are not edges
        rows = [np.setdiff1d(np.arange(nodes), [i, *row]) for i, row in enumerate(graph.neighbours)]
    local, both = (whole(content[name]) for name in ("added_local", "added_both"))
    total, both_total = (int(whole(content[name])) for name in ("total", "both_total"))
    return Additions(tuple(rows), local, total, both, both_total).check(graph)


def _changed(arrays: dict[str, Any]) -> list[tuple[Ints, Ints, Array]] | None:
    if "changed_sizes" not in arrays:
        return None
    parts = [np.split(arrays[name], np.cumsum(arrays["changed_sizes"])[:-1]) for name in CHANGED]
    return list(zip(*parts, strict=True))


def _choices(content: dict[str, Any] | None, arrays: dict[str, Any]) -> Choices:
    """The library's choices; nothing in them can make a bound wrong."""
    if content is None:
        return EVERY
    if not all(number in (1 << bit for bit in range(11)) for number in (content["output"], content["rows"])):
        raise ValueError("sign patterns whose number is no power of two up to 1024")
    nodes, sizes = arrays["proof_nodes"].tolist(), arrays["proof_sizes"]
    starts = np.split(arrays["proof_starts"], np.cumsum(sizes)[:-1]) if len(nodes) else []
    return Choices(
        tuple(map(str, content["rules"])),
        {node: tuple(group.tolist()) for node, group in zip(nodes, starts, strict=True)},
        int(content["output"]),
        int(content["rows"]),
        bool(content["functional"]),
    )
