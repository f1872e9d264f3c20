"""The command lines that reproduce a run or a certificate, derived from its files."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from certgcl.bounds import METHODS as BOUNDS
from certgcl.bounds import SEARCHES
from certgcl.certify.certificate import Certificate
from certgcl.certify.sharding import MERGED
from certgcl.cli.method_options import NO_REGULARIZER, build_method
from certgcl.cli.run_folders import CERTIFICATES, GraphSource
from certgcl.graphs.graph import Graph
from certgcl.learning import presets
from certgcl.learning.methods import METHODS

_OPTIONS = (
    "epochs",
    "batch_nodes",
    "seed",
    "kappa",
    "anchors",
    "budget",
)  # of certgcl train; others are given with --set


def encoder_words(run: Path | None, weights: Path, source: GraphSource) -> list[str]:
    """The options that name an encoder and its graph."""
    return ["--run", str(run)] if run is not None else ["--weights", str(weights), *_source_words(source)]


def _source_words(source: GraphSource) -> list[str]:
    return ["--dataset", source.dataset] if source.dataset is not None else ["--graph", str(source.graph)]


def train_command(config: Mapping[str, Any], source: GraphSource, out: str) -> str | None:
    """``certgcl train`` with the settings in a run's config; None if options cannot express them."""
    name = next((name for name, kind in METHODS.items() if kind.__name__ == config.get("method")), None)
    if name is None or not {"settings", "epochs"} <= config.keys():
        return None
    settings = {**config["settings"], "epochs": config["epochs"]}
    term = settings.pop("regularizer", None)
    regularizer = NO_REGULARIZER if term is None else term.get("method")
    if not isinstance(regularizer, str) or regularizer not in (NO_REGULARIZER, *BOUNDS):
        return None
    preset = presets.get(name, source.dataset) if source.dataset else None
    usual = build_method(name, preset, regularizer, {}).settings()
    usual_term = usual.pop("regularizer") or {}
    if settings.keys() != usual.keys() or (term or {}).keys() != usual_term.keys():  # of another version
        return None
    given = {setting: value for setting, value in settings.items() if value != usual[setting]}
    given |= {setting: value for setting, value in (term or {}).items() if value != usual_term[setting]}
    given |= {setting: settings[setting] for setting in ("epochs", "seed")}
    if any(isinstance(value, dict) for value in given.values()):  # a schedule
        return None
    words = ["certgcl", "train", *_source_words(source), "--method", name, "--regularizer", regularizer]
    for setting, value in given.items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{setting.replace('_', '-')}", shown] if setting in _OPTIONS else ["--set", f"{setting}={shown}"]
    return shlex.join([*words, "--out", out])


def certify_command(
    certificate: Certificate, path: Path, run: Path | None, graph: Graph, budget: int | float | None, encoder: list[str]
) -> str | None:
    """``certgcl certify`` for a certificate of all nodes; None if its options cannot express it.

    Args:
        path: where the certificate is; the command writes it there again.
        budget: the option that gives the certificate's budgets, if there is one.
        encoder: the options that name encoder and graph.
    """
    settings = certificate.evidence.special_settings
    if (
        budget is None
        or settings is not None
        or certificate.features is not None
        or certificate.additions is not None
        or certificate.method not in BOUNDS | SEARCHES
        or len(certificate.nodes) < graph.num_nodes
    ):
        return None
    total = ["--total", str(certificate.total_budget)] if certificate.total_budget < graph.num_edges else []
    usual = run is not None and path.parent in (run, run / CERTIFICATES / f"{certificate.method}-{budget}")
    out = [] if usual else ["--out", str(path.parent if path.name == MERGED else path.with_suffix(""))]
    return shlex.join(
        ["certgcl", "certify", *encoder, "--budget", str(budget), *total, "--method", certificate.method, *out]
    )


def certify_lines(certificate: Certificate, path: Path, *, compactness: bool) -> str:
    """The same in Python, for any nodes, budgets and directions.

    Args:
        compactness: whether the directions are those of node compactness on the graph itself.
    """
    method, *both = certificate.method.split(", ")
    settings = certificate.evidence.special_settings
    old = ("" if settings is None else f"# the settings of the method were {settings}\n") + (
        f"old = certgcl.Certificate.load({str(path)!r})\nbudget = old.changes\n"
    )
    if compactness or both:
        views = ", views='both'" if both else ""
        return f"{old}certgcl.node_compactness(model, graph, budget, method={method!r}, nodes=old.nodes{views})"
    return (
        f"{old}directions = old.directions.new_zeros(len(old.local_budget), *old.directions.shape[1:])\n"
        "directions[old.nodes] = old.directions\n"
        f"certgcl.linear_bounds(model, graph, budget, directions, method={method!r}, nodes=old.nodes)"
    )


def report_command(run: Path | None, certificate: Path | None, weights: Path | None, source: GraphSource | None) -> str:
    """``certgcl report`` on a run, on one of its certificates, or on a certificate with its encoder and graph."""
    if run is None or certificate is None or certificate.parent == run:
        words = ["certgcl", "report", str(run or certificate)]
    else:
        words = ["certgcl", "report", str(certificate.parent)]
    if run is None:
        words += [*(["--weights", str(weights)] if weights else []), *(_source_words(source) if source else [])]
    return shlex.join(words)
