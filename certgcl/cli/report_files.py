"""The files from which a report is made: where they are, and what they contain."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from certgcl.certify.certificate import Certificate
from certgcl.certify.sharding import MERGED
from certgcl.certify.sharding.manifest import MANIFEST, read_versions
from certgcl.cli.commands import certify_command, certify_lines, encoder_words, report_command, train_command
from certgcl.cli.run_folders import CERTIFICATES, ENCODER, SOURCE, GraphSource, encoder_of
from certgcl.errors import CertgclError, CheckpointError, GraphError, ReportError
from certgcl.files.atomic import refusing
from certgcl.learning.training import History
from certgcl.learning.training.history import is_number
from certgcl.learning.training.run_config import read_config
from certgcl.learning.training.run_folder import CONFIG, HISTORY, read_history
from certgcl.models.network import GraphNetwork
from certgcl.report import ReportSource
from certgcl.report.phrases import budget_rule


@dataclass(frozen=True)
class RunFiles:
    """A certificate, a run, or both.

    Args:
        page: where the report goes if the user names no other place.
    """

    page: Path
    certificate: Path | None
    run: Path | None

    @classmethod
    def at(cls, path: Path) -> "RunFiles":
        """The contents of a file or folder."""
        if path.is_file():
            return cls(path.with_suffix(".html"), path, _run_around(path))
        page = path / "report.html"
        if (path / CONFIG).exists() or (path / HISTORY).exists():
            return cls(page, _certificate_in(path), path)
        if (path / MERGED).exists():
            return cls(page, path / MERGED, _run_around(path / MERGED))
        if (path / MANIFEST).exists():
            raise ReportError(
                f"{path} with shards that are not merged",
                "a report is about one certificate",
                f"Run `certgcl merge {path}` first",
            )
        raise ReportError(
            f"{path} with neither {CONFIG} nor {MERGED}",
            "a report is about a run or a certificate",
            "Name a folder of certgcl train or certgcl certify, or a file of Certificate.save",
        )

    @property
    def name(self) -> str:
        """The folder of the run, and that of its certificate if it has its own."""
        parts = [] if self.run is None else [self.run]
        if self.certificate is not None and self.certificate.parent != self.run:
            parts.append(self.certificate.parent if self.certificate.name == MERGED else self.certificate)
        return ", ".join(part.resolve().name for part in parts)


def _run_around(certificate: Path) -> Path | None:
    """The run that a certificate belongs to, next to its files or in a folder of its own in ``certificates``."""
    around = [certificate.parent]
    for path in (certificate, certificate.resolve()):  # as the user wrote it, if that names the run too
        if path.parent.parent.name == CERTIFICATES:
            around.append(path.parent.parent.parent)
    return next((run for run in around if (run / CONFIG).exists()), None)


def _certificate_in(run: Path) -> Path | None:
    """The certificate written by the training, or the only one made since."""
    if (run / MERGED).exists():
        return run / MERGED
    others = sorted((run / CERTIFICATES).glob(f"*/{MERGED}"))
    if len(others) > 1:
        raise ReportError(
            f"{run} with {len(others)} certificates",
            "a report is about one",
            f"Name one of {', '.join(str(path.parent) for path in others)}",
        )
    return others[0] if others else None


def read_report_source(
    found: RunFiles, source: GraphSource | None, weights: Path | None, root: Path | None
) -> ReportSource:
    """Everything available. If a run lacks something, or its graph cannot be loaded, a sentence says so.

    Args:
        source: the graph, if not that of the run.
        weights: the encoder, if not that of the run.
    """
    parts: dict[str, Any] = {}
    absent: dict[str, str] = {}
    of_run = source is None
    if found.run is not None and (found.run / SOURCE).exists() and GraphSource.of_run(found.run).several:
        raise GraphError(
            f"{found.run}, a run on a set of graphs",
            "a page is about the nodes of one graph",
            "Use certgcl.GraphCertificate.load(path).to_frame()",
        )
    if found.certificate is not None:
        parts["certificate"], notes = Certificate.load_with_notes(found.certificate)
        parts["notes"] = notes | _shard_notes(found.certificate.parent)
    if found.run is not None:
        if found.certificate is None:
            absent["certificate"] = (
                f"The run has no certificate yet: certgcl certify --run {found.run} --budget 0.4 makes one."
            )
        parts |= {"config": _config(found.run / CONFIG)} | _history(found.run)
        missing = [name for name in (SOURCE, ENCODER) if not (found.run / name).exists()]
        if missing:
            absent["weights"] = f"The training is not finished: {found.run} without {' and '.join(missing)}."
        else:
            source, weights = source or GraphSource.of_run(found.run), weights or encoder_of(found.run)
    if source is not None:
        try:
            data = source.load(root)
            parts |= {"data": data, "protocol": source.protocol(data), "graph_name": str(source)}
        except (CertgclError, OSError) as error:
            if not of_run:
                raise
            absent["data"] = f"The graph of the run could not be loaded: {getattr(error, 'found', error)}."
    if weights is not None:
        parts["weights"] = GraphNetwork.load(weights)
    subject = ReportSource(found.name, absent=absent, hints=_hints(found.certificate, parts.get("config")), **parts)
    return replace(subject, **_commands(subject, found, source, weights))


def _config(path: Path) -> dict[str, Any]:
    """The config of a run; the settings that a report uses are checked."""
    content = read_config(path)
    with refusing(path, CheckpointError, "its settings must be those of a training run", "Bring it back from a copy"):
        settings = content["config"].get("settings", {})
        term, rates = settings.get("regularizer"), settings.get("drop_rates") or [0]
        if not isinstance(rates, list) or not all(map(is_number, rates)):
            raise ValueError(f"drop_rates {rates!r}")
        if term is not None and not isinstance(term, dict):
            raise ValueError(f"regularizer {term!r}")
    return content


def _history(run: Path) -> dict[str, History]:
    return {"history": read_history(run)} if (run / HISTORY).exists() else {}


def _shard_notes(folder: Path) -> dict[str, Any]:
    """The versions that a folder of shards was made with."""
    return {"versions": read_versions(folder)} if (folder / MANIFEST).exists() else {}


def _hints(certificate: Path | None, config: Mapping[str, Any] | None) -> list[int | float]:
    """Budgets with which a certificate was probably requested: from the name of its folder, or those of the
    training."""
    hints: list[Any] = []
    if certificate is not None:
        asked = certificate.resolve().parent.name.rpartition("-")[2]
        hints += [int(asked)] if asked.isdecimal() else []
        hints += [float(asked)] if asked.startswith("0.") and asked[2:].isdecimal() else []
    settings = (config or {}).get("config", {}).get("settings", {})
    hints += [(settings.get("regularizer") or {}).get("budget"), max(settings.get("drop_rates") or [0])]
    return [hint for hint in hints if isinstance(hint, int) or (isinstance(hint, float) and 0 < hint < 1)]


def _commands(
    subject: ReportSource, found: RunFiles, source: GraphSource | None, weights: Path | None
) -> dict[str, Any]:
    """How to reproduce the run, the certificate and the page: commands, or lines of Python if no command can."""
    commands: list[str | None] = []
    lines = ""
    if found.run is not None and source is not None and subject.config is not None:
        commands.append(train_command(subject.config["config"], source, str(found.run)))
    if subject.certificate is not None and found.certificate is not None:
        certify = None
        subject.check()
        if subject.graph is not None and source is not None and weights is not None and subject.is_compactness:
            rule = budget_rule(subject.certificate, subject.graph, subject.hints)
            certify = certify_command(
                subject.certificate,
                found.certificate,
                found.run,
                subject.graph,
                rule,
                encoder_words(found.run, weights, source),
            )
        if certify is None and subject.embeddings is not None:
            lines = certify_lines(subject.certificate, found.certificate, compactness=subject.is_compactness)
        commands.append(certify)
    commands.append(report_command(found.run, found.certificate, weights, source))
    return {"commands": [command for command in commands if command], "lines": lines}
