"""Runs the checker as a separate program: ``verification/checker``, in a wheel ``certgcl_checker``."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import certgcl
from certgcl.certify.certificate import Certificate
from certgcl.certify.verify import Check
from certgcl.errors import CertificateError
from certgcl.graphs.graph import Graph
from certgcl.runtime.optional_packages import needing

NAME = "bounds"
HOME = Path(certgcl.__file__).parents[1]
PROGRAMS = ("verification.checker", "certgcl_checker")  # in a clone, and as a wheel has it


def prove(
    certificate: Path,
    weights: Path,
    graph: Graph,
    *,
    view: Graph | None = None,
    nodes: list[int] | None = None,
    branches: int = 64,
) -> Check:
    """Prove the bounds of a certificate again, in another process that imports neither torch nor certgcl.

    Args:
        certificate, weights: files of :meth:`Certificate.save` and of ``GraphNetwork.save``.
        nodes: some of the certificate's; all by default.
        branches: edges of each node that may be decided, kept or lost, if a bound is not proved at once.
    """
    program = next((name for name in PROGRAMS if Path(HOME, *name.split("."), "__main__.py").is_file()), None)
    if program is None:
        raise CertificateError(
            f"no checker next to the library in {HOME}",
            "it is a separate program, which comes with the wheel and with the repository",
            "Install certgcl again",
        )
    with needing("proof", "proving bounds"):
        import flint  # noqa: F401 - which the program needs
    Certificate.load(certificate)  # a file that is not a certificate has its own message
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            program,
            str(certificate.absolute()),
            "--weights",
            str(weights.absolute()),
            "--graph",
            _plain(graph, Path(folder, "graph.npz")),
            "--branches",
            str(branches),
            "--json",
        ]
        command += [] if view is None else ["--view", _plain(view, Path(folder, "view.npz"))]
        command += [] if nodes is None else ["--nodes", ",".join(map(str, nodes))]
        ended = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        return Check(NAME, False, ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "not checked")
    found = json.loads(ended.stdout)
    proved = f"{found['proved']} of {found['nodes']} nodes proved by {program}"
    time = f"{1000 * found['seconds'] / found['nodes']:.0f} ms of one core a node"
    if ended.returncode == 0 and not found["failed"]:
        return Check(NAME, True, f"{proved}, {time}: {found['claim']}")
    node, reason = next(iter(found["failed"].items()))
    return Check(NAME, False, f"{proved}; at node {node}: {reason}")


def _plain(graph: Graph, path: Path) -> str:
    """A graph as two arrays."""
    x = graph.x.detach().cpu()
    np.savez(
        path,
        x=(x if x.layout == torch.strided else x.to_dense()).to(torch.float64).numpy(),
        edge_index=graph.edge_index.cpu().numpy(),
    )
    return str(path)
