"""Computes the numbers of a report: from the contents of files, and from bounds and searches based on them."""

import math
from collections.abc import Mapping
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.certify.certificate import Certificate
from certgcl.certify.other_budgets import Progress, drawn
from certgcl.learning.training.checkpoint import leaves
from certgcl.report.accuracy import accuracy as accuracy_of
from certgcl.report.content import (
    DegreeGroup,
    Degrees,
    Explorer,
    Fragile,
    FragileNode,
    Missing,
    NodeDetail,
    NodePicture,
    NodeTable,
    Origin,
    Report,
    Summary,
    Training,
)
from certgcl.report.curves import Curves, curves_of
from certgcl.report.known import Known, all_known, positions
from certgcl.report.neighbourhood import drawing_of, edges_of
from certgcl.report.phrases import statement
from certgcl.report.sources import ReportSource
from certgcl.runtime.out_of_memory import SMALLER, told_when_out_of_memory

MOST_VALUES = 20_000  # nodes that are embedded in the page and drawn
MOST_EDGES = 50_000  # edges likewise
ROWS, DRAWINGS = 100, 6
MOST_FEATURES = 4  # features of a witness that are named
_MOST_DEGREES = 16  # groups of nodes by degree
_NO_ENCODER = "Neither a run nor --weights with --dataset or --graph gives an encoder and its graph to compute with."
_SKIPPED = "Skipped because of --sample 0."
_NO_CERTIFICATE = "There is no certificate."
_NO_GRAPH = "The graph is not available: pass --dataset or --graph."


@told_when_out_of_memory(SMALLER)
def build_report(source: ReportSource, *, sample: int = 200, progress: Progress = lambda *_: None) -> Report:
    """The report on a source.

    Args:
        sample: at how many nodes the budget curve and certified accuracy are computed; with 0 nothing is computed
            beyond the contents of the files.

    Raises:
        ReportError: certificate, graph and encoder do not belong together.
    """
    source.check()
    no_certificate = Missing(source.absent.get("certificate", _NO_CERTIFICATE))
    absent = why_not(source, sample)
    curves = None if absent else curves_of(source, sample, progress)
    accuracy = absent or accuracy_of(source, sample, progress)
    progress(0, 1, "edges that matter")
    known = all_known(source, curves)
    if known is not None and curves is not None and source.graph is not None and source.bounds_can_be_raised:
        own = known.certificate
        curves = curves.raised(own.at(positions(own, curves.nodes)), source.budget.on(source.graph))
    return Report(
        source.name,
        _graph(source),
        no_certificate if known is None else _summary(source, known),
        no_certificate if known is None else _values(source, known),
        no_certificate if known is None else _degrees(source, known),
        absent or Missing(_NO_ENCODER) if curves is None else curves.summary(),
        accuracy,
        no_certificate if known is None else absent or _explorer(source, known, curves),
        no_certificate if known is None else _fragile(source, known, absent),
        _training(source),
        _origin(source),
    )


def why_not(source: ReportSource, sample: int) -> Missing | None:
    """Why nothing can be computed; None if something can."""
    if sample == 0:
        return Missing(_SKIPPED)
    if source.encoder is None:
        return Missing(source.absent.get("weights") or source.absent.get("data") or _NO_ENCODER)
    return None


def _graph(source: ReportSource) -> str:
    graph = source.graph
    if graph is None:
        return source.absent.get("data", _NO_GRAPH)
    words = (
        f"{source.graph_name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
    )
    return words if source.labels is None else f"{words}, {len(source.labels.unique())} classes"


def _summary(source: ReportSource, known: Known) -> Summary:
    own, measures, searched = known.certificate, known.certificate.measures, int(known.searched.sum())
    lower, local, worst = own.lower.double(), own.local_budget, source.worst
    assert source.certificate is not None
    assert worst is not None
    return Summary(
        statement(source, source.certificate),
        own.method,
        own.certified,
        len(own.nodes),
        len(local),
        int(own.positive.sum()),
        int(worst.positive.sum()),
        int((lower > worst.lower.double()).sum()),
        measures.positive,
        measures.kept,
        worst.measures.kept,
        measures.over_norm,
        measures.nominal_over_norm,
        searched,
        int(own.negative.sum()) if searched else None,
        int((own.exact & known.searched).sum()) if searched else None,
        None if own.norms is None else float(own.norms.double().mean()),
        float(own.nominal.double().mean()),
        float(lower.mean()),
        float(lower.min()),
        float(lower.median()),
        float(lower.max()),
        int(local.min()),
        float(local.double().mean()),
        int(local.max()),
        own.total_budget,
    )


def _values(source: ReportSource, known: Known) -> NodeTable:
    shown = known.at(drawn(torch.arange(len(known.searched)), MOST_VALUES))
    own, nodes = shown.certificate, shown.certificate.nodes
    names = None if source.names is None else [source.names[node] for node in nodes.tolist()]
    return NodeTable(
        len(known.searched),
        own.certified,
        nodes.tolist(),
        names,
        _at(source.labels, nodes),
        _at(source.degree, nodes),
        own.local_budget[nodes].tolist(),
        own.nominal.tolist(),
        own.lower.tolist(),
        [shown.upper(place) for place in range(len(nodes))],
        shown.signs,
    )


def _at(values: Tensor | None, nodes: Tensor) -> list[int] | None:
    return None if values is None else values[nodes].tolist()


def _degrees(source: ReportSource, known: Known) -> Degrees | Missing:
    """Groups of nodes of equal degree, or of similar degrees if there are many."""
    if source.graph is None:
        return Missing(source.absent.get("data", _NO_GRAPH))
    own = known.certificate
    degree, lower = source.graph.degree[own.nodes].numpy(), own.lower.double().numpy()
    distinct = np.unique(degree)
    starts = distinct
    if len(distinct) > _MOST_DEGREES:
        starts = np.unique(np.floor(np.geomspace(1, distinct[-1] + 1, _MOST_DEGREES)).astype(int))
        starts = np.concatenate([distinct[:1], starts[starts > distinct[0]]])
    group, positive = np.searchsorted(starts, degree, side="right"), own.positive.numpy()
    groups = []
    for number in np.unique(group):
        inside = group == number
        first, median, third = map(float, np.quantile(lower[inside], (0.25, 0.5, 0.75)))
        groups.append(
            DegreeGroup(
                int(degree[inside].min()),
                int(degree[inside].max()),
                int(inside.sum()),
                first,
                median,
                third,
                float(positive[inside].mean()),
            )
        )
    return Degrees(groups)


def _explorer(source: ReportSource, known: Known, curves: Curves | None) -> Explorer | Missing:
    graph = source.graph
    if graph is None or curves is None:
        return Missing(source.absent.get("data", _NO_GRAPH))
    places = positions(known.certificate, curves.nodes).tolist()
    details = []
    for place, node in zip(places, curves.nodes.tolist(), strict=True):
        own = known.certificate
        witness = own.witnesses[place].shape[1] + own.added_edges(node).shape[1] if own.witnesses else 0
        details.append(NodeDetail(node, *curves.lower(node), known.effects.get(node, []), witness))
    small = graph.num_edges <= MOST_EDGES
    return Explorer(
        [step.budget for step in curves.by_rate],
        [step.budget for step in curves.by_count],
        details,
        edges_of(graph.edge_index[:, graph.row < graph.col]) if small else None,
        source.names if small else None,
        None if source.labels is None or not small else source.labels.tolist(),
    )


def _fragile(source: ReportSource, known: Known, absent: Missing | None) -> Fragile:
    nodes, lower = known.certificate.nodes.numpy(), known.certificate.lower.double().numpy()
    rows = _rows(source, known.at(torch.from_numpy(np.lexsort((nodes, lower)))[:ROWS]))
    drawings: list[NodePicture] = []
    reason = "" if absent is None else absent.reason
    if source.graph is not None:
        drawings = [drawing_of(row, source.graph, source.labels) for row in rows[:DRAWINGS] if row.witness is not None]
    if not drawings and bool(known.searched.any()):
        reason = source.absent.get("data", _NO_GRAPH)
    there = source.certificate is not None and source.certificate.witnesses is not None
    return Fragile(len(nodes), rows, drawings, reason, not there and bool(known.searched.any()))


def _rows(source: ReportSource, shown: Known) -> list[FragileNode]:
    own, rows = shown.certificate, []
    degree, label = _at(source.degree, own.nodes), _at(source.labels, own.nodes)
    for place, (node, sign) in enumerate(zip(own.nodes.tolist(), shown.signs, strict=True)):
        witness = edges_of(own.witness(node)) if bool(shown.searched[place]) else None
        rows.append(
            FragileNode(
                node,
                None if source.names is None else source.names[node],
                None if degree is None else degree[place],
                int(own.local_budget[node]),
                None if label is None else label[place],
                float(own.nominal[place]),
                float(own.lower[place]),
                shown.upper(place),
                sign,
                witness,
                shown.effects.get(node, []),
                [] if witness is None else changed_words(own, node),
                [] if witness is None else edges_of(own.added_edges(node)),
            )
        )
    return rows


def changed_words(certificate: Certificate, node: int) -> list[str]:
    """The first features that a witness changes, and how many more."""
    entries = certificate.changed_features(node)
    listed = zip(entries.nodes.tolist(), entries.columns.tolist(), entries.values.tolist(), strict=True)
    words = [
        f"feature {column} of node {owner} is {value:.3g}" for owner, column, value in islice(listed, MOST_FEATURES)
    ]
    return words + ([f"{len(entries) - len(words)} more"] if len(entries) > len(words) else [])


def _training(source: ReportSource) -> Training | Missing:
    history = source.history
    if history is None or not len(history):
        return Missing(source.absent.get("history", "There is no training history."))
    names = dict.fromkeys(name for record in history.records for name in record if name not in ("epoch", "seconds"))
    metrics = {name: [None if math.isnan(value) else value for value in history.column(name)] for name in names}
    return Training(len(history), sum(history.column("seconds")), metrics)


def _origin(source: ReportSource) -> Origin:
    config = source.config or {}
    asked: Mapping[str, object] = config.get("config", {})
    settings = {name.removeprefix("settings."): str(value) for name, value in leaves(dict(asked))}
    versions = config.get("versions") or source.notes.get("versions") or {}
    seed = settings.get("seed", "")
    return Origin(
        list(source.commands),
        source.lines,
        {name: str(version) for name, version in versions.items()} or {"certgcl (this page)": __version__},
        settings,
        int(seed) if seed.isdecimal() else None,
        config.get("started"),
        source.notes.get("fingerprint"),
    )
