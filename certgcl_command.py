"""The ``certgcl`` script: help and version at once, and everything else once torch is loaded.

It lies beside the package, as ``import certgcl`` loads torch and PyG: the models that are read are held against the
functions of both as they were at that moment, so that it cannot wait.
"""

import json
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "train": "Train a contrastive method on a graph, evaluate it by the protocol of the graph, and keep all in a run "
             "folder.",
    "evaluate": "Evaluate trained runs, or embeddings of any origin, by logistic regression on frozen embeddings.",
    "certify": "Certify the nodes of a graph, shard by shard.",
    "merge": "Check that all shards of a folder are there and whole, and join them to certificate.npz.",
    "verify": "Check that a certificate is of this encoder and graph, and that what it says of them is right.",
    "audit": "Look for admissible views in which a node falls below its bound.",
    "report": "Write a certificate or a run as one HTML page, which needs no network.",
    "datasets": "List the graphs that --dataset knows, and say where their files are; those without are downloaded "
                "when needed.",
    "demo": "Train GRACE on scikit-learn's digits with and without the certified regularizer, certify both, and "
            "compare.",
    "explore": "Train GRACE on a small bundled graph, certify it, and open the report in the browser: less than a "
               "minute.",
    "reproduce": "Redraw the paper's experiments, for its score and for the certified bound.",
}
"""The first line of each command's help, which the commands themselves have too."""

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # of click, or of typer's own copy of it
_LIGHT: tuple[list[str], ...] = ([], ["-h"], ["--help"], ["--version"])


class Commands(TyperGroup):
    """Commands whose usage errors are JSON too, where ``--json`` is among the arguments."""

    as_json = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        self.as_json = "--json" in args
        with self._told():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with self._told():
            return super().invoke(ctx)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """One JSON object on stdout for wrong usage; the words on stderr and exit code 2 come as always."""
        try:
            yield
        except _USAGE_ERROR as error:
            if self.as_json:
                words = str(getattr(error, "format_message", error.__str__)())
                typer.echo(json.dumps({"error": {"type": "UsageError", "found": words, "remedy": "See --help"}}))
            raise


def new_app() -> typer.Typer:
    """``certgcl`` without its commands."""
    app = typer.Typer(name="certgcl", cls=Commands, no_args_is_help=True, add_completion=False,
                      rich_markup_mode="markdown", pretty_exceptions_show_locals=False,
                      context_settings={"help_option_names": ["-h", "--help"]})

    @app.callback()
    def about(version: bool = typer.Option(False, "--version", is_eager=True, help="Print the version and stop.",
                                           callback=lambda asked: _print_version() if asked else None)) -> None:
        """Certified node compactness for graph contrastive learning.

        Exit codes: 0; 1 for a failure; 2 for wrong usage; 3 if audit finds a violation, or verify something wrong; 130
        after Ctrl-C.
        """

    return app


def main() -> None:
    """The entry point of the ``certgcl`` script."""
    if sys.argv[1:] in _LIGHT:
        _listing()()
    else:
        from certgcl.cli import main as run

        run()


def _listing() -> typer.Typer:
    """All commands by name, none of which can be called."""
    app = new_app()
    for name, about in COMMANDS.items():
        app.command(name, help=about)(lambda: None)
    return app


def _print_version() -> None:
    package = find_spec("certgcl")
    assert package is not None
    assert package.origin is not None
    typer.echo(runpy.run_path(str(Path(package.origin).with_name("_version.py")))["__version__"])
    raise typer.Exit
