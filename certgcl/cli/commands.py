"""The command lines that make a run or a certificate again, from what their files say."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from certgcl import presets
from certgcl.bounds import METHODS as BOUNDS
from certgcl.certificate import Certificate
from certgcl.cli.recipe import NO_REGULARIZER, build_method
from certgcl.cli.source import Source
from certgcl.graph import Graph
from certgcl.methods import METHODS

_OPTIONS = ("epochs", "seed", "kappa", "anchors", "budget")  # of certgcl train; others are given with --set


def encoder_words(run: Path | None, weights: Path, source: Source) -> list[str]:
    """The options that name an encoder and its graph."""
    return ["--run", str(run)] if run is not None else ["--weights", str(weights), *_source_words(source)]


def _source_words(source: Source) -> list[str]:
    return ["--dataset", source.dataset] if source.dataset is not None else ["--graph", str(source.graph)]


def train_command(config: Mapping[str, Any], source: Source, out: str) -> str | None:
    """``certgcl train`` with the settings in a run's config; None where options cannot say them."""
    name = next((name for name, kind in METHODS.items() if kind.__name__ == config.get("method")), None)
    if name is None:
        return None
    settings = {**config["settings"], "epochs": config["epochs"]}
    term = settings.pop("regularizer")
    regularizer = NO_REGULARIZER if term is None else term["method"]
    if regularizer not in (NO_REGULARIZER, *BOUNDS):
        return None
    preset = presets.get(name, source.dataset) if source.dataset else None
    usual = build_method(name, preset, regularizer, {}).settings()
    usual_term = usual.pop("regularizer") or {}
    given = {setting: value for setting, value in settings.items() if value != usual[setting]}
    given |= {setting: value for setting, value in (term or {}).items() if value != usual_term[setting]}
    given |= {setting: settings[setting] for setting in ("epochs", "seed")}
    if any(isinstance(value, dict) for value in given.values()):  # a schedule
        return None
    words = ["certgcl", "train", *_source_words(source), "--method", name, "--regularizer", regularizer]
    for setting, value in given.items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{setting}", shown] if setting in _OPTIONS else ["--set", f"{setting}={shown}"]
    return shlex.join([*words, "--out", out])


def certify_command(certificate: Certificate, path: str, graph: Graph, budget: int | float | None,
                    encoder: list[str]) -> str:
    """``certgcl certify`` for a certificate of all nodes, or lines of Python where its options cannot say it.

    Args:
        budget: what gives the certificate's budgets, if anything does.
        encoder: the options that name encoder and graph.
    """
    if budget is None or certificate.method not in BOUNDS or len(certificate.nodes) < graph.num_nodes:
        method, *both = certificate.method.split(", ")
        views = ", views='both'" if both else ""
        return (f"# in Python, with the model and its graph\nold = certgcl.Certificate.load({path!r})\n"
                "budget = certgcl.EdgeDropBudget(old.local_budget, old.total_budget)\n"
                f"certgcl.node_compactness(model, graph, budget, method={method!r}, nodes=old.nodes{views})")
    total = ["--total", str(certificate.total_budget)] if certificate.total_budget < graph.num_edges else []
    return shlex.join(["certgcl", "certify", *encoder, "--budget", str(budget), *total, "--method",
                       certificate.method])


def report_command(run: Path | None, certificate: Path | None, weights: Path | None, source: Source | None) -> str:
    """``certgcl report`` on a run, or on a certificate with the options that name its encoder and graph."""
    words = ["certgcl", "report", str(run or certificate)]
    if run is None:
        words += [*(["--weights", str(weights)] if weights else []), *(_source_words(source) if source else [])]
    return shlex.join(words)
