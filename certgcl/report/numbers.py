"""From a subject to the numbers of its report: what its files say, and what is computed from them."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.certify.certificate import Certificate
from certgcl.learning.training.checkpoint import leaves
from certgcl.report import computed
from certgcl.report.computed import Progress
from certgcl.report.content import (
    BREAKS,
    OPEN,
    PROVED,
    UNPROVED,
    DegreeGroup,
    Degrees,
    Fragile,
    FragileNode,
    Missing,
    NodeTable,
    Origin,
    Report,
    Summary,
    Training,
)
from certgcl.report.neighbourhood import drawing_of, edges_of
from certgcl.report.phrases import statement
from certgcl.report.sources import Subject
from certgcl.runtime.out_of_memory import SMALLER, told_when_out_of_memory

MOST_VALUES = 20_000  # nodes that are embedded in the page and drawn
ROWS, DRAWINGS = 100, 6
_MOST_DEGREES = 16  # groups of nodes by degree
_NO_CERTIFICATE = "There is no certificate."
_NO_GRAPH = "The graph is not at hand: pass --dataset or --graph."


@told_when_out_of_memory(SMALLER)
def gather(subject: Subject, *, sample: int = 200, progress: Progress = lambda *_: None) -> Report:
    """The report on a subject.

    Args:
        sample: at how many nodes the budget curve and certified accuracy are computed; with 0 nothing is computed that
            the files do not say.

    Raises:
        ReportError: certificate, graph and encoder do not belong together.
    """
    subject.check()
    no_certificate = Missing(subject.absent.get("certificate", _NO_CERTIFICATE))
    worst = subject.worst
    curve = computed.budget_curve(subject, sample, progress)
    accuracy = computed.accuracy(subject, sample, progress)
    progress(0, 1, "fragile nodes")
    return Report(
        subject.name, _graph(subject),
        no_certificate if worst is None else _summary(subject, worst),
        no_certificate if worst is None else _values(subject, worst),
        no_certificate if worst is None else _degrees(subject, worst),
        curve, accuracy,
        no_certificate if worst is None else _fragile(subject, worst, sample),
        _training(subject), _origin(subject))


def signs(certificate: Certificate) -> list[str]:
    """What is known of the sign of each node, in a word."""
    known = zip(certificate.positive.tolist(), certificate.negative.tolist(), strict=True)
    if not certificate.certified:
        return [UNPROVED] * len(certificate.nodes)
    return [PROVED if positive else BREAKS if negative else OPEN for positive, negative in known]


def _graph(subject: Subject) -> str:
    graph = subject.graph
    if graph is None:
        return subject.absent.get("data", _NO_GRAPH)
    words = (f"{subject.graph_name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, "
             f"{graph.num_features:,} features")
    return words if subject.labels is None else f"{words}, {len(subject.labels.unique())} classes"


def _summary(subject: Subject, worst: Certificate) -> Summary:
    lower, local, upper = worst.lower.double(), worst.local_budget, worst.upper
    assert subject.certificate is not None
    return Summary(
        statement(subject, subject.certificate), worst.method, worst.certified, len(worst.nodes), len(local),
        int(worst.positive.sum()), worst.share_positive,
        None if upper is None else int(worst.negative.sum()), None if upper is None else int(worst.exact.sum()),
        float(worst.nominal.double().mean()), float(lower.mean()), float(lower.min()), float(lower.median()),
        float(lower.max()), None if upper is None else float(upper.double().mean()),
        int(local.min()), float(local.double().mean()), int(local.max()), worst.total_budget)


def _values(subject: Subject, worst: Certificate) -> NodeTable:
    shown = worst.at(computed.drawn(torch.arange(len(worst.nodes)), MOST_VALUES))
    return NodeTable(len(worst.nodes), worst.certified, shown.nodes.tolist(), _at(subject.degree, shown.nodes),
                  shown.nominal.tolist(), shown.lower.tolist(), None if shown.upper is None else shown.upper.tolist(),
                  signs(shown))


def _at(values: Tensor | None, nodes: Tensor) -> list[int] | None:
    return None if values is None else values[nodes].tolist()


def _degrees(subject: Subject, worst: Certificate) -> Degrees | Missing:
    """Nodes of equal degree together, or of near degrees where there are many."""
    if subject.graph is None:
        return Missing(subject.absent.get("data", _NO_GRAPH))
    degree, lower = subject.graph.degree[worst.nodes].numpy(), worst.lower.double().numpy()
    distinct = np.unique(degree)
    starts = distinct
    if len(distinct) > _MOST_DEGREES:
        starts = np.unique(np.floor(np.geomspace(1, distinct[-1] + 1, _MOST_DEGREES)).astype(int))
        starts = np.concatenate([distinct[:1], starts[starts > distinct[0]]])
    group, positive = np.searchsorted(starts, degree, side="right"), worst.positive.numpy()
    groups = []
    for number in np.unique(group):
        inside = group == number
        first, median, third = map(float, np.quantile(lower[inside], (0.25, 0.5, 0.75)))
        groups.append(DegreeGroup(int(degree[inside].min()), int(degree[inside].max()), int(inside.sum()), first,
                                  median, third, float(positive[inside].mean())))
    return Degrees(groups)


def _fragile(subject: Subject, worst: Certificate, sample: int) -> Fragile:
    order = torch.from_numpy(np.lexsort((worst.nodes.numpy(), worst.lower.double().numpy())))
    shown = worst.at(order[:ROWS])
    absent = "" if worst.witnesses is not None else (computed.why_not(subject, sample) or Missing("")).reason
    bracket = None if absent else computed.searched(subject, shown.nodes[:DRAWINGS])
    rows = _rows(subject, shown, bracket)
    drawings = []
    if bracket is not None and subject.graph is not None:
        drawings = [drawing_of(bracket, place, subject.graph, subject.labels) for place in range(len(bracket.nodes))]
    elif not absent:
        absent = subject.absent.get("data", _NO_GRAPH)
    return Fragile(len(worst.nodes), rows, drawings, absent, worst.witnesses is None and bracket is not None)


def _rows(subject: Subject, shown: Certificate, bracket: Certificate | None) -> list[FragileNode]:
    """The certificate's own numbers; upper values and witnesses of a search where it has none itself."""
    nodes = shown.nodes
    degree, label = _at(subject.degree, nodes), _at(subject.labels, nodes)
    sign, rows = signs(shown), []
    for place, node in enumerate(nodes.tolist()):
        found = shown if shown.upper is not None else bracket if bracket and place < len(bracket.nodes) else None
        upper, witness = None, None
        if found is not None and found.upper is not None:
            upper, witness = float(found.upper[place]), edges_of(found.witness(node))
            if bool(found.negative[place]) and sign[place] == OPEN:
                sign[place] = BREAKS
        rows.append(FragileNode(node, None if degree is None else degree[place], int(shown.local_budget[node]),
                                None if label is None else label[place], float(shown.nominal[place]),
                                float(shown.lower[place]), upper, sign[place], witness))
    return rows


def _training(subject: Subject) -> Training | Missing:
    history = subject.history
    if history is None or not len(history):
        return Missing(subject.absent.get("history", "There is no history of a training."))
    names = dict.fromkeys(name for record in history.records for name in record if name not in ("epoch", "seconds"))
    metrics = {name: [None if math.isnan(value) else value for value in history.column(name)] for name in names}
    return Training(len(history), sum(history.column("seconds")), metrics)


def _origin(subject: Subject) -> Origin:
    config = subject.config or {}
    asked: Mapping[str, object] = config.get("config", {})
    settings = {name.removeprefix("settings."): str(value) for name, value in leaves(dict(asked))}
    versions = config.get("versions") or subject.notes.get("versions") or {}
    seed = settings.get("seed", "")
    return Origin(list(subject.commands), subject.lines, {name: str(version) for name, version in versions.items()} or {
        "certgcl (this page)": __version__}, settings, int(seed) if seed.isdecimal() else None, config.get("started"),
        subject.notes.get("fingerprint"))
